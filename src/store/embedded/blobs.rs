//! Changing single blobs: put, publish, patch, properties, delete.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest, Md5};

use crate::store::body::Place;
use crate::store::conditions::{Presence, WriteKind, judge_write};
use crate::store::{
    BlobBody, BlobKind, BlobPath, BlobProperties, BlobTier, Change, ContentReader, LocalStore, Metadata,
    NewContent, Preconditions, Result, Scratch, StoreError, crash_point,
};

use super::reading::ReaderPin;
use super::record::{Entry, Extent, Source};
use super::tx::{Points, Spot, Tx, changed, points};
use super::{EmbeddedStore, Growth, extents};

/// New content before it has a place in the store.
pub(super) enum Body {
    /// Bytes for the database.
    Bytes(Bytes),
    /// Pieces in content files.
    Pieces(Vec<Extent>),
    /// Pages: those of another page blob, or none written yet.
    Pages(Option<u64>),
}

/// Everything about a version to be made.
pub(super) struct NewVersion {
    pub(super) body: Body,
    pub(super) size: u64,
    pub(super) new: NewContent,
    /// The encoded block list, if it is made of blocks.
    pub(super) block_list: Option<Vec<u8>>,
    pub(super) traits: Traits,
}

/// What belongs to the kind of a blob.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    pub(super) kind: BlobKind,
    pub(super) sequence_number: u64,
    pub(super) appended_blocks: u32,
    pub(super) sealed: bool,
    /// Whether it may replace a blob of another kind: what a local program wrote is a block blob, whatever it was.
    pub(super) converts: bool,
}

impl NewVersion {
    /// A block blob that a local program made.
    pub(super) fn local(body: Body, size: u64, new: NewContent) -> Self {
        let traits = Traits { converts: true, ..Traits::default() };
        Self { body, size, new, block_list: None, traits }
    }

    /// A block blob in one piece.
    pub(super) fn whole(body: Body, size: u64, new: NewContent) -> Self {
        Self { body, size, new, block_list: None, traits: Traits::default() }
    }
}

/// A body that has its place, and the file that must live until the batch refers to it.
pub(super) struct Placed {
    pub(super) body: Body,
    _file: Option<Scratch>,
}

impl EmbeddedStore {
    /// Small bodies go into the database, others into files of their own.
    pub(super) fn place_body(&self, body: BlobBody) -> Result<Placed> {
        let size = body.size();
        match body.into_place() {
            Place::Memory(bytes) if size <= self.inline_max => {
                Ok(Placed { body: Body::Bytes(bytes), _file: None })
            }
            Place::Memory(bytes) => {
                let scratch = self.files.scratch()?;
                write_all(&scratch, &bytes, 0)?;
                self.settle_written(scratch.file())?;
                Ok(Placed { body: Body::Pieces(whole(&scratch, size)), _file: Some(scratch) })
            }
            Place::File(scratch) if size <= self.inline_max => {
                Ok(Placed { body: Body::Bytes(read_scratch(&scratch, size)?), _file: None })
            }
            Place::File(scratch) => {
                self.files.remember(scratch.id(), scratch.file());
                Ok(Placed { body: Body::Pieces(whole(&scratch, size)), _file: Some(scratch) })
            }
        }
    }

    pub(super) fn blob_put(
        &self,
        at: &BlobPath,
        body: BlobBody,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_put_in(self.growth(at, body.size()), at, body, new, conditions)
    }

    pub(super) fn blob_put_in(
        &self,
        growth: Growth,
        at: &BlobPath,
        body: BlobBody,
        mut new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let size = body.size();
        new.content_md5 =
            new.content_md5.or(body.md5()).or_else(|| body.as_bytes().map(|bytes| Md5::digest(bytes).into()));
        let placed = self.place_body(body)?;
        crash_point("put_blob_after_write");
        let version = NewVersion::whole(placed.body, size, new);
        self.make_version_in(growth, at, version, conditions, points!("put_blob"))
    }

    pub(super) fn blob_publish(
        &self,
        at: &BlobPath,
        scratch: &Scratch,
        size: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let body = if size <= self.inline_max {
            Body::Bytes(read_scratch(scratch, size)?)
        } else {
            let length =
                scratch.file().metadata().map_err(|error| StoreError::io("scratch file", error))?.len();
            if length < size {
                scratch.file().set_len(size).map_err(|error| StoreError::io("scratch file", error))?;
            }
            self.files.remember(scratch.id(), scratch.file());
            self.files.mark_live(scratch.id());
            Body::Pieces(whole(scratch, size))
        };
        crash_point("publish_after_read");
        self.make_version(at, NewVersion::local(body, size, new), conditions, points!("publish"))
    }

    /// [`Self::blob_put`] for the engine's own small content, which carries no checksum.
    pub(super) fn blob_put_small(
        &self,
        at: &BlobPath,
        bytes: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let size = bytes.len() as u64;
        let version = NewVersion::local(Body::Bytes(bytes), size, new);
        self.make_version(at, version, conditions, points!("publish"))
    }

    pub(super) fn blob_patch(
        &self,
        at: &BlobPath,
        base: &ContentReader,
        scratch: &Scratch,
        changes: &[Change],
        size: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        if size <= self.inline_max {
            let body = Body::Bytes(merged(base, scratch, changes, size)?);
            return self.make_version(at, NewVersion::local(body, size, new), conditions, points!("patch"));
        }
        self.files.remember(scratch.id(), scratch.file());
        // Lives until the batch refers to its file.
        let mut file = None;
        let pieces = match (base.pin::<ReaderPin>(), base.as_bytes()) {
            (Some(pin), _) => pin.extents().to_vec(),
            (None, Some(bytes)) if bytes.is_empty() => Vec::new(),
            (None, Some(bytes)) => {
                let scratch = self.files.scratch()?;
                write_all(&scratch, bytes, 0)?;
                let pieces = whole(&scratch, bytes.len() as u64);
                file = Some(scratch);
                pieces
            }
            (None, None) => {
                return Err(StoreError::Damaged("the base of a patch is from another store".into()));
            }
        };
        crash_point("patch_after_base");
        let body = Body::Pieces(extents::replace(&pieces, changes, scratch.id(), size));
        let answer = self.make_version(at, NewVersion::local(body, size, new), conditions, points!("patch"));
        drop(file);
        answer
    }

    /// Makes a version under its conditions, in a transaction of its own.
    pub(super) fn make_version(
        &self,
        at: &BlobPath,
        version: NewVersion,
        conditions: &Preconditions,
        points: Points,
    ) -> Result<Arc<BlobProperties>> {
        self.make_version_in(self.growth(at, version.size), at, version, conditions, points)
    }

    /// Whether a new version of that size needs room. One that is smaller than what it replaces makes some: a log that
    /// filled the disk can be emptied.
    fn growth(&self, at: &BlobPath, size: u64) -> Growth {
        let shrinks = || self.find(at).is_ok_and(|found| found.blob.is_some_and(|old| old.size > size));
        match self.space.check() {
            Err(StoreError::Full) if shrinks() => Growth::Frees,
            Ok(()) | Err(_) => Growth::Adds,
        }
    }

    pub(super) fn make_version_in(
        &self,
        growth: Growth,
        at: &BlobPath,
        version: NewVersion,
        conditions: &Preconditions,
        points: Points,
    ) -> Result<Arc<BlobProperties>> {
        self.write(growth, points, |tx| {
            let root = tx.changeable(&at.container)?.root;
            let spot = tx.locate_or_make(root, at.name.as_str())?;
            let found = tx.presence(&spot, root, at)?;
            judge_write(conditions, tx.now, WriteKind::Create, &found)
                .map_err(|refusal| refusal.about(at))?;
            tx.put_version(&spot, root, at, version, &found)
        })
    }

    pub(super) fn blob_set_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.change_blob(at, conditions, points!("set_metadata"), |blob| blob.metadata = metadata)
    }

    pub(super) fn change_blob(
        &self,
        at: &BlobPath,
        conditions: &Preconditions,
        points: Points,
        change: impl FnOnce(&mut BlobProperties),
    ) -> Result<Arc<BlobProperties>> {
        self.write(Growth::Adds, points, |tx| {
            let (spot, entry) = tx.existing(at)?;
            let found = Presence::Present((&*entry.properties).into());
            judge_write(conditions, tx.now, WriteKind::Change, &found)
                .map_err(|refusal| refusal.about(at))?;
            let (etag, now) = (tx.etag()?, tx.now);
            let entry = changed(&entry, |blob| {
                change(blob);
                blob.etag = etag;
                blob.modified = now;
                blob.lease.modified(now);
            });
            let answer = Arc::clone(&entry.properties);
            tx.put_blob(&spot, Arc::new(entry));
            Ok(answer)
        })
    }
}

impl Tx<'_> {
    /// The spot and the version of a blob that must exist.
    pub(super) fn existing(&mut self, at: &BlobPath) -> Result<(Spot, Arc<Entry>)> {
        let root = self.changeable(&at.container)?.root;
        let missing = || StoreError::BlobNotFound(at.to_string());
        let spot = self.locate(root, at.name.as_str())?.ok_or_else(missing)?;
        let entry = self.slot(&spot).blob.clone().ok_or_else(missing)?;
        Ok((spot, entry))
    }

    /// Replaces what is at the spot by a new version. The conditions are judged already.
    pub(super) fn put_version(
        &mut self,
        spot: &Spot,
        root: u64,
        at: &BlobPath,
        version: NewVersion,
        found: &Presence,
    ) -> Result<Arc<BlobProperties>> {
        let old = self.slot(spot).blob.clone();
        let NewVersion { body, size, new, block_list, traits } = version;
        if old.as_ref().is_some_and(|old| old.properties.kind != traits.kind) && !traits.converts {
            return Err(StoreError::InvalidBlobType(at.to_string()));
        }
        if new.tier.is_some() && traits.kind != BlobKind::Block {
            return Err(StoreError::InvalidBlobType(at.to_string()));
        }
        let content = self.place(body)?;
        if let Some(old) = &old {
            self.drop_entry(old)?;
        }
        let mut lease = found.lease();
        lease.modified(self.now);
        let block_list = match block_list {
            Some(list) => {
                let number = self.number()?;
                self.batch.put(super::kv::Space::Inline, number.to_be_bytes(), list);
                Some(number)
            }
            None => None,
        };
        let properties = Arc::new(BlobProperties {
            id: self.slot(spot).id().map_or_else(|| self.number(), Ok)?,
            etag: self.etag()?,
            kind: traits.kind,
            size,
            created: old.as_ref().map_or(self.now, |old| old.properties.created),
            modified: self.now,
            metadata: new.metadata,
            headers: new.headers,
            content_md5: new.content_md5,
            lease,
            tier: new.tier.map(|tier| BlobTier { tier, changed: None }),
            tags: new.tags,
            copy: new.copy.map(Box::new),
            sequence_number: traits.sequence_number,
            appended_blocks: traits.appended_blocks,
            sealed: traits.sealed,
        });
        let snapshots = old.map_or(0, |old| old.snapshots);
        let entry = Entry { properties: Arc::clone(&properties), content, block_list, snapshots };
        self.put_blob(spot, Arc::new(entry));
        self.drop_staged(root, at)?;
        Ok(properties)
    }
}

/// The first `size` bytes of a scratch file as pieces.
pub(super) fn whole(scratch: &Scratch, size: u64) -> Vec<Extent> {
    vec![Extent { len: size, source: Some(Source { file: scratch.id(), offset: 0 }) }]
}

pub(super) fn write_all(scratch: &Scratch, bytes: &[u8], offset: u64) -> Result<()> {
    scratch.file().write_all_at(bytes, offset).map_err(|error| StoreError::io("write content", error))
}

/// The first `size` bytes of a scratch file; zeros where it is shorter.
fn read_scratch(scratch: &Scratch, size: u64) -> Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    read_up_to(scratch, &mut buffer, 0)?;
    Ok(buffer.into())
}

fn read_up_to(scratch: &Scratch, buffer: &mut [u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match scratch.file().read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::io("read scratch file", error)),
        }
    }
    Ok(())
}

/// `base` with `changes` taken from `scratch`, as bytes; small enough for memory.
fn merged(base: &ContentReader, scratch: &Scratch, changes: &[Change], size: u64) -> Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    base.read_at(&mut buffer, 0).map_err(|error| StoreError::io("read the base of a patch", error))?;
    for Change { range, from } in changes {
        let place = usize::try_from(range.start).unwrap_or(usize::MAX)
            ..usize::try_from(range.end).unwrap_or(usize::MAX);
        let part =
            buffer.get_mut(place).ok_or_else(|| StoreError::Damaged("a patch range is outside".into()))?;
        part.fill(0);
        if let Some(from) = from {
            read_up_to(scratch, part, *from)?;
        }
    }
    Ok(buffer.into())
}
