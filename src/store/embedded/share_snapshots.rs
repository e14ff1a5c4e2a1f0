//! Snapshots of whole containers (the Files service calls them share snapshots).
//!
//! A snapshot is a hidden container ([`ContainerName::at_snapshot`]) with records of its own under numbers of its own.
//! Its records refer to the same content files as the container's, by the same counts, so everything that reads works
//! on it and nothing that frees content has to know about it. Nothing changes it: every change of a container begins
//! with `Tx::changeable`, which refuses.
//!
//! It is made under the writer's mutex, in batches of bounded size. Until the last batch names it, its root counts as
//! trash, so what a crash leaves unfinished is emptied like a deleted container.
//!
//! Content that is still being written in place (published and held, see `content`) must not be shared: it is copied,
//! before the mutex is taken where possible.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::share::Moment;
use crate::store::{
    CONTAINER_SNAPSHOTS_MAX, ContainerName, ContainerProperties, Limit, Metadata, Result, Scratch,
    SnapshotId, StoreError, crash_point,
};

use super::blobs::{Body, whole, write_all};
use super::containers::{properties, tagged_key};
use super::kv::{Space, View};
use super::purge::trash_key;
use super::record::{ContainerRecord, Content, Entry, Prefix, decode, encode};
use super::snapshots::SNAPSHOT_STEP;
use super::tx::{Tx, changed, points};
use super::walk::{Line, Lines, Walk, child, key, segment, text};
use super::{EmbeddedStore, Growth, keeper};

/// First byte of the keys.
pub(super) const SHARE_SNAPSHOT_TAG: u8 = b'v';

/// A batch is written when it has collected this much.
const STEP_BYTES: usize = 1 << 20;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

impl EmbeddedStore {
    /// Snapshots of a container, oldest first.
    pub(super) fn share_snapshots(
        &self,
        name: &ContainerName,
    ) -> Result<Vec<(SnapshotId, Arc<ContainerRecord>)>> {
        let first = tagged_key(SHARE_SNAPSHOT_TAG, &format!("{name}@"));
        let mut found = Vec::new();
        for pair in self.kv.view()?.prefix(Space::Misc, &first) {
            let (key, value) = pair?;
            let moment = text(key[first.len()..].to_vec())?;
            let moment = u64::from_str_radix(&moment, 16)
                .map_err(|_| StoreError::Damaged(format!("{name} has a snapshot without a moment")))?;
            let snapshot = SnapshotId(Moment(moment.cast_signed() ^ i64::MIN));
            found.push((snapshot, Arc::new(decode(&value, "the record of a container's snapshot")?)));
        }
        Ok(found)
    }

    pub(super) fn share_snapshot_list(
        &self,
        name: &ContainerName,
    ) -> Result<Vec<(SnapshotId, ContainerProperties)>> {
        self.container(name)?;
        let taken = self.share_snapshots(name)?;
        Ok(taken.into_iter().map(|(snapshot, record)| (snapshot, properties(name, &record))).collect())
    }

    pub(super) fn share_snapshot_delete(&self, name: &ContainerName, snapshot: SnapshotId) -> Result<()> {
        let hidden = name.at_snapshot(snapshot);
        self.write(Growth::Frees, points!("delete_container_snapshot"), |tx| {
            let record = self.container(&hidden)?;
            tx.discard_container(&hidden, &record)
        })?;
        self.files.wake();
        Ok(())
    }

    /// Takes a snapshot. Takes as long as there are names and small contents to copy.
    pub(super) fn share_snapshot(
        &self,
        name: &ContainerName,
        metadata: Option<Metadata>,
    ) -> Result<(SnapshotId, ContainerProperties)> {
        let copies = self.copy_live(name)?;
        // Live until the last batch refers to them.
        let mut kept = Vec::new();
        let made = self.write(Growth::Adds, points!("snapshot_container"), |tx| {
            let mut record = ContainerRecord::clone(&*tx.changeable(name)?);
            let taken = self.share_snapshots(name)?;
            if taken.len() >= CONTAINER_SNAPSHOTS_MAX {
                return Err(StoreError::LimitExceeded(Limit::ContainerSnapshots));
            }
            // As precise as it can be written in a URL, and behind those that are there.
            let now = Moment(tx.now.0 / SNAPSHOT_STEP * SNAPSHOT_STEP);
            let next = |(last, _): &(SnapshotId, _)| Moment(last.0.0 + SNAPSHOT_STEP);
            let snapshot = SnapshotId(taken.last().map_or(now, |last| now.max(next(last))));
            let root = tx.number()?;
            Twins { tx, root, copies, kept: &mut kept, steps: 0 }.make(record.root)?;
            record.root = root;
            record.lease = Default::default();
            record.metadata = metadata.unwrap_or(record.metadata);
            let answer = properties(name, &record);
            tx.set_container(&name.at_snapshot(snapshot), Some(record))?;
            Ok((snapshot, answer))
        });
        match made {
            Ok(_) if self.durable => keeper::checkpoint(&self.kv, &self.files, |_| {})?,
            Ok(_) => {}
            // Steps that were written are for the keeper to remove.
            Err(_) => self.files.wake(),
        }
        made
    }

    /// Copies of all content in the container that is being written in place.
    fn copy_live(&self, name: &ContainerName) -> Result<Copies> {
        let mut copies = Copies::new();
        if !self.files.has_live() {
            return Ok(copies);
        }
        let view = self.kv.view()?;
        for blob in Walk::start(&view, self.container(name)?.root, b"")? {
            let entry = blob?.entry()?;
            if !self.files.any_live(&entry.content.files()) {
                continue;
            }
            // What was replaced meanwhile is looked at again under the writer.
            if let Some(scratch) = self.copy_of_live(&entry)? {
                copies.insert(entry.properties.id, (entry, scratch));
            }
        }
        crash_point("snapshot_container_after_copy");
        Ok(copies)
    }

    /// A copy of content that may change meanwhile; what its writer cut off reads as zeros. Nothing if it is gone.
    fn copy_of_live(&self, entry: &Entry) -> Result<Option<Scratch>> {
        let failed = |error| StoreError::io("copy content for a snapshot", error);
        let scratch = self.files.scratch()?;
        scratch.file().set_len(entry.properties.size).map_err(failed)?;
        let mut buffer = vec![0; CHUNK];
        let mut start = 0;
        for extent in entry.content.extents() {
            let source = extent.source.map(|source| (self.files.open(source.file), source.offset));
            let file = match source {
                None => None,
                Some((Ok(file), offset)) => Some((file, offset)),
                Some((Err(error), _)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Some((Err(error), _)) => return Err(failed(error)),
            };
            let mut done = 0;
            while let Some((file, offset)) = file.as_ref().filter(|_| done < extent.len) {
                let length = usize::try_from(extent.len - done).unwrap_or(CHUNK).min(CHUNK);
                let count = file.read_at(&mut buffer[..length], offset + done).map_err(failed)?;
                if count == 0 {
                    break;
                }
                write_all(&scratch, &buffer[..count], start + done)?;
                done += count as u64;
            }
            start += extent.len;
        }
        Ok(Some(scratch))
    }

    /// Runs what may take long off the async threads, if there are any.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let own = Self { parts: Arc::clone(&self.parts), user: self.user, durable: self.durable };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work(&own) };
        let done = runtime.spawn_blocking(move || work(&own)).await;
        done.map_err(|error| StoreError::io("work apart", io::Error::other(error)))?
    }
}

/// Copies of live content by the number of the blob, with the version that was copied.
type Copies = HashMap<u64, (Entry, Scratch)>;

/// The making of a second tree of names.
struct Twins<'t, 's> {
    tx: &'t mut Tx<'s>,
    root: u64,
    copies: Copies,
    /// Copies that a record of the next batch refers to.
    kept: &'t mut Vec<Scratch>,
    steps: u32,
}

impl Twins<'_, '_> {
    /// Makes the tree below `from` a second time, directories before what is in them.
    fn make(&mut self, from: u64) -> Result<()> {
        // Under the writer: nothing but this changes the store, and this is not seen here.
        let view = self.tx.store.kv.view()?;
        let mut waiting = VecDeque::from([(from, self.root)]);
        // New numbers of prefixes whose blob of the same name came first.
        let mut known = HashMap::new();
        while let Some((from, to)) = waiting.pop_front() {
            for line in Lines::new(&view, from, b"") {
                let (old_key, line) = line?;
                let name = segment(&old_key);
                match line {
                    Line::Blob(value) => {
                        let id = self.tx.number()?;
                        if let Some(prefix) = child(&view, from, name)? {
                            known.insert(prefix.id, id);
                        }
                        let twin = self.twin(&view, &Entry::decode(&value)?, id)?;
                        self.tx.batch.put(Space::Names, key(to, name), twin.encode()?);
                    }
                    Line::Prefix(prefix) => {
                        let id = known.remove(&prefix.id).map_or_else(|| self.tx.number(), Ok)?;
                        self.tx.batch.put(Space::Names, key(to, name), encode(&Prefix { id, ..prefix })?);
                        waiting.push_back((prefix.id, id));
                    }
                }
                self.step()?;
            }
        }
        if self.steps > 0 {
            self.tx.batch.remove(Space::Misc, trash_key(self.root));
        }
        Ok(())
    }

    /// Writes what is collected, if that is enough for a batch.
    fn step(&mut self) -> Result<()> {
        if self.tx.batch.bytes() < STEP_BYTES {
            return Ok(());
        }
        self.tx.batch.put(Space::Misc, trash_key(self.root), Vec::new());
        self.tx.write_out(points!("snapshot_container_step"))?;
        self.steps += 1;
        self.kept.clear();
        Ok(())
    }

    /// A second record of a version.
    fn twin(&mut self, view: &View, entry: &Entry, id: u64) -> Result<Entry> {
        let content = match &entry.content {
            Content::Empty => Content::Empty,
            Content::Inline(number) => {
                let value = view.get(Space::Inline, &number.to_be_bytes())?;
                let value = value.ok_or_else(|| StoreError::Damaged("small content is missing".into()))?;
                self.tx.store_inline(&value)?
            }
            Content::Pages(map) => Content::Pages(self.tx.new_pages(Some(map.number))?),
            Content::Extents(_) if self.tx.store.files.any_live(&entry.content.files()) => {
                self.copied(entry)?
            }
            Content::Extents(_) => {
                self.tx.refer(&entry.content);
                entry.content.clone()
            }
        };
        let mut twin = changed(entry, |blob| (blob.id, blob.lease) = (id, Default::default()));
        (twin.content, twin.block_list, twin.snapshots) = (content, None, 0);
        Ok(twin)
    }

    /// Content of its own for a version whose bytes may still change.
    fn copied(&mut self, entry: &Entry) -> Result<Content> {
        let same = |(seen, _): &(Entry, Scratch)| {
            seen.properties.etag == entry.properties.etag && seen.content == entry.content
        };
        let scratch = match self.copies.remove(&entry.properties.id).filter(same) {
            Some((_, scratch)) => scratch,
            None => self
                .tx
                .store
                .copy_of_live(entry)?
                .ok_or_else(|| StoreError::Damaged("content that is being written is missing".into()))?,
        };
        let content = self.tx.place(Body::Pieces(whole(&scratch, entry.properties.size)))?;
        self.kept.push(scratch);
        Ok(content)
    }
}
