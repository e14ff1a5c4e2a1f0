//! Range locks at the gate: set, cleared and tested through a permit, and dropped with it.

use crate::share::{OpenId, RangeKind, RangeLock, RangeOwner, RangeRefusal, Span};

use super::super::error::{FsError, Result};
use super::super::nodes::Ino;
use super::{Gate, Refused, Shard};

/// A range lock that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    /// Who.
    pub owner: RangeOwner,
    /// How.
    pub kind: RangeKind,
    /// Which bytes.
    pub span: Span,
}

impl RangeRequest {
    /// Whether both cannot be granted.
    pub(in crate::fs) fn conflicts(&self, other: &Self) -> bool {
        let lock =
            |request: &Self| RangeLock { span: request.span, kind: request.kind, owner: request.owner };
        lock(self).conflicts(&lock(other))
    }
}

impl Shard {
    /// What stands in the way of a range lock, and whether only ghosts do.
    fn range_conflict(&self, ino: Ino, request: &RangeRequest) -> Option<(RangeLock, bool)> {
        let watched = self.files.get(&ino)?;
        let ranges = watched.state.ranges();
        let RangeRequest { owner, kind, span } = *request;
        let first = ranges.test(owner, kind, span)?;
        let only_ghosts = watched.ghosts > 0
            && ranges
                .iter()
                .filter(|lock| lock.conflicts(&RangeLock { span, kind, owner }))
                .all(|lock| self.is_ghost(lock.owner.open));
        Some((first, only_ghosts))
    }
}

impl Gate {
    /// What stands in the way of a range lock, once ghosts had time to go.
    pub async fn test_range(&self, ino: Ino, request: RangeRequest) -> Option<RangeLock> {
        let mut found = None;
        let tested = self.unless_ghosts(|| match self.shard(ino).lock().range_conflict(ino, &request) {
            None => Ok(()),
            Some((lock, only_ghosts)) => {
                found = Some(lock);
                Err(Refused { error: FsError::RangeLocked, only_ghosts })
            }
        });
        match tested.await {
            Ok(()) => None,
            Err(_) => found,
        }
    }

    /// Sets a range lock if nothing stands in its way now.
    pub fn try_set_range(&self, ino: Ino, request: RangeRequest) -> Result<()> {
        let mut shard = self.shard(ino).lock();
        let watched = shard.files.get_mut(&ino).ok_or(FsError::BadHandle)?;
        match watched.state.set_range(request.owner, request.kind, request.span) {
            Ok(()) => Ok(()),
            Err(RangeRefusal::Held(_)) => Err(FsError::RangeLocked),
            Err(RangeRefusal::NotOpen) => Err(FsError::BadHandle),
        }
    }

    /// Sets a range lock, or says that somebody has one in the way. Ghosts are waited for.
    pub async fn set_range(&self, ino: Ino, request: RangeRequest) -> Result<()> {
        self.unless_ghosts(|| {
            let done = self.try_set_range(ino, request);
            done.map_err(|error| {
                let only_ghosts = matches!(error, FsError::RangeLocked)
                    && self.shard(ino).lock().range_conflict(ino, &request).is_some_and(|(_, ghosts)| ghosts);
                Refused { error, only_ghosts }
            })
        })
        .await
    }

    /// The keys of all range locks that stand in the way.
    pub fn range_blockers(&self, ino: Ino, request: &RangeRequest) -> Vec<u64> {
        let shard = self.shard(ino).lock();
        let Some(watched) = shard.files.get(&ino) else { return Vec::new() };
        watched.state.ranges().blockers(request.owner, request.kind, request.span)
    }

    /// Whether a key has a range lock on the file.
    pub fn has_range(&self, ino: Ino, key: u64) -> bool {
        self.with_ranges(ino, |ranges| ranges.iter().any(|lock| lock.owner.key == key)).unwrap_or(false)
    }

    /// Whether somebody has an exclusive range lock on the file.
    pub fn any_exclusive_range(&self, ino: Ino) -> bool {
        self.with_ranges(ino, crate::share::RangeLocks::any_exclusive).unwrap_or(false)
    }

    /// Whether a key has an exclusive range lock among these bytes.
    pub fn has_exclusive_range(&self, ino: Ino, key: u64, span: Span) -> bool {
        let own = |lock: RangeLock| {
            lock.owner.key == key && lock.kind == RangeKind::Exclusive && lock.span.overlaps(span)
        };
        self.with_ranges(ino, |ranges| ranges.any_exclusive() && ranges.iter().any(own)).unwrap_or(false)
    }

    /// The range locks of a file.
    pub fn ranges_of(&self, ino: Ino) -> Vec<RangeLock> {
        self.with_ranges(ino, |ranges| ranges.iter().collect()).unwrap_or_default()
    }

    /// All range locks.
    pub fn ranges(&self) -> Vec<(Ino, RangeLock)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            for (ino, watched) in &shard.files {
                all.extend(watched.state.ranges().iter().map(|lock| (*ino, lock)));
            }
        }
        all.sort_unstable_by_key(|(ino, lock)| (*ino, lock.span, lock.owner.key));
        all
    }

    fn with_ranges<T>(&self, ino: Ino, look: impl FnOnce(&crate::share::RangeLocks) -> T) -> Option<T> {
        self.shard(ino).lock().files.get(&ino).map(|watched| look(watched.state.ranges()))
    }

    /// Takes a key's range locks on these bytes away. Says whether there were any.
    pub fn clear_range(&self, ino: Ino, key: u64, span: Span) -> bool {
        let mut shard = self.shard(ino).lock();
        shard.files.get_mut(&ino).is_some_and(|watched| watched.state.clear_range(key, span))
    }

    /// Takes all range locks of a key away. Says whether there were any.
    pub fn drop_ranges_of_key(&self, ino: Ino, key: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        shard.files.get_mut(&ino).is_some_and(|watched| watched.state.drop_ranges_of_key(key))
    }

    /// Takes all range locks away that came through an open. Says whether there were any.
    pub fn drop_ranges_of_open(&self, ino: Ino, open: OpenId) -> bool {
        let mut shard = self.shard(ino).lock();
        shard.files.get_mut(&ino).is_some_and(|watched| watched.state.drop_ranges_of_open(open))
    }

    /// Where range locks bind everybody: whether another's forbids to read (or to write) these bytes.
    pub fn range_forbids(
        &self,
        ino: Ino,
        by: Option<OpenId>,
        key: Option<u64>,
        span: Span,
        write: bool,
    ) -> bool {
        let nobody = OpenId(0);
        self.with_ranges(ino, |ranges| {
            let by = by.unwrap_or(nobody);
            let found =
                if write { ranges.blocks_write(by, key, span) } else { ranges.blocks_read(by, key, span) };
            found.is_some()
        })
        .unwrap_or(false)
    }
}
