//! The contract of leases on blobs and containers.

use leasefs::share::lease::{LeaseRefusal, LeaseState};
use leasefs::store::{
    BlobProperties, BlockId, DeleteSnapshots, LeaseReport, LeaseRequest, NewContent, Result, StoreError,
};

use crate::support::*;

/// What an action must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Ok,
    Left(u64),
    No(LeaseRefusal),
}
use Answer::{Left, No};
use LeaseRefusal::{
    AlreadyPresent, IdMismatchWithLeaseOperation as Mismatch, IsBreakingAndCannotBeAcquired,
    IsBreakingAndCannotBeChanged, IsBrokenAndCannotBeRenewed, NotPresentWithLeaseOperation as NotPresent,
};

fn answer(result: Result<LeaseReport>) -> Answer {
    match result {
        Ok(LeaseReport { seconds_left: Some(left), .. }) => Left(left),
        Ok(_) => Answer::Ok,
        Err(StoreError::Lease(refusal)) => No(refusal),
        Err(other) => panic!("{other}"),
    }
}

/// Brings a new blob's lease, held by A for 30 s, into one of the five states.
async fn in_state(bench: &Bench, name: &str, state: LeaseState) {
    bench.put(name, b"").await;
    if state != LeaseState::Available {
        bench.acquire(name, A, Some(30)).await;
    }
    match state {
        LeaseState::Available | LeaseState::Leased => {}
        LeaseState::Expired => bench.wait(31),
        LeaseState::Breaking => {
            bench.lease(name, LeaseRequest::Break { period: Some(20) }).await.unwrap();
        }
        LeaseState::Broken => {
            bench.lease(name, LeaseRequest::Break { period: Some(0) }).await.unwrap();
        }
    }
}

const STATES: [LeaseState; 5] = [
    LeaseState::Available,
    LeaseState::Leased,
    LeaseState::Breaking,
    LeaseState::Broken,
    LeaseState::Expired,
];

pub(crate) async fn every_action_in_every_state(bench: &Bench) {
    let change = |id, proposed| LeaseRequest::Change { id, proposed };
    let end = |period| LeaseRequest::Break { period };
    let ok = Answer::Ok;
    // Columns: available, leased by A, breaking, broken, expired.
    let table: [(LeaseRequest, [Answer; 5]); 12] = [
        (acquire(A, Some(15)), [ok, ok, No(IsBreakingAndCannotBeAcquired), ok, ok]),
        (acquire(B, None), [ok, No(AlreadyPresent), No(AlreadyPresent), ok, ok]),
        (
            LeaseRequest::Renew { id: A },
            [No(Mismatch), ok, No(IsBrokenAndCannotBeRenewed), No(IsBrokenAndCannotBeRenewed), ok],
        ),
        (LeaseRequest::Renew { id: B }, [No(Mismatch); 5]),
        (
            change(A, B),
            [No(NotPresent), ok, No(IsBreakingAndCannotBeChanged), No(NotPresent), No(NotPresent)],
        ),
        (change(B, A), [No(NotPresent), ok, No(Mismatch), No(NotPresent), No(NotPresent)]),
        (change(B, C), [No(NotPresent), No(Mismatch), No(Mismatch), No(NotPresent), No(NotPresent)]),
        (LeaseRequest::Release { id: A }, [No(Mismatch), ok, ok, ok, ok]),
        (LeaseRequest::Release { id: B }, [No(Mismatch); 5]),
        (end(Some(0)), [No(NotPresent), Left(0), Left(0), Left(0), Left(0)]),
        (end(Some(10)), [No(NotPresent), Left(10), Left(10), Left(0), Left(0)]),
        (end(None), [No(NotPresent), Left(30), Left(20), Left(0), Left(0)]),
    ];
    for (row, (request, answers)) in table.into_iter().enumerate() {
        for (state, expected) in STATES.into_iter().zip(answers) {
            let name = format!("{row}/{state}");
            in_state(bench, &name, state).await;
            let got = answer(bench.lease(&name, request).await);
            assert_eq!(got, expected, "{request:?} when {state}");
        }
    }
}

pub(crate) async fn writes_need_the_id(bench: &Bench) {
    use LeaseRefusal::{IdMismatchWithBlobOperation, IdMissing, NotPresentWithBlobOperation};
    let put = async |name: &str, id: Option<_>| {
        let conditions = id.map_or(ALWAYS, with_lease);
        match bench.try_put(name, b"w", &conditions).await {
            Ok(_) => Answer::Ok,
            Err(StoreError::Lease(refusal)) => No(refusal),
            Err(other) => panic!("{other}"),
        }
    };
    for state in STATES {
        let locked = matches!(state, LeaseState::Leased | LeaseState::Breaking);
        let absent = No(NotPresentWithBlobOperation);
        let table = [
            (None, if locked { No(IdMissing) } else { Answer::Ok }),
            (Some(A), if locked { Answer::Ok } else { absent }),
            (Some(B), if locked { No(IdMismatchWithBlobOperation) } else { absent }),
        ];
        for (column, (id, expected)) in table.into_iter().enumerate() {
            let name = format!("{state}/{column}");
            in_state(bench, &name, state).await;
            assert_eq!(put(&name, id).await, expected, "{id:?} when {state}");
        }
        let name = format!("{state}/read");
        in_state(bench, &name, state).await;
        assert_eq!(bench.get(&name).await, "", "reads are shared");
        let delete = bench.store.delete_blob(&at(&name), DeleteSnapshots::Refuse, &ALWAYS).await;
        assert_eq!(delete.is_ok(), !locked);
    }
}

pub(crate) async fn expiry_and_renewal(bench: &Bench) {
    in_state(bench, "kept", LeaseState::Expired).await;
    bench.lease("kept", LeaseRequest::Renew { id: A }).await.unwrap();
    assert!(matches!(
        bench.try_put("kept", b"", &ALWAYS).await,
        Err(StoreError::Lease(LeaseRefusal::IdMissing))
    ));
    in_state(bench, "written", LeaseState::Expired).await;
    bench.put("written", b"by somebody").await;
    let renewed = answer(bench.lease("written", LeaseRequest::Renew { id: A }).await);
    assert_eq!(renewed, No(Mismatch), "a renewal would hide the foreign write");
    assert!(not_found(&bench.lease("missing", acquire(A, None)).await));
}

pub(crate) async fn breaking(bench: &Bench) {
    in_state(bench, "f", LeaseState::Breaking).await;
    bench.wait(19);
    assert!(bench.try_put("f", b"", &ALWAYS).await.is_err());
    bench.try_put("f", b"", &with_lease(A)).await.unwrap();
    bench.wait(2);
    bench.put("f", b"free").await;
    bench.acquire("f", B, None).await;
    assert_eq!(
        answer(bench.lease("f", LeaseRequest::Break { period: None }).await),
        Left(0),
        "infinite: at once"
    );
}

pub(crate) async fn a_staged_name_can_be_leased(bench: &Bench) {
    let block = BlockId(b"b1".to_vec());
    bench.store.put_block(&at("f"), &block, "x".into(), None).await.unwrap();
    bench.acquire("f", A, None).await;
    let put = bench.store.put_block(&at("f"), &block, "y".into(), None).await;
    assert!(matches!(put, Err(StoreError::Lease(LeaseRefusal::IdMissing))));
    assert!(matches!(
        bench.try_put("f", b"", &ALWAYS).await,
        Err(StoreError::Lease(LeaseRefusal::IdMissing))
    ));
    bench.store.put_block_list(&at("f"), &[], NewContent::default(), &with_lease(A)).await.unwrap();
    let still = bench.try_put("f", b"", &ALWAYS).await;
    assert!(
        matches!(still, Err(StoreError::Lease(LeaseRefusal::IdMissing))),
        "the lease stays with the name"
    );
    bench.lease("f", LeaseRequest::Release { id: A }).await.unwrap();
    bench.put("f", b"").await;
}

pub(crate) async fn container_leases(bench: &Bench) {
    let lease = async |request| bench.store.lease_container(&share(), request, &ALWAYS).await;
    let before = bench.store.container_properties(&share(), None).await.unwrap();
    lease(acquire(A, Some(15))).await.unwrap();
    assert_eq!(answer(lease(acquire(B, None)).await), No(AlreadyPresent));
    let now = bench.store.container_properties(&share(), Some(A)).await.unwrap();
    assert_eq!((now.etag, now.modified), (before.etag, before.modified));
    let wrong = bench.store.container_properties(&share(), Some(B)).await;
    assert!(matches!(wrong, Err(StoreError::Lease(LeaseRefusal::IdMismatchWithContainerOperation))));
    bench.put("f", b"blobs are not affected").await;
    bench.store.set_container_metadata(&share(), pairs(&[("k", "v")]), &ALWAYS).await.unwrap();
    bench.wait(16);
    lease(LeaseRequest::Renew { id: A }).await.unwrap();
    assert_eq!(answer(lease(LeaseRequest::Break { period: Some(0) }).await), Left(0));
    assert_eq!(answer(lease(LeaseRequest::Renew { id: A }).await), No(IsBrokenAndCannotBeRenewed));
    bench.store.delete_container(&share(), &ALWAYS).await.unwrap();
}

pub(crate) async fn leases_keep_the_tag(bench: &Bench) {
    let put = bench.put("f", &pattern(1, 200)).await;
    bench.wait(5);
    let report = bench.lease("f", acquire(A, None)).await.unwrap();
    assert_eq!((report.etag, report.modified, report.id), (put.etag, put.modified, Some(A)));
    let changed = bench.lease("f", LeaseRequest::Change { id: A, proposed: B }).await.unwrap();
    assert_eq!(changed.id, Some(B));
    let now = bench.properties("f").await.unwrap();
    assert_eq!((now.etag, now.modified), (put.etag, put.modified));
    let written = bench.try_put("f", b"by the holder", &with_lease(B)).await.unwrap();
    let state = |blob: &BlobProperties| blob.lease.state(blob.modified);
    assert_eq!(state(&written), state(&now), "the holder's write keeps the lease");
    assert_eq!(state(&written), LeaseState::Leased);
}
