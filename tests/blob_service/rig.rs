//! A blob service in this process, and a client that says exactly what it is told to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};
use leasefs::rest::auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::rest::blobs::{BlobService, CopySources};
use leasefs::rest::server::{Limits, Server, ServerConfig};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::wire::query::Query;
use leasefs::wire::signing::AccountKey;
use leasefs::wire::signing::shared_key::{SignedParts, authorization};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A service with a store of its own.
pub struct Rig {
    pub server: Option<Server>,
    pub addr: SocketAddr,
    pub store: Arc<EmbeddedStore>,
    _folder: tempfile::TempDir,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Status and code.
    pub fn verdict(&self) -> (u16, &str) {
        (self.status, self.header("x-ms-error-code"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Rig {
    /// With the usual limits.
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let service = BlobService::new(store.durable_user(), Accounts::development(), CopySources::Loopback);
        let config = ServerConfig { addr: "127.0.0.1:0".parse().unwrap(), tls: None, limits };
        let server = Server::start(&config, Arc::new(service)).unwrap();
        Self { addr: server.addr(), server: Some(server), store, _folder: folder }
    }

    /// A service with the container `box1`.
    pub async fn with_container(limits: Limits) -> Self {
        let rig = Self::with(limits);
        let made = rig.call("PUT", "/box1?restype=container", &[], b"").await;
        assert_eq!(made.status, 201, "{made:?}");
        rig
    }

    /// One signed request on a connection of its own. `target` is behind the account.
    pub async fn call(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        exchange(self.addr, &signed(method, target, headers, body)).await
    }

    /// Sends bytes, and reads the first answer to them.
    pub async fn send(&self, bytes: &[u8]) -> Reply {
        exchange(self.addr, bytes).await
    }
}

/// The bytes of a request signed by the development account.
pub fn signed(method: &str, target: &str, extra: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut message = signed_head(method, target, extra, body.len());
    message.extend_from_slice(body);
    message
}

/// The head of such a request; the body has `length` bytes.
pub fn signed_head(method: &str, target: &str, extra: &[(&str, &str)], length: usize) -> Vec<u8> {
    let target = format!("/{DEVELOPMENT_ACCOUNT}{target}");
    head_signed_by(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, method, &target, extra, length)
}

/// A request for any target, signed by any account.
pub fn signed_by(
    (account, key): (&str, &str),
    method: &str,
    target: &str,
    extra: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut message = head_signed_by(account, key, method, target, extra, body.len());
    message.extend_from_slice(body);
    message
}

fn head_signed_by(
    account: &str,
    key: &str,
    method: &str,
    target: &str,
    extra: &[(&str, &str)],
    length: usize,
) -> Vec<u8> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = HeaderMap::new();
    let mut set = |name: &str, value: &str| {
        headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    };
    set("host", "127.0.0.1");
    set("x-ms-date", &httpdate::fmt_http_date(SystemTime::now()));
    set("x-ms-version", "2026-06-06");
    set("content-length", &length.to_string());
    for (name, value) in extra {
        set(name, value);
    }
    let query = Query::parse(query).unwrap();
    let key = AccountKey::parse(key).unwrap();
    let parts = SignedParts { method, path, query: &query, headers: &headers };
    let signature = authorization(account, &key, &parts);
    let mut message = format!("{method} {target} HTTP/1.1\r\nAuthorization: {signature}\r\n");
    for (name, value) in &headers {
        message.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    message.push_str("\r\n");
    message.into_bytes()
}

/// Connects, sends, reads one answer.
pub async fn exchange(addr: SocketAddr, bytes: &[u8]) -> Reply {
    let mut line = Line::open(addr).await;
    line.send(bytes).await;
    let head = bytes.starts_with(b"HEAD ");
    line.reply(head).await.expect("an answer")
}

/// A connection.
pub struct Line {
    socket: TcpStream,
    /// Read and not yet used.
    rest: Vec<u8>,
}

impl Line {
    pub async fn open(addr: SocketAddr) -> Self {
        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(addr)).await;
        Self { socket: connected.expect("connected in time").unwrap(), rest: Vec::new() }
    }

    /// Sends what the server still wants to hear.
    pub async fn send(&mut self, bytes: &[u8]) {
        let sent = tokio::time::timeout(PATIENCE, self.socket.write_all(bytes)).await;
        sent.expect("sent in time").ok();
    }

    /// Says that nothing more will come.
    pub async fn finish(&mut self) {
        self.socket.shutdown().await.ok();
    }

    /// The next answer; nothing if the server hung up instead.
    pub async fn reply(&mut self, to_head: bool) -> Option<Reply> {
        let end = loop {
            if let Some(at) = find(&self.rest, b"\r\n\r\n") {
                break at;
            }
            if !self.more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.rest[..end].to_vec()).unwrap();
        self.rest.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let bodiless = to_head || status == 304 || status < 200;
        let length = headers.get("content-length").filter(|_| !bodiless);
        let length = length.map_or(0, |text| text.parse().unwrap());
        while self.rest.len() < length {
            assert!(self.more().await, "the answer is cut short");
        }
        let body = self.rest.drain(..length).collect();
        Some(Reply { status, headers, body })
    }

    async fn more(&mut self) -> bool {
        self.rest.reserve(64 * 1024);
        let read = tokio::time::timeout(PATIENCE, self.socket.read_buf(&mut self.rest)).await;
        // A connection that is reset has ended too.
        read.expect("something, or the end, in time").is_ok_and(|count| count > 0)
    }

    /// Whether the server has hung up without a further word.
    pub async fn is_over(&mut self) -> bool {
        !self.more().await
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
