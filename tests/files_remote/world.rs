//! Engines on mirrors of one service in a process of its own, and short words for what tests do with them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::requests::{Answer, Entry, FilePath, LastWrite, NewFile, Requests};
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, OpenRequest};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::mirror::{Mirror, MirrorOptions, Place};
use leasefs::store::{
    BlobProperties, BlobStore, ContainerName, LeaseRequest, Metadata, Preconditions, PublicAccess, StoreError,
};

use crate::machine::{Sdk, Service};

pub const PROGRAM: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 1 };
pub const READ: OpenRequest = OpenRequest { read: true, write: false, truncate: false, exclusive: false };
pub const WRITE: OpenRequest = OpenRequest { read: true, write: true, truncate: false, exclusive: false };

/// The container there.
pub const DOCS: &str = "docs";

/// A service with an empty container.
#[allow(dead_code)] // Not all tests have a line of their own.
pub struct There {
    pub service: Service,
    pub sdk: Sdk,
}

/// An engine on a mirror of it, and calls on it.
pub struct Here {
    pub engine: Arc<Engine>,
    pub rest: Requests,
    _folder: tempfile::TempDir,
}

pub fn docs() -> ContainerName {
    ContainerName::new(DOCS).unwrap()
}

pub fn path(text: &str) -> FilePath {
    FilePath::parse(text).unwrap()
}

pub fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

/// The error of a call that must fail.
pub fn refusal<T: std::fmt::Debug>(answer: Answer<T>) -> FsError {
    answer.unwrap_err().error
}

/// Bytes that are different everywhere.
pub fn noise(length: u32) -> Vec<u8> {
    (0..length).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

impl There {
    pub async fn start() -> Self {
        let service = Service::start();
        let sdk = service.sdk(DOCS);
        sdk.store.create_container(&docs(), Metadata::new(), PublicAccess::None).await.unwrap();
        Self { service, sdk }
    }

    pub async fn mirrored(&self) -> Here {
        self.mirrored_by(&self.sdk, Fencing::default()).await
    }

    /// On a line of its own to the service.
    pub async fn mirrored_by(&self, sdk: &Sdk, fencing: Fencing) -> Here {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let home = ContainerName::new("share").unwrap();
        let options = MirrorOptions { attr_ttl: Duration::ZERO, ..MirrorOptions::default() };
        let service: Arc<dyn BlobStore> = Arc::clone(&sdk.store) as Arc<dyn BlobStore>;
        let place = Place::new(docs(), "").unwrap();
        let mirror = Mirror::open(&store, home.clone(), service, place, options).await.unwrap();
        let config = EngineConfig {
            delete: DeleteRule::Smb,
            passthrough: false,
            owner: DefaultOwner { uid: 0, gid: 0 },
            policies: SharePolicies::default(),
            fencing: Fencing { host: "here".to_owned(), ..fencing },
            mandatory_locks: false,
        };
        let engine = Engine::start_remote(store, home, config, mirror, Duration::ZERO).await.unwrap();
        Here { rest: Requests::new(Arc::clone(&engine)), engine, _folder: folder }
    }

    pub async fn properties(&self, name: &str) -> Arc<BlobProperties> {
        let always = Preconditions::default();
        self.sdk.store.blob_properties(&self.sdk.at(name), None, &always).await.unwrap()
    }

    pub async fn lease(&self, name: &str, request: LeaseRequest) -> Result<(), StoreError> {
        let always = Preconditions::default();
        self.sdk.store.lease_blob(&self.sdk.at(name), request, &always).await.map(drop)
    }
}

impl Here {
    pub async fn put(&self, name: &str, body: &[u8]) -> Entry {
        let new =
            NewFile { size: body.len() as u64, body: Bytes::copy_from_slice(body), ..NewFile::default() };
        self.rest.create_file(&path(name), new, None).await.unwrap()
    }

    pub async fn write(&self, name: &str, offset: u64, data: &[u8]) -> Answer<Entry> {
        let data = Bytes::copy_from_slice(data);
        self.rest.put_range(&path(name), offset, data, LastWrite::Now, None).await
    }

    pub async fn get(&self, name: &str) -> Vec<u8> {
        let reading = self.rest.read(&path(name), None).await.unwrap();
        let mut bytes = vec![0; usize::try_from(reading.size()).unwrap()];
        reading.bring(0..reading.size()).await.unwrap();
        assert_eq!(reading.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    pub async fn names(&self, directory: &str) -> Vec<String> {
        let listed =
            self.rest.list(&path(directory), leasefs::fs::requests::ListRequest::default()).await.unwrap();
        listed.entries.into_iter().map(|entry| entry.name).collect()
    }

    pub async fn ino(&self, name: &str) -> Ino {
        self.engine.lookup(ROOT, &segment(name)).await.unwrap().ino
    }

    /// A program on the mount opens a file in the root.
    pub async fn open(&self, name: &str, request: OpenRequest) -> Result<HandleId, FsError> {
        let ino = self.ino(name).await;
        Ok(self.engine.open(ino, request, PROGRAM).await?.handle)
    }

    pub async fn close(&self, handle: HandleId) -> Result<(), FsError> {
        let flushed = self.engine.flush(handle, 1).await;
        self.engine.release(handle).await.unwrap();
        flushed
    }
}
