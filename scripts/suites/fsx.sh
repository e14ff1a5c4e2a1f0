#!/usr/bin/env bash
# Random reads, writes, mappings, truncations, holes and copies on one file, every read compared with what must be there.
# Usage: fsx.sh DIRECTORY [OPERATIONS-PER-SEED]. A failing seed can be run again: FSX_SEEDS="7" fsx.sh DIRECTORY.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

operations=${2:-30000}
work_dir "${1:-}" fsx
LOCAL=$(mktemp -d)
tool=$(cargo_tool fsx "$FSX_VERSION")

# probe FLAGS: whether fallocate(1) with these flags works here. An operation the file system lacks cannot be tested.
probe() { fallocate "$@" -l 4096 probe 2>/dev/null && echo 5 || echo 0; }
truncate -s 8192 probe
allocate=$(probe)
punch=$(probe -p)
copy=$(python3 -c '
import os
a = os.open("probe", os.O_RDWR)
try:
    os.copy_file_range(a, a, 1, 0, 4096)
    print(5)
except OSError:
    print(0)')
say "fsx: allocate $allocate, punch hole $punch, copy_file_range $copy (0 = not supported here, left out)"

# config FLEN MAX-OPERATION-SIZE ALIGN
config() {
    cat <<TOML
flen = $1
[opsize]
max = $2
min = 1
align = $3
[weights]
close_open = 2
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 5
fsync = 0.3
fdatasync = 0.3
posix_fallocate = $allocate
punch_hole = $punch
sendfile = 3
posix_fadvise = 1
copy_file_range = $copy
TOML
}
# A small file with odd sizes, a large one, and one with page-sized operations.
config 262144 65536 1 >"$LOCAL/small.toml"
config 16777216 1048576 1 >"$LOCAL/large.toml"
# (The tool asks to allocate zero bytes when it rounds to pages, which no file system accepts.)
allocate=0
config 1048576 131072 4096 >"$LOCAL/aligned.toml"

total=0
for seed in ${FSX_SEEDS:-1 2 $RANDOM}; do
    for kind in small large aligned; do
        # Large files do a lot per operation: fewer of them keep the suite short.
        count=$operations
        [[ $kind == large ]] && count=$((operations / 20))
        [[ $kind == aligned ]] && count=$((operations / 5))
        say "fsx: seed $seed, $kind, $count operations"
        if ! timeout 300 "$tool" -q -N "$count" -S "$seed" -f "$LOCAL/$kind.toml" -P "$LOCAL" "$WORK/file.$kind" \
            >"$LOCAL/out" 2>&1; then
            tail -40 "$LOCAL/out" >&2
            fail "fsx: seed $seed, $kind (again: FSX_SEEDS=$seed scripts/suites/fsx.sh DIRECTORY $operations)"
        fi
        total=$((total + count))
        rm -f "$WORK/file.$kind"
    done
done
say "fsx: $total operations, all reads right"
