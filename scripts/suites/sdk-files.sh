#!/usr/bin/env bash
# The official Python SDK and raw requests against the Files service. Usage: sdk-files.sh serve|mount|daemon [pytest arguments]
#   serve    `leasefs serve --files-addr`        mount    a mount's --files-addr, with tests of both sides together
#   daemon   the same without passthrough
# Starts everything itself (LEASEFS names the binary), in a folder of its own.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

side=${1:-serve}
[[ $side == serve || $side == mount || $side == daemon ]] || fail "usage: $(basename "$0") serve|mount|daemon [pytest arguments]"
shift || true
python=$(python_env "$AZURE_BLOB_SDK" "$AZURE_FILES_SDK" pytest==9.2.0 pytest-xdist==3.8.0)/bin/python
export LEASEFS=${LEASEFS:-$TARGET/release/leasefs}
base=$(mktemp -d)
SERVER_PID=
cleanup() {
    [[ -z $SERVER_PID ]] || stop_blob_server "$SERVER_PID" || true
    release_mount "$base/mount"
    is_mounted "$base/mount" || rm -rf -- "$base"
}
trap cleanup EXIT

export FILES_ADDRESS
FILES_ADDRESS=127.0.0.1:$(free_port)
if [[ $side == serve ]]; then
    start_server "$FILES_ADDRESS" "$base/data" "$LEASEFS" serve --data "$base/data" --blob-addr "127.0.0.1:$(free_port)" \
        --files-addr "$FILES_ADDRESS"
else
    mkdir "$base/mount"
    options=(--files-addr "$FILES_ADDRESS")
    [[ $side == mount ]] || options+=(--no-passthrough)
    timeout 60 "$LEASEFS" mount --data "$base/data" "${options[@]}" "$base/mount" || fail "the mount failed"
    export FILES_MOUNT=$base/mount FILES_SHARE=share
fi
export PYTHONDONTWRITEBYTECODE=1
cd "$ROOT/tests/sdk_files"
# On a mount only what the mount changes; the rest is the same code as in `serve`.
tests=()
[[ $side == serve ]] || tests=(test_mounted.py test_files.py test_ranges.py test_leases.py test_rename.py)
timeout 400 "$python" -m pytest -q -p no:cacheprovider -n "${SDK_WORKERS:-4}" --tb=short "$@" "${tests[@]}" || fail "sdk-files: see above"
cd /
if [[ $side == serve ]]; then
    stop_blob_server "$SERVER_PID" || fail "serve did not end within 20 s of SIGTERM"
    SERVER_PID=
else
    timeout 60 "$LEASEFS" umount "$base/mount" || fail "the unmount failed"
fi
timeout 120 "$LEASEFS" check --data "$base/data" || fail "the store is damaged after the run"
