"""Share snapshots: what the share was, readable and never changed."""

import rig


def test_a_snapshot_is_what_the_share_was(service, share):
    share.create_directory("d", metadata={"dir": "1"})
    big = rig.noise(3_000_000)
    share.get_file_client("d/big").upload_file(big)
    share.get_file_client("small").upload_file(b"small", metadata={"k": "v"})
    share.get_file_client("gone").create_file(1)
    taken = share.create_snapshot(metadata={"when": "then"})
    share.get_file_client("d/big").upload_range(b"changed", 100, 7)
    share.get_file_client("small").upload_file(b"bigger than before")
    share.get_file_client("gone").delete_file()
    share.get_file_client("new").create_file(1)
    then = service.get_share_client(share.share_name, snapshot=taken["snapshot"])
    assert then.get_share_properties().metadata == {"when": "then"}
    assert sorted(rig.names(then.list_directories_and_files())) == ["d", "gone", "small"]
    assert rig.names(then.get_directory_client("d").list_directories_and_files()) == ["big"]
    assert then.get_directory_client("d").get_directory_properties().metadata == {"dir": "1"}
    assert then.get_file_client("d/big").download_file().readall() == big
    assert then.get_file_client("small").download_file().readall() == b"small"
    assert then.get_file_client("small").get_file_properties().metadata == {"k": "v"}
    rig.refused("404 ResourceNotFound", then.get_file_client("new").get_file_properties)
    assert sorted(rig.names(share.list_directories_and_files())) == ["d", "new", "small"]


def test_nothing_changes_a_snapshot(share):
    share.get_file_client("a").create_file(10)
    snapshot = {"sharesnapshot": share.create_snapshot()["snapshot"]}
    path = rig.path_of(share.share_name, "a")
    requests = [
        ("PUT", path, {}, {"x-ms-type": "file", "x-ms-content-length": 1}, b""),
        ("PUT", path, {"comp": "range"}, {"x-ms-write": "update", "x-ms-range": "bytes=0-0"}, b"x"),
        ("PUT", path, {"comp": "metadata"}, {}, b""),
        ("PUT", path, {"comp": "properties"}, {}, b""),
        ("PUT", path, {"comp": "lease"}, {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}, b""),
        ("DELETE", path, {}, {}, b""),
        ("PUT", rig.path_of(share.share_name, "d"), {"restype": "directory"}, {}, b""),
    ]
    for method, target, query, headers, body in requests:
        answer = rig.call(method, target, query | snapshot, headers, body)
        assert answer.verdict == "400 InvalidQueryParameterValue", (query, answer)


def test_differences_to_a_snapshot(share):
    file = share.get_file_client("a")
    file.upload_file(rig.noise(100_000))
    first = share.create_snapshot()["snapshot"]
    file.upload_range(bytes([1]) * 512, 1024, 512)
    file.clear_range(65536, 4096)
    second = share.create_snapshot()["snapshot"]
    file.upload_range(bytes([2]) * 512, 8192, 512)

    def covers(ranges, start, length):
        return any(one["start"] <= start and start + length - 1 <= one["end"] for one in ranges)

    written, cleared = file.get_ranges_diff(previous_sharesnapshot=first)
    assert covers(written, 1024, 512) and covers(written, 8192, 512)
    assert covers(written + cleared, 65536, 4096)
    assert sum(one["end"] - one["start"] + 1 for one in written + cleared) < 20_000, (written, cleared)
    written, cleared = file.get_ranges_diff(previous_sharesnapshot=second)
    assert covers(written, 8192, 512) and not covers(written + cleared, 1024, 1)
    assert file.get_ranges_diff(previous_sharesnapshot=share.create_snapshot()["snapshot"]) == ([], [])


def test_shares_are_deleted_only_with_their_snapshots(service):
    share = service.create_share(rig.unique("s"))
    first, second = (share.create_snapshot()["snapshot"] for _ in range(2))
    assert first < second
    rig.refused("409 ShareHasSnapshots", share.delete_share)
    old = service.get_share_client(share.share_name, snapshot=first)
    old.delete_share()
    assert rig.call("HEAD", rig.path_of(share.share_name), {"restype": "share", "sharesnapshot": first}).status == 404
    share.delete_share(delete_snapshots=True)
    rig.refused("404 ShareNotFound", share.get_share_properties)


def test_snapshots_that_are_not_there(share):
    share.get_file_client("a").create_file(1)
    for text, status in [("2020-01-02T03:04:05.1234567Z", 404), ("yesterday", 400)]:
        answer = rig.call("GET", rig.path_of(share.share_name, "a"), {"sharesnapshot": text})
        assert answer.status == status, (text, answer)


def test_copying_out_of_a_snapshot(share):
    file = share.get_file_client("a")
    file.upload_file(b"before")
    snapshot = share.create_snapshot()["snapshot"]
    file.upload_file(b"after it")
    file.start_copy_from_url(f"{rig.URL}/{share.share_name}/a?sharesnapshot={snapshot}")
    rig.wait_for(lambda: file.get_file_properties().copy.status != "pending", "the copy ends")
    assert file.download_file().readall() == b"before"
