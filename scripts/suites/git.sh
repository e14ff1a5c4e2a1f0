#!/usr/bin/env bash
# Everyday git: clone, commit, branch, merge, rebase, stash, fsck, gc, clone back. Usage: git.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

work_dir "${1:-}" git
LOCAL=$(mktemp -d)
# Nobody's own settings may change the outcome.
export HOME=$LOCAL GIT_CONFIG_GLOBAL=$LOCAL/gitconfig GIT_CONFIG_SYSTEM=/dev/null
git config --global user.name Test
git config --global user.email test@example.org
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git config --global gc.autoDetach false

# A history of 60 commits over 400 files, made from nothing.
make_history() {
    python3 - <<'PYTHON'
import random, sys

random.seed(42)
out = sys.stdout.buffer
files = [f"dir{n % 20}/sub{n % 7}/file{n}.txt" for n in range(400)]


def data(content):
    out.write(b"data %d\n%s\n" % (len(content), content))


for commit in range(60):
    out.write(b"commit refs/heads/main\nmark :%d\n" % (commit + 1))
    out.write(b"committer Test <test@example.org> %d +0000\n" % (1700000000 + commit * 60))
    data(b"commit %d" % commit)
    if commit:
        out.write(b"from :%d\n" % commit)
    for name in files if commit == 0 else random.sample(files, 25):
        mode = b"100755" if name.endswith("7.txt") else b"100644"
        out.write(b"M %s inline %s\n" % (mode, name.encode()))
        data(b"".join(b"%s line %d %d\n" % (name.encode(), n, random.randrange(10**9)) for n in range(40)))
PYTHON
}
git init --quiet "$LOCAL/origin"
make_history | git -C "$LOCAL/origin" fast-import --quiet
git -C "$LOCAL/origin" reset --hard --quiet main

clean() { [[ -z $(git -C "$1" status --porcelain) ]] || fail "git: $2: the work tree is not clean: $(git -C "$1" status --porcelain | head -5)"; }
tree_hash() { (cd "$1" && find . -path ./.git -prune -o -type f -printf '%m %p\0' | sort -z | sha256sum && find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

git clone --quiet "$LOCAL/origin" clone
clean clone "after clone"
[[ $(tree_hash clone) == "$(tree_hash "$LOCAL/origin")" ]] || fail "git: the clone's files differ from the origin's"
cd clone
for n in 1 2 3 4 5; do
    echo "change $n" >>dir1/sub1/file1.txt
    echo "new $n" >"new$n.txt"
    git add -A
    git commit --quiet -m "change $n"
done
git switch --quiet -c topic HEAD~3
git mv dir2 moved
git rm --quiet -r dir3
git commit --quiet -m "move and remove"
echo topic >topic.txt
git add topic.txt
git commit --quiet -m topic
git switch --quiet main
git merge --quiet --no-edit topic
clean . "after merge"
[[ -f topic.txt && -f new5.txt && ! -e dir3 && ! -e dir2 && -d moved ]] || fail "git: the merge lost something"
git switch --quiet -c rebased HEAD~1
echo rebased >rebased.txt
git add rebased.txt
git commit --quiet -m rebased
git rebase --quiet main
echo dirty >>topic.txt
git stash --quiet
clean . "after stash"
git stash pop --quiet
git checkout --quiet -- topic.txt
git switch --quiet main
git worktree add --quiet ../second topic
clean ../second "in a second work tree"
git worktree remove ../second
git tag -a -m v1 v1
git fsck --strict --no-progress 2>&1 | grep -v '^dangling' && fail "git: fsck complains"
git gc --quiet --prune=now
git repack -adq
git fsck --strict --no-progress || fail "git: fsck fails after gc"
clean . "after gc"
head=$(git rev-parse HEAD)
cd ..
git clone --quiet clone "$LOCAL/back"
[[ $(git -C "$LOCAL/back" rev-parse HEAD) == "$head" ]] || fail "git: the clone back has another HEAD"
[[ $(tree_hash "$LOCAL/back") == "$(tree_hash clone)" ]] || fail "git: the clone back has other files"
git -C "$LOCAL/back" fsck --strict --no-progress || fail "git: fsck of the clone back"
say "git: $(git -C clone rev-list --all --count) commits, $(git -C clone ls-files | wc -l) files, all clean"
