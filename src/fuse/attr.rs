//! Attributes in the kernel's form.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

use crate::fs::{Engine, Kind, Stat};
use crate::share::Moment;

/// How long the kernel may rely on names and attributes if all changes come through this mount or are announced: the
/// limit only bounds memory of things long unused.
const TTL: Duration = Duration::from_secs(3600);

const BLOCK_SIZE: u32 = 4096;

/// The kernel's name for a kind of file.
pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

/// A `stat` answer.
pub(super) fn file_attr(stat: &Stat) -> FileAttr {
    let attributes = &stat.attributes;
    FileAttr {
        ino: INodeNo(stat.ino.0),
        size: stat.size,
        blocks: stat.blocks,
        atime: attributes.atime.into(),
        mtime: attributes.mtime.into(),
        ctime: attributes.ctime.into(),
        crtime: attributes.btime.into(),
        kind: file_type(attributes.kind),
        // Twelve bits, so it fits.
        perm: (attributes.mode & 0o7777) as u16,
        nlink: stat.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// How long the kernel may rely on a name.
pub(super) fn name_ttl(engine: &Engine) -> Duration {
    engine.attr_ttl().unwrap_or(TTL)
}

/// How long the kernel may keep these attributes: not at all while a program may be writing behind our back.
pub(super) fn attr_ttl(engine: &Engine, stat: &Stat) -> Duration {
    if stat.volatile { Duration::ZERO } else { name_ttl(engine) }
}

/// What the kernel caches for a name that does not exist.
pub(super) fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// A time to set.
pub(super) fn moment(time: TimeOrNow) -> Moment {
    match time {
        TimeOrNow::SpecificTime(time) => time.into(),
        TimeOrNow::Now => SystemTime::now().into(),
    }
}
