//! Room on the disk: the refusal that comes before the disk's own, and a ballast that is dropped when all is full.
//!
//! A change that adds something is refused while some room is left, so that what the database writes in the
//! background still fits. If the disk is filled to the last byte all the same (others write to it, and content is
//! written past this module), a delete could not even be noted down; then the ballast makes room for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;

use crate::store::{Result, Space, StoreError};

/// The system is asked at most this often.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Or after this many changes.
const ASK_AFTER: u32 = 256;

/// Kept free for the database's own work, but no more than a part of the disk.
const RESERVE_MAX: u64 = 64 << 20;
const RESERVE_PART: u64 = 16;

/// On a big disk more is kept: enough for the biggest merge of fresh tables (256 MiB and those), which deletes set off
/// and which must not fail, because the database would begin it again at every start.
const MERGE_MAX: u64 = 384 << 20;
const MERGE_PART: u64 = 64;

/// One part in so many of the reserve is for deletes alone.
const DELETES_PART: u64 = 8;

/// Size of the ballast, but no more than a part of the disk.
const BALLAST_MAX: u64 = 8 << 20;
const BALLAST_PART: u64 = 32;

const BALLAST_FILE: &str = "ballast";

/// Refuses changes when the disk is nearly full.
pub(super) struct SpaceGuard {
    folder: PathBuf,
    last: Mutex<State>,
    #[cfg(test)]
    pretends_tight: std::sync::atomic::AtomicBool,
}

struct State {
    asked: Option<Instant>,
    changes: u32,
    room: Room,
    ballast: bool,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// Enough for everything.
    Enough,
    /// Only for deletes.
    Reserve,
    /// Hardly even for those.
    Nothing,
}

fn reserve(space: &Space) -> u64 {
    let small = RESERVE_MAX.min(space.total / RESERVE_PART);
    small.max(MERGE_MAX.min(space.total / MERGE_PART))
}

fn ballast(space: &Space) -> u64 {
    BALLAST_MAX.min(space.total / BALLAST_PART)
}

impl SpaceGuard {
    pub(super) fn new(folder: &Path) -> Self {
        let ballast = fs::metadata(folder.join(BALLAST_FILE)).is_ok_and(|file| file.len() > 0);
        let state = State { asked: None, changes: 0, room: Room::Enough, ballast };
        Self {
            folder: folder.to_owned(),
            last: Mutex::new(state),
            #[cfg(test)]
            pretends_tight: Default::default(),
        }
    }

    /// Whether a change that adds something may go on.
    pub(super) fn check(&self) -> Result<()> {
        match self.room()? {
            Room::Enough => Ok(()),
            Room::Reserve | Room::Nothing => Err(StoreError::Full),
        }
    }

    /// Before a change that frees something: drops the ballast if there is no other room.
    pub(super) fn make_room(&self) {
        if matches!(self.room(), Ok(Room::Nothing)) {
            let mut last = self.last.lock();
            if std::mem::take(&mut last.ballast) {
                tracing::warn!(folder = %self.folder.display(), "the disk is full; deletes use the last reserve");
                let _ = fs::remove_file(self.folder.join(BALLAST_FILE));
            }
        }
    }

    /// Whether there was too little room when it was last looked: what can be freed should be freed soon.
    pub(super) fn is_tight(&self) -> bool {
        self.last.lock().room != Room::Enough
    }

    /// For tests: as if others had filled the disk but for the reserve.
    #[cfg(test)]
    pub(super) fn pretend_tight(&self) {
        self.pretends_tight.store(true, std::sync::atomic::Ordering::Relaxed);
        self.distrust();
    }

    /// A write failed for want of room: ask the system before the next.
    pub(super) fn distrust(&self) {
        self.last.lock().asked = None;
    }

    /// Whether a failure may be due to a full disk, whatever it said.
    pub(super) fn is_low(&self) -> bool {
        self.ask().is_ok_and(|space| space.available <= reserve(&space))
    }

    fn room(&self) -> Result<Room> {
        let mut last = self.last.lock();
        let fresh = last.asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY);
        if fresh && last.changes < ASK_AFTER && last.room == Room::Enough {
            last.changes += 1;
            return Ok(Room::Enough);
        }
        let space = self.ask()?;
        let room = match space.available {
            room if room > reserve(&space) => Room::Enough,
            room if room > ballast(&space) / 2 => Room::Reserve,
            _ => Room::Nothing,
        };
        (last.asked, last.changes, last.room) = (Some(Instant::now()), 0, room);
        if !last.ballast && space.available > reserve(&space) + 2 * ballast(&space) {
            last.ballast = self.lay_ballast(ballast(&space));
        }
        Ok(room)
    }

    fn lay_ballast(&self, size: u64) -> bool {
        let path = self.folder.join(BALLAST_FILE);
        let laid = File::create(&path)
            .and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, size.cast_signed())?));
        if laid.is_err() {
            let _ = fs::remove_file(&path);
        }
        laid.is_ok()
    }

    /// How much can be added before changes are refused.
    pub(super) fn left(&self) -> Result<u64> {
        let space = self.ask()?;
        Ok(space.available.saturating_sub(reserve(&space)))
    }

    /// How much there is for work that frees more than it takes: the reserve but for what deletes need meanwhile.
    pub(super) fn left_for_upkeep(&self) -> Result<u64> {
        let space = self.ask()?;
        Ok(space.available.saturating_sub(reserve(&space) / DELETES_PART))
    }

    /// Room as the system sees it.
    pub(super) fn ask(&self) -> Result<Space> {
        let stat = statvfs(&self.folder).map_err(|error| {
            StoreError::io(format!("free space of {}", self.folder.display()), error.into())
        })?;
        let unit = stat.fragment_size();
        let space = Space {
            total: stat.blocks() * unit,
            free: stat.blocks_free() * unit,
            available: stat.blocks_available() * unit,
            names_total: stat.files(),
            names_free: stat.files_free(),
        };
        #[cfg(test)]
        if self.pretends_tight.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(Space { available: reserve(&space), ..space });
        }
        Ok(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_big_disk_keeps_room_for_a_merge_and_a_small_one_is_not_used_up() {
        const MIB: u64 = 1 << 20;
        let of = |mib: u64| {
            let total = mib * MIB;
            reserve(&Space { total, free: 0, available: 0, names_total: 0, names_free: 0 }) / MIB
        };
        assert_eq!(
            [of(96), of(1024), of(4096), of(16 << 10), of(24 << 10), of(1 << 20)],
            [6, 64, 64, 256, 384, 384]
        );
        // The merge of four fresh tables of 8 MiB, and one being written.
        const { assert!(384 - 384 / DELETES_PART >= 256 + 4 * 8 + 8) };
    }
}
