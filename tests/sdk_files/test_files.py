"""Files: content in ranges, properties, metadata, headers, attributes and times."""

import pytest
from azure.storage.fileshare import ContentSettings

import rig


@pytest.mark.parametrize("size", [0, 1, 511, 512, 16 << 10, (16 << 10) + 1, 4 * rig.MIB - 1, 4 * rig.MIB, 4 * rig.MIB + 1])
def test_what_goes_up_comes_down(share, size):
    data = rig.noise(size)
    file = share.get_file_client("a")
    file.upload_file(data)
    assert file.get_file_properties().size == size
    assert file.download_file().readall() == data


def test_a_large_file_in_parallel_ranges(share):
    data = rig.noise(37 * rig.MIB + 123)
    file = share.get_file_client("big")
    file.upload_file(data, max_concurrency=4)
    assert file.download_file(max_concurrency=4).readall() == data
    part = file.download_file(offset=5 * rig.MIB + 7, length=11 * rig.MIB, max_concurrency=2).readall()
    assert part == data[5 * rig.MIB + 7:16 * rig.MIB + 7]


def test_ranges_are_read_exactly(share):
    data = rig.noise(10_000)
    share.get_file_client("a").upload_file(data)
    path = rig.path_of(share.share_name, "a")
    for header, start, end in [("bytes=0-0", 0, 0), ("bytes=100-", 100, 9999), ("bytes=9999-20000", 9999, 9999)]:
        for name in ("Range", "x-ms-range"):
            answer = rig.call("GET", path, None, {name: header})
            assert answer.status == 206 and answer.body == data[start:end + 1], (name, header, answer)
            assert answer.headers["Content-Range"] == f"bytes {start}-{end}/10000"
    assert rig.call("GET", path, None, {"Range": "bytes=10000-"}).verdict == "416 InvalidRange"
    both = rig.call("GET", path, None, {"Range": "bytes=0-1", "x-ms-range": "bytes=5-6"})
    assert both.body == data[5:7], "x-ms-range wins"
    whole = rig.call("GET", path)
    assert whole.status == 200 and whole.body == data and whole.headers["Accept-Ranges"] == "bytes"
    assert whole.headers["x-ms-type"] == "File"


def test_properties_metadata_and_headers(share):
    settings = ContentSettings(content_type="text/x-test", content_encoding="gzip", content_language="de",
                               content_disposition="inline", cache_control="no-cache", content_md5=bytearray(b"0123456789abcdef"))
    file = share.get_file_client("a")
    file.create_file(100, content_settings=settings, metadata={"key": "value"})
    found = file.get_file_properties()
    assert found.size == 100 and found.metadata == {"key": "value"}
    for name in ("content_type", "content_encoding", "content_language", "content_disposition", "cache_control"):
        assert found.content_settings[name] == settings[name], name
    assert bytes(found.content_settings.content_md5) == b"0123456789abcdef"
    file.set_file_metadata({"other": "1"})
    file.set_http_headers(ContentSettings(content_type="text/plain"))
    found = file.get_file_properties()
    assert found.metadata == {"other": "1"} and found.content_settings.content_type == "text/plain"
    assert found.content_settings.content_language is None, "what is not named is cleared"
    assert found.size == 100, "the content stays"


def test_resizing(share):
    file = share.get_file_client("a")
    file.upload_file(rig.noise(1000))
    file.resize_file(2000)
    assert file.download_file().readall() == rig.noise(1000) + bytes(1000)
    file.resize_file(10)
    file.resize_file(20)
    assert file.download_file().readall() == rig.noise(1000)[:10] + bytes(10)


def test_create_over_an_existing_file_starts_anew(share):
    file = share.get_file_client("a")
    file.upload_file(b"something", metadata={"a": "1"})
    before = file.get_file_properties()
    file.create_file(5)
    after = file.get_file_properties()
    assert file.download_file().readall() == bytes(5) and after.metadata == {} and after.etag != before.etag


def test_create_with_a_body(share):
    sent = {"x-ms-type": "file", "x-ms-content-length": 7}
    answer = rig.call("PUT", rig.path_of(share.share_name, "a"), None, sent, b"content", version="2026-06-06")
    assert answer.status == 201, answer
    assert share.get_file_client("a").download_file().readall() == b"content"


def test_attributes_and_times(share):
    file = share.get_file_client("a")
    made = file.create_file(1)
    for time in ("file_creation_time", "file_last_write_time", "file_change_time"):
        rig.moment(made[time])
    file.set_http_headers(ContentSettings(), file_attributes="Hidden|System|Archive", file_creation_time="2020-01-02T03:04:05.1234567Z",
                          file_last_write_time="2021-01-02T03:04:05.7654321Z")
    headers = rig.call("HEAD", rig.path_of(share.share_name, "a")).headers
    assert headers["x-ms-file-creation-time"] == "2020-01-02T03:04:05.1234567Z"
    assert headers["x-ms-file-last-write-time"] == "2021-01-02T03:04:05.7654321Z"
    assert sorted(headers["x-ms-file-attributes"].replace(" ", "").split("|")) == ["Archive", "Hidden", "System"]
    file.upload_range(b"x", 0, 1)
    after = rig.call("HEAD", rig.path_of(share.share_name, "a")).headers
    assert after["x-ms-file-last-write-time"] > "2026", "a write is a write"
    assert after["x-ms-file-creation-time"] == "2020-01-02T03:04:05.1234567Z"
    kept = rig.put_range(share.share_name, "a", b"y", **{"x-ms-file-last-write-time": "preserve"})
    assert kept.status == 201 and kept.headers["x-ms-file-last-write-time"] == after["x-ms-file-last-write-time"]


def test_read_only_files_are_left_alone(share):
    file = share.get_file_client("a")
    file.create_file(10, file_attributes="ReadOnly")
    assert file.get_file_properties().file_attributes == "ReadOnly"
    name = share.share_name
    assert rig.put_range(name, "a", b"x").verdict == "409 ReadOnlyAttribute"
    assert rig.make(name, "a", 1).verdict == "409 ReadOnlyAttribute"
    rig.refused("409 ReadOnlyAttribute", file.set_file_metadata, {"a": "1"})
    rig.refused("409 ReadOnlyAttribute", file.delete_file)
    file.set_http_headers(ContentSettings(), file_attributes="None")
    file.upload_range(b"x", 0, 1)
    file.delete_file()


def test_names(share):
    for name in ("ä ö.txt", "100% & more+.txt", "a'b(c)[d]", "日本語", "x" * 255):
        file = share.get_file_client(name)
        file.upload_file(b"x")
        assert file.download_file().readall() == b"x", name
        assert name in rig.names(share.list_directories_and_files()), name
    for name in ("x" * 256, "a:b", "a*b", "a?b", "a|b", "a<b", 'a"b', "a\\b", "a\x01b"):
        answer = rig.make(share.share_name, name.replace("%", "%25"), 1)
        assert answer.status == 400, (name, answer)


def test_delete(share):
    file = share.get_file_client("a")
    rig.refused("404 ResourceNotFound", file.delete_file)
    file.create_file(1)
    file.delete_file()
    rig.refused("404 ResourceNotFound", file.get_file_properties)
    assert list(share.list_directories_and_files()) == []
