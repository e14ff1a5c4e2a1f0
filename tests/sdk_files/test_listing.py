"""List Directories and Files."""

import pytest

import rig


def test_pages_prefixes_and_order(share):
    wanted = []
    for number in range(23):
        name = f"n{number:02}"
        if number % 5 == 0:
            share.create_directory(name)
            share.get_file_client(f"{name}/inside").create_file(1)
        else:
            share.get_file_client(name).create_file(number)
        wanted.append(name)
    pages = [list(page) for page in share.list_directories_and_files(results_per_page=10).by_page()]
    assert len(pages) > 2 and all(len(page) <= 10 for page in pages), "a page is at most as long as asked"
    found = [item for page in pages for item in page]
    # The SDK puts the directories of a page first.
    found.sort(key=lambda item: item["name"])
    assert rig.names(found) == wanted, "one level, each once"
    assert [item["is_directory"] for item in found] == [number % 5 == 0 for number in range(23)]
    assert [item["size"] for item in found if not item["is_directory"]] == [n for n in range(23) if n % 5]
    assert sorted(rig.names(share.list_directories_and_files(name_starts_with="n1"))) == wanted[10:20]
    listed = rig.call("GET", rig.path_of(share.share_name), {"restype": "directory", "comp": "list"}).xml()
    assert [entry.findtext("Name") for entry in listed.find("Entries")] == wanted, "files and directories together, in order"
    assert rig.names(share.get_directory_client("n05").list_directories_and_files()) == ["inside"]


def test_what_can_be_included(share):
    share.get_file_client("a").create_file(3, file_attributes="Hidden")
    share.create_directory("d")
    plain = {item["name"]: item for item in share.list_directories_and_files()}
    assert plain["a"]["file_id"] and plain["d"]["file_id"]
    include = ["timestamps", "Etag", "Attributes", "PermissionKey"]
    full = {item["name"]: item for item in share.list_directories_and_files(include=include, include_extended_info=True)}
    headers = rig.call("HEAD", rig.path_of(share.share_name, "a")).headers
    assert full["a"]["creation_time"] == headers["x-ms-file-creation-time"]
    assert full["a"]["last_write_time"] == headers["x-ms-file-last-write-time"]
    assert full["a"]["change_time"] == headers["x-ms-file-change-time"]
    assert full["a"]["file_id"] == headers["x-ms-file-id"]
    assert full["a"]["etag"].strip('"') == headers["ETag"].strip('"')
    assert full["a"]["file_attributes"] == "Hidden" and full["d"]["file_attributes"] == "Directory"


def test_names_that_xml_cannot_hold_are_encoded(share):
    name = "a&b<c".replace("<", "")
    share.get_file_client(name).create_file(1)
    assert rig.names(share.list_directories_and_files()) == [name]


@pytest.mark.parametrize("path, verdict", [("none", "404 ResourceNotFound"), ("none/below", "404 ParentNotFound")])
def test_missing_directories(share, path, verdict):
    answer = rig.call("GET", rig.path_of(share.share_name, path), {"restype": "directory", "comp": "list"})
    assert answer.verdict in (verdict, "404 ResourceNotFound"), answer


def test_ten_thousand_entries(share):
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda number: rig.make(share.share_name, f"f{number:05}").status, range(10_000))
        assert set(made) == {201}
    pages = [list(page) for page in share.list_directories_and_files().by_page()]
    assert [len(page) for page in pages] == [5000, 5000]
    assert [item["name"] for page in pages for item in page] == [f"f{number:05}" for number in range(10_000)]
