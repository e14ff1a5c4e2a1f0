//! The ioctl requests of `src/fuse/leasefs.h`, as a program on the mount makes them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use crate::share::{Access, ShareMode};

/// `struct leasefs_share`
#[repr(C)]
pub(super) struct RawShare {
    access: u32,
    share: u32,
}

/// `struct leasefs_state`
#[repr(C)]
#[derive(Default)]
pub(super) struct RawState {
    access: u32,
    share: u32,
    /// 1: the blob's lease is held for this file.
    pub(super) lease: u32,
    delete_pending: u32,
    opens: u32,
    reserved: u32,
    /// The number of the open.
    pub(super) open: u64,
}

/// `struct leasefs_name`
#[repr(C)]
pub(super) struct RawName {
    name: [u8; 256],
}

mod requests {
    const MAGIC: u8 = 0xE9;
    nix::ioctl_write_ptr!(set_share, MAGIC, 1, super::RawShare);
    nix::ioctl_read!(get_state, MAGIC, 2, super::RawState);
    nix::ioctl_write_ptr!(undelete, MAGIC, 4, super::RawName);
}

/// Claims `access` and `share` for the open behind `file`.
pub(super) fn set_share(file: &File, access: Access, share: ShareMode) -> nix::Result<()> {
    let raw = RawShare { access: access.bits().into(), share: share.bits().into() };
    // SAFETY: the request reads one struct of this type, which lives through the call.
    unsafe { requests::set_share(file.as_raw_fd(), &raw) }.map(drop)
}

/// What the daemon knows of the open behind `file`.
pub(super) fn state(file: &File) -> nix::Result<RawState> {
    let mut raw = RawState::default();
    // SAFETY: the request writes one struct of this type, which lives through the call.
    unsafe { requests::get_state(file.as_raw_fd(), &mut raw) }?;
    Ok(raw)
}

/// Brings back the delete-pending file of this name in `directory`.
pub(super) fn undelete(directory: &File, name: &OsStr) -> nix::Result<()> {
    let mut raw = RawName { name: [0; 256] };
    let name = name.as_bytes();
    // The last byte stays 0: the name must end.
    let place = raw.name.get_mut(..name.len()).filter(|_| name.len() < 256).ok_or(Errno::ENAMETOOLONG)?;
    place.copy_from_slice(name);
    // SAFETY: the request reads one struct of this type, which lives through the call.
    unsafe { requests::undelete(directory.as_raw_fd(), &raw) }.map(drop)
}
