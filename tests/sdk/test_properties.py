"""Properties, HTTP headers, metadata and tiers of blobs, and the headers of every answer."""

import pytest
from azure.storage.blob import ContentSettings, StandardBlobTier

import rig
from rig import call, path_of, refused

FULL = ContentSettings(content_type="text/plain; charset=utf-8", content_encoding="br", content_language="de",
                       content_disposition="attachment", cache_control="max-age=60")


def facts(settings):
    return (settings.content_type, settings.content_encoding, settings.content_language, settings.content_disposition,
            settings.cache_control)


def test_http_headers(container):
    blob = container.upload_blob("b", b"x", content_settings=FULL)
    assert facts(blob.get_blob_properties().content_settings) == facts(FULL)
    answer = call("GET", path_of(container.container_name, "b"))
    assert answer.headers["Content-Type"] == FULL.content_type
    assert answer.headers["Content-Encoding"] == "br"
    assert answer.headers["Cache-Control"] == "max-age=60"
    blob.set_http_headers(ContentSettings(content_type="a/b"))
    assert facts(blob.get_blob_properties().content_settings) == ("a/b", None, None, None, None), "the others are cleared"


def test_default_type(container):
    rig.put_blob(container.container_name, "b")
    assert call("HEAD", path_of(container.container_name, "b")).headers["Content-Type"] == "application/octet-stream"
    rig.put_blob(container.container_name, "c", **{"Content-Type": "text/c"})
    assert call("HEAD", path_of(container.container_name, "c")).headers["Content-Type"] == "text/c"


def test_metadata(container):
    given = {"lower": "1", "MiXed": "Value With Spaces", "a_b1": "=?&"}
    blob = container.upload_blob("b", b"x", metadata=given)
    assert {name.lower(): value for name, value in blob.get_blob_properties().metadata.items()} == \
        {name.lower(): value for name, value in given.items()}
    before = blob.get_blob_properties()
    blob.set_blob_metadata({"only": "this"})
    after = blob.get_blob_properties()
    assert after.metadata == {"only": "this"} and after.etag != before.etag
    blob.set_blob_metadata({})
    assert blob.get_blob_properties().metadata == {}


def test_get_metadata_has_no_body(container):
    rig.put_blob(container.container_name, "b", **{"x-ms-meta-a": "1"})
    answer = call("GET", path_of(container.container_name, "b"), {"comp": "metadata"})
    assert (answer.status, answer.headers["x-ms-meta-a"], answer.body) == (200, "1", b"")


def test_names_of_metadata_sort_as_the_service_sorts(container):
    """The signature covers headers in the service's own order, which is not that of bytes."""
    blob = container.upload_blob("b", b"x", metadata={"a_b": "1", "a1": "2", "hdi_isfolder": "3", "hdi1": "4"})
    assert len(blob.get_blob_properties().metadata) == 4


@pytest.mark.parametrize("name", ["1x", "a-b", "a.b"])
def test_bad_metadata(container, name):
    answer = call("PUT", path_of(container.container_name, "b"), None,
                  {"x-ms-blob-type": "BlockBlob", f"x-ms-meta-{name}": "v"}, b"x")
    assert answer.status == 400, answer


def test_metadata_has_a_limit(container):
    headers = {"x-ms-blob-type": "BlockBlob"} | {f"x-ms-meta-m{n}": "v" * 1000 for n in range(9)}
    answer = call("PUT", path_of(container.container_name, "b"), None, headers, b"x")
    assert answer.verdict == "400 MetadataTooLarge"


def test_times(container):
    blob = container.upload_blob("b", b"x")
    first = blob.get_blob_properties()
    assert first.creation_time and first.last_modified >= first.creation_time
    blob.upload_blob(b"y", overwrite=True)
    second = blob.get_blob_properties()
    assert second.creation_time == first.creation_time and second.last_modified >= first.last_modified


def test_missing_blob(container):
    blob = container.get_blob_client("nothing")
    assert not blob.exists()
    for action in (blob.get_blob_properties, blob.delete_blob, blob.download_blob, blob.create_snapshot,
                   blob.get_blob_tags, blob.get_block_list):
        refused("404 BlobNotFound", action)
    refused("404 BlobNotFound", blob.set_blob_metadata, {})
    refused("404 BlobNotFound", blob.set_http_headers, ContentSettings())
    refused("404 BlobNotFound", blob.set_standard_blob_tier, "Cool")


@pytest.mark.parametrize("tier", ["Hot", "Cool", "Cold", "Archive"])
def test_tiers(container, tier):
    blob = container.upload_blob("b", b"x")
    inferred = blob.get_blob_properties()
    assert inferred.blob_tier == "Hot" and inferred.blob_tier_inferred
    blob.set_standard_blob_tier(tier)
    properties = blob.get_blob_properties()
    assert properties.blob_tier == tier and not properties.blob_tier_inferred and properties.blob_tier_change_time
    [listed] = container.list_blobs()
    assert listed.blob_tier == tier
    if tier == "Archive":
        refused("409 BlobArchived", blob.download_blob)
        blob.set_standard_blob_tier("Hot")
    else:
        assert blob.download_blob().readall() == b"x"


def test_tier_at_upload(container):
    blob = container.upload_blob("b", b"x", standard_blob_tier=StandardBlobTier.COOL)
    assert blob.get_blob_properties().blob_tier == "Cool"


@pytest.mark.parametrize("tier", ["Warm", ""])
def test_bad_tier(container, tier):
    container.upload_blob("b", b"x")
    answer = call("PUT", path_of(container.container_name, "b"), {"comp": "tier"}, {"x-ms-access-tier": tier})
    assert answer.status == 400, answer


def test_tier_of_an_append_blob(container):
    blob = container.get_blob_client("b")
    blob.create_append_blob()
    answer = call("PUT", path_of(container.container_name, "b"), {"comp": "tier"}, {"x-ms-access-tier": "Cool"})
    assert answer.verdict in ("409 InvalidBlobType", "400 AccessTierNotSupportedForBlobType")


@pytest.mark.parametrize("name", ["plain", "with space", "a/b/c", "ünï/çödé", "q?&=#%25", "~!@$()*,;'", "a//b", "dot./x",
                                  "trailing/", "x" * 1024])
def test_names(container, name):
    blob = container.upload_blob(name, name.encode())
    assert blob.download_blob().readall() == name.encode()
    assert [found.name for found in container.list_blobs()] == [name]
    blob.delete_blob()
    assert not blob.exists()


def test_too_long_name(container):
    answer = call("PUT", path_of(container.container_name, "x" * 1025), None, {"x-ms-blob-type": "BlockBlob"}, b"x")
    assert answer.status == 400, answer


def test_headers_of_every_answer(container):
    whole = path_of(container.container_name)
    answer = call("GET", whole, {"restype": "container"}, {"x-ms-client-request-id": "my-own-id"})
    assert answer.status == 200 and answer.headers["x-ms-client-request-id"] == "my-own-id"
    for name in ("x-ms-request-id", "x-ms-version", "Date", "Server"):
        assert answer.headers[name], name
    ids = {call("HEAD", path_of(container.container_name), {"restype": "container"}).headers["x-ms-request-id"]
           for _ in range(5)}
    assert len(ids) == 5


def test_headers_of_refusals(container):
    answer = call("GET", path_of(container.container_name, "missing"), None, {"x-ms-client-request-id": "my-own-id"})
    assert answer.status == 404 and answer.headers["x-ms-client-request-id"] == "my-own-id"
    for name in ("x-ms-request-id", "x-ms-version", "x-ms-error-code", "Date", "Server"):
        assert answer.headers[name], name


def test_error_document(container):
    answer = call("GET", path_of(container.container_name, "missing"))
    assert answer.headers["Content-Type"].startswith("application/xml")
    document = answer.xml()
    assert document.tag == "Error" and document.findtext("Code") == "BlobNotFound" == answer.headers["x-ms-error-code"]
    assert "RequestId:" in document.findtext("Message") and "Time:" in document.findtext("Message")


@pytest.mark.parametrize("version", ["2019-12-12", "2020-10-02", "2021-08-06", "2023-11-03", "2026-06-06", "2031-01-01"])
def test_versions(container, version):
    path = path_of(container.container_name, version)
    assert call("PUT", path, None, {"x-ms-blob-type": "BlockBlob"}, b"x", version=version).status == 201
    assert call("GET", path, version=version).body == b"x"


@pytest.mark.parametrize("version", ["nonsense", "2020-13-45"])
def test_bad_versions(container, version):
    answer = call("GET", path_of(container.container_name), {"restype": "container"}, version=version)
    assert answer.verdict == "400 InvalidHeaderValue"


def test_unknown_operations(container):
    path = path_of(container.container_name, "b")
    assert call("PUT", path, {"comp": "nonsense"}).verdict == "400 InvalidQueryParameterValue"
    assert call("PATCH", path).status == 405


def test_soft_delete_is_not_there(container):
    container.upload_blob("b", b"x").delete_blob()
    assert list(container.list_blobs(include=["deleted"])) == []
