//! An engine on a store in a temporary folder, and short words for what tests do with it.

use std::sync::Arc;

use bytes::Bytes;
use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::requests::{Answer, Entry, FilePath, LastWrite, NewFile, Requests};
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, OpenRequest};
use leasefs::store::ContainerName;
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};

pub(crate) const CALLER: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 1 };
pub(crate) const READ: OpenRequest =
    OpenRequest { read: true, write: false, truncate: false, exclusive: false };
pub(crate) const WRITE: OpenRequest =
    OpenRequest { read: true, write: true, truncate: false, exclusive: false };

pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) rest: Requests,
    pub(crate) _store: Arc<EmbeddedStore>,
    _folder: tempfile::TempDir,
}

pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        delete: DeleteRule::Smb,
        passthrough: false,
        owner: DefaultOwner { uid: 0, gid: 0 },
        policies: SharePolicies::default(),
        fencing: Fencing::default(),
        mandatory_locks: false,
    }
}

pub(crate) fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

pub(crate) async fn start() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let engine = Engine::start(Arc::<EmbeddedStore>::clone(&store), share(), config()).await.unwrap();
    World { rest: Requests::new(Arc::clone(&engine)), engine, _store: store, _folder: folder }
}

pub(crate) fn path(text: &str) -> FilePath {
    FilePath::parse(text).unwrap()
}

pub(crate) fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

/// The error of a call that must fail.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Answer<T>) -> FsError {
    answer.unwrap_err().error
}

impl World {
    pub(crate) async fn put(&self, name: &str, body: &[u8]) -> Entry {
        let new =
            NewFile { size: body.len() as u64, body: Bytes::copy_from_slice(body), ..NewFile::default() };
        self.rest.create_file(&path(name), new, None).await.unwrap()
    }

    pub(crate) async fn write(&self, name: &str, offset: u64, data: &[u8]) -> Answer<Entry> {
        let data = Bytes::copy_from_slice(data);
        self.rest.put_range(&path(name), offset, data, LastWrite::Now, None).await
    }

    pub(crate) async fn get(&self, name: &str) -> Vec<u8> {
        let reading = self.rest.read(&path(name), None).await.unwrap();
        let mut bytes = vec![0; usize::try_from(reading.size()).unwrap()];
        assert_eq!(reading.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    pub(crate) async fn ino(&self, name: &str) -> Ino {
        self.engine.lookup(ROOT, &segment(name)).await.unwrap().ino
    }

    /// A program on the mount opens a file in the root.
    pub(crate) async fn open(&self, name: &str, request: OpenRequest) -> HandleId {
        let ino = self.ino(name).await;
        self.engine.open(ino, request, CALLER).await.unwrap().handle
    }

    pub(crate) async fn close(&self, handle: HandleId) {
        self.engine.flush(handle, 1).await.unwrap();
        self.engine.release(handle).await.unwrap();
    }
}
