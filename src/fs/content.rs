//! The bytes of an open file, wherever they are at the moment.
//!
//! ```text
//!                 first write, small or truncated          commit: publish the file
//!        ┌────────────────────────────────────────┐  ┌──────────────┐
//!        │                                        v  │              v
//!   Clean: one committed version              Live: one local file, written in place
//!        │  ^                                     (by us, or by the kernel through passthrough)
//!        │  │ commit: patch
//!        v  │
//!   Overlay: a committed version + changed ranges in a scratch file (a small change of a big file)
//!
//!   Memory: a new file of a program that makes small files ── outgrows its room ──> Live
//! ```
//!
//! A committed version never changes under its readers. `Live` content that was committed once is the exception:
//! what is written to it later shows in the blob before the next commit, as it would on a local disk.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::share::Moment;
use crate::store::{Change, ContentReader, Scratch, sparse};

use super::changes::{ChangeMap, Whereabouts};
use super::gathered::Gathered;
use super::memory::Memory;

/// Content up to this size is copied into a scratch file before it is changed: then one local file holds all of it.
/// Above it, only changes are kept.
pub const COPY_MAX: u64 = 1 << 20;

/// How much is moved at a time when content is copied.
pub const COPY_CHUNK: usize = 1 << 20;

/// The state of an open file's bytes.
#[derive(Debug)]
pub enum Content {
    /// Exactly one committed version.
    Clean(ContentReader),
    /// One local file that is written in place.
    Live(Live),
    /// A committed version with changes on top.
    Overlay(Overlay),
    /// A small new file.
    Memory(Memory),
}

/// Content that is one local file.
#[derive(Debug)]
pub struct Live {
    scratch: Scratch,
    baseline: Baseline,
}

/// What a local file is compared with to tell whether it was changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Baseline {
    /// What the file looked like when its content was that of the committed version; absent if it never was.
    committed: Option<Stamp>,
    /// How much of the file the blob refers to.
    published: u64,
    /// Hash of content that was committed as a copy. A page that a program has mapped can be changed again without
    /// any stamp changing, so the bytes themselves are compared.
    copied: Option<u64>,
}

impl Baseline {
    /// Makes it the baseline of `scratch`.
    pub fn with(self, scratch: Scratch) -> Live {
        Live { scratch, baseline: self }
    }
}

/// Changes on top of a committed version.
#[derive(Debug)]
pub struct Overlay {
    base: ContentReader,
    /// Changed bytes.
    gathered: Gathered,
    /// Where the changed bytes of the file are in there.
    changes: ChangeMap,
    size: u64,
    /// Bytes of the base at and behind this were cut off once and read as zeros.
    base_limit: u64,
    mtime: Moment,
}

/// What tells that a local file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Length.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Moment,
    /// Last change of anything.
    pub ctime: Moment,
    /// Blocks of 512 bytes that the file takes.
    pub blocks: u64,
}

impl Stamp {
    /// The stamp of `scratch` now.
    pub fn of(scratch: &Scratch) -> io::Result<Self> {
        let data = scratch.file().metadata()?;
        let moment = |seconds: i64, nanos: i64| Moment(seconds.saturating_mul(1_000_000_000) + nanos);
        Ok(Self {
            size: data.len(),
            mtime: moment(data.mtime(), data.mtime_nsec()),
            ctime: moment(data.ctime(), data.ctime_nsec()),
            blocks: data.blocks(),
        })
    }

    fn same_content(&self, other: &Stamp) -> bool {
        (self.size, self.mtime, self.ctime) == (other.size, other.mtime, other.ctime)
    }
}

impl Live {
    /// A local file with content that was never committed.
    pub fn new(scratch: Scratch) -> Self {
        Baseline::default().with(scratch)
    }

    /// An empty local file for a version that was just committed, empty. Its own times mean nothing until it changes.
    pub fn fresh(scratch: &Scratch) -> io::Result<Baseline> {
        Ok(Baseline { committed: Some(Stamp::of(scratch)?), ..Baseline::default() })
    }

    /// A local file whose content equals the committed version; `mtime` is that version's.
    pub fn committed(scratch: Scratch, mtime: Moment) -> io::Result<Self> {
        sparse::set_modified(scratch.file(), mtime)?;
        Ok(Self::fresh(&scratch)?.with(scratch))
    }

    /// A copy of `reader`'s first `length` bytes, that equals the committed version if that is all of them.
    pub fn copy_of(reader: &ContentReader, length: u64, scratch: Scratch, mtime: Moment) -> io::Result<Self> {
        let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPY_CHUNK).min(COPY_CHUNK)];
        let mut at = 0;
        while at < length {
            let wanted = usize::try_from(length - at).unwrap_or(COPY_CHUNK).min(buffer.len());
            let got = reader.read_at(&mut buffer[..wanted], at)?;
            if got == 0 {
                break;
            }
            scratch.file().write_all_at(&buffer[..got], at)?;
            at += got as u64;
        }
        if length == reader.size() { Self::committed(scratch, mtime) } else { Ok(Self::new(scratch)) }
    }

    /// The file.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// The file's stamp if it was changed since the last commit.
    pub fn changed(&self) -> io::Result<Option<Stamp>> {
        let now = Stamp::of(&self.scratch)?;
        let same = self.baseline.committed.is_some_and(|then| then.same_content(&now))
            && match self.baseline.copied {
                Some(copied) => hash_of(&self.scratch, now.size)? == copied,
                None => true,
            };
        Ok((!same).then_some(now))
    }

    /// How many bytes of the file the blob refers to.
    pub fn published(&self) -> u64 {
        self.baseline.published
    }

    /// What the file is compared with once that which `stamp` describes is committed, up to `inline_max` as a copy.
    /// `mappable` tells whether a program can have the file mapped.
    ///
    /// To be asked before the bytes are taken: those that a program changes meanwhile must be found to differ.
    pub fn survey(&self, stamp: Stamp, inline_max: u64, mappable: bool) -> io::Result<Baseline> {
        let copied = mappable && stamp.size > 0 && stamp.size <= inline_max;
        Ok(Baseline {
            committed: Some(stamp),
            published: if stamp.size > inline_max { stamp.size } else { 0 },
            copied: if copied { Some(hash_of(&self.scratch, stamp.size)?) } else { None },
        })
    }

    /// Notes that what was surveyed is committed.
    pub fn note_committed(&mut self, surveyed: Baseline) {
        self.baseline = surveyed;
    }

    /// Notes that a copy of what was surveyed is kept elsewhere. What the blob refers to stays the same.
    pub fn note_saved(&mut self, surveyed: Baseline) {
        self.baseline = Baseline { published: self.baseline.published, ..surveyed };
    }
}

/// A hash of the first `size` bytes, which are few.
fn hash_of(scratch: &Scratch, size: u64) -> io::Result<u64> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let got = read_up_to(scratch, &mut bytes, 0)?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes[..got]);
    Ok(hasher.finish())
}

impl Overlay {
    /// `base`, not changed yet.
    pub fn new(base: ContentReader, scratch: Scratch, mtime: Moment) -> Self {
        let size = base.size();
        let (gathered, changes) = (Gathered::new(scratch), ChangeMap::default());
        Self { base, gathered, changes, size, base_limit: size, mtime }
    }

    /// The version below, and the file with all changed bytes.
    pub fn settled(&mut self) -> io::Result<(&ContentReader, &Scratch)> {
        Ok((&self.base, self.gathered.settled()?))
    }

    /// When the content was last changed.
    pub fn mtime(&self) -> Moment {
        self.mtime
    }

    /// What is different from the base, including what reads as zeros because it was cut off.
    pub fn changes(&self) -> Vec<Change> {
        let mut all = self.changes.clone();
        let cut_off = self.base_limit..self.size.min(self.base.size()).max(self.base_limit);
        for (part, place) in self.changes.split(cut_off) {
            if place == Whereabouts::Base {
                all.insert(part, None);
            }
        }
        all.iter().map(|(range, from)| Change { range, from }).collect()
    }

    /// Size now.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sets the time of the last change.
    pub fn set_mtime(&mut self, mtime: Moment) {
        self.mtime = mtime;
    }

    /// Writes `data` at `offset`.
    pub fn write(&mut self, data: &[u8], offset: u64, now: Moment) -> io::Result<()> {
        let end = offset + data.len() as u64;
        for (part, place) in self.changes.split(offset..end) {
            let bytes = &data[index(part.start - offset)..index(part.end - offset)];
            match place {
                Whereabouts::At(at) => self.gathered.replace(bytes, at)?,
                Whereabouts::Base | Whereabouts::Zeros => {
                    let at = self.gathered.append(bytes)?;
                    self.changes.insert(part, Some(at));
                }
            }
        }
        self.size = self.size.max(end);
        self.mtime = now;
        Ok(())
    }

    /// Cuts or extends with zeros.
    pub fn truncate(&mut self, size: u64, now: Moment) -> io::Result<()> {
        if size < self.size {
            // What was written behind the new end must not come back when the file grows again.
            self.changes.truncate(size);
            self.base_limit = self.base_limit.min(size);
            if self.changes.is_empty() {
                self.gathered.clear()?;
            }
        }
        self.size = size;
        self.mtime = now;
        Ok(())
    }

    /// Makes `range` read as zeros; the size stays.
    pub fn zero(&mut self, range: Range<u64>, now: Moment) {
        let range = range.start..range.end.min(self.size);
        if !range.is_empty() {
            self.changes.insert(range, None);
            self.mtime = now;
        }
    }

    /// The parts of `range` that are read from the version below.
    pub fn base_parts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let range = range.start..range.end.min(self.base_limit).max(range.start);
        let parts = self.changes.split(range).into_iter();
        parts.filter(|(_, place)| *place == Whereabouts::Base).map(|(part, _)| part)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = (offset + buffer.len() as u64).min(self.size).max(offset);
        for (part, place) in self.changes.split(offset..end) {
            let target = &mut buffer[index(part.start - offset)..index(part.end - offset)];
            match place {
                Whereabouts::At(at) => self.gathered.read(target, at)?,
                Whereabouts::Zeros => target.fill(0),
                Whereabouts::Base => {
                    let (base, zeros) = target
                        .split_at_mut(index(self.base_limit.saturating_sub(part.start)).min(target.len()));
                    let got = self.base.read_at(base, part.start)?;
                    base[got..].fill(0);
                    zeros.fill(0);
                }
            }
        }
        Ok(index(end - offset))
    }
}

/// A length that is known to fit into memory.
pub(super) fn index(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn read_up_to(scratch: &Scratch, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match scratch.file().read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl Content {
    /// How long the file is now.
    pub fn size(&self) -> io::Result<u64> {
        match self {
            Content::Clean(reader) => Ok(reader.size()),
            Content::Live(live) => Ok(live.scratch.file().metadata()?.len()),
            Content::Overlay(overlay) => Ok(overlay.size),
            Content::Memory(memory) => Ok(memory.size()),
        }
    }

    /// Reads at `offset` until `buffer` is full or the file ends.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Content::Clean(reader) => reader.read_at(buffer, offset),
            Content::Live(live) => read_up_to(&live.scratch, buffer, offset),
            Content::Overlay(overlay) => overlay.read(buffer, offset),
            Content::Memory(memory) => Ok(memory.read(buffer, offset)),
        }
    }

    /// The first data at or behind `from`.
    ///
    /// Of content with changes on top, and in memory, every byte counts as data, which is always a correct answer.
    pub fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        let size = self.size()?;
        if from >= size {
            return Ok(None);
        }
        let found = match self {
            Content::Live(live) => sparse::next_data(live.scratch.file(), from)?,
            Content::Clean(reader) => match reader.as_file() {
                Some(file) => sparse::next_data(file, from)?,
                None => seek_pieces(reader, from, Looking::ForData)?,
            },
            Content::Overlay(_) | Content::Memory(_) => Some(from),
        };
        Ok(found.filter(|offset| *offset < size))
    }

    /// The first hole at or behind `from`; the end of the file counts as one.
    pub fn next_hole(&self, from: u64) -> io::Result<Option<u64>> {
        let size = self.size()?;
        if from >= size {
            return Ok(None);
        }
        let found = match self {
            Content::Live(live) => sparse::next_hole(live.scratch.file(), from)?,
            Content::Clean(reader) => match reader.as_file() {
                Some(file) => sparse::next_hole(file, from)?,
                None => seek_pieces(reader, from, Looking::ForHole)?,
            },
            Content::Overlay(_) | Content::Memory(_) => None,
        };
        Ok(Some(found.unwrap_or(size).min(size)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looking {
    ForData,
    ForHole,
}

/// The first data or hole at or behind `from` in content that is in pieces; without any it is all data.
fn seek_pieces(reader: &ContentReader, from: u64, looking: Looking) -> io::Result<Option<u64>> {
    if reader.pieces().is_empty() {
        return Ok(Some(from).filter(|_| looking == Looking::ForData));
    }
    for piece in reader.pieces() {
        let (start, end) = (piece.start, piece.start + piece.len);
        let at = from.max(start);
        if at < end {
            let found = match (&piece.source, looking) {
                (None, Looking::ForHole) => Some(at),
                (None, Looking::ForData) => None,
                (Some((file, offset)), _) => {
                    let seek =
                        if looking == Looking::ForData { sparse::next_data } else { sparse::next_hole };
                    seek(file, offset + (at - start))?.map(|found| start + (found - offset))
                }
            };
            if let Some(found) = found.filter(|found| *found < end) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::testing::loose_scratch;
    use super::*;

    /// As a page of a mapping does: its first change shows in the stamp, before the bytes are there.
    #[test]
    fn bytes_that_change_while_they_are_committed_are_found_to_differ() {
        let mut live = Live::new(loose_scratch());
        let file = std::sync::Arc::clone(live.scratch().file());
        file.write_all_at(b"old", 0).unwrap();
        let surveyed = live.survey(Stamp::of(live.scratch()).unwrap(), 100, true).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        let unnoticed = Baseline { committed: Some(Stamp::of(live.scratch()).unwrap()), ..surveyed };
        live.note_committed(unnoticed);
        assert!(live.changed().unwrap().is_some());
        let surveyed = live.survey(Stamp::of(live.scratch()).unwrap(), 100, true).unwrap();
        live.note_committed(surveyed);
        assert!(live.changed().unwrap().is_none());
    }
}
