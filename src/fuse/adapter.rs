//! The adapter: one short method per FUSE request. Longer ones are in a module for their family.

mod claims;
mod directories;
mod files;
mod range_locks;
mod replies;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tokio::runtime::Handle;

use crate::fs::names::{NAME_BYTES_MAX, Segment};
use crate::fs::nodes::Ino;
use crate::fs::{
    AttributeChange, Caller, Engine, FrontEnd, FsError, HandleId, Kind, Mover, RangeAsker, RenameRule,
    XattrMode, Zeroing,
};

use super::attr::{absent, moment, name_ttl};
use super::backing::Backings;
use super::ioctl;
use super::serve::{serve, serve_now};
use super::stale::Announcer;
use super::watch::Requests;

use replies::{GENERATION, Refuse, answer, attr, empty, entry, xattr};

/// Longest piece copied by one `copy_file_range` request, so that no request takes long.
const COPY_MAX: u64 = 8 << 20;

const STATFS_BLOCK: u32 = 4096;

/// The file system that fuser talks to.
pub(super) struct Adapter {
    engine: Arc<Engine>,
    runtime: Handle,
    backings: Arc<Backings>,
    /// What the kernel must forget.
    announcer: Announcer,
    passthrough: bool,
    /// Requests whose answers the kernel may remember.
    requests: Arc<Requests>,
}

fn caller(request: &Request) -> Caller {
    let (uid, gid, pid) = (request.uid(), request.gid(), request.pid());
    Caller { front_end: FrontEnd::Mount, uid, gid, pid }
}

/// Who moves bytes: the kernel says whose range locks count as its own.
fn mover(handle: FileHandle, lock_owner: Option<LockOwner>) -> Mover {
    Mover { handle: HandleId(handle.0), key: lock_owner.map(|owner| owner.0) }
}

impl Adapter {
    pub(super) fn new(engine: Arc<Engine>, runtime: Handle, passthrough: bool, announcer: Announcer) -> Self {
        let (backings, requests) = (Arc::new(Backings::default()), Arc::new(Requests::default()));
        Self { engine, runtime, backings, announcer, passthrough, requests }
    }

    /// The requests under way.
    pub(super) fn requests(&self) -> Arc<Requests> {
        Arc::clone(&self.requests)
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

    /// Serves a request about a name. What cannot be a name is refused at once.
    fn named<R: Refuse, F>(&self, name: &OsStr, reply: R, request: impl FnOnce(Arc<Engine>, Segment, R) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match Segment::from_file_name(name.as_bytes()) {
            Ok(name) => {
                let under_way = self.requests.begin();
                let request = request(Arc::clone(&self.engine), name, reply);
                self.serve(async move {
                    request.await;
                    drop(under_way);
                });
            }
            Err(error) => reply.refuse(&error),
        }
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_FLOCK_LOCKS,
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
        self.named(name, reply, |engine, name, reply| async move {
            match engine.lookup(Ino(parent.0), &name).await {
                // The kernel remembers absent names, too.
                Err(FsError::NotFound) => reply.entry(&name_ttl(&engine), &absent(), GENERATION),
                result => entry(&engine, reply, result),
            }
        });
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.engine.forget(Ino(ino.0), count);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.with_engine(|engine| async move { attr(&engine, reply, engine.stat(Ino(ino.0)).await) });
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
            attr(&engine, reply, engine.change(Ino(ino.0), handle, change, caller).await);
        });
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        self.with_engine(|engine| async move {
            let target = engine.read_link(Ino(ino.0)).await;
            answer(reply, target, |reply, target| reply.data(&target));
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
            _ => return reply.refuse(&FsError::NotPermitted("a share has no device nodes")),
        };
        let caller = caller(request);
        self.named(name, reply, |engine, name, reply| async move {
            entry(&engine, reply, engine.make_node(Ino(parent.0), &name, kind, mode, caller).await);
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
        let caller = caller(request);
        self.named(name, reply, |engine, name, reply| async move {
            entry(&engine, reply, engine.make_directory(Ino(parent.0), &name, mode, caller).await);
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.named(name, reply, |engine, name, reply| async move {
            empty(reply, engine.unlink(Ino(parent.0), &name).await);
        });
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.named(name, reply, |engine, name, reply| async move {
            empty(reply, engine.remove_directory(Ino(parent.0), &name).await);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, target) = (caller(request), target.as_os_str().as_bytes().to_vec());
        self.named(name, reply, |engine, name, reply| async move {
            entry(&engine, reply, engine.make_symlink(Ino(parent.0), &name, &target, caller).await);
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
            return reply.refuse(&FsError::Invalid("unknown rename flags"));
        };
        let to = match Segment::from_file_name(new_name.as_bytes()) {
            Ok(to) => to,
            Err(error) => return reply.refuse(&error),
        };
        self.named(name, reply, |engine, from, reply| async move {
            let (from, to) = ((Ino(parent.0), &from), (Ino(new_parent.0), &to));
            empty(reply, engine.rename(from, to, rule).await);
        });
    }

    fn link(&self, _request: &Request, _ino: INodeNo, _parent: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.refuse(&FsError::NotPermitted("a share has no hard links"));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_file(request, Ino(ino.0), flags, reply);
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
        self.create_file(request, (Ino(parent.0), name), mode, OpenFlags(flags), reply);
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_file(mover(handle, lock_owner), offset, size, reply);
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
        lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.write_file(mover(handle, lock_owner), offset, data, write_flags, reply);
    }

    fn flush(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let thread = request.pid();
        self.with_engine(|engine| async move {
            empty(reply, engine.flush_by(HandleId(handle.0), lock_owner.0, thread).await);
        });
    }

    fn getlk(
        &self,
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let asker = RangeAsker { key: lock_owner.0, process: pid, thread: request.pid() };
        self.test_range(HandleId(handle.0), asker, (start, end), kind, reply);
    }

    fn setlk(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let asker = RangeAsker { key: lock_owner.0, process: pid, thread: request.pid() };
        self.change_range((Ino(ino.0), HandleId(handle.0)), asker, (start, end), kind, sleep, reply);
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
        self.release_file(HandleId(handle.0), reply);
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
        reply: ReplyDirectory,
    ) {
        self.list(Ino(ino.0), HandleId(handle.0), offset, reply);
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_plus(Ino(ino.0), HandleId(handle.0), offset, reply);
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
        serve_now(|| {
            answer(reply, self.engine.space(), |reply, space| {
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
            });
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
            _ => return reply.refuse(&FsError::Invalid("unknown flags")),
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
        request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        match ioctl::parse(command, in_data) {
            Ok(asked) if flags.contains(IoctlFlags::FUSE_IOCTL_DIR) => {
                self.ask_directory(caller(request), HandleId(handle.0), asked, reply);
            }
            Ok(asked) => self.ask_file(HandleId(handle.0), asked, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        request: &Request,
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
            _ => return reply.refuse(&FsError::NotSupported("this kind of fallocate")),
        };
        let Some(end) = offset.checked_add(length) else {
            return reply.refuse(&FsError::TooLarge);
        };
        let caller = caller(request);
        self.with_engine(|engine| async move {
            let range = offset..end;
            empty(reply, engine.allocate(HandleId(handle.0), range, what, keep_size, caller).await);
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
            let at = found.and_then(|at| i64::try_from(at).map_err(|_| FsError::TooLarge));
            answer(reply, at, ReplyLseek::offset);
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
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
        let from = (HandleId(from_handle.0), from_offset);
        let to = (HandleId(to_handle.0), to_offset);
        let caller = caller(request);
        self.with_engine(|engine| async move {
            let copied = engine.copy(from, to, length.min(COPY_MAX), caller).await;
            // At most COPY_MAX, so it fits.
            answer(reply, copied, |reply, copied| reply.written(copied as u32));
        });
    }
}
