//! How long the guards of paths, the gate and the rules of range locks take, and what a held open costs. Run with
//! `cargo bench --bench gate`; each line ends with its goal.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use leasefs::fs::gate::{Claim, Gate};
use leasefs::fs::guards::paths::{Paths, Reliance};
use leasefs::fs::holders::Holder;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, Nodes, ROOT};
use leasefs::share::{Access, FileShareState, Moment, OpenId, RangeKind, RangeOwner, ShareMode, Span};

const ROUNDS: u64 = 100_000;
const READ: Claim = Claim { access: Access::READ, share: ShareMode::ALL };

fn main() {
    paths("guards: rely on a path and leave", 0.05, false);
    paths("guards: the same while a directory elsewhere is moved", 0.2, true);
    open_and_close("gate: open + close, no other opens", 0, 2.0);
    open_and_close("gate: open + close, 10,000 opens of the file", 10_000, 5.0);
    close_in_the_middle();
    range_locks(1_000);
    range_locks(100_000);
    // Most held opens are of different files; a few files are held by many.
    held_opens("1,000,000 opens of as many files", 1_000_000);
    held_opens("1,000,000 opens of 1,000 files", 1_000);
}

/// Waits for nothing: everything measured here is ready at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it had to wait"),
    }
}

/// The mean of `rounds` calls of `work`, in microseconds.
fn mean(rounds: u64, mut work: impl FnMut(u64)) -> f64 {
    let started = Instant::now();
    for round in 0..rounds {
        work(round);
    }
    started.elapsed().as_secs_f64() * 1e6 / rounds as f64
}

fn report(what: &str, micros: f64, goal: f64) {
    let verdict = if micros <= goal { "" } else { "   MISSED" };
    println!("{what:<52} {micros:>8.3} µs   goal {goal:>4.1} µs{verdict}");
}

fn holder() -> Holder {
    Holder::engine(Moment(0))
}

fn open_and_close(what: &str, others: usize, goal: f64) {
    let gate = Gate::new();
    let held: Vec<_> =
        (0..others).map(|_| ready(gate.open(Ino(7), READ, holder())).expect("granted")).collect();
    let micros = mean(ROUNDS, |_| {
        let permit = ready(gate.open(Ino(7), READ, holder())).expect("granted");
        drop(black_box(permit.close()));
    });
    report(what, micros, goal);
    drop(held);
}

/// Every request does this at least once.
fn paths(what: &str, goal: f64, beside_a_mover: bool) {
    let (paths, nodes) = (Paths::default(), Nodes::default());
    for depth in 2..8 {
        nodes.remember(Ino(depth), Ino(depth - 1), &Segment::from_stored("name"));
    }
    nodes.remember(Ino(99), ROOT, &Segment::from_stored("moved"));
    let mover = beside_a_mover.then(|| ready(paths.change(&nodes, &[Ino(99)], &[])));
    let micros = mean(100 * ROUNDS, |_| drop(black_box(ready(paths.rely(&nodes, Reliance::path(Ino(7)))))));
    report(what, micros, goal);
    drop(mover);
}

/// The oldest opens go first, as in a server that runs for long.
fn close_in_the_middle() {
    let gate = Gate::new();
    let open = || ready(gate.open(Ino(7), READ, holder())).expect("granted");
    let mut held: std::collections::VecDeque<_> = (0..10_000).map(|_| open()).collect();
    let micros = mean(ROUNDS, |_| {
        held.push_back(open());
        drop(held.pop_front());
    });
    report("gate: open + close of the oldest of 10,000", micros, 5.0);
}

fn range_locks(others: u64) {
    let mut file = FileShareState::default();
    let owner = |n: u64| RangeOwner { key: n, open: OpenId(n), process: 1 + n as u32 };
    for n in 0..=others {
        file.try_open(OpenId(n), Access::READ_WRITE, ShareMode::ALL).expect("granted");
    }
    let span = |n: u64| Span::of_length(n * 100, 50).expect("a span");
    for n in 1..=others {
        let kind = if n % 2 == 0 { RangeKind::Shared } else { RangeKind::Exclusive };
        file.set_range(owner(n), kind, span(n)).expect("granted");
    }
    let between = |round: u64| Span::of_length(round % others * 100 + 60, 30).expect("a span");
    let micros = mean(ROUNDS, |round| {
        file.set_range(owner(0), RangeKind::Exclusive, between(round)).expect("granted");
        assert!(file.clear_range(0, between(round)));
    });
    report(&format!("range lock: set + clear, {others} others"), micros, 3.0);
    let micros = mean(ROUNDS, |round| {
        let asked = span(1 + round % others);
        black_box(file.ranges().test(owner(0), RangeKind::Exclusive, asked));
    });
    report(&format!("range lock: test that finds one, {others} others"), micros, 3.0);
    let mut own = FileShareState::default();
    own.try_open(OpenId(0), Access::READ_WRITE, ShareMode::ALL).expect("granted");
    for n in 0..others {
        own.set_range(owner(0), RangeKind::Exclusive, span(n)).expect("granted");
    }
    let micros = mean(ROUNDS, |round| {
        let middle = Span::of_length(round % others * 100 + 20, 10).expect("a span");
        assert!(own.clear_range(0, middle));
        own.set_range(owner(0), RangeKind::Exclusive, middle).expect("granted");
    });
    report(&format!("range lock: split + merge, {others} of the owner"), micros, 3.0);
}

fn held_opens(what: &str, files: u64) {
    const OPENS: u64 = 1_000_000;
    let before = resident();
    let gate = Gate::new();
    let permits: Vec<_> =
        (0..OPENS).map(|n| ready(gate.open(Ino(2 + n % files), READ, holder())).expect("granted")).collect();
    let bytes = resident().saturating_sub(before) / OPENS;
    let verdict = if bytes <= 400 { "" } else { "   MISSED" };
    println!("{what:<52} {bytes:>8} bytes each   goal 400{verdict}");
    let started = Instant::now();
    drop(permits);
    println!(
        "{:<52} {:>8.3} µs each",
        "  and their closes",
        started.elapsed().as_secs_f64() * 1e6 / OPENS as f64
    );
}

/// Memory in use, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0) * 1024
}
