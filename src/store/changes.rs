//! What others changed: how a store tells those who keep something in memory.
//!
//! Subscribers hear of the changes of other users of the same store, in the order they happened, after they happened.
//! Nothing is lost: a subscriber that falls behind is told that everything may have changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::blob::BlobProperties;
use super::local::Found;

/// One thing that changed.
#[derive(Clone, Debug)]
pub enum ChangeEvent {
    /// What is stored under a name.
    Name {
        /// Number of the prefix (or container) the name is in.
        parent: u64,
        /// The last segment of the name; empty for the blob `prefix/`.
        name: String,
        /// What was there.
        before: Found,
        /// What is there now.
        after: Found,
    },
    /// Anything: events were dropped, or a container was deleted.
    Everything,
}

impl ChangeEvent {
    /// The blob as it is now, if there is one.
    pub fn blob(&self) -> Option<&Arc<BlobProperties>> {
        match self {
            ChangeEvent::Name { after, .. } => after.blob.as_ref(),
            ChangeEvent::Everything => None,
        }
    }
}

/// How far a subscriber is behind: a change begins before anybody can see it, and is dealt with some time after.
#[derive(Debug, Default)]
pub struct Lag {
    begun: AtomicU64,
    handled: AtomicU64,
    progress: Notify,
}

impl Lag {
    /// For stores: a change begins; answers its number.
    pub fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// For stores: everything up to this number was dealt with.
    pub fn handle(&self, number: u64) {
        self.handled.fetch_max(number, Ordering::SeqCst);
        self.progress.notify_waiters();
    }

    /// Waits until everything that had begun is dealt with.
    pub async fn caught_up(&self) {
        let target = self.begun.load(Ordering::SeqCst);
        loop {
            let mut progress = std::pin::pin!(self.progress.notified());
            // Listens before it looks, so that nothing is missed in between.
            progress.as_mut().enable();
            if self.handled.load(Ordering::SeqCst) >= target {
                return;
            }
            progress.await;
        }
    }
}

/// Receives changes until it is dropped.
pub trait ChangeFeed: Send {
    /// Waits at most so long for changes; answers those that there are, oldest first. Nothing after the wait is a
    /// normal answer; `None` means that the store is closed and no more will come.
    fn next(&mut self, wait: Duration) -> Option<Vec<ChangeEvent>>;

    /// Everything answered so far was dealt with.
    fn handled(&mut self);

    /// How far this subscriber is behind.
    fn lag(&self) -> Arc<Lag>;
}
