//! A second record with the same content: copies, and what snapshots share with them.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::store::conditions::{Subject, WriteKind, judge_read, judge_write};
use crate::store::{
    BlobPath, BlobProperties, Metadata, NewContent, Preconditions, Result, Scratch, StoreError, crash_point,
};

use super::blobs::{Body, NewVersion, whole, write_all};
use super::kv::Space;
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
        from: &BlobPath,
        source_conditions: &Preconditions,
        to: &BlobPath,
        metadata: Option<&Metadata>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.with_second(from, Some(source_conditions), |source, body| {
            self.write(Growth::Adds, points!("copy"), |tx| {
                let (_, now) = tx.existing(from)?;
                if now.properties.etag != source.properties.etag || now.content != source.content {
                    return Ok(None);
                }
                let root = self.container(&to.container)?.root;
                let spot = tx.locate_or_make(root, to.name.as_str())?;
                let found = tx.presence(&spot, root, to)?;
                judge_write(conditions, tx.now, WriteKind::Create, found)
                    .map_err(|refusal| refusal.about(to))?;
                let block_list = match source.block_list {
                    Some(number) => self.kv.get(Space::Inline, &number.to_be_bytes())?,
                    None => None,
                };
                let blob = &source.properties;
                let metadata = metadata.unwrap_or(&blob.metadata).clone();
                let version = NewVersion {
                    body,
                    size: blob.size,
                    new: NewContent { metadata, headers: blob.headers.clone() },
                    md5: blob.content_md5,
                    block_list: block_list.map(|list| list.to_vec()),
                };
                tx.put_version(&spot, root, to, version, found).map(Some)
            })
        })
    }

    /// Runs `work` with the current version of a blob and its content for a second record, again while `work`
    /// finds that the blob has changed.
    pub(super) fn with_second<T>(
        &self,
        at: &BlobPath,
        conditions: Option<&Preconditions>,
        work: impl Fn(&Arc<Entry>, Body) -> Result<Option<T>>,
    ) -> Result<T> {
        for _ in 0..TRIES {
            let missing = || StoreError::BlobNotFound(at.to_string());
            let entry = self.current(at)?.ok_or_else(missing)?;
            if let Some(conditions) = conditions {
                let subject = Subject::from(&*entry.properties);
                judge_read(conditions, (self.clock)(), Some(&subject)).map_err(|refusal| {
                    match refusal.about(at) {
                        StoreError::ConditionNotMet | StoreError::NotModified => {
                            StoreError::SourceConditionNotMet
                        }
                        other => other,
                    }
                })?;
            }
            let Some((body, scratch)) = self.second_body(&entry)? else { continue };
            let answer = work(&entry, body)?;
            // Not before the batch refers to its file.
            drop(scratch);
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
        Err(StoreError::io(
            "copy",
            std::io::Error::other(format!("{at} changes faster than it can be copied")),
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
                Ok(Some((Body::Pieces(extents.clone()), None)))
            }
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
        };
        self.refer(&content);
        let size = content.extents().iter().map(|extent| extent.len).sum();
        for file in content.files() {
            self.unsynced(file, size);
        }
        Ok(content)
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

/// Reads a place in a content file, whole.
pub(super) fn read_exactly(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> Result<()> {
    file.read_exact_at(buffer, offset).map_err(|error| StoreError::io("read content", error))
}
