#!/usr/bin/env bash
# A tour: two programs want the same file. Mounts a share of its own, shows each step with its real output, checks that it
# came out as told, and cleans up. Usage: scripts/lock-conflict-demo.sh [options of leasefs mount]
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/demo.sh"

need flock:util-linux getfattr:attr
start_demo
leasefs mount --data "$base/data" --log-file "$base/log" "$@" "$base/share" >/dev/null
cd "$base/share"

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
