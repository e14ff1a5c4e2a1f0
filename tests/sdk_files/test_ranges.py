"""Put Range, clear, List Ranges, Put Range From URL."""

import base64
import hashlib

import pytest

import rig


def test_ranges_are_written_and_cleared(share):
    file = share.get_file_client("a")
    file.create_file(8192)
    expected = bytearray(8192)
    for start, length in [(0, 100), (4096, 512), (8191, 1), (50, 100), (1000, 3000)]:
        data = rig.noise(length, start)
        file.upload_range(data, start, length)
        expected[start:start + length] = data
    assert file.download_file().readall() == expected
    for start, length in [(0, 512), (4100, 100), (8000, 192)]:
        # The SDK lets only whole blocks of 512 bytes through.
        sent = {"x-ms-write": "clear", "x-ms-range": f"bytes={start}-{start + length - 1}"}
        assert rig.call("PUT", rig.path_of(share.share_name, "a"), {"comp": "range"}, sent).status == 201
        expected[start:start + length] = bytes(length)
    assert file.download_file().readall() == expected
    file.clear_range(512, 512)
    expected[512:1024] = bytes(512)
    assert file.download_file().readall() == expected


def test_listed_ranges_hold_the_data(share):
    file = share.get_file_client("a")
    file.create_file(10 * rig.MIB)
    assert file.get_ranges() == []
    file.upload_range(rig.noise(4096), rig.MIB, 4096)
    file.upload_range(rig.noise(512), 5 * rig.MIB, 512)
    covered = [(one["start"], one["end"]) for one in file.get_ranges()]
    for start, length in [(rig.MIB, 4096), (5 * rig.MIB, 512)]:
        assert any(low <= start and start + length - 1 <= high for low, high in covered), covered
    assert sum(high - low + 1 for low, high in covered) < rig.MIB, "the rest is holes"
    part = [(one["start"], one["end"]) for one in file.get_ranges(offset=2 * rig.MIB, length=rig.MIB)]
    assert part == []
    answer = rig.call("GET", rig.path_of(share.share_name, "a"), {"comp": "rangelist"})
    assert answer.headers["x-ms-content-length"] == str(10 * rig.MIB)


def test_checksums(share):
    rig.make(share.share_name, "a", 10)
    md5 = base64.b64encode(hashlib.md5(b"0123456789").digest()).decode()
    answer = rig.put_range(share.share_name, "a", b"0123456789", **{"Content-MD5": md5})
    assert answer.status == 201 and answer.headers["Content-MD5"] == md5
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    assert rig.put_range(share.share_name, "a", b"9876543210", **{"Content-MD5": wrong}).verdict == "400 Md5Mismatch"
    assert rig.put_range(share.share_name, "a", b"9876543210", **{"Content-MD5": "x"}).verdict == "400 InvalidMd5"
    read = rig.call("GET", rig.path_of(share.share_name, "a"), None,
                    {"x-ms-range": "bytes=0-9", "x-ms-range-get-content-md5": "true"})
    assert read.headers["Content-MD5"] == md5 and read.body == b"0123456789"


@pytest.mark.parametrize("headers, body, verdict", [
    ({"x-ms-range": "bytes=0-10"}, b"0123456789", "400 InvalidHeaderValue"),
    ({"x-ms-range": "bytes=5-"}, b"01234", "400 InvalidHeaderValue"),
    ({"x-ms-range": "bytes=5-2"}, b"", "416 InvalidRange"),
    ({"x-ms-range": "0-9"}, b"0123456789", "400 InvalidHeaderValue"),
    ({}, b"0123456789", "400 MissingRequiredHeader"),
    ({"x-ms-write": "other", "x-ms-range": "bytes=0-9"}, b"0123456789", "400 InvalidHeaderValue"),
    ({"x-ms-range": "bytes=15-24"}, b"0123456789", "416 InvalidRange"),
    ({"x-ms-write": "clear", "x-ms-range": "bytes=0-9"}, b"0123456789", "400 InvalidHeaderValue"),
], ids=["length", "open", "backwards", "unit", "no range", "write", "behind the end", "clear with body"])
def test_bad_ranges_change_nothing(share, headers, body, verdict):
    rig.make(share.share_name, "a", 20)
    etag = rig.call("HEAD", rig.path_of(share.share_name, "a")).etag
    sent = {"x-ms-write": "update"} | headers
    answer = rig.call("PUT", rig.path_of(share.share_name, "a"), {"comp": "range"}, sent, body)
    assert answer.verdict == verdict, answer
    after = rig.call("GET", rig.path_of(share.share_name, "a"))
    assert after.body == bytes(20) and after.etag == etag


def test_a_range_has_at_most_4_mib(share):
    rig.make(share.share_name, "a", 8 * rig.MIB)
    assert rig.put_range(share.share_name, "a", bytes(4 * rig.MIB)).status == 201
    assert rig.put_range(share.share_name, "a", bytes(4 * rig.MIB + 1)).verdict == "413 RequestBodyTooLarge"


def test_ranges_from_another_file(share):
    source, target = share.get_file_client("source"), share.get_file_client("target")
    source.upload_file(rig.noise(10_000))
    target.create_file(10_000)
    from test_sas import readable
    target.upload_range_from_url(readable(share.share_name, "source"), offset=100, length=1000, source_offset=5000)
    expected = bytearray(10_000)
    expected[100:1100] = rig.noise(10_000)[5000:6000]
    assert target.download_file().readall() == expected
