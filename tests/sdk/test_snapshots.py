"""Snapshots: what they keep, what can be done with them, how they go."""

import rig
from rig import call, path_of, refused


def test_snapshot_keeps_content_metadata_and_etag(container):
    blob = container.upload_blob("b", b"one", metadata={"v": "1"})
    etag = blob.get_blob_properties().etag
    taken = blob.create_snapshot()
    assert blob.get_blob_properties().etag == etag, "a snapshot does not change its blob"
    blob.upload_blob(b"two", overwrite=True, metadata={"v": "2"})
    old = container.get_blob_client("b", snapshot=taken["snapshot"])
    properties = old.get_blob_properties()
    assert (old.download_blob().readall(), properties.metadata, properties.etag) == (b"one", {"v": "1"}, etag)
    assert blob.download_blob().readall() == b"two"


def test_snapshot_with_own_metadata(container):
    blob = container.upload_blob("b", b"one", metadata={"v": "1"})
    taken = blob.create_snapshot(metadata={"w": "2"})
    assert container.get_blob_client("b", snapshot=taken["snapshot"]).get_blob_properties().metadata == {"w": "2"}
    assert blob.get_blob_properties().metadata == {"v": "1"}


def test_snapshots_are_read_only(container):
    blob = container.upload_blob("b", b"one")
    stamp = blob.create_snapshot()["snapshot"]
    path = path_of(container.container_name, "b")
    for query, headers in [({"comp": "metadata"}, {"x-ms-meta-a": "b"}), ({}, {"x-ms-blob-type": "BlockBlob"}),
                           ({"comp": "properties"}, {"x-ms-blob-content-type": "a/b"})]:
        answer = call("PUT", path, query | {"snapshot": stamp}, headers)
        assert answer.status == 400, answer
    old = container.get_blob_client("b", snapshot=stamp).get_blob_properties()
    assert old.metadata == {} and old.size == 3


def test_deletes(container):
    blob = container.upload_blob("b", b"one")
    stamps = [blob.create_snapshot()["snapshot"] for _ in range(3)]
    refused("409 SnapshotsPresent", blob.delete_blob)
    container.get_blob_client("b", snapshot=stamps[0]).delete_blob()
    assert sum(1 for _ in container.list_blobs(include=["snapshots"])) == 3
    blob.delete_blob(delete_snapshots="only")
    assert [found.snapshot for found in container.list_blobs(include=["snapshots"])] == [None]
    blob.create_snapshot()
    blob.delete_blob(delete_snapshots="include")
    assert list(container.list_blobs(include=["snapshots"])) == []


def test_missing_snapshots(container):
    container.upload_blob("b", b"one")
    path = path_of(container.container_name, "b")
    assert call("GET", path, {"snapshot": "2020-01-01T00:00:00.0000000Z"}).verdict == "404 BlobNotFound"
    assert call("PUT", path_of(container.container_name, "none"), {"comp": "snapshot"}).verdict == "404 BlobNotFound"


def test_bad_snapshot_time(container):
    container.upload_blob("b", b"one")
    answer = call("GET", path_of(container.container_name, "b"), {"snapshot": "yesterday"})
    assert answer.verdict == "400 InvalidQueryParameterValue"


def test_snapshots_survive_overwriting_with_blocks(container):
    blob = container.upload_blob("b", b"one")
    stamp = blob.create_snapshot()["snapshot"]
    blob.stage_block("1", b"two")
    blob.commit_block_list(["1"])
    assert container.get_blob_client("b", snapshot=stamp).download_blob().readall() == b"one"


def test_promote_a_snapshot(container):
    blob = container.upload_blob("b", b"one")
    stamp = blob.create_snapshot()["snapshot"]
    blob.upload_blob(b"two", overwrite=True)
    blob.start_copy_from_url(f"{blob.url}?snapshot={stamp}")
    assert blob.download_blob().readall() == b"one"


def test_snapshot_sas(container):
    blob = container.upload_blob("b", b"one")
    stamp = blob.create_snapshot()["snapshot"]
    blob.upload_blob(b"two", overwrite=True)
    url = rig.readable(container.container_name, "b", snapshot=stamp)
    sas = url.partition("?")[2]
    path = path_of(container.container_name, "b")
    assert "sr=bs" in sas
    query = sas if "snapshot=" in sas else f"snapshot={stamp}&{sas}"
    assert call("GET", path, query, sign=False).body == b"one"
    without = "&".join(part for part in sas.split("&") if not part.startswith("snapshot="))
    assert call("GET", path, without, sign=False).status == 403, "it opens this snapshot only"
