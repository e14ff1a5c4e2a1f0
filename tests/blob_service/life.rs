//! The life of a server: it finishes what runs, then ends; and what `leasefs serve` says when it cannot begin.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::rig::{Line, PATIENCE, Rig, exchange, signed, signed_head};
use leasefs::rest::server::Limits;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpStream;

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// Waits until nobody listens any more.
async fn until_refused(addr: std::net::SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(addr).await.is_ok() {
        assert!(Instant::now() < deadline, "the server still accepts connections");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_request_is_finished_before_the_end() {
    let limits = Limits { shutdown_patience: PATIENCE, ..Limits::default() };
    let mut rig = Rig::with_container(limits).await;
    let mut idle = Line::open(rig.addr).await;
    idle.send(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await;
    assert_eq!(idle.reply(false).await.unwrap().status, 200);
    let mut line = Line::open(rig.addr).await;
    line.send(&signed_head("PUT", "/box1/late", &[PUT, ("expect", "100-continue")], 6)).await;
    // The server has taken the request on when it asks for the body.
    assert_eq!(line.reply(false).await.unwrap().status, 100);
    let stopping = tokio::spawn(rig.server.take().unwrap().stop());
    until_refused(rig.addr).await;
    assert!(idle.is_over().await, "an idle connection is closed");
    line.send(b"abcdef").await;
    let reply = line.reply(false).await.unwrap();
    assert_eq!((reply.status, reply.header("connection")), (201, "close"));
    tokio::time::timeout(PATIENCE, stopping).await.expect("the server ends").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_end_does_not_keep_the_server() {
    let limits = Limits { shutdown_patience: Duration::from_millis(200), ..Limits::default() };
    let mut rig = Rig::with_container(limits).await;
    let mut line = Line::open(rig.addr).await;
    line.send(&signed_head("PUT", "/box1/late", &[PUT, ("expect", "100-continue")], 6)).await;
    assert_eq!(line.reply(false).await.unwrap().status, 100);
    let stopping = rig.server.take().unwrap().stop();
    tokio::time::timeout(PATIENCE, stopping).await.expect("the server ends");
    assert!(line.is_over().await);
}

/// `leasefs serve`, ended when dropped.
pub struct Served {
    child: Child,
    pub addr: std::net::SocketAddr,
    pub said: String,
}

pub fn serve(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasefs"));
    command.arg("serve").args(words).env_remove("LEASEFS_LOG").stdin(Stdio::null());
    command
}

impl Served {
    pub fn start(data: &Path, words: &[&str]) -> Self {
        let mut command = serve(&["--data", data.to_str().unwrap(), "--blob-addr", "127.0.0.1:0"]);
        let mut child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = format!("{}\n{}", lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
        let start = said.find("://").unwrap() + 3;
        let end = start + said[start..].find('/').unwrap();
        Self { child, addr: said[start..end].parse().unwrap(), said }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the process does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[track_caller]
pub fn refused(output: &Output, code: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_tells_how_to_reach_it_and_keeps_what_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), &[]);
    for part in [
        "devstoreaccount1",
        "connection string: DefaultEndpointsProtocol=http;",
        "BlobEndpoint=http://127.0.0.1:",
    ] {
        assert!(served.said.contains(part), "{}", served.said);
    }
    let made = exchange(served.addr, &signed("PUT", "/box1?restype=container", &[], b"")).await;
    assert_eq!(made.status, 201);
    assert_eq!(exchange(served.addr, &signed("PUT", "/box1/a", &[PUT], b"kept")).await.status, 201);
    served.signal(Signal::SIGTERM);
    assert_eq!(served.exit_code(), Some(0));
    let served = Served::start(folder.path(), &[]);
    assert_eq!(exchange(served.addr, &signed("PUT", "/box1/b", &[PUT], b"kept too")).await.status, 201);
    // Renewals and releases of timed leases are not waited for, but they are with the operating system.
    const ID: &str = "1f812371-a41d-49e6-b123-f4b542e851c5";
    let lease = async |name: &str, action: &str, extra: &[(&str, &str)]| {
        let headers = [&[("x-ms-lease-action", action)], extra].concat();
        let request = signed("PUT", &format!("/box1/{name}?comp=lease"), &headers, b"");
        exchange(served.addr, &request).await.status
    };
    for name in ["a", "b"] {
        let taken = [("x-ms-proposed-lease-id", ID), ("x-ms-lease-duration", "60")];
        assert_eq!(lease(name, "acquire", &taken).await, 201);
        assert_eq!(lease(name, "renew", &[("x-ms-lease-id", ID)]).await, 200);
    }
    assert_eq!(lease("b", "release", &[("x-ms-lease-id", ID)]).await, 200);
    // Without any warning.
    drop(served);
    let served = Served::start(folder.path(), &[]);
    for (name, state) in [("a", "leased"), ("b", "available")] {
        let head = exchange(served.addr, &signed("HEAD", &format!("/box1/{name}"), &[], b"")).await;
        assert_eq!(head.header("x-ms-lease-state"), state, "{name}");
    }
    for (name, content) in [("a", "kept"), ("b", "kept too")] {
        let read = exchange(served.addr, &signed("GET", &format!("/box1/{name}"), &[], b"")).await;
        assert_eq!(read.text(), content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_that_cannot_begin_says_why_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &[]);
    let (data, elsewhere) = (folder.path().to_str().unwrap(), other.path().to_str().unwrap());
    let addr = served.addr.to_string();
    let output = serve(&["--data", elsewhere, "--blob-addr", &addr]).output().unwrap();
    refused(&output, 1, &[&addr, "in use", "--blob-addr"]);
    let output = serve(&["--data", data, "--blob-addr", "127.0.0.1:0"]).output().unwrap();
    refused(&output, 1, &[&format!("in use by process {}", served.child.id()), "leasefs serve"]);
    let output = serve(&["--data", elsewhere, "--blob-addr", "0.0.0.0:0"]).output().unwrap();
    refused(&output, 2, &["--account", "--account-key-file"]);
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.doc"), "x").unwrap();
    let output =
        serve(&["--data", foreign.path().to_str().unwrap(), "--blob-addr", "127.0.0.1:0"]).output().unwrap();
    refused(&output, 1, &["holds no leasefs store"]);
    let output = serve(&["--data", elsewhere, "--tls-cert", "a"]).output().unwrap();
    refused(&output, 2, &["--tls-key"]);
    let words = [
        "--data",
        elsewhere,
        "--blob-addr",
        "127.0.0.1:0",
        "--tls-cert",
        "/nowhere/a",
        "--tls-key",
        "/nowhere/b",
    ];
    refused(&serve(&words).output().unwrap(), 1, &["/nowhere/a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_of_ones_own_replaces_the_well_known_one() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "c2VjcmV0IG9mIG1pbmUhIQ==\n").unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["--account", "mine", "--account-key-file", keys.to_str().unwrap()];
    let served = Served::start(&folder.path().join("data"), &words);
    assert!(served.said.contains("/mine") && !served.said.contains("c2VjcmV0"), "{}", served.said);
    let reply = exchange(served.addr, &signed("PUT", "/box1?restype=container", &[], b"")).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
    let data = folder.path().join("data2");
    let mut words = vec!["--data", data.to_str().unwrap(), "--blob-addr", "127.0.0.1:0", "--account", "mine"];
    words.extend(["--account-key-file", keys.to_str().unwrap()]);
    refused(&serve(&words).output().unwrap(), 1, &["chmod 600"]);
}
