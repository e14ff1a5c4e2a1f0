//! The leases that mounts with this mirror hold at the service.
//!
//! A mount that dies leaves its leases behind, and they would keep its own successor out until they run out. So each is
//! noted before it is asked for and struck out after it was given back, and the next mount with the same mirror gives
//! back what it finds noted. Only then is anything pushed that was left: a lease that nobody knows would refuse it.
//!
//! Only ids that this mirror noted are ever given back, so that nobody else's lease can be ended by it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::Mirror;
use super::refresh::is_away;
use crate::share::lease::LeaseId;
use crate::store::{BlobName, BlobPath, LeaseRequest, Preconditions, Result};

/// So many are given back at a time.
const PARALLEL: usize = 8;
/// How long to wait before the service is asked again: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Gives back what an earlier mount left, in the background, until all of it is.
pub(super) async fn start(mirror: &Arc<Mirror>) -> Result<()> {
    let mut left = mirror.sidecars.noted_leases().await?;
    if left.is_empty() {
        mirror.old_leases.settle();
        return Ok(());
    }
    tracing::info!(count = left.len(), "giving back leases of a mount that did not end in order");
    let mirror = Arc::downgrade(mirror);
    tokio::spawn(async move {
        let mut wait = FIRST_WAIT;
        loop {
            let Some(strong) = mirror.upgrade() else { return };
            left = strong.give_back_all(left).await;
            if left.is_empty() {
                strong.old_leases.settle();
                return;
            }
            drop(strong);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    });
    Ok(())
}

impl Mirror {
    /// Waits until what an earlier mount left is dealt with (leases it held, renames it was doing), or `patience` is over.
    pub async fn leftovers_settled(&self, patience: Duration) -> bool {
        let settled = async { futures_util::join!(self.old_leases.settled(), self.old_changes.settled()) };
        tokio::time::timeout(patience, settled).await.is_ok()
    }

    /// Gives leases back; answers those of which the service said nothing.
    async fn give_back_all(&self, left: Vec<(BlobName, LeaseId)>) -> Vec<(BlobName, LeaseId)> {
        let give_back = async |(name, id): (BlobName, LeaseId)| {
            let at = BlobPath::new(self.place.container.clone(), name);
            let always = Preconditions::default();
            match self.service.lease_blob(&at, LeaseRequest::Release { id }, &always).await {
                Err(error) if is_away(&error) => Some((at.name, id)),
                answer => {
                    // It ran out, was broken, or went with its blob: it is not held any more either way.
                    if let Err(error) = answer {
                        tracing::debug!(%at, %error, "a lease of an earlier mount was over");
                    }
                    if let Err(error) = self.sidecars.strike_lease(&at.name, id) {
                        tracing::debug!(%at, %error, "a lease stays noted");
                    }
                    None
                }
            }
        };
        stream::iter(left)
            .map(give_back)
            .buffer_unordered(PARALLEL)
            .filter_map(async |rest| rest)
            .collect()
            .await
    }
}
