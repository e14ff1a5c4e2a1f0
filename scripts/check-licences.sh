#!/usr/bin/env bash
# Checks every crate that is linked in against deny.toml: licence, bans, duplicate versions, sources.
# The same rules as `cargo deny check licenses bans sources`, without building cargo-deny first.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 - <<'PYTHON'
import collections, json, re, subprocess, sys, tomllib

rules = tomllib.load(open("deny.toml", "rb"))
allowed = set(rules["licenses"]["allow"])
skipped = {entry["crate"] for entry in rules["bans"]["skip"]}
banned = {entry["crate"]: entry["reason"] for entry in rules["bans"]["deny"]}
command = "cargo metadata --format-version 1 --locked --filter-platform x86_64-unknown-linux-gnu"
packages = json.loads(subprocess.check_output(command.split()))["packages"]
faults = []


def allows(expression):
    """Whether an SPDX expression can be met with the allowed licences (OR: one side, AND: both)."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def either():
        nonlocal position
        value = both()
        while position < len(tokens) and tokens[position] == "OR":
            position += 1
            value = both() or value
        return value

    def both():
        nonlocal position
        value = single()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            value = single() and value
        return value

    def single():
        nonlocal position
        if tokens[position] == "(":
            position += 1
            value = either()
            position += 1
            return value
        name = tokens[position]
        position += 1
        if position < len(tokens) and tokens[position] == "WITH":
            name = f"{name} WITH {tokens[position + 1]}"
            position += 2
        return name in allowed

    return either()


versions = collections.defaultdict(set)
for package in packages:
    name = f"{package['name']} {package['version']}"
    versions[package["name"]].add(package["version"])
    if not package["license"] or not allows(package["license"]):
        faults.append(f"{name}: licence {package['license']} is not allowed by deny.toml")
    if package["name"] in banned:
        faults.append(f"{name}: banned, {banned[package['name']]}")
    source = package["source"] or ""
    if source and source != "registry+https://github.com/rust-lang/crates.io-index":
        faults.append(f"{name}: comes from {source}")
for name, found in versions.items():
    if len(found) > 1 and name not in skipped:
        faults.append(f"{name}: {len(found)} versions ({', '.join(sorted(found))}); see [bans] skip in deny.toml")
for name in skipped:
    if len(versions.get(name, ())) < 2:
        faults.append(f"{name}: there is only one version now; remove it from [bans] skip in deny.toml")
for fault in faults:
    print(fault, file=sys.stderr)
print(f"{len(packages)} crates, {len(faults)} faults")
sys.exit(1 if faults else 0)
PYTHON
