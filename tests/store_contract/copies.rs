//! The contract of copies and snapshots.

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{
    BlockId, BlockKind, BlockListEntry, ByteRange, CopyRequest, CopySource, DeleteSnapshots, NewContent,
    Preconditions, StoreError,
};

use crate::support::*;

pub(crate) async fn copies_are_independent(bench: &Bench) {
    for size in [0, 10, 500] {
        let body = pattern(1, size);
        let from = bench.put("from", &body).await;
        let copied = bench.copy("from", "d/to").await.unwrap();
        assert_ne!(copied.id, from.id);
        assert_eq!((copied.size, copied.content_md5), (from.size, from.content_md5));
        bench.put("from", b"other").await;
        assert_eq!(bench.get("d/to").await, body);
        bench.store.delete_blob(&at("from"), DeleteSnapshots::Refuse, &ALWAYS).await.unwrap();
        assert_eq!(bench.get("d/to").await, body);
    }
    let metadata = Some(pairs(&[("k", "v")]));
    let request = CopyRequest { metadata, ..CopyRequest::default() };
    let source = CopySource::of(&at("d/to"));
    let copied = bench.store.copy_blob(&source, &at("d/to"), request, &ALWAYS).await.unwrap();
    assert_eq!(copied.metadata, pairs(&[("k", "v")]));
    assert_eq!(bench.get("d/to").await, pattern(1, 500));
}

pub(crate) async fn copy_conditions(bench: &Bench) {
    let copy = async |source: &Preconditions, target: &Preconditions| {
        let source = CopySource { conditions: source.clone(), ..CopySource::of(&at("from")) };
        bench.store.copy_blob(&source, &at("to"), CopyRequest::default(), target).await
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
    bench.store.delete_snapshot(&at("f"), listed[0].0, &ALWAYS).await.unwrap();
    assert!(not_found(&bench.store.get_blob(&at("f"), Some(listed[0].0), None, &ALWAYS).await));
    assert!(not_found(&bench.store.delete_snapshot(&at("f"), listed[0].0, &ALWAYS).await));
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

pub(crate) async fn copies_remember_where_they_came_from(bench: &Bench) {
    bench.put("from", &pattern(1, 300)).await;
    let request =
        CopyRequest { record: Some(("id-1".into(), "http://x/from".into())), ..CopyRequest::default() };
    let source = CopySource::of(&at("from"));
    bench.store.copy_blob(&source, &at("to"), request, &ALWAYS).await.unwrap();
    let copy = bench.properties("to").await.unwrap().copy.clone().unwrap();
    assert_eq!((copy.id.as_str(), copy.source.as_str(), copy.bytes), ("id-1", "http://x/from", 300));
    bench.store.set_blob_metadata(&at("to"), pairs(&[("k", "v")]), &ALWAYS).await.unwrap();
    assert!(bench.properties("to").await.unwrap().copy.is_some(), "metadata is another matter");
    bench.put("to", b"new").await;
    assert!(bench.properties("to").await.unwrap().copy.is_none(), "new content is no copy");
}

pub(crate) async fn copies_need_an_infinite_lease_if_asked(bench: &Bench) {
    bench.put("from", b"x").await;
    bench.put("to", b"y").await;
    bench.acquire("to", A, Some(60)).await;
    let copy = async |infinite_lease, conditions: &Preconditions| {
        let request = CopyRequest { infinite_lease, ..CopyRequest::default() };
        bench.store.copy_blob(&CopySource::of(&at("from")), &at("to"), request, conditions).await
    };
    assert!(matches!(copy(true, &ALWAYS).await, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    let refused = copy(true, &with_lease(A)).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::InfiniteDurationRequired))));
    copy(false, &with_lease(A)).await.unwrap();
    bench.acquire("to", A, None).await;
    copy(true, &with_lease(A)).await.unwrap();
}

pub(crate) async fn copies_of_snapshots(bench: &Bench) {
    bench.put("f", &pattern(1, 300)).await;
    let (snapshot, _) = bench.store.snapshot_blob(&at("f"), None, &ALWAYS).await.unwrap();
    bench.put("f", b"new").await;
    let source = CopySource { snapshot: Some(snapshot), ..CopySource::of(&at("f")) };
    bench.store.copy_blob(&source, &at("g"), CopyRequest::default(), &ALWAYS).await.unwrap();
    assert_eq!(bench.get("g").await, pattern(1, 300));
    bench.store.copy_blob(&source, &at("f"), CopyRequest::default(), &ALWAYS).await.unwrap();
    assert_eq!(bench.get("f").await, pattern(1, 300), "a snapshot can be brought back");
    assert_eq!(bench.store.list_snapshots(&at("f")).await.unwrap().len(), 1);
    bench.acquire("f", A, None).await;
    bench.copy("f", "h").await.unwrap();
    assert_eq!(bench.get("h").await, pattern(1, 300), "a lease on the source does not count");
}

pub(crate) async fn no_copy_is_ever_under_way(bench: &Bench) {
    bench.put("from", b"x").await;
    let request = CopyRequest { record: Some(("id-1".into(), "u".into())), ..CopyRequest::default() };
    bench.store.copy_blob(&CopySource::of(&at("from")), &at("to"), request, &ALWAYS).await.unwrap();
    let abort = async |name, id, lease| bench.store.abort_copy(&at(name), id, lease).await;
    assert!(matches!(abort("to", "id-1", None).await, Err(StoreError::NoPendingCopy)));
    assert!(matches!(abort("to", "id-2", None).await, Err(StoreError::CopyIdMismatch)));
    assert!(matches!(abort("from", "id-1", None).await, Err(StoreError::NoPendingCopy)));
    assert!(not_found(&abort("nothing", "id-1", None).await));
    bench.acquire("to", A, None).await;
    let refused = abort("to", "id-1", None).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    assert!(matches!(abort("to", "id-1", Some(A)).await, Err(StoreError::NoPendingCopy)));
}

pub(crate) async fn blocks_from_other_blobs(bench: &Bench) {
    let body = pattern(1, 1000);
    bench.put("big", &body).await;
    bench.put("small", b"hello").await;
    bench.store.create_page_blob(&at("disk"), 2048, 0, NewContent::default(), &ALWAYS).await.unwrap();
    let any = leasefs::store::SequenceConditions::default();
    bench.store.put_pages(&at("disk"), 512, pattern(2, 512).into(), any, &ALWAYS).await.unwrap();
    let stage = async |id: &str, from: &str, range: Option<(u64, u64)>| {
        let range = range.map(|(start, length)| ByteRange { start, length: Some(length) });
        let source = CopySource::of(&at(from));
        bench.store.put_block_from(&at("to"), &BlockId(id.into()), &source, range, None).await
    };
    assert_eq!(stage("b1", "big", Some((100, 500))).await.unwrap(), 500);
    assert_eq!(stage("b2", "small", None).await.unwrap(), 5);
    assert_eq!(stage("b3", "disk", Some((0, 1024))).await.unwrap(), 1024);
    assert!(matches!(stage("b4", "small", Some((5, 1))).await, Err(StoreError::InvalidRange { size: 5 })));
    assert!(not_found(&stage("b4", "nothing", None).await));
    for name in ["big", "small", "disk"] {
        bench.store.delete_blob(&at(name), DeleteSnapshots::Refuse, &ALWAYS).await.unwrap();
    }
    let list: Vec<BlockListEntry> = ["b1", "b2", "b3"]
        .map(|id| BlockListEntry { kind: BlockKind::Latest, id: BlockId(id.into()) })
        .into();
    bench.store.put_block_list(&at("to"), &list, NewContent::default(), &ALWAYS).await.unwrap();
    let pages = [vec![0; 512], pattern(2, 512)].concat();
    assert_eq!(bench.get("to").await, [&body[100..600], b"hello", &pages].concat());
    let stale = Preconditions::if_version(leasefs::store::ETag(1));
    bench.put("big", &body).await;
    let source = CopySource { conditions: stale, ..CopySource::of(&at("big")) };
    let refused = bench.store.put_block_from(&at("to"), &BlockId("b1".into()), &source, None, None).await;
    assert!(matches!(refused, Err(StoreError::SourceConditionNotMet)));
}
