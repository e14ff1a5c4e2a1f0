"""Containers: life, names, metadata, stored policies, listing of the account."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.storage.blob import AccessPolicy, ContainerSasPermissions, PublicAccess

import rig
from rig import call, path_of, refused


def test_life(service):
    name = rig.unique()
    client = service.get_container_client(name)
    assert not client.exists()
    created = client.create_container(metadata={"colour": "red"})
    assert created["etag"] and created["last_modified"]
    refused("409 ContainerAlreadyExists", client.create_container)
    properties = client.get_container_properties()
    assert (properties.name, properties.metadata, properties.public_access) == (name, {"colour": "red"}, None)
    assert properties.etag == created["etag"]
    assert not properties.has_immutability_policy and not properties.has_legal_hold
    client.delete_container()
    assert not client.exists()
    for action in (client.get_container_properties, client.delete_container, client.get_container_access_policy):
        refused("404 ContainerNotFound", action)
    refused("404 ContainerNotFound", client.list_blobs)
    refused("404 ContainerNotFound", client.upload_blob, "b", b"x")


@pytest.mark.parametrize("name", ["ab", "a" * 64, "Upper", "under_score", "-start", "end-", "dou--ble"])
def test_bad_names(name):
    answer = call("PUT", path_of(name), {"restype": "container"})
    assert answer.status == 400, answer
    assert answer.code in ("InvalidResourceName", "OutOfRangeInput"), answer


def test_root_container(service):
    client = service.create_container("$root")
    client.upload_blob("at-the-root", b"x")
    assert client.download_blob("at-the-root").readall() == b"x"
    assert "$root" in [found.name for found in service.list_containers()]
    client.delete_container()


def test_metadata_is_replaced(container):
    before = container.get_container_properties()
    container.set_container_metadata({"a": "1", "b": "2"})
    container.set_container_metadata({"c": "3"})
    after = container.get_container_properties()
    assert after.metadata == {"c": "3"} and after.etag != before.etag
    container.set_container_metadata(None)
    assert container.get_container_properties().metadata == {}


@pytest.mark.parametrize("header", ["x-ms-meta-", "x-ms-meta-1a", "x-ms-meta-a-b"])
def test_bad_metadata_names(container, header):
    path = path_of(container.container_name)
    answer = call("PUT", path, {"restype": "container", "comp": "metadata"}, {header: "v"})
    assert answer.status == 400, answer


def test_access_policies(container):
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    policy = AccessPolicy(ContainerSasPermissions(read=True, list=True), expiry=start + timedelta(days=900), start=start)
    container.set_container_access_policy({"readers": policy}, public_access=PublicAccess.BLOB)
    found = container.get_container_access_policy()
    assert found["public_access"] == "blob"
    by_id = {entry.id: entry.access_policy for entry in found["signed_identifiers"]}
    assert set(by_id) == {"readers"}
    assert sorted(by_id["readers"].permission) == ["l", "r"]
    assert "2026-01-01" in str(by_id["readers"].start)
    assert container.get_container_properties().public_access == "blob"
    container.set_container_access_policy({})
    found = container.get_container_access_policy()
    assert found["signed_identifiers"] == [] and found["public_access"] is None


def test_policy_without_fields(container):
    """The SAS then brings what the policy leaves open."""
    container.set_container_access_policy({"open": None})
    [found] = container.get_container_access_policy()["signed_identifiers"]
    assert found.id == "open"


def test_at_most_five_policies(container):
    ids = "".join(f"<SignedIdentifier><Id>p{i}</Id></SignedIdentifier>" for i in range(6))
    body = f"<SignedIdentifiers>{ids}</SignedIdentifiers>".encode()
    answer = call("PUT", path_of(container.container_name), {"restype": "container", "comp": "acl"}, {}, body)
    assert answer.status == 400, answer


def test_bad_public_access(container):
    answer = call("PUT", path_of(container.container_name), {"restype": "container", "comp": "acl"},
                  {"x-ms-blob-public-access": "everything"})
    assert answer.verdict == "400 InvalidHeaderValue"


def test_listing_of_the_account(service):
    prefix = rig.unique("acct")
    names = [f"{prefix}-{number:02}" for number in range(7)]
    for name in names:
        service.create_container(name, metadata={"own": name.replace("-", "_")})
    try:
        assert [found.name for found in service.list_containers(name_starts_with=prefix)] == names
        pages = [[found.name for found in page]
                 for page in service.list_containers(name_starts_with=prefix, results_per_page=3).by_page()]
        assert pages == [names[:3], names[3:6], names[6:]]
        first = next(iter(service.list_containers(name_starts_with=prefix, include_metadata=True)))
        assert first.metadata == {"own": names[0].replace("-", "_")}
        assert first.etag and first.last_modified and first.lease.state == "available"
        pager = service.list_containers(name_starts_with=prefix, results_per_page=4).by_page()
        next(pager)
        rest = service.list_containers(name_starts_with=prefix).by_page(continuation_token=pager.continuation_token)
        assert [found.name for page in rest for found in page] == names[4:]
    finally:
        for name in names:
            service.delete_container(name)


def test_recreate_is_empty(service):
    name = rig.unique()
    service.create_container(name).upload_blob("b", b"x")
    service.delete_container(name)
    again = service.create_container(name)
    assert list(again.list_blobs()) == []
    again.delete_container()
