//! Room on the disk, and the refusal that comes before the disk's own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;

use crate::store::{Result, Space, StoreError};

/// The system is asked at most this often.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Or after this many changes.
const ASK_AFTER: u32 = 256;

/// Kept free for the database's own work and for deletes, but no more than a part of the disk.
const RESERVE_MAX: u64 = 64 << 20;
const RESERVE_PART: u64 = 16;

/// Refuses changes when the disk is nearly full.
pub(super) struct SpaceGuard {
    folder: PathBuf,
    last: Mutex<Option<Asked>>,
}

struct Asked {
    at: Instant,
    changes: u32,
    enough: bool,
}

impl SpaceGuard {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), last: Mutex::new(None) }
    }

    /// Whether a change that adds something may go on.
    pub(super) fn check(&self) -> Result<()> {
        let mut last = self.last.lock();
        let known = match &mut *last {
            Some(asked) if asked.enough && asked.changes < ASK_AFTER && asked.at.elapsed() < ASK_EVERY => {
                asked.changes += 1;
                true
            }
            _ => {
                let space = self.ask()?;
                let reserve = RESERVE_MAX.min(space.total / RESERVE_PART);
                let enough = space.available > reserve;
                *last = Some(Asked { at: Instant::now(), changes: 0, enough });
                enough
            }
        };
        if known { Ok(()) } else { Err(StoreError::Full) }
    }

    /// Room as the system sees it.
    pub(super) fn ask(&self) -> Result<Space> {
        let stat = statvfs(&self.folder).map_err(|error| {
            StoreError::io(format!("free space of {}", self.folder.display()), error.into())
        })?;
        let unit = stat.fragment_size();
        Ok(Space {
            total: stat.blocks() * unit,
            free: stat.blocks_free() * unit,
            available: stat.blocks_available() * unit,
            names_total: stat.files(),
            names_free: stat.files_free(),
        })
    }
}
