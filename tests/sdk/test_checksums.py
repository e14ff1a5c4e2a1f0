"""MD5 and CRC64 of bodies: checked when sent, told when asked for."""

import base64
import hashlib

import pytest

import rig
from rig import call, path_of

BODY = b"The quick brown fox jumps over the lazy dog" * 100


def md5(body):
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def crc64(body):
    """CRC-64/NVME, written out: an opinion of its own."""
    value = 0xFFFFFFFFFFFFFFFF
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x9A6C9329AC4BC9B5 if value & 1 else 0)
    return base64.b64encode((value ^ 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")).decode()


REQUESTS = {
    "put blob": ({}, {"x-ms-blob-type": "BlockBlob"}),
    "put block": ({"comp": "block", "blockid": "YQ=="}, {}),
    "append block": ({"comp": "appendblock"}, {}),
    "put page": ({"comp": "page"}, {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}),
}


def prepare(container, name):
    path = path_of(container.container_name, "b")
    if name in ("append block", "put page"):
        rig.put_blob(container.container_name, "b", kind="AppendBlob" if name == "append block" else "PageBlob")
    query, headers = REQUESTS[name]
    body = BODY[:512]
    return path, query, headers, body


@pytest.mark.parametrize("name", REQUESTS)
def test_md5_is_checked(container, name):
    path, query, headers, body = prepare(container, name)
    bad = call("PUT", path, query, headers | {"Content-MD5": md5(b"other")}, body)
    assert bad.verdict == "400 Md5Mismatch"
    malformed = call("PUT", path, query, headers | {"Content-MD5": "short"}, body)
    assert malformed.verdict == "400 InvalidMd5"
    good = call("PUT", path, query, headers | {"Content-MD5": md5(body)}, body)
    assert good.status == 201 and good.headers["Content-MD5"] == md5(body)


@pytest.mark.parametrize("name", REQUESTS)
def test_crc64_is_checked(container, name):
    path, query, headers, body = prepare(container, name)
    bad = call("PUT", path, query, headers | {"x-ms-content-crc64": crc64(b"other")}, body)
    assert bad.verdict == "400 Crc64Mismatch"
    good = call("PUT", path, query, headers | {"x-ms-content-crc64": crc64(body)}, body)
    assert good.status == 201 and good.headers["x-ms-content-crc64"] == crc64(body)


@pytest.mark.parametrize("name", REQUESTS)
def test_only_one_checksum(container, name):
    path, query, headers, body = prepare(container, name)
    both = {"x-ms-content-crc64": crc64(body), "Content-MD5": md5(body)}
    assert call("PUT", path, query, headers | both, body).verdict == "400 BothCrc64AndMd5HeaderPresent"


def test_refused_body_is_not_stored(container):
    rig.put_blob(container.container_name, "b", b"old")
    path = path_of(container.container_name, "b")
    call("PUT", path, None, {"x-ms-blob-type": "BlockBlob", "Content-MD5": md5(b"other")}, BODY)
    assert call("GET", path).body == b"old"


def test_md5_is_kept_and_told(container):
    rig.put_blob(container.container_name, "b", BODY)
    path = path_of(container.container_name, "b")
    assert call("HEAD", path).headers["Content-MD5"] == md5(BODY)
    assert call("GET", path).headers["Content-MD5"] == md5(BODY)
    answer = call("GET", path, None, {"x-ms-range": "bytes=10-99", "x-ms-range-get-content-md5": "true"})
    assert answer.headers["Content-MD5"] == md5(BODY[10:100])
    assert answer.headers["x-ms-blob-content-md5"] == md5(BODY)


def test_crc64_of_a_range(container):
    rig.put_blob(container.container_name, "b", BODY)
    answer = call("GET", path_of(container.container_name, "b"), None,
                  {"x-ms-range": "bytes=10-99", "x-ms-range-get-content-crc64": "true"})
    assert answer.status == 206 and answer.headers["x-ms-content-crc64"] == crc64(BODY[10:100])


def test_checksum_of_a_range_has_a_limit(container):
    rig.put_blob(container.container_name, "b", b"x" * (5 << 20))
    path = path_of(container.container_name, "b")
    answer = call("GET", path, None, {"x-ms-range": "bytes=0-5000000", "x-ms-range-get-content-md5": "true"})
    assert answer.status == 400, answer
    assert call("GET", path, None, {"x-ms-range-get-content-md5": "true"}).status == 400, "without a range"


def test_md5_of_the_client_is_kept(container):
    """A committed list cannot be summed up cheaply: the service keeps what the client says."""
    path = path_of(container.container_name, "b")
    call("PUT", path, {"comp": "block", "blockid": "YQ=="}, {}, b"x")
    answer = call("PUT", path, {"comp": "blocklist"}, {"x-ms-blob-content-md5": md5(b"anything")},
                  b"<BlockList><Latest>YQ==</Latest></BlockList>")
    assert answer.status == 201
    assert call("HEAD", path).headers["Content-MD5"] == md5(b"anything")


def test_sdk_checks_content(container):
    blob = container.get_blob_client("b")
    blob.upload_blob(BODY, validate_content=True)
    assert blob.download_blob(validate_content=True).readall() == BODY
