//! The range locks of one file.
//!
//! All kinds of callers share one space: fcntl, OFD and flock of mounted programs, later SMB-style callers. Each claim
//! has an owner. Within one key of an owner the rules are POSIX's: a new claim replaces what the key had there,
//! neighbours of the same kind melt together, a clear may leave two pieces. Between owners, two claims that overlap
//! must both be shared.
//!
//! Who is the same owner: the same key, or the same open and the same process. The second half lets a program that
//! uses flock and fcntl through one descriptor pass its own claims; the kernel gives the two different keys.
//!
//! The price of every call grows with the claims it meets, not with those the file has.
//!
//! This module must never wait or know who waits ([`super::WaitGraph`] knows), and never know share modes.

use std::collections::BTreeMap;

use super::opens::OpenId;
use super::spans::{Span, SpanIndex};

#[cfg(test)]
mod tests;

/// Whose claim it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeOwner {
    /// The kernel's number: a process (fcntl), or an open file description (OFD, flock).
    pub key: u64,
    /// The open it came through.
    pub open: OpenId,
    /// The process that asked.
    pub process: u32,
}

impl RangeOwner {
    /// Whether claims of the two never conflict.
    pub fn is_same(self, other: Self) -> bool {
        self.key == other.key || (self.open == other.open && self.process == other.process)
    }
}

/// How much a claim keeps from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeKind {
    /// Others may have shared claims.
    Shared,
    /// Nobody else may have a claim.
    Exclusive,
}

/// One granted claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// The bytes.
    pub span: Span,
    /// Shared or exclusive.
    pub kind: RangeKind,
    /// Whose it is.
    pub owner: RangeOwner,
}

impl RangeLock {
    /// Whether both cannot be granted.
    pub fn conflicts(&self, other: &Self) -> bool {
        let exclusive = self.kind == RangeKind::Exclusive || other.kind == RangeKind::Exclusive;
        exclusive && !self.owner.is_same(other.owner) && self.span.overlaps(other.span)
    }

    fn joined(&self, other: &Self) -> Option<Span> {
        if self.kind == other.kind && self.owner == other.owner { self.span.joined(other.span) } else { None }
    }
}

/// All claims on one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeLocks {
    /// By key and place. The claims of one key do not overlap.
    claims: BTreeMap<(u64, Place), Claim>,
    shared: SpanIndex,
    exclusive: SpanIndex,
    /// How many claims each pair of open and key has.
    ways: BTreeMap<(OpenId, u64), u32>,
}

/// A span's start, and whether it has bytes: what tells the claims of one key apart.
type Place = (u64, bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    span: Span,
    kind: RangeKind,
    open: OpenId,
    process: u32,
}

fn place(span: Span) -> Place {
    (span.start(), !span.is_empty())
}

/// The first in the order of offsets.
fn first(locks: impl Iterator<Item = RangeLock>) -> Option<RangeLock> {
    locks.min_by_key(|lock| (lock.span, lock.owner.key))
}

impl RangeLocks {
    /// No claim at all.
    pub const EMPTY: Self = Self {
        claims: BTreeMap::new(),
        shared: SpanIndex::EMPTY,
        exclusive: SpanIndex::EMPTY,
        ways: BTreeMap::new(),
    };

    /// The first claim, in the order of offsets, that stands in the way of this one. None: it would be granted.
    pub fn test(&self, owner: RangeOwner, kind: RangeKind, span: Span) -> Option<RangeLock> {
        first(self.in_the_way(RangeLock { span, kind, owner }))
    }

    /// The keys of all claims that stand in the way of this one, each once: for whom a caller has to wait.
    pub fn blockers(&self, owner: RangeOwner, kind: RangeKind, span: Span) -> Vec<u64> {
        let mut keys: Vec<u64> =
            self.in_the_way(RangeLock { span, kind, owner }).map(|lock| lock.owner.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Grants the claim in place of what the key has there, or names the first claim in its way and changes nothing.
    pub fn set(&mut self, owner: RangeOwner, kind: RangeKind, span: Span) -> Result<(), RangeLock> {
        let mut new = RangeLock { span, kind, owner };
        if let Some(first) = self.test(owner, kind, span) {
            return Err(first);
        }
        self.carve(owner.key, span);
        for neighbour in self.neighbours(owner.key, span) {
            if let Some(joined) = new.joined(&neighbour) {
                self.remove(neighbour);
                new.span = joined;
            }
        }
        self.insert(new);
        Ok(())
    }

    /// Takes the key's claims on these bytes away; what lies outside stays. Says whether there was anything.
    pub fn clear(&mut self, key: u64, span: Span) -> bool {
        self.carve(key, span)
    }

    /// Takes all claims of a key away: a program closed a descriptor of the file. Says whether there were any.
    pub fn drop_key(&mut self, key: u64) -> bool {
        self.drop_all(&self.of_key(key).collect::<Vec<_>>())
    }

    /// Takes all claims away that came through an open: it was closed. Says whether there were any.
    pub fn drop_open(&mut self, open: OpenId) -> bool {
        let keys = self.ways.range((open, 0)..=(open, u64::MAX)).map(|((_, key), _)| *key);
        let gone = keys.flat_map(|key| self.of_key(key)).filter(|lock| lock.owner.open == open);
        self.drop_all(&gone.collect::<Vec<_>>())
    }

    /// Whether anybody has a claim.
    pub fn any_lock(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Whether anybody has an exclusive claim.
    pub fn any_exclusive(&self) -> bool {
        self.exclusive.len() > 0
    }

    /// How many claims there are.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether there is no claim.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Where range locks bind reads: the first claim that forbids one through this open. `key` is the one the kernel
    /// sent with the request, if it did.
    ///
    /// SMB's rule: an exclusive claim refuses the reads of every other open.
    pub fn blocks_read(&self, open: OpenId, key: Option<u64>, span: Span) -> Option<RangeLock> {
        if span.is_empty() {
            return None;
        }
        first(self.exclusive_over(span).filter(|lock| !lock.is_by(open, key)))
    }

    /// Where range locks bind writes: the first claim that forbids one through this open.
    ///
    /// Every claim refuses the writes of others. (In SMB a shared claim also refuses those of its own open; programs on
    /// Linux do not expect that.)
    pub fn blocks_write(&self, open: OpenId, key: Option<u64>, span: Span) -> Option<RangeLock> {
        if span.is_empty() {
            return None;
        }
        first(self.shared_over(span).chain(self.exclusive_over(span)).filter(|lock| !lock.is_by(open, key)))
    }

    /// The claims, by key and offset.
    pub fn iter(&self) -> impl Iterator<Item = RangeLock> + '_ {
        self.claims.iter().map(|((key, _), claim)| claim.of(*key))
    }

    fn in_the_way(&self, new: RangeLock) -> impl Iterator<Item = RangeLock> + '_ {
        // Two shared claims never conflict, so a shared one need not look at the shared ones.
        let shared = (new.kind == RangeKind::Exclusive).then(|| self.shared_over(new.span));
        let over = self.exclusive_over(new.span).chain(shared.into_iter().flatten());
        over.filter(move |lock| lock.conflicts(&new))
    }

    fn shared_over(&self, span: Span) -> impl Iterator<Item = RangeLock> + '_ {
        self.shared.overlapping(span).filter_map(|(span, key)| self.get(key, span))
    }

    fn exclusive_over(&self, span: Span) -> impl Iterator<Item = RangeLock> + '_ {
        self.exclusive.overlapping(span).filter_map(|(span, key)| self.get(key, span))
    }

    fn get(&self, key: u64, span: Span) -> Option<RangeLock> {
        self.claims.get(&(key, place(span))).map(|claim| claim.of(key))
    }

    fn of_key(&self, key: u64) -> impl Iterator<Item = RangeLock> + '_ {
        let all = (key, (0, false))..=(key, (u64::MAX, true));
        self.claims.range(all).map(move |(_, claim)| claim.of(key))
    }

    /// The claims of `key` that touch or overlap `span`, and perhaps one more on either side.
    fn neighbours(&self, key: u64, span: Span) -> Vec<RangeLock> {
        let before = self.claims.range((key, (0, false))..(key, place(span))).next_back();
        let behind = span.last().saturating_add(1);
        let within = self.claims.range((key, place(span))..=(key, (behind, true)));
        before.into_iter().chain(within).map(|(_, claim)| claim.of(key)).collect()
    }

    /// Cuts `span` out of the claims of `key`. Says whether that changed anything.
    fn carve(&mut self, key: u64, span: Span) -> bool {
        let cut = |lock: &RangeLock| {
            span.covers(lock.span) || (!span.is_empty() && lock.span.overlaps(span) && !lock.span.is_empty())
        };
        let met: Vec<RangeLock> = self.neighbours(key, span).into_iter().filter(cut).collect();
        for lock in &met {
            self.remove(*lock);
            for rest in [lock.span.before(span), lock.span.behind(span)].into_iter().flatten() {
                self.insert(RangeLock { span: rest, ..*lock });
            }
        }
        !met.is_empty()
    }

    fn drop_all(&mut self, gone: &[RangeLock]) -> bool {
        for lock in gone {
            self.remove(*lock);
        }
        !gone.is_empty()
    }

    fn insert(&mut self, lock: RangeLock) {
        let RangeLock { span, kind, owner: RangeOwner { key, open, process } } = lock;
        self.claims.insert((key, place(span)), Claim { span, kind, open, process });
        self.index(kind).insert(span, key);
        *self.ways.entry((open, key)).or_default() += 1;
    }

    fn remove(&mut self, lock: RangeLock) {
        self.claims.remove(&(lock.owner.key, place(lock.span)));
        self.index(lock.kind).remove(lock.span, lock.owner.key);
        let way = (lock.owner.open, lock.owner.key);
        if let Some(count) = self.ways.get_mut(&way) {
            *count -= 1;
            if *count == 0 {
                self.ways.remove(&way);
            }
        }
    }

    fn index(&mut self, kind: RangeKind) -> &mut SpanIndex {
        match kind {
            RangeKind::Shared => &mut self.shared,
            RangeKind::Exclusive => &mut self.exclusive,
        }
    }

    /// What must hold at every moment; the first thing that does not. Compares every pair of claims.
    pub fn invariants(&self) -> Result<(), String> {
        let all: Vec<RangeLock> = self.iter().collect();
        let mut ways: BTreeMap<(OpenId, u64), u32> = BTreeMap::new();
        for (n, lock) in all.iter().enumerate() {
            *ways.entry((lock.owner.open, lock.owner.key)).or_default() += 1;
            let index = if lock.kind == RangeKind::Shared { &self.shared } else { &self.exclusive };
            if !index.contains(lock.span, lock.owner.key) {
                return Err(format!("{lock:?} is not in its index"));
            }
            for other in &all[..n] {
                let same_key = lock.owner.key == other.owner.key;
                if lock.conflicts(other) {
                    return Err(format!("{lock:?} conflicts with {other:?}"));
                }
                if same_key
                    && !lock.span.is_empty()
                    && lock.span.overlaps(other.span)
                    && !other.span.is_empty()
                {
                    return Err(format!("{lock:?} and {other:?} of one key overlap"));
                }
                if lock.joined(other).is_some() {
                    return Err(format!("{lock:?} and {other:?} should be one"));
                }
            }
        }
        if ways != self.ways || self.shared.len() + self.exclusive.len() != all.len() {
            return Err("the indexes of the range locks differ from them".to_owned());
        }
        Ok(())
    }
}

impl RangeLock {
    /// Whether a read or write through this open, with this key, is its owner's own.
    fn is_by(&self, open: OpenId, key: Option<u64>) -> bool {
        self.owner.open == open || Some(self.owner.key) == key
    }
}

impl Claim {
    fn of(self, key: u64) -> RangeLock {
        let owner = RangeOwner { key, open: self.open, process: self.process };
        RangeLock { span: self.span, kind: self.kind, owner }
    }
}
