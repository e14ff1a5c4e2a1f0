//! The bytes of a push: in one piece, or as blocks of which only those that changed are sent.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tokio::sync::SemaphorePermit;

use super::blocks::{BLOCK, Part, Source, merged, plan};
use super::early::EarlyBlocks;
use super::push::Push;
use super::state::Block;
use super::{Mirror, PUSH_TOKEN};
use crate::store::{
    BlobBody, BlobProperties, BlockId, BlockKind, BlockListEntry, ByteRange, ContentReader, CopySource, ETag,
    HttpHeaders, Preconditions, PropertiesChange, Result, StoreError, crash_point,
};

/// Length of our block ids, where a blob has none yet.
pub(super) const ID_BYTES: usize = 16;
/// Foreign ids shorter than this leave no room for new ones.
const ID_BYTES_MIN: usize = 8;

/// The content type of a blob that was given none, as the service tells it.
const UNTOLD_TYPE: &str = "application/octet-stream";

/// What uploads count in: small ones hardly count, so that many can be under way.
const UNIT: u64 = 64 << 10;

/// How much may be on its way at a time: so many blocks, or many more small files.
pub(super) fn upload_room(blocks: usize) -> u32 {
    let units = blocks.max(1) as u64 * (BLOCK / UNIT);
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// What the service made of a push.
pub(super) struct Sent {
    pub(super) etag: ETag,
    /// The blocks it is made of, where they changed or their version did.
    pub(super) blocks: Option<Vec<Block>>,
}

/// The blocks a push can build on.
struct Old {
    blocks: Vec<Block>,
    /// Whether they have names; content put in one piece is one block without.
    named: bool,
}

impl Mirror {
    pub(super) async fn send_properties(&self, push: &Push<'_>) -> Result<Sent> {
        let metadata = push.new_content().metadata;
        let mark = metadata.get(PUSH_TOKEN).map(str::to_owned);
        let old = match push.base {
            Some((etag, _)) => self.sidecars.layout(push.name, etag)?,
            None => None,
        };
        let made = self.service.set_blob_metadata(&push.at, metadata, &push.conditions()).await?;
        // What is told is what is there afterwards, which somebody else may have made.
        if made.metadata.get(PUSH_TOKEN) != mark.as_deref() {
            return Err(StoreError::ConditionNotMet);
        }
        let made = self.send_headers(push, made).await?;
        Ok(Sent { etag: made.etag, blocks: old.map(|layout| layout.blocks) })
    }

    /// Gives a version that was just made the headers that it has here, if they are others.
    async fn send_headers(&self, push: &Push<'_>, made: Arc<BlobProperties>) -> Result<Arc<BlobProperties>> {
        let blob = push.reader.properties();
        let told = |headers: &HttpHeaders| {
            let content_type = headers.content_type.clone().or_else(|| Some(UNTOLD_TYPE.to_owned()));
            HttpHeaders { content_type, ..headers.clone() }
        };
        // A sum that only the service knows is one that it made itself, and stays.
        let md5 = blob.content_md5.or(made.content_md5);
        if told(&blob.headers) == told(&made.headers) && md5 == made.content_md5 {
            return Ok(made);
        }
        let headers = Some((blob.headers.clone(), md5));
        let change = PropertiesChange { headers, ..PropertiesChange::default() };
        let onto = Preconditions { lease: push.fence.lease, ..Preconditions::if_version(made.etag) };
        self.service.set_blob_properties(&push.at, change, &onto).await
    }

    pub(super) async fn send_whole(&self, push: &Push<'_>) -> Result<Sent> {
        let size = push.reader.size();
        // A commit in one piece drops them.
        self.early.forget(push.name);
        let _room = self.room(size).await?;
        let bytes = self.local_bytes(push, 0..size).await?;
        crash_point("push_before_commit");
        let made =
            self.service.put_blob(&push.at, bytes.into(), push.new_content(), &push.conditions()).await?;
        Ok(Sent { etag: made.etag, blocks: Some(Vec::new()) })
    }

    pub(super) async fn send_blocks(&self, push: &Push<'_>) -> Result<Sent> {
        let size = push.reader.size();
        // Kept to the end: what is sent early beside the commit would be dropped by it. Whatever becomes of the commit,
        // the next push must not rely on these blocks.
        let mut early = self.early.of(push.name).await;
        let early = &std::mem::take(&mut *early);
        let old = self.old_blocks(push).await?;
        let lens: Vec<u64> = old.blocks.iter().map(|block| block.len).collect();
        let parts = plan(&lens, old.named, &changed(push), size);
        let id_bytes = old.blocks.first().filter(|_| old.named).map_or(ID_BYTES, |block| block.id.len());
        let send = |(index, part)| {
            let old = &old;
            async move { Ok::<_, StoreError>((index, self.stage(push, (old, early), part, id_bytes).await?)) }
        };
        let staged = futures_util::stream::iter(parts.into_iter().enumerate()).map(send);
        let mut staged: Vec<(usize, Staged)> =
            staged.buffer_unordered(self.options.parallel).try_collect().await?;
        staged.sort_by_key(|(index, _)| *index);
        let list: Vec<_> = staged
            .iter()
            .map(|(_, Staged { block, kept })| BlockListEntry {
                kind: if *kept { BlockKind::Committed } else { BlockKind::Uncommitted },
                id: BlockId(block.id.clone()),
            })
            .collect();
        crash_point("push_before_commit");
        let made =
            self.service.put_block_list(&push.at, &list, push.new_content(), &push.conditions()).await?;
        let blocks = staged.into_iter().map(|(_, staged)| staged.block).collect();
        Ok(Sent { etag: made.etag, blocks: Some(blocks) })
    }

    /// The blocks of the version that the push began with: as they are known, or asked for.
    async fn old_blocks(&self, push: &Push<'_>) -> Result<Old> {
        let Some((etag, size)) = push.base.filter(|_| push.trust_blocks) else {
            return Ok(Old { blocks: Vec::new(), named: false });
        };
        let blocks = match self.sidecars.layout(push.name, etag)? {
            Some(layout) => layout.blocks,
            None => {
                let report = self.service.get_block_list(&push.at, &Preconditions::default()).await?;
                if report.properties.is_none_or(|found| found.etag != etag) {
                    return match push.fence.check_version {
                        true => Err(StoreError::ConditionNotMet),
                        false => Ok(Old { blocks: Vec::new(), named: false }),
                    };
                }
                let block = |(id, len): (BlockId, u64)| Block { id: id.0, len, digest: None };
                report.committed.into_iter().map(block).collect()
            }
        };
        let whole = blocks.iter().map(|block| block.len).sum::<u64>() == size;
        if whole && !blocks.is_empty() && blocks.iter().all(|block| block.id.len() >= ID_BYTES_MIN) {
            return Ok(Old { blocks, named: true });
        }
        Ok(Old { blocks: vec![Block { id: Vec::new(), len: size, digest: None }], named: false })
    }

    /// Makes sure that the service has a block.
    async fn stage(
        &self,
        push: &Push<'_>,
        (old, early): (&Old, &EarlyBlocks),
        part: Part,
        id_bytes: usize,
    ) -> Result<Staged> {
        let len = part.range.end - part.range.start;
        let id = || BlockId(uuid_bytes(id_bytes));
        match part.source {
            Source::Keep(index) => return Ok(Staged { block: old.blocks[index].clone(), kept: true }),
            Source::Copy if self.copies_ranges.load(Ordering::Relaxed) => {
                let id = id();
                if self.copy_part(push, &id, &part.range).await? {
                    return Ok(Staged { block: Block { id: id.0, len, digest: None }, kept: false });
                }
            }
            Source::Copy | Source::Send => {}
        }
        let _room = self.room(len).await?;
        let bytes = self.local_bytes(push, part.range.clone()).await?;
        let (bytes, digest) = digested(bytes).await?;
        if let Some(same) = old.same(&part.range, &digest) {
            return Ok(Staged { block: same.clone(), kept: true });
        }
        if let Some(Some(block)) = early.get(&part.range.start)
            && (block.len, block.digest, block.id.len()) == (len, Some(digest), id_bytes)
        {
            return Ok(Staged { block: block.clone(), kept: false });
        }
        let id = id();
        self.service.put_block(&push.at, &id, summed(bytes).await?, push.fence.lease).await?;
        Ok(Staged { block: Block { id: id.0, len, digest: Some(digest) }, kept: false })
    }

    /// Lets the service make a block of its own bytes; answers whether it can.
    async fn copy_part(&self, push: &Push<'_>, id: &BlockId, range: &Range<u64>) -> Result<bool> {
        let Some((etag, _)) = push.base else { return Ok(false) };
        let source = CopySource { conditions: Preconditions::if_version(etag), ..CopySource::of(&push.at) };
        let part = ByteRange { start: range.start, length: Some(range.end - range.start) };
        let _room = self.room(0).await?;
        match self.service.put_block_from(&push.at, id, &source, Some(part), push.fence.lease).await {
            Ok(_) => Ok(true),
            Err(StoreError::SourceConditionNotMet) => Err(StoreError::ConditionNotMet),
            Err(
                error @ (StoreError::ConditionNotMet | StoreError::Lease(_) | StoreError::BlobNotFound(_)),
            ) => Err(error),
            Err(error) => {
                tracing::debug!(%error, "this service cannot copy parts of blobs; they are sent");
                self.copies_ranges.store(false, Ordering::Relaxed);
                Ok(false)
            }
        }
    }

    /// Waits until so many more bytes may be in memory on their way.
    pub(super) async fn room(&self, bytes: u64) -> Result<SemaphorePermit<'_>> {
        let most = upload_room(self.options.parallel);
        let units = u32::try_from(bytes / UNIT).unwrap_or(most).clamp(1, most);
        self.uploads.acquire_many(units).await.map_err(|_| closed())
    }

    /// Bytes of the version that is pushed, brought here first where they are not.
    async fn local_bytes(&self, push: &Push<'_>, range: Range<u64>) -> Result<Bytes> {
        if !push.is_all_here() {
            self.bring_here(push.name, range.clone()).await?;
        }
        read(push.reader.clone(), range).await
    }
}

/// A block that the service has, staged or from the version before.
struct Staged {
    block: Block,
    kept: bool,
}

impl Old {
    /// The block at this place, if its bytes are these.
    fn same(&self, range: &Range<u64>, digest: &[u8; 16]) -> Option<&Block> {
        if !self.named {
            return None;
        }
        let mut start = 0;
        for block in &self.blocks {
            if start == range.start {
                let same = start + block.len == range.end && block.digest.as_ref() == Some(digest);
                return same.then_some(block);
            }
            start += block.len;
        }
        None
    }
}

/// What may differ from the version that the push began with.
fn changed(push: &Push<'_>) -> Vec<Range<u64>> {
    let size = push.reader.size();
    let Some(ranges) = &push.entry.ranges else {
        return std::iter::once(0..size).collect();
    };
    let old = push.base.map_or(0, |(_, old)| old);
    let unchanged = push.entry.shortest.min(old).min(size);
    let inside = ranges.iter().map(|range| range.start.min(size)..range.end.min(size));
    merged(inside.chain(std::iter::once(unchanged..size)).collect())
}

/// Reads on a thread that may wait for the disk.
async fn read(reader: ContentReader, range: Range<u64>) -> Result<Bytes> {
    if let Some(bytes) = reader.as_bytes() {
        let (start, end) = (to_usize(range.start).min(bytes.len()), to_usize(range.end).min(bytes.len()));
        return Ok(bytes.slice(start..end));
    }
    let work = move || {
        let mut buffer = vec![0; to_usize(range.end - range.start)];
        let count = reader.read_at(&mut buffer, range.start);
        let count = count.map_err(|error| StoreError::io("read what is pushed", error))?;
        buffer.truncate(count);
        Ok(Bytes::from(buffer))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| closed())?
}

pub(super) async fn digested(bytes: Bytes) -> Result<(Bytes, [u8; 16])> {
    let work = move || {
        let full: [u8; 32] = Sha256::digest(&bytes).into();
        let mut digest = [0; 16];
        digest.copy_from_slice(&full[..16]);
        (bytes, digest)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| closed())
}

/// A block as it is sent.
pub(super) async fn summed(bytes: Bytes) -> Result<BlobBody> {
    tokio::task::spawn_blocking(move || BlobBody::summed(bytes)).await.map_err(|_| closed())
}

/// A block id that no other block has.
pub(super) fn uuid_bytes(length: usize) -> Vec<u8> {
    let random = std::iter::repeat_with(|| uuid::Uuid::new_v4().into_bytes()).flatten();
    random.take(length).collect()
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The process is ending.
fn closed() -> StoreError {
    StoreError::io("push", std::io::Error::other("the mount is ending"))
}
