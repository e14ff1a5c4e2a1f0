//! Which run of the machine this is. OS edge: it asks the kernel by statx(2).
//!
//! What was written without a sync is there as long as the run goes on, whatever happens to processes. It must never
//! take two runs for one; taking one for two is harmless.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A run of the machine, and of the disk's file system in it: a disk that was unmounted in between counts as started
/// anew, because it may have been taken away before everything was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run(String);

impl Run {
    /// The present one, for the disk that the folder is on; nothing if it cannot be told.
    pub(super) fn present(folder: &Path) -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let mount = mount_number(folder).map_or_else(String::new, |number| format!(" {number}"));
        Some(Self(format!("{}{mount}", boot.trim())))
    }

    /// What tells it from others.
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// The number of the mount that a folder is on, which no other mount gets until the machine is started anew. Kernels
/// before 6.8 do not tell it.
fn mount_number(folder: &Path) -> Option<u64> {
    const STATX_MNT_ID_UNIQUE: libc::c_uint = 0x4000;
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path ends with a zero byte and lives until the call returns; the answer has the room that is asked for.
    let done =
        unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, STATX_MNT_ID_UNIQUE, answer.as_mut_ptr()) };
    // SAFETY: zeroed before, and all zeros is a valid value of these numbers.
    let answer = unsafe { answer.assume_init() };
    (done == 0 && answer.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some(answer.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_the_same_until_the_machine_or_the_disk_is_started_anew() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::present(folder.path());
        assert!(run.is_some());
        assert_eq!(run, Run::present(folder.path()));
        // Another mount, another number.
        let (one, other) = (mount_number(Path::new("/proc")), mount_number(folder.path()));
        assert!(one.is_none() || one != other);
    }
}
