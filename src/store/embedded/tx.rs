//! One change of the store: reads, conditions and the batch that follows from them, under the writer's mutex.
//!
//! A transaction collects what it wants to change and writes it as one batch at the end; dropped before that, it
//! changed nothing. Caches and the usage of content files follow the batch, in that order, before the next writer
//! begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::share::Moment;
use crate::store::conditions::Presence;
use crate::store::{
    BlobProperties, ChangeEvent, ContainerName, ETag, Found, Result, StoreError, crash_point,
};

use super::EmbeddedStore;
use super::containers::container_key;
use super::kv::{Batch, Space};
use super::names::{prefix_key, slot_key, split};
use super::numbers::Etags;
use super::record::{ContainerRecord, Content, Entry, Extent, Prefix, decode, encode};
use super::walk::segment;

/// What only the writer touches.
pub(super) struct WriterState {
    pub(super) etags: Etags,
}

/// The pair of a blob `name` and the prefix `name/`.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) blob: Option<Arc<Entry>>,
    pub(super) prefix: Option<Prefix>,
}

impl Slot {
    /// The number they share.
    pub(super) fn id(&self) -> Option<u64> {
        self.blob.as_ref().map(|blob| blob.properties.id).or(self.prefix.map(|prefix| prefix.id))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blob.is_none() && self.prefix.is_none()
    }

    pub(super) fn presence(&self) -> Presence {
        self.blob.as_ref().map_or(Presence::Missing, |blob| Presence::Present((&*blob.properties).into()))
    }
}

struct Touched {
    key: Vec<u8>,
    old: Slot,
    new: Slot,
}

/// Where a name is: the prefixes above it, outermost first, and its own slot.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    prefixes: Vec<usize>,
    slot: usize,
}

/// A transaction.
pub(super) struct Tx<'a> {
    pub(super) store: &'a EmbeddedStore,
    state: MutexGuard<'a, WriterState>,
    /// The moment this change happens.
    pub(super) now: Moment,
    /// Further changes to write along.
    pub(super) batch: Batch,
    touched: Vec<Touched>,
    containers: Vec<(ContainerName, Option<Arc<ContainerRecord>>)>,
    references: BTreeMap<u64, i64>,
    unsynced: Vec<(u64, u64)>,
}

impl<'a> Tx<'a> {
    pub(super) fn begin(store: &'a EmbeddedStore) -> Self {
        let state = store.writer.lock();
        Self {
            store,
            state,
            now: (store.clock)(),
            batch: Batch::default(),
            touched: Vec::with_capacity(4),
            containers: Vec::new(),
            references: BTreeMap::new(),
            unsynced: Vec::new(),
        }
    }

    /// A new version tag.
    pub(super) fn etag(&mut self) -> Result<ETag> {
        self.state.etags.next(self.now, &mut self.batch)
    }

    /// A new number.
    pub(super) fn number(&self) -> Result<u64> {
        self.store.numbers.take()
    }

    /// Changes, creates or removes a container's record.
    pub(super) fn set_container(
        &mut self,
        name: &ContainerName,
        record: Option<ContainerRecord>,
    ) -> Result<()> {
        match &record {
            Some(record) => self.batch.put(Space::Misc, container_key(name), encode(record)?),
            None => self.batch.remove(Space::Misc, container_key(name)),
        }
        self.containers.push((name.clone(), record.map(Arc::new)));
        Ok(())
    }

    /// The record of a container that is to be changed, or whose blobs are.
    pub(super) fn changeable(&self, name: &ContainerName) -> Result<Arc<ContainerRecord>> {
        if name.is_snapshot() {
            return Err(StoreError::NotSupported("changing a snapshot of a container"));
        }
        self.store.container(name)
    }

    fn touch(&mut self, key: Vec<u8>) -> Result<usize> {
        if let Some(index) = self.touched.iter().position(|touched| touched.key == key) {
            return Ok(index);
        }
        let old = self.store.slot(&key)?;
        self.touched.push(Touched { key, new: old.clone(), old });
        Ok(self.touched.len() - 1)
    }

    /// The slot of a name as it is in this transaction.
    pub(super) fn slot(&self, spot: &Spot) -> &Slot {
        &self.touched[spot.slot].new
    }

    /// Finds a name; nothing if not even its prefix exists.
    pub(super) fn locate(&mut self, root: u64, name: &str) -> Result<Option<Spot>> {
        let (segments, last) = split(name);
        let mut parent = root;
        let mut prefixes = Vec::new();
        for segment in segments {
            let index = self.touch(slot_key(parent, segment))?;
            let Some(prefix) = self.touched[index].new.prefix else { return Ok(None) };
            prefixes.push(index);
            parent = prefix.id;
        }
        Ok(Some(Spot { prefixes, slot: self.touch(slot_key(parent, last))? }))
    }

    /// Finds a name, making the prefixes above it. Something must be put there before the commit.
    pub(super) fn locate_or_make(&mut self, root: u64, name: &str) -> Result<Spot> {
        let (segments, last) = split(name);
        let mut parent = root;
        let mut prefixes: Vec<usize> = Vec::new();
        for segment in segments {
            let index = self.touch(slot_key(parent, segment))?;
            let slot = &self.touched[index].new;
            let id = match slot.prefix {
                Some(prefix) => prefix.id,
                None => {
                    let id = slot.id().map_or_else(|| self.number(), Ok)?;
                    self.touched[index].new.prefix = Some(Prefix { id, children: 0 });
                    self.count_in(&prefixes, 1);
                    id
                }
            };
            prefixes.push(index);
            parent = id;
        }
        Ok(Spot { prefixes, slot: self.touch(slot_key(parent, last))? })
    }

    /// Puts a version at the spot.
    pub(super) fn put_blob(&mut self, spot: &Spot, entry: Arc<Entry>) {
        if self.touched[spot.slot].new.blob.replace(entry).is_none() {
            self.count_in(&spot.prefixes, 1);
        }
    }

    /// Takes everything out of the spot; prefixes that get empty go.
    pub(super) fn take_slot(&mut self, spot: &Spot) -> Slot {
        let slot = std::mem::take(&mut self.touched[spot.slot].new);
        self.count_out(&spot.prefixes, u64::from(slot.blob.is_some()) + u64::from(slot.prefix.is_some()));
        slot
    }

    /// Takes the blob out of the spot; prefixes that get empty go.
    pub(super) fn take_blob(&mut self, spot: &Spot) -> Option<Arc<Entry>> {
        let blob = self.touched[spot.slot].new.blob.take()?;
        self.count_out(&spot.prefixes, 1);
        Some(blob)
    }

    /// Swaps what is at two spots.
    pub(super) fn swap_slots(&mut self, a: &Spot, b: &Spot) {
        let (old_a, old_b) = (self.slot(a).clone(), self.slot(b).clone());
        let entries = |slot: &Slot| u64::from(slot.blob.is_some()) + u64::from(slot.prefix.is_some());
        // In before out, so that no prefix gets empty on the way.
        self.count_in(&a.prefixes, entries(&old_b));
        self.count_in(&b.prefixes, entries(&old_a));
        self.count_out(&a.prefixes, entries(&old_a));
        self.count_out(&b.prefixes, entries(&old_b));
        self.touched[a.slot].new = old_b;
        self.touched[b.slot].new = old_a;
    }

    fn count_in(&mut self, prefixes: &[usize], entries: u64) {
        if let Some(&index) = prefixes.last()
            && let Some(prefix) = &mut self.touched[index].new.prefix
        {
            prefix.children += entries;
        }
    }

    fn count_out(&mut self, prefixes: &[usize], mut entries: u64) {
        for &index in prefixes.iter().rev() {
            let slot = &mut self.touched[index].new;
            let Some(prefix) = &mut slot.prefix else { return };
            prefix.children = prefix.children.saturating_sub(entries);
            if prefix.children > 0 {
                return;
            }
            slot.prefix = None;
            entries = 1;
        }
    }

    /// Stores bytes in the database.
    pub(super) fn store_inline(&mut self, bytes: &[u8]) -> Result<Content> {
        if bytes.is_empty() {
            return Ok(Content::Empty);
        }
        let number = self.number()?;
        self.batch.put(Space::Inline, number.to_be_bytes(), bytes);
        Ok(Content::Inline(number))
    }

    /// A record refers to this content from now on.
    pub(super) fn refer(&mut self, content: &Content) {
        for file in content.files() {
            self.count_reference(file, 1);
        }
    }

    /// A record does not refer to this content any more.
    pub(super) fn drop_content(&mut self, content: &Content) -> Result<()> {
        match content {
            Content::Empty => {}
            Content::Pages(map) => self.drop_pages(map.number)?,
            Content::Inline(number) => self.batch.remove(Space::Inline, number.to_be_bytes()),
            Content::Extents(_) => {
                for file in content.files() {
                    self.count_reference(file, -1);
                }
            }
        }
        Ok(())
    }

    /// Records refer to these pieces from now on, or do not any more: each file of them counts once.
    pub(super) fn refer_to_pieces(&mut self, pieces: &[Extent], change: i64) {
        let mut files: Vec<u64> = pieces.iter().filter_map(|piece| Some(piece.source?.file)).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().for_each(|file| self.count_reference(file, change));
    }

    /// A version is gone: its content and its block list.
    pub(super) fn drop_entry(&mut self, entry: &Entry) -> Result<()> {
        self.drop_content(&entry.content)?;
        if let Some(number) = entry.block_list {
            self.batch.remove(Space::Inline, number.to_be_bytes());
        }
        Ok(())
    }

    fn count_reference(&mut self, file: u64, change: i64) {
        *self.references.entry(file).or_default() += change;
    }

    /// The file has new bytes that are not on the disk yet.
    pub(super) fn unsynced(&mut self, file: u64, size: u64) {
        self.unsynced.push((file, size));
    }

    /// New counts of references, for the files where it changed.
    fn count_references(&mut self) -> Result<Vec<(u64, u64)>> {
        let mut counts = Vec::new();
        for (file, change) in std::mem::take(&mut self.references) {
            if change == 0 {
                continue;
            }
            let count = self.store.reference_count(file)?.checked_add_signed(change);
            let count = count.ok_or_else(|| StoreError::Damaged(format!("content {file:x} lost count")))?;
            match count {
                0 => self.batch.remove(Space::Contents, file.to_be_bytes()),
                count => self.batch.put(Space::Contents, file.to_be_bytes(), encode(&count)?),
            }
            counts.push((file, count));
        }
        Ok(counts)
    }

    /// Writes everything as one batch.
    pub(super) fn commit(mut self, operation: Points) -> Result<()> {
        self.write_out(operation)
    }

    /// Writes what is collected so far as one batch, and goes on. For the rare change that is too big for one batch and
    /// is part of nothing until its last one.
    pub(super) fn write_out(&mut self, operation: Points) -> Result<()> {
        for touched in &self.touched {
            match (&touched.old.blob, &touched.new.blob) {
                (Some(old), Some(new)) if Arc::ptr_eq(old, new) => {}
                (None, None) => {}
                (_, Some(new)) => self.batch.put(Space::Names, touched.key.clone(), new.encode()?),
                (Some(_), None) => self.batch.remove(Space::Names, touched.key.clone()),
            }
            if touched.old.prefix != touched.new.prefix {
                match &touched.new.prefix {
                    Some(prefix) => self.batch.put(Space::Names, prefix_key(&touched.key), encode(prefix)?),
                    None => self.batch.remove(Space::Names, prefix_key(&touched.key)),
                }
            }
        }
        let counts = self.count_references()?;
        for (file, size) in std::mem::take(&mut self.unsynced) {
            self.store.files.unsynced().file(file, size);
        }
        crash_point(operation.before);
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let begun = self.store.changes.begin(self.store.user, || self.events());
        if let Err(error) = self.store.kv.commit(batch) {
            self.store.after_failed_commit(&mut self.state, &counts);
            begun.in_doubt();
            return Err(error.into());
        }
        crash_point(operation.after);
        // Most prefixes above a name stay as they are.
        for touched in self.touched.drain(..).filter(Touched::is_changed) {
            self.store.slots.change(&touched.key, touched.new);
        }
        for (name, record) in self.containers.drain(..) {
            self.store.containers.change(name.as_str().as_bytes(), record);
        }
        self.store.files.settle(&counts);
        // After the caches: whoever is told and looks sees what was changed.
        begun.done();
        Ok(())
    }
}

/// What others are told.
impl Tx<'_> {
    fn events(&self) -> Vec<ChangeEvent> {
        let mut events: Vec<ChangeEvent> = self.touched.iter().filter_map(Touched::event).collect();
        let gone = |(name, record): &(ContainerName, Option<_>)| record.is_none() && !name.is_snapshot();
        if self.containers.iter().any(gone) {
            events.push(ChangeEvent::Everything);
        }
        events
    }
}

impl Touched {
    fn is_changed(&self) -> bool {
        let same_blob = match (&self.old.blob, &self.new.blob) {
            (None, None) => true,
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (Some(_), None) | (None, Some(_)) => false,
        };
        !same_blob || self.old.prefix != self.new.prefix
    }

    /// What is different for somebody who looks from outside.
    fn event(&self) -> Option<ChangeEvent> {
        let same_blob = match (&self.old.blob, &self.new.blob) {
            (None, None) => true,
            (Some(old), Some(new)) => Arc::ptr_eq(old, new) || Arc::ptr_eq(&old.properties, &new.properties),
            (Some(_), None) | (None, Some(_)) => false,
        };
        let number = |slot: &Slot| slot.prefix.map(|prefix| prefix.id);
        if same_blob && number(&self.old) == number(&self.new) {
            return None;
        }
        let found = |slot: &Slot| Found {
            blob: slot.blob.as_ref().map(|blob| Arc::clone(&blob.properties)),
            prefix: number(slot),
        };
        let parent = self.key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let name = String::from_utf8_lossy(segment(&self.key)).into_owned();
        Some(ChangeEvent::Name { parent, name, before: found(&self.old), after: found(&self.new) })
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        // Left without a commit: a reservation in the batch was not written.
        if !self.batch.is_empty() {
            self.state.etags.distrust();
        }
    }
}

/// Names of the crash points around a commit.
#[derive(Clone, Copy)]
pub(super) struct Points {
    pub(super) before: &'static str,
    pub(super) after: &'static str,
}

/// The crash points `<operation>_before_batch` and `<operation>_after_batch`.
macro_rules! points {
    ($operation:literal) => {
        $crate::store::embedded::tx::Points {
            before: concat!($operation, "_before_batch"),
            after: concat!($operation, "_after_batch"),
        }
    };
}
pub(super) use points;

impl EmbeddedStore {
    /// The slot under `key`, from memory or from the database.
    pub(super) fn slot(&self, key: &[u8]) -> Result<Slot> {
        use super::cache::Look;
        /// A key that changes faster than it can be read is answered from one read.
        const TRIES: u32 = 8;
        let mut tries = 0;
        loop {
            let ticket = match self.slots.look(key) {
                Look::Known(slot) => return Ok(slot),
                Look::Unknown(ticket) => ticket,
            };
            let blob = self.kv.get(Space::Names, key)?;
            let prefix = self.kv.get(Space::Names, &prefix_key(key))?;
            let slot = Slot {
                blob: blob.map(|value| Entry::decode(&value).map(Arc::new)).transpose()?,
                prefix: prefix.map(|value| decode(&value, "a prefix node")).transpose()?,
            };
            tries += 1;
            if self.slots.fill(key, slot.clone(), ticket) || tries == TRIES {
                return Ok(slot);
            }
        }
    }

    /// How many records refer to a content file.
    pub(super) fn reference_count(&self, file: u64) -> Result<u64> {
        let value = self.kv.get(Space::Contents, &file.to_be_bytes())?;
        value.map_or(Ok(0), |value| decode(&value, "a reference count"))
    }

    /// The batch may or may not have been written: forget what is in memory and believe the database.
    fn after_failed_commit(&self, state: &mut WriterState, counts: &[(u64, u64)]) {
        self.slots.clear();
        self.containers.clear();
        state.etags.distrust();
        for &(file, _) in counts {
            // A file whose last reference went, after all, goes too. What cannot be told now, the next start finds.
            if let Ok(count) = self.reference_count(file) {
                self.files.settle(&[(file, count)]);
            }
        }
    }
}

/// Properties of an existing version with some of them changed.
pub(super) fn changed(entry: &Entry, change: impl FnOnce(&mut BlobProperties)) -> Entry {
    let mut properties = (*entry.properties).clone();
    change(&mut properties);
    Entry { properties: Arc::new(properties), ..entry.clone() }
}
