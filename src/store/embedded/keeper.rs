//! The thread that does what can wait: removing files, checkpoints, compaction, emptying deleted containers.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::store::{Progress, Result, StoreError, crash_point};

use super::EmbeddedStore;
use super::committer::{persist, sync_folders};
use super::compactor::Compactor;
use super::content::{FOLDERS, Files, folder_name};
use super::kv::{Kv, Space};
use super::parts::Parts;
use super::purge::Purged;

/// How often the thread looks for work that nobody announces.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often staged blocks that were never committed are looked for.
const STALE_EVERY: Duration = Duration::from_secs(3600);

/// The handle of the keeper thread.
#[derive(Default)]
pub(super) struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    cleaning: Mutex<Cleaning>,
    cleaned: Condvar,
}

/// Whether leftovers of a crash are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cleaning {
    #[default]
    Done,
    Running,
    /// Some are still there; the next start tries again.
    Unfinished,
}

impl Keeper {
    /// Starts the thread. After a crash, content files below `leftovers` that nothing refers to are removed first.
    pub(super) fn start(&self, store: &Arc<Parts>, checkpoint_every: Duration, leftovers: Option<u64>) {
        let work = Work {
            store: Arc::downgrade(store),
            kv: Arc::clone(&store.kv),
            files: Arc::clone(&store.files),
            shared: Arc::clone(&self.shared),
            checkpoint_every,
        };
        let cleaning = if leftovers.is_some() { Cleaning::Running } else { Cleaning::Done };
        *self.shared.cleaning.lock() = cleaning;
        let spawned =
            std::thread::Builder::new().name("store-keeper".into()).spawn(move || work.run(leftovers));
        match spawned {
            Ok(thread) => *self.thread.lock() = Some(thread),
            Err(error) => {
                *self.shared.cleaning.lock() = Cleaning::Unfinished;
                tracing::error!(%error, "the keeper could not be started");
            }
        }
    }

    /// Whether leftovers of a crash may still be there.
    pub(super) fn has_leftovers(&self) -> bool {
        *self.shared.cleaning.lock() != Cleaning::Done
    }

    /// Waits until leftovers of a crash are removed.
    pub(super) fn wait_for_leftovers(&self) {
        let mut cleaning = self.shared.cleaning.lock();
        self.shared.cleaned.wait_while(&mut cleaning, |cleaning| *cleaning == Cleaning::Running);
    }

    /// Ends the thread.
    pub(super) fn stop(&self, files: &Files) {
        self.shared.stop.store(true, Ordering::Relaxed);
        files.wake();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Work {
    store: Weak<Parts>,
    kv: Arc<Kv>,
    files: Arc<Files>,
    shared: Arc<Shared>,
    checkpoint_every: Duration,
}

impl Work {
    fn run(&self, leftovers: Option<u64>) {
        let cleaned = match leftovers.map_or(Ok(true), |below| self.remove_leftovers(below)) {
            Ok(true) => Cleaning::Done,
            Ok(false) => Cleaning::Unfinished,
            Err(error) => {
                tracing::warn!(%error, "leftovers of a crash could not all be removed");
                Cleaning::Unfinished
            }
        };
        *self.shared.cleaning.lock() = cleaned;
        self.shared.cleaned.notify_all();
        let mut checkpointed = Instant::now();
        let mut compactor = Compactor::new(Arc::clone(&self.kv), Weak::clone(&self.store));
        let mut look_for_stale = Instant::now();
        while !self.shared.stop.load(Ordering::Relaxed) {
            remove_doomed(&self.kv, &self.files, LOOK_EVERY.min(self.checkpoint_every));
            self.checkpoint_if_due(&mut checkpointed);
            compactor.look();
            self.purge(&mut checkpointed);
            if Instant::now() >= look_for_stale {
                look_for_stale = Instant::now() + STALE_EVERY;
                self.drop_stale_blocks();
            }
        }
    }

    fn checkpoint_if_due(&self, last: &mut Instant) {
        if last.elapsed() >= self.checkpoint_every {
            self.checkpoint();
            *last = Instant::now();
        }
    }

    fn checkpoint(&self) {
        if !self.kv.is_dirty() && self.files.unsynced().is_empty() {
            return;
        }
        if let Err(error) = checkpoint(&self.kv, &self.files, |_| {}) {
            tracing::error!(%error, "a checkpoint failed and will be tried again");
        }
    }

    /// Empties deleted containers. That can take long, so what is due meanwhile is done meanwhile; above all, the files
    /// of a big container are more than can wait to be removed.
    fn purge(&self, checkpointed: &mut Instant) {
        let mut purged = Purged::default();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let Some(store) = self.store.upgrade().map(EmbeddedStore::keeper_user) else { return };
            match store.purge_some(&mut purged) {
                Ok(true) => {
                    remove_doomed(&self.kv, &self.files, Duration::ZERO);
                    self.checkpoint_if_due(checkpointed);
                }
                Ok(false) => return,
                Err(error) => {
                    tracing::error!(%error, "a deleted container could not be emptied");
                    return;
                }
            }
        }
    }

    fn drop_stale_blocks(&self) {
        let Some(store) = self.store.upgrade().map(EmbeddedStore::keeper_user) else { return };
        if let Err(error) = store.drop_stale_blocks() {
            tracing::warn!(%error, "blocks that were never committed could not be dropped");
        }
    }

    /// `false` if it was stopped before the end.
    fn remove_leftovers(&self, below: u64) -> Result<bool> {
        let mut removed = 0u64;
        for folder in 0..FOLDERS {
            let path = self.files.folder().join(folder_name(folder));
            let failed = |error| StoreError::io(format!("read {}", path.display()), error);
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for entry in entries {
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let entry = entry.map_err(failed)?;
                let name = entry.file_name();
                let number = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
                let Some(number) = number.filter(|number| *number < below) else { continue };
                if self.kv.get(Space::Contents, &number.to_be_bytes())?.is_none()
                    && !self.files.in_use(number)
                {
                    crash_point("leftovers_before_unlink");
                    fs::remove_file(entry.path()).map_err(failed)?;
                    removed += 1;
                }
            }
        }
        if removed > 0 {
            tracing::info!(removed, "removed content files that an interrupted process left over");
        }
        Ok(true)
    }
}

/// Removes files that nothing refers to, once that is on the disk.
pub(super) fn remove_doomed(kv: &Kv, files: &Files, wait: Duration) {
    let doomed = files.take_doomed(wait);
    if !doomed.is_empty()
        && let Err(error) = settle_removals(kv, files)
    {
        tracing::error!(%error, "content files that are no longer used stay for now");
        return files.put_off();
    }
    files.remove_all(doomed);
}

/// The names of new files come to the disk even if no record has to: a record that was synced as part of something else
/// may name one of them instead of a file that goes now.
fn settle_removals(kv: &Kv, files: &Files) -> Result<()> {
    sync_folders(files)?;
    if kv.is_dirty() {
        kv.sync()?;
    }
    Ok(())
}

/// Makes everything committed so far survive a power loss: contents first, then the records that name them.
pub(super) fn checkpoint(kv: &Kv, files: &Files, progress: impl Fn(Progress)) -> Result<()> {
    let work = files.unsynced().begin();
    let bytes = work.files.iter().map(|(_, size)| size).sum();
    let files_total = work.files.len() as u64;
    let mut now = Progress { files_done: 0, files_total, bytes_done: 0, bytes_total: bytes };
    if work.everything {
        sync_file_system(files)?;
    } else {
        for &(number, size) in &work.files {
            sync_content(files, number)?;
            now.files_done += 1;
            now.bytes_done += size;
            progress(now);
        }
    }
    crash_point("checkpoint_after_files");
    persist(kv, files)?;
    work.done();
    Ok(())
}

fn sync_content(files: &Files, number: u64) -> Result<()> {
    match files.open(number) {
        Ok(file) => file.sync_data().map_err(|error| StoreError::io("sync content", error)),
        // Removed meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("sync content", error)),
    }
}

fn sync_file_system(files: &Files) -> Result<()> {
    let failed = |error| StoreError::io("sync the file system", error);
    let folder = fs::File::open(files.folder()).map_err(failed)?;
    nix::unistd::syncfs(folder).map_err(|errno| failed(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, block_on, share, small};
    use super::*;
    use crate::store::{BlobStore, Preconditions};

    /// Longer than any of these tests may take.
    const FOREVER: Duration = Duration::from_secs(600);

    /// The keeper's work, with nobody doing it.
    fn idle(bench: &Bench, checkpoint_every: Duration) -> Work {
        let store = &bench.store;
        store.keeper.stop(&store.files);
        Work {
            store: Arc::downgrade(&store.parts),
            kv: Arc::clone(&store.kv),
            files: Arc::clone(&store.files),
            shared: Arc::default(),
            checkpoint_every,
        }
    }

    fn content_files(files: &Files) -> usize {
        let folders = fs::read_dir(files.folder()).unwrap();
        folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
    }

    #[test]
    fn files_are_removed_and_checkpoints_made_while_a_container_is_emptied() {
        let bench = Bench::new(small());
        let work = idle(&bench, Duration::ZERO);
        (0..600).for_each(|number| drop(bench.put(&format!("f{number}"), &[1; 100])));
        assert!(content_files(&work.files) >= 600);
        block_on(bench.store.delete_container(&share(), &Preconditions::default())).unwrap();
        block_on(bench.store.create_container(&share(), Default::default(), Default::default())).unwrap();
        bench.put("other", &[1; 100]);
        assert!(!work.files.unsynced().is_empty());
        work.purge(&mut Instant::now());
        assert_eq!(content_files(&work.files), 1, "files wait for the end of the purge");
        assert!(work.files.unsynced().is_empty(), "no checkpoint was made");
        bench.assert_clean();
    }

    #[test]
    fn names_of_new_files_are_on_the_disk_before_old_files_go() {
        let bench = Bench::new(small());
        let work = idle(&bench, FOREVER);
        bench.put("f", &[1; 100]);
        bench.put("f", &[2; 100]);
        // As when a key space is sealed: the records are on the disk, the names of the files are not.
        work.kv.sync().unwrap();
        remove_doomed(&work.kv, &work.files, Duration::ZERO);
        assert_eq!(content_files(&work.files), 1);
        let left = std::cell::Cell::new(0);
        let synced = work.files.unsynced().sync_folders(|_| {
            left.set(left.get() + 1);
            Ok::<(), StoreError>(())
        });
        synced.unwrap();
        assert_eq!(left.get(), 0, "a folder was not synced");
    }
}
