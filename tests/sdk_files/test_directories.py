"""Directories: making and removing them, properties, metadata, attributes and times."""

import rig


def test_a_directory_lives_and_dies(share):
    directory = share.get_directory_client("one")
    assert not directory.exists()
    made = directory.create_directory(metadata={"key": "value"})
    assert made["etag"] and made["file_id"] and made["file_attributes"] == "Directory"
    found = directory.get_directory_properties()
    assert found.metadata == {"key": "value"} and found.file_attributes == "Directory" and directory.exists()
    for time in (made["file_creation_time"], made["file_last_write_time"], made["file_change_time"]):
        rig.moment(time)
    rig.refused("409 ResourceAlreadyExists", directory.create_directory)
    below = directory.create_subdirectory("two")
    assert below.get_directory_properties().parent_id == made["file_id"]
    rig.refused("409 DirectoryNotEmpty", directory.delete_directory)
    below.delete_directory()
    directory.delete_directory()
    rig.refused("404 ResourceNotFound", directory.delete_directory)
    rig.refused("404 ResourceNotFound", directory.get_directory_properties)


def test_parents_must_be_there(share):
    rig.refused("404 ParentNotFound", share.get_directory_client("none/below").create_directory)
    rig.refused("404 ParentNotFound", share.get_file_client("none/file").create_file, 1)
    share.get_file_client("file").create_file(1)
    answer = rig.call("PUT", rig.path_of(share.share_name, "file/below"), {"restype": "directory"})
    assert answer.status in (404, 409), answer


def test_files_and_directories_are_not_the_same(share):
    share.create_directory("d")
    share.get_file_client("f").create_file(1)
    rig.refused("409 ResourceAlreadyExists", share.get_directory_client("f").create_directory)
    rig.refused("409 ResourceTypeMismatch", share.get_file_client("d").create_file, 1)
    rig.refused("409 ResourceTypeMismatch", share.get_directory_client("f").delete_directory)
    rig.refused("409 ResourceTypeMismatch", share.get_file_client("d").delete_file)


def test_metadata_and_properties(share):
    directory = share.create_directory("d", metadata={"a": "1"})
    before = directory.get_directory_properties()
    directory.set_directory_metadata({"b": "2"})
    directory.set_http_headers(file_attributes="Directory|Hidden", file_creation_time="2020-01-02T03:04:05.1234567Z",
                               file_last_write_time="2021-01-02T03:04:05.7654321Z")
    answer = rig.call("HEAD", rig.path_of(share.share_name, "d"), {"restype": "directory"})
    assert answer.headers["x-ms-file-creation-time"] == "2020-01-02T03:04:05.1234567Z"
    assert answer.headers["x-ms-file-last-write-time"] == "2021-01-02T03:04:05.7654321Z"
    assert sorted(answer.headers["x-ms-file-attributes"].replace(" ", "").split("|")) == ["Directory", "Hidden"]
    after = directory.get_directory_properties()
    assert after.metadata == {"b": "2"} and after.etag != before.etag


def test_the_root_is_a_directory(share):
    answer = rig.call("HEAD", rig.path_of(share.share_name), {"restype": "directory"})
    assert answer.status == 200 and answer.headers["x-ms-file-parent-id"] == "0"
    answer = rig.call("DELETE", rig.path_of(share.share_name), {"restype": "directory"})
    assert answer.status >= 400, answer
