//! Lease actions that nobody waits for the disk for, and what the next run of the machine makes of them.
//!
//! A power loss is a copy of the data directory as the disk had it at a moment, opened as another run.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::TempDir;

use super::super::run::Run;
use super::{at, block_on, share, small};
use crate::share::Moment;
use crate::share::lease::{LeaseDuration, LeaseId, LeaseRefusal, LeaseState};
use crate::store::embedded::EmbeddedStore;
use crate::store::{
    BlobPath, BlobStore, BlockId, LeaseRequest, ListItem, ListQuery, NewContent, Preconditions, Result,
    StoreError,
};

const SECOND: i64 = 1_000_000_000;
const HOLDER: LeaseId = LeaseId(1);
const OTHER: LeaseId = LeaseId(2);

/// A store with a clock that is set by hand; its user is durable.
struct World {
    folder: TempDir,
    clock: Arc<AtomicI64>,
    store: Arc<EmbeddedStore>,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let clock = Arc::new(AtomicI64::new(1000 * SECOND));
        let store = open(folder.path(), &clock, "first");
        block_on(store.create_container(&share(), Default::default(), Default::default())).unwrap();
        Self { folder, clock, store }
    }

    /// What the disk has when everything is lost that is not in the files now.
    fn on_disk(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        copy_folder(self.folder.path(), copy.path());
        copy
    }

    /// The power comes back with this on the disk.
    fn power_up(self, disk: TempDir, run: &str) -> Self {
        let store = open(disk.path(), &self.clock, run);
        Self { folder: disk, clock: self.clock, store }
    }

    fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds * SECOND, Ordering::Relaxed);
    }

    fn put(&self, name: &str) {
        let always = Preconditions::default();
        block_on(self.store.put_blob(&at(name), "x".into(), NewContent::default(), &always)).unwrap();
    }

    fn ask(&self, name: &str, request: LeaseRequest) -> Result<()> {
        block_on(self.store.lease_blob(&at(name), request, &Preconditions::default())).map(drop)
    }

    fn ask_container(&self, request: LeaseRequest) -> Result<()> {
        block_on(self.store.lease_container(&share(), request, &Preconditions::default())).map(drop)
    }

    fn state(&self, name: &str) -> LeaseState {
        let now = Moment(self.clock.load(Ordering::Relaxed));
        let always = Preconditions::default();
        let read = block_on(self.store.blob_properties(&at(name), None, &always)).unwrap().lease.state(now);
        let query = ListQuery { prefix: name.into(), max: 1, ..ListQuery::default() };
        let page = block_on(self.store.list_blobs(&share(), &query)).unwrap();
        let ListItem::Blob { properties, .. } = &page.items[0] else { panic!("{name} is not listed") };
        assert_eq!(properties.lease.state(now), read, "the listing says otherwise");
        read
    }

    /// A blob that HOLDER has leased for 15 seconds, after the store may answer without waiting.
    fn held(&self, name: &str) {
        self.put(name);
        self.ask(name, acquire(HOLDER, 15)).unwrap();
        self.ask(name, renew()).unwrap();
        assert!(self.store.laxity.allowed());
    }
}

fn open(folder: &Path, clock: &Arc<AtomicI64>, run: &str) -> Arc<EmbeddedStore> {
    let clock = Arc::clone(clock);
    let mut options = small();
    options.clock = Arc::new(move || Moment(clock.load(Ordering::Relaxed)));
    EmbeddedStore::open_in(folder, options, |_| Some(Run::named(run))).unwrap().durable_user()
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn acquire(proposed: LeaseId, seconds: u8) -> LeaseRequest {
    LeaseRequest::Acquire { proposed, duration: LeaseDuration::seconds(seconds).unwrap() }
}

fn renew() -> LeaseRequest {
    LeaseRequest::Renew { id: HOLDER }
}

fn is_taken(answer: &Result<()>) -> bool {
    matches!(answer, Err(StoreError::Lease(LeaseRefusal::AlreadyPresent)))
}

#[test]
fn a_holder_whose_renewal_was_lost_is_not_overtaken() {
    let world = World::new();
    world.held("a");
    world.pass(10);
    let disk = world.on_disk();
    world.ask("a", renew()).unwrap();
    // By what is on the disk it ran out, by what the holder was told it has 9 seconds.
    world.pass(6);
    let world = world.power_up(disk, "second");
    assert_eq!(world.state("a"), LeaseState::Leased);
    assert!(is_taken(&world.ask("a", acquire(OTHER, 15))));
    world.pass(14);
    assert!(is_taken(&world.ask("a", acquire(OTHER, 15))));
    world.pass(1);
    world.ask("a", acquire(OTHER, 15)).unwrap();
}

#[test]
fn a_holder_who_renewed_late_and_lost_that_is_not_overtaken() {
    let world = World::new();
    world.held("a");
    world.pass(20);
    let disk = world.on_disk();
    world.ask("a", renew()).unwrap();
    let world = world.power_up(disk, "second");
    assert!(is_taken(&world.ask("a", acquire(OTHER, 15))));
}

#[test]
fn a_lost_release_is_waited_for_one_duration() {
    let world = World::new();
    world.held("a");
    let disk = world.on_disk();
    world.ask("a", LeaseRequest::Release { id: HOLDER }).unwrap();
    assert_eq!(world.state("a"), LeaseState::Available);
    let world = world.power_up(disk, "second");
    assert!(is_taken(&world.ask("a", acquire(OTHER, 15))));
    world.pass(15);
    world.ask("a", acquire(OTHER, 15)).unwrap();
}

#[test]
fn the_death_of_the_process_changes_no_lease() {
    let world = World::new();
    for name in ["renewed", "released", "expired"] {
        world.held(name);
    }
    world.pass(10);
    world.ask("renewed", renew()).unwrap();
    world.ask("released", LeaseRequest::Release { id: HOLDER }).unwrap();
    world.pass(10);
    let disk = world.on_disk();
    let world = world.power_up(disk, "first");
    assert_eq!(world.state("renewed"), LeaseState::Leased);
    assert_eq!(world.state("released"), LeaseState::Available);
    assert_eq!(world.state("expired"), LeaseState::Expired);
    world.pass(5);
    assert_eq!(world.state("renewed"), LeaseState::Expired);
}

#[test]
fn a_store_that_was_closed_has_lost_nothing() {
    let world = World::new();
    world.held("a");
    world.pass(20);
    world.store.close().unwrap();
    let disk = world.on_disk();
    let world = world.power_up(disk, "second");
    assert_eq!(world.state("a"), LeaseState::Expired);
    // The note of the first run is gone, so that of the second has to be waited for again.
    assert!(!world.store.laxity.allowed());
    world.ask("a", renew()).unwrap();
    assert!(world.store.laxity.allowed());
}

#[test]
fn what_ended_a_lease_is_not_undone_by_a_power_loss() {
    let world = World::new();
    for name in ["written", "staged", "released", "broken", "breaking", "taken", "endless"] {
        world.held(name);
    }
    world.ask("released", LeaseRequest::Release { id: HOLDER }).unwrap();
    world.ask("broken", LeaseRequest::Break { period: Some(0) }).unwrap();
    world.ask("breaking", LeaseRequest::Break { period: Some(15) }).unwrap();
    world.pass(20);
    world.put("written");
    block_on(world.store.put_block(&at("staged"), &BlockId(b"1".to_vec()), "x".into(), None)).unwrap();
    world.ask("taken", acquire(OTHER, 60)).unwrap();
    let endless = LeaseRequest::Acquire { proposed: HOLDER, duration: LeaseDuration::INFINITE };
    world.ask("endless", endless).unwrap();
    let disk = world.on_disk();
    world.pass(100);
    let world = world.power_up(disk, "second");
    for name in ["written", "staged", "released"] {
        assert_eq!(world.state(name), LeaseState::Available, "{name}");
        let late = world.ask(name, renew());
        assert!(matches!(late, Err(StoreError::Lease(LeaseRefusal::IdMismatchWithLeaseOperation))), "{name}");
    }
    assert_eq!(world.state("broken"), LeaseState::Broken);
    assert_eq!(world.state("breaking"), LeaseState::Broken);
    assert!(is_taken(&world.ask("taken", acquire(HOLDER, 15))));
    assert!(is_taken(&world.ask("endless", acquire(OTHER, 15))));
    world.pass(60);
    assert_eq!(world.state("taken"), LeaseState::Expired);
    assert_eq!(world.state("endless"), LeaseState::Leased);
}

#[test]
fn leases_of_containers_and_of_names_with_blocks_only_count_anew_too() {
    let world = World::new();
    world.held("a/b/");
    world.ask_container(acquire(HOLDER, 15)).unwrap();
    block_on(world.store.put_block(&at("blocks"), &BlockId(b"1".to_vec()), "x".into(), None)).unwrap();
    world.ask("blocks", acquire(HOLDER, 15)).unwrap();
    world.pass(20);
    let disk = world.on_disk();
    let world = world.power_up(disk, "second");
    assert_eq!(world.state("a/b/"), LeaseState::Leased);
    assert!(is_taken(&world.ask_container(acquire(OTHER, 15))));
    assert!(is_taken(&world.ask("blocks", acquire(OTHER, 15))));
    let report = world.store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}

#[test]
fn a_second_power_loss_starts_the_clock_again() {
    let world = World::new();
    world.held("a");
    let disk = world.on_disk();
    let world = world.power_up(disk, "second");
    world.pass(10);
    world.ask("a", renew()).unwrap();
    let disk = world.on_disk();
    world.pass(20);
    let world = world.power_up(disk, "third");
    assert!(is_taken(&world.ask("a", acquire(OTHER, 15))));
}

#[test]
fn only_a_durable_user_with_a_timed_lease_is_noted() {
    let world = World::new();
    let mount = world.store.user();
    world.put("a");
    let name: BlobPath = at("a");
    let always = Preconditions::default();
    for request in [acquire(HOLDER, 15), renew()] {
        block_on(mount.lease_blob(&name, request, &always)).unwrap();
    }
    assert!(!world.store.laxity.allowed());
    let endless = LeaseRequest::Acquire { proposed: HOLDER, duration: LeaseDuration::INFINITE };
    for request in [endless, renew(), LeaseRequest::Release { id: HOLDER }] {
        world.ask("a", request).unwrap();
    }
    assert!(!world.store.laxity.allowed());
    // A machine that does not tell its run is waited for every time.
    let elsewhere = TempDir::new().unwrap();
    let store = EmbeddedStore::open_in(elsewhere.path(), small(), |_| None).unwrap().durable_user();
    let world = World { store, ..world };
    block_on(world.store.create_container(&share(), Default::default(), Default::default())).unwrap();
    world.put("a");
    for request in [acquire(HOLDER, 15), renew(), renew()] {
        world.ask("a", request).unwrap();
    }
    assert!(!world.store.laxity.allowed());
}
