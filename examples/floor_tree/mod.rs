//! The tree of [`fuse_floor`](../fuse_floor.rs): names, attributes and bytes in memory, errors as errno.
//!
//! Knows nothing of requests and answers. Must stay as cheap as a hash map: it is a benchmark's floor.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags};
use parking_lot::RwLock;

/// What `stat` reports as the preferred size of requests, and `df` as the size of a block.
pub(crate) const BLOCK: u32 = 4096;

/// The bytes of one file, shared with reads that are going on while the tree changes.
pub(crate) type Bytes = Arc<RwLock<Vec<u8>>>;

/// Names of a directory. Each entry has a number of its own that only rises, so that a listing can go on where it
/// stopped although entries came and went meanwhile.
#[derive(Default)]
pub(crate) struct Dir {
    numbers: HashMap<OsString, u64>,
    pub(crate) entries: BTreeMap<u64, (OsString, u64)>,
    last: u64,
}

impl Dir {
    pub(crate) fn find(&self, name: &OsStr) -> Option<u64> {
        self.numbers.get(name).and_then(|number| self.entries.get(number)).map(|(_, ino)| *ino)
    }

    fn insert(&mut self, name: &OsStr, ino: u64) {
        self.remove(name);
        self.last += 1;
        self.numbers.insert(name.to_owned(), self.last);
        self.entries.insert(self.last, (name.to_owned(), ino));
    }

    pub(crate) fn remove(&mut self, name: &OsStr) {
        if let Some(number) = self.numbers.remove(name) {
            self.entries.remove(&number);
        }
    }
}

pub(crate) enum Content {
    File(Bytes),
    Dir(Dir),
}

pub(crate) struct Node {
    pub(crate) attr: FileAttr,
    content: Content,
    /// How many times the kernel was told of this node and has not said forget.
    pub(crate) known: u64,
}

/// All nodes by inode number. One guard for the whole tree: every hold is a few map operations long.
pub(crate) struct Tree {
    pub(crate) nodes: HashMap<u64, Node>,
    last_ino: u64,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut tree = Self { nodes: HashMap::new(), last_ino: 0 };
        tree.add(FileType::Directory, 0o755, nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        tree
    }

    fn add(&mut self, kind: FileType, perm: u32, uid: u32, gid: u32) -> u64 {
        self.last_ino += 1;
        let now = SystemTime::now();
        let attr = FileAttr {
            ino: INodeNo(self.last_ino),
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm: (perm & 0o7777) as u16,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        };
        let content = match kind {
            FileType::Directory => Content::Dir(Dir::default()),
            _ => Content::File(Bytes::default()),
        };
        self.nodes.insert(self.last_ino, Node { attr, content, known: 0 });
        self.last_ino
    }

    pub(crate) fn node(&mut self, ino: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::ENOENT)
    }

    pub(crate) fn dir(&self, ino: u64) -> Result<&Dir, Errno> {
        match &self.nodes.get(&ino).ok_or(Errno::ENOENT)?.content {
            Content::Dir(dir) => Ok(dir),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    /// The directory, about to be changed.
    fn dir_mut(&mut self, ino: u64) -> Result<&mut Dir, Errno> {
        let node = self.node(ino)?;
        node.attr.mtime = SystemTime::now();
        node.attr.ctime = node.attr.mtime;
        match &mut node.content {
            Content::Dir(dir) => Ok(dir),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn bytes(&self, ino: u64) -> Result<Bytes, Errno> {
        match &self.nodes.get(&ino).ok_or(Errno::ENOENT)?.content {
            Content::File(bytes) => Ok(Arc::clone(bytes)),
            Content::Dir(_) => Err(Errno::EISDIR),
        }
    }

    pub(crate) fn find(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.dir(parent)?.find(name).ok_or(Errno::ENOENT)
    }

    /// The attributes, for an answer that makes the kernel remember the node.
    pub(crate) fn introduce(&mut self, ino: u64) -> Result<FileAttr, Errno> {
        let node = self.node(ino)?;
        node.known += 1;
        Ok(node.attr)
    }

    pub(crate) fn make(
        &mut self,
        owner: (u32, u32),
        parent: u64,
        name: &OsStr,
        kind: FileType,
        perm: u32,
    ) -> Result<FileAttr, Errno> {
        if self.dir(parent)?.find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.add(kind, perm, owner.0, owner.1);
        self.dir_mut(parent)?.insert(name, ino);
        self.introduce(ino)
    }

    /// Takes the name away; the node goes when the kernel has forgotten it too.
    pub(crate) fn remove(&mut self, parent: u64, name: &OsStr, want_dir: bool) -> Result<(), Errno> {
        let ino = self.find(parent, name)?;
        match &self.node(ino)?.content {
            Content::Dir(_) if !want_dir => return Err(Errno::EISDIR),
            Content::Dir(dir) if !dir.entries.is_empty() => return Err(Errno::ENOTEMPTY),
            Content::File(_) if want_dir => return Err(Errno::ENOTDIR),
            Content::Dir(_) | Content::File(_) => {}
        }
        self.dir_mut(parent)?.remove(name);
        let node = self.node(ino)?;
        node.attr.nlink = 0;
        if node.known == 0 {
            self.nodes.remove(&ino);
        }
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if flags.intersects(RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        let ino = self.find(from.0, from.1)?;
        if let Some(target) = self.dir(to.0)?.find(to.1) {
            if flags.contains(RenameFlags::RENAME_NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            if target == ino {
                return Ok(());
            }
            let is_dir = self.node(ino)?.attr.kind == FileType::Directory;
            self.remove(to.0, to.1, is_dir)?;
        }
        self.dir_mut(from.0)?.remove(from.1);
        self.dir_mut(to.0)?.insert(to.1, ino);
        Ok(())
    }

    pub(crate) fn set_size(&mut self, ino: u64, size: u64) -> Result<(), Errno> {
        self.bytes(ino)?.write().resize(usize::try_from(size).map_err(|_| Errno::EFBIG)?, 0);
        self.wrote(ino, size, true)
    }

    /// Notes that the content changed and reaches at least to `end` (exactly to `end` if `cut`).
    pub(crate) fn wrote(&mut self, ino: u64, end: u64, cut: bool) -> Result<(), Errno> {
        let attr = &mut self.node(ino)?.attr;
        attr.size = if cut { end } else { attr.size.max(end) };
        attr.blocks = attr.size.div_ceil(512);
        attr.mtime = SystemTime::now();
        attr.ctime = attr.mtime;
        Ok(())
    }
}

/// Puts `data` at `offset`, growing the content where needed. Appending does not write the new bytes twice.
pub(crate) fn overwrite(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if content.len() < offset {
        content.resize(offset, 0);
    }
    let inside = data.len().min(content.len() - offset);
    content[offset..offset + inside].copy_from_slice(&data[..inside]);
    content.extend_from_slice(&data[inside..]);
}
