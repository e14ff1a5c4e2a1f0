//! A mount's engine and a second user of the same store, as a REST front end is one: what the second one changes is seen
//! by the first, whole, and told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{
    Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, OpenRequest, Outdated, Watch,
};
use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, DeleteSnapshots, LeaseRequest, NewContent, Preconditions,
};

/// Longer than any step takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const CALLER: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 1 };
const READ: OpenRequest = OpenRequest { read: true, write: false, truncate: false, exclusive: false };
const WRITE: OpenRequest = OpenRequest { read: true, write: true, truncate: false, exclusive: false };

struct Both {
    engine: Arc<Engine>,
    other: Arc<EmbeddedStore>,
    _folder: tempfile::TempDir,
}

async fn start() -> Both {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let config = EngineConfig {
        delete: DeleteRule::Smb,
        passthrough: false,
        owner: DefaultOwner { uid: 0, gid: 0 },
        policies: SharePolicies::default(),
        fencing: Fencing::default(),
        mandatory_locks: false,
    };
    let other = store.durable_user();
    let engine = Engine::start(store, share(), config).await.unwrap();
    Both { engine, other, _folder: folder }
}

fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

impl Both {
    async fn put(&self, name: &str, body: Vec<u8>) {
        let always = Preconditions::default();
        self.other.put_blob(&at(name), body.into(), NewContent::default(), &always).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        let always = Preconditions::default();
        self.other.delete_blob(&at(name), DeleteSnapshots::Include, &always).await.unwrap();
    }

    async fn open(&self, name: &str, request: OpenRequest) -> (Ino, HandleId) {
        let ino = self.engine.lookup(ROOT, &segment(name)).await.unwrap().ino;
        (ino, self.engine.open(ino, request, CALLER).await.unwrap().handle)
    }

    fn read(&self, handle: HandleId) -> Vec<u8> {
        read(&self.engine, handle)
    }

    async fn read_file(&self, name: &str) -> Vec<u8> {
        let (_, handle) = self.open(name, READ).await;
        let bytes = self.read(handle);
        self.engine.release(handle).await.unwrap();
        bytes
    }
}

fn read(engine: &Engine, handle: HandleId) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    let count = engine.read(handle, 0, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

/// Everything that is told until `wanted` is among it.
fn told(watch: &mut Watch, wanted: &Outdated) -> Vec<Outdated> {
    let started = Instant::now();
    let mut all = Vec::new();
    while !all.contains(wanted) {
        assert!(started.elapsed() < LIMIT, "{wanted:?} is not among {all:?}");
        all.extend(watch.next(Duration::from_millis(100)).unwrap());
        watch.done();
    }
    all
}

fn name(text: &str) -> Outdated {
    Outdated::Name { parent: ROOT, segment: segment(text) }
}

#[tokio::test]
async fn what_others_put_and_delete_is_seen_and_told() {
    let both = start().await;
    let mut watch = both.engine.watch().unwrap();
    assert!(matches!(both.engine.lookup(ROOT, &segment("f")).await, Err(FsError::NotFound)));
    both.put("f", b"one".to_vec()).await;
    told(&mut watch, &name("f"));
    assert_eq!(both.read_file("f").await, b"one");
    let ino = both.engine.lookup(ROOT, &segment("f")).await.unwrap().ino;
    both.put("f", vec![2; 50_000]).await;
    let heard = told(&mut watch, &Outdated::File(ino));
    assert!(!heard.contains(&name("f")), "the name leads to the same file");
    assert_eq!(both.read_file("f").await, vec![2; 50_000]);
    assert_eq!(both.engine.stat(ino).await.unwrap().size, 50_000);
    both.delete("f").await;
    told(&mut watch, &name("f"));
    assert!(matches!(both.engine.lookup(ROOT, &segment("f")).await, Err(FsError::NotFound)));
    assert!(matches!(both.engine.open(ino, READ, CALLER).await, Err(FsError::Stale)));
    both.put("d/e", b"deep".to_vec()).await;
    told(&mut watch, &name("d"));
}

#[tokio::test]
async fn the_engines_own_changes_are_not_told() {
    let both = start().await;
    let mut watch = both.engine.watch().unwrap();
    let create = OpenRequest { exclusive: true, ..WRITE };
    let (stat, opened) = both.engine.create(ROOT, &segment("mine"), 0o644, create, CALLER).await.unwrap();
    both.engine.write(opened.handle, 0, b"mine").await.unwrap();
    both.engine.release(opened.handle).await.unwrap();
    both.engine.unlink(ROOT, &segment("mine")).await.unwrap();
    // A lease is no change that anybody remembers; the next put is the first thing heard.
    both.put("theirs", b"x".to_vec()).await;
    let acquire = LeaseRequest::Acquire { proposed: LeaseId(1), duration: LeaseDuration::INFINITE };
    both.other.lease_blob(&at("theirs"), acquire, &Preconditions::default()).await.unwrap();
    let heard = told(&mut watch, &name("theirs"));
    assert!(!heard.contains(&name("mine")) && !heard.contains(&Outdated::File(stat.ino)), "{heard:?}");
}

#[tokio::test]
async fn an_open_file_keeps_its_version_and_the_next_open_takes_the_new_one() {
    let both = start().await;
    both.put("f", vec![1; 30_000]).await;
    let (ino, old) = both.open("f", READ).await;
    both.put("f", vec![2; 40_000]).await;
    assert_eq!(both.read(old), vec![1; 30_000]);
    assert_eq!(both.engine.stat(ino).await.unwrap().size, 30_000, "what the open sees");
    both.engine.release(old).await.unwrap();
    assert_eq!(both.read_file("f").await, vec![2; 40_000]);
    let (ino, gone) = both.open("f", READ).await;
    both.delete("f").await;
    assert_eq!(both.read(gone), vec![2; 40_000]);
    let stat = both.engine.stat(ino).await.unwrap();
    assert_eq!((stat.size, stat.links), (40_000, 0));
    both.put("f", b"another".to_vec()).await;
    assert_eq!(both.read(gone), vec![2; 40_000]);
    let (other, fresh) = both.open("f", READ).await;
    assert_ne!(other, ino);
    assert_eq!(both.read(fresh), b"another");
    both.engine.release(gone).await.unwrap();
    both.engine.release(fresh).await.unwrap();
}

/// A body that tells whether it is whole: its length follows from its bytes.
fn whole(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + (number as u8 as usize) * 250]
}

#[test]
fn hammered_files_are_always_there_and_whole() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let both = Arc::new(start().await);
        both.put("d/f", whole(0)).await;
        let (stop, puts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = tokio::spawn({
            let (both, stop, puts) = (Arc::clone(&both), Arc::clone(&stop), Arc::clone(&puts));
            async move {
                let mut number = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    both.put("d/f", whole(number)).await;
                    // Beside it, names come and go.
                    both.put("d/g", whole(number)).await;
                    both.delete("d/g").await;
                    puts.store(number, Ordering::Relaxed);
                }
            }
        });
        let started = Instant::now();
        let mut opens = 0u32;
        while opens < 2_000 || puts.load(Ordering::Relaxed) < 50 {
            assert!(started.elapsed() < LIMIT, "{opens} opens and {puts:?} puts are too few");
            let engine = &both.engine;
            let folder = engine.lookup(ROOT, &segment("d")).await.unwrap().ino;
            let file = engine.lookup(folder, &segment("f")).await.unwrap().ino;
            let handle = engine.open(file, READ, CALLER).await.unwrap().handle;
            let size = engine.stat(file).await.unwrap().size;
            let bytes = read(engine, handle);
            assert_eq!(bytes, whole(u64::from(bytes[0])), "one version, whole");
            assert_eq!(size, bytes.len() as u64, "the size is that of the bytes");
            engine.release(handle).await.unwrap();
            engine.forget(file, 1);
            engine.forget(folder, 1);
            opens += 1;
        }
        stop.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        let report = both.other.check().unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    });
}
