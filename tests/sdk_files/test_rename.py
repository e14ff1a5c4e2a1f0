"""Renaming files and directories."""

import rig


def test_a_file_moves(share):
    share.create_directory("d")
    file = share.get_file_client("a")
    file.upload_file(b"content", metadata={"k": "v"})
    identity = file.get_file_properties().file_id
    moved = file.rename_file("d/b")
    assert moved.download_file().readall() == b"content"
    found = moved.get_file_properties()
    assert found.metadata == {"k": "v"} and found.file_id == identity
    rig.refused("404 ResourceNotFound", file.get_file_properties)


def test_targets_that_exist(share):
    for name in ("a", "b"):
        share.get_file_client(name).upload_file(name.encode())
    share.create_directory("d")
    rig.refused("409 ResourceAlreadyExists", share.get_file_client("a").rename_file, "b")
    share.get_file_client("a").rename_file("b", overwrite=True)
    assert share.get_file_client("b").download_file().readall() == b"a"
    assert sorted(rig.names(share.list_directories_and_files())) == ["b", "d"]
    error = rig.call("PUT", rig.path_of(share.share_name, "d"), {"comp": "rename"},
                     {"x-ms-file-rename-source": f"{rig.URL}/{share.share_name}/b", "x-ms-file-rename-replace-if-exists": "true"})
    assert error.status == 409, error


def test_read_only_targets(share):
    for name in ("a", "b"):
        share.get_file_client(name).create_file(1, file_attributes="ReadOnly" if name == "b" else "None")
    rig.refused("409 ReadOnlyAttribute", share.get_file_client("a").rename_file, "b", overwrite=True)
    share.get_file_client("a").rename_file("b", overwrite=True, ignore_read_only=True)
    assert sorted(rig.names(share.list_directories_and_files())) == ["b"]


def test_missing_sources_and_parents(share):
    rig.refused("404 ResourceNotFound", share.get_file_client("a").rename_file, "b")
    share.get_file_client("a").create_file(1)
    rig.refused("404 ParentNotFound", share.get_file_client("a").rename_file, "none/b")


def test_directories_move_with_what_is_in_them(share):
    directory = share.create_directory("d")
    directory.create_subdirectory("e")
    share.get_file_client("d/e/f").upload_file(b"deep")
    moved = directory.rename_directory("n")
    assert share.get_file_client("n/e/f").download_file().readall() == b"deep"
    rig.refused("404 ResourceNotFound", directory.get_directory_properties)
    assert rig.names(moved.list_directories_and_files()) == ["e"]
    share.create_directory("full")
    share.get_file_client("full/x").create_file(1)
    rig.refused("409 ResourceAlreadyExists", moved.rename_directory, "full")


def test_new_properties_come_along(share):
    file = share.get_file_client("a")
    file.create_file(1)
    moved = file.rename_file("b", content_type="text/x-new", metadata={"n": "1"}, file_attributes="Hidden")
    found = moved.get_file_properties()
    assert found.content_settings.content_type == "text/x-new" and found.file_attributes == "Hidden"
    assert found.metadata == {"n": "1"}


def test_leases_on_both_sides(share):
    for name in ("a", "b"):
        share.get_file_client(name).upload_file(name.encode())
        share.get_file_client(name).acquire_lease(lease_id=rig.A if name == "a" else rig.B)
    file = share.get_file_client("a")
    rig.refused("412 LeaseIdMissing", file.rename_file, "c")
    rig.refused("412 LeaseIdMissing", file.rename_file, "b", overwrite=True, source_lease=rig.A)
    file.rename_file("b", overwrite=True, source_lease=rig.A, destination_lease=rig.B)
    assert share.get_file_client("b").download_file().readall() == b"a"
