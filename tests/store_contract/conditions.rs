//! The contract of conditional requests.

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{DeleteSnapshots, ETag, EtagMatch, Preconditions, StoreError};

use crate::support::*;

pub(crate) async fn create_only_if_absent(bench: &Bench) {
    let absent = Preconditions::if_absent();
    bench.try_put("f", b"first", &absent).await.unwrap();
    let second = bench.try_put("f", b"second", &absent).await;
    assert!(matches!(second, Err(StoreError::BlobExists(_))));
    assert_eq!(bench.get("f").await, "first");
    bench.store.delete_blob(&at("f"), DeleteSnapshots::Refuse, &ALWAYS).await.unwrap();
    bench.try_put("f", b"third", &absent).await.unwrap();
}

pub(crate) async fn change_only_that_version(bench: &Bench) {
    let first = bench.put("f", b"1").await;
    let only_first = Preconditions::if_version(first.etag);
    let second = bench.try_put("f", b"2", &only_first).await.unwrap();
    assert!(matches!(bench.try_put("f", b"3", &only_first).await, Err(StoreError::ConditionNotMet)));
    let set = bench.store.set_blob_metadata(&at("f"), pairs(&[]), &only_first).await;
    assert!(matches!(set, Err(StoreError::ConditionNotMet)));
    let delete = bench.store.delete_blob(&at("f"), DeleteSnapshots::Refuse, &only_first).await;
    assert!(matches!(delete, Err(StoreError::ConditionNotMet)));
    let only_second = Preconditions::if_version(second.etag);
    bench.store.delete_blob(&at("f"), DeleteSnapshots::Refuse, &only_second).await.unwrap();
}

pub(crate) async fn reads_say_not_modified(bench: &Bench) {
    let put = bench.put("f", b"1").await;
    let newer = Preconditions { if_none_match: Some(EtagMatch::List(vec![put.etag])), ..ALWAYS };
    assert!(matches!(bench.store.get_blob(&at("f"), None, None, &newer).await, Err(StoreError::NotModified)));
    let head = bench.store.blob_properties(&at("f"), None, &newer).await;
    assert!(matches!(head, Err(StoreError::NotModified)));
    let since = Preconditions { if_modified_since: Some(put.modified), ..ALWAYS };
    let head = bench.store.blob_properties(&at("f"), None, &since).await;
    assert!(matches!(head, Err(StoreError::NotModified)));
    bench.wait(2);
    bench.put("f", b"2").await;
    assert!(bench.store.get_blob(&at("f"), None, None, &newer).await.is_ok());
    assert!(bench.store.get_blob(&at("f"), None, None, &since).await.is_ok());
    let stale = Preconditions::if_version(put.etag);
    assert!(matches!(
        bench.store.get_blob(&at("f"), None, None, &stale).await,
        Err(StoreError::ConditionNotMet)
    ));
}

pub(crate) async fn star_and_missing_blobs(bench: &Bench) {
    let exists = Preconditions { if_match: Some(EtagMatch::Any), ..ALWAYS };
    assert!(matches!(bench.try_put("f", b"", &exists).await, Err(StoreError::ConditionNotMet)));
    assert!(not_found(&bench.store.get_blob(&at("f"), None, None, &exists).await));
    assert!(not_found(&bench.store.delete_blob(&at("f"), DeleteSnapshots::Refuse, &exists).await));
    bench.put("f", b"").await;
    bench.try_put("f", b"x", &exists).await.unwrap();
    let read = bench.store.get_blob(&at("f"), None, None, &Preconditions::if_absent()).await;
    assert!(matches!(read, Err(StoreError::UnsatisfiableCondition)));
    bench.store.set_blob_metadata(&at("f"), pairs(&[]), &Preconditions::if_absent()).await.unwrap();
}

pub(crate) async fn unsupported_combinations(bench: &Bench) {
    let put = bench.put("f", b"").await;
    let both = Preconditions {
        if_match: Some(EtagMatch::List(vec![put.etag])),
        if_none_match: Some(EtagMatch::List(vec![ETag(1)])),
        ..ALWAYS
    };
    assert!(matches!(bench.try_put("f", b"", &both).await, Err(StoreError::ConditionsNotSupported)));
    let two = Preconditions { if_match: Some(EtagMatch::List(vec![put.etag, ETag(1)])), ..ALWAYS };
    assert!(matches!(bench.try_put("f", b"", &two).await, Err(StoreError::ConditionsNotSupported)));
    assert!(bench.store.get_blob(&at("f"), None, None, &two).await.is_ok());
}

pub(crate) async fn lease_before_conditions(bench: &Bench) {
    bench.put("f", b"").await;
    bench.acquire("f", A, None).await;
    let put = bench.try_put("f", b"", &Preconditions::if_absent()).await;
    assert!(matches!(put, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    let put = bench.try_put("f", b"", &Preconditions::if_absent().with_lease(A)).await;
    assert!(matches!(put, Err(StoreError::BlobExists(_))));
}
