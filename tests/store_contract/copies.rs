//! The contract of copies and snapshots.

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{DeleteSnapshots, Preconditions, StoreError};

use crate::support::*;

pub(crate) async fn copies_are_independent(bench: &Bench) {
    for size in [0, 10, 500] {
        let body = pattern(1, size);
        let from = bench.put("from", &body).await;
        let copied = bench.store.copy_blob(&at("from"), &ALWAYS, &at("d/to"), None, &ALWAYS).await.unwrap();
        assert_ne!(copied.id, from.id);
        assert_eq!((copied.size, copied.content_md5), (from.size, from.content_md5));
        bench.put("from", b"other").await;
        assert_eq!(bench.get("d/to").await, body);
        bench.store.delete_blob(&at("from"), DeleteSnapshots::Refuse, &ALWAYS).await.unwrap();
        assert_eq!(bench.get("d/to").await, body);
    }
    let metadata = Some(pairs(&[("k", "v")]));
    let copied = bench.store.copy_blob(&at("d/to"), &ALWAYS, &at("d/to"), metadata, &ALWAYS).await.unwrap();
    assert_eq!(copied.metadata, pairs(&[("k", "v")]));
    assert_eq!(bench.get("d/to").await, pattern(1, 500));
}

pub(crate) async fn copy_conditions(bench: &Bench) {
    let copy = async |source: &Preconditions, target: &Preconditions| {
        bench.store.copy_blob(&at("from"), source, &at("to"), None, target).await
    };
    assert!(not_found(&copy(&ALWAYS, &ALWAYS).await));
    let from = bench.put("from", b"1").await;
    bench.put("from", b"2").await;
    let stale = Preconditions::if_version(from.etag);
    assert!(matches!(copy(&stale, &ALWAYS).await, Err(StoreError::SourceConditionNotMet)));
    copy(&ALWAYS, &Preconditions::if_absent()).await.unwrap();
    assert!(matches!(copy(&ALWAYS, &Preconditions::if_absent()).await, Err(StoreError::BlobExists(_))));
    bench.acquire("to", A, None).await;
    let refused = copy(&ALWAYS, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    copy(&ALWAYS, &with_lease(A)).await.unwrap();
}

pub(crate) async fn snapshots_keep_old_versions(bench: &Bench) {
    for size in [10, 500] {
        let old = pattern(1, size);
        let first = bench.put("f", &old).await;
        let (snapshot, taken) = bench.store.snapshot_blob(&at("f"), None, &ALWAYS).await.unwrap();
        assert_eq!((taken.etag, taken.size), (first.etag, first.size));
        assert_eq!(bench.properties("f").await.unwrap().etag, first.etag, "a snapshot changes no tag");
        bench.wait(1);
        bench.put("f", b"new").await;
        let read = bench.store.get_blob(&at("f"), Some(snapshot), None, &ALWAYS).await.unwrap();
        assert_eq!(read.body, old);
        assert_eq!(bench.get("f").await, "new");
    }
    let listed = bench.store.list_snapshots(&at("f")).await.unwrap();
    assert_eq!(listed.iter().map(|(_, blob)| blob.size).collect::<Vec<_>>(), [10, 500]);
    assert!(listed[0].0 < listed[1].0);
    bench.store.delete_snapshot(&at("f"), listed[0].0).await.unwrap();
    assert!(not_found(&bench.store.get_blob(&at("f"), Some(listed[0].0), None, &ALWAYS).await));
    assert!(not_found(&bench.store.delete_snapshot(&at("f"), listed[0].0).await));
}

pub(crate) async fn deletes_and_snapshots(bench: &Bench) {
    let delete = async |how| bench.store.delete_blob(&at("f"), how, &ALWAYS).await;
    bench.put("f", &pattern(2, 300)).await;
    bench.store.snapshot_blob(&at("f"), None, &ALWAYS).await.unwrap();
    bench.store.snapshot_blob(&at("f"), Some(pairs(&[("k", "v")])), &ALWAYS).await.unwrap();
    assert_eq!(bench.store.list_snapshots(&at("f")).await.unwrap()[1].1.metadata, pairs(&[("k", "v")]));
    assert!(matches!(delete(DeleteSnapshots::Refuse).await, Err(StoreError::SnapshotsPresent(_))));
    delete(DeleteSnapshots::Only).await.unwrap();
    assert!(bench.store.list_snapshots(&at("f")).await.unwrap().is_empty());
    bench.store.snapshot_blob(&at("f"), None, &ALWAYS).await.unwrap();
    delete(DeleteSnapshots::Include).await.unwrap();
    assert!(not_found(&bench.properties("f").await));
}

pub(crate) async fn snapshots_follow_the_name(bench: &Bench) {
    bench.put("f", b"1").await;
    bench.acquire("f", A, None).await;
    let (snapshot, taken) = bench.store.snapshot_blob(&at("f"), None, &ALWAYS).await.unwrap();
    assert_eq!(taken.lease, Default::default(), "a snapshot has no lease");
    let refused = bench.store.snapshot_blob(&at("f"), None, &with_lease(B)).await;
    assert!(matches!(refused, Err(StoreError::Lease(_))));
    bench.try_put("f", b"2", &with_lease(A)).await.unwrap();
    let read = bench.store.get_blob(&at("f"), Some(snapshot), None, &ALWAYS).await.unwrap();
    assert_eq!(read.body, "1");
}
