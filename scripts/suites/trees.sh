#!/usr/bin/env bash
# Whole trees by tar, rsync and cp, there and back, compared entry by entry; find and rm -rf. Usage: trees.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

need rsync:rsync
work_dir "${1:-}" trees
LOCAL=$(mktemp -d)

# make TREE: a tree with everything a file system may be asked to keep: odd names, modes, times to the nanosecond, links.
make() {
    python3 - "$1" <<'PYTHON'
import os, random, sys

random.seed(7)
top = sys.argv[1]
os.makedirs(top)
odd = ["with space", " leading", "trailing ", "new\nline", "tab\there", "back\\slash", "trailing.", "two..", "...", "-dash",
       ".hidden", "a:b*c?\"<>|", "%41%2F", "~tilde", "CON", "ünïcödé", "e\u0301 decomposed", "日本語", "😀", "'quote'", "$dollar",
       "#hash", "&amp;", "n" * 255, "ü" * 127, "\x01control\x7f", "UPPER", "upper"]
paths = []
for number, name in enumerate(odd):
    path = os.path.join(top, name)
    with open(path, "wb") as file:
        file.write(random.randbytes(number * 37))
    paths.append(path)
    folder = os.path.join(top, "folders", name)
    os.makedirs(folder)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(name.encode())
    paths += [os.path.join(folder, name), folder]
for number in range(300):
    folder = os.path.join(top, "many", f"d{number % 17}", f"e{number % 5}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"f{number}")
    with open(path, "wb") as file:
        file.write(random.randbytes(random.choice([0, 1, 100, 4096, 5000, 70000])))
    paths.append(path)
big = os.path.join(top, "big")
with open(big, "wb") as file:
    file.write(random.randbytes(5 << 20))
sparse = os.path.join(top, "sparse")
with open(sparse, "wb") as file:
    file.truncate(9 << 20)
    file.seek(5 << 20)
    file.write(b"in the middle")
os.makedirs(os.path.join(top, "empty", "below", "below"))
for number, mode in enumerate([0o000, 0o400, 0o600, 0o644, 0o755, 0o777, 0o4755, 0o2755, 0o1644]):
    path = os.path.join(top, f"mode{number}")
    open(path, "w").close()
    if os.geteuid() == 0:
        os.chown(path, 1000 + number, 2000 + number)
    os.chmod(path, mode)
    paths.append(path)
os.mkdir(os.path.join(top, "sticky"))
os.chmod(os.path.join(top, "sticky"), 0o1777)
os.symlink("big", os.path.join(top, "link"))
os.symlink("../nowhere/at all", os.path.join(top, "dangling"))
os.symlink("folders", os.path.join(top, "link to folder"))
os.symlink("/" + "x" * 900, os.path.join(top, "long link"))
for path in paths + [big, sparse]:
    os.utime(path, ns=(10**9 * random.randrange(10**9), random.randrange(2 * 10**18)))
for link in ("link", "dangling", "link to folder", "long link"):
    os.utime(os.path.join(top, link), ns=(1, 1234567890123456789), follow_symlinks=False)
# Deepest first: making an entry changes the time of its folder.
for folder, _, _ in sorted(os.walk(top), reverse=True):
    os.utime(folder, ns=(0, random.randrange(2 * 10**18)))
PYTHON
}

# same TREE TREE WHAT: every name, type, mode, owner, size, time and byte is equal.
same() {
    python3 - "$@" <<'PYTHON' || fail "trees: $3"
import hashlib, os, stat, sys


def entries(top):
    found = {}
    for folder, folders, files in os.walk(top):
        for name in [".", *folders, *files]:
            path = os.path.join(folder, name) if name != "." else folder
            info = os.lstat(path)
            value = [stat.filemode(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns]
            if stat.S_ISLNK(info.st_mode):
                value.append(os.readlink(path))
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    value += [info.st_size, hashlib.sha256(file.read()).hexdigest()]
            found[os.path.relpath(path, top)] = value
    return found


first, second = entries(sys.argv[1]), entries(sys.argv[2])
faults = [(name, first.get(name), second.get(name)) for name in sorted({*first, *second}) if first.get(name) != second.get(name)]
for name, wanted, got in faults[:10]:
    print(f"{name!r}\n  wanted {wanted}\n  got    {got}", file=sys.stderr)
print(f"trees: {sys.argv[3]}: {len(first)} entries, {len(faults)} differ", file=sys.stderr)
sys.exit(1 if faults or len(first) < 400 else 0)
PYTHON
}

make "$LOCAL/tree"
# Made in place too: what tar and rsync restore at the end, a program may also do in any order.
make "$WORK/made"
same "$LOCAL/tree" made "made by system calls"

tar --format=posix -C "$LOCAL" -cf - tree | tar -C "$WORK" --warning=no-timestamp -xpf -
same "$LOCAL/tree" tree "tar onto the mount"
mkdir "$LOCAL/back"
tar --format=posix -C "$WORK" -cf - tree | tar -C "$LOCAL/back" --warning=no-timestamp -xpf -
same "$LOCAL/tree" "$LOCAL/back/tree" "tar back from the mount"
tar -C "$WORK" -df <(tar --format=posix -C "$LOCAL" -cf - tree) || fail "trees: tar --diff finds differences"

rsync -a "$LOCAL/tree/" rsynced/
same "$LOCAL/tree" rsynced "rsync onto the mount"
changes=$(rsync -ai --checksum --delete "$LOCAL/tree/" rsynced/)
[[ -z $changes ]] || fail "trees: a second rsync changes something: $changes"
echo more >>"$LOCAL/tree/big"
rm "$LOCAL/tree/many/d0/e0/f0"
touch -d '2011-12-13 14:15:16.171819 UTC' "$LOCAL/tree/many/d0/e0"
rsync -a --inplace --delete "$LOCAL/tree/" rsynced/
same "$LOCAL/tree" rsynced "rsync of a change, in place"
rsync -a rsynced/ "$LOCAL/back2/"
same "$LOCAL/tree" "$LOCAL/back2" "rsync back from the mount"

cp -a tree copied
same tree copied "cp -a inside the mount"
cp -a tree "$LOCAL/back3"
same tree "$LOCAL/back3" "cp -a off the mount"
mv copied "moved tree"
same tree "moved tree" "mv of the whole tree"

listed=$(find "moved tree" -print0 | tr -cd '\0' | wc -c)
[[ $listed == $(find "$LOCAL/back3" -print0 | tr -cd '\0' | wc -c) ]] || fail "trees: find sees $listed entries"
[[ $(find "moved tree" -type l | wc -l) == 4 ]] || fail "trees: find -type l does not see 4 links"
[[ -z $(find "moved tree" -name 'f*' -size +20M) ]] || fail "trees: find -size sees sizes that are not there"
rm -rf -- tree rsynced "moved tree" made
left=$(ls -A)
[[ -z $left ]] || fail "trees: rm -rf left $left"
