//! Closes that come late: the kernel tells of a close after close(2) has returned, when others are at work already.

use crate::rig::{READ, Rig, WRITE};
use leasefs::fs::OpenRequest;

const OVERWRITE: OpenRequest = OpenRequest { truncate: true, ..WRITE };

/// A reader is there all the time, so the new writer does not wait for the end of the last one.
#[tokio::test]
async fn a_late_close_commits_nothing_of_the_next_writer() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"old").await;
    let reader = rig.open(ino, READ).await.unwrap();
    let first = rig.open(ino, WRITE).await.unwrap();
    rig.engine.write(first, 0, b"one").await.unwrap();
    rig.engine.flush(first, 0).await.unwrap();
    assert_eq!(rig.content("a").await, b"one");
    let second = rig.open(ino, OVERWRITE).await.unwrap();
    rig.engine.write(second, 0, b"tw").await.unwrap();
    rig.engine.release(first).await.unwrap();
    assert_eq!(rig.content("a").await, b"one", "half of the second writer's work was committed");
    rig.engine.write(second, 2, b"o").await.unwrap();
    rig.close(second).await.unwrap();
    assert_eq!(rig.content("a").await, b"two");
    rig.close(reader).await.unwrap();
}

/// What was written through a handle after its flush (a second descriptor, a mapping) is committed at its end.
#[tokio::test]
async fn what_was_written_after_the_flush_is_committed_at_the_last_close() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"old").await;
    let (first, second) = (rig.open(ino, WRITE).await.unwrap(), rig.open(ino, WRITE).await.unwrap());
    rig.engine.flush(first, 0).await.unwrap();
    rig.engine.write(first, 0, b"new").await.unwrap();
    rig.engine.release(first).await.unwrap();
    assert_eq!(rig.content("a").await, b"new");
    rig.engine.write(second, 0, b"end").await.unwrap();
    rig.engine.release(second).await.unwrap();
    assert_eq!(rig.content("a").await, b"end");
}

#[tokio::test]
async fn a_reader_commits_nothing() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"old").await;
    let (reader, writer) = (rig.open(ino, READ).await.unwrap(), rig.open(ino, WRITE).await.unwrap());
    rig.engine.write(writer, 0, b"new").await.unwrap();
    assert_eq!(rig.read(reader), b"new");
    rig.close(reader).await.unwrap();
    assert_eq!(rig.content("a").await, b"old");
    rig.close(writer).await.unwrap();
    assert_eq!(rig.content("a").await, b"new");
}
