//! How a mirror is run.

use std::time::Duration;

/// Settings of a mirror.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// How long names and attributes are believed without asking again.
    pub attr_ttl: Duration,
    /// Whether a push is only queued, and done in the background.
    pub write_back: bool,
    /// How many requests that carry content are under way at a time, for uploads and for downloads each.
    pub parallel: usize,
    /// How long one question for names or attributes may take before the service counts as away.
    pub patience: Duration,
    /// Bytes of content kept here at most, beyond what is not pushed.
    pub cache_size: u64,
    /// Bytes of content brought ahead of readers that are under way at most.
    pub ahead_bytes: u64,
    /// Changes that wait to be pushed, in bytes, before writers have to wait (write-back).
    pub unpushed_bytes: u64,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        Self {
            attr_ttl: Duration::from_secs(1),
            write_back: false,
            parallel: 8,
            patience: Duration::from_secs(15),
            cache_size: 10 << 30,
            ahead_bytes: 128 << 20,
            unpushed_bytes: 10 << 30,
        }
    }
}
