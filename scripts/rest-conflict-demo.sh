#!/usr/bin/env bash
# A tour: a mounted program and a REST client want the same file. Mounts a share of its own with a Files endpoint, shows each step
# with its real output, checks that it came out as told, and cleans up. Usage: scripts/rest-conflict-demo.sh [options of leasefs mount]
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/demo.sh"

need curl:curl
start_demo
address=127.0.0.1:$(free_port)
leasefs mount --data "$base/data" --log-file "$base/log" --files-addr "$address" "$@" "$base/share" >/dev/null

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
export BODY=$base/body
cd "$base/share"

WRITE='--header "x-ms-write: update" --header "x-ms-range: bytes=0-2" --data-binary'

tell "A file written through the mount is a file of the REST service, and the reverse, at once."
try 0 '' 'echo "the plan" > plan.txt'
try 0 'the plan' 'rest GET plan.txt'
try 0 '201' "rest PUT 'plan.txt?comp=range' $WRITE 'our'"
try 0 'our plan' 'cat plan.txt'

tell "A program on the mount has it open and lets nobody else in: REST is told 409 SharingViolation, and by whom."
hold 'leasefs open --access rw --share none plan.txt -- sleep 300'
seen 1 sleep
try 0 '409 SharingViolation' 'rest GET plan.txt'
try 0 '409 SharingViolation' "rest PUT 'plan.txt?comp=range' $WRITE 'his'"
try 0 '409 SharingViolation' 'rest DELETE plan.txt'
try 0 '200' 'rest HEAD plan.txt'
let_go
try 0 'our plan' 'rest GET plan.txt'

tell "A lock of flock(1) keeps REST from writing."
hold 'flock --no-fork plan.txt sleep 300'
seen 1 'exclusive  held'
try 0 '409 FileLockConflict' "rest PUT 'plan.txt?comp=range' $WRITE 'his'"
try 0 'our plan' 'rest GET plan.txt'
let_go

tell "A file that is removed while somebody has it open is delete pending: REST is told so, on every request, until it is gone."
hold 'leasefs open --access r --share rwd plan.txt -- sleep 300'
seen 1 sleep
try 0 '' 'rm plan.txt'
try 0 '409 SMBDeletePending' 'rest GET plan.txt'
try 0 '409 SMBDeletePending' 'rest HEAD plan.txt'
try 0 '409 SMBDeletePending' 'rest PUT plan.txt --header "x-ms-type: file" --header "x-ms-content-length: 3"'

tell "It can be brought back, and REST works again ..."
try 0 'is back' 'leasefs undelete plan.txt'
try 0 'our plan' 'rest GET plan.txt'

tell "... or it goes with the last close."
try 0 '' 'rm plan.txt'
let_go
for ((tries = 0; tries < 100; tries++)); do
    [[ $(rest HEAD plan.txt) == 409* ]] || break
    sleep 0.1
done
try 0 '404 ResourceNotFound' 'rest GET plan.txt'

tell "The other way round: a REST client leases a file, and programs on the mount cannot write it."
try 0 '' 'echo "a new plan" > plan.txt'
try 0 '201' 'rest PUT "plan.txt?comp=lease" --header "x-ms-lease-action: acquire" --header "x-ms-lease-duration: -1"'
try 0 'a new plan' 'cat plan.txt'
try 1 'Device or resource busy' 'echo "another plan" > plan.txt'
try 0 '202' 'rest PUT "plan.txt?comp=lease" --header "x-ms-lease-action: break"'
try 0 '' 'echo "another plan" > plan.txt'
try 0 'another plan' 'rest GET plan.txt'

printf '\neverything came out as told\n'
