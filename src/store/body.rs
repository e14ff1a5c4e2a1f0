//! Bodies on their way into a store: in memory while they are small, in a private file when they are not.
//!
//! A front end fills an [`Upload`] chunk by chunk as the bytes come in, so a body of any size costs the memory of one
//! chunk. A body that is dropped leaves nothing behind.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use md5::{Digest, Md5};

use super::error::{Result, StoreError};
use super::local::Scratch;

/// The content of a put, a block, an append or pages.
#[derive(Debug)]
pub struct BlobBody {
    place: Place,
    size: u64,
    md5: Option<[u8; 16]>,
}

#[derive(Debug)]
pub(super) enum Place {
    Memory(Bytes),
    File(Scratch),
}

impl BlobBody {
    /// Its length.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its MD5, if it was computed on the way.
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5
    }

    /// The same with its MD5, so that whoever it is sent to can tell that it came unchanged.
    pub fn summed(bytes: Bytes) -> Self {
        let md5 = Md5::digest(&bytes).into();
        Self { md5: Some(md5), ..Self::from(bytes) }
    }

    /// The bytes, if they are in memory.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match &self.place {
            Place::Memory(bytes) => Some(bytes),
            Place::File(_) => None,
        }
    }

    /// The file that holds the bytes from offset 0, if they are in one. It must be synced before the version that
    /// names it, if that version is to survive a power loss.
    pub fn as_file(&self) -> Option<&Arc<File>> {
        match &self.place {
            Place::Memory(_) => None,
            Place::File(scratch) => Some(scratch.file()),
        }
    }

    pub(super) fn into_place(self) -> Place {
        self.place
    }
}

impl From<Bytes> for BlobBody {
    fn from(bytes: Bytes) -> Self {
        Self { size: bytes.len() as u64, place: Place::Memory(bytes), md5: None }
    }
}

impl From<Vec<u8>> for BlobBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for BlobBody {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

/// A body being received. Comes from [`LocalStore::upload`](super::LocalStore::upload).
pub struct Upload {
    /// Where to get a file once it is needed.
    more: Box<dyn Fn() -> Result<Scratch> + Send + Sync>,
    memory_max: usize,
    memory: BytesMut,
    file: Option<Scratch>,
    size: u64,
    md5: Option<Md5>,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Upload {
    /// For stores: bodies up to `memory_max` stay in memory, `more` makes the file for others.
    pub fn new(memory_max: u64, more: impl Fn() -> Result<Scratch> + Send + Sync + 'static) -> Self {
        Self {
            more: Box::new(more),
            memory_max: usize::try_from(memory_max).unwrap_or(usize::MAX),
            memory: BytesMut::new(),
            file: None,
            size: 0,
            md5: Some(Md5::new()),
        }
    }

    /// Does without the MD5: for bodies whose MD5 nobody asks for.
    #[must_use]
    pub fn without_md5(mut self) -> Self {
        self.md5 = None;
        self
    }

    /// Adds the next bytes. Writes to the page cache, so it may block for a moment when the disk is behind.
    pub fn write(&mut self, chunk: &[u8]) -> Result<()> {
        if let Some(md5) = &mut self.md5 {
            md5.update(chunk);
        }
        if self.file.is_none() && self.memory.len() + chunk.len() <= self.memory_max {
            self.memory.extend_from_slice(chunk);
        } else {
            let offset = self.size;
            let written = self.spill()?.file().write_all_at(chunk, offset);
            written.map_err(|error| StoreError::io("write content", error))?;
        }
        self.size += chunk.len() as u64;
        Ok(())
    }

    /// Moves what is in memory to a file, and answers the file.
    fn spill(&mut self) -> Result<&Scratch> {
        if self.file.is_none() {
            let file = (self.more)()?;
            let written = file.file().write_all_at(&self.memory, 0);
            written.map_err(|error| StoreError::io("write content", error))?;
            self.memory = BytesMut::new();
            self.file = Some(file);
        }
        self.file.as_ref().ok_or_else(|| StoreError::Damaged("an upload lost its file".into()))
    }

    /// Bytes received so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Nothing more will come.
    pub fn finish(self) -> BlobBody {
        let place = match self.file {
            Some(file) => Place::File(file),
            None => Place::Memory(self.memory.freeze()),
        };
        BlobBody { place, size: self.size, md5: self.md5.map(|md5| md5.finalize().into()) }
    }
}
