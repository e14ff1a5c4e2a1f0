//! Range locks: the operations, and waiting for them.
//!
//! flock, fcntl and OFD locks are all range locks here (the front end cannot tell them apart), and their owners are
//! told apart by the kernel's key. The rules are in [`crate::share`], the state of each file is the gate's, the order
//! of those who wait is the queue's. Taking an exclusive one sees what others committed; giving it up commits first.
//!
//! Nobody's thread waits: the answer of a waiting request is parked. One task looks after all who wait, because only
//! `/proc` tells that a signal came for them.

mod queue;
mod signals;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::share::{OpenId, RangeKind, RangeLock, RangeOwner, Span};

use super::Engine;
use super::error::{FsError, Result};
use super::gate::{Gate, RangeRequest};
use super::handles::{Handle, HandleId};
use super::lease_keeper::LeaseHold;
use super::nodes::Ino;

use queue::{Arrival, Queue};
use signals::{Thread, look_at};

pub use queue::WaitInfo;

/// How often those who wait are looked after. A signal must end a wait within 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What a program wants to do with a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeChange {
    /// Have it.
    Set(RangeKind),
    /// Give it up.
    Clear,
}

/// Who asks for a range lock, as the front end knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeAsker {
    /// The kernel's key of the owner.
    pub key: u64,
    /// The process.
    pub process: u32,
    /// The thread, to see the signals that come for it while it waits; 0 if it cannot be seen.
    pub thread: u32,
}

/// All who wait for range locks of one share.
#[derive(Debug, Default)]
pub(super) struct RangeWaits {
    queue: Mutex<Queue>,
    /// The leases of files that somebody has an exclusive range lock on.
    leases: Mutex<HashMap<Ino, LeaseHold>>,
    /// Whether the task that looks after them runs. Changed only under the queue's mutex.
    looked_after: Mutex<bool>,
}

impl RangeWaits {
    /// Something was cleared on `ino`.
    fn wake(&self, gate: &Gate, ino: Ino) {
        self.queue.lock().wake(gate, ino);
    }

    /// An open is being closed; its range locks are gone.
    fn closed(&self, gate: &Gate, ino: Ino, open: OpenId) {
        let mut queue = self.queue.lock();
        if !queue.is_empty() {
            queue.close(gate, ino, open);
            queue.wake(gate, ino);
        }
    }

    /// Answers those whom a signal reached. Says whether anybody is left.
    fn look_after(&self, gate: &Gate) -> bool {
        let threads: HashSet<u32> = self
            .queue
            .lock()
            .list()
            .iter()
            .map(|waiter| waiter.thread)
            .filter(|thread| *thread != 0)
            .collect();
        let interrupted = |thread: &u32| look_at(*thread) == Thread::Interrupted;
        let interrupted: HashSet<u32> = threads.into_iter().filter(interrupted).collect();
        let mut queue = self.queue.lock();
        queue.interrupt(gate, |waiter| interrupted.contains(&waiter.thread), || FsError::Interrupted);
        let more = !queue.is_empty();
        *self.looked_after.lock() = more;
        more
    }
}

impl Engine {
    /// Sets or clears range locks. `wait`: until they are free, unless a signal comes first. Says whether what others
    /// remember of the content is wrong, because somebody elsewhere changed it.
    pub async fn change_range(
        &self,
        handle: HandleId,
        asker: RangeAsker,
        change: RangeChange,
        span: Span,
        wait: bool,
    ) -> Result<bool> {
        let handle = self.handles.get(handle)?;
        let owner = RangeOwner { key: asker.key, open: handle.permit.id(), process: asker.process };
        match change {
            RangeChange::Clear => self.clear_range(&handle, asker.key, span).await.map(|()| false),
            RangeChange::Set(kind) => {
                if kind == RangeKind::Shared {
                    // What was exclusive until now and becomes shared is seen by others from then on.
                    self.commit_range(&handle, asker.key, span).await?;
                }
                let request = RangeRequest { owner, kind, span };
                if wait {
                    self.wait_for_range(&handle, request, asker.thread).await?;
                } else {
                    self.take_range(&handle, request).await?;
                }
                self.taken(&handle, request, wait.then_some(asker.thread)).await
            }
        }
    }

    /// A range lock is granted: an exclusive one keeps writers elsewhere away too, and what they wrote is seen.
    async fn taken(&self, handle: &Handle, request: RangeRequest, waiting: Option<u32>) -> Result<bool> {
        let ino = handle.file.ino();
        if let Err(error) = self.fit_range_lease(ino, waiting).await {
            if self.gate.clear_range(ino, request.owner.key, request.span) {
                self.range_waits.wake(&self.gate, ino);
            }
            return Err(error);
        }
        self.revalidate(ino).await
    }

    /// Holds the blob's lease while somebody has an exclusive range lock, and not longer. Whoever waits goes on
    /// waiting while somebody elsewhere has the lease, until a signal comes for it.
    async fn fit_range_lease(&self, ino: Ino, waiting: Option<u32>) -> Result<()> {
        loop {
            let held = self.range_waits.leases.lock().contains_key(&ino);
            match (self.gate.any_exclusive_range(ino), held) {
                (true, true) | (false, false) => return Ok(()),
                (false, true) => {
                    drop(self.range_waits.leases.lock().remove(&ino));
                    self.settle_lease(ino).await;
                }
                (true, false) => match (self.hold_lease(ino).await, waiting) {
                    (Ok(Some(hold)), _) => drop(self.range_waits.leases.lock().insert(ino, hold)),
                    // Without a name there is no blob that somebody elsewhere could write to.
                    (Ok(None), _) => return Ok(()),
                    (Err(FsError::Leased(_)), None) => return Err(FsError::RangeLocked),
                    (Err(FsError::Leased(_)), Some(thread)) => self.until_leases_change(thread).await?,
                    (Err(error), _) => return Err(error),
                },
            }
        }
    }

    /// A little later, if no signal came for the thread that waits.
    async fn until_leases_change(&self, thread: u32) -> Result<()> {
        tokio::time::sleep(LOOK_EVERY).await;
        let look = tokio::task::spawn_blocking(move || thread != 0 && look_at(thread) == Thread::Interrupted);
        if look.await.unwrap_or(true) { Err(FsError::Interrupted) } else { Ok(()) }
    }

    /// Range locks were given up: the lease goes with the last exclusive one. That it cannot be given back is no
    /// concern of whoever gave them up; it ends by itself.
    pub(super) async fn ranges_given_up(&self, ino: Ino) {
        if let Err(error) = self.fit_range_lease(ino, None).await {
            tracing::debug!(ino = ino.0, %error, "the lease of a range lock");
        }
    }

    async fn take_range(&self, handle: &Handle, request: RangeRequest) -> Result<()> {
        let ino = handle.file.ino();
        self.gate.set_range(ino, request).await?;
        let mut queue = self.range_waits.queue.lock();
        if !queue.is_empty() {
            queue.granted(&self.gate, ino);
            // A conversion may have freed something.
            queue.wake(&self.gate, ino);
        }
        Ok(())
    }

    async fn wait_for_range(&self, handle: &Handle, request: RangeRequest, thread: u32) -> Result<()> {
        let ino = handle.file.ino();
        let receiver = {
            let mut queue = self.range_waits.queue.lock();
            match queue.arrive(&self.gate, ino, request, thread)? {
                Arrival::Granted => {
                    queue.wake(&self.gate, ino);
                    return Ok(());
                }
                Arrival::Waits(receiver) => {
                    let mut looked_after = self.range_waits.looked_after.lock();
                    if !std::mem::replace(&mut *looked_after, true) {
                        self.start_looking();
                    }
                    receiver
                }
            }
        };
        // Without an answer the engine is ending.
        receiver.await.unwrap_or(Err(FsError::Interrupted))
    }

    /// Starts the one task that looks after those who wait; it ends when nobody does.
    fn start_looking(&self) {
        let Some(engine) = self.this.upgrade() else { return };
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let engine = Arc::clone(&engine);
                let more = tokio::task::spawn_blocking(move || engine.range_waits.look_after(&engine.gate));
                if !more.await.unwrap_or(false) {
                    return;
                }
            }
        });
    }

    async fn clear_range(&self, handle: &Handle, key: u64, span: Span) -> Result<()> {
        let ino = handle.file.ino();
        let committed = self.commit_range(handle, key, span).await;
        if self.gate.clear_range(ino, key, span) {
            self.range_waits.wake(&self.gate, ino);
            self.ranges_given_up(ino).await;
        }
        committed
    }

    /// Commits before an exclusive range lock is given up: whoever takes it next sees what was written.
    async fn commit_range(&self, handle: &Handle, key: u64, span: Span) -> Result<()> {
        if handle.commits() && self.gate.has_exclusive_range(handle.file.ino(), key, span) {
            self.commit(&handle.file).await
        } else {
            Ok(())
        }
    }

    /// A program closed a descriptor: what its key has on the file goes.
    pub(super) async fn drop_range_key(&self, ino: Ino, key: u64) {
        if self.gate.drop_ranges_of_key(ino, key) {
            self.range_waits.wake(&self.gate, ino);
            self.ranges_given_up(ino).await;
        }
    }

    /// An open is closed, and its range locks are gone.
    pub(super) async fn ranges_closed(&self, ino: Ino, open: OpenId) {
        self.range_waits.closed(&self.gate, ino, open);
        self.ranges_given_up(ino).await;
    }

    /// The first range lock that stands in the way of such a one.
    pub async fn test_range(
        &self,
        handle: HandleId,
        asker: RangeAsker,
        kind: RangeKind,
        span: Span,
    ) -> Result<Option<RangeLock>> {
        let handle = self.handles.get(handle)?;
        let owner = RangeOwner { key: asker.key, open: handle.permit.id(), process: asker.process };
        Ok(self.gate.test_range(handle.file.ino(), RangeRequest { owner, kind, span }).await)
    }

    /// All range locks, by file and offset.
    pub fn range_list(&self) -> Vec<(Ino, RangeLock)> {
        self.gate.ranges()
    }

    /// The range locks of one file.
    pub fn ranges_of(&self, ino: Ino) -> Vec<RangeLock> {
        self.gate.ranges_of(ino)
    }

    /// All who wait for range locks, in the order they came.
    pub fn range_waiters(&self) -> Vec<WaitInfo> {
        self.range_waits.queue.lock().list()
    }

    /// With mandatory range locks: refuses what another's forbids.
    pub(super) fn may_touch(
        &self,
        ino: Ino,
        open: Option<OpenId>,
        key: Option<u64>,
        (offset, length): (u64, u64),
        write: bool,
    ) -> Result<()> {
        if !self.config.mandatory_locks {
            return Ok(());
        }
        let Ok(span) = Span::of_length(offset, length) else { return Err(FsError::TooLarge) };
        if self.gate.range_forbids(ino, open, key, span, write) { Err(FsError::RangeLocked) } else { Ok(()) }
    }
}
