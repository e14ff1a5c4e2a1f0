//! Trees that change places at a service that knows no renames.

use std::collections::BTreeMap;

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{BlobStore, LeaseRequest, LocalStore, Metadata, RenameMode, StoreError, Upstream};

use super::rig::{CHECKED, Rig, Service, always, at, blob, curious, here, noise};

/// What marks a directory.
const FOLDER: &[(&str, &str)] = &[("hdi_isfolder", "true")];

/// Everything that the service has: names and texts.
async fn all(service: &Service) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in service.names().await {
        let text = service.text(&name).await.unwrap();
        found.insert(name, text);
    }
    found
}

fn tree(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Two trees with some names in common, and one with a marker.
const BEFORE: &[(&str, &str)] = &[
    ("a", ""),
    ("a/both", "a's"),
    ("a/only", "in a"),
    ("a/sub/both", "a's, deep"),
    ("b/both", "b's"),
    ("b/sub/both", "b's, deep"),
    ("b/sub/more", "in b"),
];
const AFTER: &[(&str, &str)] = &[
    ("a/both", "b's"),
    ("a/sub/both", "b's, deep"),
    ("a/sub/more", "in b"),
    ("b", ""),
    ("b/both", "a's"),
    ("b/only", "in a"),
    ("b/sub/both", "a's, deep"),
];

async fn put_all(service: &Service, entries: &[(&str, &'static str)]) {
    for (name, text) in entries {
        let metadata = if text.is_empty() { FOLDER } else { &[] };
        service.put_with(name, text, metadata).await;
    }
}

/// Brings all names to the mirror.
async fn look(rig: &Rig) {
    for directory in ["", "a", "b", "a/sub", "b/sub"] {
        rig.list(directory).await;
    }
}

/// The mirror has the same names as the service, and takes nothing for a change.
async fn agrees(rig: &Rig, service: &Service, expected: &[(&str, &str)], when: &str) {
    assert_eq!(all(service).await, tree(expected), "{when}");
    for directory in ["", "a", "b", "a/sub", "b/sub"] {
        let listed = rig.list(directory).await;
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut names: Vec<String> = Vec::new();
        for (name, _) in expected {
            let Some(rest) = name.strip_prefix(&prefix) else { continue };
            let first = rest.split('/').next().unwrap();
            let name = format!("{prefix}{first}");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        assert_eq!(listed, names, "{when}: in {directory:?}");
    }
    assert_eq!(rig.mirror.status().waiting_files, 0, "{when}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_directories_change_places_with_everything_in_them() {
    for turned in [false, true] {
        let (service, _folder, rig) = before().await;
        let versions = ["a/both", "b/both", "b/sub/more", "a"].map(|name| rig.here(name).unwrap().etag);
        let (one, other) = if turned { ("b", "a") } else { ("a", "b") };
        rig.rename(one, other, RenameMode::Exchange).await.unwrap();
        agrees(&rig, &service, AFTER, "after the exchange").await;
        let now = ["b/both", "a/both", "a/sub/more", "b"].map(|name| rig.here(name).unwrap().etag);
        assert_eq!(now, versions, "what is known went along");
        // And it can be worked on.
        rig.write_and_push("a/both", b"changed").await.unwrap();
        rig.write_and_push("b/both", b"changed, too").await.unwrap();
        rig.remove("a/sub/more").await.unwrap();
        rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
        assert_eq!(service.text("b/both").await.unwrap(), "changed");
        assert_eq!(service.text("a/both").await.unwrap(), "changed, too");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_and_a_directory_change_places() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let two = tempfile::tempdir().unwrap();
    service.put("b", "a file").await;
    service.put("a/x/deep", "deep").await;
    service.put_with("empty", "", FOLDER).await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    let other = Rig::with(&service, two.path(), curious()).await;
    for rig in [&rig, &other] {
        rig.list("").await;
        rig.list("a").await;
        rig.list("a/x").await;
    }
    rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
    assert_eq!(all(&service).await, tree(&[("a", "a file"), ("b/x/deep", "deep"), ("empty", "")]));
    // A mount that knew the directory sees a file, and the other way round.
    for rig in [&rig, &other] {
        assert_eq!(rig.list("").await, ["a", "b", "empty"]);
        let found = rig.store.find(&here("a")).unwrap();
        assert!(found.prefix.is_none() && found.blob.unwrap().size == 6);
        assert_eq!(rig.list("b/x").await, ["b/x/deep"]);
    }
    // The other way round, and with an empty directory.
    rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
    rig.rename("b", "empty", RenameMode::Exchange).await.unwrap();
    assert_eq!(all(&service).await, tree(&[("a/x/deep", "deep"), ("b", ""), ("empty", "a file")]));
    assert_eq!(rig.list("").await, ["a", "b", "empty"]);
    rig.write_and_push("empty", b"goes on").await.unwrap();
    // Nothing changes places with what is in it.
    let refused = rig.rename("a", "a/x", RenameMode::Exchange).await;
    assert!(matches!(refused, Err(StoreError::InvalidRename { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_pushed_is_pushed_before_trees_change_places() {
    for write_back in [false, true] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        put_all(&service, BEFORE).await;
        let options = MirrorOptions { write_back, ..curious() };
        let rig = Rig::with(&service, folder.path(), options).await;
        look(&rig).await;
        let big = noise(9 << 20, 1);
        rig.write_and_push("a/big", &big).await.unwrap();
        rig.write("a/both", b"changed in a");
        rig.write("b/both", b"changed in b");
        rig.write("b/new", b"never there");
        rig.write("a/big", &big);
        rig.patch("a/big", 0, b"x", big.len() as u64);
        // Written in place: noted, and nothing to push as yet.
        let in_place = ["a/only", "a/sub/both", "b/sub/both"];
        in_place.iter().for_each(|name| rig.mirror.in_place(&blob(name)).unwrap());
        rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
        for (name, text) in [
            ("b/both", "changed in a"),
            ("a/both", "changed in b"),
            ("a/new", "never there"),
            ("b/only", "in a"),
        ] {
            assert_eq!(service.text(name).await.as_deref(), Some(text), "{name}");
        }
        assert!(service.bytes("b/big").await.unwrap()[..] == [b"x", &big[1..]].concat());
        assert_eq!(
            rig.mirror.status().waiting_files,
            3,
            "what is written in place is noted under its new name"
        );
        for name in ["b/only", "b/sub/both", "a/sub/both"] {
            rig.mirror.at_rest(&blob(name));
            rig.push(name).await.unwrap();
        }
        rig.all_pushed().await;
        // The blocks are known under the new name.
        rig.patch("b/big", 5 << 20, b"y", big.len() as u64);
        service.asked();
        rig.mirror.push(&blob("b/big"), CHECKED).await.unwrap();
        rig.all_pushed().await;
        let blocks = service.asked().into_iter().filter(|(what, _)| what.contains("comp=block&"));
        assert_eq!(blocks.map(|(_, length)| length).sum::<u64>(), 4 << 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_that_somebody_changed_are_not_exchanged_over_unpushed_work() {
    let (service, _folder, rig) = before().await;
    rig.write("a/both", b"mine");
    service.put("a/both", "theirs").await;
    let before = all(&service).await;
    let refused = rig.rename("a", "b", RenameMode::Exchange).await;
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)), "{refused:?}");
    assert_eq!(all(&service).await, before);
}

/// What is being read goes on being read after the exchange, from where it is now.
#[tokio::test(flavor = "multi_thread")]
async fn content_on_its_way_follows_an_exchange() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    let (first, second) = (noise(3 << 20, 1), noise(3 << 20, 2));
    for (name, content) in [("a/big", &first), ("b/big", &second)] {
        let body = bytes::Bytes::from(content.clone()).into();
        service
            .client
            .put_blob(&at(name), body, leasefs::store::NewContent::default(), &always())
            .await
            .unwrap();
    }
    let rig = Rig::with(&service, folder.path(), curious()).await;
    for directory in ["", "a", "b"] {
        rig.list(directory).await;
    }
    let in_a = rig.mirror.content(&blob("a/big")).await.unwrap().fetch.unwrap();
    let in_b = rig.mirror.content(&blob("b/big")).await.unwrap().fetch.unwrap();
    in_a.bring(0..100).await.unwrap();
    rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
    for (fetch, name, content) in [(in_a, "b/big", &first), (in_b, "a/big", &second)] {
        fetch.bring(0..u64::MAX).await.unwrap();
        let mut bytes = vec![0; content.len()];
        rig.store.reader(&here(name)).unwrap().read_at(&mut bytes, 0).unwrap();
        assert!(bytes == *content, "{name}");
        let again = rig.mirror.content(&blob(name)).await.unwrap().fetch.unwrap();
        assert!(again.is_here(&(0..u64::MAX)), "{name}: what was brought is known");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_with_a_leased_file_below_is_undone() {
    for leased in ["b/both", "b/sub/more", "a/both", "a/sub/both"] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        put_all(&service, BEFORE).await;
        for number in 0..40 {
            service.put(&format!("b/sub/n{number}"), "x").await;
            service.put(&format!("a/sub/n{number}"), "x").await;
        }
        let lease = LeaseRequest::Acquire { proposed: LeaseId(3), duration: LeaseDuration::INFINITE };
        service.client.lease_blob(&at(leased), lease, &always()).await.unwrap();
        let rig = Rig::with(&service, folder.path(), curious()).await;
        look(&rig).await;
        rig.mirror.in_place(&blob("a/sub/n1")).unwrap();
        let versions = BEFORE.iter().map(|(name, _)| rig.here(name).map(|blob| blob.etag));
        let versions: Vec<_> = versions.collect();
        let before = all(&service).await;
        let refused = rig.rename("a", "b", RenameMode::Exchange).await;
        assert!(matches!(refused, Err(StoreError::Lease(_))), "{leased}: {refused:?}");
        assert_eq!(all(&service).await, before, "{leased}");
        // What is known here followed: nothing seems changed, and a checked push goes through.
        look(&rig).await;
        let now: Vec<_> = BEFORE.iter().map(|(name, _)| rig.here(name).map(|blob| blob.etag)).collect();
        assert_eq!(now, versions, "{leased}");
        assert_eq!(rig.mirror.status().waiting_files, 1, "what is written in place is still noted");
        for name in ["a/only", "b/sub/both", "a/sub/n7"] {
            rig.write_and_push(name, b"goes on").await.unwrap();
        }
        let free = LeaseRequest::Release { id: LeaseId(3) };
        service.client.lease_blob(&at(leased), free, &always()).await.unwrap();
        rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
        assert_eq!(service.text("b/only").await.unwrap(), "goes on");
        assert_eq!(service.text("b/sub/n7").await.unwrap(), "goes on");
    }
}

/// Somebody makes a name again right after it was moved: nothing of the three is lost, and nothing stays aside.
#[tokio::test(flavor = "multi_thread")]
async fn what_finds_its_place_taken_is_kept_beside() {
    let (service, _folder, rig) = before().await;
    let gone = service.hold("DELETE /devstoreaccount1/share/a/both");
    let somebody = async {
        gone.done.notified().await;
        service.put("a/both", "theirs").await;
        service.put_with("a/sub", "", FOLDER).await;
        assert!(rig.mirror.status().moving.is_some_and(|(done, seen)| done > 0 && done <= seen));
        gone.go_on.notify_one();
    };
    let exchange = rig.rename("a", "b", RenameMode::Exchange);
    let (exchanged, ()) = tokio::join!(exchange, somebody);
    exchanged.unwrap();
    assert_eq!(rig.mirror.status().moving, None);
    let mut found = all(&service).await;
    let copies: Vec<String> = found.keys().filter(|name| name.contains(".conflict-")).cloned().collect();
    assert_eq!(copies.len(), 1, "{found:?}");
    assert!(copies[0].starts_with("a/both.conflict-exchange-"), "{copies:?}");
    assert_eq!(found.remove(&copies[0]).unwrap(), "b's");
    let mut expected = tree(AFTER);
    expected.insert("a/both".to_owned(), "theirs".to_owned());
    expected.insert("a/sub".to_owned(), String::new());
    assert_eq!(found, expected);
    assert_eq!(rig.list("a").await, ["a/both", &*copies[0], "a/sub"]);
    assert_eq!(rig.here("a/both").unwrap().size, 6, "this mirror has it, too");
}

/// The same on the way there: then the whole exchange is undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_on_the_way_undoes_the_exchange() {
    let (service, _folder, rig) = before().await;
    let gone = service.hold("DELETE /devstoreaccount1/share/b/both");
    let somebody = async {
        gone.done.notified().await;
        service.put("b/only", "theirs").await;
        gone.go_on.notify_one();
    };
    let (refused, ()) = tokio::join!(rig.rename("a", "b", RenameMode::Exchange), somebody);
    assert!(matches!(refused, Err(StoreError::ConditionNotMet)), "{refused:?}");
    let found = all(&service).await;
    let mut expected = tree(BEFORE);
    expected.insert("b/only".to_owned(), "theirs".to_owned());
    assert_eq!(found, expected);
}

/// The two trees at a service, and a mirror that knows them.
async fn before() -> (Service, tempfile::TempDir, Rig) {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    put_all(&service, BEFORE).await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    look(&rig).await;
    (service, folder, rig)
}

/// How the service fails: after so many requests, so many times, and whether it did what it was asked.
#[derive(Clone, Copy, Debug)]
struct Failing {
    after: usize,
    times: usize,
    done: bool,
}

/// An exchange with failures from some request on, asked for until it succeeds. Answers whether all failures came.
async fn exchange_failing(failing: Failing) -> bool {
    let (service, _folder, rig) = before().await;
    rig.write("a/both", b"a's");
    let versions = ["a/only", "b/both"].map(|name| rig.here(name).unwrap().etag);
    service.fail_after(failing.after, failing.times, failing.done);
    let mut tries = 0;
    while let Err(error) = rig.rename("a", "b", RenameMode::Exchange).await {
        tries += 1;
        assert!(tries < 10 && matches!(error, StoreError::Io { .. }), "{failing:?}: {error:?}");
    }
    let all = service.faults_end();
    rig.mirror.finish_renames().await.unwrap();
    agrees(&rig, &service, AFTER, &format!("{failing:?}")).await;
    let now = ["b/only", "a/both"].map(|name| rig.here(name).unwrap().etag);
    assert_eq!(now, versions, "{failing:?}");
    for name in ["a/sub/more", "b/both", "b/sub/both"] {
        rig.write_and_push(name, b"goes on").await.unwrap();
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_request_of_an_exchange_fails_it_happens_once_or_not_at_all() {
    for (times, done) in [(4, false), (4, true), (11, true)] {
        let mut after = 0;
        while exchange_failing(Failing { after, times, done }).await {
            // Of the long failures every third will do.
            after += if times > 4 { 3 } else { 1 };
            assert!(after < 200, "the exchange ends some time");
        }
        assert!(after > 30, "every request had its turn: {after}");
    }
}

/// An exchange that failed and is not asked for again is undone when the service is back.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_failed_is_undone_later() {
    for after in [12, 20, 30, 40] {
        let (service, _folder, rig) = before().await;
        service.fail_after(after, 1000, true);
        let failed = rig.rename("a", "b", RenameMode::Exchange).await;
        assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
        rig.write("a/only", b"written meanwhile");
        assert!(rig.push("a/only").await.is_err(), "{after}: the service is away");
        assert!(!service.faults_end());
        // What was told to have failed has not happened, whatever is there as yet.
        rig.mirror.refresh_directory(Some(&blob("a"))).await.unwrap();
        rig.mirror.refresh_directory(Some(&blob("b"))).await.unwrap();
        for (name, _) in BEFORE {
            assert!(rig.here(name).is_some(), "{after}: {name}");
        }
        assert!(rig.here("a/sub/more").is_none() && rig.here("b/only").is_none(), "{after}");
        // Whoever changes something below does not meet what is half done.
        rig.push("a/only").await.unwrap();
        assert_eq!(service.text("a/only").await.unwrap(), "written meanwhile");
        rig.mirror.finish_renames().await.unwrap();
        rig.all_pushed().await;
        let mut expected = tree(BEFORE);
        expected.insert("a/only".to_owned(), "written meanwhile".to_owned());
        assert_eq!(all(&service).await, expected, "{after}");
        look(&rig).await;
        rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
        assert_eq!(service.text("b/only").await.unwrap(), "written meanwhile");
    }
}

/// Also if the mount ends before anybody touches those names again.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_failed_is_undone_before_the_mount_ends() {
    for after in [12, 30] {
        let (service, folder, rig) = before().await;
        service.fail_after(after, 1000, true);
        let failed = rig.rename("a", "b", RenameMode::Exchange).await;
        assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
        assert!(!service.faults_end());
        rig.mirror.drain(&|_| {}).await.unwrap();
        rig.close().await;
        let next = Rig::with(&service, folder.path(), curious()).await;
        next.mirror.finish_renames().await.unwrap();
        assert_eq!(all(&service).await, tree(BEFORE), "{after}");
    }
}

/// A directory of other tools, with a slash at the end of its marker, is one with everything in it.
#[tokio::test(flavor = "multi_thread")]
async fn markers_with_a_slash_change_places_too() {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("a/", "").await;
    service.put("b/f", "in b").await;
    let rig = Rig::with(&service, folder.path(), curious()).await;
    for directory in ["", "a", "b"] {
        rig.list(directory).await;
    }
    rig.rename("a", "b", RenameMode::Exchange).await.unwrap();
    assert_eq!(all(&service).await, tree(&[("a/f", "in b"), ("b/", "")]));
    assert_eq!((rig.list("").await, rig.list("b").await), (vec!["a".to_owned(), "b".to_owned()], vec![]));
    let metadata = Metadata::from([("hdi_isfolder".to_owned(), "true".to_owned())]);
    assert_eq!(rig.here("b").unwrap().metadata, metadata);
    rig.remove("b").await.unwrap();
    assert_eq!(service.names().await, ["a/f"]);
}
