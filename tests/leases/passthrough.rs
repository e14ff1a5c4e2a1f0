//! The same where the kernel moves the bytes: the test writes to the local file itself, as the kernel does.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::SharePolicy;
use leasefs::fs::strategy::Concurrency;
use leasefs::fs::{FsError, HandleId, OpenRequest, Route};

use crate::rig::{ANYBODY, READ, Rig, WRITE, segment};

const SIZE: usize = 100_000;

async fn rig(policy: SharePolicy) -> Rig {
    let rig = Rig::new(Concurrency::Optimistic, policy).await;
    rig.engine.set_passthrough(true);
    rig
}

async fn open(rig: &Rig, ino: Ino, request: OpenRequest) -> (HandleId, Arc<File>) {
    let opened = rig.engine.open(ino, request, ANYBODY).await.unwrap();
    match opened.route {
        Route::Kernel(file) => (opened.handle, file),
        other => panic!("not by the kernel: {other:?}"),
    }
}

/// Makes a file and commits it while it is open, so that its blob and its open file are one local file.
async fn in_place(rig: &Rig) -> (Ino, HandleId, Arc<File>) {
    let (stat, opened) = rig.engine.create(ROOT, &segment("a"), 0o644, WRITE, ANYBODY).await.unwrap();
    let Route::Kernel(file) = opened.route else { panic!("not by the kernel") };
    file.write_all_at(&vec![1; SIZE], 0).unwrap();
    rig.engine.fsync(opened.handle).await.unwrap();
    (stat.ino, opened.handle, file)
}

#[tokio::test(start_paused = true)]
async fn what_the_kernel_wrote_is_kept_when_somebody_was_faster() {
    let rig = rig(SharePolicy::Shared).await;
    let ino = rig.file("a", &vec![1; SIZE]).await;
    let (handle, file) = open(&rig, ino, WRITE).await;
    file.write_all_at(b"mine", 0).unwrap();
    rig.put("a", b"theirs").await.unwrap();
    assert!(matches!(rig.engine.flush(handle, 0).await, Err(FsError::Stale)));
    file.write_all_at(b"more", 10).unwrap();
    rig.engine.release(handle).await.unwrap();
    let kept = rig.conflict_copy("a").await.1;
    assert_eq!((kept.len(), &kept[..4], &kept[10..14]), (SIZE, &b"mine"[..], &b"more"[..]));
    assert_eq!(rig.content("a").await, b"theirs");
}

#[tokio::test(start_paused = true)]
async fn content_written_in_place_leaves_a_newer_version_alone() {
    let rig = rig(SharePolicy::Shared).await;
    let (ino, handle, file) = in_place(&rig).await;
    file.write_all_at(b"mine", 0).unwrap();
    rig.engine.fsync(handle).await.unwrap();
    rig.put("a", &vec![2; SIZE]).await.unwrap();
    file.write_all_at(b"late", 10).unwrap();
    assert!(rig.content("a").await == vec![2; SIZE], "the file is the blob's no longer");
    assert!(matches!(rig.close(handle).await, Err(FsError::Stale)));
    drop(file);
    assert!(rig.content("a").await == vec![2; SIZE]);
    let kept = rig.conflict_copy("a").await.1;
    assert_eq!((kept.len(), &kept[..4], &kept[10..14]), (SIZE, &b"mine"[..], &b"late"[..]));
    let (handle, file) = open(&rig, ino, WRITE).await;
    file.write_all_at(b"next", 0).unwrap();
    rig.close(handle).await.unwrap();
    assert_eq!(&rig.content("a").await[..5], b"next\x02");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_keeps_what_the_kernel_wrote() {
    let rig = rig(SharePolicy::Exclusive).await;
    let (_, handle, file) = in_place(&rig).await;
    file.write_all_at(b"mine", 0).unwrap();
    rig.break_lease("a").await;
    rig.put("a", b"theirs").await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    file.write_all_at(b"more", 10).unwrap();
    assert!(matches!(rig.close(handle).await, Err(FsError::LeaseLost)));
    let kept = rig.conflict_copy("a").await.1;
    assert_eq!((kept.len(), &kept[..4], &kept[10..14]), (SIZE, &b"mine"[..], &b"more"[..]));
    assert_eq!(rig.content("a").await, b"theirs");
    assert!(rig.engine.lease_list().is_empty());
}

/// The kernel's readers have the old version until they close it; a writer among them must not bring it back.
#[tokio::test(start_paused = true)]
async fn a_writer_among_readers_of_an_old_version_loses() {
    let rig = rig(SharePolicy::Shared).await;
    let ino = rig.file("a", &vec![1; SIZE]).await;
    let (reader, old) = open(&rig, ino, READ).await;
    rig.put("a", b"theirs").await.unwrap();
    let writer = rig.open(ino, WRITE).await.unwrap();
    assert!(matches!(rig.engine.write(writer, 0, b"mine").await, Err(FsError::Stale)), "told at once");
    rig.close(writer).await.ok();
    let mut byte = [0];
    old.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [1], "readers keep what they opened");
    rig.close(reader).await.unwrap();
    assert_eq!(rig.content("a").await, b"theirs");
}
