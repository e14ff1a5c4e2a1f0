//! What a store on this machine can do beyond the service's contract.
//!
//! The engine serves data at the speed of the local disk because of three things here: content that *is* one local
//! file can be handed to the kernel ([`ContentReader::as_file`]); new content is written into a [`Scratch`] file and
//! becomes a blob without being copied ([`LocalStore::publish`]); a small change of a big blob is stored as just
//! that change ([`LocalStore::patch`]).
//!
//! None of these calls waits for the network or for fsync; [`LocalStore::sync`] is the one that makes things
//! outlive a power loss.

use std::any::Any;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use bytes::Bytes;

use super::api::{ByteRange, DeleteSnapshots, NewContent, SnapshotId};
use super::blob::{BlobProperties, Metadata};
use super::body::{BlobBody, Upload};
use super::changes::ChangeFeed;
use super::conditions::Preconditions;
use super::container::ContainerProperties;
use super::error::{Result, StoreError};
use super::names::{BlobPath, ContainerName};

/// One changed range of a [patch](LocalStore::patch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which bytes of the content.
    pub range: Range<u64>,
    /// Where they are in the scratch file; nothing for zeros.
    pub from: Option<u64>,
}

impl Change {
    /// A range whose bytes are at the same place of the scratch file.
    pub fn in_place(range: Range<u64>) -> Self {
        Self { from: Some(range.start), range }
    }
}

/// Snapshots that one container has at most.
pub const CONTAINER_SNAPSHOTS_MAX: usize = 200;

/// The extra abilities of a local store.
#[async_trait]
pub trait LocalStore: Send + Sync {
    /// What is stored under exactly this name, and below it.
    fn find(&self, at: &BlobPath) -> Result<Found>;

    /// An empty private file to write new content into. It disappears (or is used again) when dropped, unless it
    /// was published in the meantime.
    fn scratch(&self) -> Result<Scratch>;

    /// The blob's current version for reading. It stays readable and unchanged for as long as the reader lives,
    /// whatever happens to the blob, except through a published scratch file that is still being written.
    fn reader(&self, at: &BlobPath) -> Result<ContentReader>;

    /// The blob's current version, or one of its snapshots, for reading, under the conditions of a read. If a part is
    /// named, only that will be read; the rest may read as zeros.
    fn open_version(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        part: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<ContentReader>;

    /// A body to be received chunk by chunk.
    fn upload(&self) -> Upload;

    /// Makes the bytes of a body survive a power loss, so that the change that names them can. Nothing to do for
    /// bodies in memory: they become durable with the change.
    async fn settle(&self, body: &BlobBody) -> Result<()>;

    /// Makes the first `size` bytes of `scratch` the blob's content.
    ///
    /// May be called again after more was written; bytes that are written to the scratch file after it was
    /// published may show in the blob before the next call.
    fn publish(
        &self,
        at: &BlobPath,
        scratch: &Scratch,
        size: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Makes `bytes`, at most [`inline_max`](Self::inline_max) of them, the blob's content.
    fn put_small(
        &self,
        at: &BlobPath,
        bytes: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// [`BlobStore::put_blob`](super::BlobStore::put_blob) of something small that a removal needs before it frees room:
    /// it may use the room that is kept for deletes.
    fn put_before_removal(
        &self,
        at: &BlobPath,
        bytes: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Makes `base` with `changes` taken from `scratch` the blob's content, cut or extended with zeros to `size`.
    /// Costs time and space for the changes only.
    ///
    /// `changes` are sorted, do not overlap, and end at or before `size`. `scratch` keeps its role afterwards: the
    /// bytes that were taken must not be changed any more, others may be written and used in a later patch.
    fn patch(
        &self,
        at: &BlobPath,
        base: &ContentReader,
        scratch: &Scratch,
        changes: &[Change],
        size: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Replaces a blob's metadata; [`BlobStore::set_blob_metadata`](super::BlobStore::set_blob_metadata) without
    /// the future.
    fn set_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Moves `from`, and everything below `from/`, to `to` in one atomic step. Ids and ETags move along.
    ///
    /// A blob at `to` is replaced, refused or exchanged as `mode` says. The caller makes sure that `to` is not
    /// below `from`, and that nothing is below `to/` unless the mode is an exchange.
    fn rename(&self, from: &BlobPath, to: &BlobPath, mode: RenameMode) -> Result<()>;

    /// Keeps a whole container as it is now, readable as [`ContainerName::at_snapshot`] of the answered id with every
    /// call that reads, and never changed again. `metadata` replaces the container's own. At most
    /// [`CONTAINER_SNAPSHOTS_MAX`] of one container.
    ///
    /// Content is shared; only small content, which is in the index, is copied, and the content of files that are
    /// being written in place: such a file is in the snapshot as it was at some moment of this call. Whoever holds
    /// uncommitted content commits it before.
    async fn snapshot_container(
        &self,
        name: &ContainerName,
        metadata: Option<Metadata>,
    ) -> Result<(SnapshotId, ContainerProperties)>;

    /// Snapshots of a container, oldest first; their properties have the container's own name.
    fn container_snapshots(&self, name: &ContainerName) -> Result<Vec<(SnapshotId, ContainerProperties)>>;

    /// Deletes one snapshot of a container. [`ContainerNotFound`](super::StoreError::ContainerNotFound) if there is
    /// none. Readers of it keep what they have open.
    async fn delete_container_snapshot(&self, name: &ContainerName, snapshot: SnapshotId) -> Result<()>;

    /// [`BlobStore::delete_container`](super::BlobStore::delete_container) that says what becomes of its snapshots:
    /// [`SnapshotsPresent`](super::StoreError::SnapshotsPresent) if there are some and they are to stay.
    async fn delete_container_with(
        &self,
        name: &ContainerName,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()>;

    /// The stored document of the settings of all shares, if one was ever set. Beside that of the blob service.
    fn share_settings(&self) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Stores that document.
    fn set_share_settings(&self, document: Bytes) -> Result<()> {
        let _ = document;
        Err(StoreError::NotSupported("settings of shares"))
    }

    /// Stores content that patches left in several pieces as one file again, if that is cheap and nobody reads
    /// the blob. Does nothing otherwise.
    fn tidy(&self, at: &BlobPath) -> Result<()>;

    /// Takes the one local file of `reader` away from the blob: the blob's current version gets a copy of the
    /// bytes under the same ETag, and the file itself becomes a scratch file, content and all.
    ///
    /// For the rare writer that joins readers who have the file itself. Costs a copy of the content, unless there is
    /// no blob any more (`at` absent). If others need the file (a copy of the blob, a snapshot of the container) the
    /// scratch file is a copy, and the readers' file stays as it is.
    /// [`ConditionNotMet`](super::StoreError::ConditionNotMet) if the blob has other content by now; a version that
    /// differs in attributes only is fine.
    fn take_over(&self, at: Option<&BlobPath>, reader: &ContentReader) -> Result<Scratch>;

    /// Content up to this size is kept in the index and becomes durable with it; bigger content has files of its
    /// own that are synced first.
    fn inline_max(&self) -> u64;

    /// The files of a version whose bytes may not survive a power loss yet.
    fn unsynced(&self, version: &ContentReader) -> Result<Vec<Arc<File>>>;

    /// Whether the bytes of a published file may not survive a power loss yet.
    fn is_unsynced(&self, published: &Scratch) -> bool;

    /// Makes the bytes of these files survive a power loss.
    async fn sync_data(&self, files: Vec<Arc<File>>) -> Result<()>;

    /// Makes every change acknowledged so far survive a power loss, as far as its content was synced.
    async fn sync(&self) -> Result<()>;

    /// Syncs all content and every change acknowledged so far; tells `progress` how far it is.
    async fn checkpoint(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()>;

    /// Tells from now on what other users of the store change.
    fn changes(&self) -> Box<dyn ChangeFeed>;

    /// Room in the store.
    fn space(&self) -> Result<Space>;
}

/// How far a long operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files done.
    pub files_done: u64,
    /// Files in all.
    pub files_total: u64,
    /// Bytes done.
    pub bytes_done: u64,
    /// Bytes in all.
    pub bytes_total: u64,
}

/// What [`LocalStore::find`] found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The blob of that name.
    pub blob: Option<Arc<BlobProperties>>,
    /// The id of the prefix `name/`, if any blob is below it.
    pub prefix: Option<u64>,
}

impl Found {
    /// The id of what has the name: the blob's, or else the prefix's.
    pub fn id(&self) -> Option<u64> {
        self.blob.as_ref().map(|blob| blob.id).or(self.prefix)
    }
}

/// What a rename does about its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace a blob at the target.
    Replace,
    /// [`BlobExists`](super::StoreError::BlobExists) if the target exists.
    NoReplace,
    /// Swap source and target, which must both exist.
    Exchange,
}

/// Room in the store, in bytes and in names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system the store is on.
    pub total: u64,
    /// Free for anybody.
    pub free: u64,
    /// Free for the store.
    pub available: u64,
    /// How many names the file system can hold.
    pub names_total: u64,
    /// How many it still can.
    pub names_free: u64,
}

/// A private file under construction.
#[derive(Debug)]
pub struct Scratch {
    id: u64,
    file: Arc<File>,
    home: Arc<dyn ScratchHome>,
    /// Who else may still have the file when it is given back: an [`Exposure`].
    exposure: AtomicU8,
}

/// Who besides its owner can have got hold of a scratch file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exposure {
    /// Nobody.
    Private = 0,
    /// Somebody who could only write through a descriptor, and has closed it.
    Written = 1,
    /// Somebody who could map it for writing; the kernel can tell whether that lasts.
    Writable = 2,
    /// Somebody who could map it for reading, which nobody can tell: it must not be used again.
    Readable = 3,
}

/// Where scratch files come from and go back to.
pub trait ScratchHome: Send + Sync + std::fmt::Debug {
    /// Called once, when the last user is done with the file.
    fn give_back(&self, id: u64, file: Arc<File>, exposure: Exposure);
}

impl Scratch {
    /// For stores: a scratch file with the store's number for it.
    pub fn new(id: u64, file: Arc<File>, home: Arc<dyn ScratchHome>) -> Self {
        Self { id, file, home, exposure: AtomicU8::new(Exposure::Private as u8) }
    }

    /// Notes that somebody else got hold of the file.
    pub fn expose(&self, exposure: Exposure) {
        self.exposure.fetch_max(exposure as u8, Ordering::Relaxed);
    }

    fn exposure(&self) -> Exposure {
        match self.exposure.load(Ordering::Relaxed) {
            0 => Exposure::Private,
            1 => Exposure::Written,
            2 => Exposure::Writable,
            _ => Exposure::Readable,
        }
    }

    /// The store's number for this file.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The file, open for reading and writing.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.home.give_back(self.id, Arc::clone(&self.file), self.exposure());
    }
}

/// One piece of a version's content.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where the piece begins in the blob.
    pub start: u64,
    /// How long it is.
    pub len: u64,
    /// The file it is in and where, or nothing for zeros.
    pub source: Option<(Arc<File>, u64)>,
}

/// One version of a blob's content, readable from any thread.
#[derive(Clone, Debug)]
pub struct ContentReader {
    properties: Arc<BlobProperties>,
    body: Body,
    /// Keeps the store from reusing the pieces while this reader lives.
    pin: Option<Arc<dyn Pin>>,
}

/// What a store hangs on a reader: lives as long as any clone of it, and tells the store which content it reads.
pub trait Pin: Any + Send + Sync + std::fmt::Debug {}
impl<T: Any + Send + Sync + std::fmt::Debug> Pin for T {}

#[derive(Clone, Debug)]
enum Body {
    Bytes(Bytes),
    Pieces(Arc<[Piece]>),
}

impl ContentReader {
    /// A reader of content held in memory.
    pub fn from_bytes(properties: Arc<BlobProperties>, bytes: Bytes) -> Self {
        Self { properties, body: Body::Bytes(bytes), pin: None }
    }

    /// A reader of pieces that follow each other without gaps; `pin` lives as long as any clone of the reader.
    pub fn from_pieces(
        properties: Arc<BlobProperties>,
        pieces: Vec<Piece>,
        pin: Option<Arc<dyn Pin>>,
    ) -> Self {
        Self { properties, body: Body::Pieces(pieces.into()), pin }
    }

    /// For stores: what was hung on this reader, if it is a `T`.
    pub fn pin<T: Any>(&self) -> Option<&T> {
        let pin: &dyn Any = &**self.pin.as_ref()?;
        pin.downcast_ref()
    }

    /// Properties of the version being read.
    pub fn properties(&self) -> &Arc<BlobProperties> {
        &self.properties
    }

    /// Length of the content.
    pub fn size(&self) -> u64 {
        self.properties.size
    }

    /// The content as one local file from offset 0, if it is one.
    pub fn as_file(&self) -> Option<&Arc<File>> {
        match &self.body {
            Body::Pieces(pieces) => match &**pieces {
                [Piece { start: 0, source: Some((file, 0)), .. }] => Some(file),
                _ => None,
            },
            Body::Bytes(_) => None,
        }
    }

    /// The content in memory, if that is where it is.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match &self.body {
            Body::Bytes(bytes) => Some(bytes),
            Body::Pieces(_) => None,
        }
    }

    /// The pieces, if the content is in files.
    pub fn pieces(&self) -> &[Piece] {
        match &self.body {
            Body::Pieces(pieces) => pieces,
            Body::Bytes(_) => &[],
        }
    }

    /// Reads at `offset` until `buffer` is full or the content ends; returns how much.
    ///
    /// Content that is shorter on disk than recorded (a power loss before any fsync) is an error, not zeros.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.size().saturating_sub(offset);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..wanted];
        match &self.body {
            Body::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let part = bytes.get(start..start + wanted).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(part);
            }
            Body::Pieces(pieces) => read_pieces(pieces, buffer, offset)?,
        }
        Ok(wanted)
    }
}

fn read_pieces(pieces: &[Piece], buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut index = pieces.partition_point(|piece| piece.start + piece.len <= offset);
    let mut done = 0;
    while done < buffer.len() {
        let piece = pieces.get(index).ok_or(io::ErrorKind::UnexpectedEof)?;
        let skip = offset + done as u64 - piece.start;
        let length = usize::try_from(piece.len - skip).unwrap_or(usize::MAX).min(buffer.len() - done);
        let part = &mut buffer[done..done + length];
        match &piece.source {
            Some((file, start)) => file.read_exact_at(part, start + skip)?,
            None => part.fill(0),
        }
        done += length;
        index += 1;
    }
    Ok(())
}
