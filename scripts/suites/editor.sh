#!/usr/bin/env bash
# Saving as editors do: temporary file, fsync, rename over; and truncate-and-rewrite. Usage: editor.sh DIRECTORY
# A reader that looks all the time must see a complete version in the first case, and the last save must be there.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

work_dir "${1:-}" editor
timeout 300 python3 - <<'PYTHON' || fail "editor: see above"
import hashlib, multiprocessing, os, sys, time

ROUNDS = 500


def version(number):
    body = (f"version {number}\n" * (50 + number * 13 % 900)).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def save_by_rename(path, content):
    temporary = f".{path}.swp"
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def save_with_backup(path, content):
    """As vim does with 'backup': the old file is renamed away, the new one takes its name."""
    if os.path.exists(path):
        os.replace(path, path + "~")
    with open(path, "xb") as file:
        file.write(content)
        os.fsync(file.fileno())
    if os.path.exists(path + "~"):
        os.unlink(path + "~")


def save_in_place(path, content):
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def reader(path, stop, result):
    reads, seen = 0, set()
    while not stop.is_set():
        try:
            os.stat(path)
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            result.put(f"a reader was told {error}, but the file is always there")
            return
        head, _, body = content.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != head:
            result.put(f"a reader saw a version that was never saved ({len(content)} bytes)")
            return
        reads += 1
        seen.add(head)
    result.put((reads, len(seen)))


save_by_rename("document", version(0))
stop, result = multiprocessing.Event(), multiprocessing.Queue()
watcher = multiprocessing.Process(target=reader, args=("document", stop, result))
watcher.start()
for number in range(1, ROUNDS + 1):
    if not watcher.is_alive():
        break
    save_by_rename("document", version(number))
    with open("document", "rb") as file:
        assert file.read() == version(number), f"round {number}: what was saved is not what is read"
stop.set()
seen = result.get(timeout=30)
watcher.join()
assert not isinstance(seen, str), seen
assert seen[0] > 10 and seen[1] > 1, f"the reader got only {seen[0]} looks at {seen[1]} versions"
print(f"editor: {ROUNDS} saves by rename, {seen[0]} complete reads of {seen[1]} versions", file=sys.stderr)

for number in range(ROUNDS):
    save_in_place("notes", version(number))
    assert os.stat("notes").st_size == len(version(number)), f"round {number}: wrong size"
    with open("notes", "rb") as file:
        assert file.read() == version(number), f"round {number}: truncate-and-rewrite lost something"
for number in range(100):
    save_with_backup("letter", version(number))
    with open("letter", "rb") as file:
        assert file.read() == version(number), f"round {number}: save with backup lost something"

# An editor that keeps the old version open while the new one is moved over it.
with open("document", "rb") as old:
    before = old.read(10)
    save_by_rename("document", version(9999))
    old.seek(0)
    assert old.read() == version(ROUNDS), "the open file changed when another was renamed over it"
with open("document", "rb") as file:
    assert file.read() == version(9999)
left = sorted(os.listdir("."))
assert left == ["document", "letter", "notes"], f"left behind: {left}"
print(f"editor: {ROUNDS} saves in place, 100 with backup", file=sys.stderr)
PYTHON
