//! Bounded memory of decoded records, kept in step with commits.
//!
//! Reads take no part in the writer's mutex, so a read that misses may hold an old value when a commit passes by. Each
//! shard therefore counts its changes: what was read before a change is not put in after it.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;

const SHARDS: usize = 16;

/// A bounded map from keys to records.
pub(super) struct Cache<V> {
    shards: [Mutex<Shard<V>>; SHARDS],
}

struct Shard<V> {
    changes: u64,
    records: LruCache<Box<[u8]>, V>,
}

/// The answer to a look into the cache.
pub(super) enum Look<V> {
    /// It is known.
    Known(V),
    /// It is not; the ticket lets what is read now be filled in.
    Unknown(Ticket),
}

/// The state of the shard when it did not know.
#[derive(Clone, Copy)]
pub(super) struct Ticket(u64);

/// The state of all shards at one moment.
pub(super) struct Tickets([Ticket; SHARDS]);

fn shard_index(key: &[u8]) -> usize {
    // The end of a key differs most; mixing eight bytes of it is enough to spread.
    let mut tail = [0; 8];
    let length = key.len().min(8);
    tail[..length].copy_from_slice(&key[key.len() - length..]);
    let mixed = u64::from_le_bytes(tail).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 60) as usize % SHARDS
}

impl<V: Clone> Cache<V> {
    /// A cache of about `limit` records.
    pub(super) fn new(limit: usize) -> Self {
        let per_shard = NonZeroUsize::new(limit / SHARDS).unwrap_or(NonZeroUsize::MIN);
        let shard = |_| Mutex::new(Shard { changes: 0, records: LruCache::sparse(per_shard) });
        Self { shards: std::array::from_fn(shard) }
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard<V>> {
        &self.shards[shard_index(key)]
    }

    /// Looks `key` up.
    pub(super) fn look(&self, key: &[u8]) -> Look<V> {
        let mut shard = self.shard(key).lock();
        match shard.records.get(key) {
            Some(value) => Look::Known(value.clone()),
            None => Look::Unknown(Ticket(shard.changes)),
        }
    }

    /// The state of all shards now, for reading many records at once.
    pub(super) fn tickets(&self) -> Tickets {
        Tickets(std::array::from_fn(|index| Ticket(self.shards[index].lock().changes)))
    }

    /// [`Self::fill`] with the ticket of the key's shard.
    pub(super) fn fill_from(&self, tickets: &Tickets, key: &[u8], value: V) {
        self.fill(key, value, tickets.0[shard_index(key)]);
    }

    /// Puts in what was read since the ticket; `false` if a change came in between, so that it may be old.
    pub(super) fn fill(&self, key: &[u8], value: V, ticket: Ticket) -> bool {
        let mut shard = self.shard(key).lock();
        let current = shard.changes == ticket.0;
        if current {
            shard.records.put(key.into(), value);
        }
        current
    }

    /// A commit changed the record.
    pub(super) fn change(&self, key: &[u8], value: V) {
        let mut shard = self.shard(key).lock();
        shard.changes += 1;
        shard.records.put(key.into(), value);
    }

    /// Forgets everything, also what is being read right now.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.changes += 1;
            shard.records.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_put_in_after_it() {
        let cache = Cache::new(64);
        let Look::Unknown(ticket) = cache.look(b"k") else { panic!("nothing was put in") };
        cache.change(b"k", 2);
        assert!(!cache.fill(b"k", 1, ticket));
        assert!(matches!(cache.look(b"k"), Look::Known(2)));
    }

    #[test]
    fn a_cleared_cache_takes_nothing_read_before() {
        let cache = Cache::new(64);
        let Look::Unknown(ticket) = cache.look(b"k") else { panic!("nothing was put in") };
        cache.clear();
        assert!(!cache.fill(b"k", 1, ticket));
        let Look::Unknown(ticket) = cache.look(b"k") else { panic!("it was cleared") };
        assert!(cache.fill(b"k", 1, ticket));
    }

    #[test]
    fn it_stays_bounded() {
        let cache = Cache::new(32);
        for number in 0..10_000u64 {
            cache.change(&number.to_le_bytes(), number);
        }
        let known: usize = cache.shards.iter().map(|shard| shard.lock().records.len()).sum();
        assert!(known <= 32, "{known}");
    }
}
