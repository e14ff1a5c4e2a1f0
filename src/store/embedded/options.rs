//! How an embedded store is run.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::share::Moment;

/// Where the store gets the time from.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Container records kept in memory.
pub(super) const CACHED_CONTAINERS: usize = 1024;

/// Content up to this size is kept in the database instead of a file. Measured: at 16 KiB a new blob costs about as
/// much either way; a file takes longer to sync and to delete, the database longer to compact.
pub(super) const INLINE_MAX: u64 = 16 << 10;

/// Settings of an embedded store. The defaults suit a mount with a million files.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// Content up to this many bytes needs no file of its own.
    pub inline_max: u64,
    /// Bytes of database blocks kept in memory.
    pub cache_bytes: u64,
    /// Bytes each of the four key spaces collects in memory before it writes them out. Not more than the store was made
    /// with.
    pub memtable_bytes: u64,
    /// Decoded records kept in memory.
    pub cached_records: usize,
    /// How long committed content may wait before it is synced in the background.
    pub checkpoint_every: Duration,
    /// The time.
    pub clock: Clock,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            inline_max: INLINE_MAX,
            cache_bytes: 16 << 20,
            memtable_bytes: 8 << 20,
            cached_records: 16 << 10,
            checkpoint_every: Duration::from_secs(10),
            clock: Arc::new(|| SystemTime::now().into()),
        }
    }
}

impl std::fmt::Debug for EmbeddedOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedOptions")
            .field("inline_max", &self.inline_max)
            .field("cache_bytes", &self.cache_bytes)
            .field("memtable_bytes", &self.memtable_bytes)
            .field("cached_records", &self.cached_records)
            .field("checkpoint_every", &self.checkpoint_every)
            .finish_non_exhaustive()
    }
}
