//! What happens when a writer elsewhere was faster, and that nothing anybody wrote gets lost.

use std::time::Duration;

use leasefs::fs::nodes::ROOT;
use leasefs::fs::policy::SharePolicy;
use leasefs::fs::strategy::Concurrency;
use leasefs::fs::{AttributeChange, FsError, RenameRule, Route, XattrMode};

use crate::rig::{ANYBODY, READ, Rig, WRITE, segment};

/// In the index, in a file that is copied, and in one of which only changes are kept.
const SIZES: [usize; 3] = [100, 100_000, 3 << 20];

fn bytes(size: usize, value: u8) -> Vec<u8> {
    vec![value; size]
}

#[tokio::test(start_paused = true)]
async fn an_optimistic_loser_is_told_and_keeps_its_content() {
    for size in SIZES {
        let rig = Rig::optimistic().await;
        let ino = rig.file("a.txt", &bytes(size, 1)).await;
        let handle = rig.open(ino, WRITE).await.unwrap();
        rig.engine.write(handle, 10, b"mine").await.unwrap();
        rig.put("a.txt", b"theirs").await.unwrap();
        assert!(matches!(rig.engine.fsync(handle).await, Err(FsError::Stale)), "{size}");
        let mut mine = bytes(size, 1);
        mine[10..14].copy_from_slice(b"mine");
        assert!(rig.conflict_copy("a.txt").await.1 == mine, "{size}");
        assert_eq!(rig.content("a.txt").await, b"theirs");

        rig.engine.write(handle, 20, b"more").await.unwrap();
        assert!(matches!(rig.close(handle).await, Err(FsError::Stale)), "told again: {size}");
        mine[20..24].copy_from_slice(b"more");
        assert!(rig.conflict_copy("a.txt").await.1 == mine, "what came later is in the same copy: {size}");
        assert_eq!(rig.engine.conflicts(), 1);

        let handle = rig.open(ino, WRITE).await.unwrap();
        assert_eq!(rig.read(handle), b"theirs", "the next open sees what won");
        rig.engine.write(handle, 0, b"T").await.unwrap();
        rig.close(handle).await.unwrap();
        assert_eq!(rig.content("a.txt").await, b"Theirs");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loser_that_only_closes_keeps_its_content() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(handle, 0, b"mine").await.unwrap();
    rig.put("a", b"theirs").await.unwrap();
    rig.engine.release(handle).await.unwrap();
    let (name, content) = rig.conflict_copy("a").await;
    assert_eq!(content, b"mine");
    let stat = rig.engine.lookup(ROOT, &segment(&name)).await.unwrap();
    assert_eq!((stat.size, stat.attributes.mode), (4, 0o644), "a file like any other");
}

#[tokio::test(start_paused = true)]
async fn content_of_a_file_that_was_removed_elsewhere_is_kept() {
    let rig = Rig::optimistic().await;
    for (name, recreated) in [("a", false), ("b", true)] {
        let ino = rig.file(name, b"one").await;
        let handle = rig.open(ino, WRITE).await.unwrap();
        rig.engine.write(handle, 0, b"mine").await.unwrap();
        rig.delete(name).await.unwrap();
        if recreated {
            rig.put(name, b"theirs").await.unwrap();
        }
        assert!(matches!(rig.close(handle).await, Err(FsError::Stale)));
        assert_eq!(rig.conflict_copy(name).await.1, b"mine");
        assert_eq!(rig.names(name).await.contains(&name.to_owned()), recreated, "it does not come back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_after_the_open_refuses_the_commit() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(handle, 0, b"mine").await.unwrap();
    rig.take_lease("a").await.unwrap();
    assert!(matches!(rig.close(handle).await, Err(FsError::Leased(_))));
    assert_eq!((rig.content("a").await, rig.conflict_copy("a").await.1), (b"one".to_vec(), b"mine".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn the_last_writer_wins_if_asked_for() {
    let rig = Rig::new(Concurrency::LastWriterWins, SharePolicy::Shared).await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(handle, 0, b"mine").await.unwrap();
    rig.put("a", b"theirs").await.unwrap();
    rig.close(handle).await.unwrap();
    assert_eq!(rig.content("a").await, b"mine");
    assert_eq!(rig.engine.conflicts(), 0);
}

/// The engine changes the blob's version itself with every change of attributes.
#[tokio::test(start_paused = true)]
async fn our_own_changes_are_no_conflict() {
    for size in SIZES {
        let rig = Rig::optimistic().await;
        let ino = rig.file("a", &bytes(size, 1)).await;
        let handle = rig.open(ino, WRITE).await.unwrap();
        rig.engine.write(handle, 0, b"x").await.unwrap();
        let mode = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
        rig.engine.change(ino, None, mode, ANYBODY).await.unwrap();
        rig.engine.set_xattr(ino, b"user.x", b"1", XattrMode::Set).await.unwrap();
        rig.engine.fsync(handle).await.unwrap();
        rig.engine.rename((ROOT, &segment("a")), (ROOT, &segment("b")), RenameRule::Replace).await.unwrap();
        let other = rig.open(ino, WRITE).await.unwrap();
        rig.engine.write(other, 1, b"y").await.unwrap();
        rig.close(other).await.unwrap();
        rig.engine.write(handle, 2, b"z").await.unwrap();
        let cut = AttributeChange { size: Some(50), ..AttributeChange::default() };
        rig.engine.change(ino, Some(handle), cut, ANYBODY).await.unwrap();
        rig.engine.change(ino, None, cut, ANYBODY).await.unwrap();
        rig.close(handle).await.unwrap();
        let content = rig.content("b").await;
        assert_eq!((content.len(), &content[..4]), (50, &b"xyz\x01"[..]));
        assert_eq!(rig.engine.conflicts(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_lease_stops_writes_and_keeps_the_content() {
    for size in SIZES {
        let rig = Rig::exclusive().await;
        let ino = rig.file("a", &bytes(size, 1)).await;
        let handle = rig.open(ino, WRITE).await.unwrap();
        rig.engine.write(handle, 0, b"mine").await.unwrap();
        rig.break_lease("a").await;
        rig.put("a", b"theirs").await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(rig.engine.leases_lost(), 1, "noticed at the next renewal");
        assert_eq!(&rig.conflict_copy("a").await.1[..4], b"mine", "kept at once");
        assert!(matches!(rig.engine.write(handle, 0, b"more").await, Err(FsError::LeaseLost)));
        assert!(matches!(rig.engine.fsync(handle).await, Err(FsError::LeaseLost)));
        assert!(matches!(rig.close(handle).await, Err(FsError::LeaseLost)));
        assert_eq!(rig.content("a").await, b"theirs");
        let (_, kept) = rig.conflict_copy("a").await;
        assert_eq!((kept.len(), &kept[..4]), (size, &b"mine"[..]));
        let handle = rig.open(ino, WRITE).await.unwrap();
        assert_eq!(rig.read(handle), b"theirs", "a new open has a new lease");
        rig.engine.write(handle, 0, b"T").await.unwrap();
        rig.close(handle).await.unwrap();
    }
}

/// The process stood still for longer than the lease lasts.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_unnoticed_fences_the_commit() {
    let rig = Rig::exclusive().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(handle, 0, b"mine").await.unwrap();
    rig.freeze(120);
    rig.put("a", b"theirs").await.unwrap();
    assert!(matches!(rig.engine.fsync(handle).await, Err(FsError::LeaseLost)));
    assert!(matches!(rig.close(handle).await, Err(FsError::LeaseLost)));
    assert_eq!(
        (rig.content("a").await, rig.conflict_copy("a").await.1),
        (b"theirs".to_vec(), b"mine".to_vec())
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_is_revived_if_nobody_wrote() {
    let rig = Rig::exclusive().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(handle, 0, b"mine").await.unwrap();
    rig.freeze(120);
    rig.engine.fsync(handle).await.unwrap();
    assert_eq!(rig.content("a").await, b"mine");
    assert!(rig.put("a", b"theirs").await.is_err(), "held again");
    rig.close(handle).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_others_committed_is_seen_by_the_next_open() {
    for size in SIZES {
        let rig = Rig::optimistic().await;
        let ino = rig.file("a", &bytes(size, 1)).await;
        let first = rig.open(ino, READ).await.unwrap();
        assert_eq!(rig.read(first).len(), size);
        rig.put("a", b"theirs").await.unwrap();
        let second = rig.open(ino, WRITE).await.unwrap();
        assert_eq!(rig.read(second), b"theirs");
        rig.engine.write(second, 0, b"T").await.unwrap();
        rig.close(second).await.unwrap();
        rig.close(first).await.unwrap();
        assert_eq!(rig.content("a").await, b"Theirs");
        assert_eq!(rig.engine.conflicts(), 0);
    }
}

/// The kernel's page cache holds what the loser wrote; nobody may take that for the version that won.
#[tokio::test(start_paused = true)]
async fn the_page_cache_of_a_loser_is_not_kept() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"one").await;
    let writer = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(writer, 0, b"mine").await.unwrap();
    rig.put("a", b"theirs").await.unwrap();
    let reader = rig.open(ino, READ).await.unwrap();
    assert_eq!(rig.read(reader), b"mine", "what one program writes the others on the mount read at once");
    rig.close(reader).await.unwrap();
    assert!(rig.close(writer).await.is_err());
    let opened = rig.engine.open(ino, READ, ANYBODY).await.unwrap();
    assert!(matches!(opened.route, Route::Engine { keep_cache: false }), "{:?}", opened.route);
    assert_eq!(rig.read(opened.handle), b"theirs");
    rig.close(opened.handle).await.unwrap();
    let opened = rig.engine.open(ino, READ, ANYBODY).await.unwrap();
    assert!(matches!(opened.route, Route::Engine { keep_cache: true }), "{:?}", opened.route);
    rig.close(opened.handle).await.unwrap();
}

/// A program that has the file open and is not changing it does not stand in the way of revalidation.
#[tokio::test(start_paused = true)]
async fn an_open_file_is_revalidated_unless_it_is_being_changed() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    assert!(!rig.engine.revalidate(ino).await.unwrap(), "nothing new");
    rig.put("a", b"theirs").await.unwrap();
    assert!(rig.engine.revalidate(ino).await.unwrap());
    assert_eq!(rig.read(handle), b"theirs");
    rig.engine.write(handle, 0, b"T").await.unwrap();
    rig.put("a", b"again").await.unwrap();
    assert!(!rig.engine.revalidate(ino).await.unwrap(), "it is being changed");
    assert!(matches!(rig.close(handle).await, Err(FsError::Stale)));
    assert_eq!(rig.conflict_copy("a").await.1, b"Theirs");
}
