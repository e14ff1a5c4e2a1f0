#!/usr/bin/env bash
# Everyday shell operations, each with its exact outcome. Usage: shell.sh DIRECTORY
set -euo pipefail

source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

need setfattr:attr flock:util-linux
work_dir "${1:-}" shell
passed=0
failed=0

# is TITLE EXPECTED COMMANDS: runs the commands in a fresh folder and compares what they print.
is() {
    local title=$1 expected=$2 actual status=0
    mkdir case
    actual=$(cd case && TZ=UTC LC_ALL=C timeout 60 bash -euo pipefail -c "$3" 2>&1) || status=$?
    [[ $status == 0 ]] || actual+=" [exit $status]"
    if [[ $actual == "$expected" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'shell: %s\n  wanted: %q\n  got:    %q\n' "$title" "$expected" "$actual" >&2
    fi
    rm -rf case || { failed=$((failed + 1)); mv case "left.$failed"; }
}

# --- names and directories
is "touch makes an empty file" "0 regular empty file" 'touch a; stat -c "%s %F" a'
is "touch keeps nanoseconds" "2001-02-03 04:05:06.123456789 +0000" 'touch -d "2001-02-03 04:05:06.123456789 UTC" a; stat -c %y a'
is "times before 1970 and after 2038" $'-315619200\n4102444800' 'touch -d "1960-01-01 UTC" a; touch -d "2100-01-01 UTC" b; stat -c %Y a b'
is "touch of a link itself" "1000000000 file" 'echo x >a; touch -d @2000000000 a; ln -s a l; touch -h -d @1000000000 l; echo "$(stat -c %Y l) $([[ $(stat -c %Y a) == 2000000000 ]] && echo file)"'
is "mkdir -p and nested listing" $'.\n./x\n./x/y\n./x/y/z' 'mkdir -p x/y/z; find . | sort'
is "mkdir -m" "751" 'mkdir -m 0751 d; stat -c %a d'
is "umask counts" $'640\n750' 'umask 027; touch f; mkdir d; stat -c %a f d'
is "mkdir twice" "mkdir: cannot create directory 'd': File exists [exit 1]" 'mkdir d; mkdir d'
is "rmdir of a full directory" "rmdir: failed to remove 'd': Directory not empty [exit 1]" 'mkdir -p d/e; rmdir d'
is "rmdir of a file" "rmdir: failed to remove 'f': Not a directory [exit 1]" 'touch f; rmdir f'
is "unlink of a directory" "unlink: cannot unlink 'd': Is a directory [exit 1]" 'mkdir d; unlink d'
is "a file is no directory" "cat: f/x: Not a directory [exit 1]" 'touch f; cat f/x'
is "a missing file" "cat: nothing: No such file or directory [exit 1]" 'cat nothing'
is "a name of 255 bytes" "255" 'n=$(printf "n%.0s" {1..255}); echo x >"$n"; ls | tr -d "\n" | wc -c'
is "a name of 256 bytes" "File name too long [exit 1]" 'n=$(printf "n%.0s" {1..256}); touch "$n" 2>&1 | grep -o "File name too long"'
is "odd names come back as they were" "0" 'for n in " a" "b " "c." "d\\e" "f:g" "h*i" "~" "%20" "..." "-x" $'"'"'j\nk'"'"' "ü" "😀"; do printf %s "$n" >"./$n"; done
    bad=0; for f in ./* ./...; do [[ -f $f && ./$(cat "$f"; echo .) == "$f." ]] || bad=$((bad + 1)); done; echo $bad'
is "case matters" $'A\na' 'touch a A; ls | LC_ALL=C sort'
is "2,000 files are all listed once" "2000 2000" 'seq 2000 | xargs touch; echo "$(ls -A | wc -l) $(ls -A | sort -u | wc -l)"'
is "files removed while listing" "0" 'seq 1500 | xargs touch; find . -type f -delete; ls -A | wc -l'
is "find -delete by name" $'./keep' 'touch a.tmp b.tmp keep; find . -name "*.tmp" -delete; find . -type f'
is "find -newer" "./new" 'touch -d @1000 old; touch -d @2000 mark; touch -d @3000 new; find . -type f -newer mark'
is "the current directory removed" "nothing there" 'mkdir d; cd d; rmdir ../d; [[ -z $(ls -A . 2>/dev/null) ]] && ! touch x 2>/dev/null && echo nothing there'
is "a directory knows its parent" "yes" 'mkdir -p a/b; [[ $(stat -c %i a/b/..) == $(stat -c %i a) ]] && echo yes'

# --- moving
is "mv renames" "b: x" 'echo x >a; mv a b; for f in *; do echo "$f: $(cat $f)"; done'
is "mv over a file" "new" 'echo old >a; echo new >b; mv b a; cat a; [[ ! -e b ]]'
is "mv -n keeps the target" "old" 'echo old >a; echo new >b; mv -n b a || true; cat a'
is "mv keeps the inode" "same" 'echo x >a; i=$(stat -c %i a); mv a b; [[ $(stat -c %i b) == "$i" ]] && echo same'
is "mv of a directory with content" "x" 'mkdir -p a/b/c; echo x >a/b/c/f; mv a z; cat z/b/c/f'
is "mv of a directory over an empty one" "f" 'mkdir a b; touch a/f; mv -T a b; ls b'
is "mv of a directory over a full one" "Directory not empty [exit 1]" 'mkdir a b; touch a/f b/g; mv -T a b 2>&1 | grep -o "Directory not empty"'
is "mv of a directory into itself" "subdirectory of itself [exit 1]" 'mkdir -p a/b; mv a a/b 2>&1 | grep -o "subdirectory of itself"'
is "rename NOREPLACE and EXCHANGE" $'exists\nb a' 'echo a >a; echo b >b; python3 - <<"P"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, b"a", -100, b"b", 1) != 0 and ctypes.get_errno() == errno.EEXIST: print("exists")
if libc.renameat2(-100, b"a", -100, b"b", 2) != 0: print("exchange failed", ctypes.get_errno())
P
echo $(cat a b)'
is "an open file follows its new name" "one two" 'exec 3>>a; echo one >&3; mv a b; echo two >&3; exec 3>&-; echo $(cat b)'
is "a file renamed over an open one" "old / new" 'echo old >a; echo new >b; exec 3<a; mv b a; echo "$(cat <&3) / $(cat a)"'

# --- links and special files
is "ln -s and readlink" "some/where else" 'ln -s "some/where else" l; readlink l'
is "a link is followed" "x" 'mkdir d; echo x >d/f; ln -s d l; cat l/f'
is "a dangling link" "dangling" 'ln -s nowhere l; [[ -L l && ! -e l ]] && echo dangling'
is "writing through a dangling link" "x" 'ln -s f l; echo x >l; cat f'
is "ln -s over something" "File exists [exit 1]" 'touch l; ln -s x l 2>&1 | grep -o "File exists"'
is "ln -sfn replaces" "b" 'ln -s a l; ln -sfn b l; readlink l'
is "a loop of links" "Too many levels of symbolic links [exit 1]" 'ln -s a b; ln -s b a; cat a 2>&1 | grep -o "Too many levels of symbolic links"'
is "a hard link works or is refused clearly" "fine" 'echo x >a; if ln a b 2>err; then [[ $(stat -c %h a) == 2 ]] && echo fine; else grep -q "Operation not permitted" err && [[ ! -e b ]] && echo fine; fi'
is "a fifo" $'fifo\nthrough' 'mkfifo p; stat -c %F p; (echo through >p &); cat p'
is "a socket" "socket" 'python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\"s\")"; stat -c %F s'

# --- attributes
is "chmod" "4751" 'touch a; chmod 4751 a; stat -c %a a'
is "chmod of a directory" "1777" 'mkdir d; chmod 1777 d; stat -c %a d'
is "chmod changes no time but ctime" "same later" 'touch -d @1000 a; c=$(stat -c %z a); sleep 0.02; chmod 600 a; echo "$([[ $(stat -c %Y a) == 1000 ]] && echo same) $([[ $(stat -c %z a) > $c ]] && echo later)"'
if [[ $(id -u) == 0 ]]; then
    is "chown" "123:456" 'touch a; chown 123:456 a; stat -c %u:%g a'
    is "chown of a link itself" "7:8" 'ln -s nowhere l; chown -h 7:8 l; stat -c %u:%g l'
    is "chown takes setuid away" "755" 'touch a; chmod 6755 a; chown 1:1 a; stat -c %a a'
    is "files of a setgid directory get its group" "77 2755" 'mkdir d; chown 0:77 d; chmod 2755 d; mkdir d/e; touch d/f; echo "$(stat -c %g d/f) $(stat -c %a d/e)"'
fi
is "writing changes mtime" "later" 'echo x >a; touch -d @1000 a; echo y >>a; [[ $(stat -c %Y a) -gt 1000 ]] && echo later'
is "making an entry changes the directory's mtime" "later" 'mkdir d; touch -d @1000 d; touch d/f; [[ $(stat -c %Y d) -gt 1000 ]] && echo later'
is "extended attributes" $'user.k="v"\nuser.n="1"' 'touch a; setfattr -n user.k -v v a; setfattr -n user.n -v 1 a; getfattr -d a | grep user'
is "extended attributes: binary, empty, missing" $'user.b=0x00ff0a\nuser.e=""\na: user.x: No such attribute [exit 1]' 'touch a; setfattr -n user.b -v 0x00ff0a a; setfattr -n user.e a; getfattr -e hex -n user.b a | grep user.b; getfattr -n user.e a | grep user.e; getfattr -n user.x a'
is "extended attributes: replace and remove" $'user.k="2"\n0' 'touch a; setfattr -n user.k -v 1 a; setfattr -n user.k -v 2 a; getfattr -d a | grep user; setfattr -x user.k a; getfattr -d a | wc -l'
is "extended attributes move and are copied along" $'v\nv' 'touch a; setfattr -n user.k -v v a; mv a b; cp --preserve=xattr b c; getfattr --only-values -n user.k b; echo; getfattr --only-values -n user.k c; echo'
is "extended attributes of a directory" "v" 'mkdir d; setfattr -n user.k -v v d; getfattr --only-values -n user.k d'
is "a large extended attribute" "3000" 'touch a; setfattr -n user.k -v "$(printf "v%.0s" {1..3000})" a; getfattr --only-values -n user.k a | wc -c'

# --- content
is "append" $'1\n2\n3' 'echo 1 >a; echo 2 >>a; echo 3 >>a; cat a'
is "append from four programs at once" "1000 1000" 'for w in 1 2 3 4; do (for n in $(seq 250); do echo "$w-$n" >>a; done) & done; wait; echo "$(wc -l <a) $(sort -u a | wc -l)"'
is "overwriting truncates" "b" 'echo aaaaaaaa >f; echo b >f; cat f'
is "noclobber" "cannot overwrite existing file [exit 1]" 'echo a >f; (set -C; echo b >f) 2>&1 | grep -o "cannot overwrite existing file"'
is "truncate grows with zeros" "100 0" 'truncate -s 100 a; echo "$(stat -c %s a) $(tr -d "\0" <a | wc -c)"'
is "truncate shrinks and grows again" "abc......." 'printf abcdefghij >a; truncate -s 3 a; truncate -s 10 a; tr "\0" . <a'
is "dd into the middle" "aaaaXXaaaa" 'printf aaaaaaaaaa >a; printf XX | dd of=a bs=1 seek=4 conv=notrunc status=none; cat a'
is "dd far behind the end" "1000005 5" 'printf hello | dd of=a bs=1 seek=1000000 status=none; echo "$(stat -c %s a) $(tr -d "\0" <a | wc -c)"'
is "dd with fsync" "1048576" 'dd if=/dev/zero of=a bs=64K count=16 conv=fsync status=none; stat -c %s a'
is "O_DIRECT" "same" 'dd if=/dev/urandom of=a bs=1M count=2 status=none; dd if=a of=b bs=64K iflag=direct oflag=direct status=none; cmp a b && echo same'
is "O_DIRECT and cached writes agree" "DDDDcccc" 'python3 - <<"P"
import mmap, os
fd = os.open("a", os.O_RDWR | os.O_CREAT)
os.write(fd, b"c" * 8192)
d = os.open("a", os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096); page.write(b"D" * 4096)
os.pwrite(d, page, 0)
print((os.pread(fd, 4, 0) + os.pread(fd, 4, 4096)).decode())
P'
is "head and tail" $'1\n1000' 'seq 1000 >a; head -n 1 a; tail -n 1 a'
is "tail -f sees what is added" $'1\n2\n3' 'echo 1 >a; (sleep 0.3; echo 2 >>a; sleep 0.3; echo 3 >>a) & timeout 20 tail -f -s 0.1 -n +1 a | head -n 3 || true'
is "sort onto the same file" $'1\n2\n3' 'printf "3\n1\n2\n" >a; sort -o a a; cat a'
is "sed -i" "hello world 640" 'echo hello moon >a; chmod 640 a; sed -i s/moon/world/ a; echo "$(cat a) $(stat -c %a a)"'
is "gzip and back" "same" 'seq 20000 >a; cp a b; gzip a; gunzip a.gz; cmp a b && echo same'
is "split and join" "same" 'dd if=/dev/urandom of=a bs=1K count=300 status=none; split -b 7000 a p.; cat p.* | cmp - a && echo same'
is "install" "750 x" 'echo x >a; install -m 750 a b; echo "$(stat -c %a b) $(cat b)"'
is "a program runs from here" "ran" 'cp /bin/echo e; ./e ran'
is "a script runs from here" "script" 'printf "#!/bin/sh\necho script\n" >s; chmod +x s; ./s'
is "a file beyond 4 GiB" "5000000004 tail" 'python3 -c "
import os
fd = os.open(\"a\", os.O_RDWR | os.O_CREAT); os.pwrite(fd, b\"tail\", 5000000000); os.close(fd)"; echo "$(stat -c %s a) $(tail -c 4 a)"'
is "cp -p keeps mode and time" "604 1000" 'echo x >a; chmod 604 a; touch -d @1000 a; cp -p a b; echo "$(stat -c "%a %Y" b)"'
is "cp copies by copy_file_range" "same" 'dd if=/dev/urandom of=a bs=1M count=3 status=none; cp --reflink=auto a b; cmp a b && echo same'
is "copy_file_range with offsets" "0123XX456789" 'printf 0123456789 >a; printf "....XX......" >b; python3 -c "
import os
a = os.open(\"a\", os.O_RDONLY); b = os.open(\"b\", os.O_RDWR)
n = os.copy_file_range(a, b, 4, 0, 0); n += os.copy_file_range(a, b, 6, 4, 6)
assert n == 10, n"; cat b'
is "cp --sparse" "same" 'truncate -s 3M a; printf x | dd of=a bs=1 seek=1500000 conv=notrunc status=none; cp --sparse=always a b; cmp a b && echo same'
is "a file is extended without writing" "1073741824 0" 'truncate -s 1G a; echo "$(stat -c %s a) $(tail -c 1 a | od -An -tu1 | tr -d " ")"'
is "fallocate extends" "65536 0" 'fallocate -l 64K a; echo "$(stat -c %s a) $(tr -d "\0" <a | wc -c)"'
is "fallocate -n keeps the size" "5" 'printf hello >a; fallocate -n -l 64K a; stat -c %s a'
is "fallocate -p makes a hole" "16384 8192" 'head -c 16384 /dev/zero | tr "\0" x >a; fallocate -p -o 4096 -l 8192 a; echo "$(stat -c %s a) $(tr -d "\0" <a | wc -c)"'
is "fallocate -z makes zeros" "16384 12288" 'head -c 16384 /dev/zero | tr "\0" x >a; fallocate -z -o 8192 -l 4096 a; echo "$(stat -c %s a) $(tr -d "\0" <a | wc -c)"'
is "data is found behind a hole" "found" 'truncate -s 4M a; printf x | dd of=a bs=1 seek=2097152 conv=notrunc status=none; python3 -c "
import os
fd = os.open(\"a\", os.O_RDONLY)
data = os.lseek(fd, 0, os.SEEK_DATA); hole = os.lseek(fd, 2097152, os.SEEK_HOLE)
assert data <= 2097152 < hole <= 4194304, (data, hole)
print(\"found\")"'
is "mapped: written, read, kept after close" "MAPPED and kept" 'printf "mapped and lost" >a; python3 -c "
import mmap, os
fd = os.open(\"a\", os.O_RDWR); m = mmap.mmap(fd, 0); os.close(fd)
m[0:6] = b\"MAPPED\"; m[11:15] = b\"kept\"
assert open(\"a\", \"rb\").read() == b\"MAPPED and kept\"
m.flush(); m.close()"; cat a'
is "mapped privately: the file stays" "file" 'printf file >a; python3 -c "
import mmap, os
m = mmap.mmap(os.open(\"a\", os.O_RDONLY), 0, access=mmap.ACCESS_COPY); m[0:4] = b\"xxxx\""; cat a'
is "mapped: sees what another program writes" "BBBB" 'printf AAAA >a; python3 -c "
import mmap, os, subprocess
m = mmap.mmap(os.open(\"a\", os.O_RDONLY), 4, prot=mmap.PROT_READ)
assert m[:] == b\"AAAA\"
subprocess.run([\"dd\", \"of=a\", \"conv=notrunc\", \"status=none\"], input=b\"BBBB\", check=True)
print(m[:].decode())"'

# --- open and removed
is "a removed file is read on" "gone content" 'echo content >a; exec 3<a; rm a; [[ ! -e a ]] && echo "gone $(cat <&3)"'
is "a removed file is written on" "more" 'echo x >a; exec 3<>a; rm a; echo more >&3; python3 -c "
import os
print(os.pread(3, 100, 0).decode().split()[-1])"; ls'
is "a removed name is free after the last close" "new" 'echo old >a; exec 3<a; rm a; exec 3<&-; for i in 1 2 3 4 5 6 7 8 9 10; do echo new >a 2>/dev/null && break; sleep 0.05; done; cat a'
is "rm -rf of a tree with an open file" "" 'mkdir -p d/e; echo x >d/e/f; exec 3<d/e/f; rm -rf d 2>/dev/null || { exec 3<&-; sleep 0.2; rm -rf d; }; ls'

# --- locks
is "flock excludes" "busy free" 'touch a; flock a sleep 1 & sleep 0.3; flock -n a true || printf "busy "; wait; flock -n a true && echo free'
is "flock shares" "both" 'touch a; flock -s a sleep 1 & sleep 0.3; flock -s -n a echo both; wait'
is "flock waits" "waited" 'touch a; flock a sleep 0.6 & sleep 0.2; s=$(date +%s%N); flock a true; [[ $(($(date +%s%N) - s)) -gt 200000000 ]] && echo waited'
is "fcntl excludes by range" "busy free" 'truncate -s 100 a; python3 -c "
import fcntl, os, time
fd = os.open(\"a\", os.O_RDWR); fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)
pid = os.fork()
if pid == 0:
    other = os.open(\"a\", os.O_RDWR)
    try:
        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5); print(\"granted\", end=\" \", flush=True)
    except OSError:
        print(\"busy\", end=\" \", flush=True)
    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10); print(\"free\", flush=True)
    os._exit(0)
os.waitpid(pid, 0)"'

# --- numbers about the whole
is "df has numbers" "yes" 'read -r size avail < <(df -k --output=size,avail . | tail -n 1); [[ $size -gt 0 && $avail -gt 0 && $avail -le $size ]] && echo yes'
is "statfs knows the longest name" "255" 'stat -f -c %l .'
is "du counts what is written" "yes" 'dd if=/dev/urandom of=a bs=1M count=4 status=none; sync a; k=$(du -k a | cut -f 1); [[ $k -ge 4096 && $k -lt 4400 ]] && echo yes'
is "du -b of a tree" "300" 'mkdir d; head -c 100 /dev/zero >d/a; head -c 200 /dev/zero >d/b; find d -type f -printf "%s\n" | paste -sd+ | bc 2>/dev/null || find d -type f -printf "%s\n" | awk "{ s += \$1 } END { print s }"'

say "shell: $passed passed, $failed failed"
[[ $failed == 0 ]] || fail "shell: $failed of $((passed + failed)) operations came out differently (above)"
