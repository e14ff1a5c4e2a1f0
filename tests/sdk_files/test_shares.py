"""Shares: making and removing them, properties, metadata, quota, policies, permissions, leases."""

import datetime

from azure.storage.fileshare import AccessPolicy, ShareLeaseClient, ShareSasPermissions

import rig


def test_a_share_lives_and_dies(service):
    share = service.get_share_client(rig.unique("s"))
    rig.refused("404 ShareNotFound", share.get_share_properties)
    made = share.create_share(metadata={"key": "value"}, quota=7)
    found = share.get_share_properties()
    assert found.metadata == {"key": "value"} and found.quota == 7 and found.etag == made["etag"]
    assert found.protocols in (None, ["SMB"]), found.protocols
    rig.refused("409 ShareAlreadyExists", share.create_share)
    share.delete_share()
    rig.refused("404 ShareNotFound", share.delete_share)
    rig.refused("404 ShareNotFound", share.get_directory_client("a").create_directory)


def test_names_of_shares():
    for name in ("ab", "Abc", "a--b", "-abc", "abc-", "a_b", "x" * 64):
        answer = rig.call("PUT", rig.path_of(name), {"restype": "share"})
        assert answer.status == 400 and answer.code in ("InvalidResourceName", "OutOfRangeInput"), (name, answer)


def test_metadata_is_replaced(share):
    share.set_share_metadata({"a": "1", "b": "2"})
    share.set_share_metadata({"c": "3"})
    assert share.get_share_properties().metadata == {"c": "3"}
    answer = rig.call("PUT", rig.path_of(share.share_name), {"restype": "share", "comp": "metadata"}, {"x-ms-meta-": "x"})
    assert answer.verdict == "400 EmptyMetadataKey", answer
    assert share.get_share_properties().metadata == {"c": "3"}


def test_quota(share):
    before = share.get_share_properties().etag
    share.set_share_quota(3)
    assert share.get_share_properties().quota == 3 and share.get_share_properties().etag != before
    for quota in ("0", "-1", "x", "102401000"):
        answer = rig.call("PUT", rig.path_of(share.share_name), {"restype": "share", "comp": "properties"},
                          {"x-ms-share-quota": quota})
        assert answer.status == 400, (quota, answer)
    assert share.get_share_properties().quota == 3


def test_stats_count_what_is_there(share):
    assert share.get_share_stats() == 0
    share.get_file_client("a").upload_file(rig.noise(100_000))
    answer = rig.call("GET", rig.path_of(share.share_name), {"restype": "share", "comp": "stats"})
    assert int(answer.xml().findtext("ShareUsageBytes")) == 100_000


def test_stored_policies(share):
    start = datetime.datetime(2026, 1, 2, 3, 4, 5)
    policy = AccessPolicy(permission=ShareSasPermissions(read=True, list=True), expiry=start.replace(year=2036), start=start)
    share.set_share_access_policy({"one": policy, "two": AccessPolicy(permission="rw", expiry=start.replace(year=2036))})
    found = share.get_share_access_policy()["signed_identifiers"]
    assert sorted(one.id for one in found) == ["one", "two"]
    assert next(one for one in found if one.id == "one").access_policy.permission == "rl"
    share.set_share_access_policy({})
    assert share.get_share_access_policy()["signed_identifiers"] == []


def test_permissions_are_kept_under_keys(share):
    sddl = "O:S-1-5-21-2127521184-1604012920-1887927527-21560751G:S-1-5-21-2127521184-1604012920-1887927527-513D:AI(A;;FA;;;SY)"
    key = share.create_permission_for_share(sddl)
    assert share.create_permission_for_share(sddl) == key, "the same permission has the same key"
    assert share.get_permission_for_share(key) == sddl
    rig.refused("400 FileInvalidPermissionKey", share.get_permission_for_share, "1234567890*1234567890")
    made = share.get_file_client("a").create_file(1, permission_key=key)
    assert made["file_permission_key"] == key
    assert share.get_file_client("a").get_file_properties()["permission_key"] == key
    inline = share.get_file_client("b").create_file(1, file_permission=sddl)
    assert inline["file_permission_key"] == key


def test_the_lease_of_a_share_guards_its_deletion(share):
    lease = share.acquire_lease(lease_duration=15, lease_id=rig.A)
    assert share.get_share_properties().lease.state == "leased"
    rig.refused("409 LeaseAlreadyPresent", share.acquire_lease, lease_id=rig.B)
    lease.renew()
    lease.change(proposed_lease_id=rig.B)
    rig.refused("412 LeaseIdMissing", share.delete_share)
    share.get_file_client("a").create_file(1)
    assert ShareLeaseClient(share, rig.B).break_lease(lease_break_period=0) == 0
    assert share.get_share_properties().lease.state == "broken"
    share.delete_share()


def test_nfs_shares_are_not_offered(service):
    answer = rig.call("PUT", rig.path_of(rig.unique("s")), {"restype": "share"}, {"x-ms-enabled-protocols": "NFS"})
    assert answer.status >= 400 and answer.code, answer
