//! The parts of an open store, shared by all its users.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use parking_lot::Mutex;

use crate::store::Result;

use super::append::APPEND_LANES;
use super::cache::Cache;
use super::changes::Changes;
use super::committer::Committer;
use super::content::Files;
use super::keeper::{self, Keeper};
use super::kv::Kv;
use super::laxity::Laxity;
use super::numbers::Numbers;
use super::options::Clock;
use super::pages::PageLog;
use super::record::ContainerRecord;
use super::space::SpaceGuard;
use super::startup::Claim;
use super::tx::{Slot, WriterState};

/// Everything that an open store is made of.
pub struct Parts {
    pub(super) folder: PathBuf,
    pub(super) clock: Clock,
    pub(super) inline_max: u64,
    pub(super) kv: Arc<Kv>,
    pub(super) numbers: Arc<Numbers>,
    pub(super) files: Arc<Files>,
    pub(super) slots: Cache<Slot>,
    pub(super) containers: Cache<Option<Arc<ContainerRecord>>>,
    pub(super) writer: Mutex<WriterState>,
    /// Held while a blob is tidied: two at once could write into the same file.
    pub(super) tidying: Mutex<()>,
    pub(super) space: SpaceGuard,
    /// Whether any block was ever staged; looking for staged blocks is skipped without.
    pub(super) staged_any: AtomicBool,
    /// Which lease actions need not be on the disk when they are answered.
    pub(super) laxity: Laxity,
    pub(super) changes: Changes,
    /// Held while bytes are appended to a blob of that lane.
    pub(super) appending: [tokio::sync::Mutex<()>; APPEND_LANES],
    pub(super) page_log: Mutex<Option<PageLog>>,
    pub(super) users: AtomicU32,
    pub(super) committer: Committer,
    pub(super) keeper: Keeper,
    pub(super) claim: Mutex<Option<Claim>>,
}

impl Parts {
    /// Where the store is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Committed content files that may not be on the disk yet: how many, and their bytes.
    pub fn unsynced(&self) -> (u64, u64) {
        self.files.unsynced().amount()
    }

    /// Whether the process that had the store before ended without closing it.
    pub fn was_left_in_disorder(&self) -> bool {
        self.claim.lock().as_ref().is_some_and(Claim::after_crash)
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
        self.changes.close();
        self.keeper.stop(&self.files);
        self.committer.stop();
        keeper::checkpoint(&self.kv, &self.files, |_| {})?;
        self.page_log.lock().take();
        self.files.drain_unused();
        keeper::remove_doomed(&self.kv, &self.files, Duration::ZERO);
        self.kv.close();
        // After a batch that failed it was not always possible to tell which files nothing refers to any more.
        let in_doubt = self.kv.reopened() > 0;
        if !self.keeper.has_leftovers() && !self.files.left_some() && !in_doubt {
            claim.leave_clean();
        }
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(folder = %self.folder.display(), %error, "the store could not be closed cleanly");
        }
    }
}
