//! The keeper alone, on a store whose clock is the runtime's, which is paused.

use crate::share::lease::LeaseState;
use crate::store::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::store::{BlobName, ContainerName, Metadata, NewContent, PublicAccess};

use super::*;

const FILE: Ino = Ino(7);
const STRANGER: LeaseId = LeaseId(42);

struct Rig {
    keeper: Arc<LeaseKeeper>,
    store: Arc<EmbeddedStore>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    at: BlobPath,
    _folder: tempfile::TempDir,
}

async fn rig(duration: LeaseDuration) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let clock: Arc<dyn Fn() -> Moment + Send + Sync> =
        Arc::new(move || Moment(1_000_000_000_000).after(started.elapsed()));
    let options = EmbeddedOptions { clock: Arc::clone(&clock), ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let share = ContainerName::new("share").unwrap();
    store.create_container(&share, Metadata::new(), PublicAccess::None).await.unwrap();
    let at = BlobPath::new(share, BlobName::new("a").unwrap());
    let always = Preconditions::default();
    store.put_blob(&at, bytes::Bytes::new().into(), NewContent::default(), &always).await.unwrap();
    let keeper = LeaseKeeper::new(Arc::<EmbeddedStore>::clone(&store), duration);
    Rig { keeper, store, clock, at, _folder: folder }
}

impl Rig {
    fn now(&self) -> Moment {
        (self.clock)()
    }

    async fn acquire(&self) -> Result<LeaseHold> {
        self.keeper.acquire(FILE, &self.at, self.now()).await
    }

    async fn lease(&self) -> Lease {
        self.store.blob_properties(&self.at, None, &Preconditions::default()).await.unwrap().lease
    }

    async fn ask(&self, request: LeaseRequest) {
        self.store.lease_blob(&self.at, request, &Preconditions::default()).await.unwrap();
    }
}

fn seconds(seconds: u8) -> LeaseDuration {
    LeaseDuration::seconds(seconds).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_in_its_first_third_and_never_runs_out() {
    for duration in [15, 60] {
        let rig = rig(seconds(duration)).await;
        let _hold = rig.acquire().await.unwrap();
        let started = Instant::now();
        let mut renewals = 0;
        while started.elapsed() < Duration::from_secs(3600) {
            assert_eq!(rig.keeper.due().await, [FILE]);
            assert_eq!(rig.lease().await.state(rig.now()), LeaseState::Leased);
            assert_eq!(rig.keeper.renew(FILE, &rig.at).await, Renewal::Held);
            renewals += 1;
        }
        let third = 3600 * 3 / u32::from(duration);
        assert!((third..=third * 10 / 9 + 1).contains(&renewals), "{renewals} renewals");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_put_off_is_due_again_soon_used_or_not() {
    let rig = rig(seconds(60)).await;
    let hold = rig.acquire().await.unwrap();
    let soon = || async {
        rig.keeper.put_off(FILE);
        let started = Instant::now();
        assert_eq!(rig.keeper.due().await, [FILE]);
        started.elapsed()
    };
    assert_eq!(rig.keeper.due().await, [FILE]);
    let seconds = Duration::from_secs;
    let after = soon().await;
    assert!(after > seconds(1) && after <= seconds(5), "{after:?}");
    drop(hold);
    assert_eq!(tokio::time::timeout(seconds(0), rig.keeper.due()).await, Ok(vec![FILE]), "nobody uses it");
    let after = soon().await;
    assert!(after > seconds(1) && after <= seconds(5), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_use_ends_the_lease_and_an_earlier_one_does_not() {
    let rig = rig(seconds(60)).await;
    let first = rig.acquire().await.unwrap();
    let id = rig.keeper.id(FILE).unwrap();
    let second = rig.acquire().await.unwrap();
    assert_eq!(rig.keeper.id(FILE), Some(id), "one lease for both");
    drop(first);
    rig.keeper.give_back(FILE, Some(&rig.at)).await;
    assert_eq!(rig.lease().await.holder(rig.now()), Some(id));
    drop(second);
    assert!(rig.keeper.is_unused(FILE));
    assert_eq!(rig.keeper.due().await, [FILE], "whoever forgets to give it back is helped");
    rig.keeper.give_back(FILE, Some(&rig.at)).await;
    assert_eq!(rig.lease().await.state(rig.now()), LeaseState::Available);
    assert_eq!((rig.keeper.id(FILE), rig.keeper.list().len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_new_use_saves_a_lease_that_was_about_to_end() {
    let rig = rig(seconds(60)).await;
    drop(rig.acquire().await.unwrap());
    let id = rig.keeper.id(FILE);
    let _hold = rig.acquire().await.unwrap();
    rig.keeper.give_back(FILE, Some(&rig.at)).await;
    assert_eq!(rig.lease().await.holder(rig.now()), id);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_lease_is_refused_with_what_is_known() {
    let rig = rig(seconds(60)).await;
    rig.ask(LeaseRequest::Acquire { proposed: STRANGER, duration: seconds(30) }).await;
    let error = rig.acquire().await.unwrap_err();
    assert!(
        matches!(&error, FsError::Leased(known) if known == "lease leased, duration 30 seconds"),
        "{error}"
    );
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(rig.acquire().await.is_ok(), "it ran out");
}

#[tokio::test(start_paused = true)]
async fn a_broken_lease_is_noticed_and_a_new_one_can_be_taken() {
    for duration in [seconds(60), LeaseDuration::INFINITE] {
        let rig = rig(duration).await;
        let old = rig.acquire().await.unwrap();
        rig.ask(LeaseRequest::Break { period: Some(0) }).await;
        assert_eq!(rig.keeper.due().await, [FILE], "an infinite lease is asked after, too");
        assert_eq!(rig.keeper.renew(FILE, &rig.at).await, Renewal::Lost);
        assert_eq!((rig.keeper.id(FILE), rig.keeper.lost()), (None, 1));
        assert!(rig.keeper.list()[0].lost);
        let new = rig.acquire().await.unwrap();
        assert!(rig.keeper.id(FILE).is_some());
        drop((old, new));
        rig.keeper.give_back(FILE, Some(&rig.at)).await;
        assert_eq!(rig.lease().await.state(rig.now()), LeaseState::Available);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_woken_while_there_is_nothing_to_do() {
    let rig = rig(seconds(60)).await;
    let idle = tokio::time::timeout(Duration::from_secs(3600), rig.keeper.due()).await;
    assert!(idle.is_err());
    let hold = rig.acquire().await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(17), rig.keeper.due()).await;
    assert!(early.is_err(), "not before a third of the duration");
    drop(hold);
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_dead_engine_is_taken_over_and_a_strangers_is_not() {
    let rig = rig(seconds(60)).await;
    std::mem::forget(rig.acquire().await.unwrap());
    let left = rig.keeper.id(FILE).unwrap();
    assert!(!rig.keeper.is_left_over(left), "still ours");
    let next = LeaseKeeper::new(Arc::<EmbeddedStore>::clone(&rig.store), seconds(60));
    assert!(next.is_left_over(left) && !next.is_left_over(STRANGER));
    let _hold = next.acquire(FILE, &rig.at, rig.now()).await.unwrap();
    assert_ne!(next.id(FILE), Some(left));
    assert_eq!(rig.lease().await.holder(rig.now()), next.id(FILE));
}

#[tokio::test(start_paused = true)]
async fn leases_taken_together_are_not_renewed_together() {
    let rig = rig(seconds(60)).await;
    let paces: std::collections::HashSet<Duration> =
        (0..100).map(|n| rig.keeper.pace(Ino(n), LeaseId(u128::from(n)))).collect();
    assert!(paces.len() > 30);
    assert!(paces.iter().all(|pace| (18_000..=20_000).contains(&pace.as_millis())));
}
