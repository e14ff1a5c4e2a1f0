//! The blob service beside a mount: one store, one truth.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::{Mount, errno};
use crate::ports::free_addr;
use crate::rig::{PATIENCE, exchange, signed};

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// The kernel is told a moment after the client is answered.
#[track_caller]
pub fn until(holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "{place}: the mount does not show it");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_and_its_endpoint_are_one_truth() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--blob-addr", &addr.to_string()]) else { return };
    fs::write(mount.path("from-mount"), "one").unwrap();
    let read = exchange(addr, &signed("GET", "/share/from-mount", &[], b"")).await;
    assert_eq!((read.status, read.text().as_str()), (200, "one"));
    let put = exchange(addr, &signed("PUT", "/share/from-rest", &[PUT], b"two")).await;
    assert_eq!(put.status, 201, "{put:?}");
    assert_eq!(fs::read_to_string(mount.path("from-rest")).unwrap(), "two");
    // Names and content that the kernel already knows are corrected.
    let put = exchange(addr, &signed("PUT", "/share/from-rest", &[PUT], b"longer")).await;
    assert_eq!(put.status, 201, "{put:?}");
    until(|| fs::read_to_string(mount.path("from-rest")).is_ok_and(|text| text == "longer")).await;
    let deleted = exchange(addr, &signed("DELETE", "/share/from-mount", &[], b"")).await;
    assert_eq!(deleted.status, 202);
    until(|| errno(fs::metadata(mount.path("from-mount"))) == libc::ENOENT).await;
    fs::remove_file(mount.path("from-rest")).unwrap();
    let gone = exchange(addr, &signed("HEAD", "/share/from-rest", &[], b"")).await;
    assert_eq!(gone.verdict(), (404, "BlobNotFound"));
    mount.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_cannot_listen_leaves_no_mount() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    if !nix::unistd::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return;
    }
    let dir = folder.path().join("mount");
    fs::create_dir(&dir).unwrap();
    let data = folder.path().join("data");
    let addr = taken.local_addr().unwrap().to_string();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_leasefs"))
        .args(["mount", "--data", data.to_str().unwrap(), "--blob-addr", &addr, dir.to_str().unwrap()])
        .env("XDG_STATE_HOME", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&addr), "{output:?}");
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(dir.to_str().unwrap()));
}

/// A program that holds a file open with a share mode until it is told to end.
struct Holder(std::process::Child);

impl Holder {
    fn start(file: &std::path::Path, share: &str) -> Self {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_leasefs"))
            .args(["open", "--access", "rw", "--share", share, file.to_str().unwrap(), "--"])
            .args(["sh", "-c", "echo ready; cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut said)
            .unwrap();
        assert_eq!(said, "ready\n");
        Self(child)
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_held_exclusively_refuses_writers_without_the_lease() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--blob-addr", &addr.to_string()]) else { return };
    fs::write(mount.path("held"), "mine").unwrap();
    let holder = Holder::start(&mount.path("held"), "none");
    let head = exchange(addr, &signed("HEAD", "/share/held", &[], b"")).await;
    assert_eq!((head.header("x-ms-lease-state"), head.header("x-ms-lease-status")), ("leased", "locked"));
    for (method, headers) in [("PUT", &[PUT][..]), ("DELETE", &[])] {
        let refused = exchange(addr, &signed(method, "/share/held", headers, b"")).await;
        assert_eq!(refused.verdict(), (412, "LeaseIdMissing"), "{method}");
    }
    // A lease keeps nobody from reading.
    assert_eq!(exchange(addr, &signed("GET", "/share/held", &[], b"")).await.text(), "mine");
    holder.end();
    let deadline = Instant::now() + PATIENCE;
    while exchange(addr, &signed("PUT", "/share/held", &[PUT], b"yours")).await.status != 201 {
        assert!(Instant::now() < deadline, "the lease outlives its holder");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    until(|| fs::read_to_string(mount.path("held")).is_ok_and(|text| text == "yours")).await;
    mount.check();
}

/// Another user's program that has a file open for writing and writes ten bytes, one by one, each time it is told to.
struct OtherWriter(std::process::Child);

impl OtherWriter {
    fn start(file: &std::path::Path) -> Self {
        use std::os::unix::process::CommandExt;
        // Not a shell: that closes a copy of the descriptor after each write, and a close commits.
        let script = "import os, sys\nfd = os.open(sys.argv[1], os.O_WRONLY)\n\
            for _ in sys.stdin:\n    for _ in range(10): os.write(fd, b'x')\n    print('done', flush=True)";
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script, file.to_str().unwrap()]).uid(65_534).gid(65_534).current_dir("/");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn write(&mut self) {
        use std::io::{Read, Write};
        self.0.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut said = [0; 5];
        self.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"done\n");
    }
}

impl Drop for OtherWriter {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_other_users_leave_the_version_alone_until_the_close() {
    use std::os::unix::fs::PermissionsExt;
    for path in crate::common::BOTH_PATHS {
        let addr = free_addr().to_string();
        let options: Vec<&str> =
            ["--allow-other", "--blob-addr", &addr].iter().chain(path).copied().collect();
        let Some(mount) = Mount::new(&options) else { return };
        let addr = addr.parse().unwrap();
        let open_to_all = |path: &std::path::Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        };
        open_to_all(mount.dir().parent().unwrap());
        // Changed in places: by the daemon on both paths.
        fs::write(mount.path("big"), vec![1; 3 << 20]).unwrap();
        open_to_all(&mount.path("big"));
        let version = async || {
            let head = exchange(addr, &signed("HEAD", "/share/big", &[], b"")).await;
            (head.header("etag").to_owned(), head.header("x-ms-meta-modtime").to_owned())
        };
        let before = version().await;
        let mut writer = OtherWriter::start(&mount.path("big"));
        writer.write();
        assert_eq!(version().await, before, "nothing was committed");
        // Bits that are set meanwhile are noticed.
        fs::set_permissions(mount.path("big"), fs::Permissions::from_mode(0o4777)).unwrap();
        let with_bits = version().await;
        assert_ne!(with_bits, before);
        writer.write();
        let mode = fs::metadata(mount.path("big")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o777, "the bits go with the first write");
        let dropped = version().await;
        assert_ne!(dropped, with_bits);
        // Also if somebody else set them in the store.
        let head = exchange(addr, &signed("HEAD", "/share/big", &[], b"")).await;
        let meta: Vec<(&str, &str)> = head
            .headers
            .iter()
            .filter(|(name, _)| name.starts_with("x-ms-meta-") && *name != "x-ms-meta-permissions")
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain([("x-ms-meta-permissions", "35327")])
            .collect();
        let set = exchange(addr, &signed("PUT", "/share/big?comp=metadata", &meta, b"")).await;
        assert_eq!(set.status, 200, "{set:?}");
        let bits = || fs::metadata(mount.path("big")).unwrap().permissions().mode() & 0o4000 != 0;
        until(bits).await;
        writer.write();
        assert!(!bits());
        drop(writer);
        mount.check();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_a_copy_shares_its_content_with_is_read_written_and_opened_at_once() {
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    const SIZE: usize = 3 << 20;
    for path in crate::common::BOTH_PATHS {
        let addr = free_addr().to_string();
        let options: Vec<&str> = ["--blob-addr", &addr].iter().chain(path).copied().collect();
        let Some(mount) = Mount::new(&options) else { return };
        let addr: SocketAddr = addr.parse().unwrap();
        fs::write(mount.path("big"), vec![1; SIZE]).unwrap();
        let source = ("x-ms-copy-source", "http://127.0.0.1/devstoreaccount1/share/big");
        let copied = exchange(addr, &signed("PUT", "/share/copy", &[source], b"")).await;
        assert_eq!(copied.status, 202, "{copied:?}");
        let early = fs::File::open(mount.path("big")).unwrap();
        let mut byte = [0];
        early.read_exact_at(&mut byte, 0).unwrap();
        let mut writer = fs::File::options().append(true).open(mount.path("big")).unwrap();
        writer.write_all(b"more").unwrap();
        let mut expected = vec![1; SIZE];
        expected.extend(b"more");
        assert!(
            fs::read(mount.path("big")).unwrap() == expected,
            "a reader that comes later sees the writer"
        );
        let second = fs::File::options().read(true).write(true).open(mount.path("big")).unwrap();
        second.write_all_at(b"!", 0).unwrap();
        expected[0] = b'!';
        assert!(fs::read(mount.path("big")).unwrap() == expected, "and a second one");
        // Where the kernel serves the early reader it keeps what the copy has.
        early.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [if path.is_empty() { 1 } else { b'!' }]);
        drop((writer, second, early));
        assert!(fs::read(mount.path("big")).unwrap() == expected);
        assert!(fs::read(mount.path("copy")).unwrap() == vec![1; SIZE], "the copy is as it was");
        mount.check();
    }
}
