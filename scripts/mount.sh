#!/usr/bin/env bash
# Mounts the embedded store at a directory: installs what is missing, builds, mounts, says what to try.
# Usage: scripts/mount.sh DIR [options of `leasefs mount`]. Running it again is harmless.
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -ge 1 && $1 != -* ]] || fail "usage: scripts/mount.sh DIR [options of leasefs mount]"
dir=$(realpath -m -- "$1")
shift

if is_mounted "$dir" && findmnt -n -o FSTYPE -- "$dir" | grep -q '^fuse'; then
    say "$dir is mounted already. Unmount it with: leasefs umount $dir"
    exit 0
fi
# Root mounts by itself; everyone else needs the setuid helper.
[[ $(id -u) == 0 ]] || need fusermount3:fuse3
command -v cargo >/dev/null || fail "Rust is needed: https://rustup.rs"
[[ -e /dev/fuse ]] || fail "/dev/fuse is missing: load the kernel module (modprobe fuse)"

say "building leasefs (the first time takes a few minutes)"
build_release
mkdir -p -- "$dir"
"$LEASEFS" mount "$@" "$dir"

cat <<TEXT

$dir is mounted. Every file in it is one blob of the embedded store. Try:

  echo hello > $dir/hello.txt && cat $dir/hello.txt
  git clone SOME-REPOSITORY $dir/work      everything that works on a disk works here
  df -h $dir

Unmount:   $LEASEFS umount $dir
Put it on your PATH:   cargo install --path $ROOT
TEXT
