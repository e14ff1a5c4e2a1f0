//! Several accounts of one server: each has shares of its own, and no key of one opens another's.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use leasefs::wire::signing::sas::{Place, SasToken, SignedResource};
use leasefs::wire::signing::{AccountKey, Service};
use nix::sys::signal::{Signal, kill};

use crate::http_rig::{Reply, exchange, signed_by};

type Account = (&'static str, &'static str);
const ALPHA: Account = ("alpha", "YWxwaGEncyBmaXJzdCBzZWNyZXQga2V5");
const BETA: Account = ("beta", "YmV0YSdzIG9ubHkgc2VjcmV0IGtleSEh");
const GAMMA: Account = ("gamma", "Z2FtbWEncyBvbmx5IHNlY3JldCBrZXkh");

/// `leasefs serve` with both services.
struct Served {
    process: Child,
    _output: BufReader<ChildStdout>,
    blobs: SocketAddr,
    files: SocketAddr,
}

fn list(folder: &Path, accounts: &[Account]) {
    let path = folder.join("accounts.txt");
    let lines: String = accounts.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

impl Served {
    fn start(folder: &Path, accounts: &[Account]) -> Self {
        list(folder, accounts);
        let mut process = Command::new(env!("CARGO_BIN_EXE_leasefs"))
            .args(["serve", "--blob-addr", "127.0.0.1:0", "--files-addr", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"))
            .arg("--accounts")
            .arg(folder.join("accounts.txt"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut addr = |what: &str| {
            let mut line = String::new();
            while !line.contains(what) {
                line.clear();
                assert!(output.read_line(&mut line).unwrap() > 0, "it says where {what} are");
            }
            line.split('/').rev().nth(1).unwrap().parse().unwrap()
        };
        let (blobs, files) = (addr("blobs in"), addr("files in"));
        Self { process, _output: output, blobs, files }
    }

    fn signal(&self, signal: Signal) {
        kill(nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    async fn call(&self, by: Account, method: &str, at: &str, extra: &[(&str, &str)], body: &[u8]) -> Reply {
        exchange(self.files, &signed_by(by, method, &format!("/{}{at}", by.0), extra, body)).await
    }

    /// A file with these bytes.
    async fn file(&self, by: Account, at: &str, content: &str) -> Reply {
        let length = content.len().to_string();
        let headers = [("x-ms-type", "file"), ("x-ms-content-length", length.as_str())];
        self.call(by, "PUT", at, &headers, content.as_bytes()).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
        self.process.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_have_shares_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &[ALPHA, BETA]);
    for by in [ALPHA, BETA] {
        assert_eq!(served.call(by, "PUT", "/docs?restype=share", &[], b"").await.status, 201);
        assert_eq!(served.file(by, "/docs/who", by.0).await.status, 201);
    }
    assert_eq!(served.call(BETA, "PUT", "/only?restype=share", &[], b"").await.status, 201);
    for by in [ALPHA, BETA] {
        assert_eq!(served.call(by, "GET", "/docs/who", &[], b"").await.text(), by.0);
        // The blobs of an account are its files.
        let blob = signed_by(by, "GET", &format!("/{}/docs/who", by.0), &[], b"");
        assert_eq!(exchange(served.blobs, &blob).await.text(), by.0);
    }
    let shares = served.call(ALPHA, "GET", "/?comp=list", &[], b"").await.text();
    assert!(shares.contains("<Name>docs</Name>") && !shares.contains("only"), "{shares}");
    // By the host's name, too.
    let host = [("host", "beta.file.localhost")];
    let reply = exchange(served.files, &signed_by(BETA, "GET", "/docs/who", &host, b"")).await;
    assert_eq!(reply.text(), "beta");
    // No key opens another account.
    for by in [ALPHA, (BETA.0, ALPHA.1)] {
        let reply = exchange(served.files, &signed_by(by, "GET", "/beta/docs/who", &[], b"")).await;
        assert_eq!(reply.verdict(), (403, "AuthenticationFailed"), "{by:?}");
    }
    assert_eq!(
        served.call(GAMMA, "GET", "/docs/who", &[], b"").await.verdict(),
        (403, "AuthenticationFailed")
    );
    // The source of a copy crosses over only by its own right.
    let host = served.files.to_string();
    let url = format!("http://{host}/beta/docs/who");
    let copy = async |url: &str| {
        served.call(ALPHA, "PUT", "/docs/copy", &[("host", &host), ("x-ms-copy-source", url)], b"").await
    };
    assert_eq!(copy(&url).await.verdict(), (401, "CannotVerifyCopySource"));
    assert_eq!(served.call(ALPHA, "HEAD", "/docs/copy", &[], b"").await.status, 404);
    let place = Place {
        service: Service::File,
        account: "beta",
        container: Some("docs"),
        name: Some("who"),
        snapshot: None,
    };
    let token = SasToken::service(SignedResource::File, "r", "2099-01-01T00:00:00Z");
    let token = token.sign(&AccountKey::parse(BETA.1).unwrap(), &place).unwrap();
    assert_eq!(copy(&format!("{url}?{token}")).await.status, 202);
    assert_eq!(served.call(ALPHA, "GET", "/docs/copy", &[], b"").await.text(), "beta");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_up_has_the_accounts_of_shares_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &[ALPHA]);
    assert_eq!(served.call(ALPHA, "PUT", "/docs?restype=share", &[], b"").await.status, 201);
    assert_eq!(served.call(GAMMA, "PUT", "/docs?restype=share", &[], b"").await.status, 403);
    list(folder.path(), &[ALPHA, GAMMA]);
    served.signal(Signal::SIGHUP);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while served.call(GAMMA, "PUT", "/docs?restype=share", &[], b"").await.status != 201 {
        assert!(std::time::Instant::now() < deadline, "the new account is served");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(served.file(GAMMA, "/docs/a", "gamma").await.status, 201);
    list(folder.path(), &[GAMMA]);
    served.signal(Signal::SIGHUP);
    while served.call(ALPHA, "GET", "/docs?restype=share", &[], b"").await.status != 403 {
        assert!(std::time::Instant::now() < deadline, "the old account is not served");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(served.call(GAMMA, "GET", "/docs/a", &[], b"").await.text(), "gamma");
}
