#!/usr/bin/env bash
# Speed of leasefs beside ext4, the floor of the platform, and rclone; of its Blob service beside Azurite.
# Usage: scripts/bench.sh [mount|scale|blob|files|azure|quick|blob-quick|files-quick|azure-quick|all]
#   mount   every workload on every system (about 12 minutes), saved to docs/benchmarks/DATE-mount.md
#   scale   cost per file at a million files, resident memory (about 8 minutes), saved to docs/benchmarks/DATE-scale.md
#   blob    the Blob service beside Azurite (about 4 minutes), saved to docs/benchmarks/DATE-blob.md
#   files   the Files endpoint beside the Blob endpoint of the same process (about 3 minutes), docs/benchmarks/DATE-files.md
#   azure   remote shares beside rclone, also over a slow line (about 20 minutes), saved to docs/benchmarks/DATE-azure.md
#   quick, blob-quick, files-quick, azure-quick   the workloads of mount, blob, files or azure, small and once; printed only
#   all     mount, scale, blob, files and azure
# BENCH_DIR chooses the disk (default: the temporary folder). Everything made is removed again. BENCH_SYSTEMS and BENCH_ROWS choose
# a part of mount, BLOB_ROWS one of blob (such as "get_1 lease_16 lease_64"), AZURE_SETTINGS, AZURE_SYSTEMS and AZURE_ROWS one of azure; with BENCH_RESULTS=FILE the values of several such runs are collected and make one table.
set -euo pipefail

HERE=$(dirname "${BASH_SOURCE[0]}")
source "$HERE/lib.sh"
source "$HERE/bench/systems.sh"
source "$HERE/bench/rows.sh"
source "$HERE/bench/scale.sh"
source "$HERE/bench/blob.sh"
source "$HERE/bench/files.sh"
source "$HERE/bench/azure.sh"

what=${1:-mount}
case $what in
    mount | scale | blob | files | azure | quick | blob-quick | files-quick | azure-quick | all) ;;
    *) sed -n '2,11s/^# //p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
if [[ $what == blob* || $what == files* ]]; then
    build_release bench_blob bench_files http_floor
elif [[ $what == azure* ]]; then
    need fusermount3:fuse3 fio:fio git:git curl:curl
    build_release fault_proxy
else
    need fusermount3:fuse3 fio:fio git:git taskset:util-linux curl:curl
    build_release fuse_floor bench_meta bench_blob bench_files http_floor fault_proxy
fi
DRIVER=$TARGET/release/examples/bench_meta

# run_row ROUNDS ROW [pinned]: every system in turn, several times, so that a busy moment does not hit one system only.
run_row() {
    local rounds=$1 row=$2 pin=${3:-} round system
    say "row: $row"
    for round in $(seq "$rounds"); do
        for system in ext4 floor leasefs daemon rclone; do
            [[ " ${SYSTEMS[*]} " == *" $system "* ]] || continue
            # Its slow rows take longer than everything else together, and it is far from any other value.
            [[ $system != rclone || $round == 1 ]] || continue
            [[ -z $pin ]] || pin "$system"
            "row_$row" "$system" || say "$row: $system failed"
            [[ -z $pin ]] || unpin "$system"
        done
    done
}

# part ROUNDS ROW [pinned]: the row, if it is wanted.
part() { if [[ " ${BENCH_ROWS:-$2} " == *" $2 "* ]]; then run_row "$@"; fi; }

bench_mount() {
    local rounds=$1 system
    start_bench
    RESULTS=${BENCH_RESULTS:-$BASE/results.tsv}
    for system in ${BENCH_SYSTEMS:-ext4 floor rclone leasefs daemon}; do start_system "$system"; done
    level_read_ahead || true
    make_inputs
    part "$rounds" data
    part "$rounds" meta pinned
    part "$rounds" untar pinned
    part "$rounds" git pinned
    part 1 patch
    part 1 rename pinned
    part 1 find pinned
    "$HERE/bench/table.py" "$RESULTS" >"$BASE/table.md"
}

# publish FILE: prints the table of this run and keeps it.
publish() {
    mkdir -p "$ROOT/docs/benchmarks"
    cp "$BASE/table.md" "$ROOT/docs/benchmarks/$(date +%F)-$1.md"
    cat "$BASE/table.md"
    say "saved to docs/benchmarks/$(date +%F)-$1.md, $SECONDS s"
}

if [[ $what == quick ]]; then
    DATA_MIB=64 BIG_MIB=1024 FILES=1000 FIND_FILES=5000 SECONDS_RANDOM=1
    bench_mount 1
    cat "$BASE/table.md"
fi
if [[ $what == mount || $what == all ]]; then
    bench_mount 3
    publish mount
    stop_bench
fi
if [[ $what == scale || $what == all ]]; then
    bench_scale
    publish scale
fi
if [[ $what == blob-quick ]]; then
    bench_blob 0.5 1
    cat "$BASE/table.md"
fi
if [[ $what == blob || $what == all ]]; then
    bench_blob 1.5 3
    publish blob
fi
if [[ $what == files-quick ]]; then
    bench_files 0.5 1
    cat "$BASE/table.md"
fi
if [[ $what == files || $what == all ]]; then
    bench_files 1.5 3
    publish files
fi
if [[ $what == azure-quick ]]; then
    AZURE_MIB=64 AZURE_STREAM_MIB=256 AZURE_CHANGE_MIB=32 AZURE_SMALL=100 AZURE_TREE=500 AZURE_RENAMED=50
    bench_azure
    cat "$BASE/table.md"
fi
if [[ $what == azure || $what == all ]]; then
    bench_azure
    publish azure
fi
