//! The contract of containers.

use leasefs::share::Moment;
use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{ContainerName, ListQuery, Preconditions, PublicAccess, StoreError};

use crate::support::*;

fn name(text: &str) -> ContainerName {
    ContainerName::new(text).unwrap()
}

pub(crate) async fn made_once_listed_and_deleted(bench: &Bench) {
    let store = &bench.store;
    for text in ["ccc", "aaa", "bbb"] {
        store.create_container(&name(text), pairs(&[("n", text)]), PublicAccess::None).await.unwrap();
    }
    let again = store.create_container(&name("aaa"), pairs(&[]), PublicAccess::None).await;
    assert!(matches!(again, Err(StoreError::ContainerExists(_))));
    let (page, next) = store.list_containers("", None, 2).await.unwrap();
    assert_eq!(page.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["aaa", "bbb"]);
    assert_eq!(page[1].metadata, pairs(&[("n", "bbb")]));
    let (page, next) = store.list_containers("", next.as_deref(), 5).await.unwrap();
    assert_eq!(page.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["ccc", "share"]);
    assert_eq!(next, None);
    let (page, _) = store.list_containers("s", None, 5).await.unwrap();
    assert_eq!(page.len(), 1);
    store.delete_container(&name("aaa"), &ALWAYS).await.unwrap();
    let gone = store.container_properties(&name("aaa"), None).await;
    assert!(matches!(gone, Err(StoreError::ContainerNotFound(_))));
}

pub(crate) async fn metadata_changes_the_tag_and_blobs_do_not(bench: &Bench) {
    let before = bench.store.container_properties(&share(), None).await.unwrap();
    bench.put("x", b"1").await;
    let same = bench.store.container_properties(&share(), None).await.unwrap();
    assert_eq!(before, same);
    bench.wait(5);
    let after = bench.store.set_container_metadata(&share(), pairs(&[("k", "v")]), &ALWAYS).await.unwrap();
    assert!(after.etag != before.etag && after.modified > before.modified);
    assert_eq!(after.metadata, pairs(&[("k", "v")]));
    let unmodified = Preconditions { if_modified_since: Some(after.modified), ..ALWAYS };
    let refused = bench.store.set_container_metadata(&share(), pairs(&[]), &unmodified).await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)));
}

pub(crate) async fn conditions_and_leases_on_delete(bench: &Bench) {
    let long_ago = Preconditions { if_unmodified_since: Some(Moment(0)), ..ALWAYS };
    let refused = bench.store.delete_container(&share(), &long_ago).await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)));
    bench.store.lease_container(&share(), acquire(A, None), &ALWAYS).await.unwrap();
    let refused = bench.store.delete_container(&share(), &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    let refused = bench.store.delete_container(&share(), &with_lease(B)).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMismatchWithContainerOperation))));
    bench.store.delete_container(&share(), &with_lease(A)).await.unwrap();
}

pub(crate) async fn a_deleted_container_takes_its_blobs_along(bench: &Bench) {
    for index in 0..50 {
        bench.put(&format!("d{}/f{index}", index % 5), &pattern(index, 100)).await;
    }
    bench.acquire("d1/f1", A, None).await;
    bench.store.delete_container(&share(), &ALWAYS).await.unwrap();
    let gone = bench.try_put("x", b"", &ALWAYS).await;
    assert!(matches!(gone, Err(StoreError::ContainerNotFound(_))));
    bench.store.create_container(&share(), pairs(&[]), PublicAccess::None).await.unwrap();
    let query =
        ListQuery { prefix: String::new(), delimiter: None, marker: None, max: 10, ..ListQuery::default() };
    assert!(bench.store.list_blobs(&share(), &query).await.unwrap().items.is_empty());
    assert!(not_found(&bench.properties("d1/f1").await));
}
