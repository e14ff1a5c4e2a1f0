#!/usr/bin/env python3
"""Turns recorded values (row, system, value; tab-separated) into the Markdown table of the Blob benchmark."""

import collections
import sys
import time

from table import cpu_name, platform, shown

# row: title, unit, whether more is better
ROWS = {
    "put_1": ("Put Blob 4 KiB, 1 connection", "1/s", True),
    "put_16": ("Put Blob 4 KiB, 16 connections", "1/s", True),
    "put_64": ("Put Blob 4 KiB, 64 connections", "1/s", True),
    "get_1": ("Get Blob 4 KiB, 1 connection", "1/s", True),
    "get_16": ("Get Blob 4 KiB, 16 connections", "1/s", True),
    "get_64": ("Get Blob 4 KiB, 64 connections", "1/s", True),
    "head_16": ("Get Blob Properties, 16 connections", "1/s", True),
    "lease_16": ("lease acquire + renew + release, 16 connections", "cycles/s", True),
    "lease_64": ("lease acquire + renew + release, 64 connections", "cycles/s", True),
    "block": ("Put Block 4 MiB, 4 connections", "MiB/s", True),
    "getbig": ("Get Blob 256 MiB, 1 connection", "MiB/s", True),
    "list": ("list 10,000 names", "ms", False),
    "idle": ("memory for 10,000 idle connections", "MiB", False),
    "upload": ("memory during an upload of 4 GiB", "MiB", False),
}
# row: at least so many times Azurite's speed
TARGETS = {"put_16": 10, "put_64": 10, "get_1": 20, "get_16": 20, "get_64": 20, "lease_16": 20, "lease_64": 20,
           "block": 10}
# row: at most so many MiB
FLAT = {"idle": 400, "upload": 64}


def read_best(path):
    values = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            row, system, value = line.rstrip("\n").split("\t")
            if row in ROWS:
                values[row, system].append(float(value))
    return {key: (max if ROWS[key[0]][2] else min)(found) for key, found in values.items()}


def ratio(best, row):
    ours, theirs = best.get((row, "leasefs")), best.get((row, "azurite"))
    if not ours or not theirs:
        return None
    return ours / theirs if ROWS[row][2] else theirs / ours


def judged(best, row):
    """(what is asked, what was measured, met or not)."""
    if row in FLAT:
        value = best.get((row, "leasefs"))
        met = value is not None and value <= FLAT[row]
        return f"≤ {FLAT[row]} MiB", f"{shown(value)} MiB", met
    found, disk = ratio(best, row), best.get((row, "disk"))
    asked = f"≥ {TARGETS[row]} × Azurite"
    met = found is not None and found >= TARGETS[row]
    if disk:
        asked += f", or the disk's {shown(disk)} MiB/s"
        met = met or best.get((row, "leasefs"), 0) >= disk
    return asked, "-" if found is None else f"{found:.1f} ×", met


def print_floor(best):
    """Beside small reads: what the same libraries reach when the server does nothing."""
    rows = [row for row in ("get_1", "get_16", "get_64") if best.get((row, "floor")) and best.get((row, "leasefs"))]
    if not rows:
        return
    print("\n## The floor of small reads\n\nAn HTTP server of the same libraries that answers every request with the same 4 KiB "
          "(`examples/http_floor.rs`), in the same rounds.\n")
    print("| workload | floor, 1/s | µs each | leasefs, µs each | leasefs/floor | floor/Azurite |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in rows:
        floor, ours, theirs = (best.get((row, system)) for system in ("floor", "leasefs", "azurite"))
        print(f"| {ROWS[row][0]} | {shown(floor)} | {1e6 / floor:.1f} | {1e6 / ours:.1f} | {ours / floor:.2f} | "
              f"{'-' if not theirs else f'{floor / theirs:.1f}'} |")


def main():
    best = read_best(sys.argv[1])
    print("# Blob benchmark\n")
    print(f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}, {cpu_name()}. Made by `scripts/bench.sh blob`: `leasefs serve` "
          "(every acknowledged write is durable; renewals and releases of timed leases as docs/SEMANTICS.md says) beside Azurite 3.37.0 (its default: written back every 5 s), interleaved, best of "
          "several rounds; the load generator shares the machine with the servers.\n")
    print("| workload | unit | leasefs | Azurite | leasefs/Azurite |")
    print("|---|---|---:|---:|---:|")
    measured_rows = {row for row, _ in best}
    for row, (title, unit, _) in ROWS.items():
        if row not in measured_rows:
            continue
        found = ratio(best, row)
        print(f"| {title} | {unit} | {shown(best.get((row, 'leasefs')))} | {shown(best.get((row, 'azurite')))} | "
              f"{'-' if found is None else f'{found:.1f}'} |")
    print_floor(best)
    print("\n## Targets\n\n| workload | asked | measured | |\n|---|---|---:|---|")
    missed = 0
    for row in [*TARGETS, *FLAT]:
        if row not in measured_rows:
            continue
        asked, measured, met = judged(best, row)
        missed += not met
        print(f"| {ROWS[row][0]} | {asked} | {measured} | {'met' if met else '**missed**'} |")
    print(f"\n{missed} missed." if missed else "\nAll met.")


if __name__ == "__main__":
    main()
