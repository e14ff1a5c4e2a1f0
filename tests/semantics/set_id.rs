//! Set-id bits, which a change of the content by somebody without the privilege to keep them takes away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Mount, on_both_paths};

/// A user without privileges.
const STRANGER: u32 = 65_534;

/// One change of the file `sys.argv[2]`; `sys.argv[3]` is another file.
const CHANGE: &str = r"
import ctypes, os, sys
how, path, other = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def fallocate(mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), 'fallocate')
flags = {'open': os.O_RDWR | os.O_TRUNC, 'create': os.O_RDWR | os.O_CREAT | os.O_EXCL}
fd = os.open(path, flags.get(how, os.O_RDWR), 0o6755)
if how in ('write', 'create'):
    os.write(fd, b'changed')
elif how == 'truncate':
    os.ftruncate(fd, 10)
elif how == 'allocate':
    fallocate(0, 0, 4 << 20)
elif how == 'punch':
    fallocate(3, 4096, 4096)
elif how == 'copy':
    os.copy_file_range(os.open(other, os.O_RDONLY), fd, 100)
os.fsync(fd)
";

fn change(mount: &Mount, how: &str, name: &str, user: u32) {
    let mut python = Command::new("python3");
    python.args(["-c", CHANGE, how]).arg(mount.path(name)).arg(mount.path("other"));
    let output = python.uid(user).gid(user).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stderr));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn changes_by_other_users_take_the_set_id_bits_away() {
    on_both_paths(&["--allow-other"], |mount| {
        set_mode(mount.dir().parent().unwrap(), 0o755);
        set_mode(&mount.dir(), 0o777);
        fs::write(mount.path("other"), [7; 1000]).unwrap();
        for size in [1000, 100_000, 3 << 20] {
            for how in ["write", "open", "truncate", "allocate", "punch", "copy"] {
                for (user, after) in [(STRANGER, 0o777), (0, 0o6777)] {
                    let path = mount.path("file");
                    fs::write(&path, vec![1; size]).unwrap();
                    set_mode(&path, 0o6777);
                    change(mount, how, "file", user);
                    assert_eq!(mode(&path), after, "{how} of {size} bytes by {user}");
                    fs::remove_file(&path).unwrap();
                }
            }
        }
        change(mount, "create", "new", STRANGER);
        assert_eq!(mode(&mount.path("new")), 0o755, "made with the bits, then written");
    });
}
