"""Shared access signatures: account, share, file, stored policies; what each allows, and nothing more."""

import datetime

import pytest
from azure.storage.fileshare import (AccessPolicy, AccountSasPermissions, FileSasPermissions, ResourceTypes, ShareFileClient,
                                     ShareSasPermissions, generate_account_sas, generate_file_sas, generate_share_sas)

import rig


def later(hours=1):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)


def readable(share, path):
    """The URL of a file with a signature that lets anybody read it for an hour."""
    *folders, name = path.split("/")
    sas = generate_file_sas(rig.ACCOUNT, share, [*folders, name], account_key=rig.KEY, expiry=later(),
                            permission=FileSasPermissions(read=True))
    return f"{rig.URL}/{share}/{path}?{sas}"


def account_sas():
    """A signature for everything, for an hour."""
    return generate_account_sas(rig.ACCOUNT, account_key=rig.KEY, expiry=later(),
                                resource_types=ResourceTypes(service=True, container=True, object=True),
                                permission=AccountSasPermissions(read=True, write=True, create=True, delete=True, list=True))


def share_sas(share):
    """A signature for everything in a share, for an hour."""
    return generate_share_sas(rig.ACCOUNT, share, account_key=rig.KEY, expiry=later(),
                              permission=ShareSasPermissions(read=True, write=True, create=True, delete=True, list=True))


def unsigned(method, share, path, sas, query="", headers=None, body=b""):
    return rig.call(method, rig.path_of(share, path), "&".join(part for part in (query, sas) if part), headers, body, sign=False)


CREATE = {"x-ms-type": "file", "x-ms-content-length": 3}
WRITE = {"x-ms-write": "update", "x-ms-range": "bytes=0-2"}


def test_nobody_without_a_signature(share):
    share.get_file_client("a").create_file(1)
    answer = rig.call("GET", rig.path_of(share.share_name, "a"), sign=False)
    assert answer.status in (401, 403, 404), answer
    wrong = rig.call("GET", rig.path_of(share.share_name, "a"), key="AAAA" + rig.KEY[4:])
    assert wrong.verdict == "403 AuthenticationFailed"


@pytest.mark.parametrize("kind", ["share", "file", "account"])
def test_each_kind_of_signature_works(share, kind):
    share.create_directory("d")
    share.get_file_client("d/f").upload_file(b"abc")
    name = share.share_name
    if kind == "share":
        sas = generate_share_sas(rig.ACCOUNT, name, account_key=rig.KEY, expiry=later(),
                                 permission=ShareSasPermissions(read=True, write=True, list=True))
    elif kind == "file":
        sas = generate_file_sas(rig.ACCOUNT, name, ["d", "f"], account_key=rig.KEY, expiry=later(),
                                permission=FileSasPermissions(read=True, write=True))
    else:
        sas = generate_account_sas(rig.ACCOUNT, account_key=rig.KEY, expiry=later(),
                                   resource_types=ResourceTypes(service=True, container=True, object=True),
                                   permission=AccountSasPermissions(read=True, write=True, list=True))
    client = ShareFileClient(rig.URL, name, "d/f", credential=sas)
    client.upload_range(b"xyz", 0, 3)
    assert client.download_file().readall() == b"xyz"


def test_permissions_are_what_they_say(share):
    share.get_file_client("f").upload_file(b"abc")
    name = share.share_name

    def sas(**permission):
        return generate_share_sas(rig.ACCOUNT, name, account_key=rig.KEY, expiry=later(), permission=ShareSasPermissions(**permission))

    refused = "403 AuthorizationPermissionMismatch"
    table = [
        ("GET", "f", "", None, b"", "read"),
        ("PUT", "f", "comp=range", WRITE, b"xyz", "write"),
        ("GET", "", "restype=directory&comp=list", None, b"", "list"),
        ("PUT", "new", "", CREATE, b"", "create"),
        ("DELETE", "f", "", None, b"", "delete"),
    ]
    for method, path, query, headers, body, needed in table:
        for given in ("read", "write", "list", "create", "delete"):
            # Writing includes making new files.
            if given == needed or (needed == "create" and given == "write"):
                continue
            answer = unsigned(method, name, path, sas(**{given: True}), query, headers, body)
            assert answer.verdict == refused, (given, needed, answer)
    for method, path, query, headers, body, needed in table:
        answer = unsigned(method, name, path, sas(**{needed: True}), query, headers, body)
        assert answer.status < 300, (needed, answer)


def test_a_file_signature_is_for_one_file(share):
    for name in ("a", "b"):
        share.get_file_client(name).upload_file(b"abc")
    sas = generate_file_sas(rig.ACCOUNT, share.share_name, ["a"], account_key=rig.KEY, expiry=later(),
                            permission=FileSasPermissions(read=True))
    assert unsigned("GET", share.share_name, "a", sas).status == 200
    assert unsigned("GET", share.share_name, "b", sas).status == 403


def test_signatures_end(share):
    share.get_file_client("a").upload_file(b"abc")
    def sas(expiry, start=None):
        return generate_share_sas(rig.ACCOUNT, share.share_name, account_key=rig.KEY, expiry=expiry, start=start,
                                  permission=ShareSasPermissions(read=True))
    assert unsigned("GET", share.share_name, "a", sas(later(-1))).verdict == "403 AuthenticationFailed"
    assert unsigned("GET", share.share_name, "a", sas(later(2), later(1))).verdict == "403 AuthenticationFailed"
    good = sas(later())
    assert unsigned("GET", share.share_name, "a", good).status == 200
    assert unsigned("GET", share.share_name, "a", good.replace("sp=r", "sp=rw")).verdict == "403 AuthenticationFailed"


def test_stored_policies_can_be_taken_back(share):
    share.get_file_client("a").upload_file(b"abc")
    share.set_share_access_policy({"reader": AccessPolicy(permission=ShareSasPermissions(read=True), expiry=later())})
    sas = generate_share_sas(rig.ACCOUNT, share.share_name, account_key=rig.KEY, policy_id="reader")
    assert unsigned("GET", share.share_name, "a", sas).status == 200
    assert unsigned("DELETE", share.share_name, "a", sas).status == 403
    share.set_share_access_policy({})
    assert unsigned("GET", share.share_name, "a", sas).status == 403


def test_signatures_of_the_blob_service_are_not_for_files(share):
    from azure.storage.blob import BlobSasPermissions, generate_blob_sas
    share.get_file_client("a").upload_file(b"abc")
    sas = generate_blob_sas(rig.ACCOUNT, share.share_name, "a", account_key=rig.KEY, expiry=later(),
                            permission=BlobSasPermissions(read=True))
    assert unsigned("GET", share.share_name, "a", sas).status == 403
