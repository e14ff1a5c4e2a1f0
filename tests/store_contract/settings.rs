//! The contract of access policies, service settings, tiers and stored MD5s.

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{
    AccessTier, BlobTier, BlockId, BlockKind, BlockListEntry, ContainerAcl, ContainerName, HttpHeaders,
    Limit, NewContent, Preconditions, PropertiesChange, PublicAccess, StoreError, StoredPolicy,
};

use crate::support::*;

fn policy(id: &str) -> StoredPolicy {
    StoredPolicy { id: id.into(), permissions: Some("rl".into()), ..StoredPolicy::default() }
}

pub(crate) async fn access_and_policies(bench: &Bench) {
    let store = &bench.store;
    let name = ContainerName::new("public").unwrap();
    let made = store.create_container(&name, pairs(&[]), PublicAccess::Blob).await.unwrap();
    assert_eq!(made.acl, ContainerAcl { access: PublicAccess::Blob, policies: Vec::new() });
    bench.wait(1);
    let acl = ContainerAcl { access: PublicAccess::Container, policies: vec![policy("one"), policy("two")] };
    let set = store.set_container_acl(&name, acl.clone(), &ALWAYS).await.unwrap();
    assert!(set.etag != made.etag && set.modified > made.modified);
    let read = store.container_properties(&name, None).await.unwrap();
    assert_eq!((read.acl, read.etag), (acl.clone(), set.etag));
    let listed = store.list_containers("pub", None, 10).await.unwrap().0;
    assert_eq!(listed[0].acl.access, PublicAccess::Container);
    let many = ContainerAcl { policies: (0..6).map(|n| policy(&n.to_string())).collect(), ..acl.clone() };
    let refused = store.set_container_acl(&name, many, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::LimitExceeded(Limit::Policies))));
    let unchanged = Preconditions { if_unmodified_since: Some(made.modified), ..ALWAYS };
    let refused = store.set_container_acl(&name, acl.clone(), &unchanged).await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)));
    store.lease_container(&name, acquire(A, None), &ALWAYS).await.unwrap();
    store.set_container_acl(&name, acl.clone(), &ALWAYS).await.unwrap();
    let refused = store.set_container_acl(&name, acl.clone(), &with_lease(B)).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMismatchWithContainerOperation))));
    store.set_container_metadata(&name, pairs(&[("k", "v")]), &ALWAYS).await.unwrap();
    assert_eq!(store.container_properties(&name, None).await.unwrap().acl, acl, "metadata is another matter");
}

pub(crate) async fn service_settings(bench: &Bench) {
    assert!(bench.store.service_properties().await.unwrap().is_none());
    bench.store.set_service_properties("<one/>".into()).await.unwrap();
    bench.store.set_service_properties("<two/>".into()).await.unwrap();
    assert_eq!(bench.store.service_properties().await.unwrap().unwrap(), "<two/>");
    let refused = bench.store.set_service_properties(vec![b' '; 100_000].into()).await;
    assert!(matches!(refused, Err(StoreError::LimitExceeded(Limit::ServiceProperties))));
}

pub(crate) async fn tiers(bench: &Bench) {
    let store = &bench.store;
    let plain = bench.put("f", b"x").await;
    assert_eq!(plain.tier, None, "the account's tier is not stored");
    let new = NewContent { tier: Some(AccessTier::Cool), ..NewContent::default() };
    let put = store.put_blob(&at("cool"), "x".into(), new, &ALWAYS).await.unwrap();
    assert_eq!(put.tier, Some(BlobTier { tier: AccessTier::Cool, changed: None }));
    bench.wait(1);
    let set = store.set_blob_tier(&at("f"), None, AccessTier::Cold, &ALWAYS).await.unwrap();
    assert_eq!((set.etag, set.modified), (plain.etag, plain.modified), "a tier is no change of the blob");
    assert!(set.tier.is_some_and(|tier| tier.tier == AccessTier::Cold && tier.changed.is_some()));
    bench.put("f", b"y").await;
    assert_eq!(bench.properties("f").await.unwrap().tier, None, "a put replaces everything");
    bench.acquire("f", A, None).await;
    let refused = store.set_blob_tier(&at("f"), None, AccessTier::Hot, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    store.set_blob_tier(&at("f"), None, AccessTier::Hot, &with_lease(A)).await.unwrap();
    store.create_append_blob(&at("log"), NewContent::default(), &ALWAYS).await.unwrap();
    let refused = store.set_blob_tier(&at("log"), None, AccessTier::Hot, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::InvalidBlobType(_))));
}

pub(crate) async fn archived_content_is_not_read(bench: &Bench) {
    let store = &bench.store;
    bench.put("f", b"x").await;
    store.set_blob_tier(&at("f"), None, AccessTier::Archive, &ALWAYS).await.unwrap();
    let refused = store.get_blob(&at("f"), None, None, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::BlobArchived(_))));
    assert!(matches!(bench.copy("f", "g").await, Err(StoreError::BlobArchived(_))));
    assert!(bench.properties("f").await.is_ok());
    store.set_blob_tier(&at("f"), None, AccessTier::Hot, &ALWAYS).await.unwrap();
    assert_eq!(bench.get("f").await, "x");
}

pub(crate) async fn stored_md5(bench: &Bench) {
    let store = &bench.store;
    let computed = bench.put("f", b"hello").await.content_md5;
    assert_eq!(computed.unwrap()[..4], [0x5d, 0x41, 0x40, 0x2a]);
    let given = NewContent { content_md5: Some([7; 16]), ..NewContent::default() };
    let put = store.put_blob(&at("f"), "hello".into(), given.clone(), &ALWAYS).await.unwrap();
    assert_eq!(put.content_md5, Some([7; 16]), "what is given is stored");
    let id = BlockId(b"b1".to_vec());
    store.put_block(&at("g"), &id, "hello".into(), None).await.unwrap();
    let list = [BlockListEntry { kind: BlockKind::Latest, id }];
    let without = store.put_block_list(&at("g"), &list, NewContent::default(), &ALWAYS).await.unwrap();
    assert_eq!(without.content_md5, None, "of a block list none is computed");
    let with = store.put_block_list(&at("g"), &list, given, &ALWAYS).await.unwrap();
    assert_eq!(with.content_md5, Some([7; 16]));
    let change = PropertiesChange {
        headers: Some((HttpHeaders::default(), Some([8; 16]))),
        ..PropertiesChange::default()
    };
    let changed = store.set_blob_properties(&at("f"), change, &ALWAYS).await.unwrap();
    assert_eq!(changed.content_md5, Some([8; 16]));
    let change = PropertiesChange { headers: Some(Default::default()), ..PropertiesChange::default() };
    assert_eq!(store.set_blob_properties(&at("f"), change, &ALWAYS).await.unwrap().content_md5, None);
}
