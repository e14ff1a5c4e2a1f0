#!/usr/bin/env bash
# What the tours share: a folder with a share of its own, and steps that are shown, run and checked. Source it after lib.sh.
set -euo pipefail

# start_demo: makes the folder $base, with an empty $base/share and a $base/bin on the PATH that has leasefs. Everything goes at the end.
start_demo() {
    [[ -e /dev/fuse ]] || fail "/dev/fuse is missing: load the kernel module (modprobe fuse)"
    [[ -x ${LEASEFS:-} ]] || build_release
    base=$(mktemp -d)
    holders=()
    trap end_demo EXIT
    mkdir "$base/share" "$base/bin"
    ln -s "$LEASEFS" "$base/bin/leasefs"
    export PATH=$base/bin:$PATH
}

end_demo() {
    cd /
    local pid
    for pid in "${holders[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    release_mount "$base/share"
    rm -rf -- "$base"
}

tell() { printf '\n# %s\n' "$@"; }

# try CODE TEXT COMMAND: shows and runs the command; its exit code and a part of its output must be these.
try() {
    local code=0 output
    printf '$ %s\n' "$3"
    output=$(timeout 60 bash -c "$3" bash 2>&1) || code=$?
    [[ -z $output ]] || printf '%s\n' "$output"
    [[ $code == 0 ]] || printf '[exit code %s]\n' "$code"
    [[ $code == "$1" ]] || fail "exit code $code instead of $1"
    [[ $output == *"$2"* ]] || fail "\"$2\" is not in the output"
}

# hold COMMAND: shows the command and runs it in the background, as another terminal would.
hold() {
    printf '$ %s &\n' "$1"
    bash -c "exec $1" 2>/dev/null &
    holders+=($!)
}

# let_go: ends the last program that was started with hold.
let_go() {
    printf '$ kill %%%%      # the program in the background ends\n'
    kill "${holders[-1]}"
    wait "${holders[-1]}" 2>/dev/null || true
    unset 'holders[-1]'
}

# seen NUMBER TEXT: waits until the status of plan.txt has TEXT so many times.
seen() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        [[ $(leasefs status plan.txt | grep -c -- "$2") != "$1" ]] || return 0
        sleep 0.1
    done
    fail "the status never had \"$2\" $1 times"
}
