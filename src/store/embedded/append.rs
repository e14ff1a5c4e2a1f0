//! Append blobs: content that grows at its end.
//!
//! New bytes go behind the last ones in the blob's own last file, where no committed version looks, and become part of
//! the blob with the batch that makes it longer. That needs a file which no other record uses: after a snapshot or a
//! copy the next append begins a new file. Appends to one blob follow each other; others do not wait for them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::store::conditions::{Presence, WriteKind, judge_write};
use crate::store::{
    AppendConditions, Appended, BlobBody, BlobKind, BlobPath, BlobProperties, Limit, NewContent,
    Preconditions, Result, Scratch, StoreError, crash_point,
};

use super::blobs::{Body, NewVersion, Traits};
use super::committer::sync_files;
use super::copy::copy_range;
use super::record::{Content, Entry, Extent, Source};
use super::tx::{Tx, points};
use super::{EmbeddedStore, Growth, extents};

const BLOCKS_MAX: u32 = 50_000;

/// Appends that can run at once; two blobs may share a place and then wait for each other.
pub(super) const APPEND_LANES: usize = 64;

/// How often an append starts over because the blob was changed meanwhile by something else than an append.
const TRIES: u32 = 20;

/// Where appended bytes were written.
struct Tail {
    file: u64,
    offset: u64,
    handle: Arc<std::fs::File>,
    /// A file that nothing refers to yet.
    _fresh: Option<Scratch>,
}

impl EmbeddedStore {
    pub(super) fn append_blob_create(
        &self,
        at: &BlobPath,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let traits = Traits { kind: BlobKind::Append, ..Traits::default() };
        let body = Body::Bytes(bytes::Bytes::new());
        let version = NewVersion { body, size: 0, new, block_list: None, traits };
        self.make_version(at, version, conditions, points!("create_append"))
    }

    pub(super) async fn block_append(
        &self,
        at: &BlobPath,
        body: BlobBody,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Appended> {
        let mut hasher = DefaultHasher::new();
        at.hash(&mut hasher);
        let lane = hasher.finish() as usize % APPEND_LANES;
        let _one_at_a_time = self.appending[lane].lock().await;
        for _ in 0..TRIES {
            let entry = self.existing_entry(at)?;
            judge_append(at, &entry, body.size(), append, conditions, (self.clock)())?;
            let tail = self.write_tail(&entry, &body)?;
            crash_point("append_after_write");
            if self.durable {
                sync_files(vec![Arc::clone(&tail.handle)]).await?;
            }
            let done = self.write(Growth::Adds, points!("append"), |tx| {
                tx.append(at, &entry, &tail, body.size(), append, conditions)
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(StoreError::io("append", std::io::Error::other(format!("{at} changes all the time"))))
    }

    /// Writes the body where the blob's content can go on.
    fn write_tail(&self, entry: &Entry, body: &BlobBody) -> Result<Tail> {
        let failed = |error| StoreError::io("append", error);
        if let Some(last) = entry.content.extents().last()
            && let Some(source) = last.source
            && self.reference_count(source.file)? == 1
            && !self.files.is_held(source.file)
        {
            let path = self.files.path(source.file);
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
            let offset = source.offset + last.len;
            copy_range(body, &file, offset).map_err(failed)?;
            return Ok(Tail { file: source.file, offset, handle: Arc::new(file), _fresh: None });
        }
        let fresh = self.files.scratch()?;
        // Content in the database moves along, so that the blob is one file from now on.
        let offset = match entry.content {
            Content::Inline(_) => self.copy_inline(entry, fresh.file())?,
            Content::Empty | Content::Extents(_) | Content::Pages(_) => 0,
        };
        copy_range(body, fresh.file(), offset).map_err(failed)?;
        self.files.remember(fresh.id(), fresh.file());
        Ok(Tail { file: fresh.id(), offset, handle: Arc::clone(fresh.file()), _fresh: Some(fresh) })
    }

    fn copy_inline(&self, entry: &Entry, file: &std::fs::File) -> Result<u64> {
        use std::os::unix::fs::FileExt;
        let Content::Inline(number) = entry.content else { return Ok(0) };
        let value = self.kv.get(super::kv::Space::Inline, &number.to_be_bytes())?;
        let value =
            value.ok_or_else(|| StoreError::Damaged("the content of an append blob is missing".into()))?;
        file.write_all_at(&value, 0).map_err(|error| StoreError::io("append", error))?;
        Ok(value.len() as u64)
    }

    pub(super) fn append_seal(
        &self,
        at: &BlobPath,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.write(Growth::Frees, points!("seal"), |tx| {
            let (spot, entry) = tx.judged(at, conditions)?;
            if entry.properties.kind != BlobKind::Append {
                return Err(StoreError::InvalidBlobType(at.to_string()));
            }
            if append.position.is_some_and(|position| position != entry.properties.size) {
                return Err(StoreError::AppendPositionNotMet);
            }
            if entry.properties.sealed {
                return Ok(Arc::clone(&entry.properties));
            }
            tx.put_changed(&spot, &entry, |blob| blob.sealed = true)
        })
    }
}

impl Tx<'_> {
    /// Makes the blob longer by what was written; nothing if its content is not what it was.
    fn append(
        &mut self,
        at: &BlobPath,
        seen: &Entry,
        tail: &Tail,
        size: u64,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Option<Appended>> {
        let (spot, entry) = self.existing(at)?;
        judge_append(at, &entry, size, append, conditions, self.now)?;
        // A snapshot taken meanwhile shares the file: the next try begins a new one.
        let shared = tail._fresh.is_none() && self.store.reference_count(tail.file)? != 1;
        if entry.content != seen.content || entry.properties.size != seen.properties.size || shared {
            return Ok(None);
        }
        let offset = entry.properties.size;
        let mut pieces = match &entry.content {
            Content::Inline(_) => {
                vec![Extent { len: tail.offset, source: Some(Source { file: tail.file, offset: 0 }) }]
            }
            Content::Empty | Content::Extents(_) | Content::Pages(_) => entry.content.extents().to_vec(),
        };
        let source = Some(Source { file: tail.file, offset: tail.offset });
        extents::append(&mut pieces, Extent { len: size, source });
        let content = if pieces.is_empty() { Content::Empty } else { Content::Extents(pieces) };
        self.refer(&content);
        self.drop_content(&entry.content)?;
        self.unsynced(tail.file, size);
        let grown = Entry { content, ..(*entry).clone() };
        let properties = self.put_changed(&spot, &grown, |blob| {
            blob.size += size;
            blob.appended_blocks += 1;
        })?;
        Ok(Some(Appended { offset, properties }))
    }
}

/// Everything that an append is judged by.
fn judge_append(
    at: &BlobPath,
    entry: &Entry,
    size: u64,
    append: AppendConditions,
    conditions: &Preconditions,
    now: crate::share::Moment,
) -> Result<()> {
    let blob = &*entry.properties;
    let found = Presence::Present(blob.into());
    judge_write(conditions, now, WriteKind::Change, &found).map_err(|refusal| refusal.about(at))?;
    if blob.kind != BlobKind::Append {
        return Err(StoreError::InvalidBlobType(at.to_string()));
    }
    if blob.sealed {
        return Err(StoreError::BlobSealed(at.to_string()));
    }
    if append.position.is_some_and(|position| position != blob.size) {
        return Err(StoreError::AppendPositionNotMet);
    }
    if append.max_size.is_some_and(|limit| blob.size.saturating_add(size) > limit) {
        return Err(StoreError::MaxSizeNotMet);
    }
    if blob.appended_blocks >= BLOCKS_MAX {
        return Err(StoreError::LimitExceeded(Limit::AppendedBlocks));
    }
    Ok(())
}
