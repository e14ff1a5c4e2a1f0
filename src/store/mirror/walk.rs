//! Walks: whoever lists one directory after the other (`ls -lR`, `find`, `git status`) gets the next ones listed ahead.
//!
//! ```text
//!   p/a/ cold ─▶ p/b/ cold ─▶ p/c/ cold: a walk ─▶ p/d/, p/e/ … listed ahead, a few at a time
//!                                                    │ used in time: twice as far ahead
//!                                                    └ out of date before anybody came: half as far, in the end nothing
//! ```
//!
//! A listing ahead is a listing like any other, by the same function, so nothing is believed longer or sooner for it. Who
//! lists a single directory costs no request more. [`Walks`] is pure bookkeeping: time is an argument.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::{Semaphore, mpsc};

use super::Mirror;
use super::known::parent_prefix;
use super::refresh::{IS_FOLDER, is_own};
use crate::store::{BlobStore, ListItem, ListQuery, Result};

/// Directories whose children are followed.
const WALKS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// So many children in a row that had to be listed are a walk; twice as many each time it was found to be too slow, up to
/// the second.
const WALK_AFTER: u32 = 3;
const WALK_AFTER_MAX: u32 = 96;
/// How many directories are listed ahead: at first, and at most.
const FIRST_DEPTH: usize = 4;
const DEPTH_MAX: usize = 16;
/// A walk that rests for so long is over.
const REST: Duration = Duration::from_secs(10);
/// Names of the mirror that are looked through for the next directories, at a time.
const NAMES: usize = 256;
/// Listings ahead that are under way at a time.
const PARALLEL: usize = 8;
/// Listings ahead that wait to be made; there is no harm in leaving one out.
const WAITING: usize = 64;

/// What to do after a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing, or there is nothing to be had.
    Nothing,
    /// Find out which directories come next, and say so with [`Walks::coming`].
    Ask,
    /// List these.
    Ahead(Vec<String>),
}

#[derive(Debug)]
struct Walk {
    /// How many children had to be listed, one after the other.
    cold: u32,
    /// The last of them: who lists the same one again does not walk.
    last: String,
    /// So many of them are a walk.
    after: u32,
    depth: usize,
    /// Listed ahead, and nobody has come yet.
    out: usize,
    /// Directories to be listed next, in order.
    coming: VecDeque<String>,
    heard: Instant,
}

impl Walk {
    fn new(now: Instant) -> Self {
        Self {
            cold: 0,
            last: String::new(),
            after: WALK_AFTER,
            depth: FIRST_DEPTH,
            out: 0,
            coming: VecDeque::new(),
            heard: now,
        }
    }
}

impl Walk {
    /// One that was listed ahead was used, or was too old then.
    fn judge(&mut self, in_time: bool) {
        self.depth = if in_time { (self.depth * 2).min(DEPTH_MAX) } else { self.depth / 2 };
        if self.depth == 0 {
            // It has to show again that it is one, and that it is faster.
            (self.depth, self.cold) = (1, 0);
            self.after = (self.after * 2).min(WALK_AFTER_MAX);
        }
    }

    /// Those below `parent` that nobody came for in time.
    fn forget_old(
        &mut self,
        ahead: &mut HashMap<String, Instant>,
        parent: &str,
        now: Instant,
        ttl: Duration,
    ) {
        let is_old = |listed: Instant| now.saturating_duration_since(listed) >= ttl;
        let before = ahead.len();
        ahead.retain(|prefix, listed| !is_old(*listed) || parent_of(prefix) != parent);
        if ahead.len() < before {
            self.out = self.out.saturating_sub(before - ahead.len());
            self.judge(false);
        }
    }
}

/// The walks of a mirror. Directories are prefixes: paths with a slash at the end, the root is empty.
#[derive(Debug)]
pub(super) struct Walks {
    /// By the directory whose children are listed one after the other.
    walks: LruCache<String, Walk>,
    /// What was listed ahead, and when.
    ahead: HashMap<String, Instant>,
}

impl Default for Walks {
    fn default() -> Self {
        Self { walks: LruCache::new(WALKS), ahead: HashMap::new() }
    }
}

impl Walks {
    /// Somebody wants the names in `prefix`. `cold` says whether the service must be asked, `ttl` for how long answers are
    /// believed.
    pub(super) fn heard(&mut self, prefix: &str, cold: bool, now: Instant, ttl: Duration) -> Step {
        let expected = self.ahead.remove(prefix);
        if prefix.is_empty() || (!cold && expected.is_none()) {
            return Step::Nothing;
        }
        let parent = parent_of(prefix);
        // Below a directory of a walk the next one begins at once.
        let nested = !parent.is_empty() && self.is_walked(parent_of(parent), now);
        if self.walks.peek(parent).is_some_and(|walk| now.saturating_duration_since(walk.heard) > REST) {
            self.walks.pop(parent);
        }
        if !self.walks.contains(parent) {
            let begun = Walk { cold: if nested { WALK_AFTER - 1 } else { 0 }, ..Walk::new(now) };
            if let Some((gone, _)) = self.walks.push(parent.to_owned(), begun) {
                self.ahead.retain(|prefix, _| parent_of(prefix) != gone);
            }
        }
        let Some(walk) = self.walks.get_mut(parent) else { return Step::Nothing };
        walk.heard = now;
        match expected {
            Some(listed) => {
                walk.out = walk.out.saturating_sub(1);
                let in_time = now.saturating_duration_since(listed) < ttl;
                walk.judge(in_time);
            }
            None if walk.last == prefix => return Step::Nothing,
            None => {
                walk.cold = walk.cold.saturating_add(1);
                // It goes on somewhere else than it was thought to.
                walk.coming.clear();
                if walk.depth <= walk.out {
                    walk.forget_old(&mut self.ahead, parent, now, ttl);
                }
            }
        }
        prefix.clone_into(&mut walk.last);
        if walk.cold < walk.after || walk.depth <= walk.out {
            return Step::Nothing;
        }
        if walk.coming.is_empty() { Step::Ask } else { self.next(parent, now) }
    }

    /// Which directories come behind the last one in `parent`.
    pub(super) fn coming(&mut self, parent: &str, names: Vec<String>, now: Instant) -> Step {
        if let Some(walk) = self.walks.get_mut(parent) {
            walk.coming = names.into();
        }
        self.next(parent, now)
    }

    /// As many as may be listed ahead now.
    fn next(&mut self, parent: &str, now: Instant) -> Step {
        let Some(walk) = self.walks.get_mut(parent) else { return Step::Nothing };
        let mut list = Vec::new();
        while walk.out < walk.depth
            && let Some(prefix) = walk.coming.pop_front()
        {
            if self.ahead.insert(prefix.clone(), now).is_none() {
                walk.out += 1;
                list.push(prefix);
            }
        }
        if list.is_empty() { Step::Nothing } else { Step::Ahead(list) }
    }

    /// Whether this one was listed ahead and nobody has come yet.
    pub(super) fn expects(&self, prefix: &str) -> bool {
        self.ahead.contains_key(prefix)
    }

    fn is_walked(&self, parent: &str, now: Instant) -> bool {
        let is_young = |walk: &Walk| now.saturating_duration_since(walk.heard) <= REST;
        self.walks.peek(parent).is_some_and(|walk| walk.cold >= walk.after && is_young(walk))
    }
}

/// The directory that a directory is in, both as prefixes.
fn parent_of(prefix: &str) -> &str {
    parent_prefix(prefix.strip_suffix('/').unwrap_or(prefix))
}

/// Starts to list what it is told, for as long as the mirror lives.
pub(super) fn start(mirror: &Arc<Mirror>, mut orders: mpsc::Receiver<String>) {
    let weak = Arc::downgrade(mirror);
    tokio::spawn(async move {
        let turns = Arc::new(Semaphore::new(PARALLEL));
        while let Some(prefix) = orders.recv().await {
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
            let weak = Weak::clone(&weak);
            tokio::spawn(async move {
                let Some(mirror) = weak.upgrade() else { return };
                if let Err(error) = mirror.list_ahead(&prefix).await {
                    tracing::debug!(prefix, %error, "a directory was not listed ahead");
                }
                drop(turn);
            });
        }
    });
}

/// A way to order listings ahead.
pub(super) fn orders() -> (mpsc::Sender<String>, mpsc::Receiver<String>) {
    mpsc::channel(WAITING)
}

impl Mirror {
    /// Hears that somebody wants the names in a directory; lists others ahead if this is a walk.
    pub(super) async fn follow_walk(&self, prefix: &str, cold: bool) {
        let step = self.walks.lock().heard(prefix, cold, Instant::now(), self.options.attr_ttl);
        let step = match step {
            Step::Ask => match self.directories_behind(prefix).await {
                Ok(names) => self.walks.lock().coming(parent_of(prefix), names, Instant::now()),
                Err(error) => return tracing::debug!(prefix, %error, "a walk cannot be followed"),
            },
            step => step,
        };
        if let Step::Ahead(prefixes) = step {
            for prefix in prefixes {
                // One that does not fit in is listed when somebody comes.
                let _ = self.list_soon.try_send(prefix);
            }
        }
    }

    /// The next directories beside one, as far as the mirror knows them.
    async fn directories_behind(&self, prefix: &str) -> Result<Vec<String>> {
        // The first name that is behind everything in it: `0` follows the slash.
        let behind = format!("{}0", prefix.strip_suffix('/').unwrap_or(prefix));
        let query = ListQuery {
            prefix: parent_of(prefix).to_owned(),
            delimiter: Some("/".to_owned()),
            marker: Some(behind),
            max: NAMES,
            ..ListQuery::default()
        };
        let mut found: Vec<String> = Vec::new();
        for item in self.store.list_blobs(&self.home, &query).await?.items {
            let name = match item {
                ListItem::Prefix { name, .. } => name,
                ListItem::Blob { name, properties } if properties.metadata.contains(IS_FOLDER) => {
                    format!("{name}/")
                }
                _ => continue,
            };
            if !is_own(&name) && found.last() != Some(&name) {
                found.push(name);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    fn directories(numbers: std::ops::Range<usize>) -> Vec<String> {
        numbers.map(|number| format!("p/d{number:02}/")).collect()
    }

    /// A walk through `p/`, just noticed; d03 to d06 are being listed.
    fn walking(now: Instant) -> Walks {
        let mut walks = Walks::default();
        assert_eq!(walks.heard("p/d00/", true, now, TTL), Step::Nothing);
        assert_eq!(walks.heard("p/d01/", true, now, TTL), Step::Nothing);
        assert_eq!(walks.heard("p/d02/", true, now, TTL), Step::Ask);
        assert_eq!(walks.coming("p/", directories(3..50), now), Step::Ahead(directories(3..7)));
        walks
    }

    #[test]
    fn who_lists_one_directory_again_and_again_is_no_walk() {
        let (mut walks, now) = (Walks::default(), Instant::now());
        for prefix in ["", "p/", "", ""] {
            assert_eq!(walks.heard(prefix, true, now, TTL), Step::Nothing);
        }
        for _ in 0..10 {
            assert_eq!(walks.heard("p/", false, now, TTL), Step::Nothing);
        }
        for _ in 0..10 {
            assert_eq!(walks.heard("p/d00/", true, now, TTL), Step::Nothing, "the same one below p");
        }
        assert_eq!(walks.heard("p/d02/", true, now, TTL), Step::Nothing);
        let later = now + REST + TTL;
        assert_eq!(walks.heard("p/d01/", true, later, TTL), Step::Nothing, "that was long ago");
    }

    #[test]
    fn a_walk_is_followed_as_far_ahead_as_it_is_worth() {
        let now = Instant::now();
        let mut walks = walking(now);
        let mut listed = 7;
        for number in 3..50 {
            let step = walks.heard(&format!("p/d{number:02}/"), false, now, TTL);
            if let Step::Ahead(more) = step {
                assert_eq!(more, directories(listed..listed + more.len()));
                listed += more.len();
            }
            assert!(listed <= number + 1 + DEPTH_MAX, "{listed} at {number}");
            assert!(listed == 50 || listed > number, "{listed} at {number}");
        }
        assert_eq!(listed, 50);
        assert!(walks.ahead.is_empty());
        assert_eq!(walks.heard("p/d49/", false, now, TTL), Step::Nothing, "already used");
    }

    #[test]
    fn one_that_is_still_on_its_way_is_no_waste() {
        let now = Instant::now();
        let mut walks = walking(now);
        let step = walks.heard("p/d03/", true, now + TTL / 2, TTL);
        assert_eq!(step, Step::Ahead(directories(7..12)), "twice as far");
    }

    #[test]
    fn a_walk_that_is_too_slow_is_left_alone_and_found_again_when_it_is_faster() {
        let now = Instant::now();
        let (mut walks, mut listed) = (walking(now), 4);
        let prefix = |number: u32| format!("p/d{number:03}/");
        for number in 100..200_u32 {
            let slow = now + TTL * 2 * number;
            let step = match walks.heard(&prefix(number), true, slow, TTL) {
                Step::Ask => walks.coming("p/", (number + 1..200).map(prefix).collect(), slow),
                step => step,
            };
            listed += if let Step::Ahead(more) = step { more.len() } else { 0 };
        }
        assert!(listed <= 12, "{listed} listings that nobody used");
        let fast = now + TTL * 400;
        let mut found = false;
        for number in 200..300_u32 {
            found |= matches!(walks.heard(&prefix(number), true, fast, TTL), Step::Ask);
        }
        assert!(found);
    }

    #[test]
    fn who_comes_back_to_where_it_began_is_followed_from_there() {
        let now = Instant::now();
        let mut walks = walking(now);
        let later = now + TTL * 2;
        assert_eq!(walks.heard("p/d00/", true, later, TTL), Step::Ask, "what was listed is out of date");
        let step = walks.coming("p/", directories(1..50), later);
        assert_eq!(step, Step::Ahead(directories(1..3)), "half as far");
    }

    #[test]
    fn below_a_walk_the_next_one_begins_at_once() {
        let now = Instant::now();
        let mut walks = walking(now);
        assert_eq!(walks.heard("p/d01/a/", true, now, TTL), Step::Ask);
        assert_eq!(walks.heard("q/d01/a/", true, now, TTL), Step::Nothing);
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let (mut walks, now) = (Walks::default(), Instant::now());
        for number in 0..1000 {
            for child in ["a", "b", "c"] {
                walks.heard(&format!("p{number}/{child}/"), true, now, TTL);
            }
            walks.coming(&format!("p{number}/"), vec![format!("p{number}/d/")], now);
        }
        assert!(walks.walks.len() <= WALKS.get() && walks.ahead.len() <= WALKS.get() * DEPTH_MAX);
    }
}
