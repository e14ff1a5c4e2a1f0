#!/usr/bin/env bash
# The official Python SDK and raw requests against a Blob server. Usage: sdk.sh leasefs|azurite [pytest arguments]
# Starts the server itself (LEASEFS names the binary), in a folder of its own. Azurite is judged with the list of its known
# differences (tests/sdk/differences.py): it shows that the expectations are those of a second, independent server.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

server=${1:-leasefs}
[[ $server == leasefs || $server == azurite ]] || fail "usage: $(basename "$0") leasefs|azurite [pytest arguments]"
shift || true
python=$(python_env "$AZURE_BLOB_SDK" pytest==9.2.0 pytest-xdist==3.8.0)/bin/python
export LEASEFS=${LEASEFS:-$TARGET/release/leasefs}
base=$(mktemp -d)
BLOB_PID=
cleanup() {
    [[ -z $BLOB_PID ]] || stop_blob_server "$BLOB_PID" || true
    rm -rf -- "$base"
}
trap cleanup EXIT

start_blob_server "$server" "$base/data"
export BLOB_SERVER=$server BLOB_ADDRESS PYTHONDONTWRITEBYTECODE=1
cd "$ROOT/tests/sdk"
timeout 400 "$python" -m pytest -q -p no:cacheprovider -n "${SDK_WORKERS:-4}" --tb=short "$@" || fail "sdk: see above"
if [[ $server == leasefs ]]; then
    stop_blob_server "$BLOB_PID" || fail "serve did not end within 20 s of SIGTERM"
    BLOB_PID=
    timeout 120 "$LEASEFS" check --data "$base/data" || fail "the store is damaged after the run"
fi
