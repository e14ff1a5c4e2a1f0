"""Copies: asynchronous, synchronous, aborted; what is copied and what may be copied."""

import pytest
from azure.storage.blob import StandardBlobTier

import rig
from rig import call, path_of, refused


@pytest.fixture
def source(container):
    blob = container.upload_blob("source", b"0123456789", metadata={"a": "1"}, tags={"t": "x"})
    blob.set_http_headers(rig.settings("text/source"))
    return blob


@pytest.mark.parametrize("sync", [False, True])
def test_copy(container, source, sync):
    copy = container.get_blob_client("copy")
    options = {"requires_sync": True} if sync else {}
    answer = copy.start_copy_from_url(rig.readable(container.container_name, "source"), **options)
    assert answer["copy_status"] == "success" and answer["copy_id"]
    assert copy.download_blob().readall() == b"0123456789"
    properties = copy.get_blob_properties()
    assert (properties.metadata, properties.content_settings.content_type) == ({"a": "1"}, "text/source")
    assert properties.etag != source.get_blob_properties().etag
    if not sync:
        assert (properties.copy.id, properties.copy.status) == (answer["copy_id"], "success")
        assert properties.copy.progress == "10/10" and "source" in properties.copy.source


def test_copy_with_own_metadata_tags_and_tier(container, source):
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(source.url, metadata={"b": "2"}, tags={"u": "y"}, standard_blob_tier=StandardBlobTier.COOL)
    properties = copy.get_blob_properties()
    assert (properties.metadata, properties.blob_tier) == ({"b": "2"}, "Cool")
    assert copy.get_blob_tags() == {"u": "y"}


def test_copy_replaces(container, source):
    copy = container.upload_blob("copy", b"old", metadata={"old": "1"})
    before = copy.get_blob_properties().etag
    copy.start_copy_from_url(source.url)
    after = copy.get_blob_properties()
    assert after.etag != before and after.metadata == {"a": "1"}


def test_copy_onto_itself(source):
    source.start_copy_from_url(source.url, metadata={"new": "1"})
    assert source.download_blob().readall() == b"0123456789"
    assert source.get_blob_properties().metadata == {"new": "1"}


def test_copies_are_apart(container, source):
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(source.url)
    source.upload_blob(b"changed", overwrite=True)
    assert copy.download_blob().readall() == b"0123456789"
    copy.upload_blob(b"also", overwrite=True)
    assert source.download_blob().readall() == b"changed"


@pytest.mark.parametrize("kind", ["AppendBlob", "PageBlob"])
def test_copy_of_other_kinds(container, kind):
    blob = container.upload_blob("source", b"x" * 1024, blob_type=kind)
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(blob.url)
    assert copy.get_blob_properties().blob_type == kind
    assert copy.download_blob().readall() == b"x" * 1024
    container.upload_blob("other", b"x")
    answer = call("PUT", path_of(container.container_name, "other"), None, {"x-ms-copy-source": blob.url})
    assert answer.verdict == "409 InvalidBlobType"


def test_missing_sources(container):
    copy = path_of(container.container_name, "copy")
    answer = call("PUT", copy, None, {"x-ms-copy-source": container.get_blob_client("nothing").url})
    assert answer.verdict in ("404 BlobNotFound", "404 CannotVerifyCopySource")
    assert call("HEAD", copy).status == 404


@pytest.mark.parametrize("url", ["nonsense", "/relative", ""])
def test_bad_source(container, url):
    answer = call("PUT", path_of(container.container_name, "copy"), None, {"x-ms-copy-source": url})
    assert answer.status == 400, answer


def test_source_must_be_readable(container, source):
    """A synchronous copy reads its source as a stranger would."""
    answer = call("PUT", path_of(container.container_name, "copy"), None,
                  {"x-ms-copy-source": rig.readable(container.container_name, "source") + "0", "x-ms-requires-sync": "true"})
    assert answer.status in (401, 403, 404), answer
    assert call("HEAD", path_of(container.container_name, "copy")).status == 404


def test_abort_of_a_finished_copy(container, source):
    copy = container.get_blob_client("copy")
    copy_id = copy.start_copy_from_url(source.url)["copy_id"]
    refused("409 NoPendingCopyOperation", copy.abort_copy, copy_id)


def test_copy_between_containers(service, container, source):
    other = service.create_container(rig.unique())
    try:
        other.get_blob_client("copy").start_copy_from_url(source.url)
        assert other.download_blob("copy").readall() == b"0123456789"
    finally:
        other.delete_container()


def test_blocks_are_copied(container):
    blob = container.get_blob_client("blocks")
    for name in ("1", "2"):
        blob.stage_block(name, b"x" * 10)
    blob.commit_block_list(["1", "2"])
    copy = container.get_blob_client("copy")
    copy.start_copy_from_url(blob.url)
    assert [block.size for block in copy.get_block_list("committed")[0]] == [10, 10]
