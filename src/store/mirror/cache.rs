//! Keeping the content of a mirror within its limit.
//!
//! Every sidecar says when its blob was last used and how much of it is here; that is the whole index, so the order
//! survives a restart and costs no memory. One task goes through the sidecars when there is too much (or little room
//! left on the disk) and takes the content away that was not used for longest, down to a mark below the limit. Names
//! and properties stay.
//!
//! Never taken: what is not pushed, what somebody has open, what came here by another way than from the service.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::content::{Contents, bytes_of};
use super::state::Presence;
use crate::share::Moment;
use crate::store::{
    BlobName, BlobPath, BlobStore, ContainerName, LocalStore, Metadata, NewContent, Preconditions,
    PublicAccess, Result, StoreError,
};

/// Blobs that are looked at in one go.
const PAGE: usize = 500;
/// The oldest that are remembered of one pass.
const CANDIDATES: usize = 4096;
/// After eviction there is so much less than the limit, in percent of it.
const SLACK_PERCENT: u64 = 10;
/// How often it is looked whether the count is right, at the latest.
const EVERY: Duration = Duration::from_secs(30);
/// How often it is looked whether the disk is short of room: others fill it, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Counting takes at most one part in so many of the time.
const COUNT_SHARE: u32 = 20;
/// So much of the disk is left free, if the cache can help it: a part, and at most so many bytes.
const FREE_PART: u64 = 20;
const FREE_MAX: u64 = 1 << 30;
/// With so much of the disk free, writers need not ask for room: a part, and at most so many bytes.
const ROOMY_PART: u64 = 8;
const ROOMY_MAX: u64 = 2 << 30;
/// The least that is evicted when a disk is full.
const ROOM_MIN: u64 = 16 << 20;
/// How long to wait until evicted content is really gone from the disk.
const ROOM_WAIT: Duration = Duration::from_secs(15);
/// How often room is made for one write: others take what was freed.
pub(super) const ROOM_ATTEMPTS: usize = 8;
/// Where it is noted on which run of the machine the mirror was used last.
const CONTAINER: &str = "mirror-cache";
const BOOT: &str = "boot";

/// How much content is here, and who is to be told.
#[derive(Debug)]
pub(super) struct Cache {
    limit: u64,
    /// About so much is here: pushes, removals and other versions are counted at the next pass only.
    bytes: AtomicU64,
    wake: Arc<Notify>,
    making_room: tokio::sync::Mutex<()>,
}

impl Cache {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            bytes: AtomicU64::new(0),
            wake: Arc::default(),
            making_room: tokio::sync::Mutex::default(),
        }
    }

    /// More is here.
    pub(super) fn grow(&self, bytes: u64) {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            self.wake.notify_one();
        }
    }

    fn shrink(&self, bytes: u64) {
        let less = |now: u64| Some(now.saturating_sub(bytes));
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// About so much is here.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn mark(&self) -> u64 {
        self.limit - self.limit / 100 * SLACK_PERCENT
    }
}

/// The blobs used longest ago, of all that were offered. Pure.
#[derive(Debug)]
struct Oldest {
    max: usize,
    /// The youngest on top.
    heap: BinaryHeap<(Moment, BlobName)>,
}

impl Oldest {
    fn new(max: usize) -> Self {
        Self { max, heap: BinaryHeap::new() }
    }

    fn offer(&mut self, used: Moment, name: BlobName) {
        if self.heap.len() < self.max {
            self.heap.push((used, name));
        } else if self.heap.peek().is_some_and(|(youngest, _)| used < *youngest) {
            self.heap.pop();
            self.heap.push((used, name));
        }
    }

    /// Oldest first.
    fn into_names(self) -> impl Iterator<Item = BlobName> {
        self.heap.into_sorted_vec().into_iter().map(|(_, name)| name)
    }
}

/// Waits until there is something to look after: too much content, a disk that is short of room, or time to count again.
async fn wait_for_work(contents: &Weak<Contents>, wake: &Notify) {
    let started = Instant::now();
    while started.elapsed() < EVERY {
        if tokio::time::timeout(LOOK_EVERY, wake.notified()).await.is_ok() {
            return;
        }
        let missing = contents.upgrade().map(|contents| contents.missing_room());
        if !matches!(missing, Some(Ok(0))) {
            return;
        }
    }
}

impl Contents {
    /// Starts the task that keeps the content within its limit for as long as the mirror lives.
    pub(super) fn keep_within_limit(self: &Arc<Self>) {
        let (weak, wake) = (Arc::downgrade(self), Arc::clone(&self.cache.wake));
        tokio::spawn(async move {
            loop {
                // Kept alive for the time of the work only: the mirror's end must not wait for this.
                let Some(contents) = weak.upgrade() else { return };
                let started = Instant::now();
                if let Err(error) = contents.look_after().await {
                    tracing::warn!(%error, "the cache could not be looked after");
                }
                drop(contents);
                tokio::time::sleep(started.elapsed() * COUNT_SHARE).await;
                wait_for_work(&weak, &wake).await;
            }
        });
    }

    /// How much room is missing on the disk, as far as the cache could give it.
    fn missing_room(&self) -> Result<u64> {
        let space = self.store.space()?;
        let wanted = (space.total / FREE_PART).min(FREE_MAX);
        Ok(wanted.saturating_sub(self.store.room_left()?).min(self.cache.bytes()))
    }

    /// One pass: counts, and evicts what is too much.
    pub(super) async fn look_after(&self) -> Result<()> {
        self.count().await?;
        let bytes = self.cache.bytes();
        let over = if bytes > self.cache.limit { bytes - self.cache.mark() } else { 0 };
        let short = self.missing_room()?;
        if over.max(short) > 0 {
            self.free(over.max(short)).await?;
        }
        Ok(())
    }

    /// Goes through all sidecars whose blobs have content here.
    async fn each(&self, mut look: impl FnMut(BlobName, &super::Sidecar)) -> Result<()> {
        let mut marker = None;
        loop {
            let (page, next) = self.sidecars.page(marker, PAGE).await?;
            for (name, sidecar) in page {
                if sidecar.there.is_some() && sidecar.content != Presence::Nothing {
                    look(name, &sidecar);
                }
            }
            let Some(next) = next else { return Ok(()) };
            marker = Some(next);
            tokio::task::yield_now().await;
        }
    }

    async fn count(&self) -> Result<()> {
        let mut bytes = 0;
        self.each(|_, sidecar| bytes += bytes_of(sidecar)).await?;
        self.cache.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Evicts so many bytes, oldest first, as far as there are any that nobody needs. Answers how many it were.
    async fn free(&self, bytes: u64) -> Result<u64> {
        let mut freed = 0;
        let mut oldest = Oldest::new(CANDIDATES);
        self.each(|name, sidecar| oldest.offer(sidecar.used, name)).await?;
        for name in oldest.into_names() {
            if freed >= bytes {
                break;
            }
            let evicted = match self.evict(&name) {
                Ok(evicted) => evicted,
                // Changed meanwhile: it is somebody's.
                Err(StoreError::ConditionNotMet | StoreError::BlobNotFound(_)) => 0,
                Err(error) => return Err(error),
            };
            self.cache.shrink(evicted);
            freed += evicted;
            tokio::task::yield_now().await;
        }
        tracing::debug!(bytes, freed, "content was evicted");
        Ok(freed)
    }

    /// Whether there is more room than is used up between two looks at it.
    pub(super) fn is_roomy(&self) -> bool {
        let wanted = self.store.space().map(|space| (space.total / ROOMY_PART).min(ROOMY_MAX));
        wanted.is_ok_and(|wanted| self.has_room(wanted))
    }

    /// Whether so much more leaves the store the room that it needs for itself.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.store.room_left().is_ok_and(|left| left > bytes)
    }

    /// The disk is full: gives up what is needed, and waits until the room is there. Whether it is worth trying again.
    pub(super) async fn make_room(&self, bytes: u64) -> bool {
        let enough = || self.has_room(bytes);
        // One after the other: who comes next may find that there is room by now.
        let _one_at_a_time = self.cache.making_room.lock().await;
        if enough() {
            return true;
        }
        let freed = match self.free(bytes.max(ROOM_MIN)).await {
            Ok(freed) => freed,
            Err(error) => {
                tracing::warn!(%error, "no room could be made in the cache");
                return false;
            }
        };
        let started = Instant::now();
        while freed > 0 && !enough() && started.elapsed() < ROOM_WAIT {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        freed > 0 || enough()
    }

    /// Bytes that were written before the machine went down without warning may not be on the disk, though the sidecar
    /// that tells of them is. So then everything counts as not here.
    pub(super) async fn distrust_after_power_loss(&self) -> Result<()> {
        let container = ContainerName::new(CONTAINER)?;
        match self.store.create_container(&container, Metadata::new(), PublicAccess::None).await {
            Ok(_) | Err(StoreError::ContainerExists(_)) => {}
            Err(error) => return Err(error),
        }
        let at = BlobPath::new(container, BlobName::new(BOOT)?);
        let now = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let before = match self.store.reader(&at) {
            Ok(reader) => reader.as_bytes().cloned(),
            Err(StoreError::BlobNotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let same_run = before.as_ref().is_none_or(|before| **before == *now.as_bytes());
        if self.store.was_left_in_disorder() && !same_run {
            tracing::warn!("the machine went down while the mirror was in use; cached content is read again");
            self.distrust_all().await?;
        }
        self.store.put_small(&at, now.into(), NewContent::default(), &Preconditions::default()).map(|_| ())
    }

    pub(super) async fn distrust_all(&self) -> Result<()> {
        let mut names = Vec::new();
        self.each(|name, _| names.push(name)).await?;
        for name in names {
            self.evict(&name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oldest_are_remembered_oldest_first() {
        let mut oldest = Oldest::new(3);
        for second in [5_u64, 1, 9, 3, 7, 2] {
            let used = Moment::default().after(Duration::from_secs(second));
            oldest.offer(used, BlobName::new(format!("f{second}")).unwrap());
        }
        let names: Vec<String> = oldest.into_names().map(|name| name.to_string()).collect();
        assert_eq!(names, ["f1", "f2", "f3"]);
    }

    #[test]
    fn the_mark_is_below_the_limit() {
        let cache = Cache::new(1000);
        assert_eq!(cache.mark(), 900);
        cache.grow(50);
        cache.shrink(70);
        assert_eq!(cache.bytes(), 0);
    }
}
