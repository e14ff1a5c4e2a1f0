//! Syncing the key-value library's journal beside the library.
//!
//! The library syncs under the mutex that every write takes: nobody can write during a sync, so those who wait for the
//! next one never become many, and threads that must not wait do. A batch is with the operating system when its commit
//! returns, so a sync through a descriptor of our own does the same without the mutex.
//!
//! Part of what `kv` knows about the library: the journal is the file `N.jnl` with the highest number in the
//! database's folder, and the library syncs a journal before it makes the next one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// How often the newest journal may vanish while it is looked for.
const TRIES: usize = 10;

/// The journal of the database in a folder.
pub(super) struct Journal {
    folder: PathBuf,
    /// The newest one when it was last looked for, and its number.
    newest: Mutex<Option<(u64, Arc<File>)>>,
}

impl Journal {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), newest: Mutex::new(None) }
    }

    /// Makes every batch committed so far survive a power loss.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.newest()?.sync_data()
    }

    /// Forgets the open file: the database is being opened anew.
    pub(super) fn forget(&self) {
        *self.newest.lock() = None;
    }

    /// A batch that is not in the newest journal is in one that was synced.
    fn newest(&self) -> io::Result<Arc<File>> {
        for _ in 0..TRIES {
            let number = newest_number(&self.folder)?;
            let mut known = self.newest.lock();
            if let Some((known, file)) = &*known
                && *known == number
            {
                return Ok(Arc::clone(file));
            }
            match File::open(named(&self.folder, number)) {
                Ok(file) => {
                    let file = Arc::new(file);
                    *known = Some((number, Arc::clone(&file)));
                    return Ok(file);
                }
                // Done with and removed; there is a newer one.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the journal of the database is not where it should be"))
    }
}

/// The newest journal of the database in a folder.
pub(super) fn newest(folder: &Path) -> io::Result<PathBuf> {
    Ok(named(folder, newest_number(folder)?))
}

fn named(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.jnl"))
}

fn newest_number(folder: &Path) -> io::Result<u64> {
    let mut newest = None;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok());
        newest = newest.max(number);
    }
    newest.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the database has no journal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_journal_is_found_again_when_there_is_a_newer_one() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path());
        assert!(journal.sync().is_err());
        for (name, newest) in [("2.jnl", 2), ("10.jnl", 10), ("9.jnl", 10), ("x.jnl", 10)] {
            std::fs::write(folder.path().join(name), "x").unwrap();
            journal.sync().unwrap();
            assert_eq!(journal.newest.lock().as_ref().map(|(number, _)| *number), Some(newest));
        }
        std::fs::remove_file(folder.path().join("10.jnl")).unwrap();
        journal.sync().unwrap();
        assert_eq!(journal.newest.lock().as_ref().map(|(number, _)| *number), Some(9));
    }
}
