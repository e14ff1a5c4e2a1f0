"""Page blobs: pages, ranges, differences to a snapshot, size, sequence numbers."""

import pytest
from azure.storage.blob import SequenceNumberAction

import rig
from rig import call, path_of

PAGE = 512


@pytest.fixture
def blob(container):
    client = container.get_blob_client("disk")
    client.create_page_blob(8 * PAGE, sequence_number=5)
    return client


@pytest.fixture
def path(container, blob):
    return path_of(container.container_name, "disk")


def pages(number, count=1):
    return {"offset": number * PAGE, "length": count * PAGE}


def written(blob, **options):
    """The ranges that hold data, as (first page, pages); cleared ones are marked. A server may split a range."""
    joined = []
    for found in blob.list_page_ranges(**options):
        first, after, mark = found.start // PAGE, (found.end + 1) // PAGE, ("cleared",) if found.cleared else ()
        if joined and joined[-1][0] + joined[-1][1] == first and joined[-1][2:] == mark:
            joined[-1] = (joined[-1][0], after - joined[-1][0], *mark)
        else:
            joined.append((first, after - first, *mark))
    return joined


def put(path, number, body=b"p" * PAGE, **headers):
    sent = {"x-ms-page-write": "update", "x-ms-range": f"bytes={number * PAGE}-{number * PAGE + len(body) - 1}"}
    return call("PUT", path, {"comp": "page"}, sent | {name.replace("_", "-"): v for name, v in headers.items()}, body)


def test_new_blob_is_zeros(blob):
    assert blob.download_blob().readall() == bytes(8 * PAGE)
    assert written(blob) == []
    properties = blob.get_blob_properties()
    assert (properties.blob_type, properties.page_blob_sequence_number, properties.size) == ("PageBlob", 5, 8 * PAGE)


def test_write_clear_read(blob):
    blob.upload_page(b"a" * 2 * PAGE, **pages(1, 2))
    blob.upload_page(b"b" * PAGE, **pages(2))
    blob.upload_page(b"c" * PAGE, **pages(6))
    assert written(blob) == [(1, 2), (6, 1)]
    content = blob.download_blob().readall()
    assert content == bytes(PAGE) + b"a" * PAGE + b"b" * PAGE + bytes(3 * PAGE) + b"c" * PAGE + bytes(PAGE)
    blob.clear_page(**pages(1))
    assert written(blob) == [(2, 1), (6, 1)]
    assert blob.download_blob(**pages(1, 2)).readall() == bytes(PAGE) + b"b" * PAGE
    assert written(blob, **pages(5, 3)) == [(6, 1)]


@pytest.mark.parametrize("headers", [
    {"x-ms-range": "bytes=0-510"}, {"x-ms-range": "bytes=1-512"}, {"x-ms-range": "bytes=0-511", "body": b"x"},
    {"x-ms-range": f"bytes={8 * PAGE}-{9 * PAGE - 1}"}, {}, {"x-ms-range": "bytes=0-511", "x-ms-page-write": "other"},
])
def test_bad_page_requests(path, blob, headers):
    headers = {"x-ms-page-write": "update"} | headers
    answer = call("PUT", path, {"comp": "page"}, headers, headers.pop("body", b"p" * PAGE))
    assert answer.status in (400, 416), answer
    assert written(blob) == []


def test_resize(blob):
    blob.upload_page(b"a" * PAGE, **pages(0))
    blob.upload_page(b"b" * PAGE, **pages(7))
    blob.resize_blob(4 * PAGE)
    assert blob.download_blob().readall() == b"a" * PAGE + bytes(3 * PAGE)
    assert written(blob) == [(0, 1)]
    blob.resize_blob(8 * PAGE)
    assert blob.download_blob().readall() == b"a" * PAGE + bytes(7 * PAGE), "cut off pages do not come back"


@pytest.mark.parametrize("size", ["100", "-512", "x"])
def test_bad_size(path, size):
    assert call("PUT", path, {"comp": "properties"}, {"x-ms-blob-content-length": size}).status == 400


def test_page_blob_needs_a_size(container):
    answer = call("PUT", path_of(container.container_name, "b"), None, {"x-ms-blob-type": "PageBlob"})
    assert answer.verdict == "400 MissingRequiredHeader"


@pytest.mark.parametrize(("condition", "fits", "wrong"), [("le", 5, 4), ("lt", 6, 5), ("eq", 5, 6)])
@pytest.mark.parametrize("clear", [False, True])
def test_sequence_conditions(path, blob, condition, fits, wrong, clear):
    def request(number):
        sent = {"x-ms-page-write": "clear" if clear else "update", "x-ms-range": f"bytes=0-{PAGE - 1}",
                f"x-ms-if-sequence-number-{condition}": number}
        return call("PUT", path, {"comp": "page"}, sent, b"" if clear else b"p" * PAGE)

    assert request(wrong).verdict == "412 SequenceNumberConditionNotMet"
    assert written(blob) == []
    assert request(fits).status == 201


def test_sequence_numbers(blob):
    def number():
        return blob.get_blob_properties().page_blob_sequence_number

    blob.set_sequence_number(SequenceNumberAction.Increment)
    assert number() == 6
    blob.set_sequence_number(SequenceNumberAction.Max, "3")
    assert number() == 6
    blob.set_sequence_number(SequenceNumberAction.Max, "30")
    assert number() == 30
    answer = blob.set_sequence_number(SequenceNumberAction.Update, "2")
    assert number() == 2 and answer["blob_sequence_number"] == 2


def test_difference_to_a_snapshot(blob):
    blob.upload_page(b"a" * 2 * PAGE, **pages(0, 2))
    blob.upload_page(b"k" * PAGE, **pages(4))
    snapshot = blob.create_snapshot()["snapshot"]
    blob.upload_page(b"b" * PAGE, **pages(1))
    blob.clear_page(**pages(4))
    blob.upload_page(b"c" * PAGE, **pages(6))
    assert sorted(written(blob, previous_snapshot=snapshot)) == [(1, 1), (4, 1, "cleared"), (6, 1)]


def test_snapshot_keeps_its_pages(container, blob):
    blob.upload_page(b"a" * PAGE, **pages(0))
    old = container.get_blob_client("disk", snapshot=blob.create_snapshot()["snapshot"])
    blob.upload_page(b"b" * 2 * PAGE, **pages(0, 2))
    assert old.download_blob(**pages(0, 2)).readall() == b"a" * PAGE + bytes(PAGE)
    assert written(old) == [(0, 1)]


def test_upload_by_the_sdk(container):
    content = bytes(3 * 1024 * 1024) + b"x" * PAGE
    blob = container.upload_blob("big", content, blob_type="PageBlob")
    assert blob.download_blob().readall() == content
    last = 3 * 1024 * 1024 // PAGE
    assert (last, 1) in written(blob) or any(first <= last < first + count for first, count in written(blob))


def test_pages_from_a_url(container, blob):
    container.upload_blob("source", b"s" * 2 * PAGE)
    blob.upload_pages_from_url(rig.readable(container.container_name, "source"), offset=PAGE, length=PAGE, source_offset=PAGE)
    assert written(blob) == [(1, 1)]


def test_page_answers(path):
    answer = put(path, 0)
    assert answer.status == 201 and answer.headers["x-ms-blob-sequence-number"] == "5" and answer.etag
    answer = call("GET", path, {"comp": "pagelist"})
    assert answer.headers["x-ms-blob-content-length"] == str(8 * PAGE)
