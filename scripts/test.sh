#!/usr/bin/env bash
# Everything that proves leasefs: installs what is missing, then checks sources, runs the tests and the mounted suites.
# Usage: scripts/test.sh [--quick] [NAME...]
#   no NAME   everything; --quick leaves out the long suites
#   NAME      only these: format lint docs unit licences, a suite of scripts/suites (runs on both data paths), demo, or a suite of
#             the Blob service: sdk (leasefs judged by the official SDK), azurite (the judge itself, on Azurite),
#             contract (the store's contract over HTTP, on Azurite), kill; files (the Files service judged by the official SDK),
#             remote (fsx on a mount of leasefs serve)
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

CHECKS=(format lint docs unit licences)
SUITES=(shell trees git cbuild sequences editor sqlite locks demo pjdfstest fsx)
SERVICES=(sdk azurite contract kill files remote)
LONG=(sequences editor sqlite fsx kill remote)

quick=
names=()
for argument in "$@"; do
    case $argument in
        --quick) quick=1 ;;
        -*) sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}"; exit 2 ;;
        *)
            [[ " ${CHECKS[*]} ${SUITES[*]} ${SERVICES[*]} " == *" $argument "* ]] \
                || fail "there is no $argument; choose from: ${CHECKS[*]} ${SUITES[*]} ${SERVICES[*]}"
            names+=("$argument")
            ;;
    esac
done
if [[ ${#names[@]} == 0 ]]; then
    names=("${CHECKS[@]}" "${SUITES[@]}" "${SERVICES[@]}")
    if [[ -n $quick ]]; then
        for long in "${LONG[@]}"; do names=("${names[@]/#$long/}"); done
    fi
fi
wanted() { [[ " ${names[*]} " == *" $1 "* ]]; }

passed=0
failed=()
flaky=()
logs=$(mktemp -d)
mounts=()
cleanup() {
    cd /
    for dir in "${mounts[@]}"; do release_mount "$dir"; done
    rm -rf -- "$logs"
}
trap cleanup EXIT

# step TITLE COMMAND...: runs it, says how long it took, shows what it printed only when it failed.
step() { attempt "$1" - "${@:2}"; }

# step_again TITLE AGAIN COMMAND...: the same, but what failed gets a second try: AGAIN (with the log of the first as its last
# argument). A loaded machine can break a test that is right; a test that needs its second try is named in the summary and shown,
# so that somebody looks at it.
step_again() { attempt "$@"; }

attempt() {
    local title=$1 again=$2 start=$SECONDS log=$logs/step
    shift 2
    printf '%-34s ' "$title"
    if (set -euo pipefail; "$@") </dev/null >"$log" 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %4d s  %s\n' $((SECONDS - start)) "$(tail -n 1 "$log" | cut -c 1-90)"
    elif [[ $again != - ]] && (set -euo pipefail; $again "$log") </dev/null >"$log.again" 2>&1; then
        passed=$((passed + 1))
        flaky+=("$title")
        printf 'FLAKY   %4d s  the first try failed:\n' $((SECONDS - start))
        tail -n 80 "$log" | sed 's/^/    /'
    else
        failed+=("$title")
        printf 'FAILED  %4d s\n' $((SECONDS - start))
        tail -n 80 "$log" | sed 's/^/    /'
        if [[ $again != - ]]; then
            printf '    and again:\n'
            tail -n 40 "$log.again" | sed 's/^/    /'
        fi
    fi
}

# unit_again LOG: the test targets that failed, once more. Nothing to repeat (it did not build) is a failure.
unit_again() {
    local -a targets
    readarray -t targets < <(sed -n 's/.*to rerun pass `\(.*\)`.*/\1/p' "$1" | tr ' ' '\n')
    [[ ${#targets[@]} -gt 0 ]] && cargo test --quiet --locked --no-fail-fast "${targets[@]}"
}

# service TITLE COMMAND...: a suite that brings all it needs, so it can have a second try.
service() {
    local -a command=("${@:2}")
    repeat() { timeout 1200 "${command[@]}"; }
    step_again "$1" repeat timeout 1200 "${command[@]}"
}

# mounted TITLE SUITES OPTIONS...: mounts a fresh store, runs the suites in it, unmounts, checks the store.
mounted() {
    local title=$1 suites=$2 suite base
    shift 2
    base=$(mktemp -d)
    mounts+=("$base/mount")
    mkdir "$base/mount"
    # Tests act as other users, who must get through to the mount.
    chmod 755 "$base"
    step "mount ($title)" timeout 60 "$LEASEFS" mount --data "$base/data" "$@" "$base/mount"
    if is_mounted "$base/mount"; then
        for suite in $suites; do
            step "$suite ($title)" timeout 600 scripts/suites/"$suite".sh "$base/mount"
        done
        step "unmount ($title)" timeout 60 "$LEASEFS" umount "$base/mount"
        step "check of the store ($title)" timeout 120 "$LEASEFS" check --data "$base/data"
    fi
    release_mount "$base/mount"
    is_mounted "$base/mount" || rm -rf -- "$base"
}

if wanted unit; then need fusermount3:fuse3 setfattr:attr; fi
for check in "${CHECKS[@]}"; do
    wanted "$check" || continue
    case $check in
        format) step format cargo fmt --check ;;
        lint) step lint cargo clippy --quiet --locked --all-targets -- -D warnings ;;
        docs) step docs env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps ;;
        unit) step_again unit unit_again scripts/unit.py ;;
        licences) step licences scripts/check-licences.sh ;;
    esac
done

plain=
for suite in "${SUITES[@]}"; do
    if wanted "$suite" && [[ $suite != pjdfstest && $suite != demo ]]; then plain+=" $suite"; fi
done
if [[ -n $plain ]] || wanted pjdfstest || wanted demo; then
    need fusermount3:fuse3 setfattr:attr rsync:rsync make:make gcc:gcc git:git
    [[ -e /dev/fuse ]] || fail "/dev/fuse is missing: mounted suites cannot run here"
    step "build (release)" build_release
    LEASEFS=$TARGET/release/leasefs
    [[ -x $LEASEFS ]] || fail "no leasefs to mount with"
    if wanted fsx; then step "tool fsx" cargo_tool fsx "$FSX_VERSION"; fi
    if wanted pjdfstest; then step "tool pjdfstest" cargo_tool pjdfstest "$PJDFSTEST_VERSION"; fi
fi
if [[ -n $plain ]]; then
    mounted passthrough "$plain"
    mounted daemon "$plain" --no-passthrough
fi
if wanted demo; then
    # It mounts a share of its own, and checks what it shows.
    step "lock conflict demo (passthrough)" env LEASEFS="$LEASEFS" timeout 300 scripts/lock-conflict-demo.sh
    step "lock conflict demo (daemon)" env LEASEFS="$LEASEFS" timeout 300 scripts/lock-conflict-demo.sh --no-passthrough
    step "rest conflict demo (passthrough)" env LEASEFS="$LEASEFS" timeout 300 scripts/rest-conflict-demo.sh
    step "rest conflict demo (daemon)" env LEASEFS="$LEASEFS" timeout 300 scripts/rest-conflict-demo.sh --no-passthrough
fi
if wanted pjdfstest; then
    if [[ $(id -u) == 0 ]]; then
        mounted "posix, passthrough" pjdfstest --allow-other --delete posix
        mounted "posix, daemon" pjdfstest --allow-other --delete posix --no-passthrough
    else
        failed+=("pjdfstest: needs root")
    fi
fi

if wanted sdk || wanted kill || wanted files || wanted remote; then
    step "build (release)" build_release
    export LEASEFS=$TARGET/release/leasefs
fi
if wanted sdk; then service "sdk (leasefs)" scripts/suites/sdk.sh leasefs; fi
if wanted azurite; then service "sdk (azurite)" scripts/suites/sdk.sh azurite; fi
if wanted contract; then service "contract (azurite)" scripts/suites/contract.sh; fi
if wanted files; then
    for side in serve mount daemon; do service "sdk-files ($side)" scripts/suites/sdk-files.sh "$side"; done
fi
if wanted remote; then
    step "tool fsx" cargo_tool fsx "$FSX_VERSION"
    service "remote mount" scripts/suites/remote.sh
fi
if wanted kill; then step "kill -9 and power loss" timeout 600 scripts/suites/kill.sh; fi

printf '\n%d passed, %d failed, %d s\n' "$passed" "${#failed[@]}" "$SECONDS"
for title in "${flaky[@]}"; do printf '  only at the second try: %s\n' "$title"; done
for title in "${failed[@]}"; do printf '  failed: %s\n' "$title"; done
[[ ${#failed[@]} == 0 ]]
