//! Requests about open files: opening them and moving their bytes.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;

use fuser::{
    BackingId, FileHandle, FopenFlags, OpenFlags, ReplyCreate, ReplyData, ReplyEmpty, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

use crate::fs::nodes::Ino;
use crate::fs::{Engine, FsError, HandleId, Mover, Route};

use super::super::attr::{file_attr, name_ttl};
use super::super::backing::Backings;
use super::super::open_flags::{open_request, wants_direct};
use super::super::serve::serve_now;
use super::replies::{GENERATION, Refuse, answer, empty};
use super::{Adapter, caller};

thread_local! {
    /// Where a FUSE thread reads file content into before it replies. At most one request's worth.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Adapter {
    pub(super) fn open_file(&self, request: &Request, ino: Ino, flags: OpenFlags, reply: ReplyOpen) {
        let (caller, backings) = (caller(request), Arc::clone(&self.backings));
        self.with_engine(|engine| async move {
            let opened = match engine.open(ino, open_request(flags), caller).await {
                Ok(opened) => opened,
                Err(error) => return reply.refuse(&error),
            };
            let register = |file: &File| reply.open_backing(file);
            let place = (ino, opened.handle);
            let direct = wants_direct(flags) || engine.bypass_caches();
            let (how, backing) = serving(&engine, &backings, place, &opened.route, direct, register);
            let handle = FileHandle(opened.handle.0);
            match backing {
                Some(id) => reply.opened_passthrough(handle, how, &id),
                None => reply.opened(handle, how),
            }
        });
    }

    pub(super) fn create_file(
        &self,
        request: &Request,
        (parent, name): (Ino, &OsStr),
        mode: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let (caller, backings) = (caller(request), Arc::clone(&self.backings));
        self.named(name, reply, |engine, name, reply| async move {
            let (stat, opened) = match engine.create(parent, &name, mode, open_request(flags), caller).await {
                Ok(created) => created,
                Err(error) => return reply.refuse(&error),
            };
            let register = |file: &File| reply.open_backing(file);
            let place = (stat.ino, opened.handle);
            let direct = wants_direct(flags) || engine.bypass_caches();
            let (how, backing) = serving(&engine, &backings, place, &opened.route, direct, register);
            let (handle, attr) = (FileHandle(opened.handle.0), file_attr(&stat));
            let ttl = name_ttl(&engine);
            match backing {
                Some(id) => reply.created_passthrough(&ttl, &attr, GENERATION, handle, how, &id),
                None => reply.created(&ttl, &attr, GENERATION, handle, how),
            }
        });
    }

    pub(super) fn read_file(&self, mover: Mover, offset: u64, size: u32, reply: ReplyData) {
        serve_now(|| {
            READ_BUFFER.with_borrow_mut(|buffer| {
                let size = size as usize;
                if buffer.len() < size {
                    buffer.resize(size, 0);
                }
                match self.engine.read(mover, offset, &mut buffer[..size]) {
                    Err(FsError::NotHere(_)) => self.read_elsewhere(mover, offset, size, reply),
                    got => answer(reply, got, |reply, got| reply.data(&buffer[..got])),
                }
            });
        });
    }

    /// Reads what has to be brought first.
    fn read_elsewhere(&self, mover: Mover, offset: u64, size: usize, reply: ReplyData) {
        self.with_engine(|engine| async move {
            let read = engine.read_elsewhere(mover, offset, size).await;
            answer(reply, read, |reply, bytes| reply.data(&bytes));
        });
    }

    pub(super) fn write_file(
        &self,
        mover: Mover,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        reply: ReplyWrite,
    ) {
        // One request's worth, far below 4 GiB.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        // The kernel says so of every write by a program without the privilege, whatever the file's mode.
        let drop_privileges = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
            && self.engine.may_drop_privileges(mover.handle);
        if !drop_privileges {
            match self.engine.write_now(mover, offset, data) {
                Ok(true) => return reply.written(length),
                Ok(false) => {}
                Err(error) => return reply.refuse(&error),
            }
        }
        let data = data.to_vec();
        self.with_engine(|engine| async move {
            let written = async {
                if drop_privileges {
                    engine.drop_privileges(mover.handle).await?;
                }
                engine.write(mover, offset, &data).await
            };
            answer(reply, written.await, |reply, ()| reply.written(length));
        });
    }

    pub(super) fn release_file(&self, handle: HandleId, reply: ReplyEmpty) {
        self.backings.release(handle);
        let announcer = self.announcer.clone();
        self.with_engine(|engine| async move {
            let done = engine.release(handle).await.map(|report| {
                if report.changed {
                    announcer.attributes(report.ino);
                }
            });
            empty(reply, done);
        });
    }
}

/// The flags that tell the kernel how an open's bytes are served, and the backing id if it serves them itself.
fn serving(
    engine: &Engine,
    backings: &Backings,
    (ino, handle): (Ino, HandleId),
    route: &Route,
    direct: bool,
    register: impl FnOnce(&File) -> io::Result<BackingId>,
) -> (FopenFlags, Option<Arc<BackingId>>) {
    match route {
        Route::Kernel(file) | Route::Direct(file) => match backings.acquire(ino, handle, file, register) {
            // The kernel wants all opens of the inode to name the backing file, also those it does not serve.
            Ok(id) if matches!(route, Route::Direct(_)) => (FopenFlags::FOPEN_DIRECT_IO, Some(id)),
            Ok(id) => (FopenFlags::empty(), Some(id)),
            Err(error) => {
                note_refused(engine, &error);
                if let Err(error) = engine.kernel_refused(handle) {
                    tracing::debug!(%error, "the handle is gone already");
                }
                (FopenFlags::empty(), None)
            }
        },
        Route::Engine { .. } if direct => (FopenFlags::FOPEN_DIRECT_IO, None),
        Route::Engine { keep_cache: true } => (FopenFlags::FOPEN_KEEP_CACHE, None),
        Route::Engine { keep_cache: false } => (FopenFlags::empty(), None),
    }
}

/// Where the kernel would refuse every other file, too, it is not asked again.
fn note_refused(engine: &Engine, error: &io::Error) {
    if !is_lasting(error) {
        tracing::warn!(%error, "the kernel does not take a file for passthrough");
    } else if engine.give_up_passthrough() {
        tracing::warn!(%error, "no passthrough: the kernel takes no file of the data directory's file system");
    }
}

/// Whether the reason is the file system below (one that is on top of another itself, or not made for it) or a lack of
/// rights, not the file or the moment.
fn is_lasting(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EOPNOTSUPP | libc::EPERM))
}
