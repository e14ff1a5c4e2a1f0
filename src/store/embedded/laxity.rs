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

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::share::Moment;
use crate::share::lease::Lease;
use crate::store::Result;

use super::blocks::{STAGED_TAG, is_staging_key};
use super::containers::CONTAINER_TAG;
use super::kv::{Batch, Kv, Range, Space};
use super::record::{ContainerRecord, Entry, Staging, decode, encode};
use super::tx::changed;
use super::walk::segment;

const NOTE_KEY: &[u8] = b"m.run";

/// Renewed leases are written in batches of so many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Which run of the machine, and of the disk's file system in it: everything that was written is there as long as both
/// go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run(String);

impl Run {
    /// The present one; nothing if it cannot be told.
    pub(super) fn present(folder: &Path) -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let mount = mount_number(folder).map_or_else(String::new, |number| format!(" {number}"));
        Some(Self(format!("{}{mount}", boot.trim())))
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// The number of the mount that a folder is on, which no other mount gets until the machine is started anew. Old kernels
/// do not tell it.
fn mount_number(folder: &Path) -> Option<u64> {
    const STATX_MNT_ID_UNIQUE: libc::c_uint = 0x4000;
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path ends with a zero byte and lives until the call returns; the answer has the room that is asked for.
    let done = unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, STATX_MNT_ID_UNIQUE, answer.as_mut_ptr())
    };
    // SAFETY: zeroed before, and all zeros is a valid value of these numbers.
    let answer = unsafe { answer.assume_init() };
    (done == 0 && answer.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some(answer.stx_mnt_id)
}

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
            && run.as_ref().is_none_or(|run| run.0 != note)
        {
            if after_crash {
                let renewed = renew_all(kv, now)?;
                // The library may write out one key space before another: only this keeps the order.
                kv.sync()?;
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
            Some(run) if !self.allowed() => batch.put(Space::Misc, NOTE_KEY, encode(&run.0)?),
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
    renewal.each(Space::Misc, view.prefix(Space::Misc, &[CONTAINER_TAG]), |_| true, |value| {
        let mut record: ContainerRecord = decode(value, "a container record")?;
        again(&mut record.lease).then(|| encode(&record)).transpose()
    })?;
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
