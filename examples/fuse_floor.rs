//! The smallest complete file system on this FUSE crate: everything in memory, nothing kept.
//!
//! It is the floor of the platform: no daemon on this crate can answer faster than one that only looks into a
//! hash map. Benchmarks put leasefs beside it, so it must use the same kernel settings as leasefs does
//! and must never grow features that cost time. It also shows, in one file, what a FUSE file system has to answer.
//!
//! Usage: `fuse_floor DIR`. Runs in the foreground until it is unmounted or gets SIGTERM or SIGINT.

use std::ffi::OsStr;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use nix::sys::signal::{SigSet, Signal};
use parking_lot::RwLock;

use floor_tree::{BLOCK, Tree, overwrite};

mod floor_tree;

/// How long the kernel may keep names and attributes. Nobody else changes this tree, so: long.
const TTL: Duration = Duration::from_secs(3600);
/// Inode numbers are never used twice, so one generation is enough.
const GENERATION: Generation = Generation(0);
/// Threads that answer the kernel: enough that a slow answer does not hold up the next one.
const THREADS: usize = 4;
/// Size reported by `df`; the content of files really lives in this process's memory.
const CAPACITY_BLOCKS: u64 = 1 << 24;

/// The file system: the tree behind one guard.
struct Floor {
    tree: RwLock<Tree>,
}

/// Answers with the value, or with the error.
macro_rules! answer {
    ($reply:expr, $result:expr, $value:pat => $good:expr) => {
        match $result {
            Ok($value) => $good,
            Err(errno) => $reply.error(errno),
        }
    };
}

impl Filesystem for Floor {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        config
            .add_capabilities(wanted)
            .map_err(|missing| io::Error::other(format!("kernel lacks {missing:?}")))
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = self.tree.write();
        let found = tree.find(parent.0, name).and_then(|ino| tree.introduce(ino));
        answer!(reply, found, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let mut tree = self.tree.write();
        if let Ok(node) = tree.node(ino.0) {
            node.known = node.known.saturating_sub(nlookup);
            if node.known == 0 && node.attr.nlink == 0 {
                tree.nodes.remove(&ino.0);
            }
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.tree.read().nodes.get(&ino.0) {
            Some(node) => reply.attr(&TTL, &node.attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.tree.write();
        let sized = size.map_or(Ok(()), |size| tree.set_size(ino.0, size));
        let changed = sized.and_then(|()| tree.node(ino.0)).map(|node| {
            let attr = &mut node.attr;
            attr.perm = mode.map_or(attr.perm, |mode| (mode & 0o7777) as u16);
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            attr.atime = atime.map_or(attr.atime, moment);
            attr.mtime = mtime.map_or(attr.mtime, moment);
            attr.ctime = SystemTime::now();
            *attr
        });
        answer!(reply, changed, attr => reply.attr(&TTL, &attr));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = self.tree.write().make(
            (req.uid(), req.gid()),
            parent.0,
            name,
            FileType::Directory,
            mode & !umask,
        );
        answer!(reply, made, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.tree.write().remove(parent.0, name, false), () => reply.ok());
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.tree.write().remove(parent.0, name, true), () => reply.ok());
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.tree.write().rename((parent.0, name), (newparent.0, newname), flags);
        answer!(reply, renamed, () => reply.ok());
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.tree.write().make(
            (req.uid(), req.gid()),
            parent.0,
            name,
            FileType::RegularFile,
            mode & !umask,
        );
        let keep = FopenFlags::FOPEN_KEEP_CACHE;
        answer!(reply, made, attr => reply.created(&TTL, &attr, GENERATION, FileHandle(0), keep));
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let truncate = flags.0 & libc::O_TRUNC != 0;
        let opened = if truncate { self.tree.write().set_size(ino.0, 0) } else { Ok(()) };
        answer!(reply, opened, () => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE));
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let found = self.tree.read().bytes(ino.0);
        answer!(reply, found, bytes => {
            let bytes = bytes.read();
            let start = bytes.len().min(offset as usize);
            let end = bytes.len().min(start + size as usize);
            reply.data(&bytes[start..end]);
        });
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let found = self.tree.read().bytes(ino.0);
        let wrote = found.and_then(|bytes| {
            overwrite(&mut bytes.write(), offset as usize, data);
            self.tree.write().wrote(ino.0, offset + data.len() as u64, false)
        });
        answer!(reply, wrote, () => reply.written(data.len() as u32));
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let tree = self.tree.read();
        answer!(reply, tree.dir(ino.0), dir => {
            for (number, (name, child)) in dir.entries.range(offset + 1..) {
                let kind = tree.nodes[child].attr.kind;
                if reply.add(INodeNo(*child), *number, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut tree = self.tree.write();
        let mut told = Vec::new();
        answer!(reply, tree.dir(ino.0), dir => {
            for (number, (name, child)) in dir.entries.range(offset + 1..) {
                let attr = tree.nodes[child].attr;
                if reply.add(attr.ino, *number, name, &TTL, &attr, GENERATION) {
                    break;
                }
                told.push(*child);
            }
            reply.ok();
        });
        for child in told {
            // Cannot fail: the entry was there a moment ago and the tree is still ours.
            let _ = tree.introduce(child);
        }
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let files = self.tree.read().nodes.len() as u64;
        reply.statfs(
            CAPACITY_BLOCKS,
            CAPACITY_BLOCKS,
            CAPACITY_BLOCKS,
            files,
            u64::MAX / 2,
            BLOCK,
            255,
            BLOCK,
        );
    }
}

fn moment(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

fn run(dir: &str) -> io::Result<()> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("fuse_floor".into()), MountOption::DefaultPermissions];
    config.acl = if nix::unistd::getuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    // Before any thread starts, so that only the one below takes the signals.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block()?;
    let mut session = Session::new(Floor { tree: RwLock::new(Tree::new()) }, dir, &config)?;
    let mut unmounter = session.unmount_callable();
    std::thread::spawn(move || {
        if signals.wait().is_ok()
            && let Err(error) = unmounter.unmount()
        {
            eprintln!("fuse_floor: cannot unmount: {error}");
        }
    });
    session.run()
}

fn main() -> ExitCode {
    let Some(dir) = std::env::args().nth(1) else {
        eprintln!("usage: fuse_floor DIR");
        return ExitCode::from(2);
    };
    match run(&dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuse_floor: {dir}: {error}");
            ExitCode::FAILURE
        }
    }
}
