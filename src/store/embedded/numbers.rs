//! Numbers and version tags that are never given out twice.
//!
//! Both are reserved ahead in the database, a stretch at a time, so that handing one out writes nothing and a crash
//! only skips some.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::share::Moment;
use crate::store::{ETag, Result};

use super::kv::{Batch, Kv, Space};
use super::record::{decode, encode};

const NUMBERS_KEY: &[u8] = b"m.numbers";
const ETAGS_KEY: &[u8] = b"m.etags";

/// How many numbers one reservation covers.
const STRETCH: u64 = 4096;

/// After a crash the last reservation may be lost with the power: more than could be used between two checkpoints.
pub(super) const CRASH_GAP: u64 = 1 << 20;

/// Version tags count in units of 100 ns from the year 1, as the service's look; this is 1970 on that scale.
const EPOCH_TICKS: u64 = 621_355_968_000_000_000;
const TICK_NANOS: i64 = 100;

/// Ten seconds of version tags are reserved at once.
const TICKS_AHEAD: u64 = 100_000_000;

/// Numbers for blobs, prefixes and contents.
pub(super) struct Numbers {
    kv: Arc<Kv>,
    state: Mutex<NumberState>,
}

struct NumberState {
    next: u64,
    reserved: u64,
}

impl Numbers {
    /// Goes on behind the last reservation, and farther behind it after a crash.
    pub(super) fn open(kv: Arc<Kv>, after_crash: bool) -> Result<Self> {
        let reserved = stored(&kv, NUMBERS_KEY)?.unwrap_or(1);
        let next = if after_crash { reserved + CRASH_GAP } else { reserved };
        Ok(Self { kv, state: Mutex::new(NumberState { next, reserved: next }) })
    }

    /// A number nobody has.
    pub(super) fn take(&self) -> Result<u64> {
        let mut state = self.state.lock();
        if state.next >= state.reserved {
            let reserved = state.next + STRETCH;
            let mut batch = Batch::default();
            batch.put(Space::Misc, NUMBERS_KEY, encode(&reserved)?);
            self.kv.commit(batch)?;
            state.reserved = reserved;
        }
        let number = state.next;
        state.next += 1;
        Ok(number)
    }

    /// The number that will be given out next; all given out so far are smaller.
    pub(super) fn next(&self) -> u64 {
        self.state.lock().next
    }
}

/// Version tags; part of the writer's state.
pub(super) struct Etags {
    last: u64,
    reserved: u64,
}

impl Etags {
    pub(super) fn open(kv: &Kv) -> Result<Self> {
        let reserved = stored(kv, ETAGS_KEY)?.unwrap_or(0);
        Ok(Self { last: reserved, reserved })
    }

    /// A tag above all earlier ones; a reservation it may need goes into `batch`.
    pub(super) fn next(&mut self, now: Moment, batch: &mut Batch) -> Result<ETag> {
        let ticks = u64::try_from(now.0 / TICK_NANOS).unwrap_or(0) + EPOCH_TICKS;
        self.last = ticks.max(self.last + 1);
        if self.last >= self.reserved {
            self.reserved = self.last + TICKS_AHEAD;
            batch.put(Space::Misc, ETAGS_KEY, encode(&self.reserved)?);
        }
        Ok(ETag(self.last))
    }

    /// The batch with the reservation may not have been written: reserve again with the next tag.
    pub(super) fn distrust(&mut self) {
        self.reserved = 0;
    }
}

fn stored(kv: &Kv, key: &[u8]) -> Result<Option<u64>> {
    kv.get(Space::Misc, key)?.map(|value| decode(&value, "a counter")).transpose()
}
