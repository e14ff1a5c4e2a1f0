"""Shared access signatures: of the account, of containers, blobs and snapshots, by stored policies."""

import urllib.parse
from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import (AccessPolicy, AccountSasPermissions, BlobSasPermissions, ContainerSasPermissions,
                                ResourceTypes, Services, generate_account_sas, generate_blob_sas, generate_container_sas)

import rig
from rig import ACCOUNT, KEY, call, path_of

WRONG_KEY = "A" * 86 + "=="
PUT = {"x-ms-blob-type": "BlockBlob"}
TAGS = b"<Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>"


def later(**delta):
    return datetime.now(timezone.utc) + timedelta(**delta)


def blob_sas(container, permission="r", name="b", **options):
    options.setdefault("expiry", later(hours=1))
    options.setdefault("account_key", KEY)
    if permission is not None:
        options["permission"] = BlobSasPermissions.from_string(permission)
    return generate_blob_sas(ACCOUNT, container.container_name, name, **options)


def container_sas(container, permission="r", **options):
    options.setdefault("expiry", later(hours=1))
    options.setdefault("account_key", KEY)
    if permission is not None:
        options["permission"] = ContainerSasPermissions.from_string(permission)
    return generate_container_sas(ACCOUNT, container.container_name, **options)


def account_sas(permission="r", types="sco", **options):
    options.setdefault("expiry", later(hours=1))
    return generate_account_sas(ACCOUNT, KEY, resource_types=ResourceTypes.from_string(types),
                                permission=AccountSasPermissions.from_string(permission), services=Services(blob=True),
                                **options)


def ask(method, path, sas, query="", headers=None, body=b""):
    return call(method, path, f"{query}&{sas}" if query else sas, headers, body, sign=False)


@pytest.fixture
def path(container):
    container.upload_blob("b", b"x", tags={"t": "1"})
    return path_of(container.container_name, "b")


# --- permissions -----------------------------------------------------------------------------------------------------

LEASE = {"x-ms-lease-duration": "15", "x-ms-lease-action": "acquire"}
BREAK = {"x-ms-lease-action": "break"}
# operation on an existing blob: permissions of which one is enough
BLOB_OPERATIONS = {
    "get": (("GET", "", {}, b""), "r"),
    "head": (("HEAD", "", {}, b""), "r"),
    "overwrite": (("PUT", "", PUT, b"y"), "w"),
    "put block": (("PUT", "comp=block&blockid=YQ==", {}, b"y"), "w"),
    "set metadata": (("PUT", "comp=metadata", {}, b""), "w"),
    "set properties": (("PUT", "comp=properties", {}, b""), "w"),
    "lease": (("PUT", "comp=lease", LEASE, b""), "w"),
    "break lease": (("PUT", "comp=lease", BREAK, b""), "wd"),
    "snapshot": (("PUT", "comp=snapshot", {}, b""), "cw"),
    "get tags": (("GET", "comp=tags", {}, b""), "t"),
    "set tags": (("PUT", "comp=tags", {}, TAGS), "t"),
    "delete": (("DELETE", "", {}, b""), "d"),
}


@pytest.mark.parametrize("kind", ["blob", "container"])
@pytest.mark.parametrize("name", BLOB_OPERATIONS)
def test_permissions(container, path, name, kind):
    (method, query, headers, body), enough = BLOB_OPERATIONS[name]
    make = blob_sas if kind == "blob" else container_sas
    if name == "break lease":
        rig.bring_to(path, "infinite")
    others = "".join(letter for letter in "racwdt" if letter not in enough)
    refusal = ask(method, path, make(container, others), query, headers, body)
    assert refusal.status == 403, refusal
    if name != "overwrite":
        assert refusal.headers["x-ms-error-code"] == "AuthorizationPermissionMismatch"
    assert call("GET", path).body == b"x"
    allowed = ask(method, path, make(container, enough[0]), query, headers, body)
    assert allowed.status < 300, allowed


def test_create_only(container):
    """`c` makes new blobs and never replaces one."""
    sas = container_sas(container, "c")
    path = path_of(container.container_name, "new")
    assert ask("PUT", path, sas, "", PUT, b"1").status == 201
    assert ask("PUT", path, sas, "", PUT, b"2").status == 403
    assert call("GET", path).body == b"1"


def test_add_only(container):
    rig.put_blob(container.container_name, "log", kind="AppendBlob")
    path = path_of(container.container_name, "log")
    assert ask("PUT", path, blob_sas(container, "a", "log"), "comp=appendblock", {}, b"x").status == 201
    assert ask("PUT", path, blob_sas(container, "r", "log"), "comp=appendblock", {}, b"x").status == 403


def test_list_permission(container, path):
    whole = path_of(container.container_name)
    assert ask("GET", whole, container_sas(container, "l"), "restype=container&comp=list").status == 200
    assert ask("GET", whole, container_sas(container, "r"), "restype=container&comp=list").status == 403


def test_containers_cannot_be_managed_by_a_service_sas(container):
    whole = path_of(container.container_name)
    everything = container_sas(container, "racwdl")
    for method, query in [("DELETE", "restype=container"), ("PUT", "restype=container&comp=acl"),
                          ("PUT", "restype=container&comp=metadata"), ("HEAD", "restype=container")]:
        assert ask(method, whole, everything, query).status == 403, (method, query)


def test_sas_opens_only_its_own(service, container, path):
    container.upload_blob("other", b"y")
    other = path_of(container.container_name, "other")
    assert ask("GET", other, blob_sas(container)).verdict == rig.NOT_AUTHENTICATED
    elsewhere = service.create_container(rig.unique())
    try:
        elsewhere.upload_blob("b", b"z")
        assert ask("GET", path_of(elsewhere.container_name, "b"), container_sas(container)).status == 403
    finally:
        elsewhere.delete_container()


def test_names_with_special_characters(container):
    name = "a b/ü+c%d"
    container.upload_blob(name, b"x")
    assert ask("GET", path_of(container.container_name, name), blob_sas(container, name=name)).body == b"x"


# --- signature and time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [blob_sas, container_sas])
def test_wrong_key(container, path, make):
    assert ask("GET", path, make(container, account_key=WRONG_KEY)).verdict == rig.NOT_AUTHENTICATED


@pytest.mark.parametrize("field", ["sp", "se", "sv", "sr", "sig"])
def test_changed_field(container, path, field):
    fields = dict(urllib.parse.parse_qsl(blob_sas(container)))
    fields[field] = {"sp": "rw", "se": "2099-01-01T00:00:00Z", "sv": "2020-12-06", "sr": "c",
                     "sig": "A" * 43 + "="}[field]
    assert ask("GET", path, urllib.parse.urlencode(fields)).verdict == rig.NOT_AUTHENTICATED


@pytest.mark.parametrize("field", ["sp", "se", "sv", "sr", "sig"])
def test_missing_field(container, path, field):
    fields = dict(urllib.parse.parse_qsl(blob_sas(container)))
    del fields[field]
    assert ask("GET", path, urllib.parse.urlencode(fields)).status in (401, 403, 404, 409)


@pytest.mark.parametrize("make", [blob_sas, container_sas])
def test_time(container, path, make):
    assert ask("GET", path, make(container, expiry=later(minutes=-1))).verdict == rig.NOT_AUTHENTICATED
    assert ask("GET", path, make(container, start=later(minutes=30))).verdict == rig.NOT_AUTHENTICATED
    assert ask("GET", path, make(container, start=later(minutes=-30))).status == 200


# --- address and protocol --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ip", "allowed"), [
    ("127.0.0.1", True), ("127.0.0.0-127.0.0.9", True), ("10.0.0.1", False), ("127.0.0.2-127.0.0.9", False),
])
def test_address(container, path, ip, allowed):
    for sas in (blob_sas(container, ip=ip), account_sas(ip=ip)):
        answer = ask("GET", path, sas)
        assert answer.verdict == ("200" if allowed else "403 AuthorizationSourceIPMismatch")


@pytest.mark.parametrize(("protocol", "allowed"), [("https,http", True), ("https", False)])
def test_protocol(container, path, protocol, allowed):
    for sas in (blob_sas(container, protocol=protocol), account_sas(protocol=protocol)):
        answer = ask("GET", path, sas)
        assert answer.verdict == ("200" if allowed else "403 AuthorizationProtocolMismatch")


# --- headers of the answer -------------------------------------------------------------------------------------------


def test_response_headers_of_the_sas(container, path):
    sas = blob_sas(container, cache_control="no-store", content_disposition="attachment", content_encoding="identity",
                   content_language="fr", content_type="text/sas")
    answer = ask("GET", path, sas)
    assert (answer.headers["Cache-Control"], answer.headers["Content-Disposition"], answer.headers["Content-Encoding"],
            answer.headers["Content-Language"], answer.headers["Content-Type"]) == \
        ("no-store", "attachment", "identity", "fr", "text/sas")
    assert call("GET", path).headers["Content-Type"] != "text/sas"


# --- stored policies -------------------------------------------------------------------------------------------------


def test_stored_policy(container, path):
    policy = AccessPolicy(permission="r", expiry=later(hours=1), start=later(hours=-1))
    container.set_container_access_policy({"readers": policy})
    sas = generate_blob_sas(ACCOUNT, container.container_name, "b", account_key=KEY, policy_id="readers")
    assert ask("GET", path, sas).status == 200
    assert ask("DELETE", path, sas).verdict == "403 AuthorizationPermissionMismatch"
    container.set_container_access_policy({})
    assert ask("GET", path, sas).verdict == rig.NOT_AUTHENTICATED, "removing the policy revokes its signatures"


def test_expired_policy(container, path):
    container.set_container_access_policy({"p": AccessPolicy(permission="r", expiry=later(hours=-1))})
    sas = generate_container_sas(ACCOUNT, container.container_name, account_key=KEY, policy_id="p")
    assert ask("GET", path, sas).verdict == rig.NOT_AUTHENTICATED


def test_policy_leaves_fields_to_the_sas(container, path):
    container.set_container_access_policy({"p": AccessPolicy(permission="r")})
    sas = generate_container_sas(ACCOUNT, container.container_name, account_key=KEY, policy_id="p", expiry=later(hours=1))
    assert ask("GET", path, sas).status == 200
    sas = generate_container_sas(ACCOUNT, container.container_name, account_key=KEY, policy_id="p", expiry=later(hours=-1))
    assert ask("GET", path, sas).status == 403


# --- account SAS -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("types", "level"), [("s", "service"), ("c", "container"), ("o", "object")])
def test_resource_types(container, path, types, level):
    requests = {"service": (path_of(), "comp=list"), "container": (path_of(container.container_name),
                                                                   "restype=container&comp=list"), "object": (path, "")}
    for name, (target, query) in requests.items():
        answer = ask("GET", target, account_sas("rl", types), query)
        expected = "200" if name == level else "403 AuthorizationResourceTypeMismatch"
        assert answer.verdict == expected, name


@pytest.mark.parametrize(("permission", "method", "query", "headers", "body"), [
    ("r", "GET", "", {}, b""), ("w", "PUT", "", PUT, b"y"), ("d", "DELETE", "", {}, b""), ("t", "GET", "comp=tags", {}, b""),
])
def test_account_permissions(path, permission, method, query, headers, body):
    others = "rwdlacupt".replace(permission, "")
    refusal = ask(method, path, account_sas(others), query, headers, body)
    assert refusal.status == 403, refusal
    assert ask(method, path, account_sas(permission), query, headers, body).status < 300


def test_account_sas_makes_and_removes_containers():
    name = rig.unique()
    assert ask("PUT", path_of(name), account_sas("c"), "restype=container").status == 201
    assert ask("DELETE", path_of(name), account_sas("r"), "restype=container").status == 403
    assert ask("DELETE", path_of(name), account_sas("d"), "restype=container").status == 202


def test_account_sas_for_another_service(path):
    sas = generate_account_sas(ACCOUNT, KEY, ResourceTypes(object=True), AccountSasPermissions(read=True), later(hours=1),
                               services=Services(queue=True))
    assert ask("GET", path, sas).verdict == "403 AuthorizationServiceMismatch"


def test_account_sas_time(path):
    assert ask("GET", path, account_sas(expiry=later(minutes=-1))).verdict == rig.NOT_AUTHENTICATED
    assert ask("GET", path, account_sas(start=later(minutes=30))).verdict == rig.NOT_AUTHENTICATED


def test_sdk_with_a_sas(container, path):
    client = rig.service(credential=account_sas("rwdlc"))
    blob = client.get_blob_client(container.container_name, "b")
    blob.upload_blob(b"by sas", overwrite=True)
    assert blob.download_blob().readall() == b"by sas"
    assert container.container_name in [found.name for found in client.list_containers()]
