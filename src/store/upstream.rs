//! A blob service elsewhere, as an engine sees it that works on a *mirror* of it.
//!
//! The engine of a remote mount works on an embedded store in the cache directory, its mirror, as it does on any
//! embedded store. What it must know of the service, and what the service must know, passes through this trait:
//!
//! ```text
//!            look-up, list        open             read             close, fsync        unlink, rename
//!                 |                |                |                    |                   |
//!              refresh        revalidate          bring          (commit to the mirror)  remove, rename
//!                 v                v                v                    v                   v
//!   mirror  <- names, attributes   .     <- ranges of content          push -> fenced    first there, then here
//! ```
//!
//! Every call that needs no request is ready at its first poll. None waits longer than the client's deadline.

use std::fmt::Debug;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;

use crate::share::lease::{Lease, LeaseId};

use super::api::BlobStore;
use super::blob::ETag;
use super::error::{Result, StoreError};
use super::local::{Progress, RenameMode};
use super::names::{BlobName, BlobPath};

/// How a name stands at the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Somebody has a lease on the blob that is not one of `Upstream::push`'s callers as far as the mirror knows.
    pub leased: bool,
    /// That lease, or the one it had, as the service shows it.
    pub lease: Lease,
    /// The service could not be asked; what is said is what was last known.
    pub stale: bool,
}

/// How the service is to protect a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lease under which it is written, if one is held.
    pub lease: Option<LeaseId>,
    /// Whether the version it began with must still be there.
    pub check_version: bool,
}

/// Content that can be opened in the mirror.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The mirror's version that this is about. Whoever finds another one there when it opens it asks again: its bytes
    /// may not be here.
    pub version: ETag,
    /// How to bring what is not here; nothing if all of it is.
    pub fetch: Option<Arc<dyn Fetch>>,
}

/// Changes that were to be pushed later, and that the service does not take.
#[derive(Debug)]
pub struct Refused {
    /// Of which blob.
    pub name: BlobName,
    /// Why.
    pub error: StoreError,
}

/// How a mirror stands, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// Blobs that are changed here and not there yet.
    pub waiting_files: u64,
    /// How big they are together.
    pub waiting_bytes: u64,
    /// Content that is kept here.
    pub cached_bytes: u64,
    /// What the service said last, if it did not answer as it should.
    pub trouble: Option<String>,
    /// A long rename under way: how many blobs are done, and of how many.
    pub moving: Option<(u64, u64)>,
}

/// What a change in the mirror is going to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed<'a> {
    /// Metadata and headers only.
    Properties,
    /// These bytes, and the length: what is behind a new end, or between the old and the new one.
    Ranges(&'a [Range<u64>]),
    /// Any byte.
    Everything,
}

/// Keeps the mirror from looking at names whose change at the service was just made, until the caller has made it in
/// the mirror, too. To be dropped then.
#[must_use = "the mirror may undo the change here as long as the caller has not made it"]
pub struct Settling(Option<Box<dyn std::any::Any + Send + Sync>>);

impl Settling {
    /// Nothing to wait for.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// For mirrors: `guard` is dropped when the caller is done.
    pub fn until_dropped(guard: impl std::any::Any + Send + Sync) -> Self {
        Self(Some(Box::new(guard)))
    }
}

/// A change of the mirror that was announced and is being made. No push takes what it finds meanwhile for all there is.
/// To be dropped when the change is made, or will not be.
#[must_use = "a push beside the change would take it for one that is pushed"]
pub struct Changing(Option<Box<dyn std::any::Any + Send + Sync>>);

impl Changing {
    /// Nobody needs to know.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// For mirrors: `guard` is dropped when the caller is done.
    pub fn until_dropped(guard: impl std::any::Any + Send + Sync) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl Debug for Changing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Changing").field(&self.0.is_some()).finish()
    }
}

impl Debug for Settling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Settling").field(&self.0.is_some()).finish()
    }
}

/// Content that is not all here yet.
#[async_trait]
pub trait Fetch: Send + Sync + Debug {
    /// Whether these bytes can be read from the mirror. What is behind the end is always here.
    fn is_here(&self, range: &Range<u64>) -> bool;

    /// Brings them, of the version that was opened; more is brought ahead for whoever reads on.
    /// [`ConditionNotMet`](super::StoreError::ConditionNotMet) if the service has another version by now.
    async fn bring(&self, range: Range<u64>) -> Result<()>;
}

/// The service behind a mirror.
#[async_trait]
pub trait Upstream: Send + Sync + Debug {
    /// Brings the names in a directory (nothing: the root) up to date, unless they are known well enough.
    async fn refresh_directory(&self, directory: Option<&BlobName>) -> Result<()>;

    /// Brings one name up to date, unless it is known well enough.
    async fn refresh_name(&self, name: &BlobName) -> Result<()>;

    /// Asks for one name whatever is known, and brings it up to date unless it has changes that are not pushed.
    async fn revalidate(&self, name: &BlobName) -> Result<Standing>;

    /// Makes a blob's content ready to be opened in the mirror.
    async fn content(&self, name: &BlobName) -> Result<Ready>;

    /// Whether every byte that the mirror's blob has is here already.
    fn is_all_here(&self, name: &BlobName) -> bool;

    /// Notes that a blob is going to be changed in the mirror, so that it is pushed even after a crash. To be called
    /// before the change.
    fn will_change(&self, name: &BlobName, what: Changed<'_>) -> Result<Changing>;

    /// Notes that the blob's content in the mirror is written in place from now on, wherever it is renamed to: no push is
    /// the last one until it is [`at_rest`](Self::at_rest). To be called while the change that made it so is announced.
    fn in_place(&self, name: &BlobName) -> Result<()>;

    /// Nobody writes the blob's content in place any more. The next push may be the last one.
    fn at_rest(&self, name: &BlobName);

    /// Sends what a program is writing before it is committed, so that the push is short: the first `written` bytes of
    /// `content`, as far as they are worth it. Only a hint, and nothing may rely on it.
    async fn send_early(
        &self,
        name: &BlobName,
        content: &Arc<File>,
        written: u64,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        let _ = (name, content, written, lease);
        Ok(())
    }

    /// Makes room for so many bytes that are going to be written here, if there is not enough. Whether there is now.
    async fn make_room(&self, bytes: u64) -> bool;

    /// Whether there is so much room that somebody may write for a while without asking for it.
    fn is_roomy(&self) -> bool;

    /// Makes what the mirror has under this name the service's, as far as it was changed here. With write-back it is
    /// only queued.
    async fn push(&self, name: &BlobName, fence: Fence) -> Result<()>;

    /// Forgets changes that were not pushed and made the mirror's `version`: the service's version takes its place. A
    /// version that was made since stays.
    async fn give_up(&self, name: &BlobName, version: ETag) -> Result<()>;

    /// Removes the blob there. The mirror's is removed by the caller.
    async fn remove(&self, name: &BlobName, fence: Fence) -> Result<Settling>;

    /// Removes the version there that the mirror has under `name`, also if a rename that was interrupted has taken it to
    /// one of the names in `perhaps_at`, and another to `name`. The mirror's is removed by the caller.
    async fn remove_moved(&self, name: &BlobName, perhaps_at: &[BlobName]) -> Result<Settling>;

    /// Moves a blob, and everything below its name, there. Then `here` moves the mirror's.
    async fn rename(
        &self,
        from: &BlobName,
        to: &BlobName,
        mode: RenameMode,
        fence: Fence,
        here: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<()>;

    /// Pushes everything that is not pushed; tells how far it is.
    async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()>;

    /// Waits for the next blob whose changes were to be pushed later and are refused. They stay until
    /// [`give_up`](Self::give_up).
    async fn refused(&self) -> Refused {
        std::future::pending().await
    }

    /// Notes a lease that is going to be asked for, so that a mount that dies does not keep its own successor out.
    fn note_lease(&self, at: &BlobPath, id: LeaseId) -> Result<()>;

    /// A lease that was noted is not held any more.
    fn strike_lease(&self, at: &BlobPath, id: LeaseId) -> Result<()>;

    /// How the mirror stands.
    fn status(&self) -> UpstreamStatus {
        UpstreamStatus::default()
    }

    /// Where leases are taken.
    fn service(&self) -> Arc<dyn BlobStore>;

    /// Where the blob of that name is there. An error if the name is too long there.
    fn there(&self, name: &BlobName) -> Result<BlobPath>;
}
