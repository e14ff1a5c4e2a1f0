#!/usr/bin/env bash
# Functions the other scripts share: messages, packages, tools, builds, mounts. Source it; it does nothing by itself.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Everything that is downloaded or built for tests lives here, outside the tree, and may be deleted at any time.
CACHE=${LEASEFS_CACHE:-$HOME/.cache/leasefs-dev}
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
PJDFSTEST_VERSION=0.2.2
FSX_VERSION=0.3.2
RCLONE_VERSION=1.75.2

say() { printf '%s\n' "$*" >&2; }

# Ends the script with one clear sentence.
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this needs root: $*"
    fi
}

# need COMMAND:PACKAGE...: installs the Debian packages whose command is missing. Asks for nothing when all are there.
need() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    [[ ${#missing[@]} == 0 ]] && return 0
    command -v apt-get >/dev/null || fail "please install: ${missing[*]}"
    say "installing ${missing[*]}"
    if [[ -z ${LEASEFS_APT_UPDATED:-} ]]; then
        as_root apt-get update -qq >&2
        export LEASEFS_APT_UPDATED=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# cargo_tool NAME VERSION: prints the path of a program from crates.io, building it the first time.
cargo_tool() {
    local name=$1 version=$2 home=$CACHE/$1-$2
    if [[ ! -x $home/bin/$name ]]; then
        say "building $name $version (once)"
        CARGO_TARGET_DIR=$CACHE/target cargo install --quiet --locked --root "$home" --version "$version" "$name" >&2 \
            || fail "cannot build $name $version"
    fi
    printf '%s\n' "$home/bin/$name"
}

# python_env PACKAGE==VERSION...: prints the folder of a virtual environment that has these packages.
python_env() {
    local home=$CACHE/python
    if [[ ! -x $home/bin/pip ]]; then
        python3 -c 'import ensurepip' 2>/dev/null || need ensurepip:python3-venv
        python3 -m venv "$home" >&2 || fail "cannot make a Python environment (package python3-venv?)"
    fi
    local package
    for package in "$@"; do
        "$home/bin/pip" freeze 2>/dev/null | grep -qx -- "$package" || "$home/bin/pip" install --quiet "$package" >&2
    done
    printf '%s\n' "$home"
}

# Builds the release binary (and any examples named) and sets LEASEFS to its path.
build_release() {
    local args=() example
    for example in "$@"; do args+=(--example "$example"); done
    (cd "$ROOT" && cargo build --quiet --locked --release --bin leasefs "${args[@]}") || fail "the build failed"
    LEASEFS=$TARGET/release/leasefs
}

is_mounted() { mountpoint -q -- "$1" 2>/dev/null; }

# Unmounts whatever is at DIR, gently first. Never fails: it is used for cleaning up.
release_mount() {
    is_mounted "$1" || stat "$1" >/dev/null 2>&1 || umount -l "$1" 2>/dev/null || true
    is_mounted "$1" || return 0
    "${LEASEFS:-false}" umount "$1" >/dev/null 2>&1 || umount "$1" 2>/dev/null || fusermount3 -u "$1" 2>/dev/null \
        || umount -l "$1" 2>/dev/null || fusermount3 -uz "$1" 2>/dev/null || true
}

# work_dir PARENT NAME: makes a fresh folder for a suite and removes it when the script ends. Sets WORK.
work_dir() {
    [[ -d $1 ]] || fail "usage: $(basename "$0") DIRECTORY (a directory to work in)"
    WORK=$(mktemp -d "$1/$2.XXXXXX")
    trap 'cd /; rm -rf -- "$WORK" "${LOCAL:-$WORK}"' EXIT
    cd "$WORK"
}
