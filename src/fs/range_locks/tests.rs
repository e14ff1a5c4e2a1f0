//! The queue with a gate, without kernel or store.

use tokio::sync::oneshot::error::TryRecvError;

use super::super::gate::{Claim, OpenPermit};
use super::super::holders::{FrontEnd, Holder};
use super::*;
use crate::share::{Access, Moment, ShareMode};

const FILE: Ino = Ino(7);
const OTHER: Ino = Ino(8);

async fn open(gate: &Arc<Gate>, ino: Ino) -> OpenPermit {
    let claim = Claim { access: Access::READ_WRITE, share: ShareMode::ALL };
    let holder = Holder { front_end: FrontEnd::Mount, thread: 1, uid: 0, since: Moment(0), client: None };
    gate.open(ino, claim, holder).await.unwrap()
}

fn want(permit: &OpenPermit, key: u64, kind: RangeKind) -> RangeRequest {
    let process = u32::try_from(key).unwrap();
    RangeRequest { owner: RangeOwner { key, open: permit.id(), process }, kind, span: Span::ALL }
}

fn waits(arrival: Result<Arrival>) -> tokio::sync::oneshot::Receiver<Result<()>> {
    match arrival.unwrap() {
        Arrival::Waits(receiver) => receiver,
        Arrival::Granted => panic!("granted"),
    }
}

fn granted(arrival: Result<Arrival>) {
    assert!(matches!(arrival.unwrap(), Arrival::Granted));
}

use RangeKind::{Exclusive, Shared};

#[tokio::test]
async fn the_first_to_come_is_served_first() {
    let gate = Gate::new();
    let mut queue = Queue::default();
    let permits = [open(&gate, FILE).await, open(&gate, FILE).await, open(&gate, FILE).await];
    granted(queue.arrive(&gate, FILE, want(&permits[0], 1, Exclusive), 0));
    let mut second = waits(queue.arrive(&gate, FILE, want(&permits[1], 2, Exclusive), 0));
    let mut third = waits(queue.arrive(&gate, FILE, want(&permits[2], 3, Exclusive), 0));
    gate.clear_range(FILE, 1, Span::ALL);
    queue.wake(&gate, FILE);
    assert!(matches!(second.try_recv(), Ok(Ok(()))));
    assert!(matches!(third.try_recv(), Err(TryRecvError::Empty)));
    gate.clear_range(FILE, 2, Span::ALL);
    queue.wake(&gate, FILE);
    assert!(matches!(third.try_recv(), Ok(Ok(()))));
    assert!(queue.is_empty());
}

#[tokio::test]
async fn readers_do_not_starve_a_writer() {
    let gate = Gate::new();
    let mut queue = Queue::default();
    let permits = [open(&gate, FILE).await, open(&gate, FILE).await, open(&gate, FILE).await];
    granted(queue.arrive(&gate, FILE, want(&permits[0], 1, Shared), 0));
    let mut writer = waits(queue.arrive(&gate, FILE, want(&permits[1], 2, Exclusive), 0));
    let mut reader = waits(queue.arrive(&gate, FILE, want(&permits[2], 3, Shared), 0));
    granted(queue.arrive(&gate, FILE, want(&permits[0], 1, Shared), 0));
    gate.clear_range(FILE, 1, Span::ALL);
    queue.wake(&gate, FILE);
    assert!(matches!(writer.try_recv(), Ok(Ok(()))), "it came before the second reader");
    gate.clear_range(FILE, 2, Span::ALL);
    queue.wake(&gate, FILE);
    assert!(matches!(reader.try_recv(), Ok(Ok(()))));
}

#[tokio::test]
async fn a_circle_is_refused_and_a_chain_is_not() {
    let gate = Gate::new();
    let mut queue = Queue::default();
    let (one, two) = (open(&gate, FILE).await, open(&gate, OTHER).await);
    let (one_too, two_too) = (open(&gate, OTHER).await, open(&gate, FILE).await);
    granted(queue.arrive(&gate, FILE, want(&one, 1, Exclusive), 0));
    granted(queue.arrive(&gate, OTHER, want(&two, 2, Exclusive), 0));
    let _first = waits(queue.arrive(&gate, OTHER, want(&one_too, 1, Exclusive), 0));
    assert!(matches!(queue.arrive(&gate, FILE, want(&two_too, 2, Exclusive), 0), Err(FsError::Deadlock)));
    let third = open(&gate, FILE).await;
    drop(waits(queue.arrive(&gate, FILE, want(&third, 3, Exclusive), 0)));
}

#[tokio::test]
async fn whoever_gives_up_or_closes_does_not_get_it() {
    let gate = Gate::new();
    let mut queue = Queue::default();
    let permits = [open(&gate, FILE).await, open(&gate, FILE).await, open(&gate, FILE).await];
    granted(queue.arrive(&gate, FILE, want(&permits[0], 1, Exclusive), 0));
    let gave_up = waits(queue.arrive(&gate, FILE, want(&permits[1], 2, Exclusive), 0));
    let mut closed = waits(queue.arrive(&gate, FILE, want(&permits[2], 3, Exclusive), 0));
    drop(gave_up);
    queue.close(&gate, FILE, permits[2].id());
    assert!(matches!(closed.try_recv(), Ok(Err(FsError::BadHandle))));
    gate.clear_range(FILE, 1, Span::ALL);
    queue.wake(&gate, FILE);
    assert!(gate.ranges_of(FILE).is_empty());
    assert!(queue.is_empty());
}

#[tokio::test]
async fn a_signal_ends_the_wait_of_its_thread_only() {
    let gate = Gate::new();
    let mut queue = Queue::default();
    let permits = [open(&gate, FILE).await, open(&gate, FILE).await, open(&gate, FILE).await];
    granted(queue.arrive(&gate, FILE, want(&permits[0], 1, Exclusive), 0));
    let mut hit = waits(queue.arrive(&gate, FILE, want(&permits[1], 2, Exclusive), 42));
    let mut left = waits(queue.arrive(&gate, FILE, want(&permits[2], 3, Exclusive), 43));
    assert_eq!(queue.list().iter().map(|waiter| waiter.thread).collect::<Vec<_>>(), [42, 43]);
    queue.interrupt(&gate, |waiter| waiter.thread == 42, || FsError::Interrupted);
    assert!(matches!(hit.try_recv(), Ok(Err(FsError::Interrupted))));
    assert!(matches!(left.try_recv(), Err(TryRecvError::Empty)));
}
