//! The gate: every open, remove and rename passes here, and only here are share modes and delete-pending judged.
//!
//! What passes gets a permit that nobody else can make; the data paths ask for one. The state of a file is a
//! [`FileShareState`]; the gate is its only caller. Each state is behind one of a fixed number of mutexes that are
//! held for the decision alone, never across an await.
//!
//! `close(2)` returns before the kernel tells us, so a request can meet the *ghost* of an open whose program is
//! done. A refusal that is due only to such opens (flushed and not used since) is put off for up to
//! 100 ms; every other refusal comes at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::share::{Access, Closed, FileShareState, OpenId, Refusal, ShareMode};

use super::error::{FsError, Result};
use super::nodes::Ino;

/// How long a conflict with an open that looks closed may wait for the kernel to say so.
pub(super) const GHOST_WAIT: Duration = Duration::from_millis(100);

const SHARDS: usize = 32;

/// What removing the name of an open file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRule {
    /// The file is delete pending: the name stays taken until the last close.
    Smb,
    /// The name is free at once, the content lives until the last close.
    Posix,
}

/// The opens of all files of a share.
#[derive(Debug)]
pub struct Gate {
    shards: [Mutex<HashMap<Ino, Watched>>; SHARDS],
    next_open: AtomicU64,
    /// Rings when an open was closed.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Watched {
    state: FileShareState,
    /// Opens that were flushed and not used since: probably closed already.
    ghosts: Vec<OpenId>,
}

/// The right to use a file, as granted. Closing is explicit; a permit that is just dropped is closed, too.
#[derive(Debug)]
pub struct OpenPermit {
    gate: Arc<Gate>,
    ino: Ino,
    id: OpenId,
    access: Access,
    open: AtomicBool,
}

/// The right to take a file away, because nobody has it open. Undone when dropped without being confirmed.
#[derive(Debug)]
pub struct RemovePermit {
    gate: Arc<Gate>,
    ino: Ino,
    confirmed: bool,
}

/// The mark on a file that others have open. Taken back when dropped without being confirmed.
#[derive(Debug)]
pub struct PendingPermit {
    gate: Arc<Gate>,
    ino: Ino,
    confirmed: bool,
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

    fn shard(&self, ino: Ino) -> &Mutex<HashMap<Ino, Watched>> {
        // The remainder is below SHARDS, so it fits.
        &self.shards[(ino.0 % SHARDS as u64) as usize]
    }

    /// Opens `ino`, or says what stands in the way.
    pub async fn open(self: &Arc<Self>, ino: Ino, access: Access, share: ShareMode) -> Result<OpenPermit> {
        self.unless_ghosts(|| self.try_open(ino, access, share)).await
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
        self.unless_ghosts(|| match self.shard(ino).lock().get(&ino) {
            Some(watched) if watched.state.is_delete_pending() => {
                Err(Refused { error: FsError::DeletePending, only_ghosts: true })
            }
            _ => Ok(()),
        })
        .await
        .is_err()
    }

    /// Whether an open of `ino` is there that does not look closed.
    pub fn is_living(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|watched| !watched.only_ghosts())
    }

    /// How many opens `ino` has.
    pub fn open_count(&self, ino: Ino) -> usize {
        self.shard(ino).lock().get(&ino).map_or(0, |watched| watched.state.open_count())
    }

    /// Whether `ino` is delete pending.
    pub fn is_delete_pending(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|watched| watched.state.is_delete_pending())
    }

    /// Tries until it works, until something else than a ghost stands in the way, or until the wait is over.
    async fn unless_ghosts<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
        let mut deadline = None;
        loop {
            // Registered before the attempt, so that a close in between is not missed.
            let closed = self.closed.notified();
            let refused = match attempt() {
                Ok(granted) => return Ok(granted),
                Err(refused) => refused,
            };
            let until = *deadline.get_or_insert_with(|| Instant::now() + GHOST_WAIT);
            if !refused.only_ghosts || timeout_at(until, closed).await.is_err() {
                return Err(refused.error);
            }
        }
    }

    fn try_open(self: &Arc<Self>, ino: Ino, access: Access, share: ShareMode) -> Attempt<OpenPermit> {
        let id = OpenId(self.next_open.fetch_add(1, Ordering::Relaxed));
        let mut shard = self.shard(ino).lock();
        let watched = shard.entry(ino).or_default();
        match watched.state.try_open(id, access, share) {
            Ok(()) => Ok(OpenPermit { gate: Arc::clone(self), ino, id, access, open: AtomicBool::new(true) }),
            Err(refusal) => Err(watched.refused(refusal, access, share)),
        }
    }

    fn try_remove(self: &Arc<Self>, ino: Ino, rule: DeleteRule) -> Attempt<Removal> {
        let id = OpenId(self.next_open.fetch_add(1, Ordering::Relaxed));
        let mut shard = self.shard(ino).lock();
        let watched = shard.entry(ino).or_default();
        let (access, share) = (Access::DELETE, ShareMode::ALL);
        let marked = watched.state.try_open(id, access, share).and_then(|()| watched.state.mark_delete(id));
        if let Err(refusal) = marked {
            return Err(watched.refused(refusal, access, share));
        }
        let permit = || RemovePermit { gate: Arc::clone(self), ino, confirmed: false };
        match (watched.state.close(id), rule) {
            (Closed::Last { .. }, _) => Ok(Removal::Now(permit())),
            (Closed::Remaining | Closed::Unknown, DeleteRule::Smb) => {
                Ok(Removal::Pending(PendingPermit { gate: Arc::clone(self), ino, confirmed: false }))
            }
            (Closed::Remaining | Closed::Unknown, DeleteRule::Posix) => {
                watched.state.clear_delete();
                Ok(Removal::Detach)
            }
        }
    }

    fn close(self: &Arc<Self>, ino: Ino, id: OpenId) -> Closing {
        let mut shard = self.shard(ino).lock();
        let Entry::Occupied(mut entry) = shard.entry(ino) else {
            return Closing::Done;
        };
        let watched = entry.get_mut();
        watched.ghosts.retain(|ghost| *ghost != id);
        let closing = match watched.state.close(id) {
            Closed::Last { delete: true } => {
                Closing::Remove(RemovePermit { gate: Arc::clone(self), ino, confirmed: false })
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
        self.ghosts.len() == self.state.open_count()
    }

    fn refused(&self, refusal: Refusal, access: Access, share: ShareMode) -> Refused {
        match refusal {
            Refusal::DeletePending => {
                Refused { error: FsError::DeletePending, only_ghosts: self.only_ghosts() }
            }
            Refusal::SharingViolation => {
                let blockers = self.state.blockers(access, share);
                let only_ghosts = blockers.iter().all(|id| self.ghosts.contains(id));
                Refused { error: FsError::SharingViolation, only_ghosts }
            }
            Refusal::AccessDenied | Refusal::NotOpen | Refusal::IdInUse => {
                Refused { error: FsError::BadAccess, only_ghosts: false }
            }
        }
    }
}

impl OpenPermit {
    /// What was granted.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Notes that the program flushed the handle: the close may be on its way.
    pub fn flushed(&self) {
        if let Some(watched) = self.gate.shard(self.ino).lock().get_mut(&self.ino)
            && !watched.ghosts.contains(&self.id)
        {
            watched.ghosts.push(self.id);
        }
    }

    /// Notes that the handle is in use after all.
    pub fn used(&self) {
        if let Some(watched) = self.gate.shard(self.ino).lock().get_mut(&self.ino) {
            watched.ghosts.retain(|ghost| *ghost != self.id);
        }
    }

    /// Gives the open back. Closing again does nothing.
    pub fn close(&self) -> Closing {
        if self.open.swap(false, Ordering::AcqRel) {
            self.gate.close(self.ino, self.id)
        } else {
            Closing::Done
        }
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        // Does something only on an error path.
        drop(self.close());
    }
}

impl PendingPermit {
    /// The mark stays.
    pub fn confirm(mut self) {
        self.confirmed = true;
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        if !self.confirmed
            && let Some(watched) = self.gate.shard(self.ino).lock().get_mut(&self.ino)
        {
            watched.state.clear_delete();
        }
    }
}

impl RemovePermit {
    /// The file is gone.
    pub fn confirm(mut self) {
        self.confirmed = true;
        self.gate.shard(self.ino).lock().remove(&self.ino);
        self.gate.closed.notify_waiters();
    }
}

impl Drop for RemovePermit {
    fn drop(&mut self) {
        if !self.confirmed {
            let mut shard = self.gate.shard(self.ino).lock();
            if let Entry::Occupied(mut entry) = shard.entry(self.ino) {
                entry.get_mut().state.clear_delete();
                if entry.get().state.open_count() == 0 {
                    entry.remove();
                }
            }
            drop(shard);
            self.gate.closed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);

    fn read() -> (Access, ShareMode) {
        (Access::READ, ShareMode::ALL)
    }

    #[tokio::test]
    async fn a_file_nobody_has_open_is_removed_at_once() {
        let gate = Gate::new();
        let Removal::Now(permit) = gate.remove(FILE, DeleteRule::Smb).await.unwrap() else {
            panic!("not now");
        };
        assert!(matches!(gate.open(FILE, read().0, read().1).await, Err(FsError::DeletePending)));
        permit.confirm();
        assert!(gate.open(FILE, read().0, read().1).await.is_ok(), "a new file of that number");
    }

    #[tokio::test]
    async fn a_failed_remove_leaves_the_file_usable() {
        let gate = Gate::new();
        drop(gate.remove(FILE, DeleteRule::Smb).await.unwrap());
        assert!(gate.open(FILE, read().0, read().1).await.is_ok());
    }

    #[tokio::test]
    async fn the_last_close_removes_a_pending_file() {
        let gate = Gate::new();
        let first = gate.open(FILE, read().0, read().1).await.unwrap();
        let second = gate.open(FILE, read().0, read().1).await.unwrap();
        drop(gate.remove(FILE, DeleteRule::Smb).await.unwrap());
        assert!(!gate.is_delete_pending(FILE), "not confirmed");
        let Removal::Pending(permit) = gate.remove(FILE, DeleteRule::Smb).await.unwrap() else {
            panic!("not pending");
        };
        permit.confirm();
        assert!(matches!(gate.open(FILE, read().0, read().1).await, Err(FsError::DeletePending)));
        assert!(matches!(first.close(), Closing::Done));
        assert!(matches!(second.close(), Closing::Remove(_)));
    }

    #[tokio::test]
    async fn posix_delete_lets_the_opens_live() {
        let gate = Gate::new();
        let open = gate.open(FILE, read().0, read().1).await.unwrap();
        assert!(matches!(gate.remove(FILE, DeleteRule::Posix).await.unwrap(), Removal::Detach));
        assert!(!gate.is_delete_pending(FILE));
        assert!(matches!(open.close(), Closing::Done));
    }

    #[tokio::test]
    async fn an_open_that_does_not_share_delete_refuses_a_remove() {
        let gate = Gate::new();
        let _open = gate.open(FILE, Access::READ, ShareMode::READ).await.unwrap();
        for rule in [DeleteRule::Smb, DeleteRule::Posix] {
            assert!(matches!(gate.remove(FILE, rule).await, Err(FsError::SharingViolation)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ghosts_are_waited_for_and_others_are_not() {
        let gate = Gate::new();
        let ghost = gate.open(FILE, Access::WRITE, ShareMode::NONE).await.unwrap();
        let before = Instant::now();
        assert!(gate.open(FILE, read().0, read().1).await.is_err());
        assert_eq!(before.elapsed(), Duration::ZERO, "a living open refuses at once");
        ghost.flushed();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.open(FILE, read().0, read().1).await.map(drop) }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        ghost.close();
        assert!(waiting.await.unwrap().is_ok());

        let ghost = gate.open(FILE, Access::WRITE, ShareMode::NONE).await.unwrap();
        ghost.flushed();
        let before = Instant::now();
        assert!(gate.open(FILE, read().0, read().1).await.is_err());
        assert_eq!(before.elapsed(), GHOST_WAIT, "a ghost that does not go refuses in the end");
        ghost.used();
        let before = Instant::now();
        assert!(gate.open(FILE, read().0, read().1).await.is_err());
        assert_eq!(before.elapsed(), Duration::ZERO, "used again: not a ghost");
    }

    #[tokio::test]
    async fn an_open_lives_until_it_was_flushed_and_when_it_is_used_again() {
        let gate = Gate::new();
        assert!(!gate.is_living(FILE));
        let (one, other) = (gate.open(FILE, read().0, read().1), gate.open(FILE, read().0, read().1));
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        one.flushed();
        assert!(gate.is_living(FILE), "the other one lives");
        other.flushed();
        assert!(!gate.is_living(FILE));
        one.used();
        assert!(gate.is_living(FILE));
        one.close();
        assert!(!gate.is_living(FILE));
    }
}
