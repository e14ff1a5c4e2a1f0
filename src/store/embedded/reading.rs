//! Reading versions: properties, content, ranges.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::store::conditions::{Subject, judge_read};
use crate::store::{
    AccessTier, BlobDownload, BlobPath, BlobProperties, ByteRange, ContentReader, Found, Piece,
    Preconditions, Result, SnapshotId, StoreError,
};

use super::EmbeddedStore;
use super::content::Files;
use super::kv::Space;
use super::names::{set_slot_key, split};
use super::record::{Content, Entry, Extent};
use super::tx::Slot;

/// How often a read starts over because the version it found was replaced meanwhile.
const TRIES: u32 = 100;

/// How long such a read waits for a commit that is under way. Commits take microseconds.
pub(super) const COMMIT_MAX: Duration = Duration::from_secs(5);

/// Keeps the files of a version in place while a reader of it lives.
pub(super) struct ReaderPin {
    files: Arc<Files>,
    numbers: Vec<u64>,
    pieces: Arc<[Extent]>,
}

impl ReaderPin {
    fn new(files: &Arc<Files>, pieces: Arc<[Extent]>) -> Self {
        let mut numbers: Vec<u64> = pieces.iter().filter_map(|piece| Some(piece.source?.file)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        files.pin(&numbers, &pieces);
        Self { files: Arc::clone(files), numbers, pieces }
    }

    /// The numbers of its files.
    pub(super) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The pieces of the version.
    pub(super) fn extents(&self) -> &[Extent] {
        &self.pieces
    }
}

impl std::fmt::Debug for ReaderPin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderPin").field("numbers", &self.numbers).finish_non_exhaustive()
    }
}

impl Drop for ReaderPin {
    fn drop(&mut self) {
        self.files.unpin(&self.numbers, &self.pieces);
    }
}

impl EmbeddedStore {
    /// The slot of a name; nothing if not even its prefix exists.
    pub(super) fn lookup(&self, at: &BlobPath) -> Result<Option<Slot>> {
        let mut parent = self.container(&at.container)?.root;
        let (segments, last) = split(at.name.as_str());
        let mut key = Vec::with_capacity(64);
        for segment in segments {
            set_slot_key(&mut key, parent, segment);
            match self.slot(&key)?.prefix {
                Some(prefix) => parent = prefix.id,
                None => return Ok(None),
            }
        }
        set_slot_key(&mut key, parent, last);
        self.slot(&key).map(Some)
    }

    /// The current version of a blob that must exist.
    pub(super) fn existing_entry(&self, at: &BlobPath) -> Result<Arc<Entry>> {
        self.current(at)?.ok_or_else(|| StoreError::BlobNotFound(at.to_string()))
    }

    pub(super) fn blob_find(&self, at: &BlobPath) -> Result<Found> {
        let slot = self.lookup(at)?.unwrap_or_default();
        Ok(Found {
            blob: slot.blob.map(|blob| Arc::clone(&blob.properties)),
            prefix: slot.prefix.map(|prefix| prefix.id),
        })
    }

    /// The current version of a blob.
    pub(super) fn current(&self, at: &BlobPath) -> Result<Option<Arc<Entry>>> {
        Ok(self.lookup(at)?.and_then(|slot| slot.blob))
    }

    /// The current version, or the snapshot, under the conditions of a read.
    pub(super) fn judged(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        conditions: &Preconditions,
    ) -> Result<Arc<Entry>> {
        let entry = match snapshot {
            None => self.current(at)?,
            Some(snapshot) => self.find_snapshot(at, snapshot)?,
        };
        let subject = entry.as_ref().map(|entry| Subject::from(&*entry.properties));
        judge_read(conditions, (self.clock)(), subject.as_ref()).map_err(|refusal| refusal.about(at))?;
        entry.ok_or_else(|| StoreError::BlobNotFound(at.to_string()))
    }

    pub(super) fn blob_reader(&self, at: &BlobPath) -> Result<ContentReader> {
        self.open_judged(at, None, None, &Preconditions::default())
    }

    /// A reader of the version that passes the conditions.
    pub(super) fn open_judged(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        part: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<ContentReader> {
        for _ in 0..TRIES {
            let entry = self.judged(at, snapshot, conditions)?;
            if entry.properties.tier.is_some_and(|tier| tier.tier == AccessTier::Archive) {
                return Err(StoreError::BlobArchived(at.to_string()));
            }
            let still_there = || -> Result<bool> {
                let now = match snapshot {
                    None => self.current(at)?,
                    Some(snapshot) => self.find_snapshot(at, snapshot)?,
                };
                Ok(now.is_some_and(|now| {
                    now.properties.etag == entry.properties.etag && now.content == entry.content
                }))
            };
            if let Some(reader) = self.open_part(&entry, part, &still_there)? {
                return Ok(reader);
            }
            // The bytes of a replaced version go a moment before the caches know. While the writer's mutex is held
            // nothing is on its way, so what is missing now is really missing.
            let _nothing_under_way = self.writer.try_lock_for(COMMIT_MAX);
            if still_there()? && self.open_part(&entry, part, &still_there)?.is_none() {
                return Err(StoreError::Damaged(format!("the content of {at} is missing")));
            }
        }
        Err(StoreError::io("read", io::Error::other(format!("{at} changes faster than it can be read"))))
    }

    /// Opens a version's content; nothing if it was replaced before it could be pinned.
    pub(super) fn open_entry(
        &self,
        entry: &Arc<Entry>,
        still_there: &dyn Fn() -> Result<bool>,
    ) -> Result<Option<ContentReader>> {
        self.open_part(entry, None, still_there)
    }

    /// The same when only a part of the content will be read: what is outside may read as zeros.
    fn open_part(
        &self,
        entry: &Arc<Entry>,
        part: Option<ByteRange>,
        still_there: &dyn Fn() -> Result<bool>,
    ) -> Result<Option<ContentReader>> {
        let properties = Arc::clone(&entry.properties);
        let extents: Arc<[Extent]> = match &entry.content {
            Content::Empty => return Ok(Some(ContentReader::from_bytes(properties, Bytes::new()))),
            Content::Inline(number) => {
                let value = self.kv.get(Space::Inline, &number.to_be_bytes())?;
                return Ok(value.map(|value| ContentReader::from_bytes(properties, value.into())));
            }
            Content::Extents(extents) => extents.as_slice().into(),
            Content::Pages(map) => match self.page_pieces(*map, properties.size, part)? {
                Some(pieces) => pieces.into(),
                None => return Ok(None),
            },
        };
        let pin = ReaderPin::new(&self.files, Arc::clone(&extents));
        // Pinned first, looked again after: whoever drops the last reference from now on sees the pin.
        if !still_there()? {
            return Ok(None);
        }
        let mut pieces = Vec::with_capacity(extents.len());
        let mut start = 0;
        for extent in extents.iter() {
            let source = match extent.source {
                None => None,
                Some(source) => match self.files.open(source.file) {
                    Ok(file) => Some((file, source.offset)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(StoreError::io("open content", error)),
                },
            };
            pieces.push(Piece { start, len: extent.len, source });
            start += extent.len;
        }
        Ok(Some(ContentReader::from_pieces(properties, pieces, Some(Arc::new(pin)))))
    }

    pub(super) fn blob_read_properties(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.judged(at, snapshot, conditions).map(|entry| Arc::clone(&entry.properties))
    }

    pub(super) fn blob_get(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<BlobDownload> {
        let reader = self.open_judged(at, snapshot, range, conditions)?;
        let size = reader.size();
        let (offset, length) = match range {
            None => (0, size),
            Some(range) if range.start >= size => return Err(StoreError::InvalidRange { size }),
            Some(range) => (range.start, range.length.unwrap_or(u64::MAX).min(size - range.start)),
        };
        let body = match reader.as_bytes() {
            Some(bytes) => bytes.slice(offset as usize..(offset + length) as usize),
            None => {
                let mut buffer = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
                reader
                    .read_at(&mut buffer, offset)
                    .map_err(|error| StoreError::io(format!("read {at}"), error))?;
                buffer.into()
            }
        };
        Ok(BlobDownload { properties: Arc::clone(reader.properties()), offset, body })
    }
}
