//! Removals that meet refused opens, leases and a kernel that forgets; names and directories of other tools.

use std::sync::Arc;

use super::super::gate::Claim;
use super::super::holders::Holder;
use super::super::testing::{CALLER, WRITE, World, segment, start, start_on};
use super::super::{AttributeChange, Kind, RenameRule};
use super::*;
use crate::share::{Access, ShareMode};

async fn yield_often() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn lookup(world: &World, name: &str) -> Result<Ino> {
    world.engine.lookup(ROOT, &segment(name)).await.map(|stat| stat.ino)
}

async fn marks(world: &World) -> usize {
    let query = ListQuery { prefix: format!("{RESERVED}/pending/"), max: PAGE, ..ListQuery::default() };
    let page =
        crate::store::BlobStore::list_blobs(&*world.store, world.engine.share(), &query).await.unwrap();
    page.items.len()
}

/// What passes the gate for the pipe `f` and is refused afterwards.
#[derive(Clone, Copy, Debug)]
enum Refused {
    Open,
    Truncate,
    Rename,
}

async fn be_refused(engine: Arc<Engine>, ino: Ino, how: Refused) {
    match how {
        Refused::Open => drop(engine.open(ino, WRITE, CALLER).await.unwrap_err()),
        Refused::Truncate => {
            let change = AttributeChange { size: Some(0), ..AttributeChange::default() };
            drop(engine.change(ino, None, change, CALLER).await.unwrap_err());
        }
        Refused::Rename => {
            let (from, to) = (segment("f"), segment("taken"));
            drop(engine.rename((ROOT, &from), (ROOT, &to), RenameRule::NoReplace).await.unwrap_err());
        }
    }
}

/// The removal meets an open that is refused a moment later: nobody else is going to close the file.
#[tokio::test]
async fn a_refused_open_finishes_a_removal_that_came_meanwhile() {
    for how in [Refused::Open, Refused::Truncate, Refused::Rename] {
        let world = start().await;
        world.put(ROOT, "taken", b"").await;
        let made = world.engine.make_node(ROOT, &segment("f"), Kind::Fifo, 0o644, CALLER).await;
        let ino = made.unwrap().ino;
        let guard = world.engine.guard_entry(ROOT, &segment("f")).await;
        let refused = tokio::spawn(be_refused(Arc::clone(&world.engine), ino, how));
        yield_often().await;
        assert_eq!(world.engine.gate.open_count(ino), 1, "{how:?}: past the gate");
        let engine = Arc::clone(&world.engine);
        let removed = tokio::spawn(async move { engine.unlink(ROOT, &segment("f")).await });
        yield_often().await;
        drop(guard);
        refused.await.unwrap();
        removed.await.unwrap().unwrap();
        assert!(matches!(lookup(&world, "f").await, Err(FsError::NotFound)), "{how:?}");
        assert_eq!(marks(&world).await, 0, "{how:?}");
        world.put(ROOT, "f", b"new").await;
    }
}

/// A file that is open, removed, and leased by somebody elsewhere.
async fn leased_and_pending(world: &World) -> super::super::HandleId {
    let (_, handle) = world.create(ROOT, "f", b"x").await;
    world.engine.flush(handle, 1).await.unwrap();
    world.engine.unlink(ROOT, &segment("f")).await.unwrap();
    world.lease(&world.at("f")).await;
    handle
}

#[tokio::test]
async fn a_removed_file_that_was_leased_meanwhile_goes_when_the_lease_ends() {
    for asked in [true, false] {
        let world = start().await;
        let handle = leased_and_pending(&world).await;
        world.engine.release(handle).await.unwrap();
        assert!(matches!(lookup(&world, "f").await, Err(FsError::DeletePending)));
        assert_eq!(marks(&world).await, 1, "a crash must not bring it back");
        world.end_lease(&world.at("f")).await;
        if !asked {
            world.engine.finish_removes().await;
            assert_eq!(marks(&world).await, 0);
        }
        assert!(matches!(lookup(&world, "f").await, Err(FsError::NotFound)));
        assert_eq!(marks(&world).await, 0);
        world.put(ROOT, "f", b"new").await;
    }
}

#[tokio::test]
async fn a_removed_file_that_is_leased_does_not_keep_a_share_from_starting() {
    let world = start().await;
    let _never_closed = leased_and_pending(&world).await;
    let world = world.start_again().await;
    assert!(matches!(lookup(&world, "f").await, Err(FsError::DeletePending)));
    world.end_lease(&world.at("f")).await;
    world.engine.finish_removes().await;
    assert!(matches!(lookup(&world, "f").await, Err(FsError::NotFound)));
    assert_eq!((marks(&world).await, world.engine.usage()), (0, (0, 0)));
}

/// Two names in its mark, of which it has the one or the other.
#[tokio::test]
async fn a_removed_file_that_was_just_moved_and_is_leased_stays_pending_after_a_crash() {
    for has_moved in [false, true] {
        let world = start().await;
        let directory = world.make_directory(ROOT, "d").await;
        let (ino, handle) = world.create(directory, "f", b"x").await;
        world.engine.flush(handle, 1).await.unwrap();
        world.engine.unlink(directory, &segment("f")).await.unwrap();
        let (from, to) = (world.at("d"), world.at("e"));
        let place = if has_moved {
            let (d, e) = (segment("d"), segment("e"));
            world.engine.rename((ROOT, &d), (ROOT, &e), RenameRule::Replace).await.unwrap();
            world.engine.write_mark(ino, &[world.at("d/f").name, world.at("e/f").name]).unwrap();
            "e"
        } else {
            world.engine.announce_move(&from, &to).await.unwrap();
            "d"
        };
        let at = world.at(&format!("{place}/f"));
        world.lease(&at).await;
        let world = world.start_again().await;
        let above = lookup(&world, place).await.unwrap();
        let found = world.engine.lookup(above, &segment("f")).await;
        assert!(matches!(found, Err(FsError::DeletePending)), "{place}: {found:?}");
        world.end_lease(&at).await;
        world.engine.finish_removes().await;
        let found = world.engine.lookup(above, &segment("f")).await;
        assert!(matches!(found, Err(FsError::NotFound)), "{place}: {found:?}");
        world.engine.forget(above, 1);
        world.engine.write_directory_times().await;
        assert_eq!((marks(&world).await, world.engine.usage()), (0, (0, 0)), "{place}");
    }
}

#[tokio::test]
async fn a_removed_file_goes_although_the_kernel_forgot_it_before_its_close() {
    let world = start().await;
    let (ino, handle) = world.create(ROOT, "f", b"x").await;
    world.engine.unlink(ROOT, &segment("f")).await.unwrap();
    world.engine.forget(ino, 1);
    world.engine.release(handle).await.unwrap();
    assert!(matches!(lookup(&world, "f").await, Err(FsError::NotFound)));
    assert_eq!((marks(&world).await, world.engine.usage()), (0, (0, 0)));
}

#[tokio::test]
async fn a_directory_that_is_replaced_passes_the_gate() {
    let world = start().await;
    world.make_directory(ROOT, "a").await;
    let held = world.make_directory(ROOT, "b").await;
    let handle = world.engine.open_directory(held);
    let claim = Claim { access: Access::READ, share: ShareMode::READ };
    world.engine.set_directory_share(handle, claim, CALLER).await.unwrap();
    let (a, b) = (segment("a"), segment("b"));
    let renamed = world.engine.rename((ROOT, &a), (ROOT, &b), RenameRule::Replace).await;
    assert!(matches!(renamed, Err(FsError::SharingViolation)), "{renamed:?}");
    world.engine.release_directory(handle);
    world.engine.rename((ROOT, &a), (ROOT, &b), RenameRule::Replace).await.unwrap();
    assert!(matches!(lookup(&world, "a").await, Err(FsError::NotFound)));
}

#[tokio::test]
async fn a_directory_marked_with_a_slash_is_removed_and_replaced() {
    let world = start().await;
    for name in ["gone/", "there/", "full/", "full/f"] {
        world.put_blob(name).await;
    }
    world.make_directory(ROOT, "a").await;
    world.engine.remove_directory(ROOT, &segment("gone")).await.unwrap();
    assert!(matches!(lookup(&world, "gone").await, Err(FsError::NotFound)));
    let (a, there, full) = (segment("a"), segment("there"), segment("full"));
    world.engine.rename((ROOT, &a), (ROOT, &there), RenameRule::Replace).await.unwrap();
    assert!(matches!(lookup(&world, "a").await, Err(FsError::NotFound)));
    let renamed = world.engine.rename((ROOT, &there), (ROOT, &full), RenameRule::Replace).await;
    assert!(matches!(renamed, Err(FsError::NotEmpty)), "{renamed:?}");
    let removed = world.engine.remove_directory(ROOT, &full).await;
    assert!(matches!(removed, Err(FsError::NotEmpty)), "{removed:?}");
}

#[tokio::test]
async fn a_create_that_fails_leaves_no_file_behind() {
    let World { engine, store, folder } = start().await;
    drop(engine);
    let engine = start_on(&store, true).await;
    let content = folder.path().join("content");
    assert!(content.is_dir());
    std::fs::rename(&content, folder.path().join("away")).unwrap();
    let made = engine.create(ROOT, &segment("f"), 0o644, WRITE, CALLER).await;
    std::fs::rename(folder.path().join("away"), &content).unwrap();
    assert!(made.is_err(), "{made:?}");
    assert!(matches!(engine.lookup(ROOT, &segment("f")).await, Err(FsError::NotFound)));
}

async fn listed(world: &World) -> Vec<(String, Kind, Kind)> {
    let (handle, mut entries) = (world.engine.open_directory(ROOT), Vec::new());
    let taken = world.engine.read_directory(handle, 0, |_, entry| {
        let told = world.engine.entry_stat(ROOT, entry).unwrap().attributes.kind;
        entries.push((entry.segment.as_str().to_owned(), entry.kind, told));
        true
    });
    taken.await.unwrap();
    world.engine.release_directory(handle);
    entries
}

/// Also if the listing has its prefix on another page than the blob, whatever is between the two.
#[tokio::test]
async fn a_blob_that_is_also_a_prefix_is_listed_as_a_directory() {
    for (between, below) in [(0, ""), (3, ""), (1023, ""), (1500, ""), (1023, "/f"), (1500, "/f")] {
        let world = start().await;
        for name in ["before", "both", "both/inner", "later", "plain"] {
            world.put_blob(name).await;
        }
        for number in 0..between {
            world.put_blob(&format!("both-{number:04}{below}")).await;
        }
        let entries = listed(&world).await;
        assert_eq!(entries.len(), between + 4);
        for (name, kind, told) in entries {
            let is_directory = name == "both" || (name.starts_with("both-") && !below.is_empty());
            let expected = if is_directory { Kind::Directory } else { Kind::File };
            assert_eq!((kind, told), (expected, expected), "{name}, {between} between{below}");
        }
    }
}

/// As when a call over REST ends in the middle.
#[tokio::test]
async fn an_open_that_is_just_dropped_leaves_the_removal_to_the_next_who_asks() {
    let world = start().await;
    let (ino, handle) = world.create(ROOT, "f", b"x").await;
    let claim = Claim { access: Access::READ, share: ShareMode::ALL };
    let permit = world.engine.gate.open(ino, claim, Holder::new(CALLER, now())).await.unwrap();
    world.engine.unlink(ROOT, &segment("f")).await.unwrap();
    world.close(handle).await;
    drop(permit);
    assert_eq!(marks(&world).await, 1, "a crash must not bring it back");
    assert!(matches!(lookup(&world, "f").await, Err(FsError::NotFound)));
    assert_eq!(marks(&world).await, 0);
    world.put(ROOT, "f", b"new").await;
}

#[tokio::test]
async fn a_removal_that_was_called_off_removes_nothing() {
    let world = start().await;
    let (ino, handle) = world.create(ROOT, "f", b"x").await;
    let removal = world.engine.gate.remove(ino, DeleteRule::Smb).await.unwrap();
    assert!(matches!(removal, Removal::Pending(_)));
    let guard = world.engine.guard_entry(ROOT, &segment("f")).await;
    let engine = Arc::clone(&world.engine);
    let closed = tokio::spawn(async move { engine.release(handle).await });
    yield_often().await;
    // Whoever wanted to remove it could not note that, and says so.
    drop(removal);
    drop(guard);
    closed.await.unwrap().unwrap();
    assert_eq!(lookup(&world, "f").await.unwrap(), ino);
    world.engine.unlink(ROOT, &segment("f")).await.unwrap();
}
