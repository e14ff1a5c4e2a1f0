#!/usr/bin/env python3
"""Turns recorded values (setting, row, system, value; tab-separated) into the Markdown tables of the remote benchmark."""

import collections
import os
import sys
import time

from table import cpu_name, platform, shown

# row: title, unit, whether more is better
ROWS = {
    "read": ("sequential read of 512 MiB, cold", "s", False),
    "write": ("sequential write of 512 MiB, until in the store", "s", False),
    "small": ("2,000 files of 4 KiB, until in the store", "s", False),
    "list": ("`ls -lR` of 5,000 files, cold", "s", False),
    "status": ("`git status` of 5,000 files, cold", "s", False),
    "change": ("4 KiB change in a file of 256 MiB, until in the store", "s", False),
    "change_sent": ("bytes sent for it", "KiB", False),
    "random": ("random reads of 4 KiB, cold", "1/s", True),
    "rename": ("rename of a directory with 1,000 files", "s", False),
    "memory": ("memory while reading", "MiB", False),
    "stream": ("memory while streaming 4 GiB", "MiB", False),
}
SETTINGS = {"azurite:0": "Azurite", "serve:0": "`leasefs serve`", "azurite:20": "Azurite, 20 ms per request",
            "serve:20": "`leasefs serve`, 20 ms per request"}
SYSTEMS = {"rclone": "rclone", "leasefs": "leasefs", "writeback": "leasefs --write-back"}


def read_best(path):
    values = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            setting, row, system, value = line.rstrip("\n").split("\t")
            if row in ROWS and value:
                values[setting, row, system].append(float(value))
    return {key: (max if ROWS[key[1]][2] else min)(found) for key, found in values.items()}


def ratio(best, setting, row):
    """How many times better the better of our two ways is."""
    theirs = best.get((setting, row, "rclone"))
    ours = [best[key] for system in ("leasefs", "writeback") if (key := (setting, row, system)) in best]
    if not ours or not theirs:
        return None
    return max(ours) / theirs if ROWS[row][2] else theirs / max(min(ours), 1e-9)


def main():
    best = read_best(sys.argv[1])
    print("# Benchmark of remote shares\n")
    print(f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}, {cpu_name()}. Made by `scripts/bench.sh azure`: rclone "
          "1.75.2 (`--vfs-cache-mode full --vfs-write-back 100ms`) and leasefs, each with a fresh mount and an empty cache; server, line, "
          "mount and program share the machine. leasefs by default answers close when the content is in the store; rclone always, and "
          "leasefs with --write-back, when it is in the local cache. The ratio is that of the better one of ours.\n")
    for setting, title in SETTINGS.items():
        if not any(key[0] == setting for key in best):
            continue
        print(f"## {title}\n\n| workload | unit | {' | '.join(SYSTEMS.values())} | times better |")
        print("|---|---|" + "---:|" * (len(SYSTEMS) + 1))
        for row, (name, unit, _) in ROWS.items():
            cells = [shown(best.get((setting, row, system))) for system in SYSTEMS]
            found = ratio(best, setting, row)
            print(f"| {name} | {unit} | {' | '.join(cells)} | {'-' if found is None else f'{found:.1f}'} |")
        print()
    if len(sys.argv) > 2 and os.path.exists(sys.argv[2]):
        print("## Requests per operation\n\nleasefs on `leasefs serve`, optimistic, everything known to the mount.\n")
        print("| operation | requests | which |\n|---|---:|---|")
        for line in open(sys.argv[2], encoding="utf-8"):
            name, count, which = line.rstrip("\n").split("\t")
            print(f"| {name} | {count} | {which} |")


if __name__ == "__main__":
    main()
