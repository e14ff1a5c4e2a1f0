"""Copying files."""

import rig
from test_sas import readable


def done(file):
    """The copy's state once it is over."""
    rig.wait_for(lambda: file.get_file_properties().copy.status != "pending", "the copy ends")
    return file.get_file_properties().copy


def test_a_copy_is_independent(share):
    source, target = share.get_file_client("a"), share.get_file_client("b")
    source.upload_file(rig.noise(1_000_000), metadata={"k": "v"})
    started = target.start_copy_from_url(source.url)
    assert started["copy_id"] and started["copy_status"] in ("success", "pending")
    found = done(target)
    assert found.status == "success" and found.id == started["copy_id"] and found.source == source.url
    source.upload_range(b"changed", 0, 7)
    assert target.download_file().readall() == rig.noise(1_000_000)
    assert target.get_file_properties().metadata == {"k": "v"}


def test_a_copy_replaces(share):
    for name in ("a", "b"):
        share.get_file_client(name).upload_file(name.encode(), metadata={name: "1"})
    target = share.get_file_client("b")
    target.start_copy_from_url(share.get_file_client("a").url, metadata={"new": "1"})
    assert done(target).status == "success"
    assert target.download_file().readall() == b"a" and target.get_file_properties().metadata == {"new": "1"}


def test_copies_between_shares_and_by_sas(service, share):
    other = service.create_share(rig.unique("s"))
    try:
        share.get_file_client("a").upload_file(b"there")
        target = other.get_file_client("b")
        target.start_copy_from_url(readable(share.share_name, "a"))
        assert done(target).status == "success" and target.download_file().readall() == b"there"
    finally:
        other.delete_share()


def test_copies_that_cannot_be(share):
    target = share.get_file_client("b")
    rig.refused("404 CannotVerifyCopySource", target.start_copy_from_url, f"{rig.URL}/{share.share_name}/none")
    share.get_file_client("a").create_file(1)
    rig.refused("404 ParentNotFound", share.get_file_client("none/b").start_copy_from_url, share.get_file_client("a").url)
    share.get_file_client("r").create_file(1, file_attributes="ReadOnly")
    rig.refused("409 ReadOnlyAttribute", share.get_file_client("r").start_copy_from_url, share.get_file_client("a").url)
    share.get_file_client("r").start_copy_from_url(share.get_file_client("a").url, ignore_read_only=True)


def test_there_is_never_a_copy_to_abort(share):
    target = share.get_file_client("b")
    share.get_file_client("a").create_file(1)
    copy = target.start_copy_from_url(share.get_file_client("a").url)["copy_id"]
    done(target)
    rig.refused("409 NoPendingCopyOperation", target.abort_copy, copy)


def test_attributes_of_a_copy(share):
    share.get_file_client("a").create_file(1, file_attributes="Hidden", file_creation_time="2020-01-02T03:04:05.1234567Z")
    target = share.get_file_client("b")
    target.start_copy_from_url(share.get_file_client("a").url, file_attributes="source", file_creation_time="source")
    done(target)
    headers = rig.call("HEAD", rig.path_of(share.share_name, "b")).headers
    assert headers["x-ms-file-attributes"] == "Hidden"
    assert headers["x-ms-file-creation-time"] == "2020-01-02T03:04:05.1234567Z"
