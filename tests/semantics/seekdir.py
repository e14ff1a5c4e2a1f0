"""Goes back in a directory while its entries are being removed. Arguments: the directory, and how many entries it has.

Prints nothing if all is well: behind a position come all entries that came behind it before, except those that are gone.
"""

import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)


class Dirent(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_uint16), ("kind", ctypes.c_uint8),
                ("name", ctypes.c_char * 256)]


libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Dirent)
libc.telldir.restype = ctypes.c_long
for call, kinds in {"readdir": [], "telldir": [], "rewinddir": [], "closedir": [], "seekdir": [ctypes.c_long]}.items():
    getattr(libc, call).argtypes = [ctypes.c_void_p, *kinds]


def entries(stream):
    """The names to the end, each with the position behind it."""
    while entry := libc.readdir(stream):
        name = entry.contents.name.decode()
        if name not in (".", ".."):
            yield name, libc.telldir(stream)


directory, count = sys.argv[1], int(sys.argv[2])
stream = libc.opendir(directory.encode())
first = list(entries(stream))
assert len(first) == count, f"{len(first)} of {count} entries"

# Every third one goes, and something new comes.
gone = {name for number, (name, _) in enumerate(first) if number % 3 == 0}
for name in gone:
    os.remove(f"{directory}/{name}")
with open(f"{directory}/000-new", "w"):
    pass

for number in (count - 1, count // 2, 5, count // 4, count - 2, 0):
    libc.seekdir(stream, first[number][1])
    seen = [name for name, _ in entries(stream)]
    expected = [name for name, _ in first[number + 1:] if name not in gone]
    assert [name for name in seen if name != "000-new"] == expected, f"behind entry {number}: {len(seen)}, not {len(expected)}"

libc.rewinddir(stream)
seen = [name for name, _ in entries(stream)]
assert len(seen) == len(set(seen)) == count - len(gone) + 1 and "000-new" in seen, "a rewind shows what is there now"

# As `rm -r` of other tools: read some, remove them, go on where it was, until nothing is left.
libc.rewinddir(stream)
for name, position in entries(stream):
    os.remove(f"{directory}/{name}")
    libc.seekdir(stream, position)
libc.closedir(stream)
assert os.listdir(directory) == [], f"{len(os.listdir(directory))} entries were skipped"
