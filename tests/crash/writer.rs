//! A program on the mount that knows what was promised to it.
//!
//! Every system call that can change what survives is a *step*: the tree it leads to is noted before the call, and is
//! what must be there once the call has returned success. A call that the daemon's death interrupted may have
//! happened or not, but nothing in between.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::daemon::Daemon;
use crate::dice::Dice;
use crate::tree::{self, Kind, Node, Tree, Version};

/// Content up to this size is copied by a commit, so what is written later cannot show.
pub const INDEX_MAX: usize = 64 << 10;

/// Written at a time, so that kills land between the writes of a file, too.
const PIECE: usize = 256 << 10;

/// How much of the story is told when something is wrong.
const TOLD: usize = 60;

/// The daemon is gone.
#[derive(Debug)]
pub struct Died;

pub type Done<T = ()> = Result<T, Died>;

pub struct Writer {
    pub name: String,
    root: PathBuf,
    /// What was acknowledged.
    pub tree: Tree,
    /// What the call that is under way leads to.
    flight: Option<Tree>,
    pub appends: Vec<Append>,
    next_id: u64,
    pub dice: Dice,
    /// The share is elsewhere: what takes several requests there is done more often.
    pub far: bool,
    /// The daemon is being killed, or may die by itself.
    dying: Arc<AtomicBool>,
    story: Vec<String>,
}

/// A file that stays open and grows.
pub struct Append {
    file: File,
    pub id: u64,
    /// All that was written.
    bytes: Vec<u8>,
    /// A version that is not in the index was committed: what is written from now on may show.
    in_place: bool,
}

fn put(bytes: &mut Vec<u8>, part: &[u8], at: usize) {
    if bytes.len() < at + part.len() {
        bytes.resize(at + part.len(), 0);
    }
    bytes[at..at + part.len()].copy_from_slice(part);
}

impl Writer {
    /// A writer in the directory `name` of the mount, which it makes.
    pub fn new(mount: &Path, name: &str, seed: u64, dying: &Arc<AtomicBool>) -> Self {
        let root = mount.join(name);
        fs::create_dir(&root).unwrap();
        Self {
            name: name.to_owned(),
            root,
            tree: Tree::default(),
            flight: None,
            appends: Vec::new(),
            next_id: 1,
            dice: Dice::new(seed),
            far: false,
            dying: Arc::clone(dying),
            story: Vec::new(),
        }
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn told(&self) -> String {
        self.story[self.story.len().saturating_sub(TOLD)..].join("\n    ")
    }

    fn died(&self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            Some(libc::ENOTCONN | libc::ECONNABORTED) => true,
            // What the kernel says when the daemon is killed while it takes a request.
            Some(libc::EIO) => self.dying.load(Ordering::SeqCst),
            _ => false,
        }
    }

    /// One call. `after` is what it leads to, nothing if it changes nothing that would survive.
    fn step<T>(&mut self, what: &str, after: Option<Tree>, call: impl FnOnce() -> io::Result<T>) -> Done<T> {
        self.story.push(format!("{what}: started"));
        self.flight = after;
        let answer = call();
        let end = match &answer {
            Ok(_) => "acknowledged".to_owned(),
            Err(error) => error.to_string(),
        };
        self.story.pop();
        self.story.push(format!("{what}: {end}"));
        match answer {
            Ok(value) => {
                if let Some(after) = self.flight.take() {
                    self.tree = after;
                }
                Ok(value)
            }
            Err(error) if self.died(&error) => Err(Died),
            Err(error) => panic!("{}: {what}: {error}\n    {}", self.name, self.told()),
        }
    }

    /// After a new start: everything is as acknowledged, or as the interrupted call would have left it.
    pub fn settle(&mut self) -> Result<(), String> {
        self.appends.clear();
        let seen = tree::look(&self.root).map_err(|error| format!("{}: {error}", self.root.display()))?;
        let mut wrong = Vec::new();
        for candidate in [Some(self.tree.clone()), self.flight.take()].into_iter().flatten() {
            match candidate.holds(&seen) {
                Ok(()) => {
                    self.tree = candidate.settled(&seen);
                    self.story.push("-- all there --".to_owned());
                    return Ok(());
                }
                Err(how) => wrong.push(how),
            }
        }
        let as_acknowledged = &wrong[0];
        let or =
            wrong.get(1).map(|how| format!("\n  nor is it as the last call would have left it:\n    {how}"));
        Err(format!(
            "{} is not as acknowledged:\n    {as_acknowledged}{}\n  what happened:\n    {}",
            self.name,
            or.unwrap_or_default(),
            self.told()
        ))
    }

    fn fresh(&mut self, kind: Kind) -> Node {
        self.next_id += 1;
        Node::new(self.next_id, kind)
    }

    fn id(&self, path: &str) -> u64 {
        self.tree.0[path].id
    }

    /// Opens what exists. The old version stays until a close, whatever the flags say.
    fn open(&mut self, path: &str, options: &OpenOptions, how: &str) -> Done<File> {
        let at = self.at(path);
        self.step(&format!("open {path} {how}"), None, || options.open(at))
    }

    fn make(&mut self, path: &str) -> Done<File> {
        let node = self.fresh(Kind::File(Version::exact(&[])));
        let (at, after) = (self.at(path), self.tree.clone().with(path, node));
        let call = || OpenOptions::new().read(true).write(true).create_new(true).open(at);
        self.step(&format!("create {path}"), Some(after), call)
    }

    fn write(&mut self, file: &File, path: &str, bytes: &[u8], from: usize) -> Done {
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            let offset = from + index * PIECE;
            let what = format!("write {path} {}+{}", offset, piece.len());
            self.step(&what, None, || file.write_all_at(piece, offset as u64))?;
        }
        Ok(())
    }

    fn close(&mut self, file: File, path: &str, bytes: &[u8]) -> Done {
        let after = self.tree.clone().written(self.id(path), &Version::exact(bytes));
        let what = format!("close {path} with {} bytes", bytes.len());
        self.step(&what, Some(after), || Ok(nix::unistd::close(file)?))
    }

    fn sync(&mut self, file: &File, path: &str, bytes: &[u8]) -> Done {
        let after = self.tree.clone().written(self.id(path), &Version::exact(bytes));
        self.step(&format!("fsync {path} with {} bytes", bytes.len()), Some(after), || file.sync_all())
    }

    /// A new file.
    pub fn create(&mut self, path: &str, bytes: &[u8]) -> Done {
        let file = self.make(path)?;
        self.write(&file, path, bytes, 0)?;
        self.close(file, path, bytes)
    }

    /// A new content for a file, as `>` in a shell makes it.
    pub fn replace(&mut self, path: &str, bytes: &[u8]) -> Done {
        let file = self.open(path, OpenOptions::new().write(true).truncate(true), "truncating")?;
        self.write(&file, path, bytes, 0)?;
        self.close(file, path, bytes)
    }

    /// New parts for a file: bytes and where they go.
    pub fn overwrite(&mut self, path: &str, parts: &[(usize, Vec<u8>)]) -> Done {
        let mut bytes = self.tree.content(path);
        let file = self.open(path, OpenOptions::new().read(true).write(true), "to change it")?;
        for (from, part) in parts {
            self.write(&file, path, part, *from)?;
            put(&mut bytes, part, *from);
        }
        self.close(file, path, &bytes)
    }

    /// New parts for a file of more than 1 MiB, with a sync after each. Such a file is not written in place.
    pub fn overwrite_synced(&mut self, path: &str, parts: &[(usize, Vec<u8>)]) -> Done {
        let mut bytes = self.tree.content(path);
        let file = self.open(path, OpenOptions::new().read(true).write(true), "to change it")?;
        for (from, part) in parts {
            self.write(&file, path, part, *from)?;
            put(&mut bytes, part, *from);
            self.sync(&file, path, &bytes)?;
        }
        self.close(file, path, &bytes)
    }

    /// `truncate(2)`.
    pub fn truncate(&mut self, path: &str, size: usize) -> Done {
        let mut bytes = self.tree.content(path);
        bytes.resize(size, 0);
        let after = self.tree.clone().written(self.id(path), &Version::exact(&bytes));
        let at = self.at(path);
        let call = || Ok(nix::unistd::truncate(&at, size as i64)?);
        self.step(&format!("truncate {path} to {size}"), Some(after), call)
    }

    /// `ftruncate(2)`, a write behind the new end, and a close.
    pub fn cut_and_grow(&mut self, path: &str, size: usize, part: &[u8], from: usize) -> Done {
        let mut bytes = self.tree.content(path);
        let file = self.open(path, OpenOptions::new().read(true).write(true), "to cut it")?;
        self.step(&format!("ftruncate {path} to {size}"), None, || file.set_len(size as u64))?;
        bytes.resize(size, 0);
        self.write(&file, path, part, from)?;
        put(&mut bytes, part, from);
        self.close(file, path, &bytes)
    }

    /// A save as editors do it: a temporary file, fsync, a rename over the old one.
    pub fn save(&mut self, path: &str, bytes: &[u8]) -> Done {
        let temporary = format!("{path}.new");
        let file = self.make(&temporary)?;
        self.write(&file, &temporary, bytes, 0)?;
        self.sync(&file, &temporary, bytes)?;
        self.close(file, &temporary, bytes)?;
        self.rename(&temporary, path)
    }

    /// Opens a file, new or not, that stays open and grows.
    pub fn begin_append(&mut self, path: &str) -> Done {
        let (file, bytes) = if self.tree.0.contains_key(path) {
            let bytes = self.tree.content(path);
            (self.open(path, OpenOptions::new().append(true), "to append")?, bytes)
        } else {
            (self.make(path)?, Vec::new())
        };
        self.appends.push(Append { file, id: self.id(path), bytes, in_place: false });
        Ok(())
    }

    /// Writes to the end of an open file, and syncs.
    pub fn append(&mut self, index: usize, part: &[u8]) -> Done {
        self.append_unsynced(index, part)?;
        let mut append = self.appends.pop().expect("the one just written to");
        let after = self.tree.clone().written(append.id, &Version::exact(&append.bytes));
        let what = format!("fsync of open file {} with {} bytes", append.id, append.bytes.len());
        self.step(&what, Some(after), || append.file.sync_all())?;
        append.in_place |= append.bytes.len() > INDEX_MAX;
        self.appends.push(append);
        Ok(())
    }

    /// Writes to the end of an open file, which becomes the last of them.
    pub fn append_unsynced(&mut self, index: usize, part: &[u8]) -> Done {
        let mut append = self.appends.swap_remove(index);
        let (id, from) = (append.id, append.bytes.len());
        append.bytes.extend_from_slice(part);
        // The one exception of the contract: a beginning of what was written, but all that was committed.
        let after = append.in_place.then(|| {
            let version = Version { bytes: append.bytes.as_slice().into(), sure: self.sure(id) };
            self.tree.clone().written(id, &version)
        });
        let what = format!("write to open file {id} {from}+{}", part.len());
        self.step(&what, after, || append.file.write_all_at(part, from as u64))?;
        self.appends.push(append);
        Ok(())
    }

    /// How much of the file `id` is committed.
    fn sure(&self, id: u64) -> usize {
        let node = self.tree.0.values().find(|node| node.id == id);
        node.map_or(0, |node| match &node.kind {
            Kind::File(version) => version.sure,
            Kind::Directory | Kind::Symlink(_) => 0,
        })
    }

    /// Closes an open file.
    pub fn end_append(&mut self, index: usize) -> Done {
        let Append { file, id, bytes, .. } = self.appends.swap_remove(index);
        let after = self.tree.clone().written(id, &Version::exact(&bytes));
        let what = format!("close open file {id} with {} bytes", bytes.len());
        self.step(&what, Some(after), || Ok(nix::unistd::close(file)?))
    }

    /// Somebody else is going to commit what an open file holds.
    pub fn expect_commit(&mut self, index: usize) {
        let Append { id, bytes, .. } = &self.appends[index];
        self.flight = Some(self.tree.clone().written(*id, &Version::exact(bytes)));
    }

    pub fn is_open(&self, path: &str) -> Option<usize> {
        let id = self.id(path);
        self.appends.iter().position(|append| append.id == id)
    }

    pub fn mkdir(&mut self, path: &str) -> Done {
        let node = self.fresh(Kind::Directory);
        let (at, after) = (self.at(path), self.tree.clone().with(path, node));
        self.step(&format!("mkdir {path}"), Some(after), || fs::create_dir(at))
    }

    pub fn rmdir(&mut self, path: &str) -> Done {
        let (at, after) = (self.at(path), self.tree.clone().without(path));
        self.step(&format!("rmdir {path}"), Some(after), || fs::remove_dir(at))
    }

    pub fn unlink(&mut self, path: &str) -> Done {
        let (at, after) = (self.at(path), self.tree.clone().without(path));
        self.step(&format!("unlink {path}"), Some(after), || fs::remove_file(at))
    }

    /// Removes a file that is open; if asked, its directory is renamed before the last close.
    pub fn unlink_open(&mut self, path: &str, rename: Option<(&str, &str)>) -> Done {
        let file = self.open(path, OpenOptions::new().read(true).write(true), "to remove it")?;
        self.unlink(path)?;
        self.write(&file, path, b"a dead letter", 0)?;
        if let Some((from, to)) = rename {
            self.rename(from, to)?;
        }
        self.step(&format!("close {path}, removed"), None, || Ok(nix::unistd::close(file)?))
    }

    /// The same, but two directories change places before the last close.
    pub fn unlink_open_and_exchange(&mut self, path: &str, one: &str, other: &str) -> Done {
        let file = self.open(path, OpenOptions::new().read(true), "to remove it")?;
        self.unlink(path)?;
        self.exchange(one, other)?;
        self.step(&format!("close {path}, removed"), None, || Ok(nix::unistd::close(file)?))
    }

    /// Removes a file through its handle, and takes that back before the close.
    pub fn unlink_and_take_back(&mut self, path: &str) -> Done {
        let file = self.open(path, OpenOptions::new().read(true).write(true), "to remove it")?;
        let ask = |command: libc::c_ulong, data: &[u32]| {
            // SAFETY: the commands of leasefs.h read as many bytes as `data` has.
            let done = unsafe { libc::ioctl(file.as_raw_fd(), command, data.as_ptr()) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        self.step(&format!("claim {path}"), None, || ask(0x4008_E901, &[7, 7]))?;
        let (with, without) = (self.tree.clone(), self.tree.clone().without(path));
        self.step(&format!("mark {path}"), Some(without), || ask(0x4004_E903, &[1]))?;
        self.step(&format!("unmark {path}"), Some(with), || ask(0x4004_E903, &[0]))?;
        self.step(&format!("close {path}, taken back"), None, || Ok(nix::unistd::close(file)?))
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Done {
        let (from_at, to_at, after) = (self.at(from), self.at(to), self.tree.clone().renamed(from, to));
        self.step(&format!("rename {from} to {to}"), Some(after), || fs::rename(from_at, to_at))
    }

    pub fn exchange(&mut self, one: &str, other: &str) -> Done {
        let (one_at, other_at) = (self.at(one), self.at(other));
        let after = self.tree.clone().exchanged(one, other);
        let call = || Ok(renameat2(AT_FDCWD, &one_at, AT_FDCWD, &other_at, RenameFlags::RENAME_EXCHANGE)?);
        self.step(&format!("exchange {one} and {other}"), Some(after), call)
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> Done {
        let node = self.fresh(Kind::Symlink(target.to_owned()));
        let (at, after) = (self.at(path), self.tree.clone().with(path, node));
        self.step(&format!("symlink {path}"), Some(after), || std::os::unix::fs::symlink(target, at))
    }

    pub fn chmod(&mut self, path: &str, mode: u32) -> Done {
        let (at, after) = (self.at(path), self.tree.clone().changed(path, |node| node.mode = Some(mode)));
        let call = || fs::set_permissions(at, fs::Permissions::from_mode(mode));
        self.step(&format!("chmod {path} {mode:o}"), Some(after), call)
    }

    /// The top of the mount belongs to nobody: its mode stays as it is, but is written.
    pub fn touch_top(&mut self) -> Done {
        let top = self.root.parent().expect("a writer is below the top").to_owned();
        let call = || fs::set_permissions(&top, fs::metadata(&top)?.permissions());
        self.step("chmod of the top", None, call)
    }

    pub fn set_tag(&mut self, path: &str, tag: &str) -> Done {
        let after = self.tree.clone().changed(path, |node| node.tag = Some(tag.to_owned()));
        let at = self.at(path);
        self.step(&format!("tag {path} {tag}"), Some(after), || tree::set_tag(&at, tag))
    }

    /// Reads a file through and through while it is changed by another descriptor.
    pub fn change_under_reader(&mut self, path: &str, part: &[u8], from: usize) -> Done {
        let reader = self.open(path, OpenOptions::new().read(true), "to read it")?;
        self.overwrite(path, &[(from, part.to_vec())])?;
        self.step(&format!("close the reader of {path}"), None, || Ok(nix::unistd::close(reader)?))
    }

    /// Cuts a file that was committed while it stayed open: then it is written in place, so the cut may show.
    pub fn cut_committed(&mut self, path: &str, bytes: &[u8], size: usize) -> Done {
        let file = self.make(path)?;
        self.write(&file, path, bytes, 0)?;
        self.sync(&file, path, bytes)?;
        let cut = &bytes[..size];
        let after = self.tree.clone().written(self.id(path), &Version { bytes: bytes.into(), sure: size });
        self.step(&format!("ftruncate {path} to {size}"), Some(after), || file.set_len(size as u64))?;
        self.close(file, path, cut)
    }

    pub fn sync_directory(&mut self, path: &str) -> Done {
        let at = self.at(path);
        self.step(&format!("fsync directory {path:?}"), None, || File::open(at)?.sync_all())
    }
}

/// Writers work until their daemon is killed at some moment.
pub fn burst(daemon: &mut Daemon, writers: &mut [Writer], life: Duration, dying: &AtomicBool) {
    dying.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.work());
        }
        std::thread::sleep(life);
        dying.store(true, Ordering::SeqCst);
        daemon.kill();
    });
}
