#!/usr/bin/env bash
# The Blob benchmark: leasefs serve beside Azurite, each with its defaults. Sourced by scripts/bench.sh.
# Rows are interleaved: one workload runs on both servers before the next round starts.
set -euo pipefail

# is_wanted ROW: whether BLOB_ROWS names it, if that is set.
is_wanted() { [[ -z ${BLOB_ROWS:-} || " fill $BLOB_ROWS " == *" $1 "* ]]; }

# blob_row ROW WORKLOAD CONNECTIONS SECONDS ROUNDS [SYSTEM]: measures a workload on every server (and one more system) in turn,
# appended to RESULTS.
blob_row() {
    local row=$1 workload=$2 connections=$3 seconds=$4 rounds=$5 more=${6:-} round system value
    is_wanted "$row" || return 0
    say "row: $row"
    for ((round = 0; round < rounds; round++)); do
        for system in leasefs azurite $more; do
            value=$(BENCH_PID=${BLOB_PIDS[$system]} timeout 120 "$LOAD" "${BLOB_ADDRESSES[$system]}" "$workload" \
                "$connections" "$seconds") || { say "$row: $system failed"; continue; }
            printf '%s\t%s\t%s\n' "$row" "$system" "$value" >>"$RESULTS"
        done
    done
}

# What the disk takes: 4 MiB writes, synced at the end, as a floor for the block row.
disk_row() {
    local start end
    is_wanted block || return 0
    start=$(date +%s.%N)
    dd if=/dev/zero of="$BASE/disk" bs=4M count=128 conv=fdatasync status=none
    end=$(date +%s.%N)
    rm -f -- "$BASE/disk"
    printf 'block\tdisk\t%s\n' "$(python3 -c "print(512 / ($end - $start))")" >>"$RESULTS"
}

# bench_blob SECONDS ROUNDS: everything; the table is left in $BASE/table.md.
bench_blob() {
    local seconds=$1 rounds=$2 system connections
    BASE=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/leasefs-blob.XXXXXX")
    RESULTS=$BASE/results.tsv
    LOAD=$TARGET/release/examples/bench_blob
    declare -gA BLOB_PIDS=() BLOB_ADDRESSES=()
    trap stop_bench_blob EXIT
    BENCH_SAS=$(BLOB_ADDRESS=127.0.0.1:1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/tests/sdk \
        "$(python_env "$AZURE_BLOB_SDK" pytest==9.2.0)/bin/python" -c 'import test_sas; print(test_sas.account_sas("rwdlac"))')
    export BENCH_SAS
    ulimit -n 20000 2>/dev/null || say "few file descriptors: the row of idle connections may fail"
    for system in leasefs azurite; do
        start_blob_server "$system" "$BASE/$system"
        BLOB_PIDS[$system]=$BLOB_PID BLOB_ADDRESSES[$system]=$BLOB_ADDRESS
    done
    start_floor
    blob_row fill fill 1 0 1
    for connections in 1 16 64; do blob_row "put_$connections" put "$connections" "$seconds" "$rounds"; done
    for connections in 1 16 64; do blob_row "get_$connections" get "$connections" "$seconds" "$rounds" floor; done
    blob_row head_16 head 16 "$seconds" "$rounds"
    for connections in 16 64; do blob_row "lease_$connections" lease "$connections" "$seconds" "$rounds"; done
    disk_row
    blob_row block block 4 "$seconds" "$rounds"
    disk_row
    blob_row getbig getbig 1 "$seconds" "$rounds"
    blob_row list list 1 0 "$rounds"
    blob_row idle idle 1 0 1
    # Azurite takes minutes for it; its memory is not what is asked here.
    upload_row
    "$HERE/bench/blob_table.py" "$RESULTS" >"$BASE/table.md"
}

# A server of the same libraries that answers 4 KiB and nothing else.
start_floor() {
    BLOB_ADDRESSES[floor]=127.0.0.1:$(free_port)
    start_server "${BLOB_ADDRESSES[floor]}" "$BASE/floor" "$TARGET/release/examples/http_floor" "${BLOB_ADDRESSES[floor]}"
    BLOB_PIDS[floor]=$SERVER_PID
}

upload_row() {
    local value
    is_wanted upload || return 0
    say "row: upload"
    value=$(BENCH_PID=${BLOB_PIDS[leasefs]} timeout 200 "$LOAD" "${BLOB_ADDRESSES[leasefs]}" upload) || return 0
    printf 'upload\tleasefs\t%s\n' "$value" >>"$RESULTS"
}

stop_bench_blob() {
    local system
    for system in "${!BLOB_PIDS[@]}"; do stop_blob_server "${BLOB_PIDS[$system]}" || true; done
    BLOB_PIDS=()
    rm -rf -- "$BASE"
}
