//! Every verb against every share mode and access that a program may hold, against delete pending, range locks and
//! leases. The expectations are written down from the service's own table, not computed from our rules.

use bytes::Bytes;
use leasefs::fs::requests::{
    CopyFile, Failure, FileChange, LastWrite, LeaseAction, ListRequest, NewFile, RenameRequest, Which,
};
use leasefs::fs::{Claim, FsError, HandleId, OpenRequest, RangeAsker, RangeChange};
use leasefs::share::lease::{LeaseId, LeaseRefusal, LeaseState};
use leasefs::share::{Access, Moment, RangeKind, ShareMode, Span};
use leasefs::store::Metadata;

use super::world::*;

/// The calls on a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Properties,
    Read,
    PutRange,
    ClearRange,
    SetProperties,
    SetMetadata,
    Resize,
    CreateOver,
    CopyOver,
    Delete,
    RenameAway,
    RenameOnto,
    Lease,
}

const VERBS: [Verb; 13] = [
    Verb::Properties,
    Verb::Read,
    Verb::PutRange,
    Verb::ClearRange,
    Verb::SetProperties,
    Verb::SetMetadata,
    Verb::Resize,
    Verb::CreateOver,
    Verb::CopyOver,
    Verb::Delete,
    Verb::RenameAway,
    Verb::RenameOnto,
    Verb::Lease,
];

/// Share modes in the order of the service's table: none, R, W, D, RW, RD, WD, RWD.
const SHARES: [&str; 8] = ["none", "r", "w", "d", "rw", "rd", "wd", "rwd"];

impl Verb {
    /// Which of [`SHARES`] lets the verb pass, beside a program that only reads.
    fn passes(self) -> [bool; 8] {
        match self {
            Verb::Properties => [true; 8],
            Verb::Read => [false, true, false, false, true, true, false, true],
            Verb::PutRange | Verb::ClearRange | Verb::SetProperties | Verb::SetMetadata | Verb::Resize => {
                [false, false, true, false, true, false, true, true]
            }
            Verb::CreateOver | Verb::CopyOver => [false, false, false, false, false, false, true, true],
            Verb::Delete => [false; 8],
            Verb::RenameAway | Verb::RenameOnto => [false, false, false, true, false, true, true, true],
            Verb::Lease => [false, false, false, false, false, false, false, true],
        }
    }

    /// Does it to the file `a`, with the lease id that the caller has.
    async fn run(self, world: &World, lease: Option<LeaseId>) -> Result<(), Failure> {
        let (rest, a) = (&world.rest, path("a"));
        match self {
            Verb::Properties => rest.file_properties(&a, lease).await.map(drop),
            Verb::Read => rest.read(&a, lease).await.map(drop),
            Verb::PutRange => {
                rest.put_range(&a, 0, Bytes::from_static(b"x"), LastWrite::Now, lease).await.map(drop)
            }
            Verb::ClearRange => rest.clear_range(&a, 0..1, LastWrite::Now, lease).await.map(drop),
            Verb::SetProperties => rest.set_file_properties(&a, FileChange::default(), lease).await.map(drop),
            Verb::SetMetadata => rest.set_file_metadata(&a, Metadata::new(), lease).await.map(drop),
            Verb::Resize => {
                let change = FileChange { size: Some(2), ..FileChange::default() };
                rest.set_file_properties(&a, change, lease).await.map(drop)
            }
            Verb::CreateOver => {
                rest.create_file(&a, NewFile { size: 4, ..NewFile::default() }, lease).await.map(drop)
            }
            Verb::CopyOver => {
                world.put("source", b"copied").await;
                let source = rest.read(&path("source"), None).await?;
                rest.copy(&source, &a, CopyFile::default(), lease).await.map(drop)
            }
            Verb::Delete => rest.delete_file(&a, lease).await,
            Verb::RenameAway => {
                let request = RenameRequest { source_lease: lease, ..RenameRequest::default() };
                rest.rename(&a, &path("b"), request).await.map(drop)
            }
            Verb::RenameOnto => {
                world.put("c", b"c").await;
                let request =
                    RenameRequest { replace: true, target_lease: lease, ..RenameRequest::default() };
                rest.rename(&path("c"), &a, request).await.map(drop)
            }
            Verb::Lease => rest.lease(&a, LeaseAction::Acquire { proposed: LeaseId(7) }).await.map(drop),
        }
    }
}

async fn hold(world: &World, access: Access, share: ShareMode) -> HandleId {
    let request = OpenRequest {
        read: access.contains(Access::READ),
        write: access.contains(Access::WRITE),
        ..OpenRequest::default()
    };
    let handle = world.open("a", request).await;
    world.engine.set_share(handle, Claim { access, share }).await.unwrap();
    handle
}

#[tokio::test]
async fn every_verb_meets_every_share_mode_as_the_service_has_it() {
    for verb in VERBS {
        for (share, passes) in SHARES.into_iter().zip(verb.passes()) {
            let world = start().await;
            world.put("a", b"hello").await;
            let handle = hold(&world, Access::READ, share.parse().unwrap()).await;
            let done = verb.run(&world, None).await;
            match (passes, &done) {
                (true, Ok(())) => {}
                (false, Err(failure)) => {
                    assert!(
                        matches!(failure.error, FsError::SharingViolation),
                        "{verb:?} {share}: {failure}"
                    );
                    assert_eq!(failure.holders.len(), 1, "{verb:?} {share}");
                    assert!(failure.to_string().contains("via=mount"), "{failure}");
                    assert_eq!(world.rest.file_properties(&path("a"), None).await.unwrap().size, 5);
                }
                _ => panic!("{verb:?} beside share mode {share}: {done:?}"),
            }
            world.engine.release(handle).await.unwrap();
            if !passes {
                verb.run(&world, None).await.unwrap_or_else(|failure| panic!("{verb:?} {share}: {failure}"));
            }
        }
    }
}

#[tokio::test]
async fn a_lease_is_taken_beside_readers_only() {
    for bits in 0..8 {
        let access = Access::from_bits(bits);
        let world = start().await;
        world.put("a", b"hello").await;
        let _handle = hold(&world, access, ShareMode::ALL).await;
        let taken = Verb::Lease.run(&world, None).await;
        let harmless = !access.contains(Access::WRITE) && !access.contains(Access::DELETE);
        assert_eq!(taken.is_ok(), harmless, "{access}: {taken:?}");
    }
}

#[tokio::test]
async fn opens_without_access_are_in_nobodys_way_but_the_deletes() {
    for verb in VERBS {
        let world = start().await;
        world.put("a", b"hello").await;
        let _handle = hold(&world, Access::NONE, ShareMode::NONE).await;
        let done = verb.run(&world, None).await;
        assert_eq!(done.is_ok(), verb != Verb::Delete, "{verb:?}: {done:?}");
    }
}

#[tokio::test]
async fn a_delete_pending_file_refuses_every_verb_until_it_is_gone_or_taken_back() {
    for verb in VERBS {
        let world = start().await;
        world.put("a", b"hello").await;
        let handle = world.open("a", READ).await;
        world.engine.unlink(leasefs::fs::nodes::ROOT, &segment("a")).await.unwrap();
        let refused = refusal(verb.run(&world, None).await);
        assert!(matches!(refused, FsError::DeletePending), "{verb:?}: {refused}");
        let listing = world.rest.list(&path(""), ListRequest::default()).await.unwrap();
        assert!(listing.entries.iter().all(|listed| listed.name != "a"), "{verb:?}");
        world.engine.undelete_path("a", CALLER).await.unwrap();
        world.engine.unlink(leasefs::fs::nodes::ROOT, &segment("a")).await.unwrap();
        world.engine.release(handle).await.unwrap();
        if !matches!(verb, Verb::CreateOver | Verb::CopyOver | Verb::RenameOnto) {
            let gone = refusal(verb.run(&world, None).await);
            assert!(matches!(gone, FsError::NotFound), "{verb:?}: {gone}");
        }
    }
}

async fn set_range(world: &World, handle: HandleId, kind: RangeKind) {
    let asker = RangeAsker { key: 9, process: 1, thread: 0 };
    let span = Span::of_length(100, 10).unwrap();
    world.engine.change_range(handle, asker, RangeChange::Set(kind), span, false).await.unwrap();
}

#[tokio::test]
async fn any_range_lock_refuses_changes_of_bytes_wherever_they_are() {
    for kind in [RangeKind::Shared, RangeKind::Exclusive] {
        for verb in VERBS {
            let world = start().await;
            world.put("a", b"hello").await;
            let handle = world.open("a", WRITE).await;
            set_range(&world, handle, kind).await;
            let done = verb.run(&world, None).await;
            match verb {
                Verb::PutRange | Verb::ClearRange | Verb::Resize | Verb::CreateOver | Verb::CopyOver => {
                    let failure = done.unwrap_err();
                    assert!(matches!(failure.error, FsError::RangeLocked), "{verb:?}: {failure}");
                    assert_eq!(failure.holders.len(), 1);
                }
                Verb::Delete | Verb::Lease => {
                    assert!(matches!(refusal(done), FsError::SharingViolation), "{verb:?}");
                }
                Verb::Properties
                | Verb::Read
                | Verb::SetProperties
                | Verb::SetMetadata
                | Verb::RenameAway
                | Verb::RenameOnto => done.unwrap_or_else(|failure| panic!("{verb:?}: {failure}")),
            }
            world.close(handle).await;
        }
    }
}

#[tokio::test]
async fn a_lease_lets_its_holder_change_the_file_and_nobody_else() {
    let (own, other) = (LeaseId(1), LeaseId(2));
    for verb in VERBS {
        let world = start().await;
        world.put("a", b"hello").await;
        world.rest.lease(&path("a"), LeaseAction::Acquire { proposed: own }).await.unwrap();
        let writes = !matches!(verb, Verb::Properties | Verb::Read | Verb::Lease);
        if verb != Verb::Lease {
            let mismatch = refusal(verb.run(&world, Some(other)).await);
            let expected = FsError::Lease(LeaseRefusal::IdMismatchWithBlobOperation).to_string();
            assert_eq!(mismatch.to_string(), expected, "{verb:?}");
        }
        let without = verb.run(&world, None).await;
        if writes {
            let expected = FsError::Lease(LeaseRefusal::IdMissing).to_string();
            assert_eq!(refusal(without).to_string(), expected, "{verb:?}");
            verb.run(&world, Some(own)).await.unwrap_or_else(|failure| panic!("{verb:?}: {failure}"));
        } else {
            assert_eq!(without.is_ok(), verb != Verb::Lease, "{verb:?}: {without:?}");
        }
    }
}

#[tokio::test]
async fn a_leased_file_refuses_programs_that_write_or_remove() {
    let world = start().await;
    world.put("a", b"hello").await;
    world.rest.lease(&path("a"), LeaseAction::Acquire { proposed: LeaseId(1) }).await.unwrap();
    let ino = world.ino("a").await;
    assert!(matches!(world.engine.open(ino, WRITE, CALLER).await.unwrap_err(), FsError::Leased(_)));
    let root = leasefs::fs::nodes::ROOT;
    assert!(matches!(world.engine.unlink(root, &segment("a")).await.unwrap_err(), FsError::Leased(_)));
    let reader = world.open("a", READ).await;
    // Also while the holder writes: no program slips in beside it.
    let (a, id) = (path("a"), Some(LeaseId(1)));
    for round in 0..50_u8 {
        let (written, opened) = tokio::join!(
            world.rest.put_range(&a, 0, Bytes::from(vec![round]), LastWrite::Now, id),
            world.engine.open(ino, WRITE, CALLER),
        );
        written.unwrap();
        assert!(matches!(opened.unwrap_err(), FsError::Leased(_)));
        let mut seen = [0];
        world.engine.read(reader, 0, &mut seen).unwrap();
        assert_eq!(seen[0], round);
    }
    world.rest.lease(&path("a"), LeaseAction::Release { id: LeaseId(1) }).await.unwrap();
    let writer = world.engine.open(ino, WRITE, CALLER).await.unwrap().handle;
    world.close(writer).await;
    world.close(reader).await;
}

#[tokio::test]
async fn leases_go_through_their_states() {
    let world = start().await;
    world.put("a", b"hello").await;
    let a = path("a");
    let act = |action| world.rest.lease(&a, action);
    let state = |entry: &leasefs::fs::requests::Entry| entry.lease.state(Moment(i64::MAX));
    let (one, two) = (LeaseId(1), LeaseId(2));
    assert!(act(LeaseAction::Break).await.is_err(), "nothing to break");
    assert_eq!(state(&act(LeaseAction::Acquire { proposed: one }).await.unwrap()), LeaseState::Leased);
    assert!(act(LeaseAction::Acquire { proposed: two }).await.is_err());
    act(LeaseAction::Change { id: one, proposed: two }).await.unwrap();
    assert!(act(LeaseAction::Release { id: one }).await.is_err());
    // Written over, it keeps its lease.
    let over = world.rest.create_file(&a, NewFile::default(), Some(two)).await.unwrap();
    assert_eq!(state(&over), LeaseState::Leased);
    assert_eq!(state(&act(LeaseAction::Break).await.unwrap()), LeaseState::Broken);
    world.rest.create_file(&a, NewFile::default(), None).await.unwrap();
    act(LeaseAction::Acquire { proposed: one }).await.unwrap();
    assert_eq!(state(&act(LeaseAction::Release { id: one }).await.unwrap()), LeaseState::Available);
}

#[tokio::test]
async fn handles_are_listed_and_closed() {
    let world = start().await;
    world.put("a", b"hello").await;
    let handle = world.open("a", WRITE).await;
    world.engine.write(handle, 0, b"J").await.unwrap();
    let page = world.rest.handles(&path(""), true, None, 0).await.unwrap();
    let shown = &page.handles[0];
    assert_eq!((page.handles.len(), shown.path.as_str(), shown.access), (1, "a", Access::READ_WRITE));
    assert_eq!(world.rest.handles(&path("a"), false, None, 0).await.unwrap().handles.len(), 1);
    assert_eq!(world.rest.handles(&path("a"), false, Some(shown.id), 0).await.unwrap().handles.len(), 0);
    let none = world.rest.close_handles(&path("a"), Which::One(shown.id + 1), false).await.unwrap();
    assert_eq!((none.closed, none.failed), (0, 0));
    let closed = world.rest.close_handles(&path(""), Which::All, true).await.unwrap();
    assert_eq!((closed.closed, closed.failed), (1, 0));
    assert!(matches!(world.engine.write(handle, 0, b"K").await, Err(FsError::Revoked)));
    assert_eq!(world.get("a").await, b"Jello", "what was written before is kept");
    world.rest.delete_file(&path("a"), None).await.unwrap();
}
