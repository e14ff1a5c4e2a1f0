//! `leasefs mount URL DIR --files-addr`: programs, the Files protocol and strangers at the service meet on one share.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::Command;

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::{BlobStore, LeaseRequest, Preconditions};

use crate::client::{Client, free_addr};
use crate::machine::{Remote, Service, can_mount, until};

const STRANGER: LeaseId = LeaseId(0x5742_0000_0000_4000_8000_0000_0000_0001);

#[tokio::test(flavor = "multi_thread")]
async fn the_protocol_is_served_on_a_mount_of_a_share_elsewhere() {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let addr = free_addr();
    let mount = Remote::new(&service.container("docs"), &["--files-addr", &addr.to_string()]);
    let sdk = service.sdk("docs");
    let mut rest = Client::open(addr);
    // A range that a call puts is seen on the mount and at the service; and the other way round.
    rest.put("/docs/f", b"0123456789");
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"0123456789");
    assert_eq!(rest.put_range("/docs/f", 4, b"REST").verdict(), "ok");
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"0123REST89");
    assert_eq!(sdk.get("f").await.as_deref(), Some(&b"0123REST89"[..]));
    fs::write(mount.path("f"), b"by a program").unwrap();
    assert_eq!(rest.call("GET", "/docs/f", &[], b"").body, b"by a program");
    sdk.put("f", b"by a stranger").await.unwrap();
    assert_eq!(rest.call("GET", "/docs/f", &[], b"").body, b"by a stranger");
    let big: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    sdk.put("big", &big).await.unwrap();
    assert!(rest.call("GET", "/docs/big", &[], b"").body == big);
    // A program keeps others out: the refusal names it.
    let (held, signs) = (mount.path("f"), tempfile::tempdir().unwrap());
    let mut holder = Command::new(env!("CARGO_BIN_EXE_leasefs"))
        .args(["open", "--share", "none"])
        .arg(&held)
        .args(["--", "sh", "-c", "touch \"$0/ready\"; until [ -e \"$0/enough\" ]; do sleep 0.05; done"])
        .arg(signs.path())
        .spawn()
        .unwrap();
    until(|| signs.path().join("ready").exists());
    let refused = rest.put_range("/docs/f", 0, b"x");
    assert_eq!(refused.verdict(), "409 SharingViolation", "{}", refused.text());
    assert!(refused.text().contains("held by"), "{}", refused.text());
    fs::write(signs.path().join("enough"), b"").unwrap();
    holder.wait().unwrap();
    until(|| rest.put_range("/docs/f", 0, b"B").verdict() == "ok");
    assert_eq!(sdk.get("f").await.as_deref(), Some(&b"By a stranger"[..]));
    // Removed, and still open.
    let mut open = OpenOptions::new().append(true).open(&held).unwrap();
    fs::remove_file(&held).unwrap();
    for method in ["GET", "HEAD", "DELETE"] {
        assert_eq!(rest.call(method, "/docs/f", &[], b"").verdict(), "409 SMBDeletePending", "{method}");
    }
    open.write_all(b"!").unwrap();
    drop(open);
    until(|| rest.call("GET", "/docs/f", &[], b"").verdict() == "404 ResourceNotFound");
    assert_eq!(sdk.get("f").await, None);
    // A stranger at the service has the lease.
    sdk.put("leased", b"theirs").await.unwrap();
    let (store, at) = (&sdk.store, &sdk.at("leased"));
    let lease = |request| async move {
        store.lease_blob(at, request, &Preconditions::default()).await.unwrap();
    };
    lease(LeaseRequest::Acquire { proposed: STRANGER, duration: LeaseDuration::INFINITE }).await;
    assert_eq!(rest.put_range("/docs/leased", 0, b"x").verdict(), "412 LeaseIdMissing");
    assert_eq!(rest.call("GET", "/docs/leased", &[], b"").header("x-ms-lease-state"), "leased");
    lease(LeaseRequest::Release { id: STRANGER }).await;
    assert_eq!(rest.put_range("/docs/leased", 0, b"x").verdict(), "ok");
    // The share itself.
    let of_share = "/docs?restype=share";
    assert_eq!(rest.call("GET", of_share, &[], b"").verdict(), "ok");
    assert_eq!(rest.call("PUT", of_share, &[], b"").verdict(), "409 ShareAlreadyExists");
    assert_eq!(rest.call("DELETE", of_share, &[], b"").verdict(), "409 SharingViolation");
    assert_eq!(
        rest.call("PUT", "/docs?restype=share&comp=snapshot", &[], b"").verdict(),
        "501 APINotImplemented"
    );
    let more = rest.call("PUT", "/more?restype=share", &[], b"");
    assert_eq!(more.verdict(), "501 APINotImplemented");
    assert!(more.text().contains("elsewhere"), "{}", more.text());
    let listed = rest.call("GET", "/?comp=list", &[], b"").text();
    assert_eq!(listed.matches("<Share>").count(), 1, "{listed}");
    mount.stop();
}
