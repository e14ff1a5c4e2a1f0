//! A full disk under the cache directory of a remote mount: writes say so, nothing that was acknowledged is harmed, and
//! everything goes on when there is space again.
//!
//! Needs root to mount a small file system of its own; says so and passes without.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "remote/machine.rs"]
mod machine;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use machine::{PATIENCE, Remote, Sdk, Service, can_mount, until};

/// Bytes of the small file system.
const DISK: usize = 96 << 20;

/// A small file system, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: &Path) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let size = format!("size={DISK}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path).status();
        if !mount.is_ok_and(|status| status.success()) {
            println!("skipped: this machine does not let us mount a small disk");
            return None;
        }
        Some(Self(path.to_owned()))
    }

    /// Fills it to the last byte, as somebody else would.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = File::create(&path).unwrap();
        for piece in [1 << 20, 4096, 1] {
            while file.write_all(&vec![7; piece]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

fn body(number: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at * 7 + at / 251 + number) % 256).unwrap()).collect()
}

fn is_full(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOSPC)
}

/// Writes and closes, and says how that went as a whole.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    let written = file.write_all(bytes);
    let closed = nix::unistd::close(file).map_err(io::Error::from);
    written.and(closed)
}

/// Writes, again and again as long as the disk is full: what the service has makes room by and by.
#[track_caller]
fn written(path: &Path, bytes: &[u8]) {
    until(|| match write(path, bytes) {
        Ok(()) => true,
        Err(error) => {
            assert!(is_full(&error), "{}: {error}", path.display());
            false
        }
    });
}

async fn intact(mount: &Remote, sdk: &Sdk, count: usize, size: usize) {
    for number in 0..count {
        let name = format!("f{number}");
        assert!(sdk.get(&name).await.unwrap() == body(number, size), "{name} at the service");
        assert!(fs::read(mount.path(&name)).unwrap() == body(number, size), "{name} on the mount");
    }
}

/// Writers find the disk full, by their own doing and by somebody else's.
async fn full(options: &[&str]) {
    if !can_mount() {
        return;
    }
    let service = Service::start();
    let mount = Remote::prepared(&service.container("team"), options);
    let Some(disk) = SmallDisk::at(&mount.cache()) else { return };
    // The mount ends first, whatever happens.
    let world = (mount, disk);
    let (mount, disk) = (&world.0, &world.1);
    mount.start();
    let sdk = service.sdk("team");
    // More than the disk has: what the service has makes room.
    let (count, size) = (30, 5 << 20);
    for number in 0..count {
        let path = mount.path(&format!("f{number}"));
        written(&path, &body(number, size));
    }
    pushed(mount, options);
    intact(mount, &sdk, count, size).await;
    // One file that is bigger than the disk cannot make room for itself.
    let refused = write(&mount.path("big"), &body(0, DISK + (8 << 20))).unwrap_err();
    assert!(is_full(&refused), "{options:?}: {refused}");
    fs::remove_file(mount.path("big")).unwrap();
    written(&mount.path("after"), b"goes on");
    pushed(mount, options);
    intact(mount, &sdk, count, size).await;
    assert_eq!(sdk.get("after").await.as_deref(), Some(&b"goes on"[..]));
    // Somebody else takes the rest, and what the cache gives back, too.
    let mut ballast = disk.fill();
    let mut refused = None;
    for attempt in 0..100 {
        match write(&mount.path(&format!("more{attempt}")), &body(attempt, size)) {
            Ok(()) => ballast = disk.fill(),
            Err(error) => {
                refused = Some((error, attempt));
                break;
            }
        }
    }
    let (refused, attempt) = refused.expect("a full disk refuses");
    assert!(is_full(&refused), "{options:?}: {refused}");
    assert_eq!(sdk.get("f0").await.unwrap(), body(0, size), "what was there is there");
    assert_eq!(fs::metadata(mount.path("f1")).unwrap().len(), size as u64);
    fs::remove_file(ballast).unwrap();
    // What was refused in the middle of it: perhaps made, perhaps not.
    fs::remove_file(mount.path(&format!("more{attempt}"))).ok();
    written(&mount.path("later"), &body(1, size));
    pushed(mount, options);
    assert!(sdk.get("later").await.unwrap() == body(1, size));
    intact(mount, &sdk, count, size).await;
    mount.stop();
    mount.start();
    intact(mount, &sdk, count, size).await;
    mount.stop();
}

/// Waits until the service has everything.
fn pushed(mount: &Remote, options: &[&str]) {
    let deadline = Instant::now() + PATIENCE;
    while options.contains(&"--write-back") {
        let status = mount.status();
        if status["mounts"][0]["service"]["waiting_files"].as_u64() == Some(0) {
            return;
        }
        assert!(Instant::now() < deadline, "it is not pushed: {status}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_the_cache_refuses_writes_and_harms_nothing() {
    full(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_with_write_back_refuses_writes_and_harms_nothing() {
    full(&["--write-back"]).await;
}
