#!/usr/bin/env bash
# Every sequence of up to three changes on a reopened file (write, map, truncate, allocate, punch, copy, fsync, reopen),
# compared with what must be there: through the descriptor, through a mapping, after close. Usage: sequences.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

work_dir "${1:-}" sequences
timeout 500 python3 - <<'PYTHON' || fail "sequences: see above"
import ctypes, itertools, mmap, os, random, signal, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
PUNCH_KEEP_SIZE, ZERO_RANGE = 3, 0x10


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, offset, length) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def apply(name, fd, good, path):
    """Does one operation on the file and on the model of it. Returns the descriptor."""
    a, b = len(good) // 10, len(good) // 4
    if name == "write":
        os.pwrite(fd, b"W" * 5000, b)
        good[b : b + 5000] = b"W" * 5000
    elif name == "append":
        os.pwrite(fd, b"A" * 7001, len(good))
        good += b"A" * 7001
    elif name == "mapwrite":
        with mmap.mmap(fd, 0) as mapped:
            mapped[b - 1000 : b + 1000] = b"M" * 2000
        good[b - 1000 : b + 1000] = b"M" * 2000
    elif name == "grow":
        os.ftruncate(fd, len(good) + 100000)
        good += bytes(100000)
    elif name == "shrink":
        os.ftruncate(fd, len(good) - a)
        del good[-a:]
    elif name == "allocate":
        fallocate(fd, 0, len(good) - 10, 5000)
        good += bytes(4990)
    elif name == "punch":
        fallocate(fd, PUNCH_KEEP_SIZE, a, b)
        good[a : a + b] = bytes(b)
    elif name == "zero":
        fallocate(fd, ZERO_RANGE, b, a)
        good[b : b + a] = bytes(a)
    elif name == "copy":
        assert os.copy_file_range(fd, fd, a, 50, 2 * b) == a
        good[2 * b : 2 * b + a] = good[50 : 50 + a]
    elif name == "fsync":
        os.fsync(fd)
    elif name == "reopen":
        os.close(fd)
        fd = os.open(path, os.O_RDWR)
    assert os.fstat(fd).st_size == len(good), f"after {name} the size is {os.fstat(fd).st_size}, not {len(good)}"
    return fd


OPERATIONS = ["write", "append", "mapwrite", "grow", "shrink", "allocate", "punch", "zero", "copy", "fsync", "reopen"]


def same(what, got, good):
    if got != good:
        at = next((i for i, (x, y) in enumerate(zip(got, good)) if x != y), min(len(got), len(good)))
        raise AssertionError(f"{what}: {len(got)} bytes instead of {len(good)}, first difference at {at}")


def run(size, names):
    path = "file"
    good = bytearray(random.randbytes(size))
    with open(path, "wb") as file:
        file.write(good)
    fd = os.open(path, os.O_RDWR)
    for name in names:
        fd = apply(name, fd, good, path)
    same("read", os.pread(fd, len(good) + 10, 0), good)
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:
        same("mapping", mapped[:], good)
    os.close(fd)
    with open(path, "rb") as file:
        same("after close", file.read(), good)


def batch(size, length, first):
    """All sequences that begin with `first`, in a child: a bad mapping kills by SIGBUS."""
    child = os.fork()
    if child == 0:
        faults = 0
        for rest in itertools.product(OPERATIONS, repeat=length - 1):
            names = (first, *rest)
            os.pwrite(note, " ".join(names).ljust(60).encode(), 0)
            try:
                run(size, names)
            except (AssertionError, OSError) as error:
                faults += 1
                print(f"sequences: {size} bytes: {' '.join(names)}: {error}", file=sys.stderr, flush=True)
                if faults >= 5:
                    break
        os._exit(1 if faults else 0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        last = os.pread(note, 60, 0).decode().strip()
        print(f"sequences: {size} bytes: {last}: {signal.Signals(os.WTERMSIG(status)).name}", file=sys.stderr)
    return status == 0


note = os.memfd_create("note")
random.seed(3)
# Small, one block of a few hundred KiB, and large enough that a change is stored as a change.
plan = [(size, length) for size in (60000, 200000, 1300000) for length in (1, 2)] + [(1300000, 3)]
good = [batch(size, length, first) for size, length in plan for first in OPERATIONS]
print(f"sequences: {sum(11 ** length for _, length in plan)} sequences, {good.count(False)} groups failed", file=sys.stderr)
sys.exit(0 if all(good) else 1)
PYTHON
