//! Write-back: pushes that are done later, and survive everything until then.

use std::sync::Arc;
use std::time::Duration;

use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{Progress, StoreError, Upstream};
use parking_lot::Mutex;

use super::rig::{Rig, Service, blob};

fn write_back() -> MirrorOptions {
    MirrorOptions { write_back: true, ..MirrorOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_are_done_later_and_in_order() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), write_back()).await;
    for number in 0..100 {
        rig.write_and_push(&format!("f{number}"), format!("{number}").as_bytes()).await.unwrap();
        rig.write_and_push("same", format!("{number}").as_bytes()).await.unwrap();
    }
    rig.all_pushed().await;
    assert_eq!(service.names().await.len(), 101);
    assert_eq!(service.text("same").await.unwrap(), "99");
    assert_eq!(service.text("f42").await.unwrap(), "42");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_queued_is_pushed_when_the_service_is_back() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), write_back()).await;
    service.fail("PUT /devstoreaccount1/share/f", 10, false, 500);
    rig.write_and_push("f", b"kept").await.unwrap();
    rig.all_pushed().await;
    assert_eq!(service.text("f").await.unwrap(), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_mount_goes_on_with_what_is_left() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    {
        let rig = Rig::with(&service, folder.path(), write_back()).await;
        service.fail("PUT /devstoreaccount1/share/", 100_000, false, 403);
        for number in 0..20 {
            rig.write_and_push(&format!("f{number}"), b"left").await.unwrap();
        }
        rig.mirror.drain(&|_| {}).await.unwrap_err();
        // The faults end with the mount: else its background would push.
        rig.close().await;
    }
    service.faults_end();
    assert!(service.names().await.is_empty());
    let rig = Rig::new(&service, folder.path()).await;
    rig.all_pushed().await;
    assert_eq!(service.names().await.len(), 20);
    assert_eq!(service.text("f7").await.unwrap(), "left");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_tells_how_far_it_is() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::new(&service, folder.path()).await;
    for number in 0..30 {
        rig.write(&format!("f{number}"), b"12345");
    }
    let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let listener = Arc::clone(&told);
    rig.mirror.drain(&move |progress| listener.lock().push(progress)).await.unwrap();
    let last = *told.lock().last().unwrap();
    assert_eq!((last.files_done, last.files_total), (30, 30));
    assert_eq!(service.names().await.len(), 30);
    assert_eq!(rig.mirror.status().waiting_files, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_the_background_is_told_and_nothing_is_dropped() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let rig = Rig::with(&service, folder.path(), write_back()).await;
    rig.list("").await;
    service.put("f", "theirs").await;
    rig.write_and_push("f", b"mine").await.unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(60), rig.mirror.refused()).await.unwrap();
    assert_eq!(refused.name, blob("f"));
    assert!(matches!(refused.error, StoreError::BlobExists(_)), "{refused:?}");
    assert_eq!(rig.mirror.status().waiting_files, 1);
    rig.mirror.give_up(&blob("f"), rig.here("f").unwrap().etag).await.unwrap();
    assert_eq!(rig.mirror.status().waiting_files, 0);
    assert_eq!(service.text("f").await.unwrap(), "theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_wait_while_too_much_is_not_pushed() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let options = MirrorOptions { unpushed_bytes: 10_000, ..write_back() };
    let rig = Rig::with(&service, folder.path(), options).await;
    for number in 0..50 {
        rig.write_and_push(&format!("f{number}"), &[7; 4000]).await.unwrap();
        assert!(rig.mirror.status().waiting_bytes <= 10_000, "after the {number}th");
    }
    rig.all_pushed().await;
    assert_eq!(service.names().await.len(), 50);
}
