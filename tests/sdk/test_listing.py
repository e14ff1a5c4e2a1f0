"""List Blobs: order, pages, prefixes, delimiters, and what `include` adds."""

import base64

import pytest
from azure.storage.blob import BlobPrefix

import rig
from rig import call, path_of, refused

NAMES = ["a", "a/1", "a/2", "a/b/3", "a0", "b", "b/1", "blank name", "c+d", "e%f", "g&h<i>", "zażółć", "日本/語"]


@pytest.fixture
def filled(container):
    for name in NAMES:
        rig.put_blob(container.container_name, name, name.encode())
    return container


def in_order(names):
    return sorted(names, key=lambda name: name.encode())


def test_all_names_in_order(filled):
    assert [blob.name for blob in filled.list_blobs()] == in_order(NAMES)
    assert list(filled.list_blob_names()) == in_order(NAMES)


def test_names_reach_their_blobs(filled):
    for name in NAMES:
        assert filled.get_blob_client(name).download_blob().readall() == name.encode()


@pytest.mark.parametrize("size", [1, 2, 5, 13, 100])
def test_pages(filled, size):
    pages = [[blob.name for blob in page] for page in filled.list_blobs(results_per_page=size).by_page()]
    assert [name for page in pages for name in page] == in_order(NAMES)
    assert all(len(page) <= size for page in pages)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "none", "blank ", "日"])
def test_prefix(filled, prefix):
    expected = [name for name in in_order(NAMES) if name.startswith(prefix)]
    assert [blob.name for blob in filled.list_blobs(name_starts_with=prefix)] == expected


@pytest.mark.parametrize("size", [None, 1, 2, 3])
def test_delimiter(filled, size):
    def walk(prefix):
        options = {"results_per_page": size} if size else {}
        return [(item.name, isinstance(item, BlobPrefix))
                for item in filled.walk_blobs(name_starts_with=prefix, delimiter="/", **options)]

    top = {(name.split("/")[0] + "/", True) for name in NAMES if "/" in name} | {(n, False) for n in NAMES if "/" not in n}
    assert sorted(walk("")) == sorted(top)
    assert sorted(walk("a/")) == [("a/1", False), ("a/2", False), ("a/b/", True)]
    assert walk("a/b/") == [("a/b/3", False)]
    assert walk("nothing/") == []


def test_delimiter_of_another_kind(filled):
    names = [item.name for item in filled.walk_blobs(delimiter="b")]
    assert "a/b" in names and "b" in names


def test_marker_goes_on_where_it_stopped(filled):
    pager = filled.list_blobs(results_per_page=4).by_page()
    first = [blob.name for blob in next(pager)]
    rig.put_blob(filled.container_name, "0-before")
    rest = [blob.name for page in filled.list_blobs().by_page(continuation_token=pager.continuation_token) for blob in page]
    assert first + rest == in_order(NAMES)


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_bad_page_size(container, limit):
    answer = call("GET", path_of(container.container_name),
                  {"restype": "container", "comp": "list", "maxresults": limit})
    assert answer.status == 400, answer


def test_bad_include(container):
    answer = call("GET", path_of(container.container_name),
                  {"restype": "container", "comp": "list", "include": "everything"})
    assert answer.verdict == "400 InvalidQueryParameterValue"


def test_what_an_entry_tells(container):
    from azure.storage.blob import ContentSettings, StandardBlobTier
    settings = ContentSettings(content_type="text/x", content_encoding="gzip", content_language="pl",
                               content_disposition="inline", cache_control="no-cache")
    client = container.upload_blob("b", b"12345", metadata={"k": "v"}, tags={"t": "1"}, content_settings=settings,
                                   standard_blob_tier=StandardBlobTier.COOL)
    client.acquire_lease(-1)
    properties = client.get_blob_properties()
    [plain] = container.list_blobs()
    assert (plain.size, plain.blob_type, plain.blob_tier) == (5, "BlockBlob", "Cool")
    assert plain.etag.strip('"') == properties.etag.strip('"')
    assert plain.last_modified == properties.last_modified and plain.creation_time == properties.creation_time
    found = plain.content_settings
    assert (found.content_type, found.content_encoding, found.content_language, found.content_disposition,
            found.cache_control) == ("text/x", "gzip", "pl", "inline", "no-cache")
    assert found.content_md5 == properties.content_settings.content_md5
    assert (plain.lease.state, plain.lease.status, plain.lease.duration) == ("leased", "locked", "infinite")
    assert not plain.metadata and not plain.tags
    [full] = container.list_blobs(include=["metadata", "tags"])
    assert (full.metadata, full.tags, full.tag_count) == ({"k": "v"}, {"t": "1"}, 1)


def test_snapshots_and_uncommitted(container):
    blob = container.upload_blob("b", b"1")
    stamps = [blob.create_snapshot()["snapshot"] for _ in range(3)]
    container.get_blob_client("c").stage_block(base64.b64encode(b"1"), b"x")
    assert [found.name for found in container.list_blobs()] == ["b"]
    listed = [(found.name, found.snapshot) for found in container.list_blobs(include=["snapshots"])]
    assert [entry for entry in listed if entry[1]] == [("b", stamp) for stamp in stamps], "oldest first"
    assert len(listed) == 4 and ("b", None) in listed
    listed = [(found.name, found.size) for found in container.list_blobs(include=["uncommittedblobs"])]
    assert listed == [("b", 1), ("c", 0)]
    pages = container.list_blobs(include=["snapshots"], results_per_page=2).by_page()
    assert sum(len(list(page)) for page in pages) == 4


def test_snapshots_exclude_a_delimiter(container):
    refused("400 InvalidQueryParameterValue", container.walk_blobs, delimiter="/", include=["snapshots"])


def test_copy_details(container):
    container.upload_blob("source", b"x")
    copy = container.get_blob_client("copy")
    copy_id = copy.start_copy_from_url(rig.readable(container.container_name, "source"))["copy_id"]
    entries = {found.name: found for found in container.list_blobs(include=["copy"])}
    assert entries["copy"].copy.id == copy_id and entries["copy"].copy.status == "success"
    assert entries["source"].copy.id is None


def test_answer_names_what_was_asked(container):
    answer = call("GET", path_of(container.container_name), {"restype": "container", "comp": "list", "prefix": "p",
                                                             "maxresults": "7", "delimiter": "/"})
    root = answer.xml()
    assert root.tag == "EnumerationResults"
    assert root.get("ContainerName") == container.container_name
    assert root.get("ServiceEndpoint").rstrip("/").endswith(rig.ACCOUNT)
    assert (root.findtext("Prefix"), root.findtext("MaxResults"), root.findtext("Delimiter")) == ("p", "7", "/")
    assert not root.findtext("NextMarker")
    assert answer.headers["Content-Type"].startswith("application/xml")


def test_many_names(container):
    """More than one page of the server's own size."""
    from concurrent.futures import ThreadPoolExecutor
    count = 5200 if rig.SERVER == "leasefs" else 300
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda n: rig.put_blob(container.container_name, f"n/{n:05}", b""), range(count)):
            assert answer.status == 201
    assert [blob.name for blob in container.list_blobs()] == [f"n/{n:05}" for n in range(count)]
