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
AZURITE_VERSION=3.37.0
AZURE_BLOB_SDK=azure-storage-blob==12.31.1
AZURE_FILES_SDK=azure-storage-file-share==12.27.1

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

# Prints the path of Azurite's blob server, installing it the first time.
azurite_blob() {
    local home=$CACHE/azurite-$AZURITE_VERSION
    if [[ ! -e $home/done ]]; then
        need node:nodejs npm:npm
        say "installing azurite $AZURITE_VERSION (once)"
        mkdir -p "$home"
        npm install --prefix "$home" --no-audit --no-fund --loglevel=error "azurite@$AZURITE_VERSION" >&2 \
            || fail "cannot install azurite $AZURITE_VERSION"
        touch "$home/done"
    fi
    printf '%s\n' "$home/node_modules/.bin/azurite-blob"
}

# Prints a TCP port of this machine that nobody listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start_blob_server leasefs|azurite DIR: starts the server with its data in DIR, waits until it answers.
# Sets BLOB_PID and BLOB_ADDRESS; ends with the script's own cleanup (stop_blob_server).
start_blob_server() {
    local server=$1 dir=$2 port waited program
    # Installed before anybody waits for it to answer.
    if [[ $server == azurite ]]; then program=$(azurite_blob); fi
    port=$(free_port)
    mkdir -p "$dir"
    case $server in
        leasefs) "$LEASEFS" serve --data "$dir" --blob-addr "127.0.0.1:$port" >"$dir.log" 2>&1 & ;;
        azurite)
            "$program" --location "$dir" --blobHost 127.0.0.1 --blobPort "$port" --skipApiVersionCheck \
                --silent --disableTelemetry >"$dir.log" 2>&1 &
            ;;
        *) fail "there is no server $server" ;;
    esac
    BLOB_PID=$! BLOB_ADDRESS=127.0.0.1:$port
    for ((waited = 0; waited < 300; waited++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 0; fi
        kill -0 "$BLOB_PID" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$dir.log" >&2
    fail "$server does not answer on port $port"
}

# start_server ADDRESS LOG COMMAND...: starts it and waits until it answers there. Sets SERVER_PID; output goes to LOG.log.
start_server() {
    local address=$1 log=$2.log waited
    shift 2
    "$@" >"$log" 2>&1 &
    SERVER_PID=$!
    for ((waited = 0; waited < 300; waited++)); do
        if (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null; then return 0; fi
        kill -0 "$SERVER_PID" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$log" >&2
    fail "$1 does not answer on $address"
}

# Ends a server started above; says so when it did not end by itself.
stop_blob_server() {
    local pid=$1 waited
    kill "$pid" 2>/dev/null || return 0
    for ((waited = 0; waited < 200; waited++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
    say "process $pid had to be killed"
    return 1
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
