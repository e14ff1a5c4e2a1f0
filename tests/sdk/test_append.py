"""Append blobs: appending, its conditions, limits, sealing."""

import base64
import hashlib

import pytest

import rig
from rig import call, path_of, refused


@pytest.fixture
def blob(container):
    client = container.get_blob_client("log")
    client.create_append_blob(metadata={"k": "v"})
    return client


@pytest.fixture
def path(container, blob):
    return path_of(container.container_name, "log")


def append(path, body=b"x", **headers):
    return call("PUT", path, {"comp": "appendblock"}, {name.replace("_", "-"): v for name, v in headers.items()}, body)


def test_append(blob):
    etags = set()
    for number in range(5):
        answer = blob.append_block(f"line {number}\n".encode())
        assert (answer["blob_append_offset"], answer["blob_committed_block_count"]) == (str(number * 7), number + 1)
        etags.add(answer["etag"])
    assert len(etags) == 5
    assert blob.download_blob().readall() == b"".join(b"line %d\n" % number for number in range(5))
    properties = blob.get_blob_properties()
    assert (properties.blob_type, properties.append_blob_committed_block_count, properties.size) == ("AppendBlob", 5, 35)
    assert properties.metadata == {"k": "v"}


def test_large_upload_is_many_appends(container):
    content = bytes(range(256)) * 40_000
    blob = container.upload_blob("big", content, blob_type="AppendBlob")
    assert hashlib.md5(blob.download_blob().readall()).digest() == hashlib.md5(content).digest()
    container.upload_blob("big", b"tail", blob_type="AppendBlob", overwrite=False)
    assert blob.get_blob_properties().size == len(content) + 4


@pytest.mark.parametrize(("header", "fits", "wrong", "code"), [
    ("x_ms_blob_condition_appendpos", "3", "4", "AppendPositionConditionNotMet"),
    ("x_ms_blob_condition_maxsize", "5", "4", "MaxBlobSizeConditionNotMet"),
])
def test_conditions(path, blob, header, fits, wrong, code):
    blob.append_block(b"abc")
    assert append(path, b"de", **{header: wrong}).verdict == f"412 {code}"
    assert blob.download_blob().readall() == b"abc"
    assert append(path, b"de", **{header: fits}).status == 201
    assert blob.download_blob().readall() == b"abcde"


def test_lost_answer_is_told_by_position(path, blob):
    """A retry of an append that had worked does not append twice."""
    assert append(path, b"once", x_ms_blob_condition_appendpos="0").status == 201
    assert append(path, b"once", x_ms_blob_condition_appendpos="0").verdict == "412 AppendPositionConditionNotMet"
    assert blob.download_blob().readall() == b"once"


def test_append_to_nothing(container):
    assert append(path_of(container.container_name, "missing")).verdict == "404 BlobNotFound"


def test_empty_append(path):
    assert append(path, b"").status == 400


def test_checksum(path, blob):
    good = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    bad = base64.b64encode(hashlib.md5(b"y").digest()).decode()
    assert append(path, b"x", Content_MD5=bad).verdict == "400 Md5Mismatch"
    assert blob.get_blob_properties().size == 0
    answer = append(path, b"x", Content_MD5=good)
    assert answer.status == 201 and answer.headers["Content-MD5"] == good


def test_no_blocks_or_pages(path):
    answer = call("PUT", path, {"comp": "block", "blockid": "YQ=="}, {}, b"x")
    assert answer.verdict == "409 InvalidBlobType"
    assert call("PUT", path, {"comp": "blocklist"}, {}, b"<BlockList/>").verdict == "409 InvalidBlobType"


def test_seal(path, blob):
    blob.append_block(b"last words")
    assert blob.seal_append_blob()["blob_sealed"]
    assert append(path, b"x").verdict == "409 BlobIsSealed"
    assert blob.get_blob_properties().is_append_blob_sealed
    assert blob.download_blob().readall() == b"last words"
    blob.set_blob_metadata({"still": "changeable"})
    blob.delete_blob()


def test_append_from_a_url(container, blob):
    container.upload_blob("source", b"0123456789")
    blob.append_block_from_url(rig.readable(container.container_name, "source"), source_offset=1, source_length=3)
    assert blob.download_blob().readall() == b"123"


def test_create_again_empties(blob):
    blob.append_block(b"abc")
    blob.create_append_blob()
    assert blob.download_blob().readall() == b""
    properties = blob.get_blob_properties()
    assert (properties.append_blob_committed_block_count or 0, properties.metadata) == (0, {})


def test_body_at_creation(container):
    answer = call("PUT", path_of(container.container_name, "b"), None, {"x-ms-blob-type": "AppendBlob"}, b"content")
    assert answer.status == 400, answer


def test_sdk_refusals(container):
    blob = container.upload_blob("block", b"x")
    refused("409 InvalidBlobType", blob.append_block, b"y")
