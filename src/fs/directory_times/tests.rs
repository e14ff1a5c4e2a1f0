//! Times that wait, between the requests that meet them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::super::testing::{CALLER, World, segment, start};
use super::super::{AttributeChange, Engine, Kind, XattrMode};
use super::*;
use crate::store::{BlobStore, DeleteSnapshots, LocalStore, Preconditions};

const LONG_AGO: Moment = Moment(1_000_000_000);

async fn mtime(engine: &Engine, directory: Ino) -> Moment {
    engine.stat(directory).await.unwrap().attributes.mtime
}

async fn set_mtime(engine: &Engine, directory: Ino, mtime: Moment) {
    let change = AttributeChange { mtime: Some(mtime), ..AttributeChange::default() };
    engine.change(directory, None, change, CALLER).await.unwrap();
}

/// Two directories whose times wait.
async fn two_touched(world: &World) -> [Ino; 2] {
    let directories = [world.make_directory(ROOT, "one").await, world.make_directory(ROOT, "other").await];
    world.engine.write_directory_times().await;
    for directory in directories {
        world.put(directory, "first", b"").await;
    }
    directories
}

/// Begins to write them; whichever comes first waits until the answered guards are dropped.
async fn write_held(world: &World) -> (JoinHandle<()>, impl Sized) {
    let guards = world.engine.guard_entries((ROOT, &segment("one")), (ROOT, &segment("other"))).await;
    let engine = Arc::clone(&world.engine);
    let writing = tokio::spawn(async move { engine.write_directory_times().await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!writing.is_finished());
    (writing, guards)
}

#[tokio::test]
async fn a_time_that_waits_never_overwrites_one_that_was_set() {
    let world = start().await;
    let [one, other] = two_touched(&world).await;
    let (writing, guards) = write_held(&world).await;
    drop(guards);
    tokio::join!(set_mtime(&world.engine, one, LONG_AGO), set_mtime(&world.engine, other, LONG_AGO));
    writing.await.unwrap();
    world.engine.write_directory_times().await;
    assert_eq!([mtime(&world.engine, one).await, mtime(&world.engine, other).await], [LONG_AGO; 2]);
}

#[tokio::test]
async fn a_directorys_time_never_goes_back() {
    let world = start().await;
    let directories = two_touched(&world).await;
    let (writing, guards) = write_held(&world).await;
    let before = now();
    for directory in directories {
        assert!(mtime(&world.engine, directory).await > LONG_AGO);
        world.put(directory, "second", b"").await;
        assert!(mtime(&world.engine, directory).await >= before, "while it is being written");
    }
    drop(guards);
    writing.await.unwrap();
    for directory in directories {
        assert!(mtime(&world.engine, directory).await >= before, "written");
    }
    world.engine.write_directory_times().await;
    let world = world.start_again().await;
    for name in ["one", "other"] {
        let stat = world.engine.lookup(ROOT, &segment(name)).await.unwrap();
        assert!(stat.attributes.mtime >= before, "{name}: after a restart");
    }
}

#[tokio::test]
async fn stat_has_a_time_that_is_just_being_written() {
    let world = start().await;
    let directories = two_touched(&world).await;
    let times = [mtime(&world.engine, directories[0]).await, mtime(&world.engine, directories[1]).await];
    let (writing, guards) = write_held(&world).await;
    let meanwhile = [mtime(&world.engine, directories[0]).await, mtime(&world.engine, directories[1]).await];
    assert_eq!(meanwhile, times);
    drop(guards);
    writing.await.unwrap();
}

#[tokio::test]
async fn the_time_of_a_directory_that_the_kernel_forgot_is_written() {
    let world = start().await;
    let above = world.make_directory(ROOT, "above").await;
    let directory = world.make_directory(above, "d").await;
    world.engine.write_directory_times().await;
    let before = now();
    let file = world.put(directory, "f", b"").await;
    for ino in [file, directory, above] {
        world.engine.forget(ino, 1);
    }
    world.engine.write_directory_times().await;
    assert_eq!(world.engine.usage(), (0, 0), "nothing is left behind");
    let world = world.start_again().await;
    let above = world.engine.lookup(ROOT, &segment("above")).await.unwrap().ino;
    let stat = world.engine.lookup(above, &segment("d")).await.unwrap();
    assert!(stat.attributes.mtime >= before);
}

#[tokio::test]
async fn many_waiting_times_are_written_by_somebody_else() {
    let world = start().await;
    let mut directories = Vec::new();
    for number in 0..=WAITING_MANY {
        directories.push(world.make_directory(ROOT, &format!("d{number}")).await);
    }
    world.engine.write_directory_times().await;
    for directory in &directories {
        world.engine.touch_directory(*directory).await;
    }
    // Nothing ran beside this task yet, so whoever came last did not write.
    assert_eq!(world.engine.directory_times.all().len(), directories.len());
    tokio::time::timeout(Duration::from_secs(30), async {
        while !world.engine.directory_times.all().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_time_that_cannot_be_written_waits() {
    let world = start().await;
    let directory = world.make_directory(ROOT, "d").await;
    world.engine.write_directory_times().await;
    let before = now();
    world.put(directory, "f", b"").await;
    let at = world.engine.guard_name(directory).await.unwrap().unwrap().at.clone();
    world.lease(&at).await;
    world.engine.write_directory_times().await;
    assert!(mtime(&world.engine, directory).await >= before);
    world.end_lease(&at).await;
    world.engine.write_directory_times().await;
    assert!(world.engine.directory_times.get(directory).is_none());
    assert!(mtime(&world.engine, directory).await >= before);
}

/// A blob with bytes and others below its name is shown as a directory, but stays what it is.
#[tokio::test]
async fn a_plain_blob_that_is_shown_as_a_directory_keeps_its_bytes() {
    let world = start().await;
    world.put_blob("data").await;
    world.put_blob("data/x").await;
    let directory = world.engine.lookup(ROOT, &segment("data")).await.unwrap().ino;
    world.put(directory, "y", b"").await;
    world.engine.write_directory_times().await;
    let change = AttributeChange { mode: Some(0o700), ..AttributeChange::default() };
    world.engine.change(directory, None, change, CALLER).await.unwrap();
    world.engine.set_xattr(directory, b"user.a", b"b", XattrMode::Set).await.unwrap();
    for name in ["x", "y"] {
        world.engine.unlink(directory, &segment(name)).await.unwrap();
    }
    let stat = world.engine.lookup(ROOT, &segment("data")).await.unwrap();
    assert_eq!((stat.attributes.kind, stat.size), (Kind::File, 1));
}

#[tokio::test]
async fn attributes_of_a_file_that_others_replaced_change_nothing_of_the_new_one() {
    let world = start().await;
    let (ino, handle) = world.create(ROOT, "f", b"old").await;
    let (at, always) = (world.at("f"), Preconditions::default());
    world.store.delete_blob(&at, DeleteSnapshots::Include, &always).await.unwrap();
    world.put_blob("f").await;
    let before = world.store.find(&at).unwrap().blob.unwrap().etag;
    let change = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
    let changed = world.engine.change(ino, Some(handle), change, CALLER).await;
    assert!(matches!(changed, Err(FsError::Stale)), "{changed:?}");
    let changed = world.engine.set_xattr(ino, b"user.a", b"b", XattrMode::Set).await;
    assert!(matches!(changed, Err(FsError::Stale)), "{changed:?}");
    assert_eq!(world.store.find(&at).unwrap().blob.unwrap().etag, before);
}

/// As on a share elsewhere.
#[test]
fn a_time_that_is_never_written_keeps_no_directory_though_that_is_moved() {
    let (times, nodes, directory) = (DirectoryTimes::default(), Nodes::default(), Ino(7));
    nodes.remember(directory, ROOT, &segment("d"));
    times.touch(directory, LONG_AGO, PathHold::default);
    nodes.moved(directory, ROOT, &segment("e"));
    times.follow_move(&nodes, directory);
    nodes.forget(directory, 1);
    assert!(nodes.is_empty());
}
