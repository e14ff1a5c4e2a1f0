"""Block blobs: whole uploads, blocks, lists of blocks, parallel transfers, ranges."""

import base64
import hashlib
import io
import random

import pytest
from azure.storage.blob import BlobBlock, BlobClient

import rig
from rig import call, path_of, refused

MIB = 1 << 20


def block_id(number):
    return base64.b64encode(f"{number:06}".encode()).decode()


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def test_large_file_in_parallel_blocks(container):
    content = noise(65 * MIB + 4321)
    with BlobClient(rig.URL, container.container_name, "big", credential=rig.KEY, max_block_size=4 * MIB,
                    max_single_put_size=1 * MIB, max_single_get_size=3 * MIB, max_chunk_get_size=3 * MIB) as blob:
        blob.upload_blob(io.BytesIO(content), length=len(content), max_concurrency=8)
        assert blob.get_blob_properties().size == len(content)
        committed, uncommitted = blob.get_block_list("all")
        assert [block.size for block in committed] == [4 * MIB] * 16 + [MIB + 4321] and uncommitted == []
        found = blob.download_blob(max_concurrency=8).readall()
    assert hashlib.sha256(found).digest() == hashlib.sha256(content).digest()


def test_one_put_of_many_mib(container):
    content = noise(20 * MIB)
    blob = container.get_blob_client("one")
    path = path_of(container.container_name, "one")
    answer = call("PUT", path, None, {"x-ms-blob-type": "BlockBlob"}, content)
    assert answer.status == 201
    assert answer.headers["Content-MD5"] == base64.b64encode(hashlib.md5(content).digest()).decode()
    assert blob.download_blob().readall() == content
    assert blob.get_block_list("all") == ([], []), "a blob put at once shows no blocks"


@pytest.mark.parametrize(("offset", "length"), [(0, 1), (0, 1000), (1, 998), (500, None), (999, 1), (900, 5000)])
def test_ranged_download(container, offset, length):
    content = noise(1000)
    blob = container.upload_blob("b", content)
    stream = blob.download_blob(offset=offset, length=length)
    assert stream.readall() == content[offset:offset + length if length else None]


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("Range", "bytes=0-9", (206, "bytes 0-9/100")),
    ("Range", "bytes=90-", (206, "bytes 90-99/100")),
    ("Range", "bytes=90-200", (206, "bytes 90-99/100")),
    ("x-ms-range", "bytes=10-19", (206, "bytes 10-19/100")),
    ("Range", "bytes=100-", (416, None)),
    ("Range", "bytes=100-200", (416, None)),
])
def test_range_headers(container, name, value, expected):
    content = noise(100)
    rig.put_blob(container.container_name, "b", content)
    answer = call("GET", path_of(container.container_name, "b"), None, {name: value})
    assert answer.status == expected[0], answer
    if answer.status == 206:
        assert answer.headers["Content-Range"] == expected[1]
        first, last = (int(part) for part in expected[1].split()[1].split("/")[0].split("-"))
        assert answer.body == content[first:last + 1]
        assert answer.headers["x-ms-blob-content-md5"] == base64.b64encode(hashlib.md5(content).digest()).decode()
    else:
        assert answer.code == "InvalidRange"


def test_x_ms_range_wins(container):
    rig.put_blob(container.container_name, "b", b"0123456789")
    answer = call("GET", path_of(container.container_name, "b"), None,
                  {"Range": "bytes=0-1", "x-ms-range": "bytes=5-6"})
    assert answer.body == b"56"


def test_empty_blob(container):
    blob = container.upload_blob("empty", b"")
    assert blob.download_blob().readall() == b""
    assert call("GET", path_of(container.container_name, "empty"), None, {"Range": "bytes=0-0"}).status == 416


def test_commit_is_atomic_and_ordered(container):
    blob = container.get_blob_client("b")
    for number in range(4):
        blob.stage_block(block_id(number), f"<{number}>".encode())
    assert not blob.exists()
    refused("404 BlobNotFound", blob.download_blob)
    blob.commit_block_list([BlobBlock(block_id(number)) for number in (2, 0, 3)])
    assert blob.download_blob().readall() == b"<2><0><3>"
    committed, uncommitted = blob.get_block_list("all")
    assert [block.id for block in committed] == [block_id(number) for number in (2, 0, 3)] and uncommitted == []
    blob.stage_block(block_id(9), b"<9>")
    assert blob.download_blob().readall() == b"<2><0><3>"
    committed, uncommitted = blob.get_block_list("all")
    assert [block.id for block in uncommitted] == [block_id(9)] and uncommitted[0].size == 3
    blob.commit_block_list([BlobBlock(block_id(3)), BlobBlock(block_id(9))])
    assert blob.download_blob().readall() == b"<3><9>"


def test_committed_uncommitted_latest(container):
    path = path_of(container.container_name, "b")
    blob = container.get_blob_client("b")

    def commit(xml):
        return call("PUT", path, {"comp": "blocklist"}, {}, f"<BlockList>{xml}</BlockList>".encode())

    def stage(body):
        # The SDK would encode the id once more.
        assert call("PUT", path, {"comp": "block", "blockid": one}, {}, body).status == 201

    one, two = block_id(1), block_id(2)
    stage(b"old")
    assert commit(f"<Committed>{one}</Committed>").verdict == "400 InvalidBlockList"
    assert commit(f"<Uncommitted>{one}</Uncommitted>").status == 201
    stage(b"new")
    assert commit(f"<Committed>{one}</Committed>").status == 201
    assert blob.download_blob().readall() == b"old"
    assert commit(f"<Uncommitted>{one}</Uncommitted>").verdict == "400 InvalidBlockList"
    stage(b"new")
    assert commit(f"<Latest>{one}</Latest>").status == 201
    assert blob.download_blob().readall() == b"new"
    assert commit(f"<Latest>{two}</Latest>").verdict == "400 InvalidBlockList"
    assert blob.download_blob().readall() == b"new"


def test_last_upload_of_a_block_wins(container):
    blob = container.get_blob_client("b")
    blob.stage_block(block_id(1), b"first")
    blob.stage_block(block_id(1), b"second!")
    blob.commit_block_list([BlobBlock(block_id(1))])
    assert blob.download_blob().readall() == b"second!"


def test_block_ids_have_one_length(container):
    blob = container.get_blob_client("b")
    blob.stage_block(base64.b64encode(b"aa").decode(), b"x")
    path = path_of(container.container_name, "b")
    longer = base64.b64encode(b"aaaaaa").decode()
    assert call("PUT", path, {"comp": "block", "blockid": longer}, {}, b"x").verdict == "400 InvalidBlobOrBlock"


@pytest.mark.parametrize("bad", ["!!", base64.b64encode(b"x" * 65).decode()])
def test_bad_block_ids(container, bad):
    answer = call("PUT", path_of(container.container_name, "b"), {"comp": "block", "blockid": bad}, {}, b"x")
    assert answer.status == 400 and answer.code in ("InvalidQueryParameterValue", "OutOfRangeInput"), answer


def test_block_id_is_needed(container):
    answer = call("PUT", path_of(container.container_name, "b"), {"comp": "block"}, {}, b"x")
    assert answer.verdict == "400 MissingRequiredQueryParameter"


@pytest.mark.parametrize("body", [b"", b"<BlockList>", b"nonsense", b"<Wrong/>", b"<BlockList><Other>YQ==</Other></BlockList>"])
def test_bad_block_lists(container, body):
    answer = call("PUT", path_of(container.container_name, "b"), {"comp": "blocklist"}, {}, body)
    assert answer.status == 400, answer
    assert call("HEAD", path_of(container.container_name, "b")).status == 404


def test_put_blob_drops_staged_blocks(container):
    blob = container.get_blob_client("b")
    blob.stage_block(block_id(1), b"x")
    blob.upload_blob(b"whole", overwrite=True)
    assert blob.get_block_list("all") == ([], [])
    rig.refused("400 InvalidBlockList", blob.commit_block_list, [BlobBlock(block_id(1))])


def test_commit_replaces_properties(container):
    from azure.storage.blob import ContentSettings
    blob = container.upload_blob("b", b"x", metadata={"old": "1"}, content_settings=ContentSettings("text/old"))
    blob.stage_block(block_id(1), b"y")
    blob.commit_block_list([BlobBlock(block_id(1))], metadata={"new": "2"}, tags={"t": "v"})
    properties = blob.get_blob_properties()
    assert properties.metadata == {"new": "2"}
    assert properties.content_settings.content_type == "application/octet-stream"
    assert blob.get_blob_tags() == {"t": "v"}


def test_kind_of_a_blob_can_only_change_by_replacing(container):
    path = path_of(container.container_name, "b")
    rig.put_blob(container.container_name, "b")
    assert call("PUT", path, {"comp": "appendblock"}, {}, b"x").verdict == "409 InvalidBlobType"
    answer = call("PUT", path, {"comp": "page"}, {"x-ms-page-write": "clear", "x-ms-range": "bytes=0-511"})
    assert answer.verdict == "409 InvalidBlobType"
    assert call("GET", path, {"comp": "pagelist"}).verdict == "409 InvalidBlobType"


def test_staged_from_a_url(container):
    container.upload_blob("source", b"0123456789")
    blob = container.get_blob_client("b")
    source = rig.readable(container.container_name, "source")
    blob.stage_block_from_url(block_id(1), source, source_offset=2, source_length=5)
    blob.stage_block_from_url(block_id(2), source)
    blob.commit_block_list([BlobBlock(block_id(1)), BlobBlock(block_id(2))])
    assert blob.download_blob().readall() == b"234560123456789"


def test_put_from_a_url(container):
    container.upload_blob("source", b"0123456789", metadata={"a": "b"})
    blob = container.get_blob_client("b")
    blob.upload_blob_from_url(rig.readable(container.container_name, "source"), metadata={"c": "d"})
    assert blob.download_blob().readall() == b"0123456789"
    assert blob.get_blob_properties().metadata == {"c": "d"}
    refused("409 BlobAlreadyExists", blob.upload_blob_from_url, rig.readable(container.container_name, "source"))


def test_upload_of_a_stream_of_unknown_length(container):
    def parts():
        for number in range(10):
            yield noise(300_000, number)

    whole = b"".join(parts())
    with BlobClient(rig.URL, container.container_name, "s", credential=rig.KEY, max_block_size=MIB,
                    max_single_put_size=MIB) as blob:
        blob.upload_blob(parts(), max_concurrency=4)
        assert blob.download_blob().readall() == whole


def test_missing_headers(container):
    path = path_of(container.container_name, "b")
    assert call("PUT", path, None, {}, b"x").verdict == "400 MissingRequiredHeader"
    answer = call("PUT", path, None, {"x-ms-blob-type": "OtherBlob"}, b"x")
    assert answer.verdict == "400 InvalidHeaderValue"
