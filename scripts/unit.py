#!/usr/bin/env python3
"""Runs the tests of the package, several programs at a time.

`cargo test` runs one program after the other, and many of ours wait more than they compute. What failed is shown, and named as
`cargo test` does, so that it can be repeated.

unit.py [LANES]
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# These take longest: whoever begins with them ends with them.
FIRST = ["remote_crash", "crash", "store_crash", "mirror", "remote_full", "leasefs"]
# No program of ours takes longer, unless it hangs.
LIMIT = 1200


def build():
    """The test programs: their names, what names them to cargo, and their files."""
    command = ["cargo", "test", "--quiet", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit("the tests do not build")
    programs = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["profile"]["test"] or not message["executable"]:
            continue
        name, kind = message["target"]["name"], message["target"]["kind"][0]
        option = {"lib": "--lib", "bin": "--bins"}.get(kind, f"--{kind} {name}")
        programs.append((name if kind != "bin" else f"{name} (bin)", option, message["executable"]))
    return sorted(programs, key=lambda program: FIRST.index(program[0]) if program[0] in FIRST else len(FIRST))


def run(program):
    """Whether it passed, how many tests it has, how long it took, and what it said."""
    start = time.monotonic()
    try:
        done = subprocess.run([program[2]], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT)
        passed, said = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as late:
        passed, said = False, f"{(late.stdout or b'').decode(errors='replace')}\nstill running after {LIMIT} s"
    return passed, sum(map(int, re.findall(r"^test result: .*? (\d+) passed", said, re.M))), time.monotonic() - start, said


def main():
    lanes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    programs = build()
    tests, failed, slowest = 0, [], []
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        for program, (passed, count, seconds, said) in zip(programs, pool.map(run, programs)):
            tests += count
            slowest.append((seconds, program[0]))
            if not passed:
                failed.append(program)
                print(f"==== {program[0]}, {seconds:.0f} s\n{said}")
    documented = subprocess.run(["cargo", "test", "--quiet", "--locked", "--doc"], cwd=ROOT)
    for name, option, _ in failed:
        print(f"error: test failed, to rerun pass `{option}`")
    slow = ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(slowest, reverse=True)[:5])
    print(f"{tests} tests in {len(programs)} programs, {len(failed)} failed; {slow}")
    sys.exit(1 if failed or documented.returncode else 0)


if __name__ == "__main__":
    main()
