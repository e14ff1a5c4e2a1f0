//! Who takes a lease, how long it is held, and whom it keeps out.

use std::sync::Arc;
use std::time::Duration;

use leasefs::fs::gate::Claim;
use leasefs::fs::nodes::ROOT;
use leasefs::fs::policy::SharePolicy;
use leasefs::fs::strategy::Concurrency;
use leasefs::fs::{Engine, FsError, RenameRule};
use leasefs::share::lease::LeaseRefusal;
use leasefs::share::{Access, ShareMode};
use leasefs::store::embedded::EmbeddedStore;
use leasefs::store::{BlobStore, StoreError};

use crate::rig::{ANYBODY, READ, Rig, WRITE, config, segment, share};

fn is_leased<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Lease(LeaseRefusal::IdMissing)))
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_open_holds_the_lease_until_it_is_closed() {
    let rig = Rig::exclusive().await;
    let ino = rig.file("a", b"one").await;
    assert!(rig.engine.lease_list().is_empty(), "given back at the close");
    let handle = rig.open(ino, WRITE).await.unwrap();
    assert_eq!(rig.engine.lease_list().len(), 1);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(is_leased(&rig.put("a", b"stranger").await), "renewed in time");
        assert!(is_leased(&rig.delete("a").await));
        assert!(rig.take_lease("a").await.is_err());
    }
    assert_eq!(rig.content("a").await, b"one", "reads need no lease");
    rig.engine.write(handle, 0, b"two").await.unwrap();
    rig.close(handle).await.unwrap();
    assert_eq!(rig.content("a").await, b"two");
    assert!(rig.engine.lease_list().is_empty());
    rig.put("a", b"stranger").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_foreign_lease_refuses_writers_and_lets_readers_in() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"one").await;
    rig.file("b", b"other").await;
    rig.take_lease("a").await.unwrap();
    let refused = rig.open(ino, WRITE).await.unwrap_err();
    assert!(matches!(&refused, FsError::Leased(known) if known.contains("without end")), "{refused}");
    let handle = rig.open(ino, READ).await.unwrap();
    assert_eq!(rig.read(handle), b"one");
    rig.close(handle).await.unwrap();
    let (a, b, c) = (segment("a"), segment("b"), segment("c"));
    let engine = &rig.engine;
    assert!(matches!(engine.unlink(ROOT, &a).await, Err(FsError::Leased(_))));
    let moved = engine.rename((ROOT, &a), (ROOT, &c), RenameRule::Replace).await;
    assert!(matches!(moved, Err(FsError::Leased(_))));
    let replaced = engine.rename((ROOT, &b), (ROOT, &a), RenameRule::Replace).await;
    assert!(matches!(replaced, Err(FsError::Leased(_))));
    assert_eq!((rig.content("a").await, rig.content("b").await), (b"one".to_vec(), b"other".to_vec()));
    rig.break_lease("a").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    rig.close(handle).await.unwrap();
    engine.rename((ROOT, &a), (ROOT, &c), RenameRule::Replace).await.unwrap();
    engine.unlink(ROOT, &c).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_open_takes_no_lease_and_a_pessimistic_one_does() {
    for (strategy, leases) in
        [(Concurrency::Optimistic, 0), (Concurrency::LastWriterWins, 0), (Concurrency::Pessimistic, 1)]
    {
        let rig = Rig::new(strategy, SharePolicy::Shared).await;
        let ino = rig.file("a", b"one").await;
        let handle = rig.open(ino, WRITE).await.unwrap();
        assert_eq!(rig.engine.lease_list().len(), leases, "{strategy}");
        let reader = rig.open(ino, READ).await.unwrap();
        assert_eq!(rig.engine.lease_list().len(), leases, "{strategy}");
        rig.close(reader).await.unwrap();
        rig.close(handle).await.unwrap();
        assert!(rig.engine.lease_list().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn opens_of_one_file_share_one_lease() {
    let rig = Rig::new(Concurrency::Pessimistic, SharePolicy::Shared).await;
    let ino = rig.file("a", b"one").await;
    let (first, second) = (rig.open(ino, WRITE).await.unwrap(), rig.open(ino, WRITE).await.unwrap());
    assert_eq!(rig.engine.lease_list().iter().map(|lease| lease.uses).collect::<Vec<_>>(), [2]);
    rig.close(first).await.unwrap();
    assert!(is_leased(&rig.put("a", b"stranger").await), "the second still holds it");
    rig.close(second).await.unwrap();
    rig.put("a", b"stranger").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_becomes_exclusive_takes_the_lease() {
    let rig = Rig::optimistic().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    let claim = |share| Claim { access: Access::READ_WRITE, share };
    rig.engine.set_share(handle, claim(ShareMode::READ)).await.unwrap();
    assert!(is_leased(&rig.put("a", b"stranger").await));
    rig.engine.set_share(handle, claim(ShareMode::ALL)).await.unwrap();
    rig.take_lease("a").await.unwrap();
    let refused = rig.engine.set_share(handle, claim(ShareMode::NONE)).await;
    assert!(matches!(refused, Err(FsError::Leased(_))));
    assert_eq!(rig.engine.handle_state(handle).unwrap().share, ShareMode::ALL, "a refusal changes nothing");
    rig.close(handle).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leased_file_is_renamed_changed_and_removed_by_its_holder() {
    let rig = Rig::exclusive().await;
    let ino = rig.file("a", b"one").await;
    let handle = rig.open(ino, WRITE).await.unwrap();
    let claim = Claim { access: Access::READ_WRITE, share: ShareMode::DELETE };
    rig.engine.set_share(handle, claim).await.unwrap();
    let (a, b) = (segment("a"), segment("b"));
    rig.engine.rename((ROOT, &a), (ROOT, &b), RenameRule::Replace).await.unwrap();
    rig.engine.set_xattr(ino, b"user.x", b"1", leasefs::fs::XattrMode::Set).await.unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(is_leased(&rig.put("b", b"stranger").await), "the lease follows the name");
    rig.engine.write(handle, 0, b"two").await.unwrap();
    rig.engine.fsync(handle).await.unwrap();
    assert_eq!(rig.content("b").await, b"two");
    rig.engine.unlink(ROOT, &b).await.unwrap();
    rig.close(handle).await.unwrap();
    assert!(rig.names("").await.is_empty(), "gone with the last close");
    assert!(rig.engine.lease_list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_dead_engine_left_is_no_obstacle() {
    let rig = Rig::exclusive().await;
    let (a, b) = (rig.file("a", b"one").await, rig.file("b", b"one").await);
    rig.open(a, WRITE).await.unwrap();
    rig.open(b, WRITE).await.unwrap();
    let store = Arc::clone(&rig.store);
    let start = |policy| {
        let blobs: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(&store);
        Engine::start(blobs, share(), config(Concurrency::Optimistic, policy))
    };
    let engine = start(SharePolicy::Exclusive).await.unwrap();
    let ino = engine.lookup(ROOT, &segment("a")).await.unwrap().ino;
    let handle = engine.open(ino, WRITE, ANYBODY).await.unwrap().handle;
    engine.write(handle, 0, b"two").await.unwrap();
    engine.flush(handle, 0).await.unwrap();
    engine.release(handle).await.unwrap();
    assert_eq!(rig.content("a").await, b"two");
    let engine = start(SharePolicy::Shared).await.unwrap();
    let ino = engine.lookup(ROOT, &segment("b")).await.unwrap().ino;
    let handle = engine.open(ino, WRITE, ANYBODY).await.unwrap().handle;
    engine.write(handle, 0, b"two").await.unwrap();
    engine.flush(handle, 0).await.unwrap();
    engine.release(handle).await.unwrap();
    assert_eq!(rig.content("b").await, b"two");
    engine.unlink(ROOT, &segment("b")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_leases_are_given_back_at_the_end() {
    let rig = Rig::exclusive().await;
    let ino = rig.file("a", b"one").await;
    rig.open(ino, WRITE).await.unwrap();
    rig.engine.release_leases().await;
    rig.put("a", b"stranger").await.unwrap();
}

#[tokio::test]
async fn renaming_a_directory_does_not_look_at_leases_below_it() {
    let rig = Rig::optimistic().await;
    let directory = rig.engine.make_directory(ROOT, &segment("d"), 0o755, ANYBODY).await.unwrap();
    rig.put("d/held", b"x").await.unwrap();
    rig.take_lease("d/held").await.unwrap();
    let rename = |from: &'static str, to: &'static str, parent| {
        let engine = Arc::clone(&rig.engine);
        async move { engine.rename((parent, &segment(from)), (parent, &segment(to)), RenameRule::Replace).await }
    };
    assert!(rename("held", "other", directory.ino).await.is_err(), "the file itself is leased");
    rename("d", "e", ROOT).await.unwrap();
    assert_eq!(rig.content("e/held").await, b"x");
}
