//! Taking a mount away: by system call where this process may, else through fusermount3.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};

/// CAP_SYS_ADMIN in the kernel's capability sets.
const CAP_SYS_ADMIN_BIT: u64 = 1 << 21;

/// How to take a mount away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Only if nothing uses it.
    Clean,
    /// Away from the tree at once; it ends when the last user is gone.
    Lazy,
}

/// Why a mount is still there.
#[derive(Debug, thiserror::Error)]
pub(super) enum DetachError {
    /// Something uses it.
    #[error("it is in use")]
    Busy,
    /// There is no mount at the path.
    #[error("it is not mounted")]
    NotMounted,
    /// fusermount3 is needed and not there.
    #[error("fusermount3 is not installed, and only root can unmount without it; install the package fuse3")]
    HelperMissing,
    /// The system or fusermount3 said something else.
    #[error("{0}")]
    Other(String),
}

/// Unmounts what is on top at `path`, which is canonical.
pub(super) fn detach(path: &Path, manner: Manner) -> Result<(), DetachError> {
    let flags = match manner {
        Manner::Clean => MntFlags::UMOUNT_NOFOLLOW,
        Manner::Lazy => MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH,
    };
    match umount2(path, flags) {
        Ok(()) => Ok(()),
        Err(Errno::EBUSY) => Err(DetachError::Busy),
        Err(Errno::EINVAL | Errno::ENOENT) => Err(DetachError::NotMounted),
        Err(Errno::EPERM) => by_fusermount(path, manner),
        Err(other) => Err(DetachError::Other(other.desc().to_owned())),
    }
}

fn by_fusermount(path: &Path, manner: Manner) -> Result<(), DetachError> {
    let program = fusermount().ok_or(DetachError::HelperMissing)?;
    let mut command = Command::new(program);
    command.arg("-u");
    if manner == Manner::Lazy {
        command.arg("-z");
    }
    // The program is translated on some systems, and its words are read below.
    command.arg("--").arg(path).env("LC_ALL", "C");
    let output =
        command.output().map_err(|e| DetachError::Other(format!("fusermount3 cannot be run: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    if said.contains("busy") {
        Err(DetachError::Busy)
    } else if said.contains("not found in") || said.contains("not mounted") {
        Err(DetachError::NotMounted)
    } else {
        Err(DetachError::Other(said.to_owned()))
    }
}

/// The program that lets users mount and unmount, if it is installed.
pub(super) fn fusermount() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(usual).filter(|dir| dir.is_absolute());
    candidates.find_map(|dir| Some(dir.join("fusermount3")).filter(|file| file.is_file()))
}

/// True if this process may mount, unmount and use passthrough by itself.
pub(super) fn may_mount() -> bool {
    effective_capabilities().is_ok_and(|set| set & CAP_SYS_ADMIN_BIT != 0)
}

fn effective_capabilities() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| io::Error::other("no capabilities in /proc/self/status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_directory_is_not_mounted() {
        if !may_mount() {
            println!("skipped: needs CAP_SYS_ADMIN");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(detach(dir.path(), Manner::Clean), Err(DetachError::NotMounted)));
        assert!(matches!(detach(Path::new("/no/such"), Manner::Lazy), Err(DetachError::NotMounted)));
    }
}
