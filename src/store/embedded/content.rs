//! Content files: where they are, who uses them, and when they go.
//!
//! A content file has a number and is named after it. Bytes that a committed version refers to never change, except
//! through a scratch file that is still held by its writer, and by `tidy`, which asks this module whether anybody
//! looks. A file is removed when no record refers to it, no reader pins it and no writer holds it, and not before
//! the batch that dropped the last reference is on the disk: after a power loss an older record may count again. This
//! module never touches the database; the transaction tells it what was committed.
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
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::{Condvar, Mutex};

use crate::store::{Exposure, Result, Scratch, ScratchHome, StoreError, crash_point};

use super::numbers::Numbers;
use super::pool::{Given, Pool};
use super::record::Extent;
use super::startup::sync_folder;
use super::unsynced::Unsynced;

/// Folders the files are spread over.
pub(super) const FOLDERS: u64 = 256;

/// Neighbouring numbers share a folder, so that a burst of new files makes few folders dirty.
const NUMBERS_PER_FOLDER: u64 = 1024;

/// Open files kept for the next readers.
const OPEN_FILES: usize = 256;

/// Files waiting to be removed by the keeper, 8 MiB of numbers; more are left for the next start to clean up. The keeper
/// comes by every second, but for long checkpoints.
const DOOMED_FILES: usize = 1 << 20;

/// So many of them are worth a sync of the database that nobody asked for; fewer wait for the keeper's next look.
const DOOMED_WORTH: usize = 256;

/// How a file that somebody uses stands.
#[derive(Clone, Default)]
struct Usage {
    /// The pieces of the versions that readers of this file read, one for each reader.
    readers: Vec<Arc<[Extent]>>,
    /// A scratch file with a living writer.
    held: bool,
    /// Published as a whole while held: its bytes may still change.
    live: bool,
    /// Some committed record refers to it.
    referenced: bool,
    /// Some committed record ever did.
    published: bool,
}

/// Files to be removed by the keeper.
#[derive(Default)]
struct Doomed {
    numbers: Vec<u64>,
    /// Somebody wants the keeper to look around.
    woken: bool,
    /// Taken by the keeper and not yet removed.
    going: Vec<u64>,
    /// Not removed, because the database could not be synced. Tried again with the next ones.
    put_off: Vec<u64>,
    /// Some were left for the next start to clean up.
    too_many: bool,
}

/// The content files of a store.
pub(super) struct Files {
    folder: PathBuf,
    numbers: Arc<Numbers>,
    /// Files that are pinned or held.
    usage: Mutex<HashMap<u64, Usage>>,
    open: Mutex<LruCache<u64, Arc<File>>>,
    pool: Pool,
    doomed: Mutex<Doomed>,
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
            pool: Pool::default(),
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
        let (number, file) = match self.pool.take() {
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
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.make_folder(folder_of(number))?;
                }
                // A leftover of a power loss has the number: it stays to be cleaned up.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io(format!("create {}", path.display()), error)),
            }
        }
    }

    fn make_folder(&self, folder: u64) -> Result<()> {
        let path = self.folder.join(folder_name(folder));
        match fs::create_dir(&path).and_then(|()| sync_folder(&self.folder)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(StoreError::io(format!("create {}", path.display()), error))
            }
            _ => Ok(()),
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

    /// Counts a reader of a version in. The caller then makes sure that the version is still there.
    pub(super) fn pin(&self, numbers: &[u64], version: &Arc<[Extent]>) {
        let mut usage = self.usage.lock();
        for number in numbers {
            let fresh = || Usage { referenced: true, published: true, ..Usage::default() };
            usage.entry(*number).or_insert_with(fresh).readers.push(Arc::clone(version));
        }
    }

    /// Counts a reader of a version out.
    pub(super) fn unpin(&self, numbers: &[u64], version: &Arc<[Extent]>) {
        for number in numbers {
            let ended = self.end(*number, |usage| {
                if let Some(index) = usage.readers.iter().position(|reader| Arc::ptr_eq(reader, version)) {
                    usage.readers.swap_remove(index);
                }
            });
            if ended.is_some_and(|ended| !ended.referenced) {
                self.doom(*number);
            }
        }
    }

    /// A scratch file becomes content while its writer goes on.
    pub(super) fn mark_live(&self, number: u64) {
        if let Some(usage) = self.usage.lock().get_mut(&number) {
            usage.live = usage.held;
        }
    }

    /// Whether there is any file whose bytes may still change.
    pub(super) fn has_live(&self) -> bool {
        self.usage.lock().values().any(|usage| usage.held && usage.live)
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
        // The writer's own descriptor is to be the only one of ours.
        self.open.lock().pop(&number);
        let home: Arc<Files> = Arc::clone(self);
        Scratch::new(number, file, home)
    }

    /// Whether a writer holds the file.
    pub(super) fn is_held(&self, number: u64) -> bool {
        self.usage.lock().get(&number).is_some_and(|usage| usage.held)
    }

    /// The pieces of the versions that readers of a file read.
    pub(super) fn readers(&self, number: u64) -> Vec<Arc<[Extent]>> {
        self.usage.lock().get(&number).map_or_else(Vec::new, |usage| usage.readers.clone())
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

    /// Changes a usage; answers it if that ended it.
    fn end(&self, number: u64, change: impl FnOnce(&mut Usage)) -> Option<Usage> {
        let mut all = self.usage.lock();
        let usage = all.get_mut(&number)?;
        change(usage);
        let over = usage.readers.is_empty() && !usage.held;
        if over { all.remove(&number) } else { None }
    }

    /// Removes a file soon. Nobody can reach it any more.
    pub(super) fn doom(&self, number: u64) {
        self.open.lock().pop(&number);
        self.unsynced.forget(number);
        let mut doomed = self.doomed.lock();
        if doomed.numbers.len() >= DOOMED_FILES {
            doomed.too_many = true;
            return;
        }
        doomed.numbers.push(number);
        if doomed.numbers.len() == DOOMED_WORTH {
            self.doomed_some.notify_one();
        }
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

    /// Waits at most so long for many files to remove, then takes what is there. They may be removed after the next sync.
    pub(super) fn take_doomed(&self, wait: Duration) -> Vec<u64> {
        let mut doomed = self.doomed.lock();
        let goes_on = |doomed: &mut Doomed| doomed.numbers.len() < DOOMED_WORTH && !doomed.woken;
        self.doomed_some.wait_while_for(&mut doomed, goes_on, wait);
        doomed.woken = false;
        doomed.going = std::mem::take(&mut doomed.numbers);
        let put_off = std::mem::take(&mut doomed.put_off);
        doomed.going.extend(put_off);
        doomed.going.clone()
    }

    /// The files that were taken cannot be removed yet: the last reference may still be on the disk.
    pub(super) fn put_off(&self) {
        let mut doomed = self.doomed.lock();
        doomed.put_off = std::mem::take(&mut doomed.going);
    }

    /// Removes files whose last reference is gone from the disk too, and empties what came back to the pool.
    pub(super) fn remove_all(&self, doomed: Vec<u64>) {
        for number in doomed.into_iter().chain(self.pool.tidy_up()) {
            self.remove(number);
        }
        self.doomed.lock().going.clear();
    }

    /// Whether files that nothing refers to were left in place.
    pub(super) fn left_some(&self) -> bool {
        let doomed = self.doomed.lock();
        doomed.too_many || !doomed.put_off.is_empty()
    }

    /// Wakes whoever waits in [`Self::take_doomed`].
    pub(super) fn wake(&self) {
        self.doomed.lock().woken = true;
        self.doomed_some.notify_all();
    }

    /// Removes the files that no record will ever refer to, before a clean end: the pool's, and those that a writer
    /// or reader still has, who keeps the bytes without the name.
    pub(super) fn drain_unused(&self) {
        self.pool.drain().into_iter().for_each(|number| self.remove(number));
        let unused: Vec<u64> = self
            .usage
            .lock()
            .iter()
            .filter(|(_, usage)| !usage.referenced)
            .map(|(number, _)| *number)
            .collect();
        unused.into_iter().for_each(|number| self.remove(number));
    }

    /// Whether a file belongs to somebody who is alive: to the pool, a writer or a reader.
    pub(super) fn in_use(&self, number: u64) -> bool {
        let doomed = || {
            let doomed = self.doomed.lock();
            let Doomed { numbers, going, put_off, .. } = &*doomed;
            [numbers, going, put_off].iter().any(|some| some.contains(&number))
        };
        self.usage.lock().contains_key(&number) || self.pool.contains(number) || doomed()
    }
}

impl ScratchHome for Files {
    fn give_back(&self, id: u64, file: Arc<File>, exposure: Exposure) {
        let Some(ended) = self.end(id, |usage| usage.held = false) else { return };
        if ended.referenced {
            return;
        }
        crash_point("give_back_after_release");
        // A file that was ever read by others is not used again: a late reader must not see a stranger's bytes.
        if ended.published || exposure == Exposure::Readable {
            return self.doom(id);
        }
        match self.pool.give(id, file, exposure) {
            Given::Kept => {}
            Given::KeptAndMany => self.wake(),
            Given::Refused => self.doom(id),
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
