//! What becomes of an open file whose blob does not take its content any more.
//!
//! ```text
//!                 commit refused, lease lost
//!   COMMITTING  ------------------------------->  FENCED: content goes to the conflict copy,
//!        ^                                           |    writers are told at every flush and fsync
//!        +-------------------------------------------+
//!          another open, when nothing is unsaved: the store's version is taken
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::share::lease::LeaseId;
use crate::store::{
    BlobPath, BlobProperties, ContentReader, ETag, Fetch, LocalStore, Preconditions, Scratch,
};

use super::super::content::{COPY_CHUNK, Content, Stamp};
use super::super::error::{FsError, Result};
use super::{CommitInfo, FileState, OpenFile};

/// Why a blob does not take the content of its open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Somebody else changed, replaced or removed it.
    Stale,
    /// Somebody else has its lease.
    Leased,
    /// We had its lease and have it no longer.
    LeaseLost,
    /// The store failed, and the last user has gone.
    Failed,
}

impl Fenced {
    /// Whether an error of a commit means that the blob will not take the content later, either.
    pub fn of(error: &FsError) -> Option<Self> {
        match error {
            FsError::Stale | FsError::NotFound => Some(Fenced::Stale),
            FsError::Leased(_) => Some(Fenced::Leased),
            FsError::LeaseLost => Some(Fenced::LeaseLost),
            _ => None,
        }
    }
}

impl From<Fenced> for FsError {
    fn from(why: Fenced) -> Self {
        match why {
            Fenced::Stale => FsError::Stale,
            Fenced::Leased => FsError::Leased("it was taken after the file was opened".to_owned()),
            Fenced::LeaseLost => FsError::LeaseLost,
            Fenced::Failed => {
                FsError::Io("the content could not be committed and was kept beside".to_owned())
            }
        }
    }
}

/// Where a fenced file's content is kept.
#[derive(Debug)]
pub(super) struct Aside {
    why: Fenced,
    /// Absent until there was something to keep.
    copy: Option<BlobPath>,
}

/// Somebody who holds the lease on the blob is changing the file, until this is dropped. Whoever commits meanwhile has his
/// bytes, too, and does it under his lease.
#[derive(Debug)]
pub struct Showing {
    file: Arc<OpenFile>,
    id: LeaseId,
}

impl Drop for Showing {
    fn drop(&mut self) {
        let mut shown = self.file.shown.lock();
        if let Some(index) = shown.iter().position(|id| *id == self.id) {
            shown.swap_remove(index);
        }
    }
}

impl OpenFile {
    /// A caller who shows this id of the lease is going to change the file.
    pub fn show(self: &Arc<Self>, id: LeaseId) -> Showing {
        self.shown.lock().push(id);
        Showing { file: Arc::clone(self), id }
    }

    /// The id that was shown, if somebody who did is at work.
    pub fn shown(&self) -> Option<LeaseId> {
        self.shown.lock().last().copied()
    }

    /// The version that the content began with.
    pub fn base(&self) -> Arc<BlobProperties> {
        Arc::clone(&self.state.read().base)
    }

    /// Notes that this engine changed something of the version `old` that is not its content.
    pub fn rebase(&self, old: ETag, new: &Arc<BlobProperties>) {
        let mut state = self.state.write();
        if state.base.etag == old {
            state.base = Arc::clone(new);
        } else {
            self.doubt_attributes();
        }
    }

    /// The blob takes no content from here any more. A reason that was given before stays.
    pub fn fence_off(&self, why: Fenced) {
        let mut state = self.state.write();
        let aside = state.aside.get_or_insert(Aside { why, copy: None });
        let barred = aside.why == Fenced::LeaseLost;
        self.fenced.store(true, Ordering::Release);
        self.barred.store(barred, Ordering::Release);
    }

    /// Why the blob takes no content from here, if that is so.
    pub fn fenced(&self) -> Option<Fenced> {
        if !self.fenced.load(Ordering::Acquire) {
            return None;
        }
        self.state.read().aside.as_ref().map(|aside| aside.why)
    }

    /// Where the content is kept.
    pub fn aside(&self) -> Option<BlobPath> {
        self.state.read().aside.as_ref().and_then(|aside| aside.copy.clone())
    }

    /// Whether a fenced file has content that is neither in its blob nor kept beside.
    pub fn needs_saving(&self) -> Result<bool> {
        Ok(self.dirty.load(Ordering::Acquire) || self.state.read().needs_saving()?)
    }

    /// Stores a copy of the content under another name.
    pub fn save(
        &self,
        store: &dyn LocalStore,
        copy: &BlobPath,
        info: &dyn CommitInfo,
        conditions: &Preconditions,
    ) -> Result<()> {
        let mut state = self.state.write();
        let dirty = self.dirty.swap(false, Ordering::AcqRel);
        let saved = state.save(store, copy, info, conditions);
        if saved.is_err() && dirty {
            self.dirty.store(true, Ordering::Release);
        }
        saved
    }

    /// Takes the store's version `current`, unless it is the one that is here, or something here would get lost, or
    /// the kernel serves the file. Says whether the content is another one now.
    pub fn refresh(
        &self,
        current: ETag,
        read: impl FnOnce() -> Result<(ContentReader, Option<Arc<dyn Fetch>>)>,
    ) -> Result<bool> {
        let fenced = self.fenced.load(Ordering::Acquire);
        if !fenced && self.state.read().base.etag == current {
            return Ok(false);
        }
        let mut state = self.state.write();
        let other = state.base.etag != current;
        let unsaved = self.dirty.load(Ordering::Acquire)
            || if fenced { state.needs_saving()? } else { state.is_changed()? };
        if unsaved || (other && state.kernel_serves()) {
            return Ok(false);
        }
        if other || fenced && !state.kernel_serves() {
            let (reader, fetch) = read()?;
            state.fetch = fetch;
            state.base = Arc::clone(reader.properties());
            state.content = Content::Clean(reader);
        }
        state.aside = None;
        self.fenced.store(false, Ordering::Release);
        self.barred.store(false, Ordering::Release);
        Ok(true)
    }
}

impl FileState {
    fn is_changed(&self) -> Result<bool> {
        Ok(match &self.content {
            Content::Clean(_) => false,
            Content::Live(live) => live.changed()?.is_some(),
            Content::Memory(memory) => memory.changed().is_some(),
            Content::Overlay(_) => true,
        })
    }

    fn needs_saving(&self) -> Result<bool> {
        Ok(match &self.content {
            // What the engine changes it marks.
            Content::Overlay(_) => self.aside.as_ref().is_none_or(|aside| aside.copy.is_none()),
            Content::Clean(_) | Content::Live(_) | Content::Memory(_) => self.is_changed()?,
        })
    }

    fn save(
        &mut self,
        store: &dyn LocalStore,
        copy: &BlobPath,
        info: &dyn CommitInfo,
        conditions: &Preconditions,
    ) -> Result<()> {
        let size = self.content.size()?;
        self.must_be_here(0..size)?;
        // A copy of the bytes, because the file itself may be what the blob, or a program, still uses.
        let scratch = store.scratch()?;
        let surveyed = match &self.content {
            Content::Live(live) => {
                let stamp = Stamp::of(live.scratch())?;
                Some((stamp, live.survey(stamp, store.inline_max(), self.writable_mapping)?))
            }
            Content::Overlay(_) | Content::Clean(_) | Content::Memory(_) => None,
        };
        copy_content(&self.content, size, &scratch)?;
        let stamp = surveyed.map_or_else(|| Stamp::of(&scratch), |(stamp, _)| Ok(stamp))?;
        let new = info.new_content(stamp.mtime, stamp.ctime)?;
        store.publish(copy, &scratch, size, new, conditions)?;
        match (&mut self.content, surveyed) {
            (Content::Live(live), Some((_, surveyed))) => live.note_saved(surveyed),
            (Content::Memory(memory), _) => memory.note_committed(),
            (Content::Live(_) | Content::Clean(_) | Content::Overlay(_), _) => {}
        }
        if let Some(aside) = &mut self.aside {
            aside.copy = Some(copy.clone());
        }
        Ok(())
    }
}

fn copy_content(content: &Content, size: u64, scratch: &Scratch) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(COPY_CHUNK).min(COPY_CHUNK)];
    let mut at = 0;
    // Holes stay holes.
    while let Some(start) = content.next_data(at)?.filter(|start| *start < size) {
        let end = content.next_hole(start)?.unwrap_or(size).min(size);
        let length = usize::try_from(end - start).unwrap_or(COPY_CHUNK).min(buffer.len());
        let got = content.read(&mut buffer[..length], start)?;
        if got == 0 {
            break;
        }
        scratch.file().write_all_at(&buffer[..got], start)?;
        at = start + got as u64;
    }
    Ok(scratch.file().set_len(size)?)
}
