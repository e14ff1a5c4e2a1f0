//! Who relies on which paths, and who is changing them.
//!
//! A *reliant* acts on what a path leads to, so the path must not change meanwhile. A *mover* renames or removes
//! directories: it changes the paths of all that is inside them, and may need many requests for that. Nobody outside
//! waits for it.
//!
//! ```text
//!   reliant   relies on one or two numbers, perhaps on a name in each of them; counted until it is dropped
//!               ^
//!               └ waits first, while a closed mover has one of them inside or changes one of the names
//!
//!   mover     asked ─────────────▶ closed ──────────────────────▶ alone ─────▶ dropped
//!                   no earlier            nobody is inside, and
//!                   mover overlaps        who came before it closed has left its names
//! ```
//!
//! Inside is what is at or below one of the mover's directories. At its names are those who rely on a directory where
//! it changes a name. Movers overlap if one has a directory of the other, or a directory where the other changes a
//! name, inside; or if they change the same name.
//!
//! Why nobody uses a path that is being changed:
//!
//! * A mover that is alone has nobody inside, and nobody comes in: whoever wants to waits. Nor is anything brought in that
//!   somebody relies on, because whoever puts a name into a directory relies on that directory.
//! * Who came to a name of the mover's before it closed has left; who comes later waits.
//! * Where the mover's names are, nothing moves: such a mover would overlap.
//!
//! Why nobody waits for ever: a mover waits for earlier movers and for reliants that are counted; and who is counted waits
//! for no path any more, so nobody may take a second guard while it has one. Who waits is not counted.

#[cfg(test)]
mod tests;

use std::pin::pin;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::fs::names::Segment;
use crate::fs::nodes::{Ino, Nodes};

/// Stands for no number.
const NONE: Ino = Ino(0);

/// A name in a directory.
pub type Name<'a> = (Ino, &'a Segment);

/// What a reliant relies on.
#[derive(Clone, Copy, Debug)]
pub struct Reliance<'a> {
    numbers: [Ino; 2],
    /// Names in them.
    names: [Option<&'a Segment>; 2],
}

impl<'a> Reliance<'a> {
    /// The path of a number.
    pub fn path(ino: Ino) -> Self {
        Self { numbers: [ino, NONE], names: [None; 2] }
    }

    /// The path of a directory, and what a name in it leads to.
    pub fn entry((parent, name): Name<'a>) -> Self {
        Self { numbers: [parent, NONE], names: [Some(name), None] }
    }

    /// Two of them.
    pub fn entries(one: Name<'a>, other: Name<'a>) -> Self {
        Self { numbers: [one.0, other.0], names: [Some(one.1), Some(other.1)] }
    }
}

/// The reliants and movers of a share.
#[derive(Debug, Default)]
pub struct Paths {
    state: Mutex<State>,
    /// Rings when a reliant leaves that a mover may be waiting for.
    left: Notify,
    /// Rings when a mover is gone.
    over: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Those that are counted, in slots that are used again.
    reliants: Vec<Reliant>,
    /// The slots that are free.
    free: Vec<usize>,
    /// In the order they asked.
    movers: Vec<Mover>,
    /// How many movers have asked so far.
    asked: u64,
    /// How many have closed so far.
    closings: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reliant {
    numbers: [Ino; 2],
    /// How many movers had closed when it came.
    since: u64,
}

#[derive(Debug)]
struct Mover {
    /// Which one it is.
    number: u64,
    /// What it changes the paths of, with everything inside.
    subjects: Vec<Ino>,
    /// The names that it changes.
    names: Vec<(Ino, Segment)>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    /// Nobody new comes inside or to its names. It was the so-manieth to close.
    Closed(u64),
    Alone,
}

impl Mover {
    fn is_inside(&self, nodes: &Nodes, ino: Ino) -> bool {
        self.subjects.iter().any(|subject| nodes.leads_through(ino, *subject))
    }

    /// Whether somebody who relies on this has to wait.
    fn keeps_out(&self, nodes: &Nodes, wanted: &Reliance<'_>) -> bool {
        let each = || wanted.numbers.iter().zip(wanted.names).filter(|(ino, _)| **ino != NONE);
        let changes = |ino: Ino, name: &Segment| self.names.iter().any(|(at, own)| *at == ino && own == name);
        self.stage != Stage::Asked
            && each().any(|(ino, name)| {
                name.is_some_and(|name| changes(*ino, name)) || self.is_inside(nodes, *ino)
            })
    }

    /// Whether it has to wait for somebody who is counted.
    fn waits_for(&self, nodes: &Nodes, reliant: &Reliant, closed: u64) -> bool {
        let at_a_name = |ino: Ino| reliant.since < closed && self.names.iter().any(|(at, _)| *at == ino);
        let numbers = reliant.numbers.iter().filter(|ino| **ino != NONE);
        numbers.into_iter().any(|ino| at_a_name(*ino) || self.is_inside(nodes, *ino))
    }

    fn overlaps(&self, nodes: &Nodes, other: &Mover) -> bool {
        let reaches_into = |one: &Mover, other: &Mover| {
            let directories = one.names.iter().map(|(at, _)| at);
            one.subjects.iter().chain(directories).any(|ino| other.is_inside(nodes, *ino))
        };
        reaches_into(self, other)
            || reaches_into(other, self)
            || self.names.iter().any(|name| other.names.contains(name))
    }
}

impl State {
    /// Counts a reliant, unless it has to wait; says in which slot.
    fn enter(&mut self, nodes: &Nodes, wanted: &Reliance<'_>) -> Option<usize> {
        if !self.movers.is_empty() && self.movers.iter().any(|mover| mover.keeps_out(nodes, wanted)) {
            return None;
        }
        let reliant = Reliant { numbers: wanted.numbers, since: self.closings };
        Some(match self.free.pop() {
            Some(slot) => {
                self.reliants[slot] = reliant;
                slot
            }
            None => {
                self.reliants.push(reliant);
                self.reliants.len() - 1
            }
        })
    }

    /// Counts it no longer; says whether a mover may be waiting for that.
    fn leave(&mut self, slot: usize) -> bool {
        self.reliants[slot].numbers = [NONE; 2];
        self.free.push(slot);
        self.movers.iter().any(|mover| matches!(mover.stage, Stage::Closed(_)))
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.movers.iter().position(|mover| mover.number == number)
    }

    /// Closes the mover if no earlier one overlaps.
    fn close(&mut self, nodes: &Nodes, number: u64) -> Option<()> {
        let index = self.index(number)?;
        let (earlier, own) = (&self.movers[..index], &self.movers[index]);
        if earlier.iter().any(|other| own.overlaps(nodes, other)) {
            return None;
        }
        self.closings += 1;
        self.movers[index].stage = Stage::Closed(self.closings);
        Some(())
    }

    /// Leaves the mover alone if nobody is in its way any more.
    fn part(&mut self, nodes: &Nodes, number: u64) -> Option<()> {
        let index = self.index(number)?;
        let own = &self.movers[index];
        if let Stage::Closed(closed) = own.stage
            && self.reliants.iter().any(|reliant| own.waits_for(nodes, reliant, closed))
        {
            return None;
        }
        self.movers[index].stage = Stage::Alone;
        Some(())
    }
}

/// Proof that the paths and names that its holder relies on stay as they are. One is enough for a holder: whoever has
/// one must not wait for another.
#[derive(Debug)]
#[must_use = "paths may change as soon as it is dropped"]
pub struct PathGuard<'a> {
    paths: &'a Paths,
    slot: usize,
}

impl Drop for PathGuard<'_> {
    fn drop(&mut self) {
        if self.paths.state.lock().leave(self.slot) {
            self.paths.left.notify_waiters();
        }
    }
}

/// Proof that nobody else uses a path inside the directories that its holder moves, or the names that it changes.
#[derive(Debug)]
#[must_use = "others may use the paths as soon as it is dropped"]
pub struct MovePaths<'a> {
    paths: &'a Paths,
    number: u64,
}

impl Drop for MovePaths<'_> {
    fn drop(&mut self) {
        self.paths.state.lock().movers.retain(|mover| mover.number != self.number);
        self.paths.over.notify_waiters();
    }
}

impl Paths {
    /// Waits until what the caller relies on is not being changed, and keeps it as it is from then on.
    pub async fn rely(&self, nodes: &Nodes, wanted: Reliance<'_>) -> PathGuard<'_> {
        let entered = self.state.lock().enter(nodes, &wanted);
        let slot = match entered {
            Some(slot) => slot,
            // On the heap, because it is rare and every request has room for it.
            None => Box::pin(until(&self.over, || self.state.lock().enter(nodes, &wanted))).await,
        };
        PathGuard { paths: self, slot }
    }

    /// The same for somebody who reads a directory; with the names in it that are being changed. Of these it must not
    /// tell what they lead to.
    pub async fn rely_to_list(&self, nodes: &Nodes, directory: Ino) -> (PathGuard<'_>, Vec<Segment>) {
        let enter = || {
            let mut state = self.state.lock();
            let slot = state.enter(nodes, &Reliance::path(directory))?;
            let closed = state.movers.iter().filter(|mover| mover.stage != Stage::Asked);
            let names = closed.flat_map(|mover| &mover.names).filter(|(at, _)| *at == directory);
            Some((slot, names.map(|(_, name)| name.clone()).collect()))
        };
        let (slot, names) = match enter() {
            Some(entered) => entered,
            None => Box::pin(until(&self.over, enter)).await,
        };
        (PathGuard { paths: self, slot }, names)
    }

    /// [`rely`](Self::rely) for somebody who does something else if he had to wait.
    pub fn try_rely(&self, nodes: &Nodes, wanted: Reliance<'_>) -> Option<PathGuard<'_>> {
        let slot = self.state.lock().enter(nodes, &wanted)?;
        Some(PathGuard { paths: self, slot })
    }

    /// Waits until nobody uses a path inside `subjects`, or one of `names`, and keeps everybody out from then on.
    pub async fn change(&self, nodes: &Nodes, subjects: &[Ino], names: &[Name<'_>]) -> MovePaths<'_> {
        // Made first: a caller that goes away while it waits leaves nothing behind.
        let mover = self.ask(subjects, names);
        until(&self.over, || self.state.lock().close(nodes, mover.number)).await;
        until(&self.left, || self.state.lock().part(nodes, mover.number)).await;
        mover
    }

    fn ask(&self, subjects: &[Ino], names: &[Name<'_>]) -> MovePaths<'_> {
        let mut state = self.state.lock();
        state.asked += 1;
        let number = state.asked;
        let names = names.iter().map(|(at, name)| (*at, Segment::clone(name))).collect();
        state.movers.push(Mover { number, subjects: subjects.to_vec(), names, stage: Stage::Asked });
        MovePaths { paths: self, number }
    }
}

/// Looks now and each time that `bell` rings, until there is an answer.
async fn until<T>(bell: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // Registered before the look, so that nothing in between is missed.
        let mut rung = pin!(bell.notified());
        rung.as_mut().enable();
        if let Some(done) = look() {
            return done;
        }
        rung.await;
    }
}
