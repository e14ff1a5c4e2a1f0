"""Operations on leased blobs and containers: which need the id, which may name it, which ignore it."""

import pytest

import rig
from operations import CONTAINERS, READS, WRITES
from rig import A, B, call, path_of

STATES = ["available", "leased", "infinite", "breaking", "broken", "expired"]
ABSENT = "412 LeaseNotPresentWithBlobOperation"
MISSING = "412 LeaseIdMissing"
MISMATCH = "412 LeaseIdMismatchWithBlobOperation"


def expected(is_write, state, given):
    """The general rule of the service; `ok` or the refusal."""
    locked = state in ("leased", "infinite", "breaking")
    if given is None:
        return MISSING if locked and is_write else "ok"
    if not locked:
        return ABSENT
    return "ok" if given == A else MISMATCH


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", [*WRITES, *READS])
def test_blob_operation(in_state, name, state):
    is_write = name in WRITES
    operation = WRITES.get(name) or READS[name]
    # Refusals first: they must leave everything as it was, so that the success at the end shows the state too.
    attempts = sorted([None, A, B], key=lambda given: expected(is_write, state, given) == "ok")
    path = in_state(state, operation.kind)
    before = call("HEAD", path)
    for given in attempts:
        want = expected(is_write, state, given)
        answer = operation.run(path, x_ms_lease_id=given)
        if want == "ok":
            assert answer.status < 300, (given, answer)
        elif operation.method == "HEAD":
            assert (answer.status, answer.headers["x-ms-error-code"]) == (412, want.split()[1])
        else:
            assert answer.verdict == want, f"id {given}"
            assert call("HEAD", path).etag == before.etag
        if want == "ok" and name == "delete":
            assert call("HEAD", path).status == 404
            return
    after = call("HEAD", path).headers["x-ms-lease-state"]
    if is_write and state in ("broken", "expired"):
        assert after == "available", "a write without an id ends what is left of a lease"
    else:
        assert after == ("leased" if state == "infinite" else state)


USES_A_LEASE = ["delete", "get properties", "get metadata", "set metadata", "get acl", "set acl"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", USES_A_LEASE)
def test_container_operation(in_state, name, state):
    locked = state in ("leased", "infinite", "breaking")
    path = in_state(state, "container")

    def want(given):
        if given is None:
            return "412 LeaseIdMissing" if locked and name == "delete" else "ok"
        if not locked:
            return "412 LeaseNotPresentWithContainerOperation"
        return "ok" if given == A else "412 LeaseIdMismatchWithContainerOperation"

    for given in sorted([None, A, B], key=lambda given: want(given) == "ok"):
        answer = CONTAINERS[name].run(path, x_ms_lease_id=given)
        if want(given) == "ok":
            assert answer.status < 300, (given, answer)
        else:
            assert (answer.status, answer.headers["x-ms-error-code"]) == (412, want(given).split()[1]), f"id {given}"
        if want(given) == "ok" and name == "delete":
            return


def test_container_lease_guards_nothing_inside(in_state):
    path = in_state("infinite", "container")
    assert call("PUT", f"{path}/blob", None, {"x-ms-blob-type": "BlockBlob"}, b"x").status == 201
    assert call("GET", path, {"restype": "container", "comp": "list"}).status == 200
    assert call("DELETE", f"{path}/blob").status == 202


def test_leased_blobs_do_not_keep_their_container(service):
    name = rig.unique()
    service.create_container(name)
    rig.put_blob(name, "b")
    rig.bring_to(path_of(name, "b"), "infinite")
    assert call("DELETE", path_of(name), {"restype": "container"}).status == 202


def test_snapshots_are_never_leased(in_state):
    path = in_state("infinite")
    snapshot = call("PUT", path, {"comp": "snapshot"}).headers["x-ms-snapshot"]
    head = call("HEAD", path, {"snapshot": snapshot})
    assert head.status == 200
    assert head.headers.get("x-ms-lease-status") != "locked"
    assert call("DELETE", path, {"snapshot": snapshot}).status == 202


def test_lease_is_judged_before_if_none_match(in_state):
    path = in_state("infinite")
    headers = {"x-ms-blob-type": "BlockBlob", "If-None-Match": "*"}
    assert call("PUT", path, None, headers, b"x").verdict == "412 LeaseIdMissing"
    assert call("PUT", path, None, headers | {"x-ms-lease-id": A}, b"x").verdict == "409 BlobAlreadyExists"


# --- copies ----------------------------------------------------------------------------------------------------------


def copy(path, source, given=None, **headers):
    sent = {"x-ms-copy-source": f"http://{rig.HOST}:{rig.PORT}{source}"} | headers
    return call("PUT", path, None, sent | ({"x-ms-lease-id": given} if given else {}))


def test_copy_needs_an_infinite_lease(container, in_state):
    rig.put_blob(container.container_name, "source")
    source = path_of(container.container_name, "source")
    path = in_state("leased")
    assert copy(path, source).verdict == "412 LeaseIdMissing"
    assert copy(path, source, B).verdict == "412 LeaseIdMismatchWithBlobOperation"
    assert copy(path, source, A).verdict == "412 InfiniteLeaseDurationRequired"


def test_copy_onto_an_infinite_lease(container, in_state):
    rig.put_blob(container.container_name, "source")
    source = path_of(container.container_name, "source")
    path = in_state("infinite")
    assert copy(path, source).verdict == "412 LeaseIdMissing"
    assert copy(path, source, A).status == 202
    assert rig.state_of(path) == ("leased", "locked")


@pytest.mark.parametrize("state", ["broken", "expired"])
def test_copy_onto_an_ended_lease_makes_it_available(container, in_state, state):
    rig.put_blob(container.container_name, "source")
    path = in_state(state)
    assert copy(path, path_of(container.container_name, "source")).status == 202
    assert rig.state_of(path) == ("available", "unlocked")


def test_copy_ignores_the_lease_of_its_source(container, in_state):
    source = in_state("infinite")
    path = path_of(container.container_name, "copy")
    assert copy(path, source).status == 202
    assert rig.state_of(path) == ("available", "unlocked")


def test_copy_with_an_id_onto_nothing(container):
    rig.put_blob(container.container_name, "source")
    answer = copy(path_of(container.container_name, "copy"), path_of(container.container_name, "source"), A)
    assert answer.status == 412, answer


def test_abort_copy_needs_the_id_of_an_infinite_lease(in_state):
    path = in_state("infinite")
    query = {"comp": "copy", "copyid": "44444444-dddd-4ddd-8ddd-444444444444"}
    headers = {"x-ms-copy-action": "abort"}
    assert call("PUT", path, query, headers).verdict == "412 LeaseIdMissing"
    assert call("PUT", path, query, headers | {"x-ms-lease-id": B}).verdict == "412 LeaseIdMismatchWithBlobOperation"
    assert call("PUT", path, query, headers | {"x-ms-lease-id": A}).verdict == "409 NoPendingCopyOperation"
