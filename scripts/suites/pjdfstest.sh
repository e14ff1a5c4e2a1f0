#!/usr/bin/env bash
# POSIX system calls, their results and errors: the whole pjdfstest suite in DIRECTORY.
# Usage: pjdfstest.sh DIRECTORY [TEST-NAME-PART...]. Needs root, and a mount made with --allow-other --delete posix.
# Excluded tests are in pjdfstest.exclude, each with its reason; one that passes after all fails the run.
# On another file system: PJDFSTEST_EXCLUDE=/dev/null.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[[ $(id -u) == 0 ]] || fail "pjdfstest needs root: it acts as several users"
exclude=${PJDFSTEST_EXCLUDE:-$ROOT/scripts/suites/pjdfstest.exclude}
work_dir "${1:-}" pjdfstest
shift
LOCAL=$(mktemp -d)
tool=$(cargo_tool pjdfstest "$PJDFSTEST_VERSION")

# Users every Debian has; the suite wants each with its own primary group.
nobody_group=$(id -gn nobody)
# A second file system for the tests of EXDEV.
other=()
for candidate in /dev/shm /tmp /var/tmp; do
    if [[ -d $candidate && $(stat -c %d "$candidate") != $(stat -c %d "$WORK") ]]; then
        mkdir -p "$candidate/pjdfstest.$$"
        other=(--secondary-fs "$candidate/pjdfstest.$$")
        trap 'cd /; rm -rf -- "$WORK" "$LOCAL" "${other[1]}"' EXIT
        break
    fi
done
{
    printf '[features]\nposix_fallocate = {}\nutime_now = {}\nutimensat = {}\nrename_ctime = {}\n'
    printf '[settings]\nnaptime = 0.01\nexpected_failures = [\n'
    sed -E 's/#.*//; s/[[:space:]]+$//; /^$/d; /^\?/d; s/(.*)/  "\1",/' "$exclude"
    printf ']\n[dummy_auth]\nentries = [["nobody", "%s"], ["daemon", "%s"]]\n' "$nobody_group" "$(id -gn daemon)"
} >"$LOCAL/config.toml"
# The tests change users, so every parent must let them through.
chmod 755 "$WORK"

status=0
NO_COLOR=1 timeout 600 "$tool" -c "$LOCAL/config.toml" -p "$WORK" "${other[@]}" -- "$@" >"$LOCAL/out" 2>&1 || status=$?
# One line for each test that failed, with the first line of its message.
awk '/ FAILED$/ { name = $1; getline; sub(/^[[:space:]]+/, ""); print name ": " $0 } / PASSED UNEXPECTEDLY$/ { print $1 ": passes, remove it from the list" }' "$LOCAL/out" >"$LOCAL/wrong"
# Those that may fail are named, and do not count.
sed -n 's/^?\(.*\)/^\1: /p' "$exclude" >"$LOCAL/may_fail"
cat "$LOCAL/wrong" >&2
wrong=$(grep -cvf "$LOCAL/may_fail" "$LOCAL/wrong" || true)
summary=$(grep '^Summary' "$LOCAL/out" || true)
[[ -n $summary ]] || { tail -20 "$LOCAL/out" >&2; fail "pjdfstest ended without a summary (exit $status)"; }
say "pjdfstest $summary"
[[ $status == 0 || (-s $LOCAL/wrong && $wrong == 0) ]] || fail "pjdfstest: a test failed, or an excluded one passes now (list above)"
