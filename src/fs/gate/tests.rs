//! The gate alone: no store, no kernel.

use crate::fs::holders::FrontEnd;
use crate::share::Moment;

use super::*;

const FILE: Ino = Ino(7);

fn read() -> Claim {
    Claim { access: Access::READ, share: ShareMode::ALL }
}

fn someone() -> Holder {
    Holder { front_end: FrontEnd::Mount, thread: 1, uid: 0, since: Moment(0), client: None }
}

#[tokio::test]
async fn a_file_nobody_has_open_is_removed_at_once() {
    let gate = Gate::new();
    let Removal::Now(permit) = gate.remove(FILE, DeleteRule::Smb).await.unwrap() else {
        panic!("not now");
    };
    assert!(matches!(gate.open(FILE, read(), someone()).await, Err(FsError::DeletePending)));
    permit.confirm();
    assert!(gate.open(FILE, read(), someone()).await.is_ok(), "a new file of that number");
}

#[tokio::test]
async fn a_failed_remove_leaves_the_file_usable() {
    let gate = Gate::new();
    drop(gate.remove(FILE, DeleteRule::Smb).await.unwrap());
    assert!(gate.open(FILE, read(), someone()).await.is_ok());
}

#[tokio::test]
async fn the_last_close_removes_a_pending_file() {
    let gate = Gate::new();
    let first = gate.open(FILE, read(), someone()).await.unwrap();
    let second = gate.open(FILE, read(), someone()).await.unwrap();
    drop(gate.remove(FILE, DeleteRule::Smb).await.unwrap());
    assert!(!gate.is_delete_pending(FILE), "not confirmed");
    let Removal::Pending(permit) = gate.remove(FILE, DeleteRule::Smb).await.unwrap() else {
        panic!("not pending");
    };
    permit.confirm();
    assert!(matches!(gate.open(FILE, read(), someone()).await, Err(FsError::DeletePending)));
    assert!(matches!(first.close(), Closing::Done));
    assert!(matches!(second.close(), Closing::Remove(_)));
}

#[tokio::test]
async fn posix_delete_lets_the_opens_live() {
    let gate = Gate::new();
    let open = gate.open(FILE, read(), someone()).await.unwrap();
    assert!(matches!(gate.remove(FILE, DeleteRule::Posix).await.unwrap(), Removal::Detach));
    assert!(!gate.is_delete_pending(FILE));
    assert!(matches!(open.close(), Closing::Done));
}

#[tokio::test]
async fn an_open_that_does_not_share_delete_refuses_a_remove() {
    let gate = Gate::new();
    let _open =
        gate.open(FILE, Claim { access: Access::READ, share: ShareMode::READ }, someone()).await.unwrap();
    for rule in [DeleteRule::Smb, DeleteRule::Posix] {
        assert!(matches!(gate.remove(FILE, rule).await, Err(FsError::SharingViolation)));
    }
}

#[tokio::test(start_paused = true)]
async fn ghosts_are_waited_for_and_others_are_not() {
    let gate = Gate::new();
    let ghost =
        gate.open(FILE, Claim { access: Access::WRITE, share: ShareMode::NONE }, someone()).await.unwrap();
    let before = Instant::now();
    assert!(gate.open(FILE, read(), someone()).await.is_err());
    assert_eq!(before.elapsed(), Duration::ZERO, "a living open refuses at once");
    ghost.flushed();
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.open(FILE, read(), someone()).await.map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    ghost.close();
    assert!(waiting.await.unwrap().is_ok());

    let ghost =
        gate.open(FILE, Claim { access: Access::WRITE, share: ShareMode::NONE }, someone()).await.unwrap();
    ghost.flushed();
    let before = Instant::now();
    assert!(gate.open(FILE, read(), someone()).await.is_err());
    assert_eq!(before.elapsed(), GHOST_WAIT, "a ghost that does not go refuses in the end");
    ghost.used();
    let before = Instant::now();
    assert!(gate.open(FILE, read(), someone()).await.is_err());
    assert_eq!(before.elapsed(), Duration::ZERO, "used again: not a ghost");
}

#[tokio::test]
async fn an_open_lives_until_it_was_flushed_and_when_it_is_used_again() {
    let gate = Gate::new();
    assert!(!gate.is_living(FILE));
    let (one, other) = (gate.open(FILE, read(), someone()), gate.open(FILE, read(), someone()));
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    one.flushed();
    assert!(gate.is_living(FILE), "the other one lives");
    other.flushed();
    assert!(!gate.is_living(FILE));
    one.used();
    assert!(gate.is_living(FILE));
    one.close();
    assert!(!gate.is_living(FILE));
}

#[tokio::test]
async fn opens_are_listed_with_their_holders() {
    let gate = Gate::new();
    let holder = Holder { thread: 7, uid: 1000, ..someone() };
    let first = gate.open(FILE, read(), holder).await.unwrap();
    let second = gate.open(FILE, read(), someone()).await.unwrap();
    let elsewhere = gate.open(Ino(8), read(), someone()).await.unwrap();
    first.flushed();
    let opens = gate.opens_of(FILE);
    assert_eq!(opens.iter().map(|open| open.id).collect::<Vec<_>>(), [first.id(), second.id()]);
    assert_eq!((opens[0].holder, opens[0].closing, opens[1].closing), (holder, true, false));
    assert_eq!((opens[0].access, opens[0].share), (Access::READ, ShareMode::ALL));
    assert_eq!(gate.opens().len(), 3);
    first.close();
    elsewhere.close();
    assert_eq!(gate.opens().iter().map(|open| open.id).collect::<Vec<_>>(), [second.id()]);
}

#[tokio::test]
async fn very_many_opens_are_listed_once_each() {
    let gate = Gate::new();
    let mut permits = Vec::new();
    for n in 0..10_000 {
        permits.push(gate.open(Ino(1 + n % 3), read(), someone()).await.unwrap());
    }
    // Gaps, as late closes leave them.
    for permit in permits.iter().step_by(3) {
        permit.close();
    }
    let listed: Vec<_> = gate.opens().iter().map(|open| open.id).collect();
    let mut expected: Vec<_> =
        permits.iter().enumerate().filter(|(n, _)| n % 3 != 0).map(|(_, permit)| permit.id()).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
}

#[tokio::test]
async fn blockers_are_those_that_do_not_fit() {
    let gate = Gate::new();
    let fits = gate.open(FILE, read(), someone()).await.unwrap();
    let claim = Claim { access: Access::READ, share: ShareMode::READ };
    let blocks = gate.open(FILE, claim, someone()).await.unwrap();
    let write = Claim { access: Access::WRITE, share: ShareMode::ALL };
    assert!(matches!(gate.open(FILE, write, someone()).await, Err(FsError::SharingViolation)));
    assert_eq!(gate.blockers(FILE, write).iter().map(|open| open.id).collect::<Vec<_>>(), [blocks.id()]);
    drop((fits, blocks));
    assert!(gate.blockers(FILE, write).is_empty());
}

#[tokio::test]
async fn an_open_claims_something_else_if_it_fits() {
    let gate = Gate::new();
    let one = gate.open(FILE, read(), someone()).await.unwrap();
    let other = gate.open(FILE, read(), someone()).await.unwrap();
    let alone = Claim { access: Access::READ, share: ShareMode::NONE };
    assert!(matches!(one.reclaim(alone).await, Err(FsError::SharingViolation)));
    assert_eq!(one.claim(), Some(read()), "nothing changed");
    other.close();
    one.reclaim(alone).await.unwrap();
    assert_eq!(one.claim(), Some(alone));
    assert!(gate.open(FILE, read(), someone()).await.is_err());
    assert!(matches!(other.reclaim(read()).await, Err(FsError::BadHandle)), "closed");
}

#[tokio::test]
async fn delete_pending_is_marked_through_an_open_and_taken_back() {
    let gate = Gate::new();
    let reader = gate.open(FILE, read(), someone()).await.unwrap();
    assert!(matches!(reader.mark_delete(), Err(FsError::BadAccess)), "no delete access");
    assert!(!gate.undelete(FILE), "not pending");
    let deleter = gate.open(FILE, Claim::DELETE, someone()).await.unwrap();
    deleter.mark_delete().unwrap().confirm();
    assert!(gate.is_delete_pending(FILE));
    assert_eq!(gate.pending_files(), [FILE]);
    assert!(gate.undelete(FILE));
    assert!(gate.open(FILE, read(), someone()).await.is_ok());
    deleter.mark_delete().unwrap().confirm();
    deleter.close();
    let Closing::Remove(permit) = reader.close() else { panic!("still open") };
    assert!(!gate.undelete(FILE), "too late: it is being removed");
    permit.confirm();
}

#[tokio::test(start_paused = true)]
async fn a_short_open_is_waited_for() {
    let gate = Gate::new();
    let short = gate.open_briefly(FILE, read(), someone()).await.unwrap();
    let alone = Claim { access: Access::WRITE, share: ShareMode::NONE };
    let waiting = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.open(FILE, alone, someone()).await.map(|permit| permit.close()).map(drop) }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    short.close();
    waiting.await.unwrap().unwrap();
    let short = gate.open_briefly(FILE, read(), someone()).await.unwrap();
    let removing = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.remove_unused(FILE).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    short.close();
    removing.await.unwrap().unwrap().confirm();
    let program = gate.open(FILE, read(), someone()).await.unwrap();
    let before = Instant::now();
    assert!(matches!(gate.remove_unused(FILE).await, Err(FsError::SharingViolation)));
    assert_eq!(before.elapsed(), Duration::ZERO, "a living open refuses at once");
    assert!(!gate.is_delete_pending(FILE));
    program.close();
}
