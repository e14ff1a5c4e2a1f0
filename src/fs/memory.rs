//! The bytes of a small new file, kept in memory until it is committed or outgrows its room.
//!
//! A file that never gets bigger than what the store keeps in its index needs no local file at all: its commits are
//! copies anyway. The engine moves the bytes of such a file, never the kernel. What is here was not acknowledged by
//! any close or fsync yet, or is in the store as well.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::share::Moment;
use crate::store::{Scratch, sparse};

use super::content::Live;

/// So many files may have their bytes here at a time; each has at most what the store keeps in its index.
const FILES_MAX: usize = 1024;

/// Counts the files whose bytes are in memory.
#[derive(Debug, Default)]
pub(super) struct Budget {
    used: Arc<AtomicUsize>,
}

impl Budget {
    /// Room for one more file, if there is any.
    pub(super) fn take(&self) -> Option<Room> {
        let taken = self.used.fetch_add(1, Ordering::Relaxed) < FILES_MAX;
        // Dropped at once if it was one too many.
        let room = Room { used: Arc::clone(&self.used) };
        taken.then_some(room)
    }
}

/// The right to keep one file in memory.
#[derive(Debug)]
pub struct Room {
    used: Arc<AtomicUsize>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Content in memory.
#[derive(Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    /// No more bytes than this.
    limit: u64,
    /// When it was changed, if that is not committed yet.
    changed: Option<Moment>,
    _room: Room,
}

impl Memory {
    /// Empty content of a file that was just committed, empty.
    pub(super) fn new(room: Room, limit: u64) -> Self {
        Self { bytes: Vec::new(), limit, changed: None, _room: room }
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// When it was changed, if that is not committed yet.
    pub fn changed(&self) -> Option<Moment> {
        self.changed
    }

    /// Whether the content may become so long.
    pub fn fits(&self, size: u64) -> bool {
        size <= self.limit
    }

    /// Reads at `offset`; returns how much there was.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let length = (self.bytes.len() - start).min(buffer.len());
        buffer[..length].copy_from_slice(&self.bytes[start..start + length]);
        length
    }

    /// Writes `data`, which must [fit](Self::fits).
    pub fn write(&mut self, data: &[u8], offset: u64, now: Moment) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(data.len());
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(data);
        self.changed = Some(now);
    }

    /// Cuts or extends with zeros to a size that must [fit](Self::fits).
    pub fn truncate(&mut self, size: u64, now: Moment) {
        self.bytes.resize(usize::try_from(size).unwrap_or(usize::MAX), 0);
        self.changed = Some(now);
    }

    /// A time set by a program stays when the change before it is committed.
    pub fn set_mtime(&mut self, mtime: Moment) {
        if let Some(changed) = &mut self.changed {
            *changed = mtime;
        }
    }

    /// The bytes, for a commit.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes)
    }

    /// The content is committed as it is.
    pub fn note_committed(&mut self) {
        self.changed = None;
    }

    /// Moves the bytes to a file, because they do not fit any more; `committed` is the time of the last commit.
    pub fn spill(&self, scratch: Scratch, committed: Moment) -> io::Result<Live> {
        scratch.file().write_all_at(&self.bytes, 0)?;
        sparse::set_modified(scratch.file(), self.changed.unwrap_or(committed))?;
        Ok(Live::new(scratch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(1);

    #[test]
    fn there_is_room_for_so_many_files_and_no_more() {
        let budget = Budget::default();
        let mut rooms: Vec<Room> = (0..FILES_MAX).map(|_| budget.take().unwrap()).collect();
        assert!(budget.take().is_none() && budget.take().is_none());
        rooms.pop();
        assert!(budget.take().is_some());
    }

    #[test]
    fn gaps_and_cuts_read_as_zeros() {
        let mut memory = Memory::new(Budget::default().take().unwrap(), 16);
        memory.write(b"abc", 4, NOW);
        let mut buffer = [9; 10];
        assert_eq!(memory.read(&mut buffer, 0), 7);
        assert_eq!(&buffer[..7], b"\0\0\0\0abc");
        memory.truncate(5, NOW);
        memory.truncate(7, NOW);
        assert_eq!(&*memory.to_bytes(), b"\0\0\0\0a\0\0");
        assert_eq!(memory.read(&mut buffer, 100), 0);
        assert!(memory.fits(16) && !memory.fits(17));
    }
}
