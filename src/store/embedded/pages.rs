//! Page blobs.
//!
//! Where the pages of a blob are is kept in a *page map*: one record for each chunk of 1 MiB that was ever written,
//! with the pieces of that chunk, and a header that counts the changes. Pages are never overwritten in place: a write
//! puts its bytes into a file of its own, or behind each other into a shared *page log* if they are few, and changes
//! the chunks it touches. So a write costs what it writes, readers keep their version, and a snapshot or copy is a
//! second map.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::store::body::Place;
use crate::store::conditions::{Presence, WriteKind, judge_write};
use crate::store::{
    BlobBody, BlobKind, BlobPath, BlobProperties, ByteRange, Limit, NewContent, PAGE_BYTES, PageRange,
    PageRanges, Preconditions, Result, Scratch, SequenceConditions, SequenceUpdate, SnapshotId, StoreError,
    crash_point,
};

use super::blobs::{Body, NewVersion, Traits, write_all};
use super::committer::sync_files;
use super::kv::{Space, View};
use super::reading::COMMIT_MAX;
use super::record::{Content, Entry, Extent, PageMap, Source, decode, encode};
use super::tx::{Spot, Tx, points};
use super::{EmbeddedStore, Growth, extents};

/// First byte of the keys.
pub(super) const PAGES_TAG: u8 = b'p';

/// What one record of a map covers.
pub(super) const CHUNK: u64 = 1 << 20;

/// A page log is used up to this size. It goes when the last page in it was overwritten, so it must not be too big.
const LOG_BYTES: u64 = 4 << 20;

const SIZE_MAX: u64 = 8 << 40;

/// Key of a map's header, and what the keys of its chunks start with.
pub(super) fn map_key(map: u64) -> Vec<u8> {
    let mut key = vec![PAGES_TAG];
    key.extend_from_slice(&map.to_be_bytes());
    key
}

fn chunk_key(map: u64, index: u64) -> Vec<u8> {
    let mut key = map_key(map);
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// The chunk in a key; nothing for a header.
pub(super) fn chunk_of(key: &[u8]) -> Option<u64> {
    let bytes: [u8; 8] = key.get(9..)?.try_into().ok()?;
    Some(u64::from_be_bytes(bytes))
}

/// The file that few pages are written to, behind each other.
pub(super) struct PageLog {
    file: Arc<Scratch>,
    used: u64,
}

/// Pages that have a place and are not yet part of a blob.
struct Placed {
    file: Arc<Scratch>,
    offset: u64,
}

impl EmbeddedStore {
    pub(super) fn page_blob_create(
        &self,
        at: &BlobPath,
        size: u64,
        sequence_number: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        check_size(size)?;
        let traits = Traits { kind: BlobKind::Page, sequence_number, ..Traits::default() };
        let version = NewVersion { body: Body::Pages(None), size, new, block_list: None, traits };
        self.make_version(at, version, conditions, points!("create_pages"))
    }

    pub(super) async fn pages_put(
        &self,
        at: &BlobPath,
        offset: u64,
        body: BlobBody,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let range = offset..offset.saturating_add(body.size());
        check_range(&range)?;
        // Refused before anything is written, and judged again with the change.
        let entry = self.existing_entry(at)?;
        judge_pages(at, &entry, &range, sequence, conditions, (self.clock)())?;
        let placed = self.place_pages(body)?;
        crash_point("put_pages_after_write");
        if self.durable {
            sync_files(vec![Arc::clone(placed.file.file())]).await?;
        }
        self.pages_change(at, range, Some(&placed), sequence, conditions)
    }

    pub(super) fn pages_clear(
        &self,
        at: &BlobPath,
        range: Range<u64>,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        check_range(&range)?;
        self.pages_change(at, range, None, sequence, conditions)
    }

    fn place_pages(&self, body: BlobBody) -> Result<Placed> {
        match body.into_place() {
            Place::Memory(bytes) if bytes.len() as u64 <= self.inline_max => self.log_pages(&bytes),
            Place::Memory(bytes) => {
                let file = self.files.scratch()?;
                write_all(&file, &bytes, 0)?;
                Ok(Placed { file: Arc::new(file), offset: 0 })
            }
            Place::File(file) => Ok(Placed { file: Arc::new(file), offset: 0 }),
        }
    }

    /// Writes few pages behind the last ones.
    fn log_pages(&self, bytes: &Bytes) -> Result<Placed> {
        let mut log = self.page_log.lock();
        if log.as_ref().is_none_or(|log| log.used >= LOG_BYTES) {
            *log = Some(PageLog { file: Arc::new(self.files.scratch()?), used: 0 });
        }
        let Some(log) = log.as_mut() else {
            return Err(StoreError::Damaged("the page log is missing".into()));
        };
        let placed = Placed { file: Arc::clone(&log.file), offset: log.used };
        write_all(&placed.file, bytes, placed.offset)?;
        log.used += bytes.len() as u64;
        Ok(placed)
    }

    fn pages_change(
        &self,
        at: &BlobPath,
        range: Range<u64>,
        placed: Option<&Placed>,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let source = placed.map(|placed| Source { file: placed.file.id(), offset: placed.offset });
        if let Some(placed) = placed {
            self.files.remember(placed.file.id(), placed.file.file());
        }
        self.write(Growth::Adds, points!("put_pages"), |tx| {
            let (spot, entry) = tx.existing(at)?;
            let map = judge_pages(at, &entry, &range, sequence, conditions, tx.now)?;
            tx.set_pages(map, range.clone(), source)?;
            if let Some(source) = source {
                tx.unsynced(source.file, range.end - range.start);
            }
            tx.put_changed_pages(&spot, &entry, map, |_| {})
        })
    }

    /// All pieces of a map that the blob's size covers, or only those of `part`, zeros elsewhere. Nothing if the map
    /// has changed since.
    pub(super) fn page_pieces(
        &self,
        map: PageMap,
        size: u64,
        part: Option<ByteRange>,
    ) -> Result<Option<Vec<Extent>>> {
        let view = self.kv.view()?;
        if map_version(&view, map.number)? != Some(map.version) {
            return Ok(None);
        }
        let wanted = part_of(part, size);
        let mut pieces = Vec::new();
        let mut done = 0;
        for chunk in chunks(&view, map.number, &wanted) {
            let (index, chunk) = chunk?;
            let start = index * CHUNK;
            extents::append(&mut pieces, Extent { len: start - done, source: None });
            extents::append_slice(&mut pieces, &chunk, 0..CHUNK.min(size - start));
            done = (start + CHUNK).min(size);
        }
        extents::append(&mut pieces, Extent { len: size - done, source: None });
        Ok(Some(pieces))
    }

    pub(super) fn page_ranges_of(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        since: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<PageRanges> {
        if let (Some(now), Some(since)) = (snapshot, since)
            && since > now
        {
            return Err(StoreError::PreviousSnapshotNewer);
        }
        let find = || self.page_ranges_now(at, snapshot, since, range, conditions);
        if let Some(found) = find()? {
            return Ok(found);
        }
        // The map was replaced meanwhile. While the writer's mutex is held nothing is on its way.
        let _nothing_under_way = self.writer.try_lock_for(COMMIT_MAX);
        let busy = || std::io::Error::other(format!("{at} changes faster than it can be read"));
        find()?.ok_or_else(|| StoreError::io("page ranges", busy()))
    }

    /// Nothing if the pages have changed since their version was looked up.
    fn page_ranges_now(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        since: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<Option<PageRanges>> {
        let entry = self.judged(at, snapshot, conditions)?;
        let map = pages_of(at, &entry)?;
        let size = entry.properties.size;
        if range.is_some_and(|range| range.start >= size) {
            return Err(StoreError::InvalidRange { size });
        }
        let Some(now) = self.page_pieces(map, size, range)? else { return Ok(None) };
        let before = match since {
            None => Vec::new(),
            Some(since) => {
                let old = self.find_snapshot(at, since)?.ok_or(StoreError::PreviousSnapshotNotFound)?;
                // A snapshot never changes.
                let part = range.or(Some(ByteRange { start: 0, length: None }));
                let old_size = old.properties.size;
                self.page_pieces(pages_of(at, &old)?, old_size, part)?.unwrap_or_default()
            }
        };
        let ranges = differences(&before, &now, &part_of(range, size));
        Ok(Some(PageRanges { properties: Arc::clone(&entry.properties), ranges }))
    }
}

impl Tx<'_> {
    /// A new map: with the pages of another one, or empty.
    pub(super) fn new_pages(&mut self, from: Option<u64>) -> Result<PageMap> {
        let map = PageMap { number: self.number()?, version: 0 };
        self.batch.put(Space::Misc, map_key(map.number), encode(&map.version)?);
        if let Some(from) = from {
            let view = self.store.kv.view()?;
            for chunk in chunks(&view, from, &(0..SIZE_MAX)) {
                let (index, pieces) = chunk?;
                self.refer_to_pieces(&pieces, 1);
                self.batch.put(Space::Misc, chunk_key(map.number, index), encode(&pieces)?);
            }
        }
        Ok(map)
    }

    /// Removes a map.
    pub(super) fn drop_pages(&mut self, map: u64) -> Result<()> {
        self.cut_pages(map, 0)?;
        self.batch.remove(Space::Misc, map_key(map));
        Ok(())
    }

    /// Removes whole chunks from this one on.
    fn cut_pages(&mut self, map: u64, first: u64) -> Result<()> {
        let view = self.store.kv.view()?;
        for chunk in chunks(&view, map, &(first * CHUNK..SIZE_MAX)) {
            let (index, pieces) = chunk?;
            self.refer_to_pieces(&pieces, -1);
            self.batch.remove(Space::Misc, chunk_key(map, index));
        }
        Ok(())
    }

    /// Makes a range of a map refer to a place, or to nothing.
    fn set_pages(&mut self, map: PageMap, range: Range<u64>, source: Option<Source>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let index = at / CHUNK;
            let start = index * CHUNK;
            let end = range.end.min(start + CHUNK);
            let key = chunk_key(map.number, index);
            let old: Vec<Extent> = match self.store.kv.get(Space::Misc, &key)? {
                Some(value) => decode(&value, "a chunk of pages")?,
                None => vec![Extent { len: CHUNK, source: None }],
            };
            let source = source.map(|source| Source { offset: source.offset + (at - range.start), ..source });
            let mut new = extents::slice(&old, 0..at - start);
            extents::append(&mut new, Extent { len: end - at, source });
            extents::append_slice(&mut new, &old, end - start..CHUNK);
            self.refer_to_pieces(&new, 1);
            self.refer_to_pieces(&old, -1);
            if new.iter().all(|piece| piece.source.is_none()) {
                self.batch.remove(Space::Misc, key);
            } else {
                self.batch.put(Space::Misc, key, encode(&new)?);
            }
            at = end;
        }
        Ok(())
    }

    /// Makes a version of a page blob whose map was changed.
    fn put_changed_pages(
        &mut self,
        spot: &Spot,
        entry: &Entry,
        map: PageMap,
        change: impl FnOnce(&mut BlobProperties),
    ) -> Result<Arc<BlobProperties>> {
        let map = PageMap { version: map.version + 1, ..map };
        self.batch.put(Space::Misc, map_key(map.number), encode(&map.version)?);
        let content = Content::Pages(map);
        self.put_changed(spot, &Entry { content, ..entry.clone() }, change)
    }

    /// Resizes a page blob and sets its sequence number, as asked. The conditions are judged already.
    pub(super) fn change_pages(
        &mut self,
        at: &BlobPath,
        spot: &Spot,
        entry: &Entry,
        size: Option<u64>,
        sequence: Option<SequenceUpdate>,
        change: impl FnOnce(&mut BlobProperties),
    ) -> Result<Arc<BlobProperties>> {
        let map = pages_of(at, entry)?;
        let old_size = entry.properties.size;
        let size = size.unwrap_or(old_size);
        check_size(size)?;
        if size < old_size {
            let first = size.div_ceil(CHUNK);
            self.cut_pages(map.number, first)?;
            self.set_pages(map, size..(first * CHUNK).min(old_size.max(size)), None)?;
        }
        let number = match (sequence, entry.properties.sequence_number) {
            (None, old) => old,
            (Some(SequenceUpdate::Max(number)), old) => old.max(number),
            (Some(SequenceUpdate::Update(number)), _) => number,
            (Some(SequenceUpdate::Increment), old) => old.saturating_add(1),
        };
        self.put_changed_pages(spot, entry, map, |blob| {
            (blob.size, blob.sequence_number) = (size, number);
            change(blob);
        })
    }
}

/// The map of a page blob.
fn pages_of(at: &BlobPath, entry: &Entry) -> Result<PageMap> {
    match entry.content {
        Content::Pages(map) if entry.properties.kind == BlobKind::Page => Ok(map),
        Content::Pages(_) | Content::Empty | Content::Inline(_) | Content::Extents(_) => {
            Err(StoreError::InvalidBlobType(at.to_string()))
        }
    }
}

/// Everything that a page write is judged by; answers the map.
fn judge_pages(
    at: &BlobPath,
    entry: &Entry,
    range: &Range<u64>,
    sequence: SequenceConditions,
    conditions: &Preconditions,
    now: crate::share::Moment,
) -> Result<PageMap> {
    let blob = &*entry.properties;
    let found = Presence::Present(blob.into());
    judge_write(conditions, now, WriteKind::Change, &found).map_err(|refusal| refusal.about(at))?;
    let map = pages_of(at, entry)?;
    let number = blob.sequence_number;
    let holds = sequence.at_most.is_none_or(|limit| number <= limit)
        && sequence.below.is_none_or(|limit| number < limit)
        && sequence.equal.is_none_or(|wanted| number == wanted);
    if !holds {
        return Err(StoreError::SequenceNumberNotMet);
    }
    if range.end > blob.size { Err(StoreError::InvalidPageRange) } else { Ok(map) }
}

fn check_size(size: u64) -> Result<()> {
    if size > SIZE_MAX {
        return Err(StoreError::LimitExceeded(Limit::PageBlobSize));
    }
    if size.is_multiple_of(PAGE_BYTES) { Ok(()) } else { Err(StoreError::InvalidPageRange) }
}

fn check_range(range: &Range<u64>) -> Result<()> {
    let whole = range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES);
    if whole && !range.is_empty() { Ok(()) } else { Err(StoreError::InvalidPageRange) }
}

/// The bytes of a blob that are asked for, in whole pages.
fn part_of(part: Option<ByteRange>, size: u64) -> Range<u64> {
    let Some(part) = part else { return 0..size };
    let start = part.start.min(size);
    let end = part.length.map_or(size, |length| start.saturating_add(length).min(size));
    start / PAGE_BYTES * PAGE_BYTES..end.div_ceil(PAGE_BYTES) * PAGE_BYTES
}

/// How often a map was changed; nothing if it is not there.
pub(super) fn map_version(view: &View, map: u64) -> Result<Option<u64>> {
    let value = view.get(Space::Misc, &map_key(map))?;
    value.map(|value| decode(&value, "the header of a page map")).transpose()
}

/// The chunks of a map that hold bytes of `range`, in order.
pub(super) fn chunks(
    view: &View,
    map: u64,
    range: &Range<u64>,
) -> impl Iterator<Item = Result<(u64, Vec<Extent>)>> {
    let first = chunk_key(map, range.start / CHUNK);
    let last = chunk_key(map, range.end.div_ceil(CHUNK));
    view.range(Space::Misc, &first, Some(&last)).map(|pair| {
        let (key, value) = pair?;
        let index =
            chunk_of(&key).ok_or_else(|| StoreError::Damaged("a key of pages is too short".into()))?;
        Ok((index, decode(&value, "a chunk of pages")?))
    })
}

/// Where `now` differs from `before` inside `range`: written or cleared. What `before` does not reach counts as zeros.
fn differences(before: &[Extent], now: &[Extent], range: &Range<u64>) -> Vec<PageRange> {
    let old = extents::slice(before, range.clone());
    let new = extents::slice(now, range.clone());
    let mut found: Vec<PageRange> = Vec::new();
    let (mut a, mut b) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut at = range.start;
    while let (Some(left), Some(right)) = (a.peek_mut(), b.peek_mut()) {
        let len = left.len.min(right.len);
        let cleared = match (left.source, right.source) {
            (None, None) => None,
            (Some(_), None) => Some(true),
            (left, right) if left == right => None,
            (_, Some(_)) => Some(false),
        };
        if let Some(cleared) = cleared {
            match found.last_mut() {
                Some(last) if last.range.end == at && last.cleared == cleared => last.range.end += len,
                _ => found.push(PageRange { range: at..at + len, cleared }),
            }
        }
        at += len;
        let left_done = advance(left, len);
        let right_done = advance(right, len);
        if left_done {
            a.next();
        }
        if right_done {
            b.next();
        }
    }
    found
}

/// Takes `len` bytes off the front of a piece; whether nothing is left.
fn advance(piece: &mut Extent, len: u64) -> bool {
    piece.len -= len;
    if let Some(source) = &mut piece.source {
        source.offset += len;
    }
    piece.len == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(len: u64, place: Option<(u64, u64)>) -> Extent {
        Extent { len, source: place.map(|(file, offset)| Source { file, offset }) }
    }

    #[test]
    fn differences_are_what_was_written_or_cleared() {
        let before = [piece(1024, Some((1, 0))), piece(1024, None), piece(1024, Some((1, 2048)))];
        let now = [
            piece(512, Some((1, 0))),
            piece(512, Some((2, 0))),
            piece(512, Some((2, 512))),
            piece(1024, None),
            piece(512, Some((1, 2560))),
            piece(512, Some((3, 0))),
        ];
        let found = differences(&before, &now, &(0..3584));
        let flat: Vec<_> = found.iter().map(|one| (one.range.start, one.range.end, one.cleared)).collect();
        assert_eq!(flat, [(512, 1536, false), (2048, 2560, true), (3072, 3584, false)]);
        let all = differences(&[], &now, &(0..1024));
        assert_eq!(all, [PageRange { range: 0..1024, cleared: false }]);
    }
}
