//! Staged blocks and block lists.
//!
//! Staged blocks belong to a name, whether or not a blob is there: `[root][name] 0` holds what is known of them,
//! `[root][name] 0 [block id]` one block each. A name never holds the byte 0.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use crate::share::lease::{Lease, LeaseId};
use crate::store::conditions::{Presence, Subject, WriteKind, judge_read, judge_write};
use crate::store::{
    BlobBody, BlobKind, BlobPath, BlobProperties, BlockId, BlockKind, BlockListEntry, BlockReport, ByteRange,
    CopySource, Limit, NewContent, Preconditions, Result, Scratch, StoreError,
};

use crate::store::crash_point;

use super::blobs::{Body, NewVersion, write_all};
use super::kv::{Kv, Space, View};
use super::reading::COMMIT_MAX;
use super::record::{Content, Entry, Extent, Source, StagedBlock, Staging, decode, encode};
use super::tx::{Spot, Tx, changed, points};
use super::{EmbeddedStore, Growth, copy, extents};

/// First byte of the keys.
pub(super) const STAGED_TAG: u8 = b'b';
const BLOCK_ID_MAX: usize = 64;
/// Staged blocks that nobody touched for a week are dropped, as the service does.
const STAGED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often blocks are put together anew because they were replaced meanwhile.
const TRIES: u32 = 20;

const STAGED_BLOCKS_MAX: u32 = 100_000;
const COMMITTED_BLOCKS_MAX: usize = 50_000;

/// What all keys of a container's staged blocks start with.
pub(super) fn staging_prefix(root: u64) -> Vec<u8> {
    let mut key = vec![STAGED_TAG];
    key.extend_from_slice(&root.to_be_bytes());
    key
}

/// Whether a key is of what is known of a name, not of a block.
pub(super) fn is_staging_key(key: &[u8]) -> bool {
    // Names hold no 0, so the first one ends the name; behind it is a block's id.
    key.iter().skip(9).position(|byte| *byte == 0) == Some(key.len().wrapping_sub(10))
}

fn staging_key(root: u64, name: &str) -> Vec<u8> {
    let mut key = staging_prefix(root);
    key.extend_from_slice(name.as_bytes());
    key.push(0);
    key
}

fn block_key(root: u64, name: &str, id: &BlockId) -> Vec<u8> {
    let mut key = staging_key(root, name);
    key.extend_from_slice(&id.0);
    key
}

/// Names of a container that have staged blocks, in order.
pub(super) struct StagedNames(super::kv::Range);

impl StagedNames {
    /// From the first name that is not before `from`.
    pub(super) fn start(view: &View, root: u64, from: &[u8]) -> Self {
        let first = [&staging_prefix(root), from].concat();
        Self(view.range(Space::Misc, &first, Some(&staging_prefix(root + 1))))
    }
}

impl Iterator for StagedNames {
    type Item = Result<(String, Staging)>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = |(key, value): (super::kv::Value, super::kv::Value)| {
            let name = super::walk::text(key[9..key.len() - 1].to_vec())?;
            Ok((name, decode(&value, "a staging record")?))
        };
        loop {
            match self.0.next()? {
                Ok((key, _)) if !is_staging_key(&key) => {}
                Ok(pair) => return Some(read(pair)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// Whether anything is staged in the whole store.
pub(super) fn any_staged(kv: &Kv) -> Result<bool> {
    Ok(kv.view()?.prefix(Space::Misc, &[STAGED_TAG]).next().is_some())
}

/// A committed block: its id and where it is in the content.
type CommittedBlocks = Vec<(Vec<u8>, u64)>;

/// Where the bytes of a block are.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// In a value of the database, there.
    Inline(u64, Range<u64>),
    /// In files.
    Pieces(Vec<Extent>),
}

/// What a block list means at one moment. While it means the same the bytes are the same.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    parts: Vec<Part>,
    /// The list to remember.
    blocks: CommittedBlocks,
}

impl Plan {
    fn size(&self) -> u64 {
        self.blocks.iter().map(|(_, size)| size).sum()
    }
}

/// Content put together from small blocks before the list is committed.
pub(super) struct Joined {
    plan: Plan,
    pieces: Vec<Extent>,
    /// Lives until the batch refers to it.
    _file: Scratch,
}

impl EmbeddedStore {
    fn staging(&self, root: u64, at: &BlobPath) -> Result<Option<Staging>> {
        if !self.staged_any.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let value = self.kv.get(Space::Misc, &staging_key(root, at.name.as_str()))?;
        value.map(|value| decode(&value, "a staging record")).transpose()
    }

    /// Drops blocks that were staged long ago and never committed; answers for how many names.
    pub(super) fn drop_stale_blocks(&self) -> Result<u64> {
        if !self.staged_any.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let now = (self.clock)();
        let mut dropped = 0;
        for pair in self.kv.view()?.prefix(Space::Misc, &[STAGED_TAG]) {
            let (key, value) = pair?;
            if !is_staging_key(&key) {
                continue;
            }
            let seen: Staging = decode(&value, "a staging record")?;
            if now.since(seen.touched) < STAGED_FOR || seen.lease.is_locked(now) {
                continue;
            }
            self.write(Growth::Frees, points!("purge"), |tx| {
                // Somebody may have gone on with it meanwhile.
                let current = self.kv.get(Space::Misc, &key)?;
                let unchanged = current.is_some_and(|current| *current == *value);
                if unchanged { tx.drop_staged_keys(&key) } else { Ok(()) }
            })?;
            dropped += 1;
        }
        Ok(dropped)
    }

    /// What a name without a blob is.
    pub(super) fn staged_presence(&self, root: u64, at: &BlobPath) -> Result<Presence> {
        let staging = self.staging(root, at)?;
        Ok(staging.map_or(Presence::Missing, |staging| Presence::Reserved(staging.lease)))
    }

    fn staged_blocks(&self, view: &View, root: u64, at: &BlobPath) -> Result<BTreeMap<BlockId, StagedBlock>> {
        let key = staging_key(root, at.name.as_str());
        let mut blocks = BTreeMap::new();
        for pair in view.prefix(Space::Misc, &key) {
            let (block, value) = pair?;
            if block.len() > key.len() {
                blocks.insert(BlockId(block[key.len()..].to_vec()), decode(&value, "a staged block")?);
            }
        }
        Ok(blocks)
    }

    fn committed_blocks(&self, entry: Option<&Arc<Entry>>) -> Result<CommittedBlocks> {
        let Some(number) = entry.and_then(|entry| entry.block_list) else { return Ok(Vec::new()) };
        let value = self.kv.get(Space::Inline, &number.to_be_bytes())?;
        value.map_or(Ok(Vec::new()), |value| decode(&value, "a block list"))
    }

    pub(super) fn block_put(
        &self,
        at: &BlobPath,
        id: &BlockId,
        body: BlobBody,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        if id.0.is_empty() || id.0.len() > BLOCK_ID_MAX {
            return Err(StoreError::InvalidBlockId);
        }
        let size = body.size();
        let placed = self.place_body(body)?;
        crash_point("put_block_after_write");
        self.write(Growth::Adds, points!("put_block"), |tx| tx.stage(at, id, placed.body, size, lease))
    }

    pub(super) fn block_put_from(
        &self,
        at: &BlobPath,
        id: &BlockId,
        source: &CopySource,
        range: Option<ByteRange>,
        lease: Option<LeaseId>,
    ) -> Result<u64> {
        if id.0.is_empty() || id.0.len() > BLOCK_ID_MAX {
            return Err(StoreError::InvalidBlockId);
        }
        let judge = |found: &Entry| copy::judge_source(source, (self.clock)(), found);
        self.with_second(source, &judge, |from, body| {
            let whole = from.properties.size;
            let range = match range {
                None => 0..whole,
                Some(range) if range.start >= whole => return Err(StoreError::InvalidRange { size: whole }),
                Some(range) => {
                    range.start..range.start.saturating_add(range.length.unwrap_or(whole)).min(whole)
                }
            };
            let size = range.end - range.start;
            let part = match (body, &from.content) {
                (Body::Bytes(bytes), _) => Body::Bytes(bytes.slice(range.start as usize..range.end as usize)),
                (Body::Pieces(pieces), _) => Body::Pieces(extents::slice(&pieces, range)),
                (Body::Pages(_), Content::Pages(map)) => match self.page_pieces(*map, whole, None)? {
                    Some(pieces) => Body::Pieces(extents::slice(&pieces, range)),
                    None => return Ok(None),
                },
                (Body::Pages(_), _) => return Err(StoreError::Damaged("pages without a map".into())),
            };
            self.write(Growth::Adds, points!("put_block"), |tx| {
                if !tx.is_still(source, from)? {
                    return Ok(None);
                }
                tx.stage(at, id, part, size, lease).map(|()| Some(size))
            })
        })
    }

    pub(super) fn block_list_put(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: &NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        if list.len() > COMMITTED_BLOCKS_MAX {
            return Err(StoreError::LimitExceeded(Limit::BlockList));
        }
        for _ in 0..TRIES {
            let joined = self.join_ahead(at, list, conditions)?;
            if let Some(answer) = self.commit_list(at, list, new.clone(), conditions, joined.as_ref())? {
                return Ok(answer);
            }
            // Whoever changed it may not have told the caches yet: they know when its commit is over.
            drop(self.writer.try_lock_for(COMMIT_MAX));
        }
        let what =
            std::io::Error::other(format!("the blocks of {at} change faster than they can be put together"));
        Err(StoreError::io("put together blocks", what))
    }

    /// Copies small blocks into one file, if the list needs that. It can take long, so nobody is kept waiting meanwhile,
    /// and whether the list still means the same is looked at afterwards. What is refused is left to
    /// [`Self::commit_list`], which says why.
    pub(super) fn join_ahead(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        conditions: &Preconditions,
    ) -> Result<Option<Joined>> {
        let Ok(root) = self.container(&at.container).map(|container| container.root) else { return Ok(None) };
        let entry = self.current(at)?;
        let found = match &entry {
            Some(entry) => Presence::Present((&*entry.properties).into()),
            None => self.staged_presence(root, at)?,
        };
        if judge_write(conditions, (self.clock)(), WriteKind::Create, &found).is_err() {
            return Ok(None);
        }
        match self.resolve_blocks(entry.as_ref(), root, at, list) {
            Ok(plan) if self.must_copy(&plan) => self.join(plan),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Makes the list the blob's content. Nothing if blocks must be copied that `joined` has not got.
    pub(super) fn commit_list(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: NewContent,
        conditions: &Preconditions,
        joined: Option<&Joined>,
    ) -> Result<Option<Arc<BlobProperties>>> {
        self.write(Growth::Adds, points!("put_block_list"), |tx| {
            let root = tx.changeable(&at.container)?.root;
            let (entry, found) = tx.look(root, at)?;
            judge_write(conditions, tx.now, WriteKind::Create, &found)
                .map_err(|refusal| refusal.about(at))?;
            let plan = self.resolve_blocks(entry.as_ref(), root, at, list)?;
            let body = match joined {
                Some(joined) if joined.plan == plan => Body::Pieces(joined.pieces.clone()),
                _ if self.must_copy(&plan) => return Ok(None),
                _ => self.whole_plan(&plan)?,
            };
            let block_list = Some(encode(&plan.blocks)?);
            let version = NewVersion { block_list, ..NewVersion::whole(body, plan.size(), new) };
            // Not before: what is found wanting is committed too, and would leave prefixes with nothing in them.
            let spot = tx.locate_or_make(root, at.name.as_str())?;
            tx.put_version(&spot, root, at, version, &found).map(Some)
        })
    }

    /// Whether bytes from the database are to be written into a file.
    fn must_copy(&self, plan: &Plan) -> bool {
        plan.size() > self.inline_max && plan.parts.iter().any(|part| matches!(part, Part::Inline(..)))
    }

    /// The content of a plan that needs no copying into files: in memory if that is small, else pieces of files.
    fn whole_plan(&self, plan: &Plan) -> Result<Body> {
        let small = plan.size() <= self.inline_max;
        let (mut bytes, mut pieces) = (Vec::new(), Vec::new());
        for part in &plan.parts {
            match part {
                Part::Inline(number, range) => bytes.extend_from_slice(&self.inline_part(*number, range)?),
                Part::Pieces(part) if small => self.read_pieces(part, &mut bytes)?,
                Part::Pieces(part) => part.iter().for_each(|piece| extents::append(&mut pieces, *piece)),
            }
        }
        Ok(if small { Body::Bytes(bytes.into()) } else { Body::Pieces(pieces) })
    }

    /// Puts parts behind each other as pieces of files. Nothing if one was replaced meanwhile.
    fn join(&self, plan: Plan) -> Result<Option<Joined>> {
        self.space.check()?;
        let file = self.files.scratch()?;
        let mut pieces = Vec::new();
        let mut written = 0;
        for part in &plan.parts {
            match part {
                Part::Pieces(part) => part.iter().for_each(|piece| extents::append(&mut pieces, *piece)),
                Part::Inline(number, range) => {
                    // The transaction says what is wrong if it was not replaced.
                    let Ok(bytes) = self.inline_part(*number, range) else { return Ok(None) };
                    write_all(&file, &bytes, written)?;
                    let source = Some(Source { file: file.id(), offset: written });
                    extents::append(&mut pieces, Extent { len: bytes.len() as u64, source });
                    written += bytes.len() as u64;
                }
            }
        }
        self.settle_written(file.file())?;
        Ok(Some(Joined { plan, pieces, _file: file }))
    }

    fn read_pieces(&self, pieces: &[Extent], bytes: &mut Vec<u8>) -> Result<()> {
        for piece in pieces {
            let start = bytes.len();
            bytes.resize(start + usize::try_from(piece.len).unwrap_or(usize::MAX), 0);
            if let Some(source) = piece.source {
                let file =
                    self.files.open(source.file).map_err(|error| StoreError::io("open content", error))?;
                copy::read_exactly(&file, &mut bytes[start..], source.offset)?;
            }
        }
        Ok(())
    }

    pub(super) fn block_list_get(&self, at: &BlobPath, conditions: &Preconditions) -> Result<BlockReport> {
        let root = self.container(&at.container)?.root;
        let entry = self.current(at)?;
        let blocks = self.staged_blocks(&self.kv.view()?, root, at)?;
        let uncommitted: Vec<_> = blocks.into_iter().map(|(id, block)| (id, block.size)).collect();
        if let Some(entry) = &entry {
            let subject = Subject::from(&*entry.properties);
            judge_read(conditions, (self.clock)(), Some(&subject)).map_err(|refusal| refusal.about(at))?;
        } else if uncommitted.is_empty() {
            return Err(StoreError::BlobNotFound(at.to_string()));
        } else if let Presence::Reserved(lease) = self.staged_presence(root, at)? {
            lease.check_read((self.clock)(), conditions.lease)?;
        }
        let committed = self.committed_blocks(entry.as_ref())?;
        Ok(BlockReport {
            committed: committed.into_iter().map(|(id, size)| (BlockId(id), size)).collect(),
            uncommitted,
            properties: entry.map(|entry| Arc::clone(&entry.properties)),
        })
    }
}

impl Tx<'_> {
    /// What is under the name: a blob, staged blocks, or nothing.
    pub(super) fn presence(&self, spot: &Spot, root: u64, at: &BlobPath) -> Result<Presence> {
        match self.slot(spot).presence() {
            Presence::Missing => self.store.staged_presence(root, at),
            other => Ok(other),
        }
    }

    /// What is under a name, without making anything.
    pub(super) fn look(&mut self, root: u64, at: &BlobPath) -> Result<(Option<Arc<Entry>>, Presence)> {
        match self.locate(root, at.name.as_str())? {
            Some(spot) => Ok((self.slot(&spot).blob.clone(), self.presence(&spot, root, at)?)),
            None => Ok((None, self.store.staged_presence(root, at)?)),
        }
    }

    /// Gives a name that has only staged blocks another lease.
    pub(super) fn set_staged_lease(&mut self, root: u64, at: &BlobPath, lease: Lease) -> Result<()> {
        if let Some(mut staging) = self.store.staging(root, at)? {
            staging.lease = lease;
            self.batch.put(Space::Misc, staging_key(root, at.name.as_str()), encode(&staging)?);
        }
        Ok(())
    }

    fn stage(
        &mut self,
        at: &BlobPath,
        id: &BlockId,
        body: Body,
        size: u64,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        let root = self.changeable(&at.container)?.root;
        let spot = self.locate(root, at.name.as_str())?;
        let blob = spot.as_ref().and_then(|spot| self.slot(spot).blob.clone());
        if blob.as_ref().is_some_and(|blob| blob.properties.kind != BlobKind::Block) {
            return Err(StoreError::InvalidBlobType(at.to_string()));
        }
        let mut staging = self.store.staging(root, at)?.unwrap_or_default();
        let mut guard = blob.as_ref().map_or(staging.lease, |blob| blob.properties.lease);
        guard.check_write(self.now, lease)?;
        let id_length = id.0.len() as u8;
        if staging.blocks > 0 && staging.id_length != id_length {
            return Err(StoreError::InvalidBlockId);
        }
        let key = block_key(root, at.name.as_str(), id);
        match self.store.kv.get(Space::Misc, &key)? {
            Some(value) => {
                let replaced: StagedBlock = decode(&value, "a staged block")?;
                self.drop_content(&replaced.content)?;
            }
            None if staging.blocks >= STAGED_BLOCKS_MAX => {
                return Err(StoreError::LimitExceeded(Limit::StagedBlocks));
            }
            None => staging.blocks += 1,
        }
        let content = self.place(body)?;
        self.batch.put(Space::Misc, key, encode(&StagedBlock { size, content })?);
        // A write by somebody else is what an expired lease must not survive.
        guard.modified(self.now);
        match (&spot, &blob) {
            (Some(spot), Some(blob)) if blob.properties.lease != guard => {
                self.put_blob(spot, Arc::new(changed(blob, |blob| blob.lease = guard)));
            }
            (_, Some(_)) => {}
            (_, None) => staging.lease = guard,
        }
        (staging.touched, staging.id_length) = (self.now, id_length);
        self.batch.put(Space::Misc, staging_key(root, at.name.as_str()), encode(&staging)?);
        self.store.staged_any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Drops what is staged under a name.
    pub(super) fn drop_staged(&mut self, root: u64, at: &BlobPath) -> Result<()> {
        match self.store.staging(root, at)? {
            Some(_) => self.drop_staged_keys(&staging_key(root, at.name.as_str())),
            None => Ok(()),
        }
    }

    fn drop_staged_keys(&mut self, staging_key: &[u8]) -> Result<()> {
        let view = self.store.kv.view()?;
        for pair in view.prefix(Space::Misc, staging_key) {
            let (key, value) = pair?;
            if key.len() > staging_key.len() {
                let block: StagedBlock = decode(&value, "a staged block")?;
                self.drop_content(&block.content)?;
            }
            self.batch.remove(Space::Misc, &*key);
        }
        Ok(())
    }
}

impl EmbeddedStore {
    /// What the blocks in a list are.
    fn resolve_blocks(
        &self,
        entry: Option<&Arc<Entry>>,
        root: u64,
        at: &BlobPath,
        list: &[BlockListEntry],
    ) -> Result<Plan> {
        let staged = self.staged_blocks(&self.kv.view()?, root, at)?;
        let mut committed = BTreeMap::new();
        let mut start = 0;
        for (id, size) in self.committed_blocks(entry)? {
            committed.insert(BlockId(id), start..start + size);
            start += size;
        }
        let mut seen = HashSet::new();
        let (mut parts, mut blocks) = (Vec::with_capacity(list.len()), Vec::with_capacity(list.len()));
        for wanted in list {
            let staged = staged.get(&wanted.id).filter(|_| wanted.kind != BlockKind::Committed);
            let old = committed.get(&wanted.id).filter(|_| wanted.kind != BlockKind::Uncommitted);
            if !seen.insert(&wanted.id) {
                return Err(StoreError::InvalidBlockList);
            }
            let (content, range) = match (staged, old, entry) {
                (Some(block), _, _) => (&block.content, 0..block.size),
                (None, Some(range), Some(entry)) => (&entry.content, range.clone()),
                (None, _, _) => return Err(StoreError::InvalidBlockList),
            };
            blocks.push((wanted.id.0.clone(), range.end - range.start));
            parts.extend(part(content, range)?);
        }
        Ok(Plan { parts, blocks })
    }

    /// A part of a value.
    fn inline_part(&self, number: u64, range: &Range<u64>) -> Result<Bytes> {
        let value = self.kv.get(Space::Inline, &number.to_be_bytes())?;
        let bytes: Bytes = value.ok_or_else(|| StoreError::Damaged("a block is missing".into()))?.into();
        let place = range.start as usize..range.end as usize;
        if place.end <= bytes.len() { Ok(bytes.slice(place)) } else { Err(StoreError::InvalidBlockList) }
    }
}

/// A part of some content; nothing if it has no bytes.
fn part(content: &Content, range: Range<u64>) -> Result<Option<Part>> {
    match content {
        Content::Empty => Ok(None),
        Content::Inline(number) => Ok(Some(Part::Inline(*number, range))),
        Content::Extents(pieces) => Ok(Some(Part::Pieces(extents::slice(pieces, range)))),
        Content::Pages(_) => Err(StoreError::InvalidBlockList),
    }
}
