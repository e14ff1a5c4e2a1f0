"""The service beside a mount: one truth for both, and the mount's opens, range locks and removals stand in the way of REST."""

import contextlib
import fcntl
import os
import subprocess

import pytest
from azure.storage.fileshare import ContentSettings

import rig

VIOLATION, PENDING = "409 SharingViolation", "409 SMBDeletePending"


def where(folder, name):
    return rig.path_of(rig.MOUNTED_SHARE, f"{folder.name}/{name}")


@contextlib.contextmanager
def held(path, access="rw", share="none"):
    """The file is open with a share mode while this runs, by `leasefs open`."""
    command = [rig.LEASEFS, "open", "--access", access, "--share", share, str(path), "--", "sh", "-c", "echo open; read line"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "open\n"
    try:
        yield child
    finally:
        child.stdin.close()
        assert child.wait(timeout=30) in (0, 1)


def settled(action, wanted):
    """Repeats a request until it gets this verdict: close(2) returns before the mount hears of it."""
    rig.wait_for(lambda: action().verdict == wanted, wanted)


def test_both_sides_see_each_other_at_once(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(rig.noise(100_000))
    assert directory.get_file_client("a").download_file().readall() == rig.noise(100_000)
    directory.get_file_client("a").upload_range(b"from rest", 10, 9)
    assert (folder / "a").read_bytes()[10:19] == b"from rest"
    directory.get_file_client("b").upload_file(b"new file")
    assert (folder / "b").read_bytes() == b"new file" and sorted(os.listdir(folder)) == ["a", "b"]
    directory.get_file_client("a").resize_file(5)
    assert (folder / "a").stat().st_size == 5
    os.rename(folder / "b", folder / "c")
    assert rig.names(directory.list_directories_and_files()) == ["a", "c"]
    directory.get_file_client("c").rename_file(f"{folder.name}/d")
    assert (folder / "d").read_bytes() == b"new file" and not (folder / "c").exists()
    directory.get_file_client("d").delete_file()
    assert not (folder / "d").exists()
    directory.create_subdirectory("sub")
    (folder / "sub" / "x").write_bytes(b"x")
    assert rig.names(directory.get_subdirectory_client("sub").list_directories_and_files()) == ["x"]


def test_what_a_program_is_writing_is_seen(mounted):
    directory, folder = mounted
    with open(folder / "a", "wb", buffering=0) as file:
        file.write(b"first")
        assert directory.get_file_client("a").download_file().readall() == b"first"
        file.write(b" second")
        assert directory.get_file_client("a").download_file().readall() == b"first second"


def test_a_share_mode_stands_in_the_way(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    file = directory.get_file_client("a")
    with held(folder / "a"):
        error = rig.refused(VIOLATION, file.download_file)
        assert "leasefs" in error.message or "pid" in error.message, "the holder is named"
        rig.refused(VIOLATION, file.upload_range, b"x", 0, 1)
        rig.refused(VIOLATION, file.delete_file)
        assert file.get_file_properties().size == 7
    settled(lambda: rig.call("GET", where(folder, "a")), "200")


def test_a_removed_file_that_is_open(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    with open(folder / "a", "rb"):
        os.remove(folder / "a")
        for method in ("GET", "HEAD", "DELETE"):
            assert rig.call(method, where(folder, "a")).verdict == PENDING, method
        assert rig.make(rig.MOUNTED_SHARE, f"{folder.name}/a", 1).verdict == PENDING
        assert list(directory.list_directories_and_files()) == []
        subprocess.run([rig.LEASEFS, "undelete", str(folder / "a")], check=True, capture_output=True, timeout=30)
        assert directory.get_file_client("a").download_file().readall() == b"content"
        os.remove(folder / "a")
    settled(lambda: rig.call("GET", where(folder, "a")), "404 ResourceNotFound")


@pytest.mark.parametrize("kind", ["flock exclusive", "flock shared", "fcntl"])
def test_range_locks_refuse_put_range(mounted, kind):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    with open(folder / "a", "r+b") as file:
        if kind == "fcntl":
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 5)
        else:
            fcntl.flock(file, fcntl.LOCK_EX if kind == "flock exclusive" else fcntl.LOCK_SH)
        answer = rig.put_range(rig.MOUNTED_SHARE, f"{folder.name}/a", b"x")
        assert answer.verdict == "409 FileLockConflict", answer
    settled(lambda: rig.put_range(rig.MOUNTED_SHARE, f"{folder.name}/a", b"x"), "201")


def test_a_file_lease_refuses_mounted_writers(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    lease = directory.get_file_client("a").acquire_lease(lease_id=rig.A)
    assert (folder / "a").read_bytes() == b"content"
    for action in (lambda: open(folder / "a", "r+b").close(), lambda: os.remove(folder / "a")):
        with pytest.raises(OSError) as refused:
            action()
        assert refused.value.errno == 16, refused.value
    lease.release()
    (folder / "a").write_bytes(b"again")


def test_read_only_on_both_sides(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    os.chmod(folder / "a", 0o444)
    assert "ReadOnly" in directory.get_file_client("a").get_file_properties().file_attributes
    assert rig.put_range(rig.MOUNTED_SHARE, f"{folder.name}/a", b"x").verdict == "409 ReadOnlyAttribute"
    directory.get_file_client("a").set_http_headers(ContentSettings(), file_attributes="None")
    assert (folder / "a").stat().st_mode & 0o200
    directory.get_file_client("a").set_http_headers(ContentSettings(), file_attributes="ReadOnly")
    assert not (folder / "a").stat().st_mode & 0o222


def test_handles_are_listed_and_closed(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    file = directory.get_file_client("a")
    descriptor = os.open(folder / "a", os.O_RDWR)
    try:
        rig.wait_for(lambda: len(list(file.list_handles())) == 1, "the write's own open is gone")
        handle = list(file.list_handles())[0]
        assert handle.id and handle.path == f"{folder.name}/a" and handle.open_time
        assert set(handle.access_rights or []) >= {"Read", "Write"}
        assert [one.id for one in directory.list_handles(recursive=True) if one.path == handle.path] == [handle.id]
        assert file.close_handle(handle)["closed_handles_count"] == 1
        with pytest.raises(OSError):
            os.write(descriptor, b"x")
            os.fsync(descriptor)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    assert file.close_all_handles()["closed_handles_count"] == 0


def test_times_are_the_same(mounted):
    directory, folder = mounted
    (folder / "a").write_bytes(b"content")
    os.utime(folder / "a", ns=(1_600_000_000_123_456_700, 1_600_000_000_123_456_700))
    headers = rig.call("HEAD", where(folder, "a")).headers
    assert headers["x-ms-file-last-write-time"] == "2020-09-13T12:26:40.1234567Z"
    directory.get_file_client("a").set_http_headers(ContentSettings(), file_last_write_time="2021-01-02T03:04:05.7654321Z")
    assert (folder / "a").stat().st_mtime_ns == 1_609_556_645_765_432_100


def test_snapshots_of_the_mounted_share(mounted):
    directory, folder = mounted
    service = rig.service()
    share = service.get_share_client(rig.MOUNTED_SHARE)
    with open(folder / "a", "wb", buffering=0) as file:
        file.write(rig.noise(100_000))
        os.fsync(file.fileno())
        snapshot = share.create_snapshot()["snapshot"]
        file.seek(0)
        file.write(bytes(100_000))
    then = service.get_share_client(rig.MOUNTED_SHARE, snapshot=snapshot)
    assert then.get_file_client(f"{folder.name}/a").download_file().readall() == rig.noise(100_000)
    then.delete_share()
