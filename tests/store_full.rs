//! A full disk: refusals, earlier data intact, deletes possible, and life after it.
//!
//! Needs root to mount a small file system of its own; says so and does nothing otherwise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, DeleteSnapshots, LocalStore, Metadata, NewContent,
    Preconditions, PublicAccess, StoreError,
};

/// A file system of 96 MiB, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root can mount a small disk");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"])
            .arg(folder.path())
            .status();
        if !mount.is_ok_and(|status| status.success()) {
            eprintln!("skipped: this machine does not let us mount");
            return None;
        }
        Some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn open(disk: &SmallDisk) -> Arc<EmbeddedStore> {
    let options = EmbeddedOptions { memtable_bytes: 1 << 20, ..EmbeddedOptions::default() };
    EmbeddedStore::open(&disk.path().join("store"), options).unwrap()
}

fn at(index: usize) -> BlobPath {
    let name = BlobName::new(format!("d{}/f{index}", index % 7)).unwrap();
    BlobPath::new(ContainerName::new("share").unwrap(), name)
}

fn body(index: usize) -> Vec<u8> {
    let size = if index.is_multiple_of(2) { 5_000 } else { 100_000 };
    (0..size).map(|place| (place * 7 + index) as u8).collect()
}

async fn put(store: &EmbeddedStore, index: usize) -> Result<(), StoreError> {
    let new = NewContent::default();
    store.put_blob(&at(index), body(index).into(), new, &Preconditions::default()).await.map(drop)
}

async fn delete(store: &EmbeddedStore, index: usize) -> Result<(), StoreError> {
    store.delete_blob(&at(index), DeleteSnapshots::Refuse, &Preconditions::default()).await
}

async fn assert_there(store: &EmbeddedStore, indexes: impl Iterator<Item = usize>) {
    for index in indexes {
        let got = store.get_blob(&at(index), None, None, &Preconditions::default()).await.unwrap();
        assert!(got.body == body(index), "blob {index} is as it was put");
    }
}

/// Puts until the store says it is full; answers how many.
async fn fill(store: &EmbeddedStore) -> usize {
    for index in 0..10_000 {
        match put(store, index).await {
            Ok(()) => {}
            Err(StoreError::Full) => return index,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never got full");
}

#[tokio::test]
async fn a_full_store_refuses_and_recovers() {
    let Some(disk) = SmallDisk::new() else { return };
    let store = open(&disk);
    store.create_container(&at(0).container, Metadata::new(), PublicAccess::None).await.unwrap();
    let count = fill(&store).await;
    assert!(count > 100, "{count}");
    assert_there(&store, 0..count).await;
    for index in 0..count / 2 {
        delete(&store, index).await.unwrap();
    }
    // The files go in the background.
    for _ in 0..200 {
        if put(&store, 0).await.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    put(&store, 1).await.unwrap();
    assert_there(&store, (count / 2..count).chain([0, 1])).await;
    assert_eq!(store.reopened(), 0, "the refusal came before the disk's own");
    store.close().unwrap();
    drop(store);
    let store = open(&disk);
    assert_there(&store, (count / 2..count).chain([0, 1])).await;
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    store.close().unwrap();
}

/// A removal may have to be noted first, and a log that filled the disk is emptied.
#[tokio::test]
async fn a_full_store_takes_what_makes_room() {
    let Some(disk) = SmallDisk::new() else { return };
    let store = open(&disk);
    store.create_container(&at(0).container, Metadata::new(), PublicAccess::None).await.unwrap();
    let count = fill(&store).await;
    let (new, always) = (NewContent::default, Preconditions::default());
    let note = at(count + 1);
    let refused = store.put_small(&note, "note".into(), new(), &always);
    assert!(matches!(refused, Err(StoreError::Full)), "{refused:?}");
    store.put_before_removal(&note, "note".into(), new(), &always).unwrap();
    assert_eq!(store.put_small(&at(1), "".into(), new(), &always).unwrap().size, 0);
    let grown = store.put_blob(&at(0), vec![1; 5_001].into(), new(), &always).await;
    assert!(matches!(grown, Err(StoreError::Full)), "{grown:?}");
    store.close().unwrap();
}

#[tokio::test]
async fn a_disk_filled_by_others_to_the_last_byte() {
    let Some(disk) = SmallDisk::new() else { return };
    let store = open(&disk);
    store.create_container(&at(0).container, Metadata::new(), PublicAccess::None).await.unwrap();
    for index in 0..50 {
        put(&store, index).await.unwrap();
    }
    let filler = disk.path().join("filler");
    let full =
        fs::File::create(&filler).and_then(|mut file| std::io::copy(&mut std::io::repeat(1), &mut file));
    assert!(full.is_err());
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    assert!(matches!(put(&store, 100).await, Err(StoreError::Full)));
    assert_there(&store, 0..50).await;
    for index in 0..10 {
        delete(&store, index).await.unwrap();
    }
    assert_there(&store, 10..50).await;
    fs::remove_file(&filler).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    put(&store, 100).await.unwrap();
    assert_there(&store, (10..50).chain([100])).await;
    store.close().unwrap();
    drop(store);
    let store = open(&disk);
    assert_there(&store, (10..50).chain([100])).await;
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}

/// The database's own write fails: it is opened again and goes on, and content that was removed meanwhile is gone.
#[tokio::test]
async fn a_failed_database_write_is_survived() {
    let Some(disk) = SmallDisk::new() else { return };
    let store = open(&disk);
    store.create_container(&at(0).container, Metadata::new(), PublicAccess::None).await.unwrap();
    for index in 0..50 {
        put(&store, index).await.unwrap();
    }
    // Full in an instant, before the store asks again how much room there is; on a busy machine that takes tries.
    for _ in 0..50 {
        put(&store, 50).await.unwrap();
        let filler = disk.path().join("filler");
        let file = fs::File::create(&filler).unwrap();
        let room = store.space().unwrap().available.cast_signed();
        nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, room).unwrap();
        for index in 51..80 {
            match put(&store, index).await {
                Ok(()) | Err(StoreError::Full) => {}
                Err(other) => panic!("{other}"),
            }
        }
        for index in 40..50 {
            match delete(&store, index).await {
                Ok(()) | Err(StoreError::Full | StoreError::BlobNotFound(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        drop(file);
        fs::remove_file(&filler).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        if store.reopened() > 0 {
            break;
        }
    }
    assert!(store.reopened() > 0, "this is about a write that the database could not finish");
    for index in 40..80 {
        put(&store, index).await.unwrap();
    }
    assert_there(&store, 0..80).await;
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    store.close().unwrap();
    drop(store);
    let store = open(&disk);
    assert!(store.was_left_in_disorder(), "so the next start looks for what nobody could tell");
    assert_there(&store, 0..80).await;
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}
