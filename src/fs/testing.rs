//! For tests of the engine's insides: an engine on a store in a temporary folder. Never part of the program.

use std::fs::File;
use std::sync::Arc;

use crate::share::lease::{LeaseDuration, LeaseId};
use crate::store::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::store::{
    BlobName, BlobPath, BlobStore, ContainerName, Exposure, LeaseRequest, NewContent, Preconditions, Scratch,
    ScratchHome,
};

use super::attributes::DefaultOwner;
use super::names::Segment;
use super::nodes::Ino;
use super::policy::SharePolicies;
use super::strategy::Fencing;
use super::{Caller, DeleteRule, Engine, EngineConfig, FrontEnd, HandleId, OpenRequest};

pub(super) const CALLER: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 1 };

pub(super) const WRITE: OpenRequest =
    OpenRequest { read: true, write: true, truncate: false, exclusive: false };

const STRANGER: LeaseId = LeaseId(0xabc);

pub(super) struct World {
    pub(super) engine: Arc<Engine>,
    pub(super) store: Arc<EmbeddedStore>,
    pub(super) folder: tempfile::TempDir,
}

/// A home for scratch files that need none.
#[derive(Debug)]
struct Nowhere;

impl ScratchHome for Nowhere {
    fn give_back(&self, _: u64, _: Arc<File>, _: Exposure) {}
}

/// A scratch file that belongs to no store.
pub(super) fn loose_scratch() -> Scratch {
    Scratch::new(0, Arc::new(tempfile::tempfile().unwrap()), Arc::new(Nowhere))
}

pub(super) fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

pub(super) async fn start() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let engine = start_on(&store, false).await;
    World { engine, store, folder }
}

/// An engine on this store, which may have local files handed to the kernel or not.
pub(super) async fn start_on(store: &Arc<EmbeddedStore>, passthrough: bool) -> Arc<Engine> {
    let config = EngineConfig {
        delete: DeleteRule::Smb,
        passthrough,
        owner: DefaultOwner { uid: 0, gid: 0 },
        policies: SharePolicies::default(),
        fencing: Fencing::default(),
        mandatory_locks: false,
    };
    let share = ContainerName::new("share").unwrap();
    Engine::start(Arc::<EmbeddedStore>::clone(store), share, config).await.unwrap()
}

impl World {
    pub(super) async fn make_directory(&self, parent: Ino, name: &str) -> Ino {
        self.engine.make_directory(parent, &segment(name), 0o755, CALLER).await.unwrap().ino
    }

    /// Makes a file with these bytes and leaves it open.
    pub(super) async fn create(&self, parent: Ino, name: &str, bytes: &[u8]) -> (Ino, HandleId) {
        let made = self.engine.create(parent, &segment(name), 0o644, WRITE, CALLER).await;
        let (stat, opened) = made.unwrap();
        self.engine.write(opened.handle, 0, bytes).await.unwrap();
        (stat.ino, opened.handle)
    }

    /// Makes a file with these bytes.
    pub(super) async fn put(&self, parent: Ino, name: &str, bytes: &[u8]) -> Ino {
        let (ino, handle) = self.create(parent, name, bytes).await;
        self.close(handle).await;
        ino
    }

    pub(super) async fn close(&self, handle: HandleId) {
        self.engine.flush(handle, 1).await.unwrap();
        self.engine.release(handle).await.unwrap();
    }

    /// Ends the engine without a word and starts another one on the same store.
    pub(super) async fn start_again(self) -> Self {
        let Self { engine, store, folder } = self;
        drop(engine);
        Self { engine: start_on(&store, false).await, store, folder }
    }

    /// A blob that some tool made.
    pub(super) async fn put_blob(&self, name: &str) {
        let (new, always) = (NewContent::default(), Preconditions::default());
        self.store.put_blob(&self.at(name), bytes::Bytes::from("x").into(), new, &always).await.unwrap();
    }

    pub(super) fn at(&self, name: &str) -> BlobPath {
        self.engine.at(BlobName::new(name).unwrap())
    }

    /// Somebody elsewhere takes a lease.
    pub(super) async fn lease(&self, at: &BlobPath) {
        let acquire = LeaseRequest::Acquire { proposed: STRANGER, duration: LeaseDuration::INFINITE };
        self.store.lease_blob(at, acquire, &Preconditions::default()).await.unwrap();
    }

    /// And gives it back.
    pub(super) async fn end_lease(&self, at: &BlobPath) {
        let release = LeaseRequest::Release { id: STRANGER };
        self.store.lease_blob(at, release, &Preconditions::default()).await.unwrap();
    }
}
