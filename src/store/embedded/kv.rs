//! The only module that knows the key-value library (fjall).
//!
//! It offers four ordered key spaces with get, ordered ranges from a key, atomic batches and sync; nothing of the
//! library leaves it. A batch is in the operating system's hands when [`Kv::commit`] returns, and on the disk after
//! the next [`Kv::sync`]. Any failed write makes the library's handle unusable, so it is closed and opened again
//! before the error is answered. Clearing a space, separating values and FIFO compaction are never used: each has
//! lost data in this library.
//!
//! After a power loss the database is as it was after one of its batches: later ones are lost, none is there in part.
//! The library alone does not promise that. A space collects changes in memory until it is *sealed*; then a worker
//! writes it into a table, which survives a power loss at once, while the parts of the same batches in other spaces
//! need the journal. The library does sync the journal before it writes a table, but what another worker seals
//! between the two goes into the table as well. So we seal, and the library does not:
//!
//! ```text
//! a batch comes -- does it fit into memory? --yes--> journal, memory, answer
//!                          | no                        ^
//!                          `--> sync the journal, seal --'     nobody else commits meanwhile
//! ```
//!
//! A space must never be sealed before the journal is synced with all that is in it.

use std::io;
use std::ops::{Bound, Deref};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode,
    Readable, Snapshot,
};
use parking_lot::{Mutex, RwLock};

use crate::store::StoreError;

use super::journal::Journal;
use super::reclaim::Tables;
use super::torn;

#[cfg(test)]
mod tests;

/// How long a reopen waits for running listings to let go of the old handle.
const REOPEN_WAIT: Duration = Duration::from_secs(10);

/// Threads that flush and compact in the background. The library keeps its first worker for flushes: that one hands every
/// compaction it is given back to the queue, and takes it out again at once, until another worker is free. After each
/// flush there are as many compactions in the queue as there are workers, so with two workers the first one burns a
/// processor as long as the second compacts. With more there is mostly another to find that nothing is left to do.
///
/// Measured with 200,000 small blobs put and removed (debug build, two busy processors, two runs each), processor time of
/// all workers: 1.4 s with one, which never does that but cannot flush while it compacts; 2.0 s with two, 1.6 s with
/// three, 1.4 to 1.6 s with four. While a space is rewritten by [`Kv::compact`] they wait for that, however many they
/// are, and the first one goes round.
const WORKERS: usize = 4;

/// Bytes of a table: the library's own choice.
pub(super) const TABLE_BYTES: u64 = 64 << 20;

/// Files the library keeps open at most.
const OPEN_FILES: usize = 256;

/// The library begins a new journal every 64 MB and removes one when all that is in it is in tables. With more than
/// this many, spaces that change little are written out, too.
const JOURNALS: usize = 2;

/// What a change takes in memory beside its key and value: not less than the library counts.
const CHANGE_BYTES: u64 = 64;

/// The library would seal a space that is so many times as full as ours ever get. In stores that earlier versions made
/// it is 1, which does as well.
const LIBRARY_LIMIT: u64 = 4;

/// For so long nothing may change while the workers are waited for before something is wrong.
const WORKERS_WAIT: Duration = Duration::from_secs(60);

/// So often it is looked whether the workers got on.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A space is sealed when fewer of its sealed parts than this are still to be written, and fewer tables than this to
/// be merged. With one more of the former, or ten more of the latter, the library makes a commit wait by itself, with
/// all our locks held, and forever if its workers have ended.
const SEALED_MAX: usize = 3;
const UNMERGED_MAX: usize = 20;

/// The library queues merges only after it wrote a table, so with nothing to write none may be coming. If nothing
/// changed for so long, a space is sealed all the same while fewer tables than this are to be merged.
const UNMERGED_LAST: usize = 28;
const MERGE_WAIT: Duration = Duration::from_millis(100);

/// The key spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// The tree of blob names.
    Names,
    /// Content small enough to need no file.
    Inline,
    /// How many records refer to each content file.
    Contents,
    /// Containers, snapshots, staged blocks, counters.
    Misc,
}

impl Space {
    /// All of them.
    pub(super) const ALL: [Space; 4] = [Space::Names, Space::Inline, Space::Contents, Space::Misc];
}

/// Bytes of each key space.
type Sizes = [u64; SPACES.len()];

const SPACES: [(Space, &str); 4] = [
    (Space::Names, "names"),
    (Space::Inline, "inline"),
    (Space::Contents, "contents"),
    (Space::Misc, "misc"),
];

/// Sizes the library is run with.
#[derive(Clone, Copy, Debug)]
pub(super) struct KvOptions {
    /// Block cache in bytes.
    pub(super) cache: u64,
    /// Bytes a key space collects in memory before it is written out.
    pub(super) memtable: u64,
    /// Bytes a table may have. The store must have been made with the same.
    pub(super) table: u64,
    /// Whether the last process did not close the database, so that what it did not sync may be lost in part.
    pub(super) after_crash: bool,
}

/// Why the key-value store failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KvError {
    #[error("no room left")]
    Full,
    #[error("another process has it open")]
    InUse,
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Io(io::Error),
}

impl From<KvError> for StoreError {
    fn from(error: KvError) -> Self {
        match error {
            KvError::Full => StoreError::Full,
            KvError::InUse => StoreError::Damaged("another process opened the database".into()),
            KvError::Damaged(text) => StoreError::Damaged(text),
            KvError::Io(source) => StoreError::io("the store's database", source),
        }
    }
}

impl From<io::Error> for KvError {
    fn from(source: io::Error) -> Self {
        match StoreError::io("", source) {
            StoreError::Io { source, .. } => KvError::Io(source),
            _ => KvError::Full,
        }
    }
}

impl From<fjall::Error> for KvError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => source.into(),
            fjall::Error::Locked => KvError::InUse,
            fjall::Error::Poisoned => KvError::Io(io::Error::other("an earlier write failed")),
            other => KvError::Damaged(format!("{other:?}")),
        }
    }
}

/// A value as read; shares the library's memory.
#[derive(Clone)]
pub(super) struct Value(fjall::Slice);

impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Value> for Bytes {
    fn from(value: Value) -> Self {
        Bytes::from_owner(value)
    }
}

enum Change {
    Put(Space, Vec<u8>, Vec<u8>),
    Remove(Space, Vec<u8>),
}

/// Changes that happen together or not at all.
#[derive(Default)]
pub(super) struct Batch {
    changes: Vec<Change>,
    bytes: usize,
    /// What it takes in memory.
    sizes: Sizes,
}

impl Batch {
    pub(super) fn put(&mut self, space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let (key, value) = (key.into(), value.into());
        self.bytes += key.len() + value.len();
        self.sizes[space as usize] += (key.len() + value.len()) as u64 + CHANGE_BYTES;
        self.changes.push(Change::Put(space, key, value));
    }

    pub(super) fn remove(&mut self, space: Space, key: impl Into<Vec<u8>>) {
        let key = key.into();
        self.sizes[space as usize] += key.len() as u64 + CHANGE_BYTES;
        self.changes.push(Change::Remove(space, key));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many bytes it puts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

struct Handles {
    db: Database,
    spaces: [Keyspace; SPACES.len()],
    /// What the spaces have in memory. Held by whoever writes a batch or seals a space.
    filled: Mutex<Sizes>,
}

impl Handles {
    fn open(path: &Path, options: KvOptions) -> Result<Self, KvError> {
        Self::open_with(path, options, WORKERS)
    }

    fn open_with(path: &Path, options: KvOptions, workers: usize) -> Result<Self, KvError> {
        let db = match open_library(path, options, workers) {
            Err(fjall::Error::JournalRecovery(error)) if options.after_crash => {
                tracing::warn!(path = %path.display(), ?error, "the database's journal does not end as it should");
                torn::cut(path)?;
                open_library(path, options, workers)?
            }
            opened => opened?,
        };
        let open = |(space, name): (Space, &str)| db.keyspace(name, || space_options(space, options));
        let [a, b, c, d] = SPACES.map(open);
        let spaces = [a?, b?, c?, d?];
        let filled = spaces.each_ref().map(|space| space.tree.active_memtable().size());
        Ok(Self { db, spaces, filled: Mutex::new(filled) })
    }

    /// How many sealed parts of a space are to be written, and how many tables to be merged.
    fn left(&self, space: Space) -> (usize, usize) {
        let space = self.space(space);
        (space.sealed_memtable_count(), space.tree.l0_run_count())
    }

    /// Whether a space can be sealed and written to without waiting.
    fn is_sealable(&self, space: Space) -> bool {
        let (sealed, unmerged) = self.left(space);
        sealed < SEALED_MAX && unmerged < UNMERGED_MAX
    }

    /// Waits until a table has what was sealed of a space.
    fn wait_until_written(&self, space: Space, patience: Duration) -> Result<(), KvError> {
        self.wait_for_workers(space, patience, |_| self.left(space).0 == 0)
    }

    /// Waits until a space can be sealed and written to without waiting inside the library.
    fn wait_until_sealable(&self, space: Space, patience: Duration) -> Result<(), KvError> {
        self.wait_for_workers(space, patience, |idle| {
            let (sealed, unmerged) = self.left(space);
            let is_idle = sealed == 0 && idle >= MERGE_WAIT;
            self.is_sealable(space) || is_idle && unmerged < UNMERGED_LAST
        })
    }

    /// Waits until enough of a space is written and merged; not after the workers have failed, and only while they get
    /// on. `enough` is told for how long they have not.
    fn wait_for_workers(
        &self,
        space: Space,
        patience: Duration,
        enough: impl Fn(Duration) -> bool,
    ) -> Result<(), KvError> {
        let (mut last, mut since) = (self.left(space), Instant::now());
        while !enough(since.elapsed()) {
            // Moves nothing to the disk, but says whether a worker has failed.
            self.db.persist(PersistMode::Buffer)?;
            if since.elapsed() > patience {
                return Err(KvError::Io(io::Error::other("the database writes nothing out")));
            }
            std::thread::sleep(LOOK_EVERY);
            let now = self.left(space);
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

fn open_library(path: &Path, options: KvOptions, workers: usize) -> Result<Database, fjall::Error> {
    Database::builder(path)
        .cache_size(options.cache)
        .worker_threads_unchecked(workers)
        .max_cached_files(Some(OPEN_FILES))
        // Past this the library seals spaces by itself.
        .max_journaling_size(u64::MAX)
        // Content is often compressed already, and a write waits for this.
        .journal_compression(CompressionType::None)
        .open()
}

fn space_options(space: Space, options: KvOptions) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default()
        .max_memtable_size(options.memtable.saturating_mul(LIBRARY_LIMIT))
        .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(options.table)));
    match space {
        Space::Names => options.data_block_compression_policy(CompressionPolicy::disabled()),
        Space::Inline => options.data_block_size_policy(BlockSizePolicy::all(16 << 10)),
        Space::Contents | Space::Misc => options,
    }
}

/// The database.
pub(super) struct Kv {
    path: PathBuf,
    journal: Journal,
    options: KvOptions,
    /// How long workers that do not get on are waited for.
    patience: Duration,
    /// Empty only after a reopen failed; the next use tries again.
    state: RwLock<Option<Arc<Handles>>>,
    /// Held during a rewrite, which keeps the database open: it cannot be opened anew before.
    rewriting: Mutex<()>,
    /// To be opened anew after the rewrite.
    reopen_due: AtomicBool,
    reopened: AtomicU64,
    /// Keys removed since the last rewrite, and since they were last written out.
    removed: [AtomicU64; SPACES.len()],
    unwritten: [AtomicU64; SPACES.len()],
    /// How many commits have ended, and how many of them a finished sync has covered. A file that the last commit made
    /// useless may be removed only when they are equal: while a sync is still running, they are not.
    committed: AtomicU64,
    synced: AtomicU64,
    /// Ended on purpose: never opened again.
    closed: AtomicBool,
}

impl Kv {
    /// Opens the database in `path`, creating it if there is none.
    pub(super) fn open(path: &Path, options: KvOptions) -> Result<Self, KvError> {
        let handles = Handles::open(path, options)?;
        Ok(Self {
            path: path.to_owned(),
            journal: Journal::new(path),
            options,
            patience: WORKERS_WAIT,
            state: RwLock::new(Some(Arc::new(handles))),
            rewriting: Mutex::new(()),
            reopen_due: AtomicBool::new(false),
            reopened: AtomicU64::new(0),
            removed: Default::default(),
            unwritten: Default::default(),
            // What was there before may not be on the disk.
            committed: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Arc<Handles>) -> Result<T, KvError>) -> Result<T, KvError> {
        {
            let state = self.state.read();
            if let Some(handles) = &*state {
                return work(handles);
            }
        }
        self.reopen()?;
        match &*self.state.read() {
            Some(handles) => work(handles),
            None => Err(closed()),
        }
    }

    /// Lets go of the database. Whatever is asked of it afterwards fails.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        wait_for_others(self.state.write().take());
    }

    /// The value under `key`.
    pub(super) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, KvError> {
        self.with(|handles| Ok(handles.space(space).get(key)?.map(Value)))
    }

    /// Makes all changes of the batch, or none.
    pub(super) fn commit(&self, batch: Batch) -> Result<(), KvError> {
        if batch.is_empty() {
            return Ok(());
        }
        let result = self.with(|handles| {
            let sizes = batch.sizes;
            let batch = self.library_batch(handles, batch);
            let mut filled = handles.filled.lock();
            self.make_room(handles, &mut filled, &sizes)?;
            Ok(batch.commit()?)
        });
        // Not before: a sync that began meanwhile may have missed it.
        self.committed.fetch_add(1, Ordering::AcqRel);
        result.inspect_err(|error| self.start_over(error))
    }

    fn library_batch(&self, handles: &Handles, batch: Batch) -> OwnedWriteBatch {
        let mut library_batch = handles.db.batch();
        for change in batch.changes {
            match change {
                Change::Put(space, key, value) => library_batch.insert(handles.space(space), key, value),
                Change::Remove(space, key) => {
                    self.removed[space as usize].fetch_add(1, Ordering::Relaxed);
                    self.unwritten[space as usize].fetch_add(1, Ordering::Relaxed);
                    library_batch.remove(handles.space(space), key);
                }
            }
        }
        library_batch
    }

    /// Makes sure that so much more fits into memory, and counts it.
    fn make_room(&self, handles: &Handles, filled: &mut Sizes, more: &Sizes) -> Result<(), KvError> {
        let limit = self.options.memtable;
        let is_full = |space: usize| more[space] > 0 && filled[space] + more[space] > limit;
        let full: [bool; SPACES.len()] = std::array::from_fn(is_full);
        if full.contains(&true) {
            let all = handles.db.journal_count() > JOURNALS;
            self.seal(handles, filled, |space| all || full[space as usize])?;
        }
        for (space, _) in SPACES {
            // So big that the library may seal it by itself: harmless while nothing else of it is being written.
            if more[space as usize] > limit {
                handles.wait_until_written(space, self.patience)?;
            }
            filled[space as usize] += more[space as usize];
        }
        Ok(())
    }

    /// Seals some spaces. Nobody commits meanwhile: the caller has `filled`.
    fn seal(
        &self,
        handles: &Handles,
        filled: &mut Sizes,
        which: impl Fn(Space) -> bool,
    ) -> Result<(), KvError> {
        for (space, _) in SPACES.into_iter().filter(|(space, _)| which(*space)) {
            handles.wait_until_sealable(space, self.patience)?;
        }
        self.sync_journal()?;
        for (space, _) in SPACES.into_iter().filter(|(space, _)| which(*space)) {
            handles.space(space).rotate_memtable()?;
            filled[space as usize] = 0;
            self.unwritten[space as usize].store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes every batch committed so far survive a power loss.
    pub(super) fn sync(&self) -> Result<(), KvError> {
        // The handles are held so that nobody opens the database anew meanwhile.
        self.with(|_| self.sync_journal()).inspect_err(|error| self.start_over(error))
    }

    fn sync_journal(&self) -> Result<(), KvError> {
        let covered = self.committed.load(Ordering::Acquire);
        self.journal.sync()?;
        self.synced.fetch_max(covered, Ordering::AcqRel);
        Ok(())
    }

    /// Whether a sync would have something to do.
    pub(super) fn is_dirty(&self) -> bool {
        self.synced.load(Ordering::Acquire) < self.committed.load(Ordering::Acquire)
    }

    /// A consistent view of all spaces for ordered reading.
    pub(super) fn view(&self) -> Result<View, KvError> {
        self.with(|handles| Ok(View { snapshot: handles.db.snapshot(), handles: Arc::clone(handles) }))
    }

    /// Keys removed from `space` since it was last rewritten (or the start).
    pub(super) fn removed(&self, space: Space) -> u64 {
        self.removed[space as usize].load(Ordering::Relaxed)
    }

    /// Bytes of the tables of `space`.
    pub(super) fn table_bytes(&self, space: Space) -> Result<u64, KvError> {
        self.with(|handles| Ok(handles.space(space).disk_space()))
    }

    /// What is known of `space` without reading it.
    pub(super) fn tables(&self, space: Space) -> Result<Tables, KvError> {
        self.with(|handles| {
            let memory = handles.filled.lock()[space as usize];
            let unwritten = self.unwritten[space as usize].load(Ordering::Relaxed);
            let mut tables = Tables { memory, unwritten, table: self.options.table, ..Tables::default() };
            for (level, runs) in handles.space(space).tree.current_version().iter_levels().enumerate() {
                for table in runs.iter().flat_map(|run| run.iter()) {
                    let known = &table.metadata;
                    tables.bytes += known.file_size;
                    tables.fresh += if level == 0 { known.file_size } else { 0 };
                    tables.values += known.item_count.saturating_sub(known.tombstone_count);
                    tables.removed += known.tombstone_count;
                }
            }
            Ok(tables)
        })
    }

    /// Rewrites `space` without its removed keys. Takes a second per million keys, and as much room as what is left of
    /// it; reads and writes go on. Keys that somebody's older [`View`] still sees stay.
    pub(super) fn compact(&self, space: Space) -> Result<(), KvError> {
        let rewriting = self.rewriting.lock();
        let done = self.rewrite(space);
        drop(rewriting);
        if self.reopen_due.load(Ordering::Acquire) {
            self.reopen_or_log();
        }
        done
    }

    fn rewrite(&self, space: Space) -> Result<(), KvError> {
        self.removed[space as usize].store(0, Ordering::Relaxed);
        let handles = self.seal_for_rewrite(space)?;
        handles.wait_until_written(space, self.patience)?;
        Ok(handles.space(space).major_compact()?)
    }

    /// The library drops only what was removed before it last sealed a space, and after a start it has sealed none. A
    /// space with nothing in memory cannot be sealed, so the others are.
    fn seal_for_rewrite(&self, space: Space) -> Result<Arc<Handles>, KvError> {
        let sealed = self.with(|handles| {
            let mut filled = handles.filled.lock();
            let is_empty = handles.space(space).tree.active_memtable().is_empty();
            self.seal(handles, &mut filled, |other| is_empty || other == space)?;
            Ok(Arc::clone(handles))
        });
        sealed.inspect_err(|error| self.start_over(error))
    }

    /// Has what is in memory of `space` written to a table, so that its removed keys soon meet their values in one of
    /// the library's own small compactions. Leaves it if that had to wait: everybody who writes would wait along.
    pub(super) fn write_removed(&self, space: Space) -> Result<(), KvError> {
        let sealed = self.with(|handles| {
            let mut filled = handles.filled.lock();
            if !handles.is_sealable(space) {
                return Ok(());
            }
            self.seal(handles, &mut filled, |other| other == space)
        });
        sealed.inspect_err(|error| self.start_over(error))
    }

    /// How often the database had to be opened again after a failed write.
    pub(super) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// After a failed write the library refuses all others: open again, so that the next one has a chance.
    fn start_over(&self, error: &KvError) {
        tracing::error!(path = %self.path.display(), %error, "a database write failed; opening the database again");
        self.reopen_or_log();
    }

    fn reopen_or_log(&self) {
        if let Err(error) = self.reopen() {
            tracing::error!(path = %self.path.display(), %error, "the database could not be opened again");
        }
    }

    /// Opens the database anew. Not during a rewrite: the old handle still reads, and the rewrite's end does it.
    fn reopen(&self) -> Result<(), KvError> {
        // Before the look at the rewrite, or its end could miss it.
        self.reopen_due.store(true, Ordering::Release);
        let Some(_none) = self.rewriting.try_lock() else {
            return Err(KvError::Io(io::Error::other("it is being rewritten; that comes first")));
        };
        self.reopen_due.store(false, Ordering::Release);
        let mut state = self.state.write();
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        wait_for_others(state.take());
        self.journal.forget();
        self.reopened.fetch_add(1, Ordering::Relaxed);
        *state = Some(Arc::new(Handles::open(&self.path, self.options)?));
        Ok(())
    }
}

/// Waits for running listings to let go of a handle, then drops it.
fn wait_for_others(old: Option<Arc<Handles>>) {
    let Some(old) = old else { return };
    let started = Instant::now();
    while Arc::strong_count(&old) > 1 && started.elapsed() < REOPEN_WAIT {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn closed() -> KvError {
    KvError::Io(io::Error::other("the store is closed"))
}

/// All spaces as they were at one moment.
pub(super) struct View {
    snapshot: Snapshot,
    handles: Arc<Handles>,
}

impl View {
    /// The value under `key`.
    pub(super) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Value>, KvError> {
        Ok(self.snapshot.get(self.handles.space(space), key)?.map(Value))
    }

    /// Pairs in key order from `from` (included) up to `to` (not included; absent: to the end).
    pub(super) fn range(&self, space: Space, from: &[u8], to: Option<&[u8]>) -> Range {
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(from), end);
        // The library panics on bounds that are the wrong way round.
        let empty = to.is_some_and(|to| to <= from);
        Range((!empty).then(|| self.snapshot.range::<&[u8], _>(self.handles.space(space), bounds)))
    }

    /// Pairs whose key starts with `prefix`, in key order.
    pub(super) fn prefix(&self, space: Space, prefix: &[u8]) -> Range {
        Range(Some(self.snapshot.prefix(self.handles.space(space), prefix)))
    }
}

/// Pairs in key order.
pub(super) struct Range(Option<fjall::Iter>);

impl Iterator for Range {
    type Item = Result<(Value, Value), KvError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.0.as_mut()?.next()?.into_inner();
        Some(pair.map(|(key, value)| (Value(key), Value(value))).map_err(KvError::from))
    }
}
