//! A file that somebody has open: its bytes, and who moves them.
//!
//! All opens of one file share one [`OpenFile`]. While any of them lasts, either the kernel moves the bytes
//! (passthrough to one local file) or the engine does; the kernel cannot mix the two, except for opens that bypass
//! its page cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::{
    BlobPath, BlobProperties, ContentReader, Exposure, Fetch, LocalStore, NewContent, Preconditions, Scratch,
    crash_point, sparse,
};

use super::attributes::Attributes;
use super::content::{COPY_MAX, Content, Live, Overlay, Stamp};
use super::error::{FsError, Result};
use super::nodes::Ino;

mod elsewhere;
mod fencing;
mod set_id;

use elsewhere::Pushes;
use fencing::Aside;
pub use fencing::{Fenced, Showing};

/// Content in more pieces than this is put together again at the next commit.
const PIECES_MAX: usize = 128;

/// Up to this size it does not matter much who moves a new file's bytes.
const SMALL_MAX: u64 = 256 << 10;

/// Who moves the bytes of one open.
#[derive(Clone, Debug)]
pub enum Route {
    /// The kernel, straight from and to this file.
    Kernel(Arc<File>),
    /// The engine, behind the kernel's page cache.
    Engine {
        /// What the page cache holds is still right.
        keep_cache: bool,
    },
    /// The engine, without the page cache, for an inode that the kernel serves from this file to others.
    Direct(Arc<File>),
}

/// What an open is going to do with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Read only.
    Read,
    /// Change them.
    Write {
        /// And read them, which also allows a mapping.
        read: bool,
    },
    /// Throw them away, then write.
    Truncate {
        /// And read them.
        read: bool,
    },
}

/// Who serves the opens that exist.
#[derive(Debug)]
enum Serving {
    Nobody,
    /// The kernel, all of them from this file: it takes no second one for an inode. If it is the live file, it is the
    /// very descriptor that the content has.
    Kernel(Arc<File>),
    Engine,
}

/// The shared state of all opens of one file.
#[derive(Debug)]
pub struct OpenFile {
    ino: Ino,
    state: RwLock<FileState>,
    /// The engine changed bytes since the last commit. What the kernel changes shows in the file's stamp.
    dirty: AtomicBool,
    /// How many opens share this. Changed only under the table's mutex.
    opens: AtomicUsize,
    /// How many of them write.
    writers: AtomicUsize,
    /// All opens looked closed once, but somebody goes on using it.
    kept_open: AtomicBool,
    /// A handle was closed from outside whose program may still write through the kernel.
    cut_off: AtomicBool,
    /// The blob takes no content from here any more.
    fenced: AtomicBool,
    /// And nothing may be written.
    barred: AtomicBool,
    /// Somebody changed the attributes of another version than the content began with.
    other_attributes: AtomicBool,
    /// The thread that made it, until its first commit.
    maker: AtomicU32,
    /// What the service behind a mirror has of it.
    pushes: Pushes,
    /// Ids of the lease on the blob that callers show who are just changing it.
    shown: Mutex<Vec<LeaseId>>,
}

#[derive(Debug)]
struct FileState {
    content: Content,
    /// How to bring the bytes of the committed version that are not here, if there are any.
    fetch: Option<Arc<dyn Fetch>>,
    /// The version of the blob that the content began with: the last one that was read or committed here.
    base: Arc<BlobProperties>,
    /// Set while the file is fenced.
    aside: Option<Aside>,
    serving: Serving,
    /// The kernel serves, or served, an open that allows a shared mapping for writing.
    writable_mapping: bool,
    /// Attributes of a file that lost its name, and with it its blob.
    nameless: Option<Attributes>,
}

/// What `stat` needs to know about an open file.
#[derive(Clone, Copy, Debug)]
pub struct LiveStat {
    /// Size now.
    pub size: u64,
    /// Blocks of 512 bytes, where known.
    pub blocks: Option<u64>,
    /// Last change of the content and of anything, if it is not what was committed.
    pub times: Option<(Moment, Moment)>,
    /// Attributes of a file without a name.
    pub nameless: Option<Attributes>,
}

/// Everything a change of content may need.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The store.
    pub store: &'a dyn LocalStore,
    /// Where the file's blob is; nothing if it has no name any more.
    pub at: Option<&'a BlobPath>,
    /// What goes with a commit, if there is a blob to commit to.
    pub info: Option<&'a dyn CommitInfo>,
    /// Committed time of last change.
    pub mtime: Moment,
    /// The time.
    pub now: Moment,
}

impl OpenFile {
    /// A file with this content, on top of the version `base`, and its first open.
    pub fn new(ino: Ino, content: Content, base: Arc<BlobProperties>) -> Self {
        let state = FileState {
            content,
            fetch: None,
            base,
            aside: None,
            serving: Serving::Nobody,
            writable_mapping: false,
            nameless: None,
        };
        Self {
            ino,
            state: RwLock::new(state),
            dirty: AtomicBool::new(false),
            opens: AtomicUsize::new(1),
            writers: AtomicUsize::new(0),
            kept_open: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            barred: AtomicBool::new(false),
            other_attributes: AtomicBool::new(false),
            maker: AtomicU32::new(0),
            pushes: Pushes::default(),
            shown: Mutex::default(),
        }
    }

    /// Notes that thread `pid` made the file just now.
    pub fn set_maker(&self, pid: u32) {
        self.maker.store(pid, Ordering::Relaxed);
    }

    /// Who made the file, if that is known and asked for the first time.
    pub fn take_maker(&self) -> Option<u32> {
        match self.maker.swap(0, Ordering::Relaxed) {
            0 => None,
            pid => Some(pid),
        }
    }

    /// One more open.
    pub fn add_open(&self) {
        self.opens.fetch_add(1, Ordering::AcqRel);
    }

    /// One open less; says whether it was the last.
    pub fn drop_open(&self) -> bool {
        self.opens.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// A handle that writes is there.
    pub fn writer_joined(&self) {
        self.writers.fetch_add(1, Ordering::AcqRel);
    }

    /// One of them is closed; says whether others are left.
    pub fn writer_left(&self) -> bool {
        self.writers.fetch_sub(1, Ordering::AcqRel) > 1
    }

    /// Whether anybody writes, or may.
    pub fn has_writers(&self) -> bool {
        self.writers.load(Ordering::Acquire) > 0
    }

    /// Whether nobody else uses it.
    pub fn is_last_open(&self) -> bool {
        self.opens.load(Ordering::Acquire) <= 1
    }

    /// The file's number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Decides who moves the bytes of a new open, and prepares the content for what it is going to do.
    pub fn route(&self, intent: Intent, kernel_allowed: bool, place: Place<'_>) -> Result<Route> {
        let mut state = self.state.write();
        match intent {
            Intent::Read => {}
            Intent::Truncate { .. } => {
                state.truncate(0, place)?;
                self.dirty.store(true, Ordering::Release);
            }
            // Copying a small file now lets the kernel do the rest. A big one waits for its first change.
            Intent::Write { .. } if kernel_allowed && matches!(state.serving, Serving::Nobody) => {
                if matches!(&state.content, Content::Clean(reader) if reader.size() <= COPY_MAX)
                    && state.is_all_here()
                {
                    state.make_writable(place)?;
                }
            }
            Intent::Write { .. } => {}
        }
        let route = state.choose(intent, kernel_allowed)?;
        if !matches!(route, Route::Engine { .. }) {
            state.note_mappable(intent);
        }
        Ok(route)
    }

    /// Whether a program may have mapped the local file for writing, and may still have it mapped.
    pub fn may_be_mapped(&self) -> bool {
        self.state.read().writable_mapping && self.is_mapped()
    }

    /// Whether somebody besides us has the local file open or mapped for writing.
    pub fn is_mapped(&self) -> bool {
        match &self.state.read().content {
            // If that cannot be told, it is assumed not to be: the content is committed all the same.
            Content::Live(live) => matches!(sparse::is_sole_writer(live.scratch().file()), Ok(false)),
            Content::Clean(_) | Content::Overlay(_) | Content::Memory(_) => false,
        }
    }

    /// The kernel would not take over after all: the engine serves from now on.
    pub fn kernel_refused(&self) {
        let mut state = self.state.write();
        if state.kernel_serves() {
            state.serving = Serving::Engine;
        }
    }

    /// Reads at `offset`.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.state.read();
        state.must_be_here(offset..offset.saturating_add(buffer.len() as u64))?;
        Ok(state.content.read(buffer, offset)?)
    }

    /// Writes at `offset`, if the content can be changed already; says whether it could.
    /// If not, [`prepare`](Self::prepare) comes first.
    pub fn write(&self, data: &[u8], offset: u64, now: Moment) -> Result<bool> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(FsError::TooLarge);
        }
        if self.barred.load(Ordering::Acquire) {
            return Err(FsError::LeaseLost);
        }
        // The usual case needs no change of state, so writers of one file do not wait for each other.
        {
            let state = self.state.read();
            if let Content::Live(live) = &state.content {
                // Marked under the guard that a commit waits for.
                self.dirty.store(true, Ordering::Release);
                live.scratch().file().write_all_at(data, offset)?;
                return Ok(true);
            }
        }
        let mut state = self.state.write();
        self.dirty.store(true, Ordering::Release);
        match &mut state.content {
            Content::Live(live) => live.scratch().file().write_all_at(data, offset)?,
            Content::Overlay(overlay) => overlay.write(data, offset, now)?,
            Content::Memory(memory) if memory.fits(offset + data.len() as u64) => {
                memory.write(data, offset, now);
            }
            Content::Clean(_) | Content::Memory(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Makes the content ready to be changed.
    pub fn prepare(&self, place: Place<'_>) -> Result<()> {
        // The guard of the name keeps other changes out, so the long part needs no guard of the state: whoever reads
        // or asks for attributes meanwhile need not wait.
        if let (Some(at), Some(reader)) = (place.at, self.served_version()) {
            let scratch = place.store.take_over(Some(at), &reader)?;
            crash_point("write_after_take_over");
            let mut state = self.state.write();
            if matches!(&state.content, Content::Clean(now) if now.properties().etag == reader.properties().etag)
            {
                return state.took_over(scratch, place.mtime);
            }
        }
        self.state.write().make_writable(place)
    }

    /// The bytes that the first change copies, if it does: those of a version that the kernel serves.
    pub fn bytes_to_copy(&self) -> Option<u64> {
        self.served_version().map(|reader| reader.size())
    }

    fn served_version(&self) -> Option<ContentReader> {
        let state = self.state.read();
        match &state.content {
            Content::Clean(reader) if state.kernel_serves() => Some(reader.clone()),
            Content::Clean(_) | Content::Live(_) | Content::Overlay(_) | Content::Memory(_) => None,
        }
    }

    /// Cuts or extends with zeros.
    pub fn truncate(&self, size: u64, place: Place<'_>) -> Result<()> {
        if size > i64::MAX as u64 {
            return Err(FsError::TooLarge);
        }
        let mut state = self.state.write();
        self.dirty.store(true, Ordering::Release);
        state.truncate(size, place)
    }

    /// Reserves room for `range` and extends the file to its end, unless `keep_size`.
    pub fn allocate(&self, range: Range<u64>, keep_size: bool, place: Place<'_>) -> Result<()> {
        let mut state = self.state.write();
        state.make_writable(place)?;
        if let Content::Live(live) = &state.content {
            sparse::allocate(live.scratch().file(), range.clone())?;
        }
        if !keep_size && range.end > state.content.size()? {
            state.truncate(range.end, place)?;
        }
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes `range` read as zeros; extends the file to its end, unless `keep_size`.
    pub fn zero(&self, range: Range<u64>, keep_size: bool, place: Place<'_>) -> Result<()> {
        let mut state = self.state.write();
        state.make_writable(place)?;
        self.dirty.store(true, Ordering::Release);
        match &mut state.content {
            Content::Live(live) => sparse::punch_hole(live.scratch().file(), range.clone())?,
            Content::Overlay(overlay) => overlay.zero(range.clone(), place.now),
            Content::Clean(_) | Content::Memory(_) => {}
        }
        if !keep_size && range.end > state.content.size()? {
            state.truncate(range.end, place)?;
        }
        Ok(())
    }

    /// First data at or behind `from`.
    pub fn next_data(&self, from: u64) -> Result<u64> {
        let state = self.state.read();
        // What is not here looks like a hole in the local file.
        if !state.is_all_here() {
            return if from < state.content.size()? { Ok(from) } else { Err(FsError::NoSuchOffset) };
        }
        state.content.next_data(from)?.ok_or(FsError::NoSuchOffset)
    }

    /// First hole at or behind `from`.
    pub fn next_hole(&self, from: u64) -> Result<u64> {
        let state = self.state.read();
        if !state.is_all_here() {
            let size = state.content.size()?;
            return if from < size { Ok(size) } else { Err(FsError::NoSuchOffset) };
        }
        state.content.next_hole(from)?.ok_or(FsError::NoSuchOffset)
    }

    /// Carries an explicitly set time of last change over to content that is not committed yet.
    pub fn set_mtime(&self, mtime: Moment) -> Result<()> {
        match &mut self.state.write().content {
            Content::Clean(_) => {}
            Content::Live(live) => sparse::set_modified(live.scratch().file(), mtime)?,
            Content::Overlay(overlay) => overlay.set_mtime(mtime),
            Content::Memory(memory) => memory.set_mtime(mtime),
        }
        Ok(())
    }

    /// Notes that the file has lost its name; `attributes` are what it had.
    pub fn lost_name(&self, attributes: Attributes) {
        self.state.write().nameless = Some(attributes);
    }

    /// Changes the attributes of a file without a name.
    pub fn change_nameless(&self, change: impl FnOnce(&mut Attributes)) -> Result<()> {
        self.state.write().nameless.as_mut().map(change).ok_or(FsError::NotFound)
    }

    /// What `stat` needs.
    pub fn stat(&self) -> Result<LiveStat> {
        let state = self.state.read();
        let nameless = state.nameless;
        Ok(match &state.content {
            Content::Clean(reader) => LiveStat { size: reader.size(), blocks: None, times: None, nameless },
            Content::Live(live) => {
                let stamp = Stamp::of(live.scratch())?;
                let times = live.changed()?.map(|changed| (changed.mtime, changed.ctime));
                LiveStat { size: stamp.size, blocks: Some(stamp.blocks), times, nameless }
            }
            Content::Overlay(overlay) => {
                let times = Some((overlay.mtime(), overlay.mtime()));
                LiveStat { size: overlay.size(), blocks: None, times, nameless }
            }
            Content::Memory(memory) => {
                let times = memory.changed().map(|changed| (changed, changed));
                LiveStat { size: memory.size(), blocks: None, times, nameless }
            }
        })
    }

    /// Whether there is anything to commit.
    pub fn needs_commit(&self) -> Result<bool> {
        if self.dirty.load(Ordering::Acquire) {
            return Ok(true);
        }
        let state = self.state.read();
        Ok(match &state.content {
            Content::Clean(_) | Content::Memory(_) => false,
            // What the engine writes it marks; only the kernel's writes have to be looked for.
            Content::Live(_) if matches!(state.serving, Serving::Engine) => false,
            Content::Live(live) => live.changed()?.is_some(),
            Content::Overlay(_) => true,
        })
    }

    /// The files whose bytes must be on the disk before a commit is: those that are going to be committed, and those that
    /// were committed before and are not there yet, by a close for example.
    pub fn unsynced(&self, store: &dyn LocalStore) -> Result<Vec<Arc<File>>> {
        let changed = self.needs_commit()?;
        Ok(match &mut self.state.write().content {
            Content::Memory(_) => Vec::new(),
            Content::Clean(reader) => store.unsynced(reader)?,
            Content::Live(live) => {
                let file = live.scratch().file();
                // What is short is kept in the index.
                let matters = (changed || store.is_unsynced(live.scratch()))
                    && file.metadata()?.len() > store.inline_max();
                matters.then(|| Arc::clone(file)).into_iter().collect()
            }
            Content::Overlay(overlay) => {
                let (base, scratch) = overlay.settled()?;
                let mut files = store.unsynced(base)?;
                files.push(Arc::clone(scratch.file()));
                files
            }
        })
    }

    /// Makes the current content the blob's content. Says whether the kernel's page cache agrees with it.
    pub fn commit(&self, store: &dyn LocalStore, at: &BlobPath, commit: &dyn CommitInfo) -> Result<bool> {
        let mut state = self.state.write();
        let dirty = self.dirty.swap(false, Ordering::AcqRel);
        let done = state.commit(dirty, store, at, commit);
        if done.is_err() {
            self.dirty.store(true, Ordering::Release);
        }
        done?;
        Ok(matches!(state.serving, Serving::Engine))
    }

    /// Whether the content, which was just committed, is so short that it does not matter much who moves it.
    pub fn is_small(&self) -> bool {
        match &self.state.read().content {
            // What the blob does not refer to is even shorter: it is kept in the index.
            Content::Live(live) => live.published() <= SMALL_MAX,
            content => content.size().is_ok_and(|size| size <= SMALL_MAX),
        }
    }

    /// Notes that somebody uses the file although all of its opens look closed.
    pub fn keep_open(&self) {
        self.kept_open.store(true, Ordering::Relaxed);
    }

    /// Whether that was noted.
    pub fn is_kept_open(&self) -> bool {
        self.kept_open.load(Ordering::Relaxed)
    }

    /// Notes that a handle was closed from outside. The kernel does not take back what it was given: its program may go
    /// on writing to the local file.
    pub fn cut_off(&self) {
        self.cut_off.store(true, Ordering::Release);
    }

    /// Whether that was noted.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Acquire)
    }

    /// Whether the committed version is in the very file that is written to.
    pub fn is_in_place(&self) -> bool {
        matches!(&self.state.read().content, Content::Live(live) if live.published() > 0)
    }

    /// Whether the content is in pieces that can be put together.
    pub fn is_in_pieces(&self) -> bool {
        let state = self.state.read();
        match &state.content {
            Content::Clean(reader) => reader.pieces().len() > 1 && state.is_all_here(),
            Content::Live(_) | Content::Overlay(_) | Content::Memory(_) => false,
        }
    }
}

/// Gives the metadata that goes with a commit.
pub trait CommitInfo: Sync {
    /// Metadata and headers for content last changed at `mtime`.
    fn new_content(&self, mtime: Moment, ctime: Moment) -> Result<NewContent>;
    /// What the store is told, so that it refuses content that began with `base` if it comes too late.
    fn fence(&self, base: &BlobProperties) -> Preconditions;
    /// Learns of the committed version.
    fn committed(&self, properties: &BlobProperties);
}

impl FileState {
    /// Notes what a program can do with the file itself. A mapping needs a descriptor that may read.
    fn note_mappable(&mut self, intent: Intent) {
        let exposure = match intent {
            Intent::Read => Exposure::Readable,
            Intent::Write { read: true } | Intent::Truncate { read: true } => Exposure::Writable,
            Intent::Write { read: false } | Intent::Truncate { read: false } => Exposure::Written,
        };
        self.writable_mapping |= exposure == Exposure::Writable;
        if let Content::Live(live) = &self.content {
            live.scratch().expose(exposure);
        }
    }

    fn kernel_serves(&self) -> bool {
        matches!(self.serving, Serving::Kernel(_))
    }

    fn choose(&mut self, intent: Intent, kernel_allowed: bool) -> Result<Route> {
        let engine = Route::Engine { keep_cache: false };
        let local = match &self.content {
            Content::Live(live) => Some(Arc::clone(live.scratch().file())),
            // After a crash a file can be longer than the version in it; the kernel would show the rest.
            Content::Clean(reader) => match reader.as_file() {
                Some(file) if file.metadata()?.len() == reader.size() && self.is_all_here() => {
                    Some(Arc::clone(file))
                }
                _ => None,
            },
            Content::Overlay(_) | Content::Memory(_) => None,
        };
        let changes_a_version = intent != Intent::Read && matches!(self.content, Content::Clean(_));
        let local = local.filter(|_| kernel_allowed && !changes_a_version);
        Ok(match (&self.serving, local) {
            (Serving::Engine, _) => engine,
            (Serving::Nobody, Some(file)) => {
                self.serving = Serving::Kernel(Arc::clone(&file));
                Route::Kernel(file)
            }
            (Serving::Nobody, None) => {
                self.serving = Serving::Engine;
                engine
            }
            (Serving::Kernel(served), Some(file)) if is_same_file(served, &file)? => Route::Kernel(file),
            // The kernel's readers have the committed file itself; a writer among them goes through us, and the
            // first change moves the committed version out of the way. If that file had to stay as it is, because
            // others need it, the content is in a copy by now: who comes later gets that through us.
            (Serving::Kernel(served), _) => Route::Direct(Arc::clone(served)),
        })
    }

    /// Turns a committed version into something that can be changed.
    fn make_writable(&mut self, place: Place<'_>) -> Result<()> {
        let reader = match &self.content {
            Content::Live(_) | Content::Overlay(_) => return Ok(()),
            Content::Memory(memory) => {
                let live = memory.spill(place.store.scratch()?, place.mtime)?;
                self.content = Content::Live(live);
                return Ok(());
            }
            Content::Clean(reader) => reader,
        };
        if self.kernel_serves() {
            let scratch = place.store.take_over(place.at, reader)?;
            crash_point("write_after_take_over");
            return self.took_over(scratch, place.mtime);
        }
        self.content = if reader.size() <= COPY_MAX {
            self.must_be_here(0..reader.size())?;
            let scratch = place.store.scratch()?;
            Content::Live(Live::copy_of(reader, reader.size(), scratch, place.mtime)?)
        } else {
            Content::Overlay(Overlay::new(reader.clone(), place.store.scratch()?, place.now))
        };
        Ok(())
    }

    /// The content goes on in `scratch`, which is what the kernel serves, or a copy of that.
    fn took_over(&mut self, scratch: Scratch, mtime: Moment) -> Result<()> {
        if let Serving::Kernel(served) = &mut self.serving
            && is_same_file(served, scratch.file())?
        {
            // No second descriptor of ours may stay open: it would be taken for a program's.
            *served = Arc::clone(scratch.file());
        }
        self.content = Content::Live(Live::committed(scratch, mtime)?);
        Ok(())
    }

    fn truncate(&mut self, size: u64, place: Place<'_>) -> Result<()> {
        if let Content::Memory(memory) = &mut self.content
            && memory.fits(size)
        {
            memory.truncate(size, place.now);
            return Ok(());
        }
        if let Content::Clean(reader) = &self.content
            && !self.kernel_serves()
            && size.min(reader.size()) <= COPY_MAX
        {
            // Nothing behind the new end is needed, however big the file was.
            let kept = size.min(reader.size());
            self.must_be_here(0..kept)?;
            let scratch = place.store.scratch()?;
            self.content = Content::Live(Live::copy_of(reader, kept, scratch, place.mtime)?);
        }
        self.make_writable(place)?;
        match &mut self.content {
            Content::Live(live) => {
                if let (Some(at), Some(info)) = (place.at, place.info)
                    && live.published() > size
                {
                    // The blob must not promise bytes that its file has no longer.
                    let new = info.new_content(place.now, place.now)?;
                    let fence = info.fence(&self.base);
                    self.base = place.store.publish(at, live.scratch(), size, new, &fence)?;
                    info.committed(&self.base);
                    crash_point("truncate_after_publish");
                }
                live.scratch().file().set_len(size)?;
                // An unchanged length leaves the time alone, but a truncation is a change.
                sparse::set_modified(live.scratch().file(), place.now)?;
            }
            Content::Overlay(overlay) => overlay.truncate(size, place.now)?,
            Content::Clean(_) | Content::Memory(_) => {}
        }
        Ok(())
    }

    fn commit(
        &mut self,
        dirty: bool,
        store: &dyn LocalStore,
        at: &BlobPath,
        info: &dyn CommitInfo,
    ) -> Result<()> {
        match &mut self.content {
            Content::Clean(_) => {}
            Content::Live(live) => {
                let stamp = match live.changed()? {
                    Some(stamp) => stamp,
                    None if dirty => Stamp::of(live.scratch())?,
                    None => return Ok(()),
                };
                let new = info.new_content(stamp.mtime, stamp.ctime)?;
                let fence = info.fence(&self.base);
                let surveyed = live.survey(stamp, store.inline_max(), self.writable_mapping)?;
                self.base = store.publish(at, live.scratch(), stamp.size, new, &fence)?;
                crash_point("commit_after_publish");
                info.committed(&self.base);
                live.note_committed(surveyed);
            }
            Content::Overlay(overlay) => {
                let new = info.new_content(overlay.mtime(), overlay.mtime())?;
                let (changes, size) = (overlay.changes(), overlay.size());
                let fence = info.fence(&self.base);
                let (base, scratch) = overlay.settled()?;
                self.base = store.patch(at, base, scratch, &changes, size, new, &fence)?;
                crash_point("commit_after_patch");
                info.committed(&self.base);
                self.content = Content::Clean(reassemble(store, at)?);
            }
            Content::Memory(memory) => {
                let Some(changed) = memory.changed() else { return Ok(()) };
                let new = info.new_content(changed, changed)?;
                let fence = info.fence(&self.base);
                self.base = store.put_small(at, memory.to_bytes(), new, &fence)?;
                crash_point("commit_after_publish");
                info.committed(&self.base);
                memory.note_committed();
            }
        }
        Ok(())
    }
}

/// Whether two descriptors are of one file. All content is on one file system.
pub fn is_same_file(one: &Arc<File>, other: &Arc<File>) -> io::Result<bool> {
    Ok(Arc::ptr_eq(one, other) || one.metadata()?.ino() == other.metadata()?.ino())
}

fn reassemble(store: &dyn LocalStore, at: &BlobPath) -> Result<ContentReader> {
    let reader = store.reader(at)?;
    if reader.pieces().len() <= PIECES_MAX {
        return Ok(reader);
    }
    // The reader itself does not count as one of an older version.
    store.tidy(at)?;
    Ok(store.reader(at)?)
}
