//! Drives engine and model with the same random operations and compares them.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{
    AttributeChange, Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, Kind,
    OpenRequest, Opened, RenameRule, Route, Zeroing,
};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::mirror::{Mirror, MirrorOptions, Place};
use leasefs::store::{BlobStore, ContainerName, Metadata, PublicAccess};

use super::model::{Entry, Model, Refused, parent};

const ROOT_CALLER: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 0 };
const INLINE_MAX: usize = 16 << 10;

/// A small seeded generator; the sequence belongs to the seed for ever.
pub struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

struct Open {
    handle: HandleId,
    ino: Ino,
    route: Route,
    file: usize,
    write: bool,
}

/// Where the blobs of a share are.
#[derive(Clone)]
pub enum Blobs {
    /// In the store that the engine has.
    Here,
    /// In another store; the engine has a mirror of it.
    Elsewhere(Arc<dyn BlobStore>),
}

pub struct World {
    dice: Dice,
    delete: DeleteRule,
    passthrough: bool,
    folder: tempfile::TempDir,
    blobs: Blobs,
    /// The container of a share elsewhere: its own, so that several runs can use one service.
    far: ContainerName,
    store: Option<Arc<EmbeddedStore>>,
    engine: Option<Arc<Engine>>,
    model: Model,
    opens: Vec<Open>,
    last: String,
}

fn refused(error: &FsError) -> Refused {
    match error {
        FsError::NotFound => Refused::NotFound,
        FsError::Exists => Refused::Exists,
        FsError::NotEmpty => Refused::NotEmpty,
        FsError::NotADirectory => Refused::NotADirectory,
        FsError::IsADirectory => Refused::IsADirectory,
        FsError::DeletePending | FsError::SharingViolation => Refused::Busy,
        FsError::Invalid(_) => Refused::Invalid,
        FsError::NotSupported(_) => Refused::NotSupported,
        other => panic!("unexpected error {other:?}"),
    }
}

impl World {
    pub async fn new(seed: u64, delete: DeleteRule, passthrough: bool, blobs: Blobs) -> Self {
        let mut world = Self {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            delete,
            passthrough,
            folder: tempfile::tempdir().unwrap(),
            blobs,
            far: ContainerName::new(&format!("far-{}", uuid::Uuid::new_v4())).unwrap(),
            store: None,
            engine: None,
            model: Model::default(),
            opens: Vec::new(),
            last: String::new(),
        };
        world.start().await;
        world
    }

    async fn start(&mut self) {
        let store = EmbeddedStore::open(self.folder.path(), EmbeddedOptions::default()).expect("store opens");
        let config = EngineConfig {
            delete: self.delete,
            passthrough: self.passthrough,
            owner: DefaultOwner { uid: 0, gid: 0 },
            policies: SharePolicies::default(),
            fencing: Fencing::default(),
            mandatory_locks: false,
        };
        let share = ContainerName::new("share").unwrap();
        let blobs = Arc::clone(&store) as Arc<dyn BlobStore>;
        let engine = match &self.blobs {
            Blobs::Here => Engine::start(blobs, share, config).await,
            Blobs::Elsewhere(service) => {
                // From the second start on it is there.
                service.create_container(&self.far, Metadata::new(), PublicAccess::None).await.ok();
                let place = Place::new(self.far.clone(), "below/here").unwrap();
                let service = Arc::clone(service);
                let options = MirrorOptions::default();
                let ttl = options.attr_ttl;
                let mirror = Mirror::open(&store, share.clone(), service, place, options).await.unwrap();
                Engine::start_remote(blobs, share, config, mirror, ttl).await
            }
        };
        self.engine = Some(engine.expect("engine starts"));
        self.store = Some(store);
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(self.engine.as_ref().unwrap())
    }

    fn path(&mut self) -> String {
        let depth = 1 + self.dice.roll(3);
        let names = ["a", "b", "c.", "d\\e"];
        (0..depth).map(|_| names[self.dice.roll(names.len())]).collect::<Vec<_>>().join("/")
    }

    /// Resolves a directory as the kernel would, name by name.
    async fn directory(&self, path: &str) -> Result<Ino, FsError> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let stat = match self.engine().lookup(at, &segment(name)).await {
                // A pending file is no directory, whatever else it is.
                Err(FsError::DeletePending) => return Err(FsError::NotFound),
                found => found?,
            };
            if stat.attributes.kind != Kind::Directory {
                return Err(FsError::NotFound);
            }
            at = stat.ino;
        }
        Ok(at)
    }

    async fn place(&self, path: &str) -> Result<(Ino, Segment), FsError> {
        let name = path.rsplit('/').next().unwrap();
        Ok((self.directory(parent(path)).await?, segment(name)))
    }

    fn agree<T: std::fmt::Debug, U: std::fmt::Debug>(
        &self,
        real: &Result<T, FsError>,
        expected: &Result<U, Refused>,
    ) {
        let real_refusal = real.as_ref().err().map(refused);
        let expected_refusal = expected.as_ref().err().cloned();
        assert_eq!(real_refusal, expected_refusal, "{}: got {real:?}, expected {expected:?}", self.last);
    }

    pub async fn step(&mut self, step: usize) {
        match self.dice.roll(100) {
            0..14 => self.create().await,
            14..22 => self.make_directory().await,
            22..25 => self.make_symlink().await,
            25..36 => self.open().await,
            36..60 => self.write().await,
            60..65 => self.truncate().await,
            65..68 => self.zero().await,
            68..78 => self.close().await,
            78..81 => self.flush().await,
            81..86 => self.unlink().await,
            86..89 => self.remove_directory().await,
            89..96 => self.rename().await,
            96..98 => self.truncate_path().await,
            98 => self.exchange().await,
            _ => self.restart().await,
        }
        self.compare(step.is_multiple_of(10)).await;
    }

    async fn create(&mut self) {
        let path = self.path();
        self.last = format!("create {path}");
        let request = OpenRequest { read: true, write: true, truncate: false, exclusive: true };
        let real = match self.place(&path).await {
            Ok((parent, name)) => self.engine().create(parent, &name, 0o644, request, ROOT_CALLER).await,
            Err(error) => Err(error),
        };
        let expected = self.model.create(&path);
        self.agree(&real, &expected);
        if let (Ok((stat, opened)), Ok(file)) = (real, expected) {
            self.note_open(stat.ino, opened, file, true);
        }
    }

    fn note_open(&mut self, ino: Ino, opened: Opened, file: usize, write: bool) {
        // The kernel accepts one backing file per inode at a time.
        if let Route::Kernel(mine) = &opened.route {
            for open in self.opens.iter().filter(|open| open.ino == ino) {
                match &open.route {
                    Route::Kernel(theirs) => {
                        assert_eq!(inode(mine), inode(theirs), "{}: two files", self.last);
                    }
                    Route::Engine { .. } => panic!("{}: kernel and page cache mixed", self.last),
                    Route::Direct(_) => {}
                }
            }
        }
        self.opens.push(Open { handle: opened.handle, ino, route: opened.route, file, write });
    }

    async fn open(&mut self) {
        let path = self.path();
        let truncate = self.dice.roll(4) == 0;
        let write = truncate || self.dice.roll(2) == 0;
        self.last = format!("open {path} write {write} truncate {truncate}");
        let request = OpenRequest { read: true, write, truncate, exclusive: false };
        let real = match self.place(&path).await {
            Ok((parent, name)) => match self.engine().lookup(parent, &name).await {
                Ok(stat) => self.engine().open(stat.ino, request, ROOT_CALLER).await.map(|o| (stat.ino, o)),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let expected = self.model.open(&path);
        self.agree(&real, &expected);
        if let (Ok((ino, opened)), Ok(file)) = (real, expected) {
            if truncate {
                self.model.files[file].data.clear();
                self.model.files[file].in_place = true;
            }
            self.note_open(ino, opened, file, write);
            if !write {
                // Read-only handles are used for comparing, then closed.
                let open = self.opens.len() - 1;
                self.compare_open(open).await;
            }
        }
    }

    fn pick_open(&mut self) -> Option<usize> {
        (!self.opens.is_empty()).then(|| self.dice.roll(self.opens.len()))
    }

    async fn write(&mut self) {
        let Some(open) = self.pick_open() else { return };
        let offset = match self.dice.roll(6) {
            0 => 0,
            1..4 => self.dice.roll(20_000),
            4 => self.dice.roll(200_000),
            _ => self.dice.roll(1_800_000),
        };
        let length = [1, 10, 3000, 70_000, 400_000][self.dice.roll(5)];
        let byte = 1 + self.dice.roll(255) as u8;
        self.last = format!("write {length} at {offset} in handle {open}");
        let Open { handle, route, file, write, .. } = &self.opens[open];
        let (handle, file) = (*handle, *file);
        let data = vec![byte; length];
        let written = match route {
            // The kernel checks the access mode itself.
            Route::Kernel(_) if !write => Err(FsError::BadAccess),
            Route::Kernel(kernel) => {
                let _: () = kernel.write_all_at(&data, offset as u64).unwrap();
                Ok(())
            }
            Route::Engine { .. } | Route::Direct(_) => {
                self.engine().write(handle, offset as u64, &data).await
            }
        };
        match written {
            Ok(()) => {
                let model = &mut self.model.files[file].data;
                model.resize(model.len().max(offset + length), 0);
                model[offset..offset + length].fill(byte);
                self.model.files[file].in_place = true;
            }
            Err(FsError::BadAccess) => {}
            Err(error) => panic!("{}: {error:?}", self.last),
        }
        self.compare_open(open).await;
    }

    async fn truncate(&mut self) {
        let Some(open) = self.pick_open() else { return };
        let size = [0, 1, 5000, 100_000, 1_500_000, 2_500_000][self.dice.roll(6)];
        self.last = format!("truncate handle {open} to {size}");
        let Open { handle, ino, file, .. } = self.opens[open];
        let change = AttributeChange { size: Some(size as u64), ..AttributeChange::default() };
        match self.engine().change(ino, Some(handle), change, ROOT_CALLER).await {
            Ok(stat) => {
                assert_eq!(stat.size, size as u64, "{}", self.last);
                self.model.files[file].data.resize(size, 0);
                self.model.files[file].in_place = true;
            }
            Err(FsError::BadAccess) => {}
            Err(error) => panic!("{}: {error:?}", self.last),
        }
        self.compare_open(open).await;
    }

    async fn zero(&mut self) {
        let Some(open) = self.pick_open() else { return };
        let start = self.dice.roll(1_500_000);
        let end = start + 1 + self.dice.roll(600_000);
        let punch = self.dice.roll(2) == 0;
        self.last = format!("zero {start}..{end} punch {punch} in handle {open}");
        let Open { handle, file, .. } = self.opens[open];
        let what = if punch { Zeroing::PunchHole } else { Zeroing::ZeroRange };
        match self.engine().allocate(handle, start as u64..end as u64, what, punch, ROOT_CALLER).await {
            Ok(()) => {
                let data = &mut self.model.files[file].data;
                if !punch {
                    data.resize(data.len().max(end), 0);
                }
                let (start, end) = (start.min(data.len()), end.min(data.len()));
                data[start..end].fill(0);
                self.model.files[file].in_place = true;
            }
            Err(FsError::BadAccess) => {}
            Err(error) => panic!("{}: {error:?}", self.last),
        }
        self.compare_open(open).await;
    }

    async fn flush(&mut self) {
        let Some(open) = self.pick_open() else { return };
        self.last = format!("flush or fsync handle {open}");
        let Open { handle, file, write, .. } = self.opens[open];
        if self.dice.roll(2) == 0 {
            self.engine().flush(handle, 0).await.expect("flush");
            // A reader's close commits nothing.
            if !write {
                return;
            }
        } else {
            self.engine().fsync(handle).await.expect("fsync");
        }
        self.model.commit(file);
    }

    async fn close(&mut self) {
        let Some(open) = self.pick_open() else { return };
        self.last = format!("close handle {open}");
        let Open { handle, file, write, .. } = self.opens.swap_remove(open);
        self.engine().flush(handle, 0).await.expect("flush");
        self.engine().release(handle).await.expect("release");
        self.model.close(file, write);
    }

    async fn unlink(&mut self) {
        let path = self.path();
        self.last = format!("unlink {path}");
        let real = match self.place(&path).await {
            Ok((parent, name)) => self.engine().unlink(parent, &name).await,
            Err(error) => Err(error),
        };
        let expected = self.model.unlink(&path, self.delete == DeleteRule::Posix);
        self.agree(&real, &expected);
    }

    async fn make_directory(&mut self) {
        let path = self.path();
        self.last = format!("mkdir {path}");
        let real = match self.place(&path).await {
            Ok((parent, name)) => self.engine().make_directory(parent, &name, 0o755, ROOT_CALLER).await,
            Err(error) => Err(error),
        };
        let expected = self.model.make(&path, Entry::Directory);
        self.agree(&real, &expected);
    }

    async fn make_symlink(&mut self) {
        let (path, target) = (self.path(), self.path());
        self.last = format!("symlink {path} -> {target}");
        let real = match self.place(&path).await {
            Ok((parent, name)) => {
                self.engine().make_symlink(parent, &name, target.as_bytes(), ROOT_CALLER).await
            }
            Err(error) => Err(error),
        };
        let expected = self.model.make(&path, Entry::Symlink(target));
        self.agree(&real, &expected);
    }

    async fn remove_directory(&mut self) {
        let path = self.path();
        self.last = format!("rmdir {path}");
        let real = match self.place(&path).await {
            Ok((parent, name)) => self.engine().remove_directory(parent, &name).await,
            Err(error) => Err(error),
        };
        // The kernel's look-up meets a pending name before rmdir does.
        let expected = if self.model.pending(&path) {
            Err(Refused::NotADirectory)
        } else {
            self.model.remove_directory(&path)
        };
        self.agree(&real, &expected);
    }

    async fn rename(&mut self) {
        let (from, to) = (self.path(), self.path());
        let replace = self.dice.roll(4) != 0;
        self.last = format!("rename {from} to {to} replace {replace}");
        let rule = if replace { RenameRule::Replace } else { RenameRule::NoReplace };
        let real = match (self.place(&from).await, self.place(&to).await) {
            (Ok((from_dir, from)), Ok((to_dir, to))) => {
                self.engine().rename((from_dir, &from), (to_dir, &to), rule).await
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let expected = self.model.rename(&from, &to, replace);
        self.agree(&real, &expected);
    }

    async fn exchange(&mut self) {
        let (a, b) = (self.path(), self.path());
        self.last = format!("exchange {a} and {b}");
        let real = match (self.place(&a).await, self.place(&b).await) {
            (Ok((a_dir, a)), Ok((b_dir, b))) => {
                self.engine().rename((a_dir, &a), (b_dir, &b), RenameRule::Exchange).await
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let expected = self.model.exchange(&a, &b);
        self.agree(&real, &expected);
    }

    async fn truncate_path(&mut self) {
        let path = self.path();
        let size = [0, 7, 90_000, 2_000_000][self.dice.roll(4)];
        self.last = format!("truncate {path} to {size}");
        let Some(Entry::File(file)) = self.model.entries.get(&path).cloned() else { return };
        if self.model.files[file].pending {
            return;
        }
        let (parent, name) = self.place(&path).await.expect("the parent is there");
        let ino = self.engine().lookup(parent, &name).await.expect("the file is there").ino;
        let change = AttributeChange { size: Some(size as u64), ..AttributeChange::default() };
        self.engine().change(ino, None, change, ROOT_CALLER).await.expect("truncate");
        self.model.files[file].data.resize(size, 0);
        self.model.commit(file);
    }

    /// Closes everything properly or not at all, and starts again on the same data.
    async fn restart(&mut self) {
        let orderly = self.dice.roll(2) == 0;
        self.last = format!("restart, orderly {orderly}");
        if orderly {
            while !self.opens.is_empty() {
                self.close().await;
            }
            self.engine().drain(&|_| {}).await.expect("drain");
        }
        self.opens.clear();
        self.engine = None;
        // Explicitly, because a background thread may hold the store for a moment longer.
        self.store.take().unwrap().close().expect("store closes");
        self.start().await;
        self.model.crash();
        if !orderly {
            self.adopt_survivors().await;
        }
    }

    /// After a death each file has what was committed, or (bigger files, written in place) something later.
    async fn adopt_survivors(&mut self) {
        let files: Vec<(String, usize)> = self
            .model
            .entries
            .iter()
            .filter_map(|(path, entry)| match entry {
                Entry::File(file) => Some((path.clone(), *file)),
                Entry::Directory | Entry::Symlink(_) => None,
            })
            .collect();
        for (path, file) in files {
            let real = self.content(&path).await;
            let model = &mut self.model.files[file];
            if !model.in_place || model.committed.len() <= INLINE_MAX {
                assert!(real == model.committed, "{path}: {} after a restart", self.last);
            }
            model.data = real;
            model.committed = model.data.clone();
            model.in_place = false;
        }
    }

    async fn content(&self, path: &str) -> Vec<u8> {
        let engine = self.engine();
        let (parent, name) = self.place(path).await.expect("the parent is there");
        let stat =
            engine.lookup(parent, &name).await.unwrap_or_else(|e| panic!("{}: {path}: {e:?}", self.last));
        let request = OpenRequest { read: true, ..OpenRequest::default() };
        let opened = engine.open(stat.ino, request, ROOT_CALLER).await.expect("opens");
        let mut data = vec![0; stat.size as usize + 10];
        let got = read(&engine, &opened.route, opened.handle, &mut data).await;
        data.truncate(got);
        engine.release(opened.handle).await.expect("closes");
        data
    }

    async fn compare_open(&self, open: usize) {
        let Open { handle, route, file, .. } = &self.opens[open];
        let expected = &self.model.files[*file].data;
        let mut data = vec![0; expected.len() + 10];
        let got = read(&self.engine(), route, *handle, &mut data).await;
        assert_eq!(got, expected.len(), "{}: size through a handle", self.last);
        if let Some(at) = (0..got).find(|at| data[*at] != expected[*at]) {
            panic!("{}: byte {at} of {got} is {} and not {}", self.last, data[at], expected[at]);
        }
    }

    /// Compares names, kinds and sizes everywhere, and all content if `thoroughly`.
    async fn compare(&mut self, thoroughly: bool) {
        let mut directories = vec![String::new()];
        while let Some(directory) = directories.pop() {
            let expected = self.model.list(&directory);
            let ino = self
                .directory(&directory)
                .await
                .unwrap_or_else(|e| panic!("{}: {directory}: {e}", self.last));
            let engine = self.engine();
            let handle = engine.open_directory(ino);
            let mut names = Vec::new();
            engine
                .read_directory(handle, 0, |_, entry| {
                    names.push((entry.segment.file_name(), entry.kind));
                    true
                })
                .await
                .expect("lists");
            engine.release_directory(handle);
            names.sort_by(|a, b| a.0.cmp(&b.0));
            let expected_names: Vec<(String, Kind)> =
                expected.iter().map(|(name, entry)| (name.clone(), kind(entry))).collect();
            assert_eq!(names, expected_names, "{}: entries of {directory:?}", self.last);
            for (name, entry) in expected {
                let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
                self.compare_entry(ino, &name, &path, &entry, thoroughly).await;
                if entry == Entry::Directory {
                    directories.push(path);
                }
            }
        }
    }

    async fn compare_entry(&mut self, parent: Ino, name: &str, path: &str, entry: &Entry, thoroughly: bool) {
        let stat = self.engine().lookup(parent, &segment(name)).await;
        let stat = stat.unwrap_or_else(|error| panic!("{}: {path}: {error}", self.last));
        match entry {
            Entry::Directory => {}
            Entry::Symlink(target) => {
                assert_eq!(self.engine().read_link(stat.ino).await.unwrap(), target.as_bytes());
            }
            Entry::File(file) => {
                let expected = &self.model.files[*file].data;
                assert_eq!(stat.size, expected.len() as u64, "{}: size of {path}", self.last);
                if thoroughly {
                    assert!(self.content(path).await == *expected, "{}: content of {path}", self.last);
                }
            }
        }
    }

    pub async fn finish(mut self) {
        while !self.opens.is_empty() {
            self.close().await;
        }
        self.last = "the end".into();
        self.compare(true).await;
        assert_eq!(self.engine().usage().1, 0, "handles left");
    }
}

fn inode(file: &std::fs::File) -> u64 {
    file.metadata().unwrap().ino()
}

fn kind(entry: &Entry) -> Kind {
    match entry {
        Entry::Directory => Kind::Directory,
        Entry::File(_) => Kind::File,
        Entry::Symlink(_) => Kind::Symlink,
    }
}

fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

async fn read(engine: &Engine, route: &Route, handle: HandleId, buffer: &mut [u8]) -> usize {
    match route {
        Route::Kernel(file) => {
            let mut done = 0;
            while done < buffer.len() {
                match file.read_at(&mut buffer[done..], done as u64).unwrap() {
                    0 => break,
                    got => done += got,
                }
            }
            done
        }
        Route::Engine { .. } | Route::Direct(_) => match engine.read(handle, 0, buffer) {
            Err(FsError::NotHere(_)) => {
                let bytes = engine.read_elsewhere(handle, 0, buffer.len()).await.expect("reads");
                buffer[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            }
            got => got.expect("reads"),
        },
    }
}
