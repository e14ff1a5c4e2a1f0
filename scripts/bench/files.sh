#!/usr/bin/env bash
# The Files benchmark: the Files endpoint beside the Blob endpoint of the same process. Sourced by scripts/bench.sh.
# Rows are interleaved: one workload runs on both endpoints before the next round starts.
set -euo pipefail

# files_row ROW WORKLOAD CONNECTIONS SECONDS ROUNDS: measures a workload on both endpoints in turn, appended to RESULTS.
files_row() {
    local row=$1 workload=$2 connections=$3 seconds=$4 rounds=$5 round side value
    say "row: $row"
    for ((round = 0; round < rounds; round++)); do
        for side in files blob; do
            value=$(BENCH_SAS=${FILES_SAS[$side]} timeout 120 "$LOAD" "${FILES_ADDRESSES[$side]}" "$side" "$workload" \
                "$connections" "$seconds") || { say "$row: $side failed"; continue; }
            printf '%s\t%s\t%s\n' "$row" "$side" "$value" >>"$RESULTS"
        done
    done
}

# bench_files SECONDS ROUNDS: everything; the table is left in $BASE/table.md. BENCH_ROWS chooses workloads, BENCH_RESULTS=FILE
# collects the values of several runs.
bench_files() {
    local seconds=$1 rounds=$2 workload connections python
    BASE=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/leasefs-files.XXXXXX")
    RESULTS=${BENCH_RESULTS:-$BASE/results.tsv}
    LOAD=$TARGET/release/examples/bench_files
    SERVER_PID=
    declare -gA FILES_ADDRESSES=([files]=127.0.0.1:$(free_port) [blob]=127.0.0.1:$(free_port)) FILES_SAS=()
    trap stop_bench_files EXIT
    python=$(python_env "$AZURE_BLOB_SDK" "$AZURE_FILES_SDK" pytest==9.2.0)/bin/python
    FILES_SAS[blob]=$(BLOB_ADDRESS=127.0.0.1:1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/tests/sdk \
        "$python" -c 'import test_sas; print(test_sas.account_sas("rwdlac"))')
    FILES_SAS[files]=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/tests/sdk_files \
        "$python" -c 'import test_sas; print(test_sas.account_sas())')
    start_server "${FILES_ADDRESSES[files]}" "$BASE/data" "$LEASEFS" serve --data "$BASE/data" \
        --blob-addr "${FILES_ADDRESSES[blob]}" --files-addr "${FILES_ADDRESSES[files]}"
    files_row prepare prepare 1 0 1
    for workload in get4k put4k create get4m put4m; do
        [[ " ${BENCH_ROWS:-$workload} " == *" $workload "* ]] || continue
        for connections in 1 16 64; do
            files_row "${workload}_$connections" "$workload" "$connections" "$seconds" "$rounds"
        done
    done
    if [[ " ${BENCH_ROWS:-list} " == *" list "* ]]; then files_row list list 1 0 "$((rounds * 2))"; fi
    "$HERE/bench/files_table.py" "$RESULTS" >"$BASE/table.md"
}

stop_bench_files() {
    [[ -z $SERVER_PID ]] || stop_blob_server "$SERVER_PID" || true
    SERVER_PID=
    rm -rf -- "$BASE"
}
