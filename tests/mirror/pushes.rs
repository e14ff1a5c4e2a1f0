//! What is changed here becomes the service's: with few requests and few bytes, and never over somebody else's version.

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::{
    BlobBody, BlobStore, BlockId, BlockKind, BlockListEntry, Changed, Fence, LeaseRequest, LocalStore,
    NewContent, StoreError, Upstream,
};

use super::rig::{CHECKED, Rig, Service, always, at, blob, curious, here, noise};

const MIB: usize = 1 << 20;

/// The bodies of the blocks that were sent.
fn blocks(service: &Service) -> Vec<u64> {
    let asked = service.asked().into_iter();
    asked.filter(|(what, _)| what.contains("comp=block&")).map(|(_, length)| length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_new_file_is_one_request() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    rig.list("").await;
    service.asked();
    rig.write_and_push("f", b"hello").await.unwrap();
    let asked = service.asked_texts();
    assert_eq!(asked, ["PUT /share/f"], "create, write and close");
    assert_eq!(service.text("f").await.unwrap(), "hello");
    rig.push("f").await.unwrap();
    rig.write_and_push("f", b"hello again").await.unwrap();
    assert_eq!(service.text("f").await.unwrap(), "hello again");
    assert_eq!(rig.mirror.status().waiting_files, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_metadata_sends_no_content() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let content = noise(9 * MIB, 1);
    rig.write_and_push("f", &content).await.unwrap();
    let changing = rig.mirror.will_change(&blob("f"), Changed::Properties).unwrap();
    let metadata = [("permissions".to_owned(), "33261".to_owned())].into();
    rig.store.set_metadata(&here("f"), metadata, &always()).unwrap();
    drop(changing);
    service.asked();
    rig.push("f").await.unwrap();
    assert!(service.asked().iter().all(|(_, length)| *length == 0));
    let there = service.client.blob_properties(&at("f"), None, &always()).await.unwrap();
    assert_eq!(there.metadata.get("permissions"), Some("33261"));
    rig.patch("f", 0, b"after", 9 * MIB as u64);
    service.asked();
    rig.push("f").await.unwrap();
    assert_eq!(blocks(&service), [4 * MIB as u64], "the blocks are still known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_change_of_a_big_file_sends_one_block() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let mut content = noise(17 * MIB, 2);
    service.asked();
    rig.write_and_push("big", &content).await.unwrap();
    assert_eq!(blocks(&service).iter().sum::<u64>(), 17 * MIB as u64);
    let change = noise(4096, 3);
    rig.patch("big", 6 * MIB as u64, &change, content.len() as u64);
    content[6 * MIB..6 * MIB + 4096].copy_from_slice(&change);
    rig.push("big").await.unwrap();
    assert_eq!(blocks(&service), [4 * MIB as u64]);
    assert!(service.bytes("big").await.unwrap() == content);
    // Written anew as a whole, as a file that is written in place is: what is the same is not sent.
    content[MIB] ^= 1;
    rig.write_and_push("big", &content).await.unwrap();
    assert_eq!(blocks(&service), [4 * MIB as u64]);
    assert!(service.bytes("big").await.unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_file_moves() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let mut content = noise(13 * MIB, 4);
    rig.write_and_push("f", &content).await.unwrap();
    service.asked();
    let more = noise(MIB, 5);
    rig.patch("f", content.len() as u64, &more, 14 * MIB as u64);
    content.extend_from_slice(&more);
    rig.push("f").await.unwrap();
    assert_eq!(blocks(&service), [2 * MIB as u64], "the short last block grows");
    assert!(service.bytes("f").await.unwrap() == content);
    // Cut and made longer again before it is pushed: zeros, not what was there.
    rig.patch("f", 0, b"", 5 * MIB as u64);
    rig.patch("f", 0, b"", 12 * MIB as u64);
    content.truncate(5 * MIB);
    content.resize(12 * MIB, 0);
    rig.push("f").await.unwrap();
    assert!(service.bytes("f").await.unwrap() == content);
    rig.patch("f", 0, b"", 6 * MIB as u64);
    content.truncate(6 * MIB);
    rig.push("f").await.unwrap();
    assert!(service.bytes("f").await.unwrap() == content);
    rig.patch("f", 0, b"", 0);
    rig.push("f").await.unwrap();
    assert_eq!(service.bytes("f").await.unwrap().len(), 0);
}

/// Brings a blob of somebody else into the mirror, content and all, as an open of it would.
async fn open_foreign(rig: &Rig, name: &str) {
    rig.list("").await;
    let ready = rig.mirror.content(&blob(name)).await.unwrap();
    let size = rig.here(name).unwrap().size;
    if let Some(fetch) = ready.fetch {
        fetch.bring(0..size).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_of_other_tools_keep_their_blocks_or_get_some() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let mut content = noise(12 * MIB, 6);
    let mut list = Vec::new();
    for (number, part) in content.chunks(3 * MIB).enumerate() {
        let id = BlockId(format!("block-{number:06}").into_bytes());
        service.client.put_block(&at("blocks"), &id, BlobBody::from(part.to_vec()), None).await.unwrap();
        list.push(BlockListEntry { kind: BlockKind::Uncommitted, id });
    }
    service.client.put_block_list(&at("blocks"), &list, NewContent::default(), &always()).await.unwrap();
    service
        .client
        .put_blob(&at("whole"), content.clone().into(), NewContent::default(), &always())
        .await
        .unwrap();
    let rig = Rig::new(&service, folder.path()).await;
    for (name, sent) in [("blocks", 3 * MIB), ("whole", 4 * MIB)] {
        open_foreign(&rig, name).await;
        rig.patch(name, 100, b"changed", 12 * MIB as u64);
        service.asked();
        rig.push(name).await.unwrap();
        let lengths: Vec<u64> = blocks(&service).into_iter().filter(|length| *length > 0).collect();
        assert_eq!(lengths, [sent as u64], "{name}");
        content[100..107].copy_from_slice(b"changed");
        assert!(service.bytes(name).await.unwrap() == content, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_never_goes_over_somebody_elses_version() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    rig.write_and_push("f", b"one").await.unwrap();
    service.put("f", "theirs").await;
    let refused = rig.write_and_push("f", b"two").await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)), "{refused:?}");
    assert_eq!(service.text("f").await.unwrap(), "theirs");
    assert_eq!(rig.mirror.status().waiting_files, 1, "what was refused stays until it is given up");
    service.put("new", "theirs").await;
    let refused = rig.write_and_push("new", b"mine").await;
    assert!(matches!(refused, Err(StoreError::BlobExists(_))), "{refused:?}");
    let unchecked = Fence { lease: None, check_version: false };
    rig.mirror.push(&blob("new"), unchecked).await.unwrap();
    assert_eq!(service.text("new").await.unwrap(), "mine", "the last writer wins if it is told to");
    // The same with blocks, of which some are gone.
    let content = noise(9 * MIB, 7);
    rig.write_and_push("big", &content).await.unwrap();
    service.put("big", "theirs").await;
    rig.patch("big", 0, b"x", 9 * MIB as u64);
    let refused = rig.push("big").await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)), "{refused:?}");
    rig.mirror.push(&blob("big"), unchecked).await.unwrap();
    assert_eq!(service.bytes("big").await.unwrap().len(), 9 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_carries_the_lease() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    for (name, length) in [("small", 10), ("big", 9 * MIB)] {
        rig.write_and_push(name, &noise(length, 1)).await.unwrap();
        let lease = LeaseRequest::Acquire { proposed: LeaseId(9), duration: LeaseDuration::INFINITE };
        service.client.lease_blob(&at(name), lease, &always()).await.unwrap();
        rig.write(name, &noise(length, 2));
        assert!(matches!(rig.push(name).await, Err(StoreError::Lease(_))), "{name}");
        rig.mirror.push(&blob(name), Fence { lease: Some(LeaseId(9)), ..CHECKED }).await.unwrap();
        assert!(service.bytes(name).await.unwrap() == noise(length, 2));
        let refused = rig.mirror.remove(&blob(name), CHECKED).await;
        assert!(matches!(refused, Err(StoreError::Lease(_))), "{refused:?}");
        drop(rig.mirror.remove(&blob(name), Fence { lease: Some(LeaseId(9)), ..CHECKED }).await.unwrap());
        assert!(service.bytes(name).await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_whose_answer_was_lost_is_known_as_its_own() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    service.fail("PUT /devstoreaccount1/share/f", 1, true, 500);
    rig.write_and_push("f", b"one").await.unwrap();
    // Lost for good: the next push finds what this one did.
    service.fail("PUT /devstoreaccount1/share/f", 1, true, 500);
    service.fail("/devstoreaccount1/share/f", 8, false, 500);
    rig.write_and_push("f", b"two").await.unwrap_err();
    rig.all_pushed().await;
    assert_eq!(service.text("f").await.unwrap(), "two");
    rig.write_and_push("f", b"three").await.unwrap();
    let big = noise(9 * MIB, 1);
    service.fail("comp=blocklist", 1, true, 500);
    rig.write_and_push("big", &big).await.unwrap();
    service.fail("comp=block&", 1, true, 500);
    service.fail("comp=metadata", 1, true, 500);
    rig.patch("big", 0, b"x", big.len() as u64);
    rig.push("big").await.unwrap();
    let changing = rig.mirror.will_change(&blob("big"), Changed::Properties).unwrap();
    rig.store.set_metadata(&here("big"), [("k".to_owned(), "v".to_owned())].into(), &always()).unwrap();
    drop(changing);
    let _ = rig.push("big").await;
    rig.all_pushed().await;
    assert_eq!(
        service.client.blob_properties(&at("big"), None, &always()).await.unwrap().metadata.get("k"),
        Some("v")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_beside_a_change_does_not_count_as_its_push() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), curious()).await;
    rig.write("f", b"one");
    let changing = rig.mirror.will_change(&blob("f"), Changed::Everything).unwrap();
    rig.push("f").await.unwrap();
    assert_eq!(service.text("f").await.unwrap(), "one");
    rig.put("f", b"two", Default::default());
    drop(changing);
    assert_eq!(rig.list("").await, ["f"]);
    assert_eq!(rig.mirror.status().waiting_files, 1, "the change is not there yet");
    rig.push("f").await.unwrap();
    assert_eq!(service.text("f").await.unwrap(), "two");
    assert_eq!(rig.mirror.status().waiting_files, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_a_version_leaves_the_next_one() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    rig.write("f", b"one");
    let refused = rig.here("f").unwrap().etag;
    rig.write("f", b"two");
    rig.mirror.give_up(&blob("f"), refused).await.unwrap();
    assert_eq!(rig.mirror.status().waiting_files, 1);
    rig.push("f").await.unwrap();
    assert_eq!(service.text("f").await.unwrap(), "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_right_is_an_error_and_nothing_is_lost() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    service.fail("PUT /devstoreaccount1/share/f", 3, false, 403);
    let denied = rig.write_and_push("f", b"one").await.unwrap_err();
    assert!(
        matches!(&denied, StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
    );
    assert_eq!(rig.mirror.status().waiting_files, 1);
    service.faults_end();
    rig.push("f").await.unwrap();
    assert_eq!(service.text("f").await.unwrap(), "one");
}

/// Changes that are announced and not made.
const ANNOUNCED: [Changed<'static>; 2] = [Changed::Everything, Changed::Ranges(&[0..3, 4..6])];

/// A mirror that knows a file of the service's, has none of its bytes, and heard of such a change.
async fn announced(what: Changed<'_>) -> (Service, tempfile::TempDir, Rig) {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    service.put("f", "theirs").await;
    rig.list("").await;
    drop(rig.mirror.will_change(&blob("f"), what).unwrap());
    (service, folder, rig)
}

/// A commit can be refused here after it was announced; what is there then is the service's, and not here yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_announced_and_never_made_leaves_the_services_bytes() {
    for what in ANNOUNCED {
        let (service, _folder, rig) = announced(what).await;
        let ready = rig.mirror.content(&blob("f")).await.unwrap();
        if let Some(fetch) = ready.fetch {
            fetch.bring(0..6).await.unwrap();
        }
        let mut bytes = [0; 6];
        rig.store.reader(&here("f")).unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"theirs", "{what:?}");
        service.asked();
        rig.push("f").await.unwrap();
        assert_eq!(service.asked(), [], "there is nothing to push");
        assert_eq!(rig.mirror.status().waiting_files, 0);
    }
}

/// The same after the mount died in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_announced_before_a_death_is_not_pushed() {
    for what in ANNOUNCED {
        let (service, folder, rig) = announced(what).await;
        rig.close().await;
        let rig = Rig::new(&service, folder.path()).await;
        rig.all_pushed().await;
        assert_eq!(service.text("f").await.as_deref(), Some("theirs"), "{what:?}");
    }
}
