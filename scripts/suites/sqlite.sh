#!/usr/bin/env bash
# SQLite with rollback and WAL journals, two processes writing at once. Usage: sqlite.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

work_dir "${1:-}" sqlite
timeout 300 python3 - <<'PYTHON' || fail "sqlite: see above"
import multiprocessing, os, queue, sqlite3, sys

ROWS = int(os.environ.get("SQLITE_ROWS", "400"))  # committed one by one, per process


def connect(path):
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA synchronous=FULL")
    return db


def writer(path, name, acknowledged):
    db = connect(path)
    for number in range(ROWS):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO log VALUES (?, ?, ?)", (name, number, os.urandom(200 + number * 7)))
        db.execute("UPDATE total SET rows = rows + 1")
        if number % 10 == 9:
            db.execute("ROLLBACK")
        else:
            db.execute("COMMIT")
            acknowledged.put((name, number))
    db.close()


def check(journal):
    path = f"{journal}.db"
    db = connect(path)
    mode = db.execute(f"PRAGMA journal_mode={journal}").fetchone()[0]
    assert mode == journal, f"journal mode is {mode}, not {journal}"
    db.execute("CREATE TABLE log (writer TEXT, number INTEGER, body BLOB, PRIMARY KEY (writer, number))")
    db.execute("CREATE TABLE total (rows INTEGER)")
    db.execute("INSERT INTO total VALUES (0)")
    db.close()
    acknowledged = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=writer, args=(path, name, acknowledged)) for name in ("a", "b")]
    for worker in workers:
        worker.start()
    expected = set()
    while len(expected) < 2 * ROWS * 9 // 10:
        try:
            expected.add(acknowledged.get(timeout=1))
        except queue.Empty:
            assert any(worker.is_alive() for worker in workers), f"{journal}: a writer failed (above)"
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0, f"{journal}: a writer ended with {worker.exitcode}"
    db = connect(path)
    found = set(db.execute("SELECT writer, number FROM log"))
    assert found == expected, f"{journal}: {len(found)} rows, {len(expected)} acknowledged"
    counted = db.execute("SELECT rows FROM total").fetchone()[0]
    assert counted == len(expected), f"{journal}: counter {counted}, {len(expected)} acknowledged"
    verdict = db.execute("PRAGMA integrity_check").fetchone()[0]
    assert verdict == "ok", f"{journal}: integrity_check says {verdict}"
    db.execute("DELETE FROM log WHERE number % 2 = 0")
    db.execute("VACUUM")
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", f"{journal}: damaged by VACUUM"
    db.close()
    left = sorted(name for name in os.listdir(".") if name.startswith(path) and name != path)
    assert left == [], f"{journal}: left behind {left}"
    print(f"sqlite: {journal}: {len(expected)} rows of two writers, integrity ok", file=sys.stderr)


for journal in ("delete", "truncate", "wal"):
    check(journal)
PYTHON
