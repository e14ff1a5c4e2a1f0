//! The ioctl requests of `src/fuse/leasefs.h`, as a program on the mount makes them.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::share::{Access, ShareMode};

#[repr(C)]
pub(super) struct RawShare {
    access: u32,
    share: u32,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct RawState {
    pub(super) open: u64,
}

mod requests {
    nix::ioctl_write_ptr!(set_share, b'L', 1, super::RawShare);
    nix::ioctl_read!(get_state, b'L', 2, super::RawState);
}

/// Claims `access` and `share` for the open behind `file`.
pub(super) fn set_share(file: &File, access: Access, share: ShareMode) -> nix::Result<()> {
    let raw =
        RawShare { access: bits(|class| access.contains(class)), share: bits(|class| share.admits(class)) };
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

/// The classes as the header numbers them.
fn bits(has: impl Fn(Access) -> bool) -> u32 {
    let classes = [(Access::READ, 1), (Access::WRITE, 2), (Access::DELETE, 4)];
    classes.into_iter().filter(|(class, _)| has(*class)).map(|(_, bit)| bit).sum()
}
