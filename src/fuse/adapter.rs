//! The adapter: one short method per FUSE request.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BackingId, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

use crate::fs::holders::FrontEnd;
use crate::fs::names::{NAME_BYTES_MAX, Segment};
use crate::fs::nodes::{Ino, ROOT};
use crate::fs::{
    AttributeChange, Caller, Engine, FsError, HandleId, Kind, RenameRule, Result, Route, Stat, XattrMode,
    Zeroing,
};

use super::attr::{TTL, absent, attr_ttl, file_attr, file_type, moment};
use super::backing::Backings;
use super::errno::errno;
use super::open_flags::{open_request, wants_direct};
use super::serve::{serve, serve_now};

/// Generations tell reused numbers apart; ours are never reused.
const GENERATION: Generation = Generation(0);

/// Longest piece copied by one `copy_file_range` request, so that no request takes long.
const COPY_MAX: u64 = 8 << 20;

/// `.` and `..` come before the entries of the engine.
const DOTS: u64 = 2;

const STATFS_BLOCK: u32 = 4096;

thread_local! {
    /// Where a FUSE thread reads file content into before it replies. At most one request's worth.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The file system that fuser talks to.
pub(super) struct Adapter {
    engine: Arc<Engine>,
    runtime: Handle,
    backings: Arc<Backings>,
    /// Inodes whose cached attributes the kernel must drop. The session's own thread tells it.
    stale: Sender<Ino>,
    passthrough: bool,
}

fn caller(request: &Request) -> Caller {
    let (uid, gid, pid) = (request.uid(), request.gid(), request.pid());
    Caller { front_end: FrontEnd::Mount, uid, gid, pid }
}

fn segment(name: &OsStr) -> Result<Segment> {
    Segment::from_file_name(name.as_bytes())
}

fn entry(reply: ReplyEntry, result: Result<Stat>) {
    match result {
        Ok(stat) => reply.entry_with_ttls(&TTL, &attr_ttl(&stat), &file_attr(&stat), GENERATION),
        Err(error) => reply.error(errno(&error)),
    }
}

fn attr(reply: ReplyAttr, result: Result<Stat>) {
    match result {
        Ok(stat) => reply.attr(&attr_ttl(&stat), &file_attr(&stat)),
        Err(error) => reply.error(errno(&error)),
    }
}

fn empty(reply: ReplyEmpty, result: Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

fn xattr(reply: ReplyXattr, size: u32, result: Result<Vec<u8>>) {
    match result {
        Err(error) => reply.error(errno(&error)),
        // Metadata is far below 4 GiB.
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

impl Adapter {
    pub(super) fn new(engine: Arc<Engine>, runtime: Handle, passthrough: bool, stale: Sender<Ino>) -> Self {
        Self { engine, runtime, backings: Arc::new(Backings::default()), stale, passthrough }
    }

    fn serve(&self, request: impl Future<Output = ()> + Send + 'static) {
        serve(&self.runtime, request);
    }

    /// Serves a request that needs the engine only.
    fn with_engine<F>(&self, request: impl FnOnce(Arc<Engine>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.serve(request(Arc::clone(&self.engine)));
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
                tracing::warn!(%error, "the kernel does not take a file for passthrough");
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

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        for flag in wanted {
            if config.add_capabilities(flag).is_err() {
                tracing::debug!(?flag, "the kernel does not offer this");
            }
        }
        let passthrough = self.passthrough
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.engine.set_passthrough(passthrough);
        tracing::info!(passthrough, "connected to the kernel");
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = segment(name);
        self.with_engine(|engine| async move {
            let found = match name {
                Ok(name) => engine.lookup(Ino(parent.0), &name).await,
                Err(error) => Err(error),
            };
            match found {
                // The kernel remembers absent names, too.
                Err(FsError::NotFound) => reply.entry(&TTL, &absent(), GENERATION),
                result => entry(reply, result),
            }
        });
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.engine.forget(Ino(ino.0), count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.with_engine(|engine| async move { attr(reply, engine.stat(Ino(ino.0)).await) });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(moment), mtime.map(moment));
        let change = AttributeChange { mode, uid, gid, size, atime, mtime };
        let (caller, handle) = (caller(request), handle.map(|handle| HandleId(handle.0)));
        self.with_engine(|engine| async move {
            attr(reply, engine.change(Ino(ino.0), handle, change, caller).await);
        });
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        self.with_engine(|engine| async move {
            match engine.read_link(Ino(ino.0)).await {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => Kind::File,
            libc::S_IFIFO => Kind::Fifo,
            libc::S_IFSOCK => Kind::Socket,
            // Device nodes do not exist on a share.
            _ => return reply.error(errno(&FsError::NotPermitted("a share has no device nodes"))),
        };
        let (caller, name) = (caller(request), segment(name));
        self.with_engine(|engine| async move {
            let made = match name {
                Ok(name) => engine.make_node(Ino(parent.0), &name, kind, mode, caller).await,
                Err(error) => Err(error),
            };
            entry(reply, made);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (caller(request), segment(name));
        self.with_engine(|engine| async move {
            let made = match name {
                Ok(name) => engine.make_directory(Ino(parent.0), &name, mode, caller).await,
                Err(error) => Err(error),
            };
            entry(reply, made);
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = segment(name);
        self.with_engine(|engine| async move {
            let done = match name {
                Ok(name) => engine.unlink(Ino(parent.0), &name).await,
                Err(error) => Err(error),
            };
            empty(reply, done);
        });
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = segment(name);
        self.with_engine(|engine| async move {
            let done = match name {
                Ok(name) => engine.remove_directory(Ino(parent.0), &name).await,
                Err(error) => Err(error),
            };
            empty(reply, done);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, name) = (caller(request), segment(name));
        let target = target.as_os_str().as_bytes().to_vec();
        self.with_engine(|engine| async move {
            let made = match name {
                Ok(name) => engine.make_symlink(Ino(parent.0), &name, &target, caller).await,
                Err(error) => Err(error),
            };
            entry(reply, made);
        });
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rule = if flags.is_empty() {
            RenameRule::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            RenameRule::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            RenameRule::Exchange
        } else {
            return reply.error(errno(&FsError::Invalid("unknown rename flags")));
        };
        let names = segment(name).and_then(|from| Ok((from, segment(new_name)?)));
        self.with_engine(|engine| async move {
            let done = match names {
                Ok((from, to)) => engine.rename((Ino(parent.0), &from), (Ino(new_parent.0), &to), rule).await,
                Err(error) => Err(error),
            };
            empty(reply, done);
        });
    }

    fn link(&self, _request: &Request, _ino: INodeNo, _parent: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.error(errno(&FsError::NotPermitted("a share has no hard links")));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (ino, caller, backings) = (Ino(ino.0), caller(request), Arc::clone(&self.backings));
        self.with_engine(|engine| async move {
            let opened = match engine.open(ino, open_request(flags), caller).await {
                Ok(opened) => opened,
                Err(error) => return reply.error(errno(&error)),
            };
            let register = |file: &File| reply.open_backing(file);
            let place = (ino, opened.handle);
            let (how, backing) =
                serving(&engine, &backings, place, &opened.route, wants_direct(flags), register);
            let handle = FileHandle(opened.handle.0);
            match backing {
                Some(id) => reply.opened_passthrough(handle, how, &id),
                None => reply.opened(handle, how),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OpenFlags(flags);
        let (name, caller, backings) = (segment(name), caller(request), Arc::clone(&self.backings));
        self.with_engine(|engine| async move {
            let created = match name {
                Ok(name) => engine.create(Ino(parent.0), &name, mode, open_request(flags), caller).await,
                Err(error) => Err(error),
            };
            let (stat, opened) = match created {
                Ok(created) => created,
                Err(error) => return reply.error(errno(&error)),
            };
            let register = |file: &File| reply.open_backing(file);
            let place = (stat.ino, opened.handle);
            let (how, backing) =
                serving(&engine, &backings, place, &opened.route, wants_direct(flags), register);
            let (handle, attr) = (FileHandle(opened.handle.0), file_attr(&stat));
            match backing {
                Some(id) => reply.created_passthrough(&TTL, &attr, GENERATION, handle, how, &id),
                None => reply.created(&TTL, &attr, GENERATION, handle, how),
            }
        });
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        serve_now(|| {
            READ_BUFFER.with_borrow_mut(|buffer| {
                let size = size as usize;
                if buffer.len() < size {
                    buffer.resize(size, 0);
                }
                match self.engine.read(HandleId(handle.0), offset, &mut buffer[..size]) {
                    Ok(got) => reply.data(&buffer[..got]),
                    Err(error) => reply.error(errno(&error)),
                }
            });
        });
    }

    fn write(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let handle = HandleId(handle.0);
        // One request's worth, far below 4 GiB.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let drop_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        if !drop_privileges {
            match self.engine.write_now(handle, offset, data) {
                Ok(true) => return reply.written(length),
                Ok(false) => {}
                Err(error) => return reply.error(errno(&error)),
            }
        }
        let data = data.to_vec();
        self.with_engine(|engine| async move {
            let written = async {
                if drop_privileges {
                    engine.write_dropped_privileges(handle).await?;
                }
                engine.write(handle, offset, &data).await
            };
            match written.await {
                Ok(()) => reply.written(length),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.with_engine(|engine| async move { empty(reply, engine.flush(HandleId(handle.0)).await) });
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let handle = HandleId(handle.0);
        self.backings.release(handle);
        let stale = self.stale.clone();
        self.with_engine(|engine| async move {
            let done = engine.release(handle).await.map(|report| {
                if report.changed {
                    // Full means that thousands were announced just now; the kernel asks again after the limit.
                    let _ = stale.try_send(report.ino);
                }
            });
            empty(reply, done);
        });
    }

    fn fsync(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.with_engine(|engine| async move { empty(reply, engine.fsync(HandleId(handle.0)).await) });
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handle = self.engine.open_directory(Ino(ino.0));
        reply.opened(FileHandle(handle.0), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.with_engine(|engine| async move {
            let ino = Ino(ino.0);
            for (position, name, target) in dots(&engine, ino).into_iter().filter(|dot| dot.0 > offset) {
                if reply.add(INodeNo(target.0), position, FileType::Directory, name) {
                    return reply.ok();
                }
            }
            let read = engine.read_directory(HandleId(handle.0), offset.saturating_sub(DOTS), |at, entry| {
                let kind = file_type(entry.kind);
                !reply.add(INodeNo(entry.ino.0), at + DOTS, kind, entry.segment.file_name())
            });
            match read.await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.with_engine(|engine| async move {
            let ino = Ino(ino.0);
            for (position, name, target) in dots(&engine, ino).into_iter().filter(|dot| dot.0 > offset) {
                // The kernel takes no attributes from these two.
                let attr = fuser::FileAttr { kind: FileType::Directory, ..absent() };
                if reply.add(INodeNo(target.0), position, name, &TTL, &attr, GENERATION) {
                    return reply.ok();
                }
            }
            let read = engine.read_directory(HandleId(handle.0), offset.saturating_sub(DOTS), |at, entry| {
                // An entry that went away meanwhile is left out.
                let Ok(stat) = engine.entry_stat(ino, entry) else {
                    return true;
                };
                let attr = file_attr(&stat);
                let ttl = attr_ttl(&stat);
                let full = reply.add(
                    INodeNo(entry.ino.0),
                    at + DOTS,
                    entry.segment.file_name(),
                    &ttl,
                    &attr,
                    GENERATION,
                );
                if !full {
                    engine.remember_entry(ino, entry);
                }
                !full
            });
            match read.await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.engine.release_directory(HandleId(handle.0));
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.with_engine(|engine| async move { empty(reply, engine.fsync_directory(Ino(ino.0)).await) });
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        serve_now(|| match self.engine.space() {
            Ok(space) => {
                let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
                reply.statfs(
                    blocks(space.total),
                    blocks(space.free),
                    blocks(space.available),
                    space.names_total,
                    space.names_free,
                    STATFS_BLOCK,
                    NAME_BYTES_MAX as u32,
                    STATFS_BLOCK,
                );
            }
            Err(error) => reply.error(errno(&error)),
        });
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(errno(&FsError::Invalid("unknown flags"))),
        };
        let (name, value) = (name.as_bytes().to_vec(), value.to_vec());
        self.with_engine(|engine| async move {
            empty(reply, engine.set_xattr(Ino(ino.0), &name, &value, mode).await);
        });
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes().to_vec();
        self.with_engine(|engine| async move {
            xattr(reply, size, engine.get_xattr(Ino(ino.0), &name).await);
        });
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.with_engine(|engine| async move {
            let names = engine.list_xattrs(Ino(ino.0)).await;
            let joined =
                names.map(|names| names.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect());
            xattr(reply, size, joined);
        });
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.as_bytes().to_vec();
        self.with_engine(|engine| async move {
            empty(reply, engine.remove_xattr(Ino(ino.0), &name).await);
        });
    }

    /// The kernel checks permissions itself (`default_permissions`).
    fn access(&self, _request: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn ioctl(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let what = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Zeroing::Allocate,
            libc::FALLOC_FL_PUNCH_HOLE => Zeroing::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => Zeroing::ZeroRange,
            _ => return reply.error(errno(&FsError::NotSupported("this kind of fallocate"))),
        };
        let Some(end) = offset.checked_add(length) else {
            return reply.error(errno(&FsError::TooLarge));
        };
        self.with_engine(|engine| async move {
            empty(reply, engine.allocate(HandleId(handle.0), offset..end, what, keep_size).await);
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        serve_now(|| {
            let from = u64::try_from(offset).map_err(|_| FsError::NoSuchOffset);
            let found = from.and_then(|from| match whence {
                libc::SEEK_DATA => self.engine.seek_data(HandleId(handle.0), from),
                libc::SEEK_HOLE => self.engine.seek_hole(HandleId(handle.0), from),
                _ => Err(FsError::Invalid("unknown whence")),
            });
            match found.and_then(|at| i64::try_from(at).map_err(|_| FsError::TooLarge)) {
                Ok(at) => reply.offset(at),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        _to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = (HandleId(from_handle.0), HandleId(to_handle.0));
        self.with_engine(|engine| async move {
            match engine.copy(from, from_offset, to, to_offset, length.min(COPY_MAX)).await {
                // At most COPY_MAX, so it fits.
                Ok(copied) => reply.written(copied as u32),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }
}

/// `.` and `..` with their positions.
fn dots(engine: &Engine, ino: Ino) -> [(u64, &'static str, Ino); 2] {
    let parent = if ino == ROOT { ROOT } else { engine.parent(ino) };
    [(1, ".", ino), (2, "..", parent)]
}
