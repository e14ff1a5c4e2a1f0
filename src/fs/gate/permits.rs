//! Permits: what only the gate can hand out, and what gives itself back when it is dropped.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::share::{Access, OpenId, Refusal};

use super::super::error::{FsError, Result};
use super::super::nodes::Ino;
use super::{Attempt, Claim, Closing, Gate, Refused};

/// The right to use a file, as granted. Closing is explicit; a permit that is just dropped is closed, too.
#[derive(Debug)]
pub struct OpenPermit {
    gate: Arc<Gate>,
    ino: Ino,
    id: OpenId,
    access: Access,
    open: AtomicBool,
}

/// The right to take a file away, because nobody has it open. Dropped without being confirmed it says what is left.
#[derive(Debug)]
pub struct RemovePermit {
    gate: Arc<Gate>,
    ino: Ino,
    unused: Unused,
    confirmed: bool,
}

/// What becomes of a file whose removal was granted and did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// It is there as before: whoever wanted to remove it is told that it failed.
    Stays,
    /// It stays delete pending, until somebody tries [again](Gate::remove_again): its removal was acknowledged long ago.
    Pending,
}

/// The mark on a file that others have open. Taken back when dropped without being confirmed.
#[derive(Debug)]
pub struct PendingPermit {
    gate: Arc<Gate>,
    ino: Ino,
    confirmed: bool,
}

impl OpenPermit {
    pub(super) fn granted(gate: &Arc<Gate>, ino: Ino, id: OpenId, access: Access) -> Self {
        Self { gate: Arc::clone(gate), ino, id, access, open: AtomicBool::new(true) }
    }

    /// What was granted at the open.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The number of the open.
    pub fn id(&self) -> OpenId {
        self.id
    }

    /// What the open claims now; nothing once it is closed.
    pub fn claim(&self) -> Option<Claim> {
        let shard = self.gate.shard(self.ino).lock();
        let open = shard.files.get(&self.ino)?.state.get(self.id)?;
        Some(Claim { access: open.access, share: open.share })
    }

    /// Claims something else, if the other opens allow it.
    pub async fn reclaim(&self, claim: Claim) -> Result<()> {
        self.gate.unless_ghosts(|| self.try_reclaim(claim)).await?;
        // Somebody may have waited for what this open gave up.
        self.gate.closed.notify_waiters();
        Ok(())
    }

    /// Claims more access, if the other opens allow it now.
    pub fn claim_more(&self, access: Access) -> Result<()> {
        let Claim { access: granted, share } = self.claim().ok_or(FsError::BadHandle)?;
        let claim = Claim { access: granted.union(access), share };
        self.try_reclaim(claim).map_err(|refused| refused.error)
    }

    fn try_reclaim(&self, claim: Claim) -> Attempt<()> {
        let mut shard = self.gate.shard(self.ino).lock();
        let watched = shard.files.get_mut(&self.ino);
        let closed = || Refused { error: FsError::BadHandle, only_ghosts: false };
        match watched.ok_or_else(closed)?.state.set_claim(self.id, claim.access, claim.share) {
            Ok(()) => Ok(()),
            Err(Refusal::NotOpen) => Err(closed()),
            Err(refusal) => Err(shard.refused(self.ino, refusal, claim)),
        }
    }

    /// Makes the file delete pending through this open, which needs delete access.
    pub fn mark_delete(&self) -> Result<PendingPermit> {
        let mut shard = self.gate.shard(self.ino).lock();
        let watched = shard.files.get_mut(&self.ino).ok_or(FsError::BadHandle)?;
        match watched.state.mark_delete(self.id) {
            Ok(()) => Ok(PendingPermit::granted(&self.gate, self.ino)),
            Err(Refusal::NotOpen) => Err(FsError::BadHandle),
            Err(_) => Err(FsError::BadAccess),
        }
    }

    /// Notes that the program flushed the handle: the close may be on its way.
    pub fn flushed(&self) {
        self.gate.shard(self.ino).lock().set_ghost(self.ino, self.id, true);
    }

    /// Notes that the handle is in use after all.
    pub fn used(&self) {
        self.gate.shard(self.ino).lock().set_ghost(self.ino, self.id, false);
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
        // Does something only on an error path. A removal that this leads to stays pending, for the next who tries.
        drop(self.close());
    }
}

impl PendingPermit {
    pub(super) fn granted(gate: &Arc<Gate>, ino: Ino) -> Self {
        Self { gate: Arc::clone(gate), ino, confirmed: false }
    }

    /// The mark stays.
    pub fn confirm(mut self) {
        self.confirmed = true;
    }
}

impl Drop for PendingPermit {
    fn drop(&mut self) {
        if self.confirmed {
            return;
        }
        let mut shard = self.gate.shard(self.ino).lock();
        if let Entry::Occupied(mut entry) = shard.files.entry(self.ino) {
            entry.get_mut().state.clear_delete();
            // Its last close came meanwhile, and could not remove it.
            if std::mem::take(&mut entry.get_mut().kept) && entry.get().state.open_count() == 0 {
                entry.remove();
            }
        }
    }
}

impl RemovePermit {
    pub(super) fn granted(gate: &Arc<Gate>, ino: Ino, unused: Unused) -> Self {
        Self { gate: Arc::clone(gate), ino, unused, confirmed: false }
    }

    /// Whether the file is still to be removed: whoever asked for it may have failed and taken it back.
    pub fn is_due(&self) -> bool {
        let shard = self.gate.shard(self.ino).lock();
        let watched = shard.files.get(&self.ino);
        watched.is_some_and(|watched| watched.state.is_delete_pending() && watched.state.open_count() == 0)
    }

    /// The file is gone.
    pub fn confirm(mut self) {
        self.confirmed = true;
        self.gate.shard(self.ino).lock().files.remove(&self.ino);
        self.gate.closed.notify_waiters();
    }

    /// The file cannot be removed now: it stays delete pending.
    pub fn keep(mut self) {
        self.unused = Unused::Pending;
    }
}

impl Drop for RemovePermit {
    fn drop(&mut self) {
        if self.confirmed {
            return;
        }
        let mut shard = self.gate.shard(self.ino).lock();
        if let Entry::Occupied(mut entry) = shard.files.entry(self.ino) {
            let watched = entry.get_mut();
            match self.unused {
                Unused::Pending if watched.state.is_delete_pending() => watched.kept = true,
                Unused::Pending => {}
                Unused::Stays => watched.state.clear_delete(),
            }
            if !watched.state.is_delete_pending() && watched.state.open_count() == 0 {
                entry.remove();
            }
        }
        drop(shard);
        self.gate.closed.notify_waiters();
    }
}
