//! A client of the Files service that says exactly what it is told to: signed requests over one kept connection.
//!
//! It never retries, so that every test sees what the server answered.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName};
use leasefs::rest::auth::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::wire::query::Query;
use leasefs::wire::signing::AccountKey;
use leasefs::wire::signing::shared_key::{SignedParts, authorization};

#[path = "../common/ports.rs"]
mod ports;

pub use ports::free_addr;

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

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

    /// `ok`, or the code of the refusal with its status.
    pub fn verdict(&self) -> String {
        match self.status {
            200..300 => "ok".to_owned(),
            status => format!("{status} {}", self.header("x-ms-error-code")),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection to the service.
pub struct Client {
    pub addr: SocketAddr,
    line: BufReader<TcpStream>,
    key: AccountKey,
}

impl Client {
    pub fn open(addr: SocketAddr) -> Self {
        let line = TcpStream::connect(addr).expect("the service listens");
        line.set_nodelay(true).unwrap();
        line.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { addr, line: BufReader::new(line), key: AccountKey::parse(DEVELOPMENT_KEY).unwrap() }
    }

    /// One signed request. `target` is behind the account.
    pub fn call(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let head = self.head(method, target, headers, body.len());
        let line = self.line.get_mut();
        line.write_all(&[&head[..], body].concat()).expect("sent");
        self.reply(method == "HEAD")
    }

    fn head(&self, method: &str, target: &str, extra: &[(&str, &str)], length: usize) -> Vec<u8> {
        let target = format!("/{DEVELOPMENT_ACCOUNT}{target}");
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut headers = HeaderMap::new();
        let mut set = |name: &str, value: &str| {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        };
        set("host", &self.addr.to_string());
        set("x-ms-date", &httpdate::fmt_http_date(SystemTime::now()));
        set("x-ms-version", "2026-06-06");
        set("content-length", &length.to_string());
        for (name, value) in extra {
            set(name, value);
        }
        // What cannot be read cannot be signed; the server judges it first.
        let query = Query::parse(query).unwrap_or_else(|_| Query::parse("").unwrap());
        let parts = SignedParts { method, path, query: &query, headers: &headers };
        let signature = authorization(DEVELOPMENT_ACCOUNT, &self.key, &parts);
        let mut message = format!("{method} {target} HTTP/1.1\r\nAuthorization: {signature}\r\n");
        for (name, value) in &headers {
            message.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        message.push_str("\r\n");
        message.into_bytes()
    }

    fn reply(&mut self, to_head: bool) -> Reply {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            assert!(self.line.read_line(&mut text).expect("an answer") > 0, "the server hung up: {text}");
        }
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let split = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: BTreeMap<String, String> = lines.map(split).collect();
        let length = headers.get("content-length").filter(|_| !to_head && status != 204);
        let mut body = vec![0; length.map_or(0, |text| text.parse().unwrap())];
        self.line.read_exact(&mut body).expect("the whole answer");
        Reply { status, headers, body }
    }

    /// Create File.
    pub fn create(&mut self, at: &str, size: usize) -> Reply {
        self.call("PUT", at, &[("x-ms-type", "file"), ("x-ms-content-length", &size.to_string())], b"")
    }

    /// Put Range.
    pub fn put_range(&mut self, at: &str, offset: usize, bytes: &[u8]) -> Reply {
        let range = format!("bytes={offset}-{}", offset + bytes.len() - 1);
        let headers = [("x-ms-write", "update"), ("x-ms-range", range.as_str())];
        self.call("PUT", &format!("{at}?comp=range"), &headers, bytes)
    }

    /// Creates a file with this content.
    pub fn put(&mut self, at: &str, bytes: &[u8]) {
        let made = self.create(at, bytes.len());
        assert_eq!(made.verdict(), "ok", "{at}: {made:?}");
        if !bytes.is_empty() {
            let written = self.put_range(at, 0, bytes);
            assert_eq!(written.verdict(), "ok", "{at}: {written:?}");
        }
    }

    /// The URL of something of this service, for copies and renames.
    pub fn url(&self, at: &str) -> String {
        format!("http://{}/{DEVELOPMENT_ACCOUNT}{at}", self.addr)
    }
}
