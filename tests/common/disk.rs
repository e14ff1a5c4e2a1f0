//! A disk that can lose its power: a small ext4 of its own (on a loop device), which is told to go down at once without
//! writing anything out. What it had not been asked to sync is gone, as after a power cut. Then its journal is replayed
//! by a mount.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};

const IMAGE_BYTES: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// `EXT4_IOC_SHUTDOWN`, and its flag for "do not even write the journal".
const SHUTDOWN: libc::Ioctl = 0x8004_587D;
const NO_LOG_FLUSH: u32 = 2;

/// A disk that can lose its power.
pub struct Disk {
    folder: tempfile::TempDir,
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

impl Disk {
    /// A fresh one; nothing where loop devices or the tools for them are missing.
    pub fn new() -> Option<Self> {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        File::create(disk.image()).unwrap().set_len(IMAGE_BYTES).unwrap();
        fs::create_dir(disk.root()).unwrap();
        let made = succeeds(Command::new("mkfs.ext4").arg("-qF").arg(disk.image())) && disk.mount();
        if !made {
            println!("skipped: needs root, mkfs.ext4 and a loop device");
        }
        made.then_some(disk)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Where it is mounted.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn mount(&self) -> bool {
        succeeds(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.root()))
    }

    /// From here on nothing reaches it, and reading fails.
    pub fn lose_power(&self) {
        let root = File::open(self.root()).unwrap();
        let how = NO_LOG_FLUSH;
        // SAFETY: the descriptor is open, and this request reads one integer, which lives until the call returns.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const how) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// The next start: whoever had files open is dead by now, or will be in a moment.
    pub fn power_up(&self) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = umount2(&self.root(), MntFlags::empty()) {
            assert!(Instant::now() < deadline, "the disk stays busy: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(self.mount(), "the disk is not usable after the power loss");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Not mounted if it could not even be made.
        let _ = umount2(&self.root(), MntFlags::MNT_DETACH);
    }
}
