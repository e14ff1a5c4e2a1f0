//! The contract of staged blocks and block lists.

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{BlockId, BlockKind, BlockListEntry, NewContent, Preconditions, StoreError};

use crate::support::*;

fn id(text: &str) -> BlockId {
    BlockId(text.as_bytes().to_vec())
}

fn list(kind: BlockKind, ids: &[&str]) -> Vec<BlockListEntry> {
    ids.iter().map(|text| BlockListEntry { kind, id: id(text) }).collect()
}

async fn stage(bench: &Bench, name: &str, block: &str, body: &[u8]) {
    bench.store.put_block(&at(name), &id(block), body.to_vec().into(), None).await.unwrap();
}

async fn commit(bench: &Bench, name: &str, list: &[BlockListEntry]) -> u64 {
    let new = NewContent::default();
    bench.store.put_block_list(&at(name), list, new, &ALWAYS).await.unwrap().size
}

pub(crate) async fn staged_blocks_are_invisible_until_committed(bench: &Bench) {
    stage(bench, "d/f", "b1", b"hello ").await;
    stage(bench, "d/f", "b2", b"world").await;
    assert!(not_found(&bench.properties("d/f").await));
    let report = bench.store.get_block_list(&at("d/f"), &ALWAYS).await.unwrap();
    assert_eq!(report.uncommitted, [(id("b1"), 6), (id("b2"), 5)]);
    assert!(report.committed.is_empty() && report.properties.is_none());
    assert_eq!(commit(bench, "d/f", &list(BlockKind::Latest, &["b1", "b2"])).await, 11);
    assert_eq!(bench.get("d/f").await, "hello world");
    let report = bench.store.get_block_list(&at("d/f"), &ALWAYS).await.unwrap();
    assert_eq!(report.committed, [(id("b1"), 6), (id("b2"), 5)]);
    assert!(report.uncommitted.is_empty() && report.properties.is_some());
    assert_eq!(commit(bench, "empty", &[]).await, 0);
    assert!(not_found(&bench.store.get_block_list(&at("nothing"), &ALWAYS).await));
}

pub(crate) async fn lists_mix_old_and_new(bench: &Bench) {
    let big = |seed| pattern(seed, 200);
    for (block, seed) in [("b1", 1), ("b2", 2), ("b3", 3)] {
        stage(bench, "f", block, &big(seed)).await;
    }
    commit(bench, "f", &list(BlockKind::Uncommitted, &["b1", "b2", "b3"])).await;
    let before = bench.properties("f").await.unwrap();
    stage(bench, "f", "b2", &big(9)).await;
    assert_eq!(bench.properties("f").await.unwrap(), before, "staging changes nothing");
    let mixed = [
        BlockListEntry { kind: BlockKind::Committed, id: id("b3") },
        BlockListEntry { kind: BlockKind::Latest, id: id("b2") },
        BlockListEntry { kind: BlockKind::Latest, id: id("b1") },
    ];
    commit(bench, "f", &mixed).await;
    assert_eq!(bench.get("f").await, [big(3), big(9), big(1)].concat());
    commit(bench, "f", &list(BlockKind::Committed, &["b2"])).await;
    assert_eq!(bench.get("f").await, big(9));
}

pub(crate) async fn replaced_and_dropped_blocks(bench: &Bench) {
    stage(bench, "f", "b1", b"old").await;
    stage(bench, "f", "b1", &pattern(4, 300)).await;
    stage(bench, "f", "b2", b"not named").await;
    commit(bench, "f", &list(BlockKind::Latest, &["b1"])).await;
    assert_eq!(bench.get("f").await, pattern(4, 300));
    let new = NewContent::default();
    let gone = bench.store.put_block_list(&at("f"), &list(BlockKind::Latest, &["b2"]), new, &ALWAYS).await;
    assert!(matches!(gone, Err(StoreError::InvalidBlockList)));
}

pub(crate) async fn bad_ids_and_lists(bench: &Bench) {
    stage(bench, "f", "b1", b"x").await;
    let put = async |text: &str| bench.store.put_block(&at("f"), &id(text), "y".into(), None).await;
    assert!(matches!(put("longer").await, Err(StoreError::InvalidBlockId)));
    assert!(matches!(put("").await, Err(StoreError::InvalidBlockId)));
    assert!(matches!(put(&"x".repeat(65)).await, Err(StoreError::InvalidBlockId)));
    for bad in [list(BlockKind::Committed, &["b1"]), list(BlockKind::Latest, &["b1", "b1"])] {
        let commit = bench.store.put_block_list(&at("f"), &bad, NewContent::default(), &ALWAYS).await;
        assert!(matches!(commit, Err(StoreError::InvalidBlockList)));
    }
    let absent = Preconditions::if_absent();
    let good = list(BlockKind::Latest, &["b1"]);
    bench.store.put_block_list(&at("f"), &good, NewContent::default(), &absent).await.unwrap();
    let again = bench.store.put_block_list(&at("f"), &[], NewContent::default(), &absent).await;
    assert!(matches!(again, Err(StoreError::BlobExists(_))));
}

pub(crate) async fn put_blob_drops_staged_blocks(bench: &Bench) {
    stage(bench, "f", "b1", &pattern(1, 100)).await;
    bench.put("f", b"whole").await;
    let report = bench.store.get_block_list(&at("f"), &ALWAYS).await.unwrap();
    assert!(report.committed.is_empty() && report.uncommitted.is_empty());
}

pub(crate) async fn leases_guard_staged_blocks(bench: &Bench) {
    bench.put("f", b"x").await;
    bench.acquire("f", A, Some(15)).await;
    let put = async |lease| bench.store.put_block(&at("f"), &id("b1"), "y".into(), lease).await;
    assert!(matches!(put(None).await, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    assert!(matches!(put(Some(B)).await, Err(StoreError::Lease(LeaseRefusal::IdMismatchWithBlobOperation))));
    put(Some(A)).await.unwrap();
    bench.wait(16);
    put(None).await.unwrap();
    let renewed = bench.lease("f", leasefs::store::LeaseRequest::Renew { id: A }).await;
    assert!(
        matches!(renewed, Err(StoreError::Lease(LeaseRefusal::IdMismatchWithLeaseOperation))),
        "somebody wrote since the lease ran out"
    );
}

pub(crate) async fn big_and_small_blocks_together(bench: &Bench) {
    let mut expected = Vec::new();
    let mut ids = Vec::new();
    for index in 0..40u8 {
        let body = pattern(index, if index % 3 == 0 { 500 } else { 5 });
        let block = format!("b{index:02}");
        stage(bench, "f", &block, &body).await;
        expected.extend_from_slice(&body);
        ids.push(block);
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    commit(bench, "f", &list(BlockKind::Latest, &ids)).await;
    assert_eq!(bench.get("f").await, expected);
    commit(bench, "f", &list(BlockKind::Committed, &ids[1..3])).await;
    assert_eq!(bench.get("f").await, expected[500..510]);
}
