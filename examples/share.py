#!/usr/bin/env python3
"""Ask leasefs for a share mode: the ABI of src/fuse/leasefs.h in ten lines.

As a program: share.py FILE ACCESS SHARE holds FILE like that until its input ends.
"""
import fcntl
import os
import struct
import sys

READ, WRITE, DELETE = 1, 2, 4
SET_SHARE, GET_STATE, SET_DELETE = 0x4008E901, 0x8020E902, 0x4004E903


def set_share(fd, access, share):
    """Claims `access` (as opened, DELETE may be added) and lets others have `share`. EBUSY: it does not fit."""
    fcntl.ioctl(fd, SET_SHARE, struct.pack("=II", access, share))


def get_state(fd):
    """Access, share mode, lease held, delete pending and the number of opens."""
    return struct.unpack("=IIIII12x", fcntl.ioctl(fd, GET_STATE, bytes(32)))


def set_delete(fd, pending):
    """Marks the file delete pending, or takes that back. Needs DELETE access."""
    fcntl.ioctl(fd, SET_DELETE, struct.pack("=I", pending))


def main(path, access, share):
    """Holds the file until standard input ends."""
    classes = {"r": READ, "w": WRITE, "d": DELETE}
    bits = lambda text: sum(classes[letter] for letter in text if text != "none")
    mode = {0: os.O_ACCMODE, READ: os.O_RDONLY, WRITE: os.O_WRONLY, READ | WRITE: os.O_RDWR}
    fd = os.open(path, mode[bits(access) & (READ | WRITE)])
    set_share(fd, bits(access), bits(share))
    print("held", *get_state(fd), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.exit(f"share.py: {error.strerror}")
