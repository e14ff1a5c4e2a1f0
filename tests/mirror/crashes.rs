//! A mount dies at a named point; the next one finishes what it had begun.
//!
//! The test runs itself as a child with `LEASEFS_CRASH_AT` set, which dies at the point; the service is in this process.

use std::path::Path;
use std::process::Command;

use leasefs::store::mirror::MirrorOptions;
use leasefs::store::{RenameMode, Upstream};

use super::rig::{CHECKED, Rig, Service, blob, client, noise};

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
        "rename" => rig.rename("f", "g", RenameMode::Replace).await.unwrap(),
        "rename_directory" => rig.rename("d", "e", RenameMode::Replace).await.unwrap(),
        "exchange" => rig.rename("f", "g", RenameMode::Exchange).await.unwrap(),
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
        let options = MirrorOptions { attr_ttl: std::time::Duration::ZERO, ..MirrorOptions::default() };
        let rig = Rig::with(&service, folder.path(), options).await;
        assert!(!rig.mirror.finish_renames().await.unwrap());
        assert_eq!(service.names().await, expected, "{deed} {point}");
        assert_eq!(service.text(expected[0]).await.unwrap(), "moved");
        let top = expected[0].split('/').next().unwrap();
        assert_eq!(rig.list("").await, [top]);
        drop(rig.mirror.remove(&blob(expected[0]), CHECKED).await.unwrap());
    }
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
