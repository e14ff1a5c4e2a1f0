//! Renames at a service that knows none.

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::{BlobStore, LeaseRequest, RenameMode, StoreError};

use super::rig::{Rig, Service, always, at, curious, noise};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_renamed_there_and_here() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), curious()).await;
    rig.write_and_push("a", b"content").await.unwrap();
    rig.rename("a", "b", RenameMode::NoReplace).await.unwrap();
    assert_eq!(service.names().await, ["b"]);
    assert_eq!(service.text("b").await.unwrap(), "content");
    let version = rig.here("b").unwrap().etag;
    assert_eq!(rig.list("").await, ["b"]);
    assert_eq!(rig.here("b").unwrap().etag, version, "what is known moved along");
    rig.write_and_push("b", b"changed").await.unwrap();
    rig.write_and_push("a", b"other").await.unwrap();
    let refused = rig.rename("a", "b", RenameMode::NoReplace).await;
    assert!(matches!(refused, Err(StoreError::BlobExists(_))), "{refused:?}");
    rig.rename("a", "b", RenameMode::Replace).await.unwrap();
    assert_eq!(
        (service.names().await, service.text("b").await),
        (vec!["b".to_owned()], Some("other".into()))
    );
    assert_eq!(rig.list("").await, ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_right_behind_a_renames_copy_stays() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), curious()).await;
    rig.write_and_push("a", b"moved").await.unwrap();
    rig.write_and_push("b", b"replaced").await.unwrap();
    let copy = service.hold("PUT /devstoreaccount1/share/b");
    let somebody = async {
        copy.done.notified().await;
        service.put("b", "theirs").await;
        copy.go_on.notify_one();
    };
    let (renamed, ()) = tokio::join!(rig.rename("a", "b", RenameMode::Replace), somebody);
    renamed.expect("the copy was made, and what it replaced is gone");
    assert_eq!(service.names().await, ["b"]);
    assert_eq!(rig.list("").await, ["b"]);
    assert_eq!(service.text("b").await.unwrap(), "theirs");
    assert_eq!(rig.here("b").unwrap().size, 6, "this mirror has it, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_file_keeps_its_blocks_when_it_is_renamed() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    let content = noise(9 << 20, 1);
    rig.write_and_push("a", &content).await.unwrap();
    rig.rename("a", "b", RenameMode::Replace).await.unwrap();
    rig.patch("b", 0, b"x", content.len() as u64);
    service.asked();
    rig.push("b").await.unwrap();
    let sent: u64 =
        service.asked().iter().filter(|(what, _)| what.contains("comp=block&")).map(|(_, len)| len).sum();
    assert_eq!(sent, 4 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_never_there_is_renamed_here_only() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    rig.write_and_push("document", b"old").await.unwrap();
    rig.write("document.tmp", b"new");
    service.asked();
    rig.rename("document.tmp", "document", RenameMode::Replace).await.unwrap();
    rig.push("document").await.unwrap();
    assert_eq!(service.asked_texts(), ["PUT /share/document"]);
    assert_eq!((service.names().await.len(), service.text("document").await.unwrap()), (1, "new".to_owned()));
    // The fence of what it replaces holds.
    rig.write("document.tmp", b"newer");
    service.put("document", "theirs").await;
    rig.rename("document.tmp", "document", RenameMode::Replace).await.unwrap();
    assert!(matches!(rig.push("document").await, Err(StoreError::ConditionNotMet)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_renamed_with_everything_in_it() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    for number in 0..60 {
        service.put(&format!("d/sub{}/f{number}", number % 3), "x").await;
    }
    let rig = Rig::with(&service, folder.path(), curious()).await;
    assert_eq!(rig.list("").await, ["d"]);
    assert_eq!(rig.list("d").await.len(), 3);
    assert_eq!(rig.list("d/sub1").await.len(), 20);
    rig.write("d/sub1/unpushed", b"mine");
    rig.write("d/sub1/f1", b"changed");
    rig.rename("d", "e", RenameMode::NoReplace).await.unwrap();
    let names = service.names().await;
    assert_eq!(names.iter().filter(|name| name.starts_with("e/sub")).count(), 61, "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("d/") || name.starts_with(".leasefs")), "{names:?}");
    assert_eq!(service.text("e/sub1/f1").await.unwrap(), "changed");
    assert_eq!(rig.list("").await, ["e"]);
    assert_eq!(rig.list("e").await.len(), 3);
    assert_eq!(rig.list("e/sub1").await.len(), 21);
    assert_eq!(service.text("e/sub1/unpushed").await.unwrap(), "mine", "it goes along");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_with_a_leased_file_is_renamed_back() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    for number in 0..20 {
        service.put(&format!("d/f{number}"), "x").await;
    }
    let lease = LeaseRequest::Acquire { proposed: LeaseId(3), duration: LeaseDuration::INFINITE };
    service.client.lease_blob(&at("d/f9"), lease, &always()).await.unwrap();
    let rig = Rig::with(&service, folder.path(), curious()).await;
    rig.list("d").await;
    let before = service.names().await;
    let refused = rig.rename("d", "e", RenameMode::Replace).await;
    assert!(matches!(refused, Err(StoreError::Lease(_))), "{refused:?}");
    assert_eq!(service.names().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn leased_targets_are_not_replaced() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    rig.write_and_push("a", b"new").await.unwrap();
    rig.write_and_push("b", b"old").await.unwrap();
    let lease = LeaseRequest::Acquire { proposed: LeaseId(3), duration: LeaseDuration::INFINITE };
    service.client.lease_blob(&at("b"), lease, &always()).await.unwrap();
    let refused = rig.rename("a", "b", RenameMode::Replace).await;
    assert!(matches!(refused, Err(StoreError::Lease(_))), "{refused:?}");
    assert_eq!((service.text("a").await, service.text("b").await), (Some("new".into()), Some("old".into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_files_change_places() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), curious()).await;
    rig.write_and_push("a", b"first").await.unwrap();
    rig.write_and_push("b", b"the second").await.unwrap();
    rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
    assert_eq!(service.names().await, ["a", "b"]);
    assert_eq!(
        (service.text("a").await, service.text("b").await),
        (Some("the second".into()), Some("first".into()))
    );
    assert_eq!(rig.list("").await, ["a", "b"]);
    assert_eq!(rig.here("a").unwrap().size, 10);
    rig.write_and_push("a", b"goes on").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn renames_survive_lost_answers() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), curious()).await;
    for (number, (part, done)) in [
        ("PUT /devstoreaccount1/share/to", true),
        ("DELETE /devstoreaccount1/share/from", true),
        ("renames/", true),
    ]
    .into_iter()
    .enumerate()
    {
        rig.write_and_push(&format!("from{number}"), b"x").await.unwrap();
        service.fail(part, 1, done, 500);
        rig.rename(&format!("from{number}"), &format!("to{number}"), RenameMode::Replace).await.unwrap();
    }
    assert_eq!(service.names().await, ["to0", "to1", "to2"]);
    assert_eq!(rig.list("").await, ["to0", "to1", "to2"]);
}

/// What is not pushed yet is pushed before it is moved, and not over somebody else's version.
#[tokio::test(flavor = "multi_thread")]
async fn a_rename_does_not_push_over_what_somebody_else_made() {
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        let rig = Rig::new(&service, folder.path()).await;
        rig.write_and_push("a", b"first").await.unwrap();
        rig.write_and_push("b", b"other").await.unwrap();
        rig.write("a", b"mine");
        service.put("a", "theirs").await;
        let refused = rig.rename("a", "b", mode).await;
        assert!(matches!(refused, Err(StoreError::ConditionNotMet)), "{mode:?}: {refused:?}");
        let there = (service.text("a").await.unwrap(), service.text("b").await.unwrap());
        assert_eq!(there, ("theirs".to_owned(), "other".to_owned()), "{mode:?}");
    }
}
