//! The only module that knows the key-value library (fjall).
//!
//! It offers four ordered key spaces with get, ordered ranges from a key, atomic batches and sync; nothing of the
//! library leaves it. A batch is in the operating system's hands when [`Kv::commit`] returns, and on the disk after
//! the next [`Kv::sync`]. Any failed write makes the library's handle unusable, so it is closed and opened again
//! before the error is answered. Clearing a space, separating values and FIFO compaction are never used: each has
//! lost data in this library.

use std::io;
use std::ops::{Bound, Deref};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, Readable, Snapshot};
use parking_lot::RwLock;

use crate::store::StoreError;

use super::journal::Journal;

/// How long a reopen waits for running listings to let go of the old handle.
const REOPEN_WAIT: Duration = Duration::from_secs(10);

/// Threads that flush and compact in the background: one of each at a time.
const WORKERS: usize = 2;

/// Files the library keeps open at most.
const OPEN_FILES: usize = 256;

/// Journal files are trimmed by flushing past this many bytes.
const JOURNAL_BYTES: u64 = 128 << 20;

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
    /// Bytes a key space collects in memory before it is flushed.
    pub(super) memtable: u64,
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
}

impl Batch {
    pub(super) fn put(&mut self, space: Space, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let (key, value) = (key.into(), value.into());
        self.bytes += key.len() + value.len();
        self.changes.push(Change::Put(space, key, value));
    }

    pub(super) fn remove(&mut self, space: Space, key: impl Into<Vec<u8>>) {
        self.changes.push(Change::Remove(space, key.into()));
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
}

impl Handles {
    fn open(path: &Path, options: KvOptions) -> Result<Self, KvError> {
        let db = Database::builder(path)
            .cache_size(options.cache)
            .worker_threads(WORKERS)
            .max_cached_files(Some(OPEN_FILES))
            .max_journaling_size(JOURNAL_BYTES)
            // Content is often compressed already, and a write waits for this.
            .journal_compression(CompressionType::None)
            .open()?;
        let open =
            |(space, name): (Space, &str)| db.keyspace(name, || space_options(space, options.memtable));
        let [a, b, c, d] = SPACES.map(open);
        Ok(Self { spaces: [a?, b?, c?, d?], db })
    }

    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

fn space_options(space: Space, memtable: u64) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default().max_memtable_size(memtable);
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
    /// Empty only after a reopen failed; the next use tries again.
    state: RwLock<Option<Arc<Handles>>>,
    reopened: AtomicU64,
    removed: [AtomicU64; SPACES.len()],
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
            state: RwLock::new(Some(Arc::new(handles))),
            reopened: AtomicU64::new(0),
            removed: Default::default(),
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
            let mut library_batch = handles.db.batch();
            for change in batch.changes {
                match change {
                    Change::Put(space, key, value) => library_batch.insert(handles.space(space), key, value),
                    Change::Remove(space, key) => {
                        self.removed[space as usize].fetch_add(1, Ordering::Relaxed);
                        library_batch.remove(handles.space(space), key);
                    }
                }
            }
            Ok(library_batch.commit()?)
        });
        // Not before: a sync that began meanwhile may have missed it.
        self.committed.fetch_add(1, Ordering::AcqRel);
        result.inspect_err(|error| self.start_over(error))
    }

    /// Makes every batch committed so far survive a power loss.
    pub(super) fn sync(&self) -> Result<(), KvError> {
        let covered = self.committed.load(Ordering::Acquire);
        // The handles are held so that nobody opens the database anew meanwhile.
        let result = self.with(|_| self.journal.sync().map_err(KvError::from));
        result.inspect_err(|error| self.start_over(error))?;
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

    /// Keys removed from `space` since its last compaction (or the start).
    pub(super) fn removed(&self, space: Space) -> u64 {
        self.removed[space as usize].load(Ordering::Relaxed)
    }

    /// Rewrites `space` without its removed keys. Takes a second per million keys; reads and writes go on.
    pub(super) fn compact(&self, space: Space) -> Result<(), KvError> {
        let handles = self.with(|handles| Ok(Arc::clone(handles)))?;
        self.removed[space as usize].store(0, Ordering::Relaxed);
        handles.space(space).rotate_memtable_and_wait()?;
        Ok(handles.space(space).major_compact()?)
    }

    /// How often the database had to be opened again after a failed write.
    pub(super) fn reopened(&self) -> u64 {
        self.reopened.load(Ordering::Relaxed)
    }

    /// After a failed write the library refuses all others: open again, so that the next one has a chance.
    fn start_over(&self, error: &KvError) {
        tracing::error!(path = %self.path.display(), %error, "a database write failed; opening the database again");
        if let Err(error) = self.reopen() {
            tracing::error!(path = %self.path.display(), %error, "the database could not be opened again");
        }
    }

    fn reopen(&self) -> Result<(), KvError> {
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
