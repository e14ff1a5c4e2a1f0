#!/usr/bin/env bash
# kill -9 and power loss of `leasefs serve` under load. Usage: kill.sh [ROUNDS]
# LEASEFS names the binary. The power losses need root, a loop device and mkfs.ext4; they are left out elsewhere.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

rounds=${1:-20}
LEASEFS=${LEASEFS:-$TARGET/release/leasefs}
python=$(python_env "$AZURE_BLOB_SDK")/bin/python
base=$(mktemp -d)
cleanup() {
    if is_mounted "$base/power/disk"; then umount -l "$base/power/disk" || true; fi
    rm -rf -- "$base"
}
trap cleanup EXIT
export PYTHONDONTWRITEBYTECODE=1
timeout 300 "$python" "$ROOT/tests/sdk/kill.py" "$LEASEFS" "$base" --rounds "$rounds" || fail "kill: see above"
if [[ $(id -u) == 0 && -e /dev/loop-control ]] && command -v mkfs.ext4 >/dev/null; then
    timeout 300 "$python" "$ROOT/tests/sdk/kill.py" "$LEASEFS" "$base" --rounds $(((rounds + 1) / 2)) --power \
        || fail "power loss: see above"
else
    say "power losses left out: they need root, a loop device and mkfs.ext4"
fi
