#!/usr/bin/env bash
# The workloads. Each row_… function runs one workload on one system and records values. Source it.
# A row that a system cannot do records nothing: its cell shows "-".
set -euo pipefail

RESULTS=
DATA_MIB=${DATA_MIB:-512}
BIG_MIB=${BIG_MIB:-1024}
FILES=${FILES:-10000}
FIND_FILES=${FIND_FILES:-100000}
SECONDS_RANDOM=${SECONDS_RANDOM:-2}

# record ROW SYSTEM VALUE
record() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$RESULTS"; }

# seconds COMMAND...: runs it and prints how long it took.
seconds() {
    local start=${EPOCHREALTIME/[.,]/}
    "$@" >/dev/null 2>&1 || return 1
    local end=${EPOCHREALTIME/[.,]/}
    awk -v us=$((end - start)) 'BEGIN { printf "%.6f\n", us / 1e6 }'
}

# fio_rate SYSTEM read|write ARGUMENTS...: MiB/s.
fio_rate() {
    local system=$1 direction=$2
    shift 2
    timeout 120 fio --name=bench --directory="$(dir_of "$system")" --filename=data --ioengine=psync --size="${DATA_MIB}M" \
        --fallocate=none --thread --output-format=json "$@" 2>/dev/null \
        | python3 -c "import json, sys; print(json.load(sys.stdin)['jobs'][0]['$direction']['bw_bytes'] / 2**20)"
}

# keep ROW SYSTEM VALUE-OR-NOTHING
keep() { if [[ -n ${3:-} ]]; then record "$1" "$2" "$3"; fi; }

row_data() {
    local system=$1
    keep seq_write "$system" "$(fio_rate "$system" write --rw=write --bs=1M)"
    fio_rate "$system" read --rw=read --bs=1M --invalidate=0 >/dev/null || true
    keep seq_read_cached "$system" "$(fio_rate "$system" read --rw=read --bs=1M --invalidate=0)"
    keep random_read "$system" "$(fio_rate "$system" read --rw=randread --bs=4k --invalidate=0 --time_based --runtime="$SECONDS_RANDOM" --norandommap)"
    # fio's --invalidate=1 drops the pages of the mounted file only.
    sync
    keep seq_read_refetch "$system" "$(fio_rate "$system" read --rw=read --bs=1M --invalidate=1)"
    if can_drop_caches; then
        # The first read after a write is slower on a virtual disk than the next ones. ext4 has read from the disk by now
        # (refetch), a mount whose daemon or kernel had the pages elsewhere has not: so everybody does, once, uncounted.
        drop_caches 3
        fio_rate "$system" read --rw=read --bs=1M --invalidate=0 >/dev/null || true
        drop_caches 3
        keep seq_read_cold "$system" "$(fio_rate "$system" read --rw=read --bs=1M --invalidate=0)"
    fi
    keep random_write "$system" "$(fio_rate "$system" write --rw=randwrite --bs=4k --invalidate=0 --time_based --runtime="$SECONDS_RANDOM" --norandommap)"
    rm -f "$(dir_of "$system")/data"
}

row_meta() {
    local system=$1 name count time files=$FILES
    # Its rates are per file and far from any other; all files would take minutes.
    [[ $system != rclone ]] || files=$((FILES / 5))
    while read -r name count time; do
        record "$name" "$system" "$(awk -v n="$count" -v s="$time" 'BEGIN { print n / s }')"
    done < <(pinned timeout 120 "$DRIVER" meta "$(dir_of "$system")" "$files" || true)
    rm -rf "$(dir_of "$system")/meta"
}

row_untar() {
    local system=$1 dir time
    dir=$(dir_of "$system")/untar
    mkdir "$dir"
    time=$(seconds pinned timeout 120 tar -C "$dir" -xf "$BASE/files.tar") || time=
    keep untar "$system" "${time:+$(awk -v s="$time" 'BEGIN { print 5000 / s }')}"
    rm -rf "$dir"
}

row_git() {
    local system=$1 dir
    dir=$(dir_of "$system")/clone
    keep git_clone "$system" "$(seconds pinned timeout 120 git clone --quiet "file://$BASE/repository" "$dir")"
    # Files as young as the index are read again, and that is a matter of luck: everybody does it once, uncounted.
    sleep 1.1
    pinned timeout 60 git -C "$dir" status --porcelain >/dev/null 2>&1 || true
    keep git_status "$system" "$(seconds pinned timeout 60 git -C "$dir" status --porcelain)"
    rm -rf "$dir"
}

row_patch() {
    local system=$1 file store before after offset
    file=$(dir_of "$system")/big
    store=$(store_of "$system")
    timeout 120 fio --name=big --filename="$file" --ioengine=psync --rw=write --bs=1M --size="${BIG_MIB}M" --fallocate=none \
        --thread >/dev/null 2>&1 || return 0
    # rclone writes back a few seconds after close; the store must be quiet before it is measured.
    [[ $system != rclone ]] || sleep 12
    sync
    before=$([[ -z $store ]] || du -s --block-size=1 "$store" | cut -f 1)
    for offset in 100000 300000000 700000000; do
        keep patch "$system" "$(timeout 60 "$DRIVER" patch "$file" "$offset" | awk '{ print $3 * 1000 }')"
    done
    [[ $system != rclone ]] || sleep 12
    sync
    after=$([[ -z $store ]] || du -s --block-size=1 "$store" | cut -f 1)
    keep patch_growth "$system" "${store:+$(((after - before) / 1024))}"
    rm -f "$file"
}

# Makes rclone forget what it listed, so that it sees what was put behind its back.
show_backend() { if [[ $1 == rclone ]]; then kill -HUP "${PID[rclone]}"; sleep 0.5; fi; }

row_find() {
    local system=$1 dir=
    dir=$(dir_of "$system")/tree
    local made=$dir
    # Filling through rclone would take minutes; its backend is a plain directory.
    [[ $system != rclone ]] || made=$BASE/rclone/data/tree
    mkdir -p "$made"
    timeout 120 "$DRIVER" fill "$made" 0 "$FIND_FILES" >/dev/null || return 0
    show_backend "$system"
    local round
    for round in 1 2; do
        if can_drop_caches; then drop_caches 2; fi
        keep find "$system" "$(seconds pinned timeout 120 find "$dir" -printf '%s\n')"
    done
    rm -rf "$made"
}

row_rename() {
    local system=$1 dir=
    dir=$(dir_of "$system")
    local made=$dir/renamed
    [[ $system != rclone ]] || made=$BASE/rclone/data/renamed
    mkdir -p "$made"
    timeout 120 "$DRIVER" fill "$made" 0 "$FILES" >/dev/null || return 0
    show_backend "$system"
    local time
    for _ in 1 2 3; do
        time=$(seconds pinned timeout 60 mv "$dir/renamed" "$dir/other") || time=
        keep rename "$system" "${time:+$(awk -v s="$time" 'BEGIN { print s * 1000 }')}"
        mv "$dir/other" "$dir/renamed" 2>/dev/null || true
    done
    rm -rf "$dir/renamed" "$dir/other"
}

# Inputs that every system gets alike.
make_inputs() {
    python3 - "$BASE" <<'PYTHON'
import io, random, subprocess, sys, tarfile

random.seed(1)
base = sys.argv[1]
with tarfile.open(f"{base}/files.tar", "w") as archive:
    for number in range(5000):
        info = tarfile.TarInfo(f"d{number % 200}/f{number}")
        info.size = random.choice([200, 2000, 6000, 20000])
        archive.addfile(info, io.BytesIO(random.randbytes(info.size)))
subprocess.run(["git", "init", "--quiet", f"{base}/repository"], check=True)
git = subprocess.Popen(["git", "-C", f"{base}/repository", "fast-import", "--quiet"], stdin=subprocess.PIPE)
out = git.stdin
for commit in range(10):
    out.write(b"commit refs/heads/main\nmark :%d\ncommitter T <t@example.org> %d +0000\ndata 1\nx\n" % (commit + 1, 1700000000 + commit))
    if commit:
        out.write(b"from :%d\n" % commit)
    for number in range(2000) if commit == 0 else random.sample(range(2000), 100):
        body = random.randbytes(1500).hex().encode()
        out.write(b"M 100644 inline d%d/f%d\ndata %d\n%s\n" % (number % 50, number, len(body), body))
out.close()
assert git.wait() == 0
subprocess.run(["git", "-C", f"{base}/repository", "symbolic-ref", "HEAD", "refs/heads/main"], check=True)
PYTHON
}
