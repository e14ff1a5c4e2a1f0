//! Leases of a share elsewhere are the service's, whoever takes them.

use bytes::Bytes;
use leasefs::fs::FsError;
use leasefs::fs::requests::{LastWrite, LeaseAction, NewFile, RenameRequest};
use leasefs::share::Moment;
use leasefs::share::lease::{LeaseDuration, LeaseId, LeaseRefusal, LeaseState};
use leasefs::store::{LeaseRequest, Metadata, StoreError};

use crate::world::{Here, READ, There, WRITE, path, refusal};

const STRANGER: LeaseId = LeaseId(0x5742_0000_0000_4000_8000_0000_0000_0001);
const CALLER: LeaseId = LeaseId(0x5742_0000_0000_4000_8000_0000_0000_0002);

/// Why every call that changes a file is refused.
async fn refusals(here: &Here, shown: Option<LeaseId>) -> Vec<FsError> {
    let (rest, f) = (&here.rest, path("f"));
    let rename = RenameRequest { source_lease: shown, ..RenameRequest::default() };
    vec![
        refusal(rest.put_range(&f, 0, Bytes::from_static(b"x"), LastWrite::Now, shown).await),
        refusal(rest.create_file(&f, NewFile::default(), shown).await),
        refusal(rest.set_file_metadata(&f, Metadata::new(), shown).await),
        refusal(rest.rename(&f, &path("g"), rename).await),
        refusal(rest.delete_file(&f, shown).await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_lease_at_the_service_refuses_callers() {
    let there = There::start().await;
    let here = there.mirrored().await;
    there.sdk.put("f", b"text").await.unwrap();
    let acquire = |duration| LeaseRequest::Acquire { proposed: STRANGER, duration };
    there.lease("f", acquire(LeaseDuration::INFINITE)).await.unwrap();
    for error in refusals(&here, None).await {
        assert!(matches!(error, FsError::Lease(LeaseRefusal::IdMissing)), "{error:?}");
    }
    for error in refusals(&here, Some(CALLER)).await {
        assert!(matches!(error, FsError::Lease(LeaseRefusal::IdMismatchWithBlobOperation)), "{error:?}");
    }
    assert_eq!(here.get("f").await, b"text", "reading needs no lease");
    let wrong = here.rest.read(&path("f"), Some(CALLER)).await.map(drop);
    assert!(matches!(refusal(wrong), FsError::Lease(LeaseRefusal::IdMismatchWithBlobOperation)));
    // Whoever knows the id may.
    let (f, byte) = (path("f"), Bytes::from_static(b"T"));
    here.rest.put_range(&f, 0, byte, LastWrite::Now, Some(STRANGER)).await.unwrap();
    assert_eq!(there.sdk.get("f").await.as_deref(), Some(&b"Text"[..]));
    let color = Metadata::from([("color".to_owned(), "red".to_owned())]);
    here.rest.set_file_metadata(&path("f"), color, Some(STRANGER)).await.unwrap();
    assert_eq!(there.properties("f").await.metadata.get("color"), Some("red"));
    here.rest.delete_file(&path("f"), Some(STRANGER)).await.unwrap();
    assert_eq!(there.sdk.get("f").await, None);
    // A lease that ends by itself is none of the Files service's.
    there.sdk.put("f", b"text").await.unwrap();
    there.lease("f", acquire(LeaseDuration::seconds(60).unwrap())).await.unwrap();
    for error in refusals(&here, None).await {
        assert!(matches!(error, FsError::SharingViolation), "{error:?}");
    }
    there.lease("f", LeaseRequest::Release { id: STRANGER }).await.unwrap();
    for error in refusals(&here, Some(STRANGER)).await {
        assert!(matches!(error, FsError::Lease(LeaseRefusal::NotPresentWithBlobOperation)), "{error:?}");
    }
    here.write("f", 0, b"X").await.unwrap();
    assert_eq!(there.sdk.get("f").await.as_deref(), Some(&b"Xext"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callers_lease_is_one_at_the_service() {
    let there = There::start().await;
    let here = there.mirrored().await;
    here.put("f", b"text").await;
    let f = path("f");
    let lease = |action| here.rest.lease(&f, action);
    // Not while a program writes.
    let program = here.open("f", WRITE).await.unwrap();
    assert!(matches!(
        refusal(lease(LeaseAction::Acquire { proposed: CALLER }).await),
        FsError::SharingViolation
    ));
    here.close(program).await.unwrap();
    let entry = lease(LeaseAction::Acquire { proposed: CALLER }).await.unwrap();
    assert_eq!(entry.lease.state(Moment(0)), LeaseState::Leased);
    assert!(matches!(there.sdk.put("f", b"stranger").await, Err(StoreError::Lease(_))));
    let refused = here.open("f", WRITE).await;
    assert!(matches!(refused, Err(FsError::Leased(_))), "{refused:?}");
    let reader = here.open("f", READ).await.unwrap();
    here.close(reader).await.unwrap();
    let again = refusal(lease(LeaseAction::Acquire { proposed: STRANGER }).await);
    assert!(matches!(again, FsError::Lease(LeaseRefusal::AlreadyPresent)), "{again:?}");
    lease(LeaseAction::Change { id: CALLER, proposed: STRANGER }).await.unwrap();
    let old = refusal(lease(LeaseAction::Release { id: CALLER }).await);
    assert!(matches!(old, FsError::Lease(LeaseRefusal::IdMismatchWithLeaseOperation)), "{old:?}");
    lease(LeaseAction::Break).await.unwrap();
    there.sdk.put("f", b"stranger").await.unwrap();
    assert_eq!(here.get("f").await, b"stranger");
}
