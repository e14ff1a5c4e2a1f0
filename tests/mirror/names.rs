//! Names and attributes that others make show in the mirror, with few requests, and nothing of ours is lost by it.

use std::time::Duration;

use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{BlobStore, Changed, LocalStore, Standing, Upstream};

use super::rig::{CHECKED, Rig, Service, always, at, blob, curious, here};

/// A mirror that believes everything for long, so that requests can be counted.
fn patient() -> MirrorOptions {
    MirrorOptions { attr_ttl: Duration::from_secs(3600), ..MirrorOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_listing_answers_for_all_names_of_a_directory() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put_with("d/one", "1", &[("permissions", "33188")]).await;
    service.put("d/two", "22").await;
    service.put("d/e/three", "333").await;
    let rig = Rig::with(&service, folder.path(), patient()).await;
    service.asked();
    assert_eq!(rig.list("d").await, ["d/e", "d/one", "d/two"]);
    for name in ["d/one", "d/two", "d/e", "d/none", "d/neither"] {
        rig.mirror.refresh_name(&blob(name)).await.unwrap();
    }
    assert_eq!(rig.list("d").await.len(), 3);
    assert_eq!(service.asked().len(), 1, "one listing for everything");
    let one = rig.here("d/one").unwrap();
    assert_eq!((one.size, one.metadata.get("permissions")), (1, Some("33188")));
    let there = service.client.blob_properties(&at("d/one"), None, &always()).await.unwrap();
    assert_eq!(one.modified, there.modified, "the time is the service's");
    assert!(rig.here("d/none").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_name_is_found_by_listing_its_directory() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("a/b/c", "x").await;
    let rig = Rig::with(&service, folder.path(), patient()).await;
    service.asked();
    for name in ["a", "a/b", "a/b/c", "a/b/d", "b"] {
        rig.mirror.refresh_name(&blob(name)).await.unwrap();
    }
    let asked = service.asked_texts();
    assert_eq!(asked.len(), 3, "the root, a and a/b: {asked:?}");
    assert!(rig.here("a/b/c").is_some() && rig.here("a/b/d").is_none() && rig.here("b").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_of_every_tool_are_understood() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put_with("marked", "", &[("hdi_isfolder", "true")]).await;
    service.put("marked/f", "x").await;
    service.put_with("slashed/", "", &[("hdi_isfolder", "true")]).await;
    service.put("implicit/f", "x").await;
    service.put(".leasefs/renames.txt", "ours").await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    assert_eq!(rig.list("").await, ["implicit", "marked", "slashed"]);
    for name in ["implicit", "marked", "slashed"] {
        assert_eq!(rig.here(name).unwrap().metadata.get("hdi_isfolder"), Some("true"), "{name}");
    }
    assert_eq!(rig.list("slashed").await, [""; 0]);
    rig.remove("slashed").await.unwrap();
    assert_eq!(rig.list("").await, ["implicit", "marked"]);
    assert!(!service.names().await.contains(&"slashed/".to_owned()));
    // A directory without a blob of its own stays when its last entry goes.
    rig.list("implicit").await;
    rig.remove("implicit/f").await.unwrap();
    assert_eq!(rig.list("").await, ["implicit", "marked"]);
    assert_eq!(rig.list("implicit").await, [""; 0]);
    rig.remove("implicit").await.unwrap();
    assert_eq!(rig.list("").await, ["marked"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_change_and_remove_shows() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("d/f", "old").await;
    service.put("d/g", "stays").await;
    service.put("d/sub/deep", "x").await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    assert_eq!(rig.list("d").await, ["d/f", "d/g", "d/sub"]);
    assert_eq!(rig.list("d/sub").await, ["d/sub/deep"]);
    let before = rig.here("d/g").unwrap();
    service.put("d/f", "newer").await;
    service.put("d/h", "more").await;
    service.delete("d/sub/deep").await;
    assert_eq!(rig.list("d").await, ["d/f", "d/g", "d/h"]);
    assert_eq!(rig.here("d/f").unwrap().size, 5);
    assert_eq!(rig.here("d/g").unwrap().etag, before.etag, "what is the same is left alone");
    assert!(rig.here("d/sub/deep").is_none(), "a tree goes as a whole");
    let feed = rig.store.changes();
    service.put("d/g", "told").await;
    rig.list("d").await;
    let mut feed = feed;
    let told = feed.next(Duration::from_secs(10)).unwrap();
    assert!(!told.is_empty(), "the engine hears of what the mirror changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_pushed_is_never_replaced_or_removed() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("f", "theirs").await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    rig.list("").await;
    rig.write("f", b"mine");
    rig.write("new/g", b"mine too");
    service.put("f", "theirs again").await;
    assert_eq!(rig.list("").await, ["f", "new"]);
    assert_eq!(rig.mirror.revalidate(&blob("f")).await.unwrap(), Standing::default());
    assert_eq!(rig.here("f").unwrap().size, 4);
    assert_eq!(rig.list("new").await, ["new/g"]);
    rig.mirror.give_up(&blob("f"), rig.here("f").unwrap().etag).await.unwrap();
    assert_eq!(rig.here("f").unwrap().size, 12, "the service's version takes its place");
    rig.mirror.give_up(&blob("new/g"), rig.here("new/g").unwrap().etag).await.unwrap();
    assert!(rig.here("new/g").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_somebody_else_is_told() {
    use leasefs::share::lease::{LeaseDuration, LeaseId};
    use leasefs::store::LeaseRequest;
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("f", "x").await;
    let rig = Rig::with(&service, folder.path(), patient()).await;
    assert_eq!(rig.mirror.revalidate(&blob("f")).await.unwrap(), Standing::default());
    let acquire = LeaseRequest::Acquire { proposed: LeaseId(7), duration: LeaseDuration::INFINITE };
    service.client.lease_blob(&at("f"), acquire, &always()).await.unwrap();
    assert!(rig.mirror.revalidate(&blob("f")).await.unwrap().leased);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_away_leaves_what_is_known() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("d/f", "x").await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    assert_eq!(rig.list("d").await, ["d/f"]);
    service.stop().await;
    assert_eq!(rig.list("d").await, ["d/f"], "a stale listing is better than none");
    assert!(rig.mirror.revalidate(&blob("d/f")).await.unwrap().stale);
    assert!(rig.mirror.refresh_directory(Some(&blob("never"))).await.is_err(), "nothing is known of it");
    assert!(rig.mirror.remove(&blob("d/f"), CHECKED).await.is_err());
    assert!(rig.store.find(&here("d/f")).unwrap().blob.is_some());
    let changing = rig.mirror.will_change(&blob("d/f"), Changed::Everything).unwrap();
    rig.put("d/f", b"kept", Default::default());
    drop(changing);
    assert!(rig.push("d/f").await.is_err());
    assert_eq!(rig.mirror.status().waiting_files, 1, "nothing is dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_is_a_share_of_its_own() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("inside/of/f", "x").await;
    service.put("outside", "x").await;
    let rig = Rig::of(service.client.clone(), folder.path(), "/inside/of/", curious()).await;
    assert_eq!(rig.list("").await, ["f"]);
    rig.write_and_push("g", b"new").await.unwrap();
    assert_eq!(service.text("inside/of/g").await.unwrap(), "new");
    rig.rename("g", "h", leasefs::store::RenameMode::Replace).await.unwrap();
    assert_eq!(service.names().await, ["inside/of/f", "inside/of/h", "outside"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_is_listed_ahead_and_never_twice() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    for number in 0..30 {
        service.put_with(&format!("p/d{number:02}/f"), "x", &[]).await;
    }
    service.put("p/file", "not a directory").await;
    let rig = Rig::with(&service, folder.path(), patient()).await;
    rig.list("p").await;
    service.asked();
    rig.list("p/d00").await;
    rig.list("p/d01").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(service.asked().len(), 2, "who lists two directories gets two");
    for number in 2..30 {
        assert_eq!(rig.list(&format!("p/d{number:02}")).await, [format!("p/d{number:02}/f")]);
    }
    let asked = service.asked_texts();
    assert_eq!(asked.len(), 28, "each once: {asked:?}");
    for number in 0..30 {
        rig.list(&format!("p/d{number:02}")).await;
    }
    assert_eq!(service.asked().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_ahead_leaves_alone_what_is_changed_beside_it() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    for number in 0..8 {
        service.put_with(&format!("p/d{number}/f"), "old", &[]).await;
    }
    let rig = Rig::with(&service, folder.path(), patient()).await;
    for directory in ["p", "p/d0", "p/d1"] {
        rig.list(directory).await;
    }
    // The answer to a listing ahead is on its way while the names in it change here.
    let held = service.hold("prefix=p%2Fd4%2F");
    rig.list("p/d2").await;
    held.done.notified().await;
    rig.write_and_push("p/d4/new", b"new").await.unwrap();
    rig.write("p/d4/mine", b"not pushed");
    held.go_on.notify_one();
    assert_eq!(rig.list("p/d4").await, ["p/d4/f", "p/d4/mine", "p/d4/new"]);
    rig.push("p/d4/mine").await.unwrap();
    assert_eq!(service.text("p/d4/new").await.unwrap(), "new");
    assert_eq!(service.text("p/d4/mine").await.unwrap(), "not pushed");
}
