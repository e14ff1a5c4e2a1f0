//! What was committed but may not be on the disk yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::content::FOLDERS;

/// Files remembered one by one; past it, the whole file system is synced instead.
const REMEMBERED_FILES: usize = 512;

/// Files and folders to sync at the next checkpoint.
pub(super) struct Unsynced {
    files: Mutex<Remembered>,
    folders: [AtomicBool; FOLDERS as usize],
}

#[derive(Default)]
struct Remembered {
    sizes: HashMap<u64, u64>,
    bytes: u64,
    /// There were more than are remembered.
    overflow: bool,
}

/// What a checkpoint has to do.
pub(super) struct Work {
    /// File numbers and their sizes.
    pub(super) files: Vec<(u64, u64)>,
    /// Sync everything instead.
    pub(super) everything: bool,
}

impl Default for Unsynced {
    fn default() -> Self {
        Self { files: Mutex::default(), folders: [const { AtomicBool::new(false) }; FOLDERS as usize] }
    }
}

impl Unsynced {
    /// The file got new content of this size.
    pub(super) fn file(&self, number: u64, size: u64) {
        let mut files = self.files.lock();
        if files.sizes.len() >= REMEMBERED_FILES && !files.sizes.contains_key(&number) {
            files.overflow = true;
            files.bytes += size;
            return;
        }
        let before = files.sizes.insert(number, size).unwrap_or(0);
        files.bytes = files.bytes.saturating_sub(before) + size;
    }

    /// Whether the file may have content that is not on the disk.
    pub(super) fn has(&self, number: u64) -> bool {
        let files = self.files.lock();
        files.overflow || files.sizes.contains_key(&number)
    }

    /// A new file is in the folder.
    pub(super) fn folder(&self, folder: u64) {
        self.folders[(folder % FOLDERS) as usize].store(true, Ordering::Relaxed);
    }

    /// The file is gone or synced.
    pub(super) fn forget(&self, number: u64) {
        let mut files = self.files.lock();
        if let Some(size) = files.sizes.remove(&number) {
            files.bytes = files.bytes.saturating_sub(size);
        }
    }

    /// How many files and bytes wait.
    pub(super) fn amount(&self) -> (u64, u64) {
        let files = self.files.lock();
        (files.sizes.len() as u64, files.bytes)
    }

    /// Takes all files out. What becomes unsynced from now on waits for the next checkpoint.
    pub(super) fn take_files(&self) -> Work {
        let taken = std::mem::take(&mut *self.files.lock());
        Work { files: taken.sizes.into_iter().collect(), everything: taken.overflow }
    }

    /// Takes all folders out.
    pub(super) fn take_folders(&self) -> Vec<u64> {
        let taken = self.folders.iter().enumerate().filter(|(_, dirty)| dirty.load(Ordering::Relaxed));
        taken
            .filter(|(_, dirty)| dirty.swap(false, Ordering::Relaxed))
            .map(|(folder, _)| folder as u64)
            .collect()
    }
}
