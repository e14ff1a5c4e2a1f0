//! The contract of tags.

use std::sync::Arc;

use leasefs::share::lease::LeaseRefusal;
use leasefs::store::{
    ContainerName, CopyRequest, CopySource, NewContent, Preconditions, PublicAccess, StoreError,
    TagExpression, Tags,
};

use crate::support::*;

fn tags(list: &[(&str, &str)]) -> Tags {
    Tags::new(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()).unwrap()
}

fn when(text: &str) -> Preconditions {
    Preconditions { if_tags: Some(Arc::new(TagExpression::condition(text).unwrap())), ..ALWAYS }
}

async fn put_tagged(bench: &Bench, name: &str, list: &[(&str, &str)]) {
    let new = NewContent { tags: tags(list), ..NewContent::default() };
    bench.store.put_blob(&at(name), "x".into(), new, &ALWAYS).await.unwrap();
}

pub(crate) async fn tags_are_set_and_replaced(bench: &Bench) {
    let store = &bench.store;
    put_tagged(bench, "f", &[("project", "x"), ("year", "2026")]).await;
    let before = bench.properties("f").await.unwrap();
    assert_eq!(before.tags, tags(&[("project", "x"), ("year", "2026")]));
    bench.wait(1);
    let set = store.set_blob_tags(&at("f"), tags(&[("other", "1")]), &ALWAYS).await.unwrap();
    assert_eq!(set.tags, tags(&[("other", "1")]));
    assert_eq!((set.etag, set.modified), (before.etag, before.modified), "tags are no change of the blob");
    store.set_blob_metadata(&at("f"), pairs(&[("k", "v")]), &ALWAYS).await.unwrap();
    assert_eq!(bench.properties("f").await.unwrap().tags, tags(&[("other", "1")]));
    let (snapshot, _) = store.snapshot_blob(&at("f"), None, &ALWAYS).await.unwrap();
    store.set_blob_tags(&at("f"), Tags::NONE, &ALWAYS).await.unwrap();
    let old = store.blob_properties(&at("f"), Some(snapshot), &ALWAYS).await.unwrap();
    assert_eq!(old.tags, tags(&[("other", "1")]));
    bench.put("f", b"y").await;
    assert!(bench.properties("f").await.unwrap().tags.is_empty(), "a put replaces everything");
    assert!(not_found(&store.set_blob_tags(&at("nothing"), Tags::NONE, &ALWAYS).await));
    let request = CopyRequest { tags: tags(&[("new", "1")]), ..CopyRequest::default() };
    let copied = store.copy_blob(&CopySource::of(&at("f")), &at("g"), request, &ALWAYS).await.unwrap();
    assert_eq!(copied.tags, tags(&[("new", "1")]));
}

pub(crate) async fn tags_are_a_condition(bench: &Bench) {
    let store = &bench.store;
    put_tagged(bench, "f", &[("state", "draft")]).await;
    let not_met = |result: leasefs::store::Result<()>| matches!(result, Err(StoreError::ConditionNotMet));
    let done = when("\"state\" = 'done'");
    assert!(not_met(store.get_blob(&at("f"), None, None, &done).await.map(drop)));
    assert!(not_met(store.set_blob_metadata(&at("f"), pairs(&[]), &done).await.map(drop)));
    assert!(not_met(bench.try_put("f", b"y", &done).await.map(drop)));
    assert!(not_met(store.lease_blob(&at("f"), acquire(A, None), &done).await.map(drop)));
    assert!(not_met(store.set_blob_tags(&at("f"), Tags::NONE, &done).await.map(drop)));
    let draft = when("\"state\" = 'draft' OR \"state\" = 'new'");
    store.get_blob(&at("f"), None, None, &draft).await.unwrap();
    store.set_blob_tags(&at("f"), tags(&[("state", "done")]), &draft).await.unwrap();
    assert!(not_met(store.set_blob_metadata(&at("f"), pairs(&[]), &draft).await.map(drop)));
    assert!(not_met(bench.try_put("absent", b"y", &draft).await.map(drop)));
}

pub(crate) async fn found_by_tags(bench: &Bench) {
    let store = &bench.store;
    let other = ContainerName::new("other").unwrap();
    store.create_container(&other, pairs(&[]), PublicAccess::None).await.unwrap();
    for index in 0..7 {
        let year = if index % 2 == 0 { "2025" } else { "2026" };
        put_tagged(bench, &format!("d{}/f{index}", index % 3), &[("year", year), ("n", &index.to_string())])
            .await;
        bench.put(&format!("plain{index}"), b"x").await;
    }
    let elsewhere = leasefs::store::BlobPath::new(other.clone(), at("far").name);
    let new = NewContent { tags: tags(&[("year", "2026")]), ..NewContent::default() };
    store.put_blob(&elsewhere, "x".into(), new, &ALWAYS).await.unwrap();
    let find = async |container: Option<&ContainerName>, text: &str, max| {
        let expression = TagExpression::search(text).unwrap();
        let (mut names, mut marker) = (Vec::new(), None);
        loop {
            let page = store.find_by_tags(container, &expression, marker.as_deref(), max).await.unwrap();
            assert!(page.blobs.len() <= max);
            names.extend(page.blobs.into_iter().map(|blob| format!("{}/{}", blob.container, blob.name)));
            marker = page.next;
            if marker.is_none() {
                return names;
            }
        }
    };
    let expected = ["other/far", "share/d0/f3", "share/d1/f1", "share/d2/f5"];
    for max in [1, 2, 100] {
        assert_eq!(find(None, "\"year\" = '2026'", max).await, expected, "{max}");
        assert_eq!(find(Some(&share()), "\"year\" = '2026'", max).await, expected[1..], "{max}");
    }
    assert_eq!(find(None, "@container = 'other' AND \"year\" > '2000'", 5).await, ["other/far"]);
    assert_eq!(find(None, "\"year\" = '2025' AND \"n\" >= '4'", 5).await, ["share/d0/f6", "share/d1/f4"]);
    assert!(find(None, "\"year\" = '1999'", 5).await.is_empty());
}

pub(crate) async fn lease_and_tags(bench: &Bench) {
    put_tagged(bench, "f", &[("k", "v")]).await;
    bench.acquire("f", A, None).await;
    let refused = bench.store.set_blob_tags(&at("f"), Tags::NONE, &ALWAYS).await;
    assert!(matches!(refused, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    bench.store.set_blob_tags(&at("f"), Tags::NONE, &with_lease(A)).await.unwrap();
}
