#!/usr/bin/env python3
"""Turns recorded values (row, side, value; tab-separated) into the Markdown table of the Files benchmark."""

import collections
import sys
import time

from table import cpu_name, platform, shown

WORKLOADS = {
    "get4k": ("Get File, a range of 4 KiB", "Get Blob 4 KiB", "1/s"),
    "put4k": ("Put Range 4 KiB", "Put Blob 4 KiB", "1/s"),
    "create": ("Create File + Delete File", "Put Blob + Delete Blob", "1/s"),
    "get4m": ("Get File, a range of 4 MiB", "Get Blob, a range of 4 MiB", "MiB/s"),
    "put4m": ("Put Range 4 MiB", "Put Blob 4 MiB", "MiB/s"),
}
CONNECTIONS = (1, 16, 64)
# Files reach at least this part of the Blob endpoint's speed; and orders of magnitude for small requests.
RATIO = 0.7
FLOORS = {"get4k": 10_000, "put4k": 2_000}


def read_values(path):
    values = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            row, side, value = line.rstrip("\n").split("\t")
            values[row, side].append(float(value))
    return values


def main():
    values = read_values(sys.argv[1])
    best = {key: (min if key[0] == "list" else max)(found) for key, found in values.items()}
    print("# Files benchmark\n")
    print(f"{time.strftime('%Y-%m-%d')}, Linux {platform.release()}, {cpu_name()}. Made by `scripts/bench.sh files`: the Files endpoint "
          "and the Blob endpoint of one `leasefs serve`, interleaved, best of several rounds. Every acknowledged write is durable; the "
          "load generator shares the two cores with the server.\n")
    print("| Files | Blob | connections | unit | Files | Blob | Files/Blob |")
    print("|---|---|---:|---|---:|---:|---:|")
    ratios = {}
    for name, (files, blob, unit) in WORKLOADS.items():
        for connections in CONNECTIONS:
            row = f"{name}_{connections}"
            ours, theirs = best.get((row, "files")), best.get((row, "blob"))
            ratios[row] = ours / theirs if ours and theirs else None
            print(f"| {files} | {blob} | {connections} | {unit} | {shown(ours)} | {shown(theirs)} | "
                  f"{'-' if ratios[row] is None else f'{ratios[row]:.2f}'} |")
    ours, theirs = best.get(("list", "files")), best.get(("list", "blob"))
    ratios["list"] = theirs / ours if ours and theirs else None
    print(f"| List 10,000 entries | List 10,000 blobs | 1 | ms | {shown(ours)} | {shown(theirs)} | "
          f"{'-' if ratios['list'] is None else format(ratios['list'], '.2f')} |")
    print("\n## Targets\n\n| workload | asked | measured | |\n|---|---|---:|---|")
    for row, ratio in ratios.items():
        if ratio is not None:
            print(f"| {row} | ≥ {RATIO} of the Blob endpoint | {ratio:.2f} | {'met' if ratio >= RATIO else '**missed**'} |")
    for name, floor in FLOORS.items():
        found = max((best.get((f"{name}_{count}", "files"), 0) for count in CONNECTIONS), default=0)
        print(f"| {name} | ≥ {floor:,}/s | {shown(found)}/s | {'met' if found >= floor else '**missed**'} |")


if __name__ == "__main__":
    main()
