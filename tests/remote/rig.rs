//! Engines on mirrors of one service, and a stranger who uses the service without them. All in this process.

use std::sync::Arc;
use std::time::Duration;

use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::{SharePolicies, SharePolicy};
use leasefs::fs::strategy::{Concurrency, Fencing};
use leasefs::fs::{Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, OpenRequest};
use leasefs::share::lease::LeaseId;
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::mirror::{Mirror, MirrorOptions, Place};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, DeleteSnapshots, LeaseRequest, ListItem, ListQuery,
    Metadata, NewContent, Preconditions, PublicAccess, StoreError,
};

pub const ANYBODY: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 0 };
pub const READ: OpenRequest = OpenRequest { read: true, write: false, truncate: false, exclusive: false };
pub const WRITE: OpenRequest = OpenRequest { read: true, write: true, truncate: false, exclusive: false };
pub const NEW: OpenRequest = OpenRequest { read: true, write: true, truncate: false, exclusive: true };
pub const STRANGER: LeaseId = LeaseId(0x5742_0000_0000_4000_8000_0000_0000_0001);

pub fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

/// A service.
pub struct There {
    pub store: Arc<EmbeddedStore>,
    _folder: tempfile::TempDir,
}

/// An engine on a mirror of it.
pub struct Here {
    pub engine: Arc<Engine>,
    store: Arc<EmbeddedStore>,
    folder: tempfile::TempDir,
}

fn container() -> ContainerName {
    ContainerName::new("far").unwrap()
}

pub fn at(name: &str) -> BlobPath {
    BlobPath::new(container(), BlobName::new(name).unwrap())
}

impl There {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        store.create_container(&container(), Metadata::new(), PublicAccess::None).await.unwrap();
        Self { store, _folder: folder }
    }

    /// Mounted, as it were, on another machine.
    pub async fn mirrored(&self) -> Here {
        self.mirrored_with(SharePolicy::Shared).await
    }

    pub async fn mirrored_with(&self, policy: SharePolicy) -> Here {
        self.mirrored_in(tempfile::tempdir().unwrap(), policy, Concurrency::Optimistic).await
    }

    /// With a mount whose writers take the lease and share the file all the same.
    pub async fn mirrored_pessimistic(&self) -> Here {
        let folder = tempfile::tempdir().unwrap();
        self.mirrored_in(folder, SharePolicy::Shared, Concurrency::Pessimistic).await
    }

    async fn mirrored_in(
        &self,
        folder: tempfile::TempDir,
        policy: SharePolicy,
        concurrency: Concurrency,
    ) -> Here {
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let home = ContainerName::new("share").unwrap();
        let options = MirrorOptions { attr_ttl: Duration::ZERO, ..MirrorOptions::default() };
        let ttl = options.attr_ttl;
        let service: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(&self.store);
        let place = Place::new(container(), "").unwrap();
        let mirror = Mirror::open(&store, home.clone(), service, place, options).await.unwrap();
        let config = EngineConfig {
            delete: DeleteRule::Smb,
            passthrough: false,
            owner: DefaultOwner { uid: 0, gid: 0 },
            policies: SharePolicies::new(Vec::new(), policy),
            mandatory_locks: false,
            fencing: Fencing { host: "here".to_owned(), concurrency, ..Fencing::default() },
        };
        let blobs: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(&store);
        let engine = Engine::start_remote(blobs, home, config, mirror, ttl).await.unwrap();
        Here { engine, store, folder }
    }

    /// The same machine after a restart.
    pub async fn again(&self, here: Here) -> Here {
        let Here { engine, store, folder } = here;
        engine.drain(&|_| {}).await.unwrap();
        engine.release_leases().await;
        drop(engine);
        store.close().unwrap();
        drop(store);
        self.mirrored_in(folder, SharePolicy::Shared, Concurrency::Optimistic).await
    }

    pub async fn put(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let body = bytes::Bytes::copy_from_slice(content).into();
        self.store.put_blob(&at(name), body, NewContent::default(), &Preconditions::default()).await.map(drop)
    }

    pub async fn get(&self, name: &str) -> Option<Vec<u8>> {
        match self.store.get_blob(&at(name), None, None, &Preconditions::default()).await {
            Ok(blob) => Some(blob.body.to_vec()),
            Err(StoreError::BlobNotFound(_)) => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    pub async fn metadata(&self, name: &str) -> Metadata {
        let always = Preconditions::default();
        self.store.blob_properties(&at(name), None, &always).await.unwrap().metadata.clone()
    }

    pub async fn delete(&self, name: &str) {
        let always = Preconditions::default();
        self.store.delete_blob(&at(name), DeleteSnapshots::Include, &always).await.unwrap();
    }

    pub async fn lease(&self, name: &str, request: LeaseRequest) -> Result<(), StoreError> {
        self.store.lease_blob(&at(name), request, &Preconditions::default()).await.map(drop)
    }

    /// All names, without those that leasefs keeps for itself.
    pub async fn names(&self) -> Vec<String> {
        let query = ListQuery { max: 5000, ..ListQuery::default() };
        let page = self.store.list_blobs(&container(), &query).await.unwrap();
        let name = |item: ListItem| match item {
            ListItem::Blob { name, .. } => Some(name),
            _ => None,
        };
        page.items.into_iter().filter_map(name).filter(|name| !name.starts_with(".leasefs/")).collect()
    }
}

impl Here {
    /// Makes a file with this content and closes it.
    pub async fn file(&self, name: &str, content: &[u8]) -> Ino {
        let (stat, opened) = self.engine.create(ROOT, &segment(name), 0o644, WRITE, ANYBODY).await.unwrap();
        self.engine.write(opened.handle, 0, content).await.unwrap();
        self.close(opened.handle).await.unwrap();
        stat.ino
    }

    pub async fn lookup(&self, path: &str) -> Result<Ino, FsError> {
        let mut at = ROOT;
        for name in path.split('/') {
            at = self.engine.lookup(at, &segment(name)).await?.ino;
        }
        Ok(at)
    }

    pub async fn open(&self, path: &str, request: OpenRequest) -> Result<HandleId, FsError> {
        let ino = self.lookup(path).await?;
        self.engine.open(ino, request, ANYBODY).await.map(|opened| opened.handle)
    }

    pub async fn read_at(&self, handle: HandleId, offset: u64, length: usize) -> Result<Vec<u8>, FsError> {
        let mut buffer = vec![0; length];
        match self.engine.read(handle, offset, &mut buffer) {
            Err(FsError::NotHere(_)) => self.engine.read_elsewhere(handle, offset, length).await,
            got => {
                buffer.truncate(got?);
                Ok(buffer)
            }
        }
    }

    /// Everything in the file, through an open of its own.
    pub async fn cat(&self, path: &str) -> Result<Vec<u8>, FsError> {
        let handle = self.open(path, READ).await?;
        let read = self.read_at(handle, 0, 16 << 20).await;
        self.close(handle).await?;
        read
    }

    /// What close(2) does: the flush that can fail, and the release.
    pub async fn close(&self, handle: HandleId) -> Result<(), FsError> {
        let flushed = self.engine.flush(handle, 0).await;
        self.engine.release(handle).await.unwrap();
        flushed
    }

    /// The names in a directory.
    pub async fn list(&self, directory: Ino) -> Vec<String> {
        let handle = self.engine.open_directory(directory);
        let mut names = Vec::new();
        let take = |_, entry: &leasefs::fs::DirectoryEntry| {
            names.push(entry.segment.file_name().to_string());
            true
        };
        self.engine.read_directory(handle, 0, take).await.unwrap();
        self.engine.release_directory(handle);
        names
    }
}
