//! Programs on a mount and clients of its blob service want the same file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{BOTH_PATHS, Mount, errno};
use crate::ports::free_addr;
use crate::rig::{PATIENCE, Reply, exchange, signed};

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

struct Both {
    mount: Mount,
    addr: std::net::SocketAddr,
}

impl Both {
    fn new(path: &[&str], options: &[&str]) -> Option<Self> {
        let addr = free_addr();
        let listen = addr.to_string();
        let all = [path, options, &["--blob-addr", &listen]].concat();
        Some(Self { mount: Mount::new(&all)?, addr })
    }

    async fn put(&self, name: &str, content: &str) -> Reply {
        exchange(self.addr, &signed("PUT", &format!("/share/{name}"), &[PUT], content.as_bytes())).await
    }

    async fn get(&self, name: &str) -> String {
        exchange(self.addr, &signed("GET", &format!("/share/{name}"), &[], b"")).await.text()
    }

    async fn lease(&self, name: &str, headers: &[(&str, &str)]) -> Reply {
        exchange(self.addr, &signed("PUT", &format!("/share/{name}?comp=lease"), headers, b"")).await
    }

    /// The kernel tells of a close after close(2) has returned.
    async fn until_put(&self, name: &str, content: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.put(name, content).await.status != 201 {
            assert!(Instant::now() < deadline, "the lease is not given back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn writer(&self, name: &str) -> std::io::Result<File> {
        OpenOptions::new().write(true).open(self.mount.path(name))
    }

    fn conflict_copies(&self) -> Vec<String> {
        let names = fs::read_dir(self.mount.dir()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.contains(".conflict-")).collect()
    }
}

/// What close(2) says.
fn close(file: File) -> i32 {
    match nix::unistd::close(file.into_raw_fd()) {
        Ok(()) => 0,
        Err(error) => error as i32,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_open_keeps_the_blob_services_writers_out() {
    for path in BOTH_PATHS {
        let Some(both) = Both::new(path, &["--share-policy", "exclusive"]) else { return };
        fs::write(both.mount.path("a"), "one").unwrap();
        let mut file = both.writer("a").unwrap();
        assert_eq!(both.put("a", "theirs").await.verdict(), (412, "LeaseIdMissing"));
        assert_eq!(both.get("a").await, "one", "reads go on");
        file.write_all(b"two").unwrap();
        assert_eq!(close(file), 0);
        assert_eq!(both.get("a").await, "two");
        both.until_put("a", "theirs").await;

        let held = both.writer("a").unwrap();
        let mut holder = Command::new("sleep").arg("600").stdout(Stdio::from(held)).spawn().unwrap();
        assert_eq!(both.put("a", "more").await.verdict(), (412, "LeaseIdMissing"));
        holder.kill().unwrap();
        holder.wait().unwrap();
        both.until_put("a", "more").await;
        both.mount.check();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_loses_against_the_blob_service_is_told_and_loses_nothing() {
    for path in BOTH_PATHS {
        let Some(both) = Both::new(path, &[]) else { return };
        fs::write(both.mount.path("a"), "one").unwrap();
        let mut file = both.writer("a").unwrap();
        file.write_all(b"mine").unwrap();
        assert_eq!(both.put("a", "theirs").await.status, 201);
        // A neighbouring test that starts a process has a copy of every descriptor for a moment, and closing a copy
        // commits, too. So what was written before may have been in time; this was not.
        file.write_all(b" too").unwrap();
        assert_eq!(close(file), libc::ESTALE);
        let copies = both.conflict_copies();
        assert_eq!(copies.len(), 1, "{copies:?}");
        assert!(copies[0].starts_with("a.conflict-"), "{copies:?}");
        assert_eq!(fs::read_to_string(both.mount.path(&copies[0])).unwrap(), "mine too");
        assert_eq!(both.get("a").await, "theirs");
        let deadline = Instant::now() + PATIENCE;
        while fs::read_to_string(both.mount.path("a")).unwrap() != "theirs" {
            assert!(Instant::now() < deadline, "the next open sees what won");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        both.mount.check();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_the_blob_service_refuses_programs_that_write() {
    let Some(both) = Both::new(&[], &[]) else { return };
    fs::write(both.mount.path("a"), "one").unwrap();
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    assert_eq!(both.lease("a", &acquire).await.status, 201);
    assert_eq!(errno(both.writer("a")), libc::EBUSY);
    assert_eq!(errno(fs::remove_file(both.mount.path("a"))), libc::EBUSY);
    assert_eq!(errno(fs::rename(both.mount.path("a"), both.mount.path("b"))), libc::EBUSY);
    assert_eq!(fs::read_to_string(both.mount.path("a")).unwrap(), "one");
    let end = [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")];
    assert_eq!(both.lease("a", &end).await.status, 202);
    fs::write(both.mount.path("a"), "two").unwrap();
    assert_eq!(both.get("a").await, "two");
    both.mount.check();
}
