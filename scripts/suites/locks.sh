#!/usr/bin/env bash
# flock(1), SQLite and git with two processes each: what happens on the mount is what happens in a plain directory.
# Usage: locks.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

work_dir "${1:-}" locks
LOCAL=$(mktemp -d)
export HOME=$LOCAL GIT_CONFIG_GLOBAL=$LOCAL/gitconfig GIT_CONFIG_SYSTEM=/dev/null
git config --global user.name Test
git config --global user.email test@example.org
git config --global init.defaultBranch main
git config --global gc.auto 0

# note WORDS...: one line of the transcript.
note() { printf '%s\n' "$*"; }

# code COMMAND...: notes how it ended.
code() {
    local result=0
    timeout 60 "$@" >/dev/null 2>&1 || result=$?
    note "$* -> $result"
}

# hold OPTION...: a process that holds a flock until `release`; returns when it has it.
hold() {
    rm -f held
    flock "$@" file sh -c ': > held; exec sleep 600' &
    holder=$!
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        [[ ! -e held ]] || return 0
        sleep 0.1
    done
    fail "locks: flock $* never got its lock"
}

# release: kills the holder, flock itself and the command under it, which have the same descriptor.
release() {
    local child
    for child in $(cat "/proc/$holder/task/$holder/children" 2>/dev/null); do kill -9 "$child" 2>/dev/null || true; done
    kill -9 "$holder" 2>/dev/null || true
    # A subshell cannot wait for a holder that is not its own child.
    wait "$holder" 2>/dev/null || true
}

flocks() {
    : >file
    note "an exclusive holder"
    hold --exclusive
    code flock --nonblock --exclusive file true
    code flock --nonblock --shared file true
    code flock --conflict-exit-code 9 --timeout 0.2 file true
    note "waits for a holder that is killed"
    (sleep 0.3 && release) &
    code flock --timeout 60 file true
    wait
    note "a shared holder"
    hold --shared
    code flock --nonblock --shared file true
    code flock --nonblock --exclusive file true
    release
    code flock --timeout 60 file true
    note "one descriptor, converted and given back"
    code bash -c 'exec 9<>file; flock --shared 9 && flock --nonblock --exclusive 9 && flock --unlock 9 && flock --nonblock file true'
    code bash -c 'exec 9<>file; flock --exclusive 9; flock --nonblock file true'
    note "inherited by a child that outlives its parent"
    bash -c 'exec 9<>file; flock 9; sleep 600 </dev/null >/dev/null 2>&1 & echo $! >keeper'
    code flock --nonblock file true
    kill -9 "$(cat keeper)"
    code flock --timeout 60 file true
    note "flock and fcntl of one program on one file"
    code python3 -c 'import fcntl; f = open("file", "r+"); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)'
    note "a counter that four scripts raise under the lock"
    echo 0 >counter
    local script
    for script in 1 2 3 4; do
        bash -c 'for n in {1..25}; do (flock 9; echo $(($(cat counter) + 1)) >counter) 9>>guard; done' &
    done
    wait
    note "counted $(cat counter)"
}

databases() {
    timeout 120 python3 - <<'PYTHON'
import os, sqlite3, subprocess, sys

WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for n in range(100):
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE t SET n = n + 1")
    db.execute("COMMIT")
"""


def outcome(db, statement):
    try:
        rows = db.execute(statement).fetchall()
        return "ok" if not rows else str(rows)
    except sqlite3.OperationalError as problem:
        return str(problem)


for journal in ("delete", "truncate", "persist", "wal"):
    path = f"{journal}.db"
    one = sqlite3.connect(path, timeout=0, isolation_level=None)
    one.execute(f"PRAGMA journal_mode={journal}")
    one.execute("CREATE TABLE t (n INTEGER)")
    one.execute("INSERT INTO t VALUES (0)")
    two = sqlite3.connect(path, timeout=0, isolation_level=None)
    print(journal, "begin", outcome(one, "BEGIN IMMEDIATE"), outcome(two, "BEGIN IMMEDIATE"))
    print(journal, "read while the other writes", outcome(one, "UPDATE t SET n = 1"), outcome(two, "SELECT n FROM t"))
    print(journal, "commit", outcome(one, "COMMIT"), outcome(two, "SELECT n FROM t"))
    print(journal, "exclusive", outcome(one, "BEGIN EXCLUSIVE"), outcome(two, "SELECT n FROM t"), outcome(two, "BEGIN IMMEDIATE"))
    print(journal, "roll back", outcome(one, "ROLLBACK"), outcome(two, "BEGIN IMMEDIATE"), outcome(two, "ROLLBACK"))
    one.close()
    two.close()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path]) for _ in range(2)]
    print(journal, "writers", [writer.wait() for writer in writers])
    db = sqlite3.connect(path)
    print(journal, "sum", outcome(db, "SELECT n FROM t"), outcome(db, "PRAGMA integrity_check"))
    db.close()
    print(journal, "files", sorted(name for name in os.listdir(".") if name.startswith(path)))
PYTHON
}

repositories() {
    git init --quiet repository
    cd repository
    git commit --quiet --allow-empty --message start
    : >.git/index.lock
    echo a >a
    code git add a
    rm .git/index.lock
    code git add a
    code git commit --quiet --message a
    note "two processes commit to two branches of one repository, thirty times each"
    local branch
    for branch in left right; do
        git worktree add --quiet "../$branch" -b "$branch"
        bash -c 'cd "$0" && for n in {1..30}; do echo "$n" >"$1" && git add "$1" && git commit --quiet --message "$n" || exit 1; done' "../$branch" "$branch" &
    done
    wait
    note "commits: $(git rev-list --count left) $(git rev-list --count right)"
    code git merge --quiet left right --message both
    code git fsck --strict
    code git gc --quiet
    note "files: $(git ls-files | tr '\n' ' ')"
    cd ..
}

# transcript DIRECTORY PART: what PART notes there.
transcript() {
    mkdir "$1/$2"
    (cd "$1/$2" && "$2") 2>"$LOCAL/errors" || fail "locks: $2 in $1: $(tail -5 "$LOCAL/errors")"
}

for part in flocks databases repositories; do
    transcript "$LOCAL" "$part" >"$LOCAL/$part.plain"
    transcript "$WORK" "$part" >"$LOCAL/$part.mount"
    diff "$LOCAL/$part.plain" "$LOCAL/$part.mount" >&2 || fail "locks: $part: the mount (>) differs from a plain directory (<)"
    say "locks: $part: $(wc -l <"$LOCAL/$part.mount") outcomes as in a plain directory"
done
