//! Handles: the numbers front ends use for opens.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::share::Access;

use super::directories::DirectoryStream;
use super::error::{FsError, Result};
use super::file::OpenFile;
use super::gate::OpenPermit;
use super::lease_keeper::LeaseHold;
use super::nodes::Ino;

/// A front end's number for an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// One open of a file.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: Arc<OpenFile>,
    pub(super) permit: OpenPermit,
    flushed: AtomicBool,
    /// Counted among the file's writers.
    writer: bool,
    /// Closed from outside; its program does not know yet.
    revoked: AtomicBool,
    /// Its use of the blob's lease, if it is one of those that take it.
    lease: Mutex<Option<LeaseHold>>,
}

impl Handle {
    pub(super) fn new(file: Arc<OpenFile>, permit: OpenPermit, lease: Option<LeaseHold>) -> Self {
        let writer = permit.access().contains(Access::WRITE);
        if writer {
            file.writer_joined();
        }
        Self {
            file,
            permit,
            flushed: AtomicBool::new(false),
            writer,
            revoked: AtomicBool::new(false),
            lease: Mutex::new(lease),
        }
    }

    pub(super) fn has_lease(&self) -> bool {
        self.lease.lock().is_some()
    }

    /// Replaces its use of the lease; [`Engine::settle_lease`](super::Engine) follows when it has none any more.
    pub(super) fn set_lease(&self, lease: Option<LeaseHold>) {
        let old = std::mem::replace(&mut *self.lease.lock(), lease);
        drop(old);
    }

    /// Whether closing it commits. Somebody who only reads must not commit what others have half written.
    pub(super) fn commits(&self) -> bool {
        self.permit.access().contains(Access::WRITE)
    }

    /// Nothing works through it from now on. Says whether it was the first to say so.
    pub(super) fn revoke(&self) -> bool {
        !self.revoked.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Its last close, seen from the file: whether all that was written through it is committed already, and what is
    /// not is the work of writers that are left. They commit it when they are done, and not before.
    pub(super) fn leaves_to_others(&self) -> bool {
        self.writer && self.file.writer_left() && self.flushed.load(Ordering::Relaxed)
    }

    /// The program may be done with this handle.
    pub(super) fn note_flushed(&self) {
        self.flushed.store(true, Ordering::Relaxed);
        self.permit.flushed();
    }

    /// It is not.
    pub(super) fn note_used(&self) {
        if self.flushed.swap(false, Ordering::Relaxed) {
            self.permit.used();
        }
    }
}

/// All open files' handles. A handle has the number of its open.
#[derive(Debug, Default)]
pub(super) struct FileHandles {
    map: RwLock<HashMap<HandleId, Arc<Handle>>>,
}

impl FileHandles {
    pub(super) fn insert(&self, handle: Handle) -> HandleId {
        let id = HandleId(handle.permit.id().0);
        self.map.write().insert(id, Arc::new(handle));
        id
    }

    /// The handle, noted as used.
    pub(super) fn get(&self, id: HandleId) -> Result<Arc<Handle>> {
        let handle = self.peek(id)?;
        handle.note_used();
        Ok(handle)
    }

    /// The handle, without noting anything.
    pub(super) fn peek(&self, id: HandleId) -> Result<Arc<Handle>> {
        let handle = self.map.read().get(&id).cloned().ok_or(FsError::BadHandle)?;
        if handle.is_revoked() { Err(FsError::Revoked) } else { Ok(handle) }
    }

    pub(super) fn remove(&self, id: HandleId) -> Result<Arc<Handle>> {
        self.map.write().remove(&id).ok_or(FsError::BadHandle)
    }

    pub(super) fn len(&self) -> usize {
        self.map.read().len()
    }
}

/// One open of a directory.
#[derive(Debug)]
pub(super) struct DirectoryHandle {
    pub(super) ino: Ino,
    pub(super) stream: Mutex<DirectoryStream>,
    /// What it claims, if its program asked for a share mode.
    pub(super) permit: Mutex<Option<OpenPermit>>,
}

/// All open directories' handles.
#[derive(Debug, Default)]
pub(super) struct DirectoryHandles {
    next: AtomicU64,
    map: RwLock<HashMap<HandleId, Arc<DirectoryHandle>>>,
}

impl DirectoryHandles {
    pub(super) fn insert(&self, ino: Ino, stream: DirectoryStream) -> HandleId {
        let id = HandleId(self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let handle = DirectoryHandle { ino, stream: Mutex::new(stream), permit: Mutex::new(None) };
        self.map.write().insert(id, Arc::new(handle));
        id
    }

    pub(super) fn get(&self, id: HandleId) -> Result<Arc<DirectoryHandle>> {
        self.map.read().get(&id).cloned().ok_or(FsError::BadHandle)
    }

    pub(super) fn remove(&self, id: HandleId) -> Option<Arc<DirectoryHandle>> {
        self.map.write().remove(&id)
    }
}
