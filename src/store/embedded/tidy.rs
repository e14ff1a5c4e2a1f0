//! Storing content that patches left in pieces as one file again.
//!
//! Where most of the content is already in place in one file (the base), the other pieces are written into it, at
//! places that the current version does not use. Otherwise all is written into a new file. Either way the version
//! stays the same, so its ETag does too.
//!
//! What must hold at every moment, also if the power fails: the version on the disk is whole. So the current version
//! is synced before the base is touched (an older version might use those places), and the result is synced before
//! the record refers to it.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::store::sparse::punch_hole;
use crate::store::{BlobPath, Result, StoreError, crash_point};

use super::committer::persist;
use super::record::{Content, Entry, Extent, Source};
use super::tx::points;
use super::{EmbeddedStore, Growth, copy};

/// More bytes than this are not worth moving.
const COPY_MAX: u64 = 64 << 20;

/// Bytes moved at a time.
const CHUNK: u64 = 1 << 20;

/// A piece with its place in the content.
#[derive(Clone, Copy)]
struct Placed {
    start: u64,
    extent: Extent,
}

impl Placed {
    fn range(&self) -> Range<u64> {
        self.start..self.start + self.extent.len
    }

    /// Whether it is in `file` at the place it has in the content.
    fn is_in_place(&self, file: u64) -> bool {
        self.extent.source == Some(Source { file, offset: self.start })
    }
}

fn placed(extents: &[Extent]) -> Vec<Placed> {
    let mut start = 0;
    let place = |extent: &Extent| {
        let placed = Placed { start, extent: *extent };
        start += extent.len;
        placed
    };
    extents.iter().map(place).collect()
}

/// The one file that the content is, if it is.
fn whole_file(extents: &[Extent]) -> bool {
    matches!(extents, [Extent { source: Some(Source { offset: 0, .. }), .. }])
}

impl EmbeddedStore {
    pub(super) fn blob_tidy(&self, at: &BlobPath) -> Result<()> {
        // What a snapshot has never changes, not even its place.
        if at.container.is_snapshot() {
            return Ok(());
        }
        let _one_at_a_time = self.tidying.lock();
        let Some(entry) = self.current(at)? else { return Ok(()) };
        let Content::Extents(extents) = &entry.content else { return Ok(()) };
        if whole_file(extents) || self.files.any_live(&entry.content.files()) {
            return Ok(());
        }
        // Whoever replaces the version meanwhile leaves its files in place until this is dropped.
        let still_there = || Ok(self.current(at)?.is_some_and(|now| now.content == entry.content));
        let Some(_reader) = self.open_entry(&entry, &still_there)? else { return Ok(()) };
        let pieces = placed(extents);
        match self.usable_base(&entry, &pieces)? {
            Some(base) => self.move_into(at, &entry, &pieces, base),
            None if entry.properties.size <= COPY_MAX => self.rewrite(at, &entry, &pieces),
            None => Ok(()),
        }
    }

    /// The file that holds most of the content in place, if the rest may be written into it.
    fn usable_base(&self, entry: &Entry, pieces: &[Placed]) -> Result<Option<u64>> {
        let in_place = |file: u64| -> u64 {
            pieces.iter().filter(|piece| piece.is_in_place(file)).map(|piece| piece.extent.len).sum()
        };
        let Some(base) = entry.content.files().into_iter().max_by_key(|file| in_place(*file)) else {
            return Ok(None);
        };
        let size = entry.properties.size;
        let to_move = size - in_place(base);
        if to_move > COPY_MAX || to_move > size / 2 {
            return Ok(None);
        }
        let mut foreign: Vec<Range<u64>> =
            pieces.iter().filter(|piece| !piece.is_in_place(base)).map(Placed::range).collect();
        foreign.push(size..u64::MAX);
        // Places that this version itself uses for something else, or that a reader of another version sees.
        let used_by = |extents: &[Extent]| {
            extents.iter().any(|extent| match extent.source {
                Some(source) if source.file == base => {
                    let used = source.offset..source.offset + extent.len;
                    foreign.iter().any(|range| range.start < used.end && used.start < range.end)
                }
                Some(_) | None => false,
            })
        };
        let busy = used_by(entry.content.extents())
            || self.files.is_held(base)
            || self.files.readers(base).iter().any(|reader| used_by(reader))
            || self.reference_count(base)? != 1;
        Ok((!busy).then_some(base))
    }

    /// Writes everything that is not in place into the base.
    fn move_into(&self, at: &BlobPath, entry: &Arc<Entry>, pieces: &[Placed], base: u64) -> Result<()> {
        let failed = |error| StoreError::io(format!("tidy {at}"), error);
        // An older version on the disk may use the places to be written: make it this one first.
        for file in entry.content.files() {
            self.files.open(file).and_then(|file| file.sync_data()).map_err(failed)?;
        }
        persist(&self.kv, &self.files)?;
        crash_point("tidy_after_first_sync");
        let target = OpenOptions::new().read(true).write(true).open(self.files.path(base)).map_err(failed)?;
        for piece in pieces.iter().filter(|piece| !piece.is_in_place(base)) {
            self.write_piece(&target, piece)?;
            crash_point("tidy_after_piece");
        }
        target.set_len(entry.properties.size).and_then(|()| target.sync_data()).map_err(failed)?;
        crash_point("tidy_after_write");
        self.refer_to_one(at, entry, base)
    }

    /// Writes all content into a new file.
    fn rewrite(&self, at: &BlobPath, entry: &Arc<Entry>, pieces: &[Placed]) -> Result<()> {
        let failed = |error| StoreError::io(format!("tidy {at}"), error);
        self.space.check()?;
        let scratch = self.files.scratch()?;
        scratch.file().set_len(entry.properties.size).map_err(failed)?;
        for piece in pieces.iter().filter(|piece| piece.extent.source.is_some()) {
            self.write_piece(scratch.file(), piece)?;
        }
        scratch.file().sync_data().map_err(failed)?;
        crash_point("tidy_after_rewrite");
        self.refer_to_one(at, entry, scratch.id())
    }

    fn write_piece(&self, target: &File, piece: &Placed) -> Result<()> {
        let failed = |error| StoreError::io("tidy", error);
        let Some(source) = piece.extent.source else {
            return punch_hole(target, piece.range()).map_err(failed);
        };
        let file = self.files.open(source.file).map_err(failed)?;
        let mut buffer = vec![0; usize::try_from(piece.extent.len.min(CHUNK)).unwrap_or(0)];
        let mut done = 0;
        while done < piece.extent.len {
            let length = usize::try_from((piece.extent.len - done).min(CHUNK)).unwrap_or(0);
            copy::read_exactly(&file, &mut buffer[..length], source.offset + done)?;
            target.write_all_at(&buffer[..length], piece.start + done).map_err(failed)?;
            done += length as u64;
        }
        Ok(())
    }

    /// Makes `file` the whole content, if the version is still the same.
    fn refer_to_one(&self, at: &BlobPath, entry: &Arc<Entry>, file: u64) -> Result<()> {
        self.write(Growth::Frees, points!("tidy"), |tx| {
            let Ok((spot, now)) = tx.existing(at) else { return Ok(()) };
            if now.content != entry.content {
                return Ok(());
            }
            let source = Some(Source { file, offset: 0 });
            let content = Content::Extents(vec![Extent { len: entry.properties.size, source }]);
            tx.refer(&content);
            tx.drop_content(&now.content)?;
            let mut tidied = Entry::clone(&now);
            tidied.content = content;
            tx.put_blob(&spot, Arc::new(tidied));
            Ok(())
        })
    }
}
