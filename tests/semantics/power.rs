//! What survives a power loss.
//!
//! The store is on a small ext4 of its own (a loop device), which is told to go down at once without writing anything
//! out: what it had not been asked to sync is gone, as after a power cut. Then its journal is replayed by a mount.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use leasefs::share::Moment;
use leasefs::share::lease::{LeaseDuration, LeaseId, LeaseRefusal};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, LeaseRequest, NewContent, Preconditions, StoreError,
};
use nix::mount::{MntFlags, umount2};

use crate::common::{BOTH_PATHS, Mount};

const IMAGE_BYTES: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// `EXT4_IOC_SHUTDOWN`, and its flag for "do not even write the journal".
const SHUTDOWN: libc::Ioctl = 0x8004_587D;
const NO_LOG_FLUSH: u32 = 2;

/// A disk that can lose its power.
struct Disk {
    folder: tempfile::TempDir,
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

impl Disk {
    /// A fresh one; nothing where loop devices or the tools for them are missing.
    fn new() -> Option<Self> {
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

    fn root(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn mount(&self) -> bool {
        succeeds(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.root()))
    }

    fn lose_power(&self) {
        let root = File::open(self.root()).unwrap();
        let how = NO_LOG_FLUSH;
        // SAFETY: the descriptor is open, and this request reads one integer, which lives until the call returns.
        let done = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const how) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// The next start: whoever had files open is dead by now, or will be in a moment.
    fn power_up(&self) {
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

fn synced(path: &PathBuf, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

/// What must be there afterwards: a file of each size, a small change of a big file, and a save by rename.
fn work(mount: &Mount) {
    for size in [2000, 200_000, 3 << 20] {
        synced(&mount.path(&format!("f{size}")), &vec![7; size]);
    }
    synced(&mount.path("big"), &vec![1; 8 << 20]);
    let big = File::options().write(true).open(mount.path("big")).unwrap();
    big.write_all_at(&[2; 4096], 5_000_000).unwrap();
    big.sync_all().unwrap();
    drop(big);
    fs::write(mount.path("saved"), b"old").unwrap();
    synced(&mount.path("saved.new"), b"new");
    fs::rename(mount.path("saved.new"), mount.path("saved")).unwrap();
    File::open(mount.dir()).unwrap().sync_all().unwrap();
}

fn expect(mount: &Mount) {
    for size in [2000, 200_000, 3 << 20] {
        assert!(fs::read(mount.path(&format!("f{size}"))).unwrap() == vec![7; size], "size {size}");
    }
    let mut big = vec![1; 8 << 20];
    big[5_000_000..5_004_096].fill(2);
    assert!(fs::read(mount.path("big")).unwrap() == big, "the small change of a big file");
    assert_eq!(fs::read(mount.path("saved")).unwrap(), b"new");
    assert!(!mount.path("saved.new").exists());
}

#[test]
fn what_fsync_acknowledged_survives_a_power_loss() {
    for path in BOTH_PATHS {
        println!("data path {path:?}");
        let Some(disk) = Disk::new() else { return };
        let folder = tempfile::tempdir().unwrap();
        let Some(mount) = Mount::on_data(folder, disk.root().join("store"), path) else { return };
        work(&mount);
        // Nobody asked for these to be synced: whatever is left of them must not get in the way.
        for number in 0..50 {
            fs::write(mount.path(&format!("unsynced{number}")), vec![3; number * 1000]).unwrap();
        }
        let unsynced = disk.root().join("unsynced");
        fs::write(&unsynced, b"lost").unwrap();
        disk.lose_power();
        mount.kill();
        umount2(&mount.dir(), MntFlags::MNT_DETACH).unwrap();
        disk.power_up();
        let mut left = Vec::new();
        if let Ok(mut file) = File::open(&unsynced) {
            file.read_to_end(&mut left).unwrap();
        }
        assert_ne!(left, b"lost", "the disk did not lose its power");
        mount.start();
        expect(&mount);
        mount.stop();
    }
}

const SECOND: i64 = 1_000_000_000;
const HOLDER: LeaseId = LeaseId(1);
const OTHER: LeaseId = LeaseId(2);

/// A store on the disk as the Blob service uses it, with a clock that is set by hand.
fn serve(disk: &Disk, clock: &Arc<AtomicI64>) -> Arc<EmbeddedStore> {
    let clock = Arc::clone(clock);
    let clock = Arc::new(move || Moment(clock.load(Ordering::Relaxed)));
    let options = EmbeddedOptions { clock, ..EmbeddedOptions::default() };
    EmbeddedStore::open(&disk.root().join("store"), options).unwrap().durable_user()
}

fn lease_of(seconds: u8, proposed: LeaseId) -> LeaseRequest {
    LeaseRequest::Acquire { proposed, duration: LeaseDuration::seconds(seconds).unwrap() }
}

/// Renewals and releases of timed leases are not waited for: what is lost of them must be nobody's loss.
#[tokio::test]
async fn leases_that_a_power_loss_forgot_are_not_overtaken() {
    let Some(disk) = Disk::new() else { return };
    let clock = Arc::new(AtomicI64::new(1000 * SECOND));
    let always = Preconditions::default();
    let container = ContainerName::new("box").unwrap();
    let at = |name: &str| BlobPath::new(container.clone(), BlobName::new(name).unwrap());
    let store = serve(&disk, &clock);
    store.create_container(&container, Default::default(), Default::default()).await.unwrap();
    for name in ["renewed", "released", "taken"] {
        store.put_blob(&at(name), "x".into(), NewContent::default(), &always).await.unwrap();
        store.lease_blob(&at(name), lease_of(15, HOLDER), &always).await.unwrap();
        store.lease_blob(&at(name), LeaseRequest::Renew { id: HOLDER }, &always).await.unwrap();
    }
    // A release that was not waited for, and behind it an acquire that was: both are there.
    store.lease_blob(&at("taken"), LeaseRequest::Release { id: HOLDER }, &always).await.unwrap();
    store.lease_blob(&at("taken"), lease_of(60, OTHER), &always).await.unwrap();
    clock.fetch_add(10 * SECOND, Ordering::Relaxed);
    store.lease_blob(&at("renewed"), LeaseRequest::Renew { id: HOLDER }, &always).await.unwrap();
    store.lease_blob(&at("released"), LeaseRequest::Release { id: HOLDER }, &always).await.unwrap();
    disk.lose_power();
    drop(store);
    disk.power_up();

    clock.fetch_add(6 * SECOND, Ordering::Relaxed);
    let store = serve(&disk, &clock);
    let overtakes = async |name: &str, id| match store.lease_blob(&at(name), lease_of(15, id), &always).await
    {
        Ok(_) => true,
        Err(StoreError::Lease(LeaseRefusal::AlreadyPresent)) => false,
        Err(error) => panic!("{name}: {error}"),
    };
    assert!(!overtakes("renewed", OTHER).await);
    assert!(!overtakes("taken", HOLDER).await);
    assert!(!overtakes("released", OTHER).await, "the release was not lost: the disk did not lose its power");
    clock.fetch_add(15 * SECOND, Ordering::Relaxed);
    assert!(overtakes("renewed", OTHER).await);
    assert!(overtakes("released", OTHER).await);
    assert!(!overtakes("taken", HOLDER).await);
    store.close().unwrap();
}
