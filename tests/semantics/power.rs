//! What survives a power loss.
//!
//! The store is on a disk of its own that can lose its power.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
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
use crate::disk::Disk;

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
    // Committed by a close that nobody asked to be durable; the fsync comes later.
    for name in ["closed", "copied"] {
        let mut file = File::create(mount.path(name)).unwrap();
        file.write_all(&vec![4; 300_000]).unwrap();
        match name {
            "closed" => {
                drop(file);
                File::open(mount.path(name)).unwrap().sync_all().unwrap();
            }
            _ => {
                drop(file.try_clone().unwrap());
                file.sync_all().unwrap();
            }
        }
    }
    fs::write(mount.path("changed"), vec![5; 8 << 20]).unwrap();
    let changed = File::options().write(true).open(mount.path("changed")).unwrap();
    changed.write_all_at(&[6; 4096], 1_000_000).unwrap();
    changed.sync_all().unwrap();
    drop(changed);
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
    for name in ["closed", "copied"] {
        assert!(fs::read(mount.path(name)).unwrap() == vec![4; 300_000], "{name} before the fsync");
    }
    let mut changed = vec![5; 8 << 20];
    changed[1_000_000..1_004_096].fill(6);
    assert!(fs::read(mount.path("changed")).unwrap() == changed, "a small change of what was only closed");
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
