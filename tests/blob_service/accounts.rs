//! Several accounts of one server: each has containers of its own, and no key or signed URL of one opens another.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::life::{Served, refused, serve};
use crate::rig::{PATIENCE, Reply, exchange, signed, signed_by};
use leasefs::wire::signing::sas::{Place, SasToken, SignedResource};
use leasefs::wire::signing::{AccountKey, Service};
use nix::sys::signal::Signal;

type Account = (&'static str, &'static str);
const ALPHA: Account = ("alpha", "YWxwaGEncyBmaXJzdCBzZWNyZXQga2V5");
const BETA: Account = ("beta", "YmV0YSdzIG9ubHkgc2VjcmV0IGtleSEh");
const NEW_KEY: Account = ("beta", "YmV0YSdzIG5ldyBzZWNyZXQga2V5ISEh");
const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// A file with accounts that only its owner can read.
fn listed(folder: &Path, accounts: &[Account]) -> PathBuf {
    let path = folder.join("accounts.txt");
    let lines: String = accounts.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn start(folder: &Path, accounts: &[Account]) -> Served {
    let file = listed(folder, accounts);
    Served::start(&folder.join("data"), &["--accounts", file.to_str().unwrap()])
}

/// A request to the account's own part of the server.
async fn call(
    addr: SocketAddr,
    by: Account,
    method: &str,
    target: &str,
    extra: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let target = format!("/{}{target}", by.0);
    exchange(addr, &signed_by(by, method, &target, extra, body)).await
}

async fn put_in_both(addr: SocketAddr) {
    for by in [ALPHA, BETA] {
        assert_eq!(call(addr, by, "PUT", "/box1?restype=container", &[], b"").await.status, 201, "{by:?}");
        let put = call(addr, by, "PUT", "/box1/file", &[PUT, ("x-ms-meta-of", by.0)], by.0.as_bytes()).await;
        assert_eq!(put.status, 201, "{put:?}");
    }
}

/// A signed URL's query for reading that blob.
fn sas(by: Account, name: &str) -> String {
    let place = Place {
        service: Service::Blob,
        account: by.0,
        container: Some("box1"),
        name: Some(name),
        snapshot: None,
    };
    let key = AccountKey::parse(by.1).unwrap();
    SasToken::service(SignedResource::Blob, "r", "2099-01-01T00:00:00Z").sign(&key, &place).unwrap()
}

fn plain(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_have_containers_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = start(folder.path(), &[ALPHA, BETA]);
    assert!(!served.said.contains(ALPHA.1) && served.said.contains("accounts.txt"), "{}", served.said);
    put_in_both(served.addr).await;
    assert_eq!(call(served.addr, BETA, "PUT", "/only?restype=container", &[], b"").await.status, 201);
    let list = call(served.addr, ALPHA, "GET", "/?comp=list", &[], b"").await.text();
    assert!(list.contains("<Name>box1</Name>") && !list.contains("only"), "{list}");
    // The settings of the service are an account's own, too.
    let rules = b"<StorageServiceProperties><DefaultServiceVersion>2021-08-06</DefaultServiceVersion>\
                  </StorageServiceProperties>";
    let settings = "/?restype=service&comp=properties";
    assert_eq!(call(served.addr, BETA, "PUT", settings, &[], rules).await.status, 202);
    assert!(call(served.addr, BETA, "GET", settings, &[], b"").await.text().contains("2021-08-06"));
    assert!(!call(served.addr, ALPHA, "GET", settings, &[], b"").await.text().contains("2021-08-06"));
    assert_eq!(call(served.addr, ALPHA, "DELETE", "/box1?restype=container", &[], b"").await.status, 202);
    served.signal(Signal::SIGTERM);
    assert_eq!(served.exit_code(), Some(0));
    // Whoever comes first in the file: the data stays where it is.
    let served = start(folder.path(), &[BETA, ALPHA]);
    assert_eq!(call(served.addr, BETA, "GET", "/box1/file", &[], b"").await.text(), "beta");
    assert_eq!(call(served.addr, ALPHA, "GET", "/box1/file", &[], b"").await.status, 404);
    drop(served);
    let data = folder.path().join("data");
    let checked = Command::new(env!("CARGO_BIN_EXE_leasefs")).arg("check").arg("--data").arg(&data).output();
    let said = String::from_utf8(checked.unwrap().stdout).unwrap();
    assert_eq!(said.matches("is clean").count(), 2, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_right_of_one_account_opens_another() {
    let folder = tempfile::tempdir().unwrap();
    let served = start(folder.path(), &[ALPHA, BETA]);
    let addr = served.addr;
    put_in_both(addr).await;
    // The key, under its own name and under the other's.
    for by in [ALPHA, (BETA.0, ALPHA.1)] {
        let reply = exchange(addr, &signed_by(by, "GET", "/beta/box1/file", &[], b"")).await;
        assert_eq!(reply.verdict(), (403, "AuthenticationFailed"), "{by:?}");
    }
    let reply = exchange(addr, &signed_by(("gamma", ALPHA.1), "GET", "/gamma/box1/file", &[], b"")).await;
    assert_eq!(reply.verdict(), (403, "AuthenticationFailed"));
    // A signed URL.
    let own = exchange(addr, &plain(&format!("/alpha/box1/file?{}", sas(ALPHA, "file")))).await;
    assert_eq!((own.status, own.text()), (200, "alpha".to_owned()));
    let other = exchange(addr, &plain(&format!("/beta/box1/file?{}", sas(ALPHA, "file")))).await;
    assert_eq!(other.verdict(), (403, "AuthenticationFailed"));
    // What is public in one account is not so in another, or in none.
    let public = [("x-ms-blob-public-access", "container")];
    let acl = "/box1?restype=container&comp=acl";
    assert_eq!(call(addr, ALPHA, "PUT", acl, &public, b"").await.status, 200);
    assert_eq!(exchange(addr, &plain("/alpha/box1/file")).await.status, 200);
    assert_eq!(exchange(addr, &plain("/beta/box1/file")).await.status, 401);
    assert_eq!(exchange(addr, &plain("/gamma/box1/file")).await.status, 401);
    // A batch sent to one account reaches no other.
    let part = "DELETE /beta/box1/file HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
    let body = format!("--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n{part}\r\n--b--\r\n");
    let kind = [("content-type", "multipart/mixed; boundary=b")];
    let batch = call(addr, ALPHA, "POST", "/?comp=batch", &kind, body.as_bytes()).await;
    assert!(!batch.text().contains("HTTP/1.1 202"), "{}", batch.text());
    assert_eq!(call(addr, BETA, "GET", "/box1/file", &[], b"").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_from_another_account_needs_a_right_to_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let served = start(folder.path(), &[ALPHA, BETA]);
    let addr = served.addr;
    put_in_both(addr).await;
    let source = "http://127.0.0.1/beta/box1/file";
    let copy = |from: String| async move {
        call(addr, ALPHA, "PUT", "/box1/copy", &[("x-ms-copy-source", &from)], b"").await
    };
    assert_eq!(copy(source.to_owned()).await.verdict(), (401, "CannotVerifyCopySource"));
    let wrong = copy(format!("{source}?{}", sas(ALPHA, "file"))).await;
    assert_eq!(wrong.verdict(), (403, "CannotVerifyCopySource"));
    assert_eq!(call(addr, ALPHA, "GET", "/box1/copy", &[], b"").await.status, 404);
    assert_eq!(copy(format!("{source}?{}", sas(BETA, "file"))).await.status, 202);
    let read = call(addr, ALPHA, "GET", "/box1/copy", &[], b"").await;
    assert_eq!((read.text().as_str(), read.header("x-ms-meta-of")), ("beta", "beta"));
    assert_eq!(read.header("x-ms-copy-source"), source);
    // Also while the client waits, and of a block.
    let sas = format!("{source}?{}", sas(BETA, "file"));
    let waiting = [("x-ms-copy-source", sas.as_str()), ("x-ms-requires-sync", "true")];
    assert_eq!(call(addr, ALPHA, "PUT", "/box1/copy2", &waiting, b"").await.status, 202);
    let block = "/box1/copy3?comp=block&blockid=YQ%3D%3D";
    assert_eq!(call(addr, ALPHA, "PUT", block, &waiting[..1], b"").await.status, 201);
    assert_eq!(call(addr, ALPHA, "GET", "/box1/copy2", &[], b"").await.text(), "beta");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_served_before_belongs_to_the_first_account() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut served = Served::start(&data, &[]);
    assert_eq!(exchange(served.addr, &signed("PUT", "/old?restype=container", &[], b"")).await.status, 201);
    served.signal(Signal::SIGTERM);
    assert_eq!(served.exit_code(), Some(0));
    let served = start(folder.path(), &[ALPHA, BETA]);
    assert_eq!(call(served.addr, ALPHA, "GET", "/old?restype=container", &[], b"").await.status, 200);
    assert_eq!(call(served.addr, BETA, "GET", "/old?restype=container", &[], b"").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_up_has_the_accounts_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let served = start(folder.path(), &[ALPHA]);
    let addr = served.addr;
    assert_eq!(call(addr, ALPHA, "PUT", "/box1?restype=container", &[], b"").await.status, 201);
    assert_eq!(call(addr, BETA, "PUT", "/box1?restype=container", &[], b"").await.status, 403);
    let list = "/?comp=list";
    listed(folder.path(), &[ALPHA, BETA]);
    served.signal(Signal::SIGHUP);
    until(addr, BETA, list, 200).await;
    // A new key replaces the old one, and who is not in the file is out.
    listed(folder.path(), &[NEW_KEY]);
    served.signal(Signal::SIGHUP);
    until(addr, NEW_KEY, list, 200).await;
    assert_eq!(call(addr, BETA, "GET", list, &[], b"").await.status, 403);
    assert_eq!(call(addr, ALPHA, "GET", list, &[], b"").await.status, 403);
    // A file that cannot be used changes nothing; the next one is read all the same.
    std::fs::write(folder.path().join("accounts.txt"), "beta\n").unwrap();
    served.signal(Signal::SIGHUP);
    listed(folder.path(), &[ALPHA, NEW_KEY]);
    served.signal(Signal::SIGHUP);
    until(addr, ALPHA, "/box1?restype=container", 200).await;
    assert_eq!(call(addr, NEW_KEY, "GET", list, &[], b"").await.status, 200);
}

/// Waits until the account gets that answer.
async fn until(addr: SocketAddr, by: Account, target: &str, status: u16) {
    let deadline = Instant::now() + PATIENCE;
    while call(addr, by, "GET", target, &[], b"").await.status != status {
        assert!(Instant::now() < deadline, "{by:?} does not get {status}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_file_of_accounts_that_cannot_be_used_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = listed(folder.path(), &[ALPHA, BETA, ALPHA]);
    let (file, data) = (file.to_str().unwrap(), folder.path().join("data"));
    let words = |addr: &'static str, rest: &[&'static str]| {
        let mut command = serve(&["--data", data.to_str().unwrap(), "--blob-addr", addr, "--accounts", file]);
        command.args(rest).output().unwrap()
    };
    refused(&words("127.0.0.1:0", &[]), 1, &[file, "line 3", "twice"]);
    refused(&words("127.0.0.1:0", &["--account", "a"]), 2, &["--accounts replaces"]);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&words("127.0.0.1:0", &[]), 1, &[file, "chmod 600"]);
    let known = leasefs::rest::auth::DEVELOPMENT_KEY;
    listed(folder.path(), &[("alpha", known)]);
    refused(&words("0.0.0.0:0", &[]), 1, &["known to everybody"]);
}
