//! A Files service in this process, over a store of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::shares::Shares;
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{DeleteRule, EngineConfig};
use leasefs::rest::auth::Accounts;
use leasefs::rest::blobs::CopySources;
use leasefs::rest::files::FilesService;
use leasefs::rest::server::{Limits, Server, ServerConfig};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};

pub use crate::http_rig::Reply;
use crate::http_rig::{exchange, signed};

/// A service with the share `docs`.
pub struct Rig {
    pub addr: SocketAddr,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub async fn new() -> Self {
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
        let shares = Shares::new(store, config);
        let service = FilesService::new(shares, Accounts::development(), CopySources::Loopback);
        let config =
            ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: None, limits: Limits::default() };
        let server = Server::start(&config, Arc::new(service)).unwrap();
        let rig = Self { addr: server.addr(), _server: server, _folder: folder };
        let made = rig.put("/docs?restype=share", &[], b"").await;
        assert_eq!(made.status, 201, "{made:?}");
        rig
    }

    /// One signed request on a connection of its own. `target` is behind the account.
    pub async fn call(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        exchange(self.addr, &signed(method, target, headers, body)).await
    }

    pub async fn put(&self, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.call("PUT", target, headers, body).await
    }

    pub async fn get(&self, target: &str, headers: &[(&str, &str)]) -> Reply {
        self.call("GET", target, headers, b"").await
    }

    pub async fn head(&self, target: &str) -> Reply {
        self.call("HEAD", target, &[], b"").await
    }

    pub async fn delete(&self, target: &str) -> Reply {
        self.call("DELETE", target, &[], b"").await
    }

    /// A file with these bytes.
    pub async fn file(&self, target: &str, content: &[u8]) {
        let length = content.len().to_string();
        let made = self.put(target, &[("x-ms-type", "file"), ("x-ms-content-length", &length)], b"").await;
        assert_eq!(made.status, 201, "{made:?}");
        if !content.is_empty() {
            let written = self.write(target, 0, content).await;
            assert_eq!(written.status, 201, "{written:?}");
        }
    }

    /// Put Range.
    pub async fn write(&self, target: &str, offset: usize, content: &[u8]) -> Reply {
        let range = format!("bytes={offset}-{}", offset + content.len() - 1);
        let headers = [("x-ms-write", "update"), ("x-ms-range", range.as_str())];
        self.put(&format!("{target}?comp=range"), &headers, content).await
    }
}
