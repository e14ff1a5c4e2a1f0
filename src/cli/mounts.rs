//! What is mounted where, from the kernel's own list, and whether it still lives.
//!
//! Touches a mount only in [`probe`], on a thread of its own, because a request to a hanging one never returns.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::stat::stat;
use nix::sys::statfs::statfs;

/// The type that mounts of leasefs have in the kernel's list.
pub(super) const FS_TYPE: &str = "fuse.leasefs";

/// One line of the kernel's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountEntry {
    /// Where it is mounted.
    pub(super) path: PathBuf,
    /// Type, such as `ext4` or `fuse.leasefs`.
    pub(super) kind: String,
    /// Device number as `major:minor`.
    pub(super) device: String,
    /// The user who mounted a FUSE file system.
    pub(super) owner: Option<u32>,
}

impl MountEntry {
    /// True for mounts of leasefs.
    pub(super) fn is_ours(&self) -> bool {
        self.kind == FS_TYPE
    }
}

/// All mounts this process can see, in the order they were made.
pub(super) fn all() -> io::Result<Vec<MountEntry>> {
    // Paths may be any bytes, so the list is not text.
    let list = std::fs::read("/proc/self/mountinfo")?;
    Ok(list.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
}

/// What is visible at exactly this path, if it is a mountpoint: of several, the one on top.
pub(super) fn on_top(mounts: &[MountEntry], path: &Path) -> Option<MountEntry> {
    mounts.iter().rev().find(|entry| entry.path == path).cloned()
}

/// The mount on top of `path` now; none if the list cannot be read.
pub(super) fn at(path: &Path) -> Option<MountEntry> {
    all().ok().and_then(|mounts| on_top(&mounts, path))
}

/// `36 35 98:0 /root /path rw,noatime shared:1 - type source options`
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let device = text(fields.nth(2)?);
    let path = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = text(rest.next()?);
    let options = rest.nth(1).map(text).unwrap_or_default();
    let owner = options.split(',').find_map(|word| word.strip_prefix("user_id=")?.parse().ok());
    Some(MountEntry { path, kind, device, owner })
}

/// The kernel writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match (first, octal) {
            (b'\\', Some(digits)) => {
                out.push(
                    digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')),
                );
                rest = &tail[3..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// How a mount answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It answers.
    Alive,
    /// Its process is gone.
    Dead,
    /// No answer in time.
    Hangs,
}

/// Asks the mount at `path` two simple questions, waiting at most `patience`.
pub(super) fn probe(path: &Path, patience: Duration) -> Health {
    let (sender, answer) = mpsc::sync_channel(1);
    let path = path.to_owned();
    // Attributes may come from the kernel's cache even after the daemon's death; the numbers of statfs never do.
    // The thread is left behind if the mount hangs; it ends with the process.
    std::thread::spawn(move || sender.send(statfs(&path).and_then(|_| stat(&path))).ok());
    match answer.recv_timeout(patience) {
        Ok(Err(Errno::ENOTCONN | Errno::ECONNABORTED)) => Health::Dead,
        // Anything else, even EACCES for a user who is not let in, came from something that lives.
        Ok(_) => Health::Alive,
        Err(_) => Health::Hangs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_list() {
        let line = b"36 35 0:50 / /mnt/a\\040b\\134c rw,nosuid shared:9 master:2 - fuse.leasefs /srv rw,user_id=7,group_id=0";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.path, Path::new("/mnt/a b\\c"));
        assert_eq!((entry.device.as_str(), entry.owner), ("0:50", Some(7)));
        assert!(entry.is_ours());
        let plain = parse_line(b"22 1 254:0 / / rw - ext4 /dev/vda rw").unwrap();
        assert_eq!((plain.kind.as_str(), plain.owner, plain.is_ours()), ("ext4", None, false));
        assert_eq!(parse_line(b"garbage"), None);
        assert_eq!(parse_line(b""), None);
    }

    #[test]
    fn the_later_of_two_mounts_at_one_path_is_on_top() {
        let entry = |kind: &str, path: &str| MountEntry {
            path: path.into(),
            kind: kind.into(),
            device: "0:1".into(),
            owner: None,
        };
        let list = [entry("ext4", "/"), entry("tmpfs", "/a"), entry(FS_TYPE, "/a"), entry("ext4", "/a/b")];
        assert!(on_top(&list, Path::new("/a")).unwrap().is_ours());
        assert_eq!(on_top(&list, Path::new("/a/c")), None);
    }

    #[test]
    fn this_machine_has_a_root() {
        assert!(at(Path::new("/")).is_some());
        assert_eq!(probe(Path::new("/"), Duration::from_secs(5)), Health::Alive);
    }
}
