//! The Files service beside a mount: one file, one truth, one open table.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::common::{Mount, errno};
use crate::http_rig::{Line, Reply, exchange, signed};
use crate::ports::free_addr;

async fn call(addr: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    exchange(addr, &signed(method, &format!("/share{target}"), headers, body)).await
}

async fn write(addr: SocketAddr, target: &str, body: &[u8]) -> Reply {
    let range = format!("bytes=0-{}", body.len() - 1);
    let headers = [("x-ms-write", "update"), ("x-ms-range", range.as_str())];
    call(addr, "PUT", &format!("{target}?comp=range"), &headers, body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_and_its_files_endpoint_are_one_truth() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--files-addr", &addr.to_string()]) else { return };
    fs::write(mount.path("from-mount"), "one").unwrap();
    assert_eq!(call(addr, "GET", "/from-mount", &[], b"").await.text(), "one");
    // What a program has written and not closed is read, too.
    let open = File::options().write(true).open(mount.path("from-mount")).unwrap();
    open.write_at(b"ONE", 0).unwrap();
    assert_eq!(call(addr, "GET", "/from-mount", &[], b"").await.text(), "ONE");
    drop(open);
    // What the kernel already knows is corrected before the answer.
    assert_eq!(fs::read_to_string(mount.path("from-mount")).unwrap(), "ONE");
    assert_eq!(write(addr, "/from-mount", b"two").await.status, 201);
    assert_eq!(fs::read_to_string(mount.path("from-mount")).unwrap(), "two");
    let new = [("x-ms-type", "file"), ("x-ms-content-length", "5")];
    assert_eq!(errno(fs::metadata(mount.path("from-rest"))), libc::ENOENT);
    assert_eq!(call(addr, "PUT", "/from-rest", &new, b"").await.status, 201);
    assert_eq!(fs::metadata(mount.path("from-rest")).unwrap().len(), 5);
    let read_only = [("x-ms-file-attributes", "ReadOnly")];
    assert_eq!(call(addr, "PUT", "/from-rest?comp=properties", &read_only, b"").await.status, 200);
    assert!(fs::metadata(mount.path("from-rest")).unwrap().permissions().readonly());
    assert_eq!(call(addr, "DELETE", "/from-mount", &[], b"").await.status, 202);
    assert_eq!(errno(fs::metadata(mount.path("from-mount"))), libc::ENOENT);
    mount.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_shares_nothing_keeps_rest_writers_out_and_is_named() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--files-addr", &addr.to_string(), "--share-policy", "exclusive"]) else {
        return;
    };
    fs::write(mount.path("f"), "mine").unwrap();
    let open = File::options().write(true).open(mount.path("f")).unwrap();
    let refused = write(addr, "/f", b"ours").await;
    assert_eq!(refused.verdict(), (409, "SharingViolation"));
    assert!(refused.text().contains(&std::process::id().to_string()), "{}", refused.text());
    assert_eq!(call(addr, "GET", "/f", &[], b"").await.verdict(), (409, "SharingViolation"));
    assert_eq!(call(addr, "DELETE", "/f", &[], b"").await.verdict(), (409, "SharingViolation"));
    assert_eq!(call(addr, "HEAD", "/f", &[], b"").await.status, 200);
    let handles = call(addr, "GET", "?comp=listhandles", &[("x-ms-recursive", "true")], b"").await.text();
    assert!(
        handles.contains("<Path>f</Path>") && handles.contains("<AccessRight>Write</AccessRight>"),
        "{handles}"
    );
    let closed = call(addr, "PUT", "/f?comp=forceclosehandles", &[("x-ms-handle-id", "*")], b"").await;
    assert_eq!(closed.header("x-ms-number-of-handles-closed"), "1", "{closed:?}");
    assert_eq!(write(addr, "/f", b"ours").await.status, 201);
    drop(open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_pending_file_is_told_as_such_by_every_operation() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--files-addr", &addr.to_string()]) else { return };
    fs::write(mount.path("f"), "going").unwrap();
    let open = File::open(mount.path("f")).unwrap();
    fs::remove_file(mount.path("f")).unwrap();
    let pending = (409, "SMBDeletePending");
    for (method, target) in [
        ("GET", "/f"),
        ("HEAD", "/f"),
        ("DELETE", "/f"),
        ("GET", "/f?comp=metadata"),
        ("GET", "/f?comp=rangelist"),
    ] {
        assert_eq!(call(addr, method, target, &[], b"").await.verdict(), pending, "{method} {target}");
    }
    assert_eq!(write(addr, "/f", b"x").await.verdict(), pending);
    let new = [("x-ms-type", "file"), ("x-ms-content-length", "5")];
    assert_eq!(call(addr, "PUT", "/f", &new, b"").await.verdict(), pending);
    let list = call(addr, "GET", "?restype=directory&comp=list", &[], b"").await.text();
    assert!(!list.contains("<Name>f</Name>"), "{list}");
    drop(open);
    let gone = async || call(addr, "HEAD", "/f", &[], b"").await.verdict() == (404, "ResourceNotFound");
    let deadline = std::time::Instant::now() + crate::http_rig::PATIENCE;
    while !gone().await {
        assert!(std::time::Instant::now() < deadline, "the file stays pending");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_over_rest_keeps_mounted_writers_out() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--files-addr", &addr.to_string()]) else { return };
    fs::write(mount.path("f"), "leased").unwrap();
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    // The close of the program above may come late.
    let deadline = std::time::Instant::now() + crate::http_rig::PATIENCE;
    let leased = loop {
        let reply = call(addr, "PUT", "/f?comp=lease", &acquire, b"").await;
        if reply.status == 201 {
            break reply;
        }
        assert!(std::time::Instant::now() < deadline, "{reply:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(errno(File::options().write(true).open(mount.path("f"))), libc::EBUSY);
    assert_eq!(fs::read_to_string(mount.path("f")).unwrap(), "leased");
    let release = [("x-ms-lease-action", "release"), ("x-ms-lease-id", leased.header("x-ms-lease-id"))];
    assert_eq!(call(addr, "PUT", "/f?comp=lease", &release, b"").await.status, 200);
    fs::write(mount.path("f"), "free").unwrap();
}

/// A client that goes away does not stop its call in the middle: what programs see of it is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_client_goes_away_is_done_to_its_end() {
    const FILES: usize = 60;
    const SIZE: usize = 100_000;
    for path in crate::common::BOTH_PATHS {
        let addr = free_addr().to_string();
        let options: Vec<&str> = ["--files-addr", &addr].iter().chain(path).copied().collect();
        let Some(mount) = Mount::new(&options) else { return };
        let addr: SocketAddr = addr.parse().unwrap();
        let name = |file: usize| format!("f{file}");
        for file in 0..FILES {
            fs::write(mount.path(&name(file)), vec![1; SIZE]).unwrap();
        }
        let range = format!("bytes=0-{}", SIZE / 2 - 1);
        let headers = [("x-ms-write", "update"), ("x-ms-range", range.as_str())];
        for file in 0..FILES {
            let target = format!("/share/{}?comp=range", name(file));
            let mut line = Line::open(addr).await;
            line.send(&signed("PUT", &target, &headers, &vec![2; SIZE / 2])).await;
            // From at once to about when it would have been answered.
            tokio::time::sleep(Duration::from_micros(file as u64 * 100)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let read = || (0..FILES).map(|file| fs::read(mount.path(&name(file))).unwrap()).collect::<Vec<_>>();
        let seen = read();
        assert!(seen.iter().any(|bytes| bytes[0] == 2), "nothing was written at all");
        mount.kill();
        mount.start();
        let stored = read();
        for (file, (seen, stored)) in seen.iter().zip(&stored).enumerate() {
            assert!(seen == stored, "{path:?}: what was seen of file {file} is not what is stored");
        }
        mount.check();
    }
}
