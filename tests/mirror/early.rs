//! What is sent while a file is still being written shortens its push, and never changes what is pushed.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use leasefs::store::{BlobBody, BlobStore, BlockId, Changed, LocalStore, NewContent, Scratch, Upstream};

use super::rig::{Rig, Service, always, at, blob, here, noise};

const MIB: usize = 1 << 20;
const BLOCK: usize = 4 * MIB;

/// The bodies of the blocks that were sent.
fn blocks(service: &Service) -> Vec<usize> {
    let asked = service.asked().into_iter().filter(|(what, _)| what.contains("comp=block&"));
    asked.map(|(_, length)| usize::try_from(length).unwrap()).collect()
}

/// A file that a program is writing: `content` is there so far.
fn writing(rig: &Rig, content: &[u8]) -> Scratch {
    let scratch = rig.store.scratch().unwrap();
    scratch.file().write_all_at(content, 0).unwrap();
    scratch
}

async fn send_early(rig: &Rig, scratch: &Scratch, written: usize) {
    rig.mirror.send_early(&blob("f"), scratch.file(), written as u64, None).await.unwrap();
}

/// What its close does.
async fn close(rig: &Rig, scratch: &Scratch, size: usize) {
    {
        let _changing = rig.mirror.will_change(&blob("f"), Changed::Everything).unwrap();
        rig.store.publish(&here("f"), scratch, size as u64, NewContent::default(), &always()).unwrap();
    }
    rig.push("f").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_while_it_was_written_is_not_sent_at_the_close() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let content = noise(5 * BLOCK + 1000, 1);
    let scratch = writing(&rig, &content);
    send_early(&rig, &scratch, BLOCK + 10).await;
    assert_eq!(blocks(&service), [0; 0], "the program may still be at work on the first block");
    send_early(&rig, &scratch, 3 * BLOCK).await;
    assert_eq!(blocks(&service), [BLOCK; 2]);
    send_early(&rig, &scratch, 3 * BLOCK).await;
    assert_eq!(blocks(&service), [0; 0], "once is enough");
    assert!(service.bytes("f").await.is_none(), "nobody sees it");
    close(&rig, &scratch, content.len()).await;
    let mut rest = blocks(&service);
    rest.sort_unstable();
    assert_eq!(rest, [1000, BLOCK, BLOCK, BLOCK]);
    assert!(service.bytes("f").await.unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_was_changed_after_it_was_sent_is_sent_again() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let mut content = noise(4 * BLOCK, 2);
    let scratch = writing(&rig, &content);
    send_early(&rig, &scratch, content.len()).await;
    assert_eq!(blocks(&service).len(), 3);
    content[BLOCK + 7..BLOCK + 10].copy_from_slice(b"new");
    scratch.file().write_all_at(b"new", BLOCK as u64 + 7).unwrap();
    close(&rig, &scratch, content.len()).await;
    assert_eq!(blocks(&service).len(), 2, "the changed one and the last");
    assert!(service.bytes("f").await.unwrap() == content);
    // Written on after the close of another handle: what is committed is not sent again.
    content.extend_from_slice(&noise(2 * BLOCK, 3));
    scratch.file().write_all_at(&content[4 * BLOCK..], 4 * BLOCK as u64).unwrap();
    send_early(&rig, &scratch, content.len()).await;
    assert_eq!(blocks(&service).len(), 1);
    close(&rig, &scratch, content.len()).await;
    assert_eq!(blocks(&service).len(), 1);
    assert!(service.bytes("f").await.unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_the_service_dropped_are_sent_again() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let content = noise(3 * BLOCK + 1, 4);
    let scratch = writing(&rig, &content);
    send_early(&rig, &scratch, content.len()).await;
    assert_eq!(blocks(&service).len(), 2);
    // Somebody commits and removes a blob of that name: the service has no block of it any more.
    service.put("f", "theirs").await;
    service.delete("f").await;
    close(&rig, &scratch, content.len()).await;
    assert!(service.bytes("f").await.unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_early_is_sent_with_the_commit() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    // Blocks of a blob have ids of one length; somebody else began it with others.
    let short = BlockId(b"short-id".to_vec());
    service
        .client
        .put_block(&at("f"), &short, BlobBody::from(bytes::Bytes::from_static(b"x")), None)
        .await
        .unwrap();
    let content = Arc::new(noise(3 * BLOCK, 5));
    let scratch = writing(&rig, &content);
    let early = rig.mirror.send_early(&blob("f"), scratch.file(), content.len() as u64, None).await;
    assert!(early.is_err(), "the service takes no block with a longer id: {early:?}");
    service.put("f", "theirs").await;
    service.delete("f").await;
    close(&rig, &scratch, content.len()).await;
    assert!(service.bytes("f").await.unwrap() == *content);
}
