"""Who may do what: SharedKey, clocks, anonymous readers of public containers."""

import email.utils
import time

import pytest
from azure.storage.blob import PublicAccess

import rig
from rig import ACCOUNT, call, path_of

WRONG_KEY = "A" * 86 + "=="


@pytest.fixture
def path(container):
    container.upload_blob("b", b"x")
    return path_of(container.container_name, "b")


def test_right_key(path):
    assert call("GET", path).status == 200


def test_wrong_key(path):
    answer = call("GET", path, key=WRONG_KEY)
    assert answer.verdict == rig.NOT_AUTHENTICATED
    assert call("PUT", path, None, {"x-ms-blob-type": "BlockBlob"}, b"y", key=WRONG_KEY).verdict == rig.NOT_AUTHENTICATED
    assert call("DELETE", path, key=WRONG_KEY).status == 403
    assert call("GET", path).body == b"x"


def test_code_of_a_wrong_signature(path):
    assert call("GET", path, key=WRONG_KEY).verdict == "403 AuthenticationFailed"


def test_refusal_does_not_tell_the_right_signature(path):
    answer = call("GET", path, key=WRONG_KEY)
    right = rig.signature(rig.string_to_sign("GET", path, [], {"x-ms-date": rig.now(), "x-ms-version": rig.VERSION}))
    assert right.encode() not in answer.body


@pytest.mark.parametrize("minutes", [-20, 20])
def test_clock_skew(path, minutes):
    date = email.utils.formatdate(time.time() + minutes * 60, usegmt=True)
    assert call("GET", path, date=date).verdict == rig.NOT_AUTHENTICATED


@pytest.mark.parametrize("minutes", [-10, 10])
def test_small_clock_skew(path, minutes):
    date = email.utils.formatdate(time.time() + minutes * 60, usegmt=True)
    assert call("GET", path, date=date).status == 200


def test_date_is_needed(path):
    headers = {"x-ms-version": rig.VERSION}
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{rig.signature(rig.string_to_sign('GET', path, [], headers))}"
    assert rig.exchange("GET", path, headers).status == 403


def test_plain_date_header(path):
    headers = {"x-ms-version": rig.VERSION, "Date": rig.now()}
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{rig.signature(rig.string_to_sign('GET', path, [], headers))}"
    assert rig.exchange("GET", path, headers).status == 200


@pytest.mark.parametrize("value", [
    "", "SharedKey", "SharedKey x", f"SharedKey {ACCOUNT}:", f"SharedKey {ACCOUNT}:!!!", "Bearer abc", "Basic abc",
    f"SharedKey nobody:{'A' * 43}=", f"SharedKey {ACCOUNT}:{'A' * 43}=",
])
def test_bad_authorization_headers(path, value):
    answer = rig.exchange("GET", path, {"x-ms-date": rig.now(), "x-ms-version": rig.VERSION, "Authorization": value})
    assert answer.status in (400, 401, 403), answer


@pytest.mark.parametrize("change", ["header", "query", "method", "path"])
def test_signature_covers_the_request(container, path, change):
    headers = {"x-ms-date": rig.now(), "x-ms-version": rig.VERSION}
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{rig.signature(rig.string_to_sign('GET', path, [], headers))}"
    method, target = "GET", path
    if change == "header":
        headers["x-ms-range"] = "bytes=0-0"
    elif change == "query":
        target += "?comp=metadata"
    elif change == "method":
        method = "DELETE"
    else:
        container.upload_blob("c", b"y")
        target = path[:-1] + "c"
    assert rig.exchange(method, target, headers).verdict == rig.NOT_AUTHENTICATED
    assert call("GET", path).body == b"x"


def test_unknown_account(path):
    answer = call("GET", path.replace(ACCOUNT, "nobodysaccount", 1))
    assert answer.status in (400, 403, 404), answer


# --- anonymous -------------------------------------------------------------------------------------------------------


def anonymous(method, path, query=None, headers=None, body=b""):
    return call(method, path, query, headers, body, sign=False)


# The documentation has several answers to strangers, by the way the account is set up; none of them is a success.
REFUSALS = (401, 403, 404, 409)
LIST = {"restype": "container", "comp": "list"}


@pytest.mark.parametrize(("access", "blob", "listing"), [
    (None, False, False), (PublicAccess.BLOB, True, False), (PublicAccess.CONTAINER, True, True),
])
def test_public_access(container, path, access, blob, listing):
    whole = path_of(container.container_name)
    container.set_container_access_policy({}, public_access=access)
    for allowed, method, target, query in [
        (blob, "GET", path, None), (blob, "HEAD", path, None), (blob, "GET", path, {"comp": "metadata"}),
        (listing, "GET", whole, LIST), (listing, "HEAD", whole, {"restype": "container"}),
    ]:
        answer = anonymous(method, target, query)
        assert answer.status in ((200,) if allowed else REFUSALS), (method, target, query, answer)


def test_public_is_never_writable(container, path):
    container.set_container_access_policy({}, public_access=PublicAccess.CONTAINER)
    whole = path_of(container.container_name)
    for method, target, query, headers in [
        ("PUT", path, None, {"x-ms-blob-type": "BlockBlob"}), ("DELETE", path, None, {}),
        ("PUT", path, {"comp": "metadata"}, {}), ("PUT", path, {"comp": "lease"}, {"x-ms-lease-action": "break"}),
        ("DELETE", whole, {"restype": "container"}, {}), ("PUT", whole, {"restype": "container", "comp": "acl"}, {}),
        ("PUT", path_of(container.container_name, "new"), None, {"x-ms-blob-type": "BlockBlob"}),
        ("GET", path_of(), {"comp": "list"}, {}),
    ]:
        answer = anonymous(method, target, query, headers)
        assert answer.status in REFUSALS, (method, target, query, answer)
    assert call("GET", path).body == b"x"


def test_strangers_do_not_see_the_policies(container, path):
    container.set_container_access_policy({}, public_access=PublicAccess.CONTAINER)
    answer = anonymous("GET", path_of(container.container_name), {"restype": "container", "comp": "acl"})
    assert answer.status in REFUSALS, answer


def test_access_ends_when_it_is_taken_back(container, path):
    container.set_container_access_policy({}, public_access=PublicAccess.BLOB)
    assert anonymous("GET", path).status == 200
    container.set_container_access_policy({})
    assert anonymous("GET", path).status != 200


def test_wrong_key_is_refused_on_a_public_blob(container, path):
    container.set_container_access_policy({}, public_access=PublicAccess.BLOB)
    assert call("GET", path, key=WRONG_KEY).status == 403
