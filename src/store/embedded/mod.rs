//! The embedded store: blobs on this machine's own disk.
//!
//! Names, properties and small content are in an ordered key-value store (`kv`); bigger content is in plain files
//! (`content`). A change is a transaction (`tx`): one writer at a time reads, judges the conditions and writes one
//! atomic batch, which is with the operating system before the call returns. Reads take no part in that. A committer
//! thread makes batches durable for everybody who waits (`committer`); a keeper thread does what can wait
//! (`keeper`).
//!
//! The store must never overwrite bytes that a committed version refers to, and never answer before the change is
//! written.

mod blobs;
mod blocks;
mod cache;
mod check;
mod committer;
mod containers;
mod content;
mod copy;
mod extents;
mod keeper;
mod kv;
mod leases;
mod listing;
mod local;
mod names;
mod numbers;
mod options;
mod pool;
mod purge;
mod reading;
mod record;
mod rename;
mod service;
mod snapshots;
mod space;
mod startup;
mod take_over;
#[cfg(test)]
mod tests;
mod tidy;
mod tx;
mod unsynced;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;

pub use check::{CheckError, CheckReport, check};
pub use options::{Clock, EmbeddedOptions};
pub use startup::OpenError;

use crate::store::{Progress, Result, StoreError};

use cache::Cache;
use committer::Committer;
use content::Files;
use keeper::Keeper;
use kv::Kv;
use numbers::{Etags, Numbers};
use record::ContainerRecord;
use space::SpaceGuard;
use startup::Claim;
use tx::{Points, Slot, Tx, WriterState};

/// A blob store in a directory.
pub struct EmbeddedStore {
    folder: PathBuf,
    clock: Clock,
    inline_max: u64,
    kv: Arc<Kv>,
    numbers: Arc<Numbers>,
    files: Arc<Files>,
    slots: Cache<Slot>,
    containers: Cache<Option<Arc<ContainerRecord>>>,
    writer: Mutex<WriterState>,
    /// Held while a blob is tidied: two at once could write into the same file.
    tidying: Mutex<()>,
    space: SpaceGuard,
    /// Whether any block was ever staged; looking for staged blocks is skipped without.
    staged_any: AtomicBool,
    committer: Committer,
    keeper: Keeper,
    claim: Mutex<Option<Claim>>,
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in `folder`, making a new one if the folder is empty or not there.
    pub fn open(folder: &Path, options: EmbeddedOptions) -> std::result::Result<Arc<Self>, OpenError> {
        let claim = Claim::take(folder)?;
        let kv = Arc::new(claim.open_kv(&options)?);
        let failed = |error| claim.damaged(&error);
        let numbers = Arc::new(Numbers::open(Arc::clone(&kv), claim.after_crash()).map_err(failed)?);
        let first_number = numbers.next();
        let files = Arc::new(Files::new(claim.content_folder(), Arc::clone(&numbers)));
        let etags = Etags::open(&kv).map_err(failed)?;
        let staged_any = blocks::any_staged(&kv).map_err(failed)?;
        let store = Arc::new(Self {
            folder: folder.to_owned(),
            clock: options.clock,
            inline_max: options.inline_max,
            committer: Committer::start(Arc::clone(&kv), Arc::clone(&files)),
            keeper: Keeper::default(),
            kv,
            numbers,
            files,
            slots: Cache::new(options.cached_records),
            containers: Cache::new(options::CACHED_CONTAINERS),
            writer: Mutex::new(WriterState { etags }),
            tidying: Mutex::default(),
            space: SpaceGuard::new(folder),
            staged_any: AtomicBool::new(staged_any),
            claim: Mutex::new(None),
        });
        let leftovers = claim.after_crash().then_some(first_number);
        store.keeper.start(&store, options.checkpoint_every, leftovers);
        *store.claim.lock() = Some(claim);
        Ok(store)
    }

    /// Where the store is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Committed content files that may not be on the disk yet: how many, and their bytes.
    pub fn unsynced(&self) -> (u64, u64) {
        self.files.unsynced().amount()
    }

    /// How often the database had to be opened again after a failed write.
    pub fn reopened(&self) -> u64 {
        self.kv.reopened()
    }

    /// Ends the store: everything committed reaches the disk, and the next start needs no cleaning.
    ///
    /// Scratch files and readers that are still alive stay usable; nothing may be changed afterwards.
    pub fn close(&self) -> Result<()> {
        let Some(claim) = self.claim.lock().take() else { return Ok(()) };
        self.keeper.stop(&self.files);
        self.committer.stop();
        keeper::checkpoint(&self.kv, &self.files, |_| {})?;
        self.files.drain_pool();
        keeper::remove_doomed(&self.kv, &self.files, Duration::ZERO);
        self.kv.close();
        if !self.keeper.has_leftovers() && !self.files.left_some() {
            claim.leave_clean();
        }
        Ok(())
    }

    /// Makes everything committed so far survive a power loss; `progress` is told how far it is now and then.
    async fn checkpoint_with(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        let (kv, files) = (Arc::clone(&self.kv), Arc::clone(&self.files));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return keeper::checkpoint(&kv, &files, progress);
        };
        let (tell, mut told) = tokio::sync::watch::channel(Progress::default());
        // The receiver lives until the work is done.
        let work = move || {
            keeper::checkpoint(&kv, &files, |now| {
                let _ = tell.send(now);
            })
        };
        let ended = runtime.spawn_blocking(work);
        while told.changed().await.is_ok() {
            progress(*told.borrow_and_update());
        }
        ended.await.map_err(|error| StoreError::io("checkpoint", std::io::Error::other(error)))?
    }

    /// One change: `work` inside a transaction, committed if it succeeds.
    fn write<T>(
        &self,
        growth: Growth,
        points: Points,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        match growth {
            Growth::Adds => self.space.check()?,
            Growth::Frees => self.space.make_room(),
        }
        let mut tx = Tx::begin(self);
        let done = work(&mut tx).and_then(|answer| tx.commit(points).map(|()| answer));
        done.map_err(|error| match error {
            // The database does not always say why it failed.
            StoreError::Full | StoreError::Io { .. } if self.space.is_low() => {
                self.space.distrust();
                StoreError::Full
            }
            other => other,
        })
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(folder = %self.folder.display(), %error, "the store could not be closed cleanly");
        }
    }
}

/// Whether a change needs room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It adds something; refused when the disk is nearly full.
    Adds,
    /// It frees more than it writes; allowed to the last.
    Frees,
}
