//! An open file whose blob is a mirror of one elsewhere: which of its bytes are not here, and which commits are not
//! there.
//!
//! On a share of this machine nothing is ever missing and nothing is ever pushed.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::{Fetch, sparse};

use super::super::content::Content;
use super::super::error::{FsError, Result};
use super::{FileState, OpenFile};

/// Counts commits, and up to which of them the service has them.
#[derive(Debug, Default)]
pub(super) struct Pushes {
    committed: AtomicU64,
    pushed: AtomicU64,
}

impl OpenFile {
    /// Notes that the mirror has something of this file that the service must get.
    pub fn note_unpushed(&self) {
        self.pushes.committed.fetch_add(1, Ordering::AcqRel);
    }

    /// The count of commits, if the service has not got all of them.
    pub fn unpushed(&self) -> Option<u64> {
        let committed = self.pushes.committed.load(Ordering::Acquire);
        (self.pushes.pushed.load(Ordering::Acquire) < committed).then_some(committed)
    }

    /// The service has everything up to this count.
    pub fn note_pushed(&self, count: u64) {
        self.pushes.pushed.fetch_max(count, Ordering::AcqRel);
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.state.read().content.size()? == 0)
    }

    /// What a commit is going to change, if that is not everything.
    pub fn changed_ranges(&self) -> Option<Vec<Range<u64>>> {
        match &self.state.read().content {
            Content::Overlay(overlay) => {
                Some(overlay.changes().into_iter().map(|change| change.range).collect())
            }
            Content::Clean(_) | Content::Live(_) | Content::Memory(_) => None,
        }
    }

    /// The local file that is being written and not committed yet, and how far it is filled from its start.
    pub fn written_so_far(&self) -> Result<Option<(Arc<File>, u64)>> {
        if !self.needs_commit()? {
            return Ok(None);
        }
        match &self.state.read().content {
            Content::Live(live) => {
                let file = Arc::clone(live.scratch().file());
                let written = sparse::next_hole(&file, 0)?.unwrap_or(0);
                Ok(Some((file, written)))
            }
            Content::Clean(_) | Content::Overlay(_) | Content::Memory(_) => Ok(None),
        }
    }

    /// How to bring bytes of the committed version, if some are not here.
    pub fn fetch(&self) -> Option<Arc<dyn Fetch>> {
        self.state.read().fetch.clone()
    }

    /// Notes how to bring bytes of the version that is open.
    pub fn set_fetch(&self, fetch: Option<Arc<dyn Fetch>>) {
        self.state.write().fetch = fetch;
    }

    /// Whether every byte can be read from here.
    pub fn is_all_here(&self) -> bool {
        self.state.read().is_all_here()
    }

    /// The content as it is was never saved anywhere else.
    pub fn must_be_saved(&self) {
        self.dirty.store(true, Ordering::Release);
    }
}

impl FileState {
    /// [`FsError::NotHere`] names the first bytes of `range` that have to be brought.
    pub(super) fn must_be_here(&self, range: Range<u64>) -> Result<()> {
        let Some(fetch) = &self.fetch else { return Ok(()) };
        match &self.content {
            Content::Clean(reader) => missing(&**fetch, range.start..range.end.min(reader.size())),
            Content::Overlay(overlay) => {
                overlay.base_parts(range).try_for_each(|part| missing(&**fetch, part))
            }
            Content::Live(_) | Content::Memory(_) => Ok(()),
        }
    }

    pub(super) fn is_all_here(&self) -> bool {
        self.must_be_here(0..u64::MAX).is_ok()
    }
}

fn missing(fetch: &dyn Fetch, range: Range<u64>) -> Result<()> {
    if range.is_empty() || fetch.is_here(&range) { Ok(()) } else { Err(FsError::NotHere(range)) }
}
