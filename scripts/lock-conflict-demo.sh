#!/usr/bin/env bash
# A tour: two programs want the same file. Mounts a share of its own, shows each step with its real output, checks that it
# came out as told, and cleans up. Usage: scripts/lock-conflict-demo.sh [options of leasefs mount]
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need flock:util-linux getfattr:attr
[[ -e /dev/fuse ]] || fail "/dev/fuse is missing: load the kernel module (modprobe fuse)"
[[ -x ${LEASEFS:-} ]] || build_release
base=$(mktemp -d)
holders=()
cleanup() {
    cd /
    for pid in "${holders[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    release_mount "$base/share"
    rm -rf -- "$base"
}
trap cleanup EXIT
mkdir "$base/share" "$base/bin"
ln -s "$LEASEFS" "$base/bin/leasefs"
export PATH=$base/bin:$PATH
leasefs mount --data "$base/data" --log-file "$base/log" "$@" "$base/share" >/dev/null
cd "$base/share"

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

tell "A file, and a program that has it open for reading and writing. It lets others read, and nothing else."
try 0 '' 'echo "the plan" > plan.txt'
hold 'leasefs open --access rw --share r plan.txt -- sleep 300'
seen 1 sleep
try 0 'the plan' 'cat plan.txt'
try 1 'Device or resource busy' 'echo "another plan" > plan.txt'
try 1 'Device or resource busy' 'rm plan.txt'

tell "Who is it? A refused open says so and ends with 75, so that scripts can tell busy from broken."
try 75 'is held by sleep' 'leasefs open --access rw --share r plan.txt -- vi {}'
try 0 'sleep' 'leasefs status plan.txt'
try 0 'program=sleep' 'getfattr --only-values -n user.leasefs.holders plan.txt'

tell "Wait for it instead."
(sleep 1 && kill "${holders[-1]}") &
try 0 'my turn' 'leasefs open --wait 30 --access rw --share none plan.txt -- echo "my turn"'
wait "${holders[-1]}" 2>/dev/null || true
unset 'holders[-1]'

tell "A file that is removed while somebody has it open is delete pending: hidden, its name still taken, not gone."
hold 'leasefs open --access r --share rwd plan.txt -- sleep 300'
seen 1 sleep
try 0 '' 'rm plan.txt'
try 0 '' 'ls'
try 1 'Device or resource busy' 'cat plan.txt'
try 75 'leasefs undelete' 'leasefs open --access r plan.txt -- cat {}'
try 0 'delete pending: 1' 'leasefs status plan.txt'

tell "It can be brought back ..."
try 0 'is back' 'leasefs undelete plan.txt'
try 0 'the plan' 'cat plan.txt'

tell "... or it goes with the last close."
try 0 '' 'rm plan.txt'
let_go
try 1 'No such file' 'cat plan.txt'

tell "Range locks: flock and fcntl, seen by everybody on the share."
try 0 '' 'echo "a new plan" > plan.txt'
hold 'flock plan.txt sleep 300'
seen 1 'exclusive  held'
try 1 '' 'flock --nonblock plan.txt true'
hold 'flock plan.txt true'
seen 1 'exclusive  waiting'
try 0 '1 held, 1 waiting' 'leasefs status plan.txt'

tell "Somebody hangs, and the file is needed: take the open away from it."
id=$(leasefs status --json plan.txt | grep -o '"opens":\[{"id":[0-9]*' | grep -o '[0-9]*$')
try 0 'is closed' "leasefs close-handle . $id"
seen 0 'exclusive  waiting'
try 0 '' 'flock --nonblock plan.txt true'

printf '\neverything came out as told\n'
