"""Tags: setting, reading, limits, finding blobs by them."""

import pytest

import rig
from rig import call, path_of


def test_set_and_get(container):
    blob = container.upload_blob("b", b"x")
    assert blob.get_blob_tags() == {}
    blob.set_blob_tags({"colour": "red", "size": "10", "a b": "c/d"})
    assert blob.get_blob_tags() == {"colour": "red", "size": "10", "a b": "c/d"}
    assert blob.get_blob_properties().tag_count == 3
    blob.set_blob_tags({"only": "this"})
    assert blob.get_blob_tags() == {"only": "this"}


def test_empty_value(container):
    blob = container.upload_blob("b", b"x")
    blob.set_blob_tags({"k": ""})
    assert blob.get_blob_tags() == {"k": ""}


def test_clear(container):
    blob = container.upload_blob("b", b"x", tags={"a": "1"})
    blob.set_blob_tags({})
    assert blob.get_blob_tags() == {}
    assert not blob.get_blob_properties().tag_count


def test_tags_at_upload(container):
    blob = container.upload_blob("b", b"x", tags={"a": "1", "b": "two words"})
    assert blob.get_blob_tags() == {"a": "1", "b": "two words"}
    blob.set_blob_metadata({"m": "1"})
    assert blob.get_blob_tags() == {"a": "1", "b": "two words"}, "metadata leaves tags alone"
    blob.upload_blob(b"y", overwrite=True)
    assert blob.get_blob_tags() == {}, "a new content has its own tags"


def document(tags):
    entries = "".join(f"<Tag><Key>{key}</Key><Value>{value}</Value></Tag>" for key, value in tags)
    return f"<Tags><TagSet>{entries}</TagSet></Tags>".encode()


@pytest.mark.parametrize("tags", [
    [(f"k{n}", "v") for n in range(11)], [("", "v")], [("k" * 129, "v")], [("k", "v" * 257)], [("k", "a?b")],
])
def test_bad_tags(container, tags):
    blob = container.upload_blob("b", b"x")
    answer = call("PUT", path_of(container.container_name, "b"), {"comp": "tags"}, {}, document(tags))
    assert answer.status == 400, answer
    assert blob.get_blob_tags() == {}


@pytest.mark.parametrize("body", [b"", b"<Tags>", b"<Other/>"])
def test_bad_documents(container, body):
    container.upload_blob("b", b"x")
    assert call("PUT", path_of(container.container_name, "b"), {"comp": "tags"}, {}, body).status == 400


def test_limits_fit(container):
    tags = {f"{n:0128}": "v" * 256 for n in range(10)}
    blob = container.upload_blob("b", b"x")
    blob.set_blob_tags(tags)
    assert blob.get_blob_tags() == tags


def test_missing_blob(container):
    assert call("GET", path_of(container.container_name, "no"), {"comp": "tags"}).verdict == "404 BlobNotFound"
    answer = call("PUT", path_of(container.container_name, "no"), {"comp": "tags"}, {}, document([("k", "v")]))
    assert answer.verdict == "404 BlobNotFound"


@pytest.fixture
def tagged(container):
    for number in range(6):
        container.upload_blob(f"b{number}", b"x", tags={"project": container.container_name, "number": f"{number:02}"})
    container.upload_blob("none", b"x")
    return container


@pytest.mark.parametrize(("expression", "expected"), [
    ("\"number\" = '03'", ["b3"]),
    ("\"number\" >= '04'", ["b4", "b5"]),
    ("\"number\" > '01' AND \"number\" < '04'", ["b2", "b3"]),
    ("\"number\" = 'none'", []),
])
def test_find_in_a_container(tagged, expression, expected):
    assert sorted(found.name for found in tagged.find_blobs_by_tags(expression)) == expected


def test_find_in_the_account(service, tagged):
    name = tagged.container_name
    found = list(service.find_blobs_by_tags(f"\"project\" = '{name}' AND \"number\" <= '01'"))
    assert sorted((blob.container_name, blob.name) for blob in found) == [(name, "b0"), (name, "b1")]
    assert found[0].tags["project"] == name
    found = list(service.find_blobs_by_tags(f"@container = '{name}' AND \"number\" = '05'"))
    assert [blob.name for blob in found] == ["b5"]


def test_find_in_pages(service, tagged):
    pager = service.find_blobs_by_tags(f"\"project\" = '{tagged.container_name}'", results_per_page=2).by_page()
    pages = [[blob.name for blob in page] for page in pager]
    assert sorted(name for page in pages for name in page) == [f"b{n}" for n in range(6)]
    assert all(len(page) <= 2 for page in pages)


def test_found_as_soon_as_set(container):
    blob = container.upload_blob("b", b"x", tags={"state": "old"})
    blob.set_blob_tags({"state": "new"})
    assert [found.name for found in container.find_blobs_by_tags("\"state\" = 'new'")] == ["b"]
    assert list(container.find_blobs_by_tags("\"state\" = 'old'")) == []
    blob.delete_blob()
    assert list(container.find_blobs_by_tags("\"state\" = 'new'")) == []


def test_bad_expression(container):
    answer = call("GET", path_of(container.container_name), {"restype": "container", "comp": "blobs", "where": "nonsense"})
    assert answer.status == 400, answer
