#!/usr/bin/env bash
# A tour: a mounted program and a REST client want the same file. Mounts a share of its own with a Files endpoint, shows each step
# with its real output, checks that it came out as told, and cleans up. Usage: scripts/rest-conflict-demo.sh [options of leasefs mount]
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need curl:curl
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
address=127.0.0.1:$(free_port)
leasefs=$base/bin/leasefs
"$leasefs" mount --data "$base/data" --log-file "$base/log" --files-addr "$address" "$@" "$base/share" >/dev/null

# A signature made by the official SDK lets curl in for an hour; `rest METHOD FILE [options of curl]` shows the answer.
export FILES=http://$address/devstoreaccount1/share
SAS=$(FILES_ADDRESS=$address PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/tests/sdk_files \
    "$(python_env "$AZURE_BLOB_SDK" "$AZURE_FILES_SDK" pytest==9.2.0)/bin/python" -c 'import test_sas; print(test_sas.share_sas("share"))')
export SAS
cat >"$base/bin/rest" <<'END'
#!/bin/sh
method=$1 file=$2
shift 2
case $method in
    HEAD) set -- --head "$@" ;;
    PUT) case "$*" in *--data*) ;; *) set -- --data '' "$@" ;; esac ;;
esac
: >"$BODY"
case $file in *\?*) file="$file&$SAS" ;; *) file="$file?$SAS" ;; esac
curl --silent --show-error --max-time 30 --request "$method" --header 'x-ms-version: 2026-06-06' "$@" \
    --output "$BODY.part" --write-out '%{http_code} %header{x-ms-error-code}\n' "$FILES/$file"
[ "$method" = HEAD ] || mv "$BODY.part" "$BODY"
if grep -q '<Message>' "$BODY"; then sed -n 's/.*<Message>//p' "$BODY"; else cat "$BODY"; fi
END
chmod +x "$base/bin/rest"
export BODY=$base/body PATH=$base/bin:$PATH
cd "$base/share"

tell() { printf '\n# %s\n' "$@"; }

# try TEXT COMMAND: shows and runs the command; its output must have TEXT.
try() {
    local output
    printf '$ %s\n' "$2"
    output=$(timeout 60 bash -c "$2" bash 2>&1) || true
    [[ -z $output ]] || printf '%s\n' "$output"
    [[ $output == *"$1"* ]] || fail "\"$1\" is not in the output"
}

# hold COMMAND: shows the command and runs it in the background, as another terminal would.
hold() {
    printf '$ %s &\n' "$1"
    bash -c "exec $1" 2>/dev/null &
    holders+=($!)
    seen "$2"
}

let_go() {
    printf '$ kill %%%%      # the program in the background ends\n'
    kill "${holders[-1]}"
    wait "${holders[-1]}" 2>/dev/null || true
    unset 'holders[-1]'
}

# seen TEXT: waits until the status of plan.txt has TEXT.
seen() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        leasefs status plan.txt | grep -q -- "$1" && return 0
        sleep 0.1
    done
    fail "the status never had \"$1\""
}

WRITE='--header "x-ms-write: update" --header "x-ms-range: bytes=0-2" --data-binary'

tell "A file written through the mount is a file of the REST service, and the reverse, at once."
try '' 'echo "the plan" > plan.txt'
try 'the plan' 'rest GET plan.txt'
try '201' "rest PUT 'plan.txt?comp=range' $WRITE 'our'"
try 'our plan' 'cat plan.txt'

tell "A program on the mount has it open and lets nobody else in: REST is told 409 SharingViolation, and by whom."
hold 'leasefs open --access rw --share none plan.txt -- sleep 300' sleep
try '409 SharingViolation' 'rest GET plan.txt'
try '409 SharingViolation' "rest PUT 'plan.txt?comp=range' $WRITE 'his'"
try '409 SharingViolation' 'rest DELETE plan.txt'
try '200' 'rest HEAD plan.txt'
let_go
try 'our plan' 'rest GET plan.txt'

tell "A lock of flock(1) keeps REST from writing."
hold 'flock --no-fork plan.txt sleep 300' 'exclusive  held'
try '409 FileLockConflict' "rest PUT 'plan.txt?comp=range' $WRITE 'his'"
try 'our plan' 'rest GET plan.txt'
let_go

tell "A file that is removed while somebody has it open is delete pending: REST is told so, on every request, until it is gone."
hold 'leasefs open --access r --share rwd plan.txt -- sleep 300' sleep
try '' 'rm plan.txt'
try '409 SMBDeletePending' 'rest GET plan.txt'
try '409 SMBDeletePending' 'rest HEAD plan.txt'
try '409 SMBDeletePending' 'rest PUT plan.txt --header "x-ms-type: file" --header "x-ms-content-length: 3"'

tell "It can be brought back, and REST works again ..."
try 'is back' 'leasefs undelete plan.txt'
try 'our plan' 'rest GET plan.txt'

tell "... or it goes with the last close."
try '' 'rm plan.txt'
let_go
for ((tries = 0; tries < 100; tries++)); do
    [[ $(rest HEAD plan.txt) == 409* ]] || break
    sleep 0.1
done
try '404 ResourceNotFound' 'rest GET plan.txt'

tell "The other way round: a REST client leases a file, and programs on the mount cannot write it."
try '' 'echo "a new plan" > plan.txt'
try '201' 'rest PUT "plan.txt?comp=lease" --header "x-ms-lease-action: acquire" --header "x-ms-lease-duration: -1"'
try 'a new plan' 'cat plan.txt'
try 'Device or resource busy' 'echo "another plan" > plan.txt'
try '202' 'rest PUT "plan.txt?comp=lease" --header "x-ms-lease-action: break"'
try '' 'echo "another plan" > plan.txt'
try 'another plan' 'rest GET plan.txt'

printf '\neverything came out as told\n'
