//! An engine on a mirror: what it asks the service, what it tells it, and who is refused when two meet there.
//!
//! The service is a store in this process, so a stranger can act between any two steps. `remote_mount` does the same
//! over HTTP with real mounts.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[path = "remote/exchanges.rs"]
mod exchanges;
#[path = "remote/rig.rs"]
mod rig;

use leasefs::fs::nodes::ROOT;
use leasefs::fs::policy::SharePolicy;
use leasefs::fs::{AttributeChange, FsError, RenameRule, XattrMode};
use leasefs::share::lease::LeaseDuration;
use leasefs::store::{LeaseRequest, StoreError};
use rig::{ANYBODY, NEW, READ, STRANGER, There, WRITE, segment};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_closed_is_at_the_service() {
    let there = There::new().await;
    let here = there.mirrored().await;
    let (_, opened) = here.engine.create(ROOT, &segment("a"), 0o640, WRITE, ANYBODY).await.unwrap();
    here.engine.write(opened.handle, 0, b"one").await.unwrap();
    assert_eq!(there.get("a").await, None, "a plain create is there with its first commit");
    here.close(opened.handle).await.unwrap();
    assert_eq!(there.get("a").await.as_deref(), Some(&b"one"[..]));
    assert_eq!(there.metadata("a").await.get("permissions"), Some("33184"));
    // fsync is enough, too.
    let handle = here.open("a", WRITE).await.unwrap();
    here.engine.write(handle, 3, b", two").await.unwrap();
    here.engine.fsync(handle).await.unwrap();
    assert_eq!(there.get("a").await.as_deref(), Some(&b"one, two"[..]));
    here.close(handle).await.unwrap();
    // An empty file, a directory, a link, attributes.
    let (_, opened) = here.engine.create(ROOT, &segment("empty"), 0o644, WRITE, ANYBODY).await.unwrap();
    here.close(opened.handle).await.unwrap();
    assert_eq!(there.get("empty").await.as_deref(), Some(&b""[..]));
    let dir = here.engine.make_directory(ROOT, &segment("d"), 0o755, ANYBODY).await.unwrap();
    assert_eq!(there.metadata("d").await.get("hdi_isfolder"), Some("true"));
    here.engine.make_symlink(dir.ino, &segment("l"), b"../a", ANYBODY).await.unwrap();
    assert_eq!(there.get("d/l").await.as_deref(), Some(&b"../a"[..]));
    let ino = here.lookup("a").await.unwrap();
    let mode = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
    here.engine.change(ino, None, mode, ANYBODY).await.unwrap();
    assert_eq!(there.metadata("a").await.get("permissions"), Some("33152"));
    here.engine.set_xattr(ino, b"user.x", b"y", XattrMode::Set).await.unwrap();
    assert!(there.metadata("a").await.iter().any(|(key, _)| key.starts_with("xattr")));
    let size = AttributeChange { size: Some(2), ..AttributeChange::default() };
    here.engine.change(ino, None, size, ANYBODY).await.unwrap();
    assert_eq!(there.get("a").await.as_deref(), Some(&b"on"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_machine_sees_it_and_may_remove_and_rename_it() {
    let there = There::new().await;
    let (one, two) = (there.mirrored().await, there.mirrored().await);
    one.file("a", b"first").await;
    assert_eq!(two.cat("a").await.unwrap(), b"first");
    one.file("b", b"more").await;
    assert_eq!(two.list(ROOT).await, ["a", "b"]);
    // What two changes, one sees at its next open.
    let handle = two.open("a", WRITE).await.unwrap();
    two.engine.write(handle, 0, b"FIRST!").await.unwrap();
    two.close(handle).await.unwrap();
    assert_eq!(one.cat("a").await.unwrap(), b"FIRST!");
    let size = one.engine.stat(one.lookup("a").await.unwrap()).await.unwrap().size;
    assert_eq!(size, 6);
    two.engine.rename((ROOT, &segment("a")), (ROOT, &segment("b")), RenameRule::Replace).await.unwrap();
    assert_eq!(there.names().await, ["b"]);
    assert_eq!(one.cat("b").await.unwrap(), b"FIRST!");
    assert!(matches!(one.lookup("a").await, Err(FsError::NotFound)));
    one.engine.unlink(ROOT, &segment("b")).await.unwrap();
    assert_eq!(there.names().await, [""; 0]);
    assert!(matches!(two.lookup("b").await, Err(FsError::NotFound)));
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_come_and_go_there() {
    let there = There::new().await;
    let (one, two) = (there.mirrored().await, there.mirrored().await);
    there.put("in/a/deep", b"x").await.unwrap();
    assert_eq!(one.cat("in/a/deep").await.unwrap(), b"x");
    let dir = one.lookup("in").await.unwrap();
    let sub = one.engine.make_directory(dir, &segment("b"), 0o755, ANYBODY).await.unwrap();
    let (_, opened) = one.engine.create(sub.ino, &segment("f"), 0o644, WRITE, ANYBODY).await.unwrap();
    one.engine.write(opened.handle, 0, b"y").await.unwrap();
    one.close(opened.handle).await.unwrap();
    let refused = one.engine.remove_directory(dir, &segment("b")).await;
    assert!(matches!(refused, Err(FsError::NotEmpty)), "{refused:?}");
    one.engine.rename((ROOT, &segment("in")), (ROOT, &segment("out")), RenameRule::Replace).await.unwrap();
    assert_eq!(two.cat("out/a/deep").await.unwrap(), b"x");
    assert_eq!(two.cat("out/b/f").await.unwrap(), b"y");
    assert!(there.names().await.iter().all(|name| name.starts_with("out")), "{:?}", there.names().await);
    let out = two.lookup("out").await.unwrap();
    let a = two.lookup("out/a").await.unwrap();
    two.engine.unlink(a, &segment("deep")).await.unwrap();
    // The directory stays although nothing is in it any more.
    assert_eq!(one.list(one.lookup("out/a").await.unwrap()).await, [""; 0]);
    two.engine.remove_directory(out, &segment("a")).await.unwrap();
    assert!(matches!(one.lookup("out/a").await, Err(FsError::NotFound)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_must_be_new_is_decided_by_the_service() {
    let there = There::new().await;
    let (one, two) = (there.mirrored().await, there.mirrored().await);
    let (_, opened) = one.engine.create(ROOT, &segment("lock"), 0o644, NEW, ANYBODY).await.unwrap();
    assert_eq!(there.get("lock").await.as_deref(), Some(&b""[..]), "it is there at once");
    let refused = two.engine.create(ROOT, &segment("lock"), 0o644, NEW, ANYBODY).await;
    assert!(matches!(refused, Err(FsError::Exists)), "{refused:?}");
    one.close(opened.handle).await.unwrap();
    one.engine.unlink(ROOT, &segment("lock")).await.unwrap();
    let (_, opened) = two.engine.create(ROOT, &segment("lock"), 0o644, NEW, ANYBODY).await.unwrap();
    two.close(opened.handle).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_to_commit_wins_and_the_other_keeps_its_work() {
    let there = There::new().await;
    let (one, two) = (there.mirrored().await, there.mirrored().await);
    one.file("plan", b"begin").await;
    let (mine, yours) = (one.open("plan", WRITE).await.unwrap(), two.open("plan", WRITE).await.unwrap());
    one.engine.write(mine, 0, b"ONE").await.unwrap();
    two.engine.write(yours, 0, b"TWO").await.unwrap();
    two.close(yours).await.unwrap();
    let refused = one.close(mine).await;
    assert!(matches!(refused, Err(FsError::Stale)), "{refused:?}");
    assert_eq!(there.get("plan").await.as_deref(), Some(&b"TWOin"[..]));
    assert_eq!(one.cat("plan").await.unwrap(), b"TWOin", "the service's version took its place");
    assert_eq!(one.engine.conflicts(), 1);
    let copies: Vec<String> =
        there.names().await.into_iter().filter(|name| name.contains(".conflict-here-")).collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(there.get(&copies[0]).await.as_deref(), Some(&b"ONEin"[..]));
    // Two files of one name, made at the same time.
    let make = |here| async move {
        let here: &rig::Here = here;
        let (_, opened) = here.engine.create(ROOT, &segment("new"), 0o644, WRITE, ANYBODY).await.unwrap();
        here.engine.write(opened.handle, 0, b"made").await.unwrap();
        opened.handle
    };
    let (mine, yours) = (make(&one).await, make(&two).await);
    one.close(mine).await.unwrap();
    let refused = two.close(yours).await;
    assert!(matches!(refused, Err(FsError::Stale)), "{refused:?}");
    assert_eq!(two.engine.conflicts(), 1);
    // A big file: only what was changed is sent, and the rest is kept with it.
    let big: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    one.file("big", &big).await;
    let (mine, yours) = (one.open("big", WRITE).await.unwrap(), two.open("big", WRITE).await.unwrap());
    one.engine.write(mine, 5, b"ONE").await.unwrap();
    two.engine.write(yours, 2_000_000, b"TWO").await.unwrap();
    one.close(mine).await.unwrap();
    assert!(matches!(two.close(yours).await, Err(FsError::Stale)));
    let mut expected = big.clone();
    expected[5..8].copy_from_slice(b"ONE");
    assert!(there.get("big").await.unwrap() == expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exclusive_open_keeps_strangers_out_at_the_service() {
    let there = There::new().await;
    let (one, two) = (there.mirrored_with(SharePolicy::Exclusive).await, there.mirrored().await);
    there.put("held", b"before").await.unwrap();
    let handle = one.open("held", WRITE).await.unwrap();
    assert!(matches!(there.put("held", b"stranger").await, Err(StoreError::Lease(_))));
    let refused = two.open("held", WRITE).await;
    assert!(matches!(refused, Err(FsError::Leased(_))), "{refused:?}");
    assert_eq!(two.cat("held").await.unwrap(), b"before", "reading still works");
    one.engine.write(handle, 0, b"AFTER!").await.unwrap();
    one.close(handle).await.unwrap();
    assert_eq!(there.get("held").await.as_deref(), Some(&b"AFTER!"[..]));
    there.put("held", b"stranger").await.unwrap();
    assert_eq!(two.cat("held").await.unwrap(), b"stranger");
    // A new file is there, leased, from the start.
    let (_, opened) = one.engine.create(ROOT, &segment("fresh"), 0o644, WRITE, ANYBODY).await.unwrap();
    assert!(matches!(there.put("fresh", b"stranger").await, Err(StoreError::Lease(_))));
    one.close(opened.handle).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_takes_the_lease_along() {
    let there = There::new().await;
    there.put("held", b"before").await.unwrap();
    let (held, kept) = (segment("held"), segment("kept"));
    // An exclusive open does not share renames.
    let exclusive = there.mirrored_with(SharePolicy::Exclusive).await;
    let handle = exclusive.open("held", WRITE).await.unwrap();
    let refused = exclusive.engine.rename((ROOT, &held), (ROOT, &kept), RenameRule::Replace).await;
    assert!(matches!(refused, Err(FsError::SharingViolation)), "{refused:?}");
    exclusive.close(handle).await.unwrap();
    let here = there.mirrored_pessimistic().await;
    let handle = here.open("held", WRITE).await.unwrap();
    assert!(matches!(there.put("held", b"stranger").await, Err(StoreError::Lease(_))));
    here.engine.write(handle, 0, b"AFTER!").await.unwrap();
    here.engine.rename((ROOT, &held), (ROOT, &kept), RenameRule::Replace).await.unwrap();
    assert!(matches!(there.put("kept", b"stranger").await, Err(StoreError::Lease(_))));
    here.close(handle).await.unwrap();
    assert_eq!(there.get("kept").await.as_deref(), Some(&b"AFTER!"[..]));
    there.put("kept", b"stranger").await.unwrap();
    assert_eq!(here.cat("kept").await.unwrap(), b"stranger");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_lease_refuses_writers_and_nobody_else() {
    let there = There::new().await;
    let here = there.mirrored().await;
    there.put("theirs", b"text").await.unwrap();
    let take = LeaseRequest::Acquire { proposed: STRANGER, duration: LeaseDuration::INFINITE };
    there.lease("theirs", take).await.unwrap();
    let refused = here.open("theirs", WRITE).await;
    assert!(matches!(refused, Err(FsError::Leased(_))), "{refused:?}");
    assert_eq!(here.cat("theirs").await.unwrap(), b"text");
    let refused = here.engine.unlink(ROOT, &segment("theirs")).await;
    assert!(matches!(refused, Err(FsError::Leased(_))), "{refused:?}");
    assert_eq!(here.cat("theirs").await.unwrap(), b"text", "it is still here");
    there.lease("theirs", LeaseRequest::Release { id: STRANGER }).await.unwrap();
    let handle = here.open("theirs", WRITE).await.unwrap();
    here.close(handle).await.unwrap();
    here.engine.unlink(ROOT, &segment("theirs")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_file_that_is_open_goes_with_its_last_close() {
    let there = There::new().await;
    let here = there.mirrored().await;
    here.file("a", b"text").await;
    let handle = here.open("a", READ).await.unwrap();
    here.engine.unlink(ROOT, &segment("a")).await.unwrap();
    assert!(there.get("a").await.is_some());
    assert_eq!(here.list(ROOT).await, [""; 0]);
    assert_eq!(here.read_at(handle, 0, 9).await.unwrap(), b"text");
    here.close(handle).await.unwrap();
    assert_eq!(there.get("a").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn big_content_is_read_piece_by_piece() {
    let there = There::new().await;
    let here = there.mirrored().await;
    let big: Vec<u8> = (0..9_000_000u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    there.put("big", &big).await.unwrap();
    let handle = here.open("big", READ).await.unwrap();
    for (offset, length) in [(8_999_000, 4096), (5_000_001, 70_000), (0, 10), (4_194_300, 10)] {
        let expected = &big[offset..(offset + length).min(big.len())];
        assert!(here.read_at(handle, offset as u64, length).await.unwrap() == expected, "{offset}");
    }
    here.close(handle).await.unwrap();
    // A small change in it, through an open that never read the rest.
    let other = there.mirrored().await;
    let handle = other.open("big", WRITE).await.unwrap();
    other.engine.write(handle, 7_000_000, b"changed").await.unwrap();
    assert_eq!(other.read_at(handle, 6_999_999, 3).await.unwrap()[1..], b"ch"[..]);
    other.close(handle).await.unwrap();
    let mut expected = big;
    expected[7_000_000..7_000_007].copy_from_slice(b"changed");
    assert!(there.get("big").await.unwrap() == expected);
    assert!(here.cat("big").await.unwrap() == expected);
    assert!(other.cat("big").await.unwrap() == expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_finds_what_was_there_and_what_changed_meanwhile() {
    let there = There::new().await;
    let here = there.mirrored().await;
    here.file("same", b"as it was").await;
    here.file("changed", b"before").await;
    here.file("gone", b"soon").await;
    let here = there.again(here).await;
    there.put("changed", b"after").await.unwrap();
    there.delete("gone").await;
    assert_eq!(here.cat("same").await.unwrap(), b"as it was");
    assert_eq!(here.cat("changed").await.unwrap(), b"after");
    assert!(matches!(here.lookup("gone").await, Err(FsError::NotFound)));
    assert_eq!(here.list(ROOT).await, ["changed", "same"]);
}
