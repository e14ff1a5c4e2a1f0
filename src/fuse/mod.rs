//! The kernel's front end: FUSE requests become engine calls, engine answers become FUSE replies.
//!
//! Nothing is decided here. Every request is served on the thread that read it: its future is polled once in place
//! and moves to the runtime only if it has to wait (see `serve`), because handing a request to another thread costs
//! several times the work itself.

mod adapter;
mod attr;
mod backing;
mod errno;
mod ioctl;
mod mount;
mod names;
mod open_flags;
mod serve;
mod stale;
mod watch;

pub use mount::{MountConfig, Mounted, mount, unmount_path};
