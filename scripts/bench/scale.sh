#!/usr/bin/env bash
# Cost per file in a large tree, and resident memory. Source it.
set -euo pipefail

SCALE_SMALL=10000
SCALE_FILES=${SCALE_FILES:-1000000}
STREAM_MIB=${STREAM_MIB:-4096}

# memory PID: resident KiB now. peak PID: highest since the last forget_peak.
memory() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
peak() { awk '/^VmHWM/ { print $2 }' "/proc/$1/status"; }
forget_peak() { echo 5 >"/proc/$1/clear_refs"; }

# cost SYSTEM COMMAND...: microseconds per operation of a driver phase, daemon and driver on one CPU.
cost() {
    local system=$1
    shift
    pin "$system"
    pinned timeout 300 "$DRIVER" "$@" | awk '{ print $3 / $2 * 1e6 }'
    unpin "$system"
}

# best COMMAND...: the smallest of three runs.
best() { for _ in 1 2 3; do "$@"; done | sort -g | head -n 1; }

# stat_cost SYSTEM TREE TOTAL: a stat that the kernel has no name cached for.
stat_cost() {
    if can_drop_caches; then drop_caches 2; fi
    cost "$1" stat "$2" "$3" "$SCALE_SMALL"
}

# scale_system SYSTEM: sets CREATE_SMALL STAT_SMALL CREATE_LARGE STAT_LARGE (microseconds per file).
scale_system() {
    local system=$1 tree
    tree=$(dir_of "$system")/scale
    mkdir "$tree"
    CREATE_SMALL=$(cost "$system" fill "$tree" 0 "$SCALE_SMALL")
    STAT_SMALL=$(best stat_cost "$system" "$tree" "$SCALE_SMALL")
    say "scale: $system, filling to $SCALE_FILES files"
    cost "$system" fill "$tree" "$SCALE_SMALL" $((SCALE_FILES - SCALE_SMALL)) >/dev/null
    CREATE_LARGE=$(cost "$system" fill "$tree" "$SCALE_FILES" "$SCALE_SMALL")
    STAT_LARGE=$(best stat_cost "$system" "$tree" "$SCALE_FILES")
}

# limit_row TITLE UNIT VALUE LIMIT: one row of the table of limits.
limit_row() {
    awk -v title="$1" -v unit="$2" -v value="$3" -v limit="$4" \
        'BEGIN { printf "| %s | %.2f %s | ≤ %s %s | %s |\n", title, value, unit, limit, unit, value <= limit ? "met" : "**missed**" }'
}

mib() { awk -v k="$1" 'BEGIN { print k / 1024 }'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }

# stream_peak SYSTEM: highest resident memory while a file of STREAM_MIB is written and read.
stream_peak() {
    local system=$1 file
    file=$(dir_of "$system")/stream
    forget_peak "${PID[$system]}"
    dd if=/dev/zero of="$file" bs=1M count="$STREAM_MIB" status=none
    if can_drop_caches; then drop_caches 3; fi
    dd if="$file" of=/dev/null bs=1M status=none
    peak "${PID[$system]}"
    rm -f "$file"
}

bench_scale() {
    local system idle stream_leasefs stream_daemon walked
    start_bench
    for system in floor leasefs daemon; do start_system "$system"; done
    sleep 1
    idle=$(memory "${PID[leasefs]}")
    say "scale: streaming $STREAM_MIB MiB"
    stream_leasefs=$(stream_peak leasefs)
    stream_daemon=$(stream_peak daemon)
    stop_system daemon
    {
        printf '# A million files, and memory\n\n%s, Linux %s, %s. Made by `scripts/bench.sh scale`.\n\n' \
            "$(date +%F)" "$(uname -r)" "$(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
        printf 'Microseconds per file, daemon and driver on one CPU; stat with no name in the kernel'"'"'s cache.\n\n'
        printf '| system | create, %s files | create, %s files | stat, %s files | stat, %s files |\n|---|---:|---:|---:|---:|\n' \
            "$SCALE_SMALL" "$SCALE_FILES" "$SCALE_SMALL" "$SCALE_FILES"
        for system in floor leasefs; do
            scale_system "$system"
            printf '| %s | %.1f | %.1f | %.1f | %.1f |\n' "$system" "$CREATE_SMALL" "$CREATE_LARGE" "$STAT_SMALL" "$STAT_LARGE"
            # The floor keeps its files in memory: give it back before leasefs is measured.
            [[ $system != floor ]] || stop_system floor
        done
        say "scale: walking the tree"
        timeout 300 find "$(dir_of leasefs)/scale" -printf '%s\n' >/dev/null
        walked=$(memory "${PID[leasefs]}")
        printf '\n| limit | measured | wanted | |\n|---|---:|---:|---|\n'
        limit_row "create: cost per file at $SCALE_FILES / at $SCALE_SMALL" × "$(over "$CREATE_LARGE" "$CREATE_SMALL")" 1.5
        limit_row "stat: cost per file at $SCALE_FILES / at $SCALE_SMALL" × "$(over "$STAT_LARGE" "$STAT_SMALL")" 1.5
        limit_row "resident memory, idle" MiB "$(mib "$idle")" 40
        limit_row "resident memory, peak while streaming $STREAM_MIB MiB" MiB "$(mib "$stream_leasefs")" 100
        limit_row "resident memory, peak while streaming $STREAM_MIB MiB, --no-passthrough" MiB "$(mib "$stream_daemon")" 100
        limit_row "resident memory, after a walk of $SCALE_FILES files" MiB "$(mib "$walked")" 200
    } >"$BASE/table.md"
}
