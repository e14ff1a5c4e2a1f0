//! What others changed: how a store tells those who keep something in memory.
//!
//! Subscribers hear of the changes of other users of the same store, in the order they happened, after they happened.
//! Nothing is lost: a subscriber that falls behind is told that everything may have changed.

use std::sync::Arc;
use std::time::Duration;

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

/// Receives changes until it is dropped.
pub trait ChangeFeed: Send {
    /// Waits at most so long for changes; answers those that there are, oldest first. Nothing after the wait is a
    /// normal answer; `None` means that the store is closed and no more will come.
    fn next(&mut self, wait: Duration) -> Option<Vec<ChangeEvent>>;
}
