//! The gate: every open, remove and rename passes here, and only here are share modes and delete-pending judged.
//!
//! What passes gets a permit that nobody else can make; the data paths ask for one. The state of a file is a
//! [`FileShareState`]; the gate is its only caller. Each state is behind one of a fixed number of mutexes that are
//! held for the decision alone, never across an await.
//!
//! `close(2)` returns before the kernel tells us, so a request can meet the *ghost* of an open whose program is
//! done. A refusal that is due only to such opens (flushed and not used since) is put off for up to
//! 100 ms; every other refusal comes at once.

mod listing;
mod permits;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::share::{Access, Closed, FileShareState, OpenId, Refusal, ShareMode};

use super::error::{FsError, Result};
use super::holders::Holder;
use super::nodes::Ino;

pub use listing::OpenInfo;
use permits::Unused;
pub use permits::{OpenPermit, PendingPermit, RemovePermit};
pub use ranges::RangeRequest;

/// How long a conflict with an open that looks closed may wait for the kernel to say so.
pub(super) const GHOST_WAIT: Duration = Duration::from_millis(100);

/// In so many steps. On a machine that is so busy that nobody gets to run, the steps take longer, and so the wait grows
/// with the time that the close needs to get through.
const GHOST_STEPS: u32 = 20;

/// But not beyond this, however often it is rung meanwhile.
const GHOST_WAIT_MAX: Duration = Duration::from_secs(1);

const SHARDS: usize = 32;

/// What removing the name of an open file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRule {
    /// The file is delete pending: the name stays taken until the last close.
    Smb,
    /// The name is free at once, the content lives until the last close.
    Posix,
}

/// What an open asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it is going to do.
    pub access: Access,
    /// What it lets others do.
    pub share: ShareMode,
}

impl Claim {
    /// To remove or rename, for a moment, beside everybody who shares that.
    pub const DELETE: Self = Self { access: Access::DELETE, share: ShareMode::ALL };
}

/// The opens of all files of a share.
#[derive(Debug)]
pub struct Gate {
    shards: [Mutex<Shard>; SHARDS],
    next_open: AtomicU64,
    /// Rings when an open was closed.
    closed: Notify,
}

/// The files whose numbers have the same remainder.
#[derive(Debug, Default)]
struct Shard {
    files: HashMap<Ino, Watched>,
    /// Who holds the opens of these files.
    holders: HashMap<OpenId, Held>,
}

#[derive(Debug, Default)]
struct Watched {
    state: FileShareState,
    /// How many opens were flushed and not used since: probably closed already.
    ghosts: usize,
    /// It should have been removed with its last close, and could not be.
    kept: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    holder: Holder,
    /// Flushed and not used since.
    ghost: bool,
}

/// How a remove goes on.
#[derive(Debug)]
pub enum Removal {
    /// Nobody has the file open: remove it now.
    Now(RemovePermit),
    /// It is delete pending now; whoever closes it last removes it. Undone when dropped without being confirmed.
    Pending(PendingPermit),
    /// Take the name away; the opens keep the content.
    Detach,
}

/// What a close leaves behind.
#[derive(Debug)]
pub enum Closing {
    /// Nothing to do.
    Done,
    /// The file was delete pending and this was its last open: remove it now.
    Remove(RemovePermit),
}

impl Gate {
    /// A gate nobody has passed yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            next_open: AtomicU64::new(1),
            closed: Notify::new(),
        })
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        // The remainder is below SHARDS, so it fits.
        &self.shards[(ino.0 % SHARDS as u64) as usize]
    }

    /// Opens `ino` for `holder`, or says what stands in the way.
    pub async fn open(self: &Arc<Self>, ino: Ino, claim: Claim, holder: Holder) -> Result<OpenPermit> {
        self.unless_ghosts(|| self.try_open(ino, claim, holder, false)).await
    }

    /// Opens `ino` for one short call. Whoever meets such an open waits for it, as for one that looks closed.
    pub async fn open_briefly(
        self: &Arc<Self>,
        ino: Ino,
        claim: Claim,
        holder: Holder,
    ) -> Result<OpenPermit> {
        self.unless_ghosts(|| self.try_open(ino, claim, holder, true)).await
    }

    /// Asks for the right to remove `ino` now: refused while anybody has it open, and never makes it pending.
    pub async fn remove_unused(self: &Arc<Self>, ino: Ino) -> Result<RemovePermit> {
        self.unless_ghosts(|| self.try_remove_unused(ino)).await
    }

    /// Asks for the right to remove `ino`: an open with delete access, the mark, and the close, in one step.
    pub async fn remove(self: &Arc<Self>, ino: Ino, rule: DeleteRule) -> Result<Removal> {
        self.unless_ghosts(|| self.try_remove(ino, rule)).await
    }

    /// Asks whether `ino` may be replaced by a rename: every open of it must share delete.
    pub async fn replace(self: &Arc<Self>, ino: Ino) -> Result<Removal> {
        self.unless_ghosts(|| self.try_remove(ino, DeleteRule::Posix)).await
    }

    /// Waits a little for a delete-pending file to go; says whether it is still pending.
    ///
    /// Also for opens that are no ghosts: programs (SQLite, for one) remove a name and make it anew while a peer
    /// just takes a look at the old file.
    pub async fn settle(self: &Arc<Self>, ino: Ino) -> bool {
        self.unless_ghosts(|| match self.shard(ino).lock().files.get(&ino) {
            Some(watched) if watched.state.is_delete_pending() => {
                Err(Refused { error: FsError::DeletePending, only_ghosts: true })
            }
            _ => Ok(()),
        })
        .await
        .is_err()
    }

    /// The right to remove a file that could not be removed when its turn came; for one at a time.
    pub fn remove_again(self: &Arc<Self>, ino: Ino) -> Option<RemovePermit> {
        let mut shard = self.shard(ino).lock();
        let watched = shard.files.get_mut(&ino)?;
        let due = watched.kept && watched.state.is_delete_pending() && watched.state.open_count() == 0;
        due.then(|| {
            watched.kept = false;
            RemovePermit::granted(self, ino, Unused::Pending)
        })
    }

    /// Takes delete pending back while somebody has the file open; says whether that was so.
    pub fn undelete(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino).lock();
        let Some(watched) = shard.files.get_mut(&ino) else { return false };
        // Without opens it is just being removed.
        let possible = watched.state.is_delete_pending() && watched.state.open_count() > 0;
        if possible {
            watched.state.clear_delete();
        }
        possible
    }

    /// Whether an open of `ino` is there that does not look closed.
    pub fn is_living(&self, ino: Ino) -> bool {
        self.shard(ino).lock().files.get(&ino).is_some_and(|watched| !watched.only_ghosts())
    }

    /// How many opens `ino` has.
    pub fn open_count(&self, ino: Ino) -> usize {
        self.shard(ino).lock().files.get(&ino).map_or(0, |watched| watched.state.open_count())
    }

    /// Whether `ino` is delete pending.
    pub fn is_delete_pending(&self, ino: Ino) -> bool {
        self.shard(ino).lock().files.get(&ino).is_some_and(|watched| watched.state.is_delete_pending())
    }

    /// Tries until it works, until something else than a ghost stands in the way, or until the wait is over.
    async fn unless_ghosts<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
        let (mut steps, mut end) = (0, None);
        loop {
            // Registered before the attempt, so that a close in between is not missed.
            let closed = self.closed.notified();
            let refused = match attempt() {
                Ok(granted) => return Ok(granted),
                Err(refused) => refused,
            };
            if !refused.only_ghosts || steps == GHOST_STEPS {
                return Err(refused.error);
            }
            let end = *end.get_or_insert_with(|| Instant::now() + GHOST_WAIT_MAX);
            match timeout(GHOST_WAIT / GHOST_STEPS, closed).await {
                Err(_) => steps += 1,
                Ok(()) if Instant::now() >= end => return Err(refused.error),
                Ok(()) => {}
            }
        }
    }

    fn next_id(&self) -> OpenId {
        OpenId(self.next_open.fetch_add(1, Ordering::Relaxed))
    }

    fn try_open(
        self: &Arc<Self>,
        ino: Ino,
        claim: Claim,
        holder: Holder,
        ghost: bool,
    ) -> Attempt<OpenPermit> {
        let id = self.next_id();
        let mut shard = self.shard(ino).lock();
        let watched = shard.files.entry(ino).or_default();
        if let Err(refusal) = watched.state.try_open(id, claim.access, claim.share) {
            return Err(shard.refused(ino, refusal, claim));
        }
        watched.ghosts += usize::from(ghost);
        shard.holders.insert(id, Held { holder, ghost });
        Ok(OpenPermit::granted(self, ino, id, claim.access))
    }

    fn try_remove(self: &Arc<Self>, ino: Ino, rule: DeleteRule) -> Attempt<Removal> {
        let id = self.next_id();
        let mut shard = self.shard(ino).lock();
        let state = &mut shard.files.entry(ino).or_default().state;
        let Claim { access, share } = Claim::DELETE;
        let marked = state.try_open(id, access, share).and_then(|()| state.mark_delete(id));
        if let Err(refusal) = marked {
            return Err(shard.refused(ino, refusal, Claim::DELETE));
        }
        match (state.close(id), rule) {
            (Closed::Last { .. }, _) => Ok(Removal::Now(RemovePermit::granted(self, ino, Unused::Stays))),
            (Closed::Remaining | Closed::Unknown, DeleteRule::Smb) => {
                Ok(Removal::Pending(PendingPermit::granted(self, ino)))
            }
            (Closed::Remaining | Closed::Unknown, DeleteRule::Posix) => {
                state.clear_delete();
                Ok(Removal::Detach)
            }
        }
    }

    fn try_remove_unused(self: &Arc<Self>, ino: Ino) -> Attempt<RemovePermit> {
        {
            let shard = self.shard(ino).lock();
            if let Some(watched) = shard.files.get(&ino)
                && watched.state.open_count() > 0
            {
                let pending = watched.state.is_delete_pending();
                let error = if pending { FsError::DeletePending } else { FsError::SharingViolation };
                return Err(Refused { error, only_ghosts: watched.only_ghosts() });
            }
        }
        match self.try_remove(ino, DeleteRule::Posix)? {
            Removal::Now(permit) => Ok(permit),
            // Opened between the two looks, and still not removed.
            Removal::Pending(_) | Removal::Detach => {
                Err(Refused { error: FsError::SharingViolation, only_ghosts: false })
            }
        }
    }

    fn close(self: &Arc<Self>, ino: Ino, id: OpenId) -> Closing {
        let mut shard = self.shard(ino).lock();
        let was_ghost = shard.holders.remove(&id).is_some_and(|held| held.ghost);
        let Entry::Occupied(mut entry) = shard.files.entry(ino) else {
            return Closing::Done;
        };
        let watched = entry.get_mut();
        watched.ghosts -= usize::from(was_ghost);
        let closing = match watched.state.close(id) {
            Closed::Last { delete: true } => {
                Closing::Remove(RemovePermit::granted(self, ino, Unused::Pending))
            }
            Closed::Last { delete: false } => {
                entry.remove();
                Closing::Done
            }
            Closed::Remaining | Closed::Unknown => Closing::Done,
        };
        drop(shard);
        self.closed.notify_waiters();
        closing
    }
}

type Attempt<T> = std::result::Result<T, Refused>;

struct Refused {
    error: FsError,
    only_ghosts: bool,
}

impl Watched {
    /// Nobody but ghosts is left; with none at all, the file is just being removed.
    fn only_ghosts(&self) -> bool {
        self.ghosts == self.state.open_count()
    }
}

impl Shard {
    /// What to tell somebody whose `claim` was refused. Looks at every open only if a ghost may be to blame.
    fn refused(&self, ino: Ino, refusal: Refusal, claim: Claim) -> Refused {
        let watched = self.files.get(&ino);
        match refusal {
            Refusal::DeletePending => {
                let only_ghosts = watched.is_none_or(Watched::only_ghosts);
                Refused { error: FsError::DeletePending, only_ghosts }
            }
            Refusal::SharingViolation => {
                let only_ghosts = watched.is_some_and(|watched| {
                    watched.ghosts > 0
                        && watched
                            .state
                            .blockers(claim.access, claim.share)
                            .iter()
                            .all(|id| self.is_ghost(*id))
                });
                Refused { error: FsError::SharingViolation, only_ghosts }
            }
            Refusal::AccessDenied | Refusal::NotOpen | Refusal::IdInUse => {
                Refused { error: FsError::BadAccess, only_ghosts: false }
            }
        }
    }

    fn is_ghost(&self, id: OpenId) -> bool {
        self.holders.get(&id).is_some_and(|held| held.ghost)
    }

    /// Notes whether an open looks closed.
    fn set_ghost(&mut self, ino: Ino, id: OpenId, ghost: bool) {
        let (Some(held), Some(watched)) = (self.holders.get_mut(&id), self.files.get_mut(&ino)) else {
            return;
        };
        match (std::mem::replace(&mut held.ghost, ghost), ghost) {
            (false, true) => watched.ghosts += 1,
            (true, false) => watched.ghosts -= 1,
            (true, true) | (false, false) => {}
        }
    }
}
