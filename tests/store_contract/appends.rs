//! The contract of append blobs.

use std::sync::Arc;

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{
    AppendConditions, Appended, BlobKind, BlobProperties, CopyRequest, CopySource, DeleteSnapshots,
    NewContent, Preconditions, Result, StoreError,
};

use crate::support::*;

const ANYWHERE: AppendConditions = AppendConditions { position: None, max_size: None };

async fn create(bench: &Bench, name: &str) -> Arc<BlobProperties> {
    bench.store.create_append_blob(&at(name), NewContent::default(), &ALWAYS).await.unwrap()
}

async fn append(bench: &Bench, name: &str, body: &[u8]) -> Result<Appended> {
    bench.store.append_block(&at(name), body.to_vec().into(), ANYWHERE, &ALWAYS).await
}

pub(crate) async fn blocks_follow_each_other(bench: &Bench) {
    let made = create(bench, "log").await;
    assert_eq!((made.kind, made.size, made.appended_blocks), (BlobKind::Append, 0, 0));
    let mut expected = Vec::new();
    let mut last = made.etag;
    for index in 0..12u8 {
        let block = pattern(index, [10, 200, 3, 70][usize::from(index) % 4]);
        let done = append(bench, "log", &block).await.unwrap();
        assert_eq!(done.offset, expected.len() as u64);
        assert_eq!(done.properties.appended_blocks, u32::from(index) + 1);
        assert!(done.properties.etag != last, "every append is a change");
        last = done.properties.etag;
        expected.extend_from_slice(&block);
        assert_eq!(bench.get("log").await, expected);
    }
    let made = create(bench, "log").await;
    assert_eq!((made.size, made.appended_blocks), (0, 0), "creating it again empties it");
    assert!(bench.get("log").await.is_empty());
    assert!(not_found(&append(bench, "nothing", b"x").await));
}

pub(crate) async fn append_conditions(bench: &Bench) {
    create(bench, "log").await;
    append(bench, "log", b"12345").await.unwrap();
    let try_at = async |position, max_size| {
        let conditions = AppendConditions { position, max_size };
        bench.store.append_block(&at("log"), "67".into(), conditions, &ALWAYS).await
    };
    assert!(matches!(try_at(Some(4), None).await, Err(StoreError::AppendPositionNotMet)));
    assert!(matches!(try_at(None, Some(6)).await, Err(StoreError::MaxSizeNotMet)));
    assert_eq!(try_at(Some(5), Some(7)).await.unwrap().offset, 5);
    assert_eq!(bench.get("log").await, "1234567");
    let stale = Preconditions::if_version(leasefs::store::ETag(1));
    let refused = bench.store.append_block(&at("log"), "x".into(), ANYWHERE, &stale).await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)));
}

pub(crate) async fn sealed_blobs_take_no_more(bench: &Bench) {
    create(bench, "log").await;
    append(bench, "log", b"12345").await.unwrap();
    let wrong = AppendConditions { position: Some(3), max_size: None };
    let refused = bench.store.seal_blob(&at("log"), wrong, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::AppendPositionNotMet)));
    let sealed = bench.store.seal_blob(&at("log"), ANYWHERE, &ALWAYS).await.unwrap();
    assert!(sealed.sealed);
    bench.store.seal_blob(&at("log"), ANYWHERE, &ALWAYS).await.unwrap();
    assert!(matches!(append(bench, "log", b"6").await, Err(StoreError::BlobSealed(_))));
    assert_eq!(bench.get("log").await, "12345");
}

pub(crate) async fn appended_copies_and_snapshots_go_their_own_way(bench: &Bench) {
    create(bench, "log").await;
    append(bench, "log", &pattern(1, 300)).await.unwrap();
    let (first, _) = bench.store.snapshot_blob(&at("log"), None, &ALWAYS).await.unwrap();
    bench.copy("log", "copy").await.unwrap();
    append(bench, "log", &pattern(2, 100)).await.unwrap();
    append(bench, "copy", &pattern(3, 100)).await.unwrap();
    append(bench, "log", &pattern(4, 100)).await.unwrap();
    let expected = [pattern(1, 300), pattern(2, 100), pattern(4, 100)].concat();
    assert_eq!(bench.get("log").await, expected);
    assert_eq!(bench.get("copy").await, [pattern(1, 300), pattern(3, 100)].concat());
    let old = bench.store.get_blob(&at("log"), Some(first), None, &ALWAYS).await.unwrap();
    assert_eq!((old.body, old.properties.appended_blocks), (pattern(1, 300).into(), 1));
    bench.store.delete_blob(&at("log"), DeleteSnapshots::Include, &ALWAYS).await.unwrap();
    append(bench, "copy", b"more").await.unwrap();
    assert_eq!(bench.get("copy").await, [pattern(1, 300), pattern(3, 100), b"more".to_vec()].concat());
    let request = CopyRequest { seal: true, ..CopyRequest::default() };
    let source = CopySource::of(&at("copy"));
    let sealed = bench.store.copy_blob(&source, &at("ended"), request, &ALWAYS).await.unwrap();
    assert!(sealed.sealed && sealed.kind == BlobKind::Append);
}

pub(crate) async fn other_kinds_are_refused(bench: &Bench) {
    create(bench, "log").await;
    bench.put("block", b"x").await;
    let wrong = |result: &Result<_>| matches!(result, Err(StoreError::InvalidBlobType(_)));
    assert!(wrong(&append(bench, "block", b"x").await.map(drop)));
    assert!(wrong(&bench.try_put("log", b"x", &ALWAYS).await.map(drop)));
    let create_over = bench.store.create_append_blob(&at("block"), NewContent::default(), &ALWAYS).await;
    assert!(wrong(&create_over.map(drop)));
    let pages = bench.store.create_page_blob(&at("log"), 512, 0, NewContent::default(), &ALWAYS).await;
    assert!(wrong(&pages.map(drop)));
    assert!(wrong(&bench.copy("log", "block").await.map(drop)));
    assert!(wrong(&bench.store.seal_blob(&at("block"), ANYWHERE, &ALWAYS).await.map(drop)));
}

pub(crate) async fn a_big_append_comes_back(bench: &Bench) {
    create(bench, "log").await;
    let (one, two) = (pattern(1, 3 << 20), pattern(2, 1 << 20));
    append(bench, "log", &one).await.unwrap();
    append(bench, "log", &two).await.unwrap();
    assert!(bench.get("log").await == [one, two].concat());
}

pub(crate) async fn appends_are_guarded_like_writes(bench: &Bench) {
    create(bench, "log").await;
    bench.acquire("log", A, None).await;
    let refused = append(bench, "log", b"x").await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    let seal = bench.store.seal_blob(&at("log"), ANYWHERE, &ALWAYS).await;
    assert!(matches!(seal, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    bench.store.append_block(&at("log"), "x".into(), ANYWHERE, &with_lease(A)).await.unwrap();
    assert_eq!(bench.get("log").await, "x");
}
