//! Calls by path: what a front end without handles asks of a share.
//!
//! Every call is a short open: find what the path names, judge its lease, pass the gate with the access that the verb
//! stands for, act on the same [`OpenFile`](super::file::OpenFile) that programs on a mount have, make it durable, give
//! the open back, have the kernel forget what it remembers, answer. A short open is a *ghost* from the start: a program
//! that meets one waits for it instead of being refused.
//!
//! * [`FilePath`]: paths. [`Entry`], [`SmbAttributes`], [`SmbChange`]: what is told and changed about a file.
//! * `brief`: the short open. [`Failure`]: why a call failed, and who was in the way.
//! * `elsewhere`: what a share whose blobs are elsewhere adds: questions to the service before, pushes after.
//! * `read`, `write`, `create`, `properties`, `remove`, `rename`, `list`, `leases`, `handles`, `permissions`: the calls.
//!
//! Knows no protocol: neither headers nor statuses. Never judges share modes itself.

mod brief;
mod create;
mod elsewhere;
mod entry;
mod failure;
mod frozen;
mod handles;
mod leases;
mod list;
mod path;
mod permissions;
mod properties;
mod read;
mod remove;
mod rename;
mod write;

use std::net::IpAddr;
use std::sync::Arc;

use super::Engine;

pub use create::{CopyFile, NewFile};
pub use entry::{Entry, SmbAttributes, SmbChange};
pub(super) use entry::{callers_metadata, is_read_only_by_attribute, replace_callers_metadata};
pub use failure::{Answer, Failure};
pub use frozen::Frozen;
pub use handles::{HandleInfo, HandlePage, HandlesClosed, Which};
pub use leases::LeaseAction;
pub use list::{ListRequest, Listed, Listing};
pub use path::FilePath;
pub use properties::FileChange;
pub use read::Reading;
pub use rename::RenameRequest;
pub use write::LastWrite;

/// A share, for front ends that have paths and no handles.
#[derive(Clone)]
pub struct Requests {
    engine: Arc<Engine>,
    /// The machine that the calls come from, where that is known.
    client: Option<IpAddr>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Requests").field(self.engine.share()).finish()
    }
}

impl Requests {
    /// Calls on the share of `engine`.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, client: None }
    }

    /// The same calls on behalf of that machine.
    #[must_use]
    pub fn from_client(self, client: IpAddr) -> Self {
        Self { client: Some(client), ..self }
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}
