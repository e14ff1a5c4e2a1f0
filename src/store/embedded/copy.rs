//! A second record with the same content: copies, and what snapshots share with them.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::share::Moment;
use crate::share::lease::{LeaseDuration, LeaseId};
use crate::store::conditions::{Subject, WriteKind, judge_read, judge_write};
use crate::store::{
    AccessTier, BlobBody, BlobKind, BlobPath, BlobProperties, CopyRequest, CopySource, CopyState, NewContent,
    Preconditions, Result, Scratch, StoreError, crash_point,
};

use super::blobs::{Body, NewVersion, Traits, whole, write_all};
use super::kv::Space;
use super::reading::COMMIT_MAX;
use super::record::{Content, Entry};
use super::tx::{Tx, points};
use super::{EmbeddedStore, Growth};

/// How often a copy starts over because its source changed meanwhile.
const TRIES: u32 = 20;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

impl EmbeddedStore {
    pub(super) fn blob_copy(
        &self,
        source: &CopySource,
        to: &BlobPath,
        request: &CopyRequest,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let judge = |found: &Entry| judge_source(source, (self.clock)(), found);
        self.with_second(source, &judge, |from, body| {
            self.write(Growth::Adds, points!("copy"), |tx| {
                if !tx.is_still(source, from)? {
                    return Ok(None);
                }
                let root = tx.changeable(&to.container)?.root;
                let spot = tx.locate_or_make(root, to.name.as_str())?;
                let found = tx.presence(&spot, root, to)?;
                judge_write(conditions, tx.now, WriteKind::Create, &found)
                    .map_err(|refusal| refusal.about(to))?;
                if request.infinite_lease {
                    found.lease().check_copy_target(tx.now, conditions.lease)?;
                }
                let version = self.copied_version(from, body, request, tx.now)?;
                tx.put_version(&spot, root, to, version, &found).map(Some)
            })
        })
    }

    fn copied_version(
        &self,
        from: &Entry,
        body: Body,
        request: &CopyRequest,
        now: Moment,
    ) -> Result<NewVersion> {
        let blob = &from.properties;
        let block_list = match from.block_list {
            Some(number) => self.kv.get(Space::Inline, &number.to_be_bytes())?,
            None => None,
        };
        let copy = request.record.clone().map(|(id, source)| CopyState {
            id,
            source,
            bytes: blob.size,
            completed: now,
        });
        let new = NewContent {
            metadata: request.metadata.as_ref().unwrap_or(&blob.metadata).clone(),
            headers: request.headers.as_ref().unwrap_or(&blob.headers).clone(),
            content_md5: blob.content_md5,
            tags: request.tags.clone(),
            tier: request.tier,
            copy,
        };
        let traits = Traits {
            kind: blob.kind,
            sequence_number: blob.sequence_number,
            appended_blocks: blob.appended_blocks,
            sealed: request.seal && blob.kind == BlobKind::Append,
            converts: false,
        };
        Ok(NewVersion {
            body,
            size: blob.size,
            new,
            block_list: block_list.map(|list| list.to_vec()),
            traits,
        })
    }

    /// There is never a copy under way, so this only says why not.
    pub(super) fn copy_abort(&self, at: &BlobPath, copy_id: &str, lease: Option<LeaseId>) -> Result<()> {
        let blob = Arc::clone(&self.existing_entry(at)?.properties);
        let now = (self.clock)();
        let infinite = blob.lease.duration(now).is_some_and(LeaseDuration::is_infinite);
        if infinite {
            blob.lease.check_write(now, lease)?;
        } else {
            blob.lease.check_read(now, lease)?;
        }
        match &blob.copy {
            Some(copy) if copy.id != copy_id => Err(StoreError::CopyIdMismatch),
            Some(_) | None => Err(StoreError::NoPendingCopy),
        }
    }

    /// A blob or snapshot that content is taken from, as it is now.
    pub(super) fn source_entry(&self, source: &CopySource) -> Result<Arc<Entry>> {
        let found = match source.snapshot {
            None => self.current(&source.at)?,
            Some(snapshot) => self.find_snapshot(&source.at, snapshot)?,
        };
        found.ok_or_else(|| StoreError::BlobNotFound(source.at.to_string()))
    }

    /// Runs `work` with a version and its content for a second record, again while `work` finds that the version has
    /// been replaced.
    pub(super) fn with_second<T>(
        &self,
        source: &CopySource,
        judge: &dyn Fn(&Entry) -> Result<()>,
        work: impl Fn(&Arc<Entry>, Body) -> Result<Option<T>>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            let entry = self.source_entry(source)?;
            judge(&entry)?;
            if let Some((body, scratch)) = self.second_body(&entry)? {
                let answer = work(&entry, body)?;
                // Not before the batch refers to its file.
                drop(scratch);
                if let Some(answer) = answer {
                    return Ok(answer);
                }
            }
            // Whoever replaced it may not have told the caches yet: they know when its commit is over.
            drop(self.writer.try_lock_for(COMMIT_MAX));
        }
        Err(StoreError::io(
            "copy",
            std::io::Error::other(format!("{} changes faster than it can be copied", source.at)),
        ))
    }

    /// The content of a version for a second record: shared if it is in files that nobody writes, copied otherwise.
    /// Nothing if the version was replaced meanwhile.
    fn second_body(&self, entry: &Arc<Entry>) -> Result<Option<(Body, Option<Scratch>)>> {
        match &entry.content {
            Content::Empty => Ok(Some((Body::Bytes(bytes::Bytes::new()), None))),
            Content::Inline(number) => {
                let value = self.kv.get(Space::Inline, &number.to_be_bytes())?;
                Ok(value.map(|value| (Body::Bytes(value.into()), None)))
            }
            Content::Extents(extents) if !self.files.any_live(&entry.content.files()) => {
                self.settle_shared(&entry.content.files())?;
                Ok(Some((Body::Pieces(extents.clone()), None)))
            }
            Content::Pages(map) => Ok(Some((Body::Pages(Some(map.number)), None))),
            Content::Extents(_) => {
                let Some(reader) = self.open_entry(entry, &|| Ok(true))? else { return Ok(None) };
                let scratch = self.files.scratch()?;
                let size = reader.size();
                let mut buffer = vec![0; CHUNK];
                let mut done = 0;
                while done < size {
                    let count =
                        reader.read_at(&mut buffer, done).map_err(|error| StoreError::io("copy", error))?;
                    write_all(&scratch, &buffer[..count], done)?;
                    done += count as u64;
                }
                self.settle_written(scratch.file())?;
                crash_point("copy_after_write");
                Ok(Some((Body::Pieces(whole(&scratch, size)), Some(scratch))))
            }
        }
    }
}

impl Tx<'_> {
    /// Gives a body its place, referred to by one record.
    pub(super) fn place(&mut self, body: Body) -> Result<Content> {
        let content = match body {
            Body::Bytes(bytes) => self.store_inline(&bytes)?,
            Body::Pieces(pieces) => Content::Extents(pieces),
            Body::Pages(from) => return self.new_pages(from).map(Content::Pages),
        };
        self.refer(&content);
        let size = content.extents().iter().map(|extent| extent.len).sum();
        for file in content.files() {
            self.unsynced(file, size);
        }
        Ok(content)
    }

    /// Whether a version that was looked at before is still there.
    pub(super) fn is_still(&self, source: &CopySource, seen: &Entry) -> Result<bool> {
        let now = self.store.source_entry(source)?;
        Ok(now.properties.etag == seen.properties.etag && now.content == seen.content)
    }

    /// The block list of a version for a second record.
    pub(super) fn second_block_list(&mut self, entry: &Entry) -> Result<Option<u64>> {
        let Some(number) = entry.block_list else { return Ok(None) };
        let Some(list) = self.store.kv.get(Space::Inline, &number.to_be_bytes())? else { return Ok(None) };
        let number = self.number()?;
        self.batch.put(Space::Inline, number.to_be_bytes(), &*list);
        Ok(Some(number))
    }
}

/// Conditions on the source of a copy. Its lease does not count.
pub(super) fn judge_source(source: &CopySource, now: Moment, found: &Entry) -> Result<()> {
    let subject = Subject { lease: Default::default(), ..Subject::from(&*found.properties) };
    let judged = judge_read(&source.conditions.without_lease(), now, Some(&subject));
    judged.map_err(|refusal| match refusal.about(&source.at) {
        StoreError::ConditionNotMet | StoreError::NotModified => StoreError::SourceConditionNotMet,
        other => other,
    })?;
    if found.properties.tier.is_some_and(|tier| tier.tier == AccessTier::Archive) {
        return Err(StoreError::BlobArchived(source.at.to_string()));
    }
    Ok(())
}

/// Writes a body into a file from `offset` on.
pub(super) fn copy_range(body: &BlobBody, to: &std::fs::File, offset: u64) -> std::io::Result<()> {
    let file = match (body.as_bytes(), body.as_file()) {
        (Some(bytes), _) => return to.write_all_at(bytes, offset),
        (None, Some(file)) => file,
        (None, None) => return Ok(()),
    };
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    while done < body.size() {
        let length = usize::try_from(body.size() - done).unwrap_or(CHUNK).min(CHUNK);
        file.read_exact_at(&mut buffer[..length], done)?;
        to.write_all_at(&buffer[..length], offset + done)?;
        done += length as u64;
    }
    Ok(())
}

/// Reads a place in a content file, whole.
pub(super) fn read_exactly(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buffer, offset).map_err(|error| StoreError::io("read content", error))
}
