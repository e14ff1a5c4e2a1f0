#!/usr/bin/env python3
"""A program that holds files the way it is told, one command per line on standard input.

    open PATH FLAGS         opens PATH; FLAGS is a number for open(2); answers the number of the descriptor
    share FD ACCESS SHARE   sets access and share mode by ioctl (letters r, w, d, or "none")
    read FD / write FD TEXT reads up to 4096 bytes / writes TEXT at the start of the file
    fsync FD
    flock FD sh|ex|un       without waiting
    lock FD rd|wr|un START LENGTH   an fcntl lock, without waiting
    close FD
    many COUNT PATH         opens PATH that often for reading; answers "ok"
    close-all               closes what `many` opened

Every answer is one line: "ok", "ok VALUE" or "errno N". Nothing here knows leasefs but the two numbers of the ioctl.
"""
import errno
import fcntl
import os
import resource
import struct
import sys

# _IOW(0xE9, 1, struct leasefs_share { __u32 access, share; }) of src/fuse/leasefs.h
SET_SHARE = (1 << 30) | (8 << 16) | (0xE9 << 8) | 1
LETTERS = {"r": 1, "w": 2, "d": 4}
LOCKS = {"rd": fcntl.F_RDLCK, "wr": fcntl.F_WRLCK, "un": fcntl.F_UNLCK}
FLOCKS = {"sh": fcntl.LOCK_SH | fcntl.LOCK_NB, "ex": fcntl.LOCK_EX | fcntl.LOCK_NB, "un": fcntl.LOCK_UN}
many = []


def bits(letters):
    return 0 if letters == "none" else sum(LETTERS[letter] for letter in letters)


def act(word, *rest):
    if word == "open":
        return os.open(rest[0], int(rest[1]) | os.O_CLOEXEC)
    if word == "share":
        fcntl.ioctl(int(rest[0]), SET_SHARE, struct.pack("II", bits(rest[1]), bits(rest[2])))
    elif word == "read":
        return os.pread(int(rest[0]), 4096, 0).decode()
    elif word == "write":
        os.pwrite(int(rest[0]), rest[1].encode(), 0)
    elif word == "fsync":
        os.fsync(int(rest[0]))
    elif word == "flock":
        fcntl.flock(int(rest[0]), FLOCKS[rest[1]])
    elif word == "lock":
        data = struct.pack("hhqqi4x", LOCKS[rest[1]], os.SEEK_SET, int(rest[2]), int(rest[3]), 0)
        fcntl.fcntl(int(rest[0]), fcntl.F_SETLK, data)
    elif word == "close":
        os.close(int(rest[0]))
    elif word == "many":
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        many.extend(os.open(rest[1], os.O_RDONLY) for _ in range(int(rest[0])))
    elif word == "close-all":
        while many:
            os.close(many.pop())
    else:
        raise OSError(errno.EINVAL, "unknown command")
    return None


for line in sys.stdin:
    try:
        value = act(*line.rstrip("\n").split("\t"))
        answer = "ok" if value is None else f"ok {value}"
    except OSError as problem:
        answer = f"errno {problem.errno}"
    print(answer, flush=True)
