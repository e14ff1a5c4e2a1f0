#!/usr/bin/env bash
# The store's contract over HTTP against Azurite, through leasefs's own client (store/azure); and the engine's reference model with its
# blobs there. Usage: contract.sh
# What Azurite does differently is in tests/store_contract/differences.rs; a difference that disappears fails too.
# CONTRACT names the program (examples/store_contract.rs); absent, it is built.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ -z ${CONTRACT:-} ]]; then
    (cd "$ROOT" && cargo build --quiet --locked --example store_contract) || fail "the build failed"
    CONTRACT=$TARGET/debug/examples/store_contract
fi
base=$(mktemp -d)
BLOB_PID=
cleanup() {
    [[ -z $BLOB_PID ]] || stop_blob_server "$BLOB_PID" || true
    rm -rf -- "$base"
}
trap cleanup EXIT

# The emulators' well-known key; every case has an account of its own, so that none sees another's containers.
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
count=$("$CONTRACT")
AZURITE_ACCOUNTS=$(for ((n = 0; n < count; n++)); do printf 'case%d:%s;' "$n" "$key"; done)
export AZURITE_ACCOUNTS=${AZURITE_ACCOUNTS}devstoreaccount1:$key
start_blob_server azurite "$base/data"
timeout 400 "$CONTRACT" "http://$BLOB_ADDRESS" || fail "contract: see above"
(cd "$ROOT" && LEASEFS_MODEL_URL="http://$BLOB_ADDRESS/devstoreaccount1" timeout 400 cargo test --quiet --locked --test engine_model over_http) \
    || fail "engine model: see above"
