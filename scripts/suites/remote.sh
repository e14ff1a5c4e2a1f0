#!/usr/bin/env bash
# Everyday work and fsx on a mount of a container that another leasefs serves. Usage: remote.sh [MOUNT OPTION...]
# LEASEFS is the program, else the release build.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
suites=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

leasefs=${LEASEFS:-$TARGET/release/leasefs}
[[ -x $leasefs ]] || fail "no leasefs at $leasefs"
base=$(mktemp -d)
server=
cleanup() {
    cd /
    release_mount "$base/mount"
    if [[ -n $server ]]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
    is_mounted "$base/mount" || rm -rf -- "$base"
}
trap cleanup EXIT
mkdir "$base/mount"
chmod 755 "$base"

"$leasefs" serve --data "$base/served" --blob-addr 127.0.0.1:0 >"$base/serve.out" 2>"$base/serve.log" &
server=$!
for _ in $(seq 300); do
    url=$(grep -o 'http://[^ ]*' "$base/serve.out" | head -n 1 || true)
    [[ -z $url ]] || break
    sleep 0.1
done
[[ -n $url ]] || fail "the service did not start"
timeout 60 "$leasefs" mount --cache-dir "$base/cache" "$@" "$url/suites" "$base/mount"
export SQLITE_ROWS=100 # each is several requests
for suite in shell trees git cbuild editor sqlite locks fsx; do
    timeout 300 "$suites/$suite.sh" "$base/mount"
done
timeout 120 "$leasefs" umount "$base/mount"
