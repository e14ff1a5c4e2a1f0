//! Content files: where they are, who uses them, and when they go.
//!
//! A content file has a number and is named after it. Bytes that a committed version refers to never change, except
//! through a scratch file that is still held by its writer, and by `tidy`, which asks this module whether anybody
//! looks. A file is removed when no record refers to it, no reader pins it and no writer holds it. This module never
//! touches the database; the transaction tells it what was committed.
//!
//! ```text
//!              publish, patch                 last record goes
//!   HELD ----------------------> REFERENCED -------------------> removed when unpinned and not held
//!    | dropped by its writer, never referred to
//!    +--> emptied and kept for the next writer
//! ```

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lru::LruCache;
use parking_lot::{Condvar, Mutex};

use crate::store::{Result, Scratch, ScratchHome, StoreError, crash_point};

use super::numbers::Numbers;
use super::unsynced::Unsynced;

/// Folders the files are spread over.
pub(super) const FOLDERS: u64 = 256;

/// Neighbouring numbers share a folder, so that a burst of new files makes few folders dirty.
const NUMBERS_PER_FOLDER: u64 = 1024;

/// Empty files kept open for the next writers.
const POOL_FILES: usize = 64;

/// A scratch file that grew beyond this is removed rather than emptied: freeing its blocks takes time.
const POOL_FILE_BYTES: u64 = 1 << 20;

/// Open files kept for the next readers.
const OPEN_FILES: usize = 256;

/// Files waiting to be removed by the keeper; more are removed at once.
const DOOMED_FILES: usize = 8192;

/// How a file that somebody uses stands.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Readers of some version that includes it.
    pins: u32,
    /// A scratch file with a living writer.
    held: bool,
    /// Published as a whole while held: its bytes may still change.
    live: bool,
    /// Some committed record refers to it.
    referenced: bool,
    /// Some committed record ever did.
    published: bool,
}

/// The content files of a store.
pub(super) struct Files {
    folder: PathBuf,
    numbers: Arc<Numbers>,
    /// Files that are pinned or held.
    usage: Mutex<HashMap<u64, Usage>>,
    open: Mutex<LruCache<u64, Arc<File>>>,
    pool: Mutex<Vec<(u64, Arc<File>)>>,
    doomed: Mutex<Vec<u64>>,
    doomed_some: Condvar,
    unsynced: Unsynced,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Files {
    /// The files in `folder`, whose subfolders exist.
    pub(super) fn new(folder: PathBuf, numbers: Arc<Numbers>) -> Self {
        let open = NonZeroUsize::new(OPEN_FILES).unwrap_or(NonZeroUsize::MIN);
        Self {
            folder,
            numbers,
            usage: Mutex::default(),
            open: Mutex::new(LruCache::new(open)),
            pool: Mutex::default(),
            doomed: Mutex::default(),
            doomed_some: Condvar::new(),
            unsynced: Unsynced::default(),
        }
    }

    /// Where content files are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a file is.
    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.folder.join(folder_name(folder_of(number))).join(format!("{number:016x}"))
    }

    /// What must be synced before the disk holds everything that was committed.
    pub(super) fn unsynced(&self) -> &Unsynced {
        &self.unsynced
    }

    /// An empty file for a writer.
    pub(super) fn scratch(self: &Arc<Self>) -> Result<Scratch> {
        let pooled = self.pool.lock().pop();
        let (number, file) = match pooled {
            Some(pooled) => pooled,
            None => self.create()?,
        };
        self.usage.lock().insert(number, Usage { held: true, ..Usage::default() });
        let home: Arc<Files> = Arc::clone(self);
        Ok(Scratch::new(number, file, home))
    }

    fn create(&self) -> Result<(u64, Arc<File>)> {
        loop {
            let number = self.numbers.take()?;
            let path = self.path(number);
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    self.unsynced.folder(folder_of(number));
                    return Ok((number, Arc::new(file)));
                }
                // A leftover of a power loss has the number: it stays to be cleaned up.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io(format!("create {}", path.display()), error)),
            }
        }
    }

    /// The file for reading. Only valid while the caller knows that it is referred to or pinned.
    pub(super) fn open(&self, number: u64) -> io::Result<Arc<File>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(File::open(self.path(number))?);
        self.open.lock().put(number, Arc::clone(&file));
        Ok(file)
    }

    /// Lets readers use a writer's open file.
    pub(super) fn remember(&self, number: u64, file: &Arc<File>) {
        let mut open = self.open.lock();
        if !open.contains(&number) {
            open.put(number, Arc::clone(file));
        }
    }

    /// Counts a reader in. The caller then makes sure that the files are still referred to.
    pub(super) fn pin(&self, numbers: &[u64]) {
        let mut usage = self.usage.lock();
        for number in numbers {
            let fresh = Usage { referenced: true, published: true, ..Usage::default() };
            usage.entry(*number).or_insert(fresh).pins += 1;
        }
    }

    /// Counts a reader out.
    pub(super) fn unpin(&self, numbers: &[u64]) {
        for number in numbers {
            self.release(*number, |usage| usage.pins -= 1);
        }
    }

    /// A scratch file becomes content while its writer goes on.
    pub(super) fn mark_live(&self, number: u64) {
        if let Some(usage) = self.usage.lock().get_mut(&number) {
            usage.live = usage.held;
        }
    }

    /// Whether bytes of one of these files may still change.
    pub(super) fn any_live(&self, numbers: &[u64]) -> bool {
        let usage = self.usage.lock();
        numbers.iter().any(|number| usage.get(number).is_some_and(|usage| usage.held && usage.live))
    }

    /// Gives a file that readers pin to a writer.
    pub(super) fn hold(self: &Arc<Self>, number: u64, file: Arc<File>) -> Scratch {
        let fresh = Usage { published: true, ..Usage::default() };
        self.usage.lock().entry(number).or_insert(fresh).held = true;
        let home: Arc<Files> = Arc::clone(self);
        Scratch::new(number, file, home)
    }

    /// Whether a writer holds the file.
    pub(super) fn is_held(&self, number: u64) -> bool {
        self.usage.lock().get(&number).is_some_and(|usage| usage.held)
    }

    /// How many readers a file has.
    pub(super) fn pins(&self, number: u64) -> u32 {
        self.usage.lock().get(&number).map_or(0, |usage| usage.pins)
    }

    /// Takes note of what was committed: how many records refer to each file now.
    pub(super) fn settle(&self, counts: &[(u64, u64)]) {
        for &(number, count) in counts {
            let unused = {
                let mut usage = self.usage.lock();
                match usage.get_mut(&number) {
                    Some(usage) => {
                        usage.referenced = count > 0;
                        usage.published |= count > 0;
                        false
                    }
                    None => count == 0,
                }
            };
            if unused {
                self.doom(number);
            }
        }
    }

    /// Changes a usage; returns it if that ended it.
    fn release(&self, number: u64, change: impl FnOnce(&mut Usage)) {
        if let Some(ended) = self.end(number, change)
            && !ended.referenced
        {
            self.doom(number);
        }
    }

    fn end(&self, number: u64, change: impl FnOnce(&mut Usage)) -> Option<Usage> {
        let mut all = self.usage.lock();
        let usage = all.get_mut(&number)?;
        change(usage);
        let over = usage.pins == 0 && !usage.held;
        if over { all.remove(&number) } else { None }
    }

    /// Removes a file soon. Nobody can reach it any more.
    pub(super) fn doom(&self, number: u64) {
        self.open.lock().pop(&number);
        self.unsynced.forget(number);
        {
            let mut doomed = self.doomed.lock();
            if doomed.len() < DOOMED_FILES {
                doomed.push(number);
                self.doomed_some.notify_one();
                return;
            }
        }
        self.remove(number);
    }

    fn remove(&self, number: u64) {
        crash_point("delete_before_unlink");
        let path = self.path(number);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a content file that is no longer used could not be removed");
        }
    }

    /// Removes what is doomed. With a timeout, waits so long for something to do.
    pub(super) fn remove_doomed(&self, wait: Option<std::time::Duration>) {
        let numbers = {
            let mut doomed = self.doomed.lock();
            if let Some(wait) = wait
                && doomed.is_empty()
            {
                self.doomed_some.wait_for(&mut doomed, wait);
            }
            std::mem::take(&mut *doomed)
        };
        for number in numbers {
            self.remove(number);
        }
    }

    /// Wakes whoever waits in [`Self::remove_doomed`].
    pub(super) fn wake(&self) {
        self.doomed_some.notify_all();
    }

    /// Removes the pool's files, before a clean end.
    pub(super) fn drain_pool(&self) {
        let pool = std::mem::take(&mut *self.pool.lock());
        for (number, _) in pool {
            self.remove(number);
        }
    }

    /// Whether a file belongs to somebody who is alive: to the pool, a writer or a reader.
    pub(super) fn in_use(&self, number: u64) -> bool {
        self.usage.lock().contains_key(&number)
            || self.pool.lock().iter().any(|(pooled, _)| *pooled == number)
            || self.doomed.lock().contains(&number)
    }

    fn empty_for_next(&self, file: &File) -> io::Result<bool> {
        let now = file.metadata()?;
        if now.len() > POOL_FILE_BYTES || now.blocks() * 512 > POOL_FILE_BYTES {
            return Ok(false);
        }
        if now.len() > 0 || now.blocks() > 0 {
            file.set_len(0)?;
        }
        Ok(true)
    }
}

impl ScratchHome for Files {
    fn give_back(&self, id: u64, file: Arc<File>) {
        let Some(ended) = self.end(id, |usage| usage.held = false) else { return };
        if ended.referenced {
            return;
        }
        crash_point("give_back_after_release");
        // A file that was ever read by others is not used again: a late reader must not see a stranger's bytes.
        if !ended.published
            && self.pool.lock().len() < POOL_FILES
            && self.empty_for_next(&file).unwrap_or(false)
        {
            self.pool.lock().push((id, file));
        } else {
            self.doom(id);
        }
    }
}

/// Which folder a number is in.
pub(super) fn folder_of(number: u64) -> u64 {
    (number / NUMBERS_PER_FOLDER) % FOLDERS
}

/// The name of a folder.
pub(super) fn folder_name(folder: u64) -> String {
    format!("{folder:02x}")
}
