//! A mount dies at a named point; the next one finishes what it had begun.
//!
//! The test runs itself as a child with `LEASEFS_CRASH_AT` set, which dies at the point; the service is in this process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{BlobStore, LeaseRequest, RenameMode, Upstream};

use super::rig::{CHECKED, Rig, Service, always, at, blob, client, curious, noise};

/// What the child gets: the service, the folder, and what to do.
const URL: &str = "MIRROR_CRASH_URL";
const FOLDER: &str = "MIRROR_CRASH_FOLDER";
const DEED: &str = "MIRROR_CRASH_DEED";

/// The child: does one thing and dies in the middle of it. Does nothing in an ordinary run.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_dies() {
    let (Ok(url), Ok(folder), Ok(deed)) = (std::env::var(URL), std::env::var(FOLDER), std::env::var(DEED))
    else {
        return;
    };
    let client = std::sync::Arc::new(client(&url));
    let rig = Rig::of(client, Path::new(&folder), "", MirrorOptions::default()).await;
    rig.list("").await;
    match deed.as_str() {
        "put" => rig.write_and_push("f", b"two").await.unwrap(),
        "blocks" => rig.write_and_push("f", &noise(9 << 20, 2)).await.unwrap(),
        "change_and_remove" => {
            rig.write("f", b"two");
            rig.remove("f").await.unwrap();
        }
        "rename" => rig.rename("f", "g", RenameMode::Replace).await.unwrap(),
        "rename_directory" => rig.rename("d", "e", RenameMode::Replace).await.unwrap(),
        "exchange" => rig.rename("f", "g", RenameMode::Exchange).await.unwrap(),
        "exchange_trees" => {
            for directory in ["d", "e"] {
                rig.list(directory).await;
            }
            rig.rename("d", "e", RenameMode::Exchange).await.unwrap();
        }
        other => panic!("{other}"),
    }
    panic!("{deed} was to die");
}

/// Lets a child do something and die at a point.
async fn die(service: &Service, folder: &Path, deed: &str, point: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "crashes::child_that_dies", "--nocapture"]);
    child.env(URL, service.url()).env(FOLDER, folder).env(DEED, deed).env("LEASEFS_CRASH_AT", point);
    let ended = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    use std::os::unix::process::ExitStatusExt;
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.signal(), Some(6), "{deed} at {point}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_finished_by_the_next_mount() {
    for (deed, point) in [
        ("put", "push_before_commit"),
        ("put", "push_after_commit"),
        ("blocks", "push_before_commit"),
        ("blocks", "push_after_commit"),
    ] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        service.put("f", "one").await;
        die(&service, folder.path(), deed, point).await;
        let rig = Rig::new(&service, folder.path()).await;
        rig.all_pushed().await;
        let expected = if deed == "put" { b"two".to_vec() } else { noise(9 << 20, 2) };
        assert!(service.bytes("f").await.unwrap() == expected, "{deed} {point}");
        rig.write_and_push("f", b"three").await.unwrap();
        assert_eq!(service.text("f").await.unwrap(), "three");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rename_is_finished_by_the_next_mount() {
    for (deed, point, expected) in [
        ("rename", "rename_after_note", &["g"][..]),
        ("rename", "rename_after_copy", &["g"]),
        (
            "rename_directory",
            "rename_after_copy:7",
            &["e/0", "e/1", "e/2", "e/3", "e/4", "e/5", "e/6", "e/7", "e/8"],
        ),
    ] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        if deed == "rename" {
            service.put("f", "moved").await;
            service.put("g", "replaced").await;
        } else {
            for number in 0..9 {
                service.put(&format!("d/{number}"), "moved").await;
            }
        }
        die(&service, folder.path(), deed, point).await;
        let options = MirrorOptions { attr_ttl: Duration::ZERO, ..MirrorOptions::default() };
        let rig = Rig::with(&service, folder.path(), options).await;
        assert!(!rig.mirror.finish_renames().await.unwrap());
        assert_eq!(service.names().await, expected, "{deed} {point}");
        assert_eq!(service.text(expected[0]).await.unwrap(), "moved");
        let top = expected[0].split('/').next().unwrap();
        assert_eq!(rig.list("").await, [top]);
        drop(rig.mirror.remove(&blob(expected[0]), CHECKED).await.unwrap());
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Not only when the push of its changes finds that out: until then the name would show, and then it would go.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_and_removed_does_not_show_again() {
    for known in [true, false] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        if known {
            service.put("f", "one").await;
        }
        die(&service, folder.path(), "change_and_remove", "remove_there_after_delete").await;
        assert!(service.names().await.is_empty());
        service.fail("PUT /devstoreaccount1/share/f", usize::MAX, false, 500);
        let rig = Rig::with(&service, folder.path(), curious()).await;
        assert!(rig.mirror.leftovers_settled(Duration::from_secs(60)).await);
        // What was never there was not removed there: it stays.
        let left: &[&str] = if known { &[] } else { &["f"] };
        assert_eq!(rig.list("").await, left);
        assert_eq!(rig.here("f").is_some(), !known);
        service.faults_end();
        rig.all_pushed().await;
        assert_eq!((rig.list("").await, service.names().await), (names(left), names(left)));
    }
}

/// A mirror that would believe names for long.
fn trusting() -> MirrorOptions {
    MirrorOptions { attr_ttl: Duration::from_secs(600), ..MirrorOptions::default() }
}

/// A mount died in the middle of renaming `d` to `e`, and knew both.
async fn died_renaming() -> (Service, tempfile::TempDir) {
    let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
    service.put("d/f", "moved").await;
    die(&service, folder.path(), "rename_directory", "rename_after_note").await;
    (service, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_names_show_once_the_note_of_a_rename_is_gone() {
    let (service, folder) = died_renaming().await;
    let deleted = service.hold("DELETE /devstoreaccount1/share/.leasefs/renames/");
    let rig = Rig::with(&service, folder.path(), trusting()).await;
    deleted.done.notified().await;
    assert_eq!(rig.list("").await, ["e"]);
    assert_eq!(rig.list("e").await, ["e/f"]);
    deleted.go_on.notify_one();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_from_before_a_rename_was_finished_is_not_believed() {
    let (service, folder) = died_renaming().await;
    // The background finds nothing; the rename is finished when the test says so.
    service.fail("prefix=.leasefs", 3, false, 500);
    let rig = Rig::with(&service, folder.path(), trusting()).await;
    while !service.watched.is_well() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let listing = service.hold("delimiter=");
    let finishing = async {
        listing.done.notified().await;
        rig.mirror.finish_renames().await.unwrap();
        listing.go_on.notify_one();
    };
    let (seen, ()) = tokio::join!(rig.list(""), finishing);
    assert_eq!(seen, ["d"], "as it was");
    assert_eq!(rig.list("").await, ["e"]);
    assert_eq!(rig.list("e").await, ["e/f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_finished_by_the_next_mount() {
    for point in ["exchange_after_aside", "exchange_after_copy"] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        service.put("f", "first").await;
        service.put("g", "second").await;
        die(&service, folder.path(), "exchange", point).await;
        let rig = Rig::new(&service, folder.path()).await;
        rig.mirror.finish_renames().await.unwrap();
        let now = (service.text("f").await.unwrap(), service.text("g").await.unwrap());
        assert_eq!(now, ("second".to_owned(), "first".to_owned()), "{point}");
        assert_eq!(service.names().await, ["f", "g"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_trees_is_finished_by_the_next_mount() {
    for point in [
        "exchange_before_leg:1",
        "exchange_before_leg:2",
        "exchange_before_leg:3",
        "rename_after_copy:1",
        "rename_after_copy:7",
        "rename_after_copy:12",
        "exchange_after_legs",
        "rename_there_after_move",
        "rename_there_after_state",
        "rename_there_after_here",
    ] {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        for number in 0..5 {
            service.put(&format!("d/{number}"), "of d").await;
            service.put(&format!("e/{}", number + 3), "of e").await;
        }
        die(&service, folder.path(), "exchange_trees", point).await;
        let options = MirrorOptions { attr_ttl: Duration::ZERO, ..MirrorOptions::default() };
        let rig = Rig::with(&service, folder.path(), options).await;
        assert!(!rig.mirror.finish_renames().await.unwrap());
        let expected: Vec<String> =
            (3..8).map(|n| format!("d/{n}")).chain((0..5).map(|n| format!("e/{n}"))).collect();
        assert_eq!(service.names().await, expected, "{point}");
        for name in &expected {
            let text = if name.starts_with('d') { "of e" } else { "of d" };
            assert_eq!(service.text(name).await.unwrap(), text, "{point}: {name}");
        }
        assert_eq!([rig.list("d").await, rig.list("e").await].concat(), expected, "{point}");
        rig.rename("d", "e", RenameMode::Exchange).await.unwrap();
        rig.write_and_push("d/0", b"goes on").await.unwrap();
    }
}

/// A mount that dies while it undoes an exchange: the next one goes on undoing it.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_is_being_undone_is_undone_by_the_next_mount() {
    let lease = LeaseRequest::Acquire { proposed: LeaseId(3), duration: LeaseDuration::INFINITE };
    for point in
        ["exchange_before_leg:3", "exchange_before_leg:4", "rename_after_copy:13", "exchange_after_legs"]
    {
        let (service, folder) = (Service::new().await, tempfile::tempdir().unwrap());
        for number in 0..5 {
            service.put(&format!("d/{number}"), "of d").await;
            service.put(&format!("e/{}", number + 3), "of e").await;
        }
        // It is met on the second leg, and last.
        service.put_with("d", "", &[("hdi_isfolder", "true")]).await;
        service.client.lease_blob(&at("d"), lease, &always()).await.unwrap();
        let before = service.names().await;
        die(&service, folder.path(), "exchange_trees", point).await;
        let rig = Rig::new(&service, folder.path()).await;
        assert!(!rig.mirror.finish_renames().await.unwrap());
        assert_eq!(service.names().await, before, "{point}");
        for name in before.iter().filter(|name| name.contains('/')) {
            let text = if name.starts_with('d') { "of d" } else { "of e" };
            assert_eq!(service.text(name).await.unwrap(), text, "{point}: {name}");
        }
    }
}
