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

mod adopt;
mod append;
mod blobs;
mod blocks;
mod cache;
mod changes;
mod check;
mod committer;
mod compactor;
mod containers;
mod content;
mod copy;
mod extents;
mod hollow;
mod journal;
mod keeper;
mod kv;
mod laxity;
mod leases;
mod listing;
mod local;
mod names;
mod numbers;
mod options;
mod pages;
mod parts;
mod pool;
mod properties;
mod purge;
mod reading;
mod reclaim;
mod record;
mod rename;
mod run;
mod service;
mod settings;
mod share_snapshots;
mod snapshots;
mod space;
mod startup;
mod tagged;
mod take_over;
#[cfg(test)]
mod tests;
mod tidy;
mod torn;
mod tx;
mod unsynced;
mod walk;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

pub use adopt::Adopted;
pub use check::{CheckError, CheckReport, check};
pub use hollow::Filling;
pub use options::{Clock, EmbeddedOptions};
pub use startup::OpenError;

use crate::store::{Progress, Result, StoreError};

use cache::Cache;
use changes::{Changes, UserId};
use committer::Committer;
use content::Files;
use keeper::Keeper;
use laxity::Laxity;
use numbers::{Etags, Numbers};
use parts::Parts;
use run::Run;
use space::SpaceGuard;
use startup::Claim;
use tx::{Points, Tx, WriterState};

/// A blob store in a directory, as one of its users sees it.
///
/// Users differ in two things: a user hears of what the others change, and a *durable* user (a front end that promises
/// it) gets no answer before the change would survive a power loss.
pub struct EmbeddedStore {
    parts: Arc<Parts>,
    user: UserId,
    durable: bool,
}

impl Deref for EmbeddedStore {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in `folder`, making a new one if the folder is empty or not there.
    pub fn open(folder: &Path, options: EmbeddedOptions) -> std::result::Result<Arc<Self>, OpenError> {
        Self::open_in(folder, options, Run::present)
    }

    /// The same in a given run of the machine.
    fn open_in(
        folder: &Path,
        options: EmbeddedOptions,
        run: impl FnOnce(&Path) -> Option<Run>,
    ) -> std::result::Result<Arc<Self>, OpenError> {
        let claim = Claim::take(folder)?;
        let kv = Arc::new(claim.open_kv(&options)?);
        let failed = |error| claim.damaged(&error);
        let numbers = Arc::new(Numbers::open(Arc::clone(&kv), claim.after_crash()).map_err(failed)?);
        let first_number = numbers.next();
        let files = Arc::new(Files::new(claim.content_folder(), Arc::clone(&numbers)));
        let etags = Etags::open(&kv).map_err(failed)?;
        let laxity =
            Laxity::open(&kv, run(folder), claim.after_crash(), (options.clock)()).map_err(failed)?;
        let staged_any = blocks::any_staged(&kv).map_err(failed)?;
        let parts = Arc::new(Parts {
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
            laxity,
            changes: Changes::default(),
            appending: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            page_log: Mutex::default(),
            users: AtomicU32::new(1),
            claim: Mutex::new(None),
        });
        let leftovers = claim.after_crash().then_some(first_number);
        parts.keeper.start(&parts, options.checkpoint_every, leftovers);
        *parts.claim.lock() = Some(claim);
        Ok(Arc::new(Self { parts, user: 0, durable: false }))
    }

    /// A further user of the same store, whose changes the others hear of and whose answers mean durable.
    pub fn durable_user(&self) -> Arc<Self> {
        self.further_user(true)
    }

    /// A further user of the same store, whose changes the others hear of.
    pub fn user(&self) -> Arc<Self> {
        self.further_user(false)
    }

    fn further_user(&self, durable: bool) -> Arc<Self> {
        let user = self.users.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { parts: Arc::clone(&self.parts), user, durable })
    }

    /// The store's own user, for work that nobody asked for.
    fn keeper_user(parts: Arc<Parts>) -> Self {
        Self { parts, user: 0, durable: false }
    }

    /// What a durable user wrote by itself is on the disk before a record names it: the record may be there at any
    /// moment from then on, with whoever syncs next.
    fn settle_written(&self, file: &std::fs::File) -> Result<()> {
        if self.durable { committer::sync_file_now(file) } else { Ok(()) }
    }

    /// The same for content that was written before, perhaps by a user who is not durable.
    fn settle_shared(&self, files: &[u64]) -> Result<()> {
        for &number in files.iter().filter(|&&number| self.durable && self.files.unsynced().has(number)) {
            committer::sync_file_now(&*self.open_content(number)?)?;
        }
        Ok(())
    }

    fn open_content(&self, number: u64) -> Result<Arc<std::fs::File>> {
        self.files.open(number).map_err(|error| StoreError::io("open content", error))
    }

    /// What a durable user waits for before it is answered.
    async fn make_durable(&self) -> Result<()> {
        if self.durable { self.committer.sync().await } else { Ok(()) }
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
            Growth::Adds => self.space.check().inspect_err(|_| self.files.wake())?,
            Growth::Frees => self.space.make_room(),
        }
        let mut tx = Tx::begin(self);
        let done = work(&mut tx).and_then(|answer| tx.commit(points).map(|()| answer));
        if growth == Growth::Frees && self.space.is_tight() {
            self.files.wake();
        }
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

/// Whether a change needs room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It adds something; refused when the disk is nearly full.
    Adds,
    /// It frees more than it writes; allowed to the last.
    Frees,
}
