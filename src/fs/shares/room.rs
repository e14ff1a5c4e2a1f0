//! How much room a share has left below a limit that a front end sets.
//!
//! Counting looks at every file, so the count is remembered and what was granted since is added. It is made anew when it
//! is old, and before anybody is refused unless it was just made. Programs on a mount are not limited, only counted.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::ContainerName;

use super::super::error::Result;
use super::Shares;

/// A count is good for so long.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// Nobody is refused by a count older than this.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// What is known of a share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    bytes: u64,
    at: Instant,
}

impl Shares {
    /// Whether a share may grow by `growth` bytes without having more than `limit`. If so, they count from now on.
    pub async fn has_room(&self, name: &ContainerName, limit: u64, growth: u64) -> Result<bool> {
        for good_for in [GOOD_FOR, FRESH_FOR] {
            let counted = self.counted.lock().get(name).copied();
            let known = match counted.filter(|counted| counted.at.elapsed() < good_for) {
                Some(known) => known,
                None => Counted { bytes: self.usage(name).await?, at: Instant::now() },
            };
            let bytes = known.bytes.saturating_add(growth);
            if bytes <= limit {
                self.counted.lock().insert(name.clone(), Counted { bytes, ..known });
                return Ok(true);
            }
            self.counted.lock().insert(name.clone(), known);
        }
        Ok(false)
    }
}
