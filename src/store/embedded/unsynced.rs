//! What was committed but may not be on the disk yet.
//!
//! A file counts as unsynced until a checkpoint that synced it is over, not until one has begun: whoever asks meanwhile
//! must not take it for durable. Nothing is forgotten here before it is on the disk.
//!
//! ```text
//!   committed --> waiting -- a checkpoint begins --> going -- and ends well --> forgotten
//!                    ^                                 |
//!                    `------------- it fails ----------'
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::content::FOLDERS;

/// Files remembered one by one; past it, the whole file system is synced instead.
const REMEMBERED_FILES: usize = 512;

/// Files and folders to sync at the next checkpoint.
pub(super) struct Unsynced {
    files: Mutex<Both>,
    /// Held by a checkpoint from its first file to its end: one that found nothing to do because another has taken it
    /// would answer too early.
    checkpointing: Mutex<()>,
    folders: [AtomicBool; FOLDERS as usize],
    /// Held while folders are synced, for the same reason.
    syncing_folders: Mutex<()>,
}

#[derive(Default)]
struct Both {
    waiting: Remembered,
    /// What the checkpoint that is under way syncs.
    going: Remembered,
}

#[derive(Default)]
struct Remembered {
    sizes: HashMap<u64, u64>,
    bytes: u64,
    /// There were more than are remembered.
    overflow: bool,
}

impl Remembered {
    fn add(&mut self, number: u64, size: u64) {
        if self.sizes.len() >= REMEMBERED_FILES && !self.sizes.contains_key(&number) {
            self.overflow = true;
            self.bytes += size;
            return;
        }
        let before = self.sizes.insert(number, size).unwrap_or(0);
        self.bytes = self.bytes.saturating_sub(before) + size;
    }

    fn has(&self, number: u64) -> bool {
        self.overflow || self.sizes.contains_key(&number)
    }

    fn forget(&mut self, number: u64) {
        if let Some(size) = self.sizes.remove(&number) {
            self.bytes = self.bytes.saturating_sub(size);
        }
    }

    fn is_empty(&self) -> bool {
        self.sizes.is_empty() && !self.overflow
    }
}

impl Default for Unsynced {
    fn default() -> Self {
        Self {
            files: Mutex::default(),
            checkpointing: Mutex::default(),
            folders: [const { AtomicBool::new(false) }; FOLDERS as usize],
            syncing_folders: Mutex::default(),
        }
    }
}

impl Unsynced {
    /// The file got new content of this size.
    pub(super) fn file(&self, number: u64, size: u64) {
        self.files.lock().waiting.add(number, size);
    }

    /// Whether the file may have content that is not on the disk.
    pub(super) fn has(&self, number: u64) -> bool {
        let files = self.files.lock();
        files.waiting.has(number) || files.going.has(number)
    }

    /// A new file is in the folder.
    pub(super) fn folder(&self, folder: u64) {
        self.folders[(folder % FOLDERS) as usize].store(true, Ordering::Relaxed);
    }

    /// The file is gone.
    pub(super) fn forget(&self, number: u64) {
        let mut files = self.files.lock();
        files.waiting.forget(number);
        files.going.forget(number);
    }

    /// How many files and bytes wait.
    pub(super) fn amount(&self) -> (u64, u64) {
        let Both { waiting, going } = &*self.files.lock();
        let only_going = going.sizes.keys().filter(|number| !waiting.sizes.contains_key(number)).count();
        ((waiting.sizes.len() + only_going) as u64, waiting.bytes + going.bytes)
    }

    /// Whether a checkpoint has no file to sync.
    pub(super) fn is_empty(&self) -> bool {
        let files = self.files.lock();
        files.waiting.is_empty() && files.going.is_empty()
    }

    /// Begins a checkpoint, when the one that is under way is over. What becomes unsynced from now on waits for the
    /// next one.
    pub(super) fn begin(&self) -> Checkpoint<'_> {
        let turn = self.checkpointing.lock();
        let mut both = self.files.lock();
        both.going = std::mem::take(&mut both.waiting);
        let files = both.going.sizes.iter().map(|(number, size)| (*number, *size)).collect();
        Checkpoint { unsynced: self, files, everything: both.going.overflow, _turn: turn }
    }

    /// Syncs all folders with new files by `sync`, when those that somebody else is syncing are on the disk.
    pub(super) fn sync_folders<E>(&self, sync: impl Fn(u64) -> Result<(), E>) -> Result<(), E> {
        let _one_at_a_time = self.syncing_folders.lock();
        for (folder, dirty) in self.folders.iter().enumerate() {
            if dirty.load(Ordering::Relaxed) && dirty.swap(false, Ordering::Relaxed) {
                sync(folder as u64).inspect_err(|_| dirty.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(())
    }
}

/// A checkpoint that is under way. Dropped before it is done, everything waits again.
pub(super) struct Checkpoint<'a> {
    unsynced: &'a Unsynced,
    /// File numbers and their sizes.
    pub(super) files: Vec<(u64, u64)>,
    /// Sync everything instead.
    pub(super) everything: bool,
    _turn: MutexGuard<'a, ()>,
}

impl Checkpoint<'_> {
    /// All of it is on the disk.
    pub(super) fn done(self) {
        self.unsynced.files.lock().going = Remembered::default();
    }
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        let mut both = self.unsynced.files.lock();
        let going = std::mem::take(&mut both.going);
        for (number, size) in going.sizes {
            // What came meanwhile is newer.
            if !both.waiting.sizes.contains_key(&number) {
                both.waiting.add(number, size);
            }
        }
        both.waiting.overflow |= going.overflow;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    const LATE: Duration = Duration::from_millis(50);

    #[test]
    fn a_file_is_unsynced_until_its_checkpoint_is_over() {
        let unsynced = Unsynced::default();
        unsynced.file(1, 10);
        unsynced.file(2, 20);
        let checkpoint = unsynced.begin();
        unsynced.file(2, 25);
        assert!(unsynced.has(1) && unsynced.has(2) && !unsynced.has(3));
        assert_eq!(unsynced.amount().0, 2);
        checkpoint.done();
        assert!(!unsynced.has(1), "synced");
        assert!(unsynced.has(2), "got new content meanwhile");
        assert_eq!(unsynced.amount(), (1, 25));
    }

    #[test]
    fn a_failed_checkpoint_forgets_nothing() {
        let unsynced = Unsynced::default();
        let many = REMEMBERED_FILES as u64 + 10;
        (0..many).for_each(|number| unsynced.file(number, 1));
        let checkpoint = unsynced.begin();
        assert!(checkpoint.everything);
        assert!(unsynced.has(many - 1), "one of those that are not remembered one by one");
        drop(checkpoint);
        assert!(unsynced.has(many - 1) && unsynced.begin().everything);
        // All that are remembered are gone; the others are not.
        (0..many).for_each(|number| unsynced.forget(number));
        assert!(!unsynced.is_empty(), "there is still something to sync");
        unsynced.begin().done();
        assert!(unsynced.is_empty());
    }

    #[test]
    fn a_checkpoint_waits_for_the_one_that_took_the_files() {
        let unsynced = Unsynced::default();
        unsynced.file(1, 1);
        let (ended, end) = channel();
        std::thread::scope(|scope| {
            let first = unsynced.begin();
            let second = || {
                let second = unsynced.begin();
                ended.send(second.files.len()).unwrap();
                second.done();
            };
            scope.spawn(second);
            assert_eq!(end.recv_timeout(LATE), Err(RecvTimeoutError::Timeout));
            drop(first);
            assert_eq!(end.recv_timeout(SOON), Ok(1), "the first failed, so the second has the file");
        });
    }

    #[test]
    fn folders_that_somebody_else_syncs_are_waited_for_and_a_failure_forgets_none() {
        let unsynced = Unsynced::default();
        [3, 5, 7].into_iter().for_each(|folder| unsynced.folder(folder));
        let refused = unsynced.sync_folders(|folder| if folder == 5 { Err(folder) } else { Ok(()) });
        assert_eq!(refused, Err(5));
        let (begun, begin) = channel();
        let (go_on, wait) = channel::<()>();
        let (ended, end) = channel();
        std::thread::scope(|scope| {
            let unsynced = &unsynced;
            scope.spawn(move || {
                unsynced.sync_folders(|folder| {
                    begun.send(folder).unwrap();
                    wait.recv_timeout(SOON)
                })
            });
            assert_eq!(begin.recv_timeout(SOON), Ok(5));
            scope.spawn(move || {
                unsynced.sync_folders(|_| Err("synced already")).unwrap();
                ended.send(()).unwrap();
            });
            assert_eq!(end.recv_timeout(LATE), Err(RecvTimeoutError::Timeout));
            go_on.send(()).unwrap();
            assert_eq!(begin.recv_timeout(SOON), Ok(7));
            go_on.send(()).unwrap();
            assert_eq!(end.recv_timeout(SOON), Ok(()));
        });
    }
}
