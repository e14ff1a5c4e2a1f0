"""Status and code of every refusal (reference, §7.5), and hostile requests: nothing half is stored."""

import pytest

import rig

CREATE = {"x-ms-type": "file", "x-ms-content-length": 3}


@pytest.mark.parametrize("method, path, query, headers, verdict", [
    ("GET", "none", {}, {}, "404 ResourceNotFound"),
    ("HEAD", "none", {}, {}, "404 ResourceNotFound"),
    ("GET", "none/below", {}, {}, "404 ParentNotFound|ResourceNotFound"),
    ("DELETE", "none", {}, {}, "404 ResourceNotFound"),
    ("PUT", "none", {"comp": "metadata"}, {}, "404 ResourceNotFound"),
    ("PUT", "none", {"comp": "range"}, {"x-ms-write": "clear", "x-ms-range": "bytes=0-1"}, "404 ResourceNotFound"),
    ("PUT", "new", {}, {"x-ms-type": "file"}, "400 MissingRequiredHeader"),
    ("PUT", "new", {}, {"x-ms-content-length": 1}, "400 MissingRequiredHeader|InvalidHeaderValue"),
    ("PUT", "new", {}, {"x-ms-type": "blob", "x-ms-content-length": 1}, "400 InvalidHeaderValue"),
    ("PUT", "new", {}, {"x-ms-type": "file", "x-ms-content-length": "-1"}, "400 InvalidHeaderValue|OutOfRangeInput"),
    ("PUT", "new", {}, {"x-ms-type": "file", "x-ms-content-length": str(4 << 40 | 1)}, "400 InvalidHeaderValue|OutOfRangeInput"),
    ("PUT", "new", {}, CREATE | {"x-ms-file-attributes": "Purple"}, "400 InvalidHeaderValue"),
    ("PUT", "new", {}, CREATE | {"x-ms-file-creation-time": "yesterday"}, "400 InvalidHeaderValue"),
    ("PUT", "new", {}, CREATE | {"x-ms-meta-a-b": "x"}, "400 InvalidMetadata"),
    ("PUT", "new", {}, CREATE | {"x-ms-lease-id": "x"}, "400 InvalidHeaderValue"),
    ("PUT", "there", {"comp": "nonsense"}, {}, "400 InvalidQueryParameterValue"),
    ("PUT", "there", {"comp": "lease"}, {"x-ms-lease-action": "steal"}, "400 InvalidHeaderValue"),
    ("PUT", "there", {"comp": "lease"}, {}, "400 MissingRequiredHeader"),
    ("PATCH", "there", {}, {}, "405 UnsupportedHttpVerb"),
    ("GET", "there", {"comp": "rangelist", "prevsharesnapshot": "yesterday"}, {}, "400 InvalidQueryParameterValue"),
    ("PUT", "there", {"restype": "hardlink"}, {"x-ms-type": "file", "x-ms-file-target-file": "/there"}, "501"),
    ("PUT", "link", {"restype": "symboliclink"}, {"x-ms-link-text": "there"}, "501"),
    ("GET", "there", {"restype": "symboliclink"}, {}, "501"),
])
def test_refusals(share, method, path, query, headers, verdict):
    rig.make(share.share_name, "there", 10)
    answer = rig.call(method, rig.path_of(share.share_name, path), query, headers)
    status, _, codes = verdict.partition(" ")
    assert str(answer.status) == status and (not codes or answer.code in codes.split("|")), answer
    assert rig.names(share.list_directories_and_files()) == ["there"]


def test_the_error_body_is_the_services_own(share):
    answer = rig.call("GET", rig.path_of(share.share_name, "none"))
    error = answer.xml()
    assert error.tag == "Error" and error.findtext("Code") == "ResourceNotFound"
    assert "RequestId:" in error.findtext("Message") and "Time:" in error.findtext("Message")
    assert answer.headers["x-ms-error-code"] == "ResourceNotFound" and answer.headers["x-ms-request-id"]


@pytest.mark.parametrize("version", ["2019-02-02", "2019-12-12", "2020-10-02", "2021-06-08", "2022-11-02", "2024-05-04", "2026-10-06"])
def test_older_and_current_versions(service, version):
    share = rig.service(api_version=version).create_share(rig.unique("s"))
    try:
        file = share.get_file_client("a")
        file.upload_file(b"abc")
        assert file.download_file().readall() == b"abc"
        assert rig.names(share.list_directories_and_files()) == ["a"]
        file.delete_file()
    finally:
        share.delete_share()


def test_versions_that_never_were(share):
    answer = rig.call("GET", rig.path_of(share.share_name, "a"), version="1999-01-01")
    assert answer.status == 400, answer


def test_conditions_are_not_for_files(share):
    rig.make(share.share_name, "a", 1)
    answer = rig.call("GET", rig.path_of(share.share_name, "a"), None, {"If-Match": '"0x1"'})
    assert answer.status in (200, 400), answer
