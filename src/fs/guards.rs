//! Who may change which name at a time.
//!
//! Three kinds of guard, taken in this order and possibly held across an await:
//!
//! 1. the *turn* of a call by path that changes a file whose blob is elsewhere, from before it is opened until the
//!    service has the change: what the service refuses is undone here, and must not take somebody else's change along;
//! 2. the *path* guard: whoever turns a number into a path relies on it, and whoever renames or removes a directory
//!    keeps everybody out of it meanwhile, and nobody else ([`paths`] has the picture);
//! 3. the *name* guard: one name in one directory. Create, remove, rename and commit take it, so a commit never
//!    brings a name back that was just removed. Movers of directories need none: who relies on the names they change
//!    was waited for, or waits.
//!
//! Then come the gate's and the files' own mutexes, which are never held across an await. There is no circle: a turn is
//! never waited for with a path guard, a path guard never with another one or with the guard of a name, and of two names
//! the lower one comes first.

pub mod paths;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Mutex, MutexGuard};

use super::names::Segment;
use super::nodes::{Ino, Nodes};
use paths::{MovePaths, Name, Paths};

/// Names share this many guards; two names with the same one wait for each other, which costs little.
const STRIPES: usize = 1024;

/// The guards of one share.
#[derive(Debug)]
pub struct Guards {
    /// Who relies on which paths, and who is changing them.
    pub paths: Paths,
    stripes: Vec<Mutex<()>>,
    turns: Vec<Mutex<()>>,
    /// Counts guarded changes when they begin and when they end.
    changes: AtomicU64,
    /// How many directories are being moved.
    moving: AtomicUsize,
}

/// Proof that the holder may change these names.
#[derive(Debug)]
pub struct NameGuard<'a> {
    _first: MutexGuard<'a, ()>,
    _second: Option<MutexGuard<'a, ()>>,
    _counted: Counted<'a>,
}

/// Proof that no other call by path changes this file.
pub type Turn<'a> = MutexGuard<'a, ()>;

/// Proof that nobody else uses a path inside the directories that its holder moves, or the names that it changes.
#[derive(Debug)]
pub struct MoveGuard<'a> {
    _counted: CountedMove<'a>,
    _paths: MovePaths<'a>,
}

/// Counts when it is made and when it goes.
#[derive(Debug)]
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(changes: &'a AtomicU64) -> Self {
        changes.fetch_add(1, Ordering::AcqRel);
        Self(changes)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Is known as being under way, too, for as long as it lives.
#[derive(Debug)]
struct CountedMove<'a>(&'a Guards);

impl<'a> CountedMove<'a> {
    fn new(guards: &'a Guards) -> Self {
        guards.moving.fetch_add(1, Ordering::AcqRel);
        guards.changes.fetch_add(1, Ordering::AcqRel);
        Self(guards)
    }
}

impl Drop for CountedMove<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        self.0.moving.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            paths: Paths::default(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            turns: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            changes: AtomicU64::new(0),
            moving: AtomicUsize::new(0),
        }
    }
}

impl Guards {
    /// The turn of a call that changes `ino`.
    pub async fn turn(&self, ino: Ino) -> Turn<'_> {
        self.turns[stripe(ino, &())].lock().await
    }

    /// Nobody else uses a path inside `subjects`, or one of `names`, while this is held.
    pub async fn moving(&self, nodes: &Nodes, subjects: &[Ino], names: &[Name<'_>]) -> MoveGuard<'_> {
        let paths = self.paths.change(nodes, subjects, names).await;
        MoveGuard { _counted: CountedMove::new(self), _paths: paths }
    }

    /// A number that is the same twice only if nothing was changed, or being changed, in between.
    pub fn changes(&self) -> u64 {
        if self.moving.load(Ordering::Acquire) > 0 {
            // Others go on while a directory is being moved, so it may be moved between any two looks.
            return self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        }
        self.changes.load(Ordering::Acquire)
    }

    /// Others changed something without a guard.
    pub fn changed_by_others(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Guards one name.
    pub async fn name(&self, parent: Ino, segment: &Segment) -> NameGuard<'_> {
        let first = self.stripes[stripe(parent, segment)].lock().await;
        NameGuard { _first: first, _second: None, _counted: Counted::new(&self.changes) }
    }

    /// Guards two names, in an order that cannot deadlock.
    pub async fn names(&self, a: (Ino, &Segment), b: (Ino, &Segment)) -> NameGuard<'_> {
        let (a, b) = (stripe(a.0, a.1), stripe(b.0, b.1));
        let first = self.stripes[a.min(b)].lock().await;
        let second = if a == b { None } else { Some(self.stripes[a.max(b)].lock().await) };
        NameGuard { _first: first, _second: second, _counted: Counted::new(&self.changes) }
    }
}

fn stripe(parent: Ino, segment: &impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    (parent, segment).hash(&mut hasher);
    // The remainder is below STRIPES, so it fits.
    (hasher.finish() % STRIPES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::super::nodes::ROOT;
    use super::*;

    #[tokio::test]
    async fn the_count_of_changes_is_the_same_only_if_nothing_was_changed() {
        let (guards, nodes, name) = (Guards::default(), Nodes::default(), Segment::from_stored("d"));
        let before = guards.changes();
        assert_eq!(guards.changes(), before);
        let guard = guards.name(ROOT, &name).await;
        let (during, moving) = (guards.changes(), guards.moving(&nodes, &[Ino(2)], &[(ROOT, &name)]).await);
        let first = guards.changes();
        assert!(before < during && during < first);
        // Others look while the directory is moved, which may happen between any two looks.
        let second = guards.changes();
        assert_ne!(first, second);
        drop(moving);
        let after = guards.changes();
        assert!(after > second && guards.changes() == after);
        drop(guard);
        assert!(guards.changes() > after);
    }
}
