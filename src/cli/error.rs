//! What can go wrong for a person at the command line, each as one sentence.
//!
//! A sentence says what happened, to which path, and what to do. All of them are here, so that they can be read side
//! by side. Never shows Debug output of anything.

use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The arguments, options or the configuration file ask for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// Anything that needs no sentence of its own here; the text is complete.
    #[error("{0}")]
    Failed(String),

    #[error("the mountpoint {} does not exist; create it first: mkdir -p {}", .0.display(), .0.display())]
    MountpointMissing(PathBuf),
    #[error("the mountpoint {} is not a directory", .0.display())]
    MountpointNotDirectory(PathBuf),
    #[error("the mountpoint {} cannot be used: {}", .0.display(), .1)]
    MountpointUnusable(PathBuf, std::io::Error),
    #[error("{} is already mounted by leasefs; unmount it first: leasefs umount {}", .0.display(), .0.display())]
    AlreadyMounted(PathBuf),
    #[error(
        "the file system of type {kind} at {} is dead; unmount it first: umount -l {}",
        .path.display(), .path.display()
    )]
    ForeignDeadMount { path: PathBuf, kind: String },
    #[error(
        "the leasefs mount at {} does not answer; end its process, then: leasefs umount --lazy {}",
        .0.display(), .0.display()
    )]
    MountHangs(PathBuf),
    #[error(
        "the data directory {} and the mountpoint {} must not contain each other; choose another --data directory",
        .data.display(), .mountpoint.display()
    )]
    Overlap { data: PathBuf, mountpoint: PathBuf },

    #[error(
        "the device /dev/fuse does not exist; load the kernel module (modprobe fuse), \
         or start the container with --device /dev/fuse --cap-add SYS_ADMIN"
    )]
    DeviceMissing,
    #[error(
        "the device /dev/fuse cannot be opened: {0}; run leasefs as root, or let users open it (chmod 666 /dev/fuse)"
    )]
    DeviceDenied(std::io::Error),
    #[error("fusermount3 is not installed, and only root can mount without it; install the package fuse3")]
    FusermountMissing,
    #[error(
        "only root may use --allow-other here; run leasefs as root, or put the line user_allow_other into /etc/fuse.conf"
    )]
    AllowOtherDenied,

    #[error("{} is not on a mount of leasefs; `leasefs status` lists those there are", .0.display())]
    NotOnMount(PathBuf),
    #[error("{} cannot be looked at: {}", .0.display(), .1)]
    NotVisible(PathBuf, std::io::Error),
    #[error("the daemon of the mount at {} cannot be asked: {why}", .path.display())]
    NoAnswer { path: PathBuf, why: String },
    /// Somebody else stands in the way; the text names them. Trying again later can help.
    #[error("{0}")]
    Conflict(String),

    #[error("{} is not a mount", .0.display())]
    NotAMount(PathBuf),
    #[error("{} is a mount of type {kind}, not of leasefs; use umount {}", .path.display(), .path.display())]
    NotOurMount { path: PathBuf, kind: String },
    #[error("{} is busy{users}; close what uses it, or detach it now with --lazy", .path.display())]
    Busy { path: PathBuf, users: String },
    #[error("{} cannot be unmounted: {reason}", .path.display())]
    UnmountFailed { path: PathBuf, reason: String },
    #[error("{} is still mounted: {seconds} s were not enough to commit what is pending ({left})", .path.display())]
    DrainTimeout { path: PathBuf, seconds: u64, left: String },
    #[error("{} is unmounted, but its process {pid} has not ended after {seconds} s", .path.display())]
    ExitTimeout { path: PathBuf, pid: i32, seconds: u64 },
}

impl CliError {
    /// The exit code that scripts see: 1 failed, 2 wrong usage, 75 (EX_TEMPFAIL) refused by a conflict.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            CliError::Usage(_) => ExitCode::from(2),
            CliError::Conflict(_) => ExitCode::from(75),
            _ => ExitCode::from(1),
        }
    }
}
