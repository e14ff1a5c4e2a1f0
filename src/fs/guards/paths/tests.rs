//! Every rule of the paths, one by one and by many tasks at random.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::*;
use crate::fs::nodes::ROOT;

const A: Ino = Ino(2);
const B: Ino = Ino(3);
const F: Ino = Ino(4);
const X: Ino = Ino(5);
const Y: Ino = Ino(6);

fn segment(name: &str) -> Segment {
    Segment::from_stored(name)
}

/// Directories `a/b` and `x/y`, and a file `a/b/f`.
fn tree() -> Nodes {
    let nodes = Nodes::default();
    for (ino, parent, name) in [(A, ROOT, "a"), (B, A, "b"), (F, B, "f"), (X, ROOT, "x"), (Y, X, "y")] {
        nodes.remember(ino, parent, &segment(name));
    }
    nodes
}

/// A guard that is there at once, or nothing.
fn at_once<'p>(paths: &'p Paths, nodes: &Nodes, ino: Ino) -> Option<PathGuard<'p>> {
    paths.rely(nodes, Reliance::path(ino)).now_or_never()
}

fn entry_at_once<'p>(paths: &'p Paths, nodes: &Nodes, parent: Ino, name: &str) -> Option<PathGuard<'p>> {
    paths.rely(nodes, Reliance::entry((parent, &segment(name)))).now_or_never()
}

fn mover_at_once<'p>(
    paths: &'p Paths,
    nodes: &Nodes,
    subjects: &[Ino],
    names: &[(Ino, &str)],
) -> Option<MovePaths<'p>> {
    let names: Vec<(Ino, Segment)> = names.iter().map(|(at, name)| (*at, segment(name))).collect();
    let names: Vec<Name<'_>> = names.iter().map(|(at, name)| (*at, name)).collect();
    paths.change(nodes, subjects, &names).now_or_never()
}

/// Nobody is counted and nobody is registered.
fn is_idle(paths: &Paths) -> bool {
    let state = paths.state.lock();
    state.movers.is_empty() && state.free.len() == state.reliants.len()
}

#[tokio::test]
async fn who_is_outside_passes_and_who_is_inside_waits() {
    let (paths, nodes) = (Paths::default(), tree());
    let mover = mover_at_once(&paths, &nodes, &[B], &[(A, "b"), (X, "z")]).expect("nobody is in its way");
    for outside in [ROOT, A, X, Y] {
        assert!(at_once(&paths, &nodes, outside).is_some(), "{outside:?}");
    }
    for inside in [B, F] {
        assert!(at_once(&paths, &nodes, inside).is_none(), "{inside:?}");
    }
    // Names beside those that are changed are free; of two names, both must be.
    assert!(entry_at_once(&paths, &nodes, A, "c").is_some());
    for (parent, name) in [(A, "b"), (X, "z"), (B, "new")] {
        assert!(entry_at_once(&paths, &nodes, parent, name).is_none(), "{parent:?} {name}");
    }
    let (free, taken) = (segment("free"), segment("z"));
    assert!(paths.rely(&nodes, Reliance::entries((A, &free), (X, &taken))).now_or_never().is_none());
    assert!(paths.rely(&nodes, Reliance::entries((A, &free), (X, &free))).now_or_never().is_some());
    assert!(paths.try_rely(&nodes, Reliance::path(F)).is_none());
    // It goes on afterwards, wherever it is by then.
    let mut waiting = pin!(paths.rely(&nodes, Reliance::path(F)));
    assert!(waiting.as_mut().now_or_never().is_none());
    nodes.moved(B, X, &segment("z"));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(mover);
    drop(waiting.now_or_never().expect("the move is over"));
    assert!(is_idle(&paths));
}

#[tokio::test]
async fn a_mover_waits_for_who_is_inside_and_for_earlier_ones_at_its_names() {
    let (paths, nodes) = (Paths::default(), tree());
    for (relied_on, waits) in [(F, true), (B, true), (A, true), (X, true), (ROOT, false), (Y, false)] {
        let earlier = at_once(&paths, &nodes, relied_on).unwrap();
        let names = [(A, &segment("b")), (X, &segment("z"))];
        let mut mover = pin!(paths.change(&nodes, &[B], &names));
        let got = mover.as_mut().now_or_never();
        assert_eq!(got.is_none(), waits, "{relied_on:?}");
        drop(got);
        if !waits {
            drop(earlier);
            continue;
        }
        // Who comes later is not waited for, where it may come at all.
        let later = at_once(&paths, &nodes, A).unwrap();
        let at_another_name = entry_at_once(&paths, &nodes, X, "other").unwrap();
        assert!(at_once(&paths, &nodes, F).is_none(), "it is closed already");
        assert!(mover.as_mut().now_or_never().is_none());
        drop(earlier);
        drop(mover.now_or_never().expect("only later ones are left"));
        drop((later, at_another_name));
    }
    assert!(is_idle(&paths));
}

#[tokio::test]
async fn movers_that_overlap_wait_for_each_other() {
    let (paths, nodes) = (Paths::default(), tree());
    // The first one moves x/y to a/b/new.
    let first = (&[Y][..], &[(X, "y"), (B, "new")][..]);
    let cases = [
        ("the same directory", Y, [(X, "y"), (ROOT, "q")], true),
        ("one that has it inside", X, [(ROOT, "x"), (ROOT, "q")], true),
        ("one that has its target inside", B, [(A, "b"), (ROOT, "q")], true),
        ("one far above its target", A, [(ROOT, "a"), (ROOT, "q")], true),
        ("something inside it", Ino(7), [(Y, "inner"), (ROOT, "q")], true),
        ("something that goes inside it", Ino(8), [(ROOT, "other"), (Y, "q")], true),
        ("something that gets the same name", Ino(8), [(ROOT, "other"), (B, "new")], true),
        ("something beside it", Ino(8), [(X, "side"), (B, "newer")], false),
        ("something else", Ino(9), [(A, "c"), (ROOT, "q")], false),
    ];
    nodes.remember(Ino(7), Y, &segment("inner"));
    nodes.remember(Ino(8), X, &segment("side"));
    nodes.remember(Ino(9), A, &segment("c"));
    for (what, subject, names, overlaps) in cases {
        let second = (&[subject][..], &names[..]);
        for (one, other) in [(first, second), (second, first)] {
            let held = mover_at_once(&paths, &nodes, one.0, one.1).expect("alone");
            assert_eq!(mover_at_once(&paths, &nodes, other.0, other.1).is_none(), overlaps, "{what}");
            drop(held);
            assert!(mover_at_once(&paths, &nodes, other.0, other.1).is_some(), "{what}: it is over");
        }
    }
    assert!(is_idle(&paths));
}

#[tokio::test]
async fn movers_come_in_the_order_they_asked() {
    let (paths, nodes) = (Paths::default(), tree());
    let inside = at_once(&paths, &nodes, F).unwrap();
    let mut first = pin!(paths.change(&nodes, &[B], &[]));
    assert!(first.as_mut().now_or_never().is_none(), "somebody is inside");
    let mut second = pin!(paths.change(&nodes, &[A, X], &[]));
    assert!(second.as_mut().now_or_never().is_none(), "behind the first");
    assert!(paths.change(&nodes, &[Y], &[]).now_or_never().is_none(), "behind the second, which was earlier");
    // One that only waits its turn keeps nobody out.
    drop(at_once(&paths, &nodes, A).expect("the second one has not closed"));
    drop(inside);
    assert!(second.as_mut().now_or_never().is_none());
    drop(first.now_or_never().expect("nobody is inside"));
    drop(second.now_or_never().expect("the first one is gone"));
    assert!(is_idle(&paths));
}

#[tokio::test]
async fn what_is_brought_in_while_the_mover_waits_is_waited_for() {
    let (paths, nodes) = (Paths::default(), tree());
    nodes.moved(F, ROOT, &segment("f"));
    let (from, to) = (segment("f"), segment("g"));
    let bringer = paths.rely(&nodes, Reliance::entries((ROOT, &from), (B, &to))).await;
    let mut mover = pin!(paths.change(&nodes, &[A], &[]));
    assert!(mover.as_mut().now_or_never().is_none());
    let user = at_once(&paths, &nodes, F).expect("it is still outside");
    nodes.moved(F, B, &to);
    drop(bringer);
    assert!(mover.as_mut().now_or_never().is_none(), "the file is used, and inside by now");
    drop(user);
    drop(mover.now_or_never().expect("nobody is inside"));
    assert!(is_idle(&paths));
}

#[tokio::test]
async fn what_has_no_name_is_in_no_directory() {
    let (paths, nodes) = (Paths::default(), tree());
    nodes.unnamed(F, None);
    let used = at_once(&paths, &nodes, F).unwrap();
    let mover = mover_at_once(&paths, &nodes, &[A], &[(ROOT, "a")]).expect("it is not inside");
    drop(at_once(&paths, &nodes, F).expect("it has no path"));
    drop((used, mover));
}

#[tokio::test]
async fn who_lists_a_directory_hears_which_names_are_being_changed() {
    let (paths, nodes) = (Paths::default(), tree());
    let list = |ino| paths.rely_to_list(&nodes, ino).now_or_never().map(|(_, names)| names);
    assert_eq!(list(A), Some(Vec::new()));
    let mover = mover_at_once(&paths, &nodes, &[B], &[(A, "b"), (X, "z")]).unwrap();
    assert_eq!(list(A), Some(vec![segment("b")]));
    assert_eq!(list(X), Some(vec![segment("z")]));
    assert_eq!(list(ROOT), Some(Vec::new()));
    assert_eq!(list(B), None);
    drop(mover);
    assert_eq!(list(A), Some(Vec::new()));
    assert!(is_idle(&paths));
}

#[tokio::test]
async fn who_goes_away_while_it_waits_leaves_nothing_behind() {
    let (paths, nodes) = (Paths::default(), tree());
    let (inside, name) = (at_once(&paths, &nodes, F).unwrap(), segment("b"));
    let names = [(A, &name)];
    {
        let mut closed = Box::pin(paths.change(&nodes, &[B], &names));
        assert!(closed.as_mut().now_or_never().is_none());
        let mut asked = Box::pin(paths.change(&nodes, &[A], &[]));
        assert!(asked.as_mut().now_or_never().is_none());
        let mut reliant = Box::pin(paths.rely(&nodes, Reliance::path(B)));
        assert!(reliant.as_mut().now_or_never().is_none());
        drop(reliant);
        drop(asked);
        drop(closed);
    }
    drop(at_once(&paths, &nodes, B).expect("the mover went away"));
    drop(inside);
    assert!(is_idle(&paths));
    // Who waits is woken by a mover that goes away.
    let inside = at_once(&paths, &nodes, F).unwrap();
    let mut closed = Box::pin(paths.change(&nodes, &[B], &[]));
    assert!(closed.as_mut().now_or_never().is_none());
    let mut reliant = pin!(paths.rely(&nodes, Reliance::path(B)));
    assert!(reliant.as_mut().now_or_never().is_none());
    drop(closed);
    drop(tokio::time::timeout(Duration::from_secs(10), reliant).await.expect("woken"));
    drop(inside);
    assert!(is_idle(&paths));
}

/// Dice whose throws are the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

const DIRECTORIES: u64 = 12;
const FILES: u64 = 8;

/// A directory that is being moved, and the names that this changes.
struct Moving {
    subject: Ino,
    names: [(Ino, Segment); 2],
}

/// A share in which many tasks move and use things, and what is being moved right now.
struct Playground {
    paths: Paths,
    nodes: Nodes,
    /// The movers that are alone.
    moving: Mutex<Vec<Moving>>,
}

impl Playground {
    fn new() -> Self {
        let nodes = Nodes::default();
        for number in 0..DIRECTORIES + FILES {
            // A tree of two branches; the files are in its leaves.
            let parent = if number < 2 { ROOT } else { Ino(2 + (number - 2) / 2) };
            nodes.remember(Ino(2 + number), parent, &segment(&format!("n{number}")));
        }
        Self { paths: Paths::default(), nodes, moving: Mutex::default() }
    }

    fn directory(dice: &mut Dice) -> Ino {
        Ino(1 + dice.below(DIRECTORIES + 1))
    }

    fn file(dice: &mut Dice) -> Ino {
        Ino(2 + DIRECTORIES + dice.below(FILES))
    }

    /// Nobody moves what is relied on, or changes the name.
    fn check(&self, relied_on: &[Ino], name: Option<&(Ino, Segment)>) {
        for Moving { subject, names } in &*self.moving.lock() {
            let inside = |ino: &Ino| self.nodes.leads_through(*ino, *subject);
            assert!(!relied_on.iter().any(inside), "{relied_on:?} is used while {subject:?} is moved");
            assert!(name.is_none_or(|name| !names.contains(name)), "{name:?} is used while it is changed");
        }
    }

    async fn use_for_a_while(&self, dice: &mut Dice, relied_on: &[Ino], name: Option<&(Ino, Segment)>) {
        for _ in 0..=dice.below(4) {
            self.check(relied_on, name);
            tokio::task::yield_now().await;
        }
        self.check(relied_on, name);
    }

    async fn rely(&self, dice: &mut Dice) {
        let ino = if dice.below(2) == 0 { Self::file(dice) } else { Self::directory(dice) };
        let _path = self.paths.rely(&self.nodes, Reliance::path(ino)).await;
        self.use_for_a_while(dice, &[ino], None).await;
    }

    async fn use_name(&self, dice: &mut Dice) {
        let name = (Self::directory(dice), segment(&format!("n{}", dice.below(DIRECTORIES))));
        let _path = self.paths.rely(&self.nodes, Reliance::entry((name.0, &name.1))).await;
        self.use_for_a_while(dice, &[name.0], Some(&name)).await;
    }

    async fn move_file(&self, dice: &mut Dice) {
        let (file, to) = (Self::file(dice), Self::directory(dice));
        let Some((from, name)) = self.nodes.place(file) else { return };
        let _path = self.paths.rely(&self.nodes, Reliance::entries((from, &name), (to, &name))).await;
        self.use_for_a_while(dice, &[from, to], None).await;
        // Another task may have been faster; moving a file needs the guards of both of its names, and this one has them
        // only where it began.
        if self.nodes.place(file).is_some_and(|(now, _)| now == from) {
            self.nodes.moved(file, to, &name);
        }
        self.use_for_a_while(dice, &[from, to], None).await;
    }

    async fn move_directory(&self, dice: &mut Dice) {
        let (subject, to) = (Ino(2 + dice.below(DIRECTORIES)), Self::directory(dice));
        let Some((from, name)) = self.nodes.place(subject) else { return };
        let names = [(from, &name), (to, &name)];
        let _guard = self.paths.change(&self.nodes, &[subject], &names).await;
        let still_there = self.nodes.place(subject).is_some_and(|(now, _)| now == from);
        if !still_there || self.nodes.leads_through(to, subject) {
            return;
        }
        let names = names.map(|(at, name)| (at, Segment::clone(name)));
        {
            let mut moving = self.moving.lock();
            for other in &*moving {
                let own = [subject, from, to];
                let theirs = [other.subject, other.names[0].0, other.names[1].0];
                let inside = |ino: Ino, subject: Ino| self.nodes.leads_through(ino, subject);
                let overlap = own.into_iter().any(|ino| inside(ino, other.subject))
                    || theirs.into_iter().any(|ino| inside(ino, subject))
                    || names.iter().any(|name| other.names.contains(name));
                assert!(!overlap, "{own:?} and {theirs:?} are moved at the same time");
            }
            moving.push(Moving { subject, names });
        }
        for _ in 0..dice.below(6) {
            tokio::task::yield_now().await;
        }
        self.nodes.moved(subject, to, &name);
        for _ in 0..dice.below(6) {
            tokio::task::yield_now().await;
        }
        self.moving.lock().retain(|moving| moving.subject != subject);
    }

    async fn act(&self, dice: &mut Dice) {
        match dice.below(8) {
            0 => self.move_directory(dice).await,
            1 => self.move_file(dice).await,
            2 | 3 => self.use_name(dice).await,
            // Somebody who loses patience.
            4 => {
                let ino = Self::file(dice);
                drop(self.paths.rely(&self.nodes, Reliance::path(ino)).now_or_never());
            }
            5 => {
                let subject = Ino(2 + dice.below(DIRECTORIES));
                drop(self.paths.change(&self.nodes, &[subject], &[]).now_or_never());
            }
            _ => self.rely(dice).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_never_use_what_is_being_moved() {
    let playground = Arc::new(Playground::new());
    let tasks = (0..16u64).map(|seed| {
        let playground = Arc::clone(&playground);
        tokio::spawn(async move {
            let mut dice = Dice(seed);
            for _ in 0..3_000 {
                playground.act(&mut dice).await;
            }
        })
    });
    let all = futures_util::future::join_all(tasks.collect::<Vec<_>>());
    for task in tokio::time::timeout(Duration::from_secs(120), all).await.expect("nobody waits for ever") {
        task.unwrap();
    }
    assert!(is_idle(&playground.paths));
}
