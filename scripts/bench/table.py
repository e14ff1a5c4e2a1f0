#!/usr/bin/env python3
"""Turns recorded values (row, system, value; tab-separated) into the Markdown table of a benchmark."""

import collections
import os
import platform
import sys
import time

SYSTEMS = [("ext4", "ext4"), ("floor", "floor"), ("rclone", "rclone"), ("leasefs", "leasefs"), ("daemon", "leasefs daemon")]

# row: title, unit, whether more is better
ROWS = {
    "seq_write": ("sequential write, 1 MiB", "MiB/s", True),
    "seq_read_cached": ("sequential read, 1 MiB, cached", "MiB/s", True),
    "seq_read_cold": ("sequential read, 1 MiB, cold", "MiB/s", True),
    "seq_read_refetch": ("sequential read, 1 MiB, refetch", "MiB/s", True),
    "random_read": ("random read, 4 KiB, cached", "MiB/s", True),
    "random_write": ("random write, 4 KiB", "MiB/s", True),
    "create": ("create + write 100 B + close, 10,000 files (pinned)", "files/s", True),
    "stat": ("stat (pinned)", "files/s", True),
    "read": ("open + read + close (pinned)", "files/s", True),
    "unlink": ("unlink (pinned)", "files/s", True),
    "untar": ("untar of 5,000 files (pinned)", "files/s", True),
    "git_clone": ("git clone, 2,000 files (pinned)", "s", False),
    "git_status": ("git status (pinned)", "s", False),
    "patch": ("4 KiB change in a 1 GiB file: open + write + close", "ms", False),
    "patch_growth": ("… what the store grew by, three changes", "KiB", False),
    "find": ("find with sizes over 100,000 files (pinned)", "s", False),
    "rename": ("rename of a directory with 10,000 files (pinned)", "ms", False),
}

# what must hold: system, of which other system, at least this share of its speed, in which rows
TARGETS = [
    ("leasefs", "ext4", 0.9, ["seq_write", "seq_read_cached", "seq_read_cold", "random_read"]),
    ("daemon", "floor", 0.9, ["seq_write", "seq_read_cached", "seq_read_refetch", "random_read", "random_write"]),
    ("leasefs", "floor", 0.5, ["create", "read"]),
    ("leasefs", "floor", 0.8, ["stat"]),
    ("leasefs", "rclone", 1.0, [row for row in ROWS if row != "patch_growth"]),
]


def read_best(path):
    """The best value of each row and system, and how many there were."""
    values = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            row, system, value = line.rstrip("\n").split("\t")
            values[row, system].append(float(value))
    return {key: (max if ROWS[key[0]][2] else min)(found) for key, found in values.items()}


def ratio(best, row, system, other):
    """Speed of `system` as a share of `other`'s: above 1 is faster, whatever the unit."""
    ours, theirs = best.get((row, system)), best.get((row, other))
    if ours is None or theirs is None:
        return None
    more, less = (ours, theirs) if ROWS[row][2] else (theirs, ours)
    # Nothing grew on one side: no ratio says anything.
    return more / less if less > 0 else (1.0 if more <= 0 else None)


def shown(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} × {names[0] if names else platform.machine()}"


def main():
    best = read_best(sys.argv[1])
    print("# Mounted benchmark\n")
    print(f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}, {cpu_name()}. Made by `scripts/bench.sh mount`; "
          "columns and rows are explained in [README.md](README.md).\n")
    ratios = [("leasefs", "ext4"), ("leasefs", "floor"), ("daemon", "floor"), ("leasefs", "rclone")]
    print("| workload | unit |" + "".join(f" {title} |" for _, title in SYSTEMS)
          + "".join(f" {a}/{b} |" for a, b in ratios))
    print("|---|---|" + "---:|" * (len(SYSTEMS) + len(ratios)))
    for row, (title, unit, _) in ROWS.items():
        cells = [shown(best.get((row, system))) for system, _ in SYSTEMS]
        shares = [ratio(best, row, a, b) for a, b in ratios]
        print(f"| {title} | {unit} | {' | '.join(cells)} | "
              + " | ".join("-" if share is None else f"{share:.2f}" for share in shares) + " |")
    print("\nRatios are speeds: above 1.00 the first is faster.\n\n## Targets\n")
    print("| target | workload | measured | |\n|---|---|---:|---|")
    missed = 0
    for system, other, wanted, rows in TARGETS:
        for row in rows:
            share = ratio(best, row, system, other)
            verdict = "not measured" if share is None else "met" if share >= wanted else "**missed**"
            missed += verdict == "**missed**"
            print(f"| {system} ≥ {wanted:.2f} of {other} | {ROWS[row][0]} | {'-' if share is None else f'{share:.2f}'} | {verdict} |")
    print(f"\n{missed} missed.")


if __name__ == "__main__":
    main()
