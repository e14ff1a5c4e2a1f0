//! Who may change which name at a time.
//!
//! Three kinds of guard, taken in this order and possibly held across an await (they are tokio's):
//!
//! 1. the *turn* of a call by path that changes a file whose blob is elsewhere, from before it is opened until the
//!    service has the change: what the service refuses is undone here, and must not take somebody else's change along;
//! 2. the *tree* guard: shared by everything that turns a number into a path, exclusive for the rename of a
//!    directory, which changes the paths of all that is below it;
//! 3. the *name* guard: one name in one directory. Create, remove, rename and commit take it, so a commit never
//!    brings a name back that was just removed.
//!
//! Then come the gate's and the files' own mutexes, which are never held across an await.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::names::Segment;
use super::nodes::Ino;

/// Names share this many guards; two names with the same one wait for each other, which costs little.
const STRIPES: usize = 1024;

/// The guards of one share.
#[derive(Debug)]
pub struct Guards {
    tree: RwLock<()>,
    stripes: Vec<Mutex<()>>,
    turns: Vec<Mutex<()>>,
    /// Counts guarded changes when they begin and when they end.
    changes: AtomicU64,
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

/// Proof that nobody else uses a path.
#[derive(Debug)]
pub struct TreeGuard<'a> {
    _tree: RwLockWriteGuard<'a, ()>,
    _counted: Counted<'a>,
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

impl Default for Guards {
    fn default() -> Self {
        Self {
            tree: RwLock::new(()),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            turns: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            changes: AtomicU64::new(0),
        }
    }
}

impl Guards {
    /// The turn of a call that changes `ino`.
    pub async fn turn(&self, ino: Ino) -> Turn<'_> {
        self.turns[stripe(ino, &())].lock().await
    }

    /// Paths stay as they are while this is held.
    pub async fn tree(&self) -> RwLockReadGuard<'_, ()> {
        self.tree.read().await
    }

    /// Nobody else uses a path while this is held.
    pub async fn whole_tree(&self) -> TreeGuard<'_> {
        TreeGuard { _tree: self.tree.write().await, _counted: Counted::new(&self.changes) }
    }

    /// A number that is the same twice only if nothing was changed, or being changed, in between.
    pub fn changes(&self) -> u64 {
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
