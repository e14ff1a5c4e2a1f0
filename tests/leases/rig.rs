//! An engine on an embedded store, and a stranger who uses the same store without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::{SharePolicies, SharePolicy};
use leasefs::fs::strategy::{Concurrency, Fencing};
use leasefs::fs::{Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, OpenRequest};
use leasefs::share::Moment;
use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, DeleteSnapshots, LeaseRequest, ListItem, ListQuery,
    NewContent, Preconditions, StoreError,
};
use tokio::time::Instant;

pub const ANYBODY: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 0 };
pub const READ: OpenRequest = OpenRequest { read: true, write: false, truncate: false, exclusive: false };
pub const WRITE: OpenRequest = OpenRequest { read: true, write: true, truncate: false, exclusive: false };
pub const STRANGER: LeaseId = LeaseId(0x5742_0000_0000_4000_8000_0000_0000_0001);

pub struct Rig {
    pub engine: Arc<Engine>,
    pub store: Arc<EmbeddedStore>,
    /// How far the store's clock is ahead of the runtime's: time that passes while nothing runs.
    ahead: Arc<AtomicI64>,
    _folder: tempfile::TempDir,
}

pub fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

pub fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

pub fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

pub fn config(concurrency: Concurrency, policy: SharePolicy) -> EngineConfig {
    EngineConfig {
        delete: DeleteRule::Smb,
        // Off until the front end says that the kernel can; tests that play the kernel say so.
        passthrough: true,
        owner: DefaultOwner { uid: 0, gid: 0 },
        policies: SharePolicies::new(Vec::new(), policy),
        mandatory_locks: false,
        fencing: Fencing { concurrency, host: "here".to_owned(), ..Fencing::default() },
    }
}

impl Rig {
    pub async fn new(concurrency: Concurrency, policy: SharePolicy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ahead = Arc::new(AtomicI64::new(0));
        let (base, started) = (Moment::from(std::time::SystemTime::now()), Instant::now());
        let more = Arc::clone(&ahead);
        let clock = move || Moment(base.after(started.elapsed()).0 + more.load(Ordering::SeqCst));
        let options = EmbeddedOptions { clock: Arc::new(clock), ..EmbeddedOptions::default() };
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        let blobs: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(&store);
        let engine = Engine::start(blobs, share(), config(concurrency, policy)).await.unwrap();
        engine.set_passthrough(false);
        Self { engine, store, ahead, _folder: folder }
    }

    pub async fn optimistic() -> Self {
        Self::new(Concurrency::Optimistic, SharePolicy::Shared).await
    }

    pub async fn exclusive() -> Self {
        Self::new(Concurrency::Optimistic, SharePolicy::Exclusive).await
    }

    /// The store's clock goes on while this process stands still.
    pub fn freeze(&self, seconds: i64) {
        self.ahead.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }

    /// Makes a file with this content and closes it.
    pub async fn file(&self, name: &str, content: &[u8]) -> Ino {
        let (stat, opened) = self.engine.create(ROOT, &segment(name), 0o644, WRITE, ANYBODY).await.unwrap();
        self.engine.write(opened.handle, 0, content).await.unwrap();
        self.close(opened.handle).await.unwrap();
        stat.ino
    }

    pub async fn open(&self, ino: Ino, request: OpenRequest) -> Result<HandleId, FsError> {
        self.engine.open(ino, request, ANYBODY).await.map(|opened| opened.handle)
    }

    /// What close(2) does: the flush that can fail, and the release.
    pub async fn close(&self, handle: HandleId) -> Result<(), FsError> {
        let flushed = self.engine.flush(handle, 0).await;
        self.engine.release(handle).await.unwrap();
        flushed
    }

    pub fn read(&self, handle: HandleId) -> Vec<u8> {
        let mut buffer = vec![0; 8 << 20];
        let got = self.engine.read(handle, 0, &mut buffer).unwrap();
        buffer.truncate(got);
        buffer
    }

    /// The stranger overwrites the blob.
    pub async fn put(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let body = bytes::Bytes::copy_from_slice(content).into();
        let always = Preconditions::default();
        self.store.put_blob(&at(name), body, NewContent::default(), &always).await.map(drop)
    }

    pub async fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.store.delete_blob(&at(name), DeleteSnapshots::Include, &Preconditions::default()).await
    }

    pub async fn lease(&self, name: &str, request: LeaseRequest) -> Result<(), StoreError> {
        self.store.lease_blob(&at(name), request, &Preconditions::default()).await.map(drop)
    }

    /// The stranger takes the lease.
    pub async fn take_lease(&self, name: &str) -> Result<(), StoreError> {
        let request = LeaseRequest::Acquire { proposed: STRANGER, duration: LeaseDuration::INFINITE };
        self.lease(name, request).await
    }

    pub async fn break_lease(&self, name: &str) {
        self.lease(name, LeaseRequest::Break { period: Some(0) }).await.unwrap();
    }

    pub async fn content(&self, name: &str) -> Vec<u8> {
        let reader = leasefs::store::LocalStore::reader(&*self.store, &at(name)).unwrap();
        let mut bytes = vec![0; usize::try_from(reader.size()).unwrap()];
        reader.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// The blobs whose names begin like this.
    pub async fn names(&self, prefix: &str) -> Vec<String> {
        let query = ListQuery { prefix: prefix.to_owned(), max: 100, ..ListQuery::default() };
        let page = self.store.list_blobs(&share(), &query).await.unwrap();
        let name = |item| match item {
            ListItem::Blob { name, .. } => Some(name),
            _ => None,
        };
        page.items.into_iter().filter_map(name).collect()
    }

    /// The only conflict copy of a file, and what is in it.
    pub async fn conflict_copy(&self, name: &str) -> (String, Vec<u8>) {
        let copies = self.names(&format!("{name}.conflict-here-")).await;
        assert_eq!(copies.len(), 1, "{copies:?}");
        let content = self.content(&copies[0]).await;
        (copies[0].clone(), content)
    }
}
