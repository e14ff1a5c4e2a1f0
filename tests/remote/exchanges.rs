//! Directories that change places, with files open below them.

use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::{FsError, HandleId, RenameRule};
use leasefs::share::lease::LeaseDuration;
use leasefs::store::{LeaseRequest, StoreError};

use super::rig::{ANYBODY, Here, READ, STRANGER, There, WRITE, segment};

async fn exchange(here: &Here, one: &str, other: &str) -> Result<(), FsError> {
    here.engine.rename((ROOT, &segment(one)), (ROOT, &segment(other)), RenameRule::Exchange).await
}

async fn directory(here: &Here, name: &str) -> Ino {
    here.engine.make_directory(ROOT, &segment(name), 0o755, ANYBODY).await.unwrap().ino
}

async fn create(here: &Here, parent: Ino, name: &str, content: &[u8]) -> HandleId {
    let (_, opened) = here.engine.create(parent, &segment(name), 0o644, WRITE, ANYBODY).await.unwrap();
    here.engine.write(opened.handle, 0, content).await.unwrap();
    opened.handle
}

async fn made(here: &Here, parent: Ino, name: &str, content: &[u8]) {
    let handle = create(here, parent, name, content).await;
    here.close(handle).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_files_follow_directories_that_change_places() {
    let there = There::new().await;
    let big: Vec<u8> = (0..5_000_000u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    there.put("a/cold", &big).await.unwrap();
    there.put("b/cold", &big[1..]).await.unwrap();
    let (here, other) = (there.mirrored().await, there.mirrored().await);
    let (a, b) = (here.lookup("a").await.unwrap(), here.lookup("b").await.unwrap());
    made(&here, a, "both", b"of a").await;
    made(&here, b, "both", b"of b").await;
    // Reading what is not here yet, writing what is committed, and writing what nobody has seen.
    let cold = [here.open("a/cold", READ).await.unwrap(), here.open("b/cold", READ).await.unwrap()];
    let both = [here.open("a/both", WRITE).await.unwrap(), here.open("b/both", WRITE).await.unwrap()];
    here.engine.write(both[0], 4, b", changed").await.unwrap();
    let new = create(&here, a, "new", b"begun").await;
    let numbers = (here.lookup("a/both").await.unwrap(), here.lookup("b/both").await.unwrap());
    exchange(&here, "a", "b").await.unwrap();
    assert_eq!((here.lookup("b").await.unwrap(), here.lookup("a").await.unwrap()), (a, b));
    assert_eq!((here.lookup("b/both").await.unwrap(), here.lookup("a/both").await.unwrap()), numbers);
    assert_eq!(here.read_at(cold[0], 4_000_000, 9).await.unwrap(), &big[4_000_000..4_000_009]);
    assert_eq!(here.read_at(cold[1], 4_000_000, 9).await.unwrap(), &big[4_000_001..4_000_010]);
    here.engine.write(both[1], 4, b", too").await.unwrap();
    here.engine.write(new, 5, b" and ended").await.unwrap();
    for handle in [cold[0], cold[1], both[0], both[1], new] {
        here.close(handle).await.unwrap();
    }
    for (name, text) in
        [("b/both", &b"of a, changed"[..]), ("a/both", b"of b, too"), ("b/new", b"begun and ended")]
    {
        assert_eq!(there.get(name).await.as_deref(), Some(text), "{name}");
        assert_eq!(other.cat(name).await.unwrap(), text, "{name}");
    }
    assert!(there.get("b/cold").await.unwrap() == big);
    assert!(here.cat("a/cold").await.unwrap() == big[1..]);
    assert_eq!(here.engine.conflicts(), 0);
    assert_eq!(there.names().await, ["a/both", "a/cold", "b/both", "b/cold", "b/new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_and_a_directory_change_places_on_a_mount() {
    let there = There::new().await;
    let here = there.mirrored().await;
    let dir = directory(&here, "d").await;
    made(&here, dir, "x", b"below").await;
    here.file("f", b"plain").await;
    let handle = here.open("f", WRITE).await.unwrap();
    exchange(&here, "f", "d").await.unwrap();
    here.engine.write(handle, 0, b"PLAIN").await.unwrap();
    here.close(handle).await.unwrap();
    assert_eq!(there.get("d").await.as_deref(), Some(&b"PLAIN"[..]));
    assert_eq!(here.cat("f/x").await.unwrap(), b"below");
    assert_eq!(there.names().await, ["d", "f", "f/x"]);
    let within = here.engine.rename((ROOT, &segment("f")), (dir, &segment("x")), RenameRule::Exchange).await;
    assert!(matches!(within, Err(FsError::Invalid(_))), "{within:?}");
}

/// Removed files that are open go along on both sides, and with their last close from where they are then.
#[tokio::test(flavor = "multi_thread")]
async fn pending_files_follow_directories_that_change_places() {
    let there = There::new().await;
    let here = there.mirrored().await;
    let (a, b) = (directory(&here, "a").await, directory(&here, "b").await);
    for (parent, name) in [(a, "one"), (a, "two"), (b, "one"), (b, "two")] {
        made(&here, parent, name, name.as_bytes()).await;
    }
    let handles = [here.open("a/one", WRITE).await.unwrap(), here.open("b/two", WRITE).await.unwrap()];
    here.engine.unlink(a, &segment("one")).await.unwrap();
    here.engine.unlink(b, &segment("two")).await.unwrap();
    exchange(&here, "a", "b").await.unwrap();
    assert_eq!((here.list(a).await, here.list(b).await), (vec!["two".to_owned()], vec!["one".to_owned()]));
    assert_eq!(there.names().await, ["a", "a/one", "a/two", "b", "b/one", "b/two"]);
    here.engine.write(handles[0], 0, b"a dead letter").await.unwrap();
    assert_eq!(here.read_at(handles[1], 0, 9).await.unwrap(), b"two");
    for handle in handles {
        here.close(handle).await.unwrap();
    }
    assert_eq!(there.names().await, ["a", "a/one", "b", "b/two"]);
    assert_eq!(
        (there.get("a/one").await, there.get("b/two").await),
        (Some(b"one".into()), Some(b"two".into()))
    );
    // The next start finds nothing to remove.
    let here = there.again(here).await;
    assert_eq!(here.cat("a/one").await.unwrap(), b"one");
    assert_eq!(here.cat("b/two").await.unwrap(), b"two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_lease_below_keeps_directories_where_they_are() {
    let there = There::new().await;
    let here = there.mirrored().await;
    let (a, b) = (directory(&here, "a").await, directory(&here, "b").await);
    made(&here, a, "theirs", b"leased").await;
    made(&here, a, "mine", b"text").await;
    made(&here, b, "mine", b"other").await;
    let handle = here.open("a/mine", WRITE).await.unwrap();
    let take = LeaseRequest::Acquire { proposed: STRANGER, duration: LeaseDuration::INFINITE };
    there.lease("a/theirs", take).await.unwrap();
    for (one, other) in [("a", "b"), ("b", "a")] {
        let refused = exchange(&here, one, other).await;
        assert!(matches!(refused, Err(FsError::Leased(_))), "{refused:?}");
    }
    here.engine.write(handle, 0, b"TEXT").await.unwrap();
    here.close(handle).await.unwrap();
    assert_eq!(there.get("a/mine").await.as_deref(), Some(&b"TEXT"[..]));
    assert_eq!(there.names().await, ["a", "a/mine", "a/theirs", "b", "b/mine"]);
    assert_eq!((here.lookup("a").await.unwrap(), here.lookup("b").await.unwrap()), (a, b));
    there.lease("a/theirs", LeaseRequest::Release { id: STRANGER }).await.unwrap();
    exchange(&here, "a", "b").await.unwrap();
    assert_eq!(here.cat("b/theirs").await.unwrap(), b"leased");
    assert_eq!(here.engine.conflicts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_follow_directories_that_change_places() {
    let there = There::new().await;
    there.put("a/held", b"of a").await.unwrap();
    there.put("b/held", b"of b").await.unwrap();
    let here = there.mirrored_pessimistic().await;
    let handles = [here.open("a/held", WRITE).await.unwrap(), here.open("b/held", WRITE).await.unwrap()];
    here.engine.write(handles[0], 0, b"OF").await.unwrap();
    exchange(&here, "a", "b").await.unwrap();
    for name in ["a/held", "b/held"] {
        assert!(matches!(there.put(name, b"stranger").await, Err(StoreError::Lease(_))), "{name}");
    }
    for handle in handles {
        here.close(handle).await.unwrap();
    }
    assert_eq!(there.get("b/held").await.as_deref(), Some(&b"OF a"[..]));
    there.put("a/held", b"free").await.unwrap();
    there.put("b/held", b"free").await.unwrap();
}
