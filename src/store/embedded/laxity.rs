//! Lease actions that are answered before they are on the disk.
//!
//! A renewal and a release of a *timed* lease are with the operating system when they are answered (so they survive the
//! death of the process), but nobody waits for the disk. A power loss may take them away again, and then the store must
//! err on the safe side: its holder may have renewed a lease that the disk knows as old, or as expired. So before the
//! first such answer the store notes, on the disk, which run of the machine it is in; and a store that is opened after a
//! crash, in another run than the noted one, lets every timed lease that it knows as held count anew, for its whole
//! duration. Nobody can overtake a holder by that, and who waits for a lease whose release was lost waits for one
//! duration at most.
//!
//! ```text
//!             the first renewal or release: noted, and waited for
//!   (no note) ---------------------------------------------------> NOTED (answers need not wait from here on)
//!       ^                                                            |
//!       |   opened in another run of the machine                     | opened in the same run: what was written is
//!       +------------------------------------------------------------+ still there, leases are as they were
//!           after a crash all timed leases are renewed before
//! ```
//!
//! A modification of a blob after its lease ran out takes the lease away in the same record, so what is renewed here was
//! not written by anybody else since.
//!
//! The note must never vanish from the disk before the renewed leases are there.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::share::Moment;
use crate::share::lease::Lease;
use crate::store::Result;

use super::blocks::{STAGED_TAG, is_staging_key};
use super::containers::CONTAINER_TAG;
use super::kv::{Batch, Kv, Range, Space};
use super::record::{ContainerRecord, Entry, Staging, decode, encode};
use super::run::Run;
use super::tx::changed;
use super::walk::segment;

const NOTE_KEY: &[u8] = b"m.run";

/// Renewed leases are written in batches of so many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Whether lease actions may be answered before they are on the disk.
pub(super) struct Laxity {
    run: Option<Run>,
    /// The note of this run is on the disk.
    noted: AtomicBool,
}

impl Laxity {
    /// Looks at the note of an earlier run. `after_crash`: the store was not closed, so something may be lost.
    pub(super) fn open(kv: &Kv, run: Option<Run>, after_crash: bool, now: Moment) -> Result<Self> {
        let note = kv.get(Space::Misc, NOTE_KEY)?;
        let note: Option<String> = note.map(|value| decode(&value, "the note of a run")).transpose()?;
        if let Some(note) = note
            && run.as_ref().is_none_or(|run| run.name() != note)
        {
            if after_crash {
                // A power loss takes the last batches away, never an earlier one: the note goes after these.
                let renewed = renew_all(kv, now)?;
                tracing::info!(renewed, "the machine was started anew: timed leases count from now");
            }
            let mut batch = Batch::default();
            batch.remove(Space::Misc, NOTE_KEY);
            kv.commit(batch)?;
        }
        Ok(Self { run, noted: AtomicBool::new(false) })
    }

    /// Whether an answer need not wait.
    pub(super) fn allowed(&self) -> bool {
        self.noted.load(Ordering::Acquire)
    }

    /// Adds the note to a batch, unless it is on the disk. To be followed by a sync and then [`Laxity::is_noted`].
    pub(super) fn note(&self, batch: &mut Batch) -> Result<()> {
        match &self.run {
            Some(run) if !self.allowed() => batch.put(Space::Misc, NOTE_KEY, encode(&run.name())?),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// A batch with the note was synced.
    pub(super) fn is_noted(&self) {
        self.noted.store(self.run.is_some(), Ordering::Release);
    }
}

/// Lets all timed leases count from now; answers how many.
fn renew_all(kv: &Kv, now: Moment) -> Result<u64> {
    let view = kv.view()?;
    let mut renewal = Renewal { kv, batch: Batch::default(), renewed: 0 };
    let is_blob = |key: &[u8]| segment(key).last() != Some(&b'/');
    renewal.each(Space::Names, view.range(Space::Names, &[], None), is_blob, |value| {
        let entry = Entry::decode(value)?;
        let mut lease = entry.properties.lease;
        if !lease.count_anew(now) {
            return Ok(None);
        }
        changed(&entry, |blob| blob.lease = lease).encode().map(Some)
    })?;
    let again = |lease: &mut Lease| lease.count_anew(now);
    renewal.each(
        Space::Misc,
        view.prefix(Space::Misc, &[CONTAINER_TAG]),
        |_| true,
        |value| {
            let mut record: ContainerRecord = decode(value, "a container record")?;
            again(&mut record.lease).then(|| encode(&record)).transpose()
        },
    )?;
    renewal.each(Space::Misc, view.prefix(Space::Misc, &[STAGED_TAG]), is_staging_key, |value| {
        let mut staging: Staging = decode(value, "a staging record")?;
        again(&mut staging.lease).then(|| encode(&staging)).transpose()
    })?;
    renewal.end()
}

struct Renewal<'a> {
    kv: &'a Kv,
    batch: Batch,
    renewed: u64,
}

impl Renewal<'_> {
    /// Writes the records that `renew` changes.
    fn each(
        &mut self,
        space: Space,
        records: Range,
        wanted: impl Fn(&[u8]) -> bool,
        renew: impl Fn(&[u8]) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        for pair in records {
            let (key, value) = pair?;
            if !wanted(&key) {
                continue;
            }
            if let Some(value) = renew(&value)? {
                self.batch.put(space, &*key, value);
                self.renewed += 1;
            }
            if self.batch.bytes() >= BATCH_BYTES {
                self.kv.commit(std::mem::take(&mut self.batch))?;
            }
        }
        Ok(())
    }

    fn end(self) -> Result<u64> {
        self.kv.commit(self.batch)?;
        Ok(self.renewed)
    }
}
