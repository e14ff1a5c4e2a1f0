//! Who waits for whom, over all files: so that a wait that could never end is refused instead.
//!
//! A key is *stuck* if all its waits are stuck: another thread of the same process that still runs, or that waits
//! for something that will come, may give back what it holds. A wait is stuck if one of those it waits for is. A new
//! wait is a deadlock if it would make its own key stuck. Only real circles are found: who is not waiting is never
//! counted as stuck. (Linux takes any wait of a process for the whole process; that finds more, and some wrongly.)
//!
//! This module must never wait itself. Whoever waits keeps its entry right: [`WaitGraph::insert`] again when the
//! holders changed, [`WaitGraph::remove`] when the wait is over.

use std::collections::{BTreeMap, BTreeSet};

/// How many waits one question looks at. A longer chain counts as no circle: its waiters stay killable.
const MAX_STEPS: usize = 10_000;

/// Names a wait. Whoever waits chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u64);

/// All waits for range locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitGraph {
    /// The waits of each key, with the keys each waits for.
    waits: BTreeMap<u64, BTreeMap<WaitId, Vec<u64>>>,
}

impl WaitGraph {
    /// Whether `waiter` would wait for itself in the end if it waited for these holders.
    pub fn would_deadlock(&self, waiter: u64, holders: &[u64]) -> bool {
        if holders.contains(&waiter) || !holders.iter().any(|holder| self.waits.contains_key(holder)) {
            return holders.contains(&waiter);
        }
        let Some(stuck) = self.stuck_with(waiter, holders) else { return false };
        let never_ends = |holders: &[u64]| holders.iter().any(|holder| stuck.contains(holder));
        let others = self.waits.get(&waiter).into_iter().flat_map(BTreeMap::values);
        never_ends(holders) && others.into_iter().all(|wait| never_ends(wait))
    }

    /// The keys that are stuck if `waiter` is. None if that would take too long to find out.
    fn stuck_with(&self, waiter: u64, holders: &[u64]) -> Option<BTreeSet<u64>> {
        let (mut seen, mut open) = (BTreeSet::from([waiter]), vec![waiter]);
        seen.extend(holders);
        open.extend(holders);
        // Who waits for a key, and with which wait.
        let mut waited_for: BTreeMap<u64, BTreeSet<(u64, WaitId)>> = BTreeMap::new();
        let mut steps = 0;
        while let Some(key) = open.pop() {
            for (id, wait) in self.waits.get(&key).into_iter().flatten() {
                for holder in wait {
                    steps += 1;
                    waited_for.entry(*holder).or_default().insert((key, *id));
                    if seen.insert(*holder) {
                        open.push(*holder);
                    }
                }
            }
            if steps > MAX_STEPS {
                return None;
            }
        }
        let (mut stuck, mut spread) = (BTreeSet::from([waiter]), vec![waiter]);
        let mut endless: BTreeSet<(u64, WaitId)> = BTreeSet::new();
        while let Some(key) = spread.pop() {
            for wait in waited_for.get(&key).into_iter().flatten() {
                let (by, _) = *wait;
                endless.insert(*wait);
                let all = endless.range((by, WaitId(0))..=(by, WaitId(u64::MAX))).count();
                if all == self.waits.get(&by).map_or(0, BTreeMap::len) && stuck.insert(by) {
                    spread.push(by);
                }
            }
        }
        Some(stuck)
    }

    /// Notes a wait, in place of the one of that name.
    pub fn insert(&mut self, id: WaitId, waiter: u64, holders: Vec<u64>) {
        self.waits.entry(waiter).or_default().insert(id, holders);
    }

    /// The wait is over.
    pub fn remove(&mut self, id: WaitId, waiter: u64) {
        if let Some(own) = self.waits.get_mut(&waiter) {
            own.remove(&id);
            if own.is_empty() {
                self.waits.remove(&waiter);
            }
        }
    }

    /// How many waits there are.
    pub fn len(&self) -> usize {
        self.waits.values().map(BTreeMap::len).sum()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(waits: &[(u64, &[u64])]) -> WaitGraph {
        let mut graph = WaitGraph::default();
        for (n, (waiter, holders)) in waits.iter().enumerate() {
            graph.insert(WaitId(n as u64), *waiter, holders.to_vec());
        }
        graph
    }

    #[test]
    fn a_circle_is_found_whatever_its_length() {
        assert!(graph(&[(2, &[1])]).would_deadlock(1, &[2]));
        assert!(graph(&[(2, &[3]), (3, &[4]), (4, &[1])]).would_deadlock(1, &[2]));
        assert!(
            graph(&[(2, &[9, 3]), (3, &[8, 1])]).would_deadlock(1, &[7, 2]),
            "one holder of each is enough"
        );
    }

    #[test]
    fn what_is_no_circle_waits() {
        assert!(!graph(&[]).would_deadlock(1, &[2]), "the holder runs");
        assert!(!graph(&[(2, &[3])]).would_deadlock(1, &[2]), "a chain");
        assert!(!graph(&[(2, &[3]), (4, &[3])]).would_deadlock(3, &[5]), "others wait for the waiter");
        assert!(!graph(&[(2, &[3]), (3, &[2])]).would_deadlock(1, &[2]), "a circle it is not in");
    }

    #[test]
    fn a_thread_that_may_go_on_breaks_the_circle() {
        assert!(
            !graph(&[(2, &[1]), (2, &[5])]).would_deadlock(1, &[2]),
            "another thread of 2 waits for 5, who runs"
        );
        assert!(graph(&[(2, &[1]), (2, &[5]), (5, &[1])]).would_deadlock(1, &[2]), "5 does not run");
        assert!(!graph(&[(2, &[1]), (1, &[5])]).would_deadlock(1, &[2]), "another thread of 1 waits for 5");
        assert!(graph(&[(2, &[1]), (1, &[2])]).would_deadlock(1, &[2]));
    }

    #[test]
    fn waits_that_ended_or_changed_do_not_count() {
        let mut graph = graph(&[(2, &[1])]);
        graph.insert(WaitId(0), 2, vec![3]);
        assert!(!graph.would_deadlock(1, &[2]), "2 now waits for 3");
        graph.insert(WaitId(1), 2, vec![1]);
        assert_eq!(graph.len(), 2);
        graph.remove(WaitId(0), 2);
        assert!(graph.would_deadlock(1, &[2]));
        graph.remove(WaitId(1), 2);
        assert!(!graph.would_deadlock(1, &[2]));
        assert!(graph.is_empty());
    }

    #[test]
    fn a_walk_is_bounded() {
        let mut long = WaitGraph::default();
        let last = MAX_STEPS as u64 + 10;
        for key in 2..last {
            long.insert(WaitId(key), key, vec![key + 1]);
        }
        long.insert(WaitId(last), last, vec![1]);
        assert!(!long.would_deadlock(1, &[2]), "too long to follow");
        assert!(long.would_deadlock(1, &[last - 100]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// With one wait per key and one holder per wait, a deadlock is a chain that comes back.
        #[test]
        fn simple_graphs_equal_a_walk_along_the_chain(next in prop::collection::vec(prop::option::of(0..12_u64), 12), waiter in 0..12_u64, holder in 0..12_u64) {
            let mut graph = WaitGraph::default();
            for (key, next) in next.iter().enumerate().filter(|(key, _)| *key as u64 != waiter) {
                if let Some(holder) = next {
                    graph.insert(WaitId(key as u64), key as u64, vec![*holder]);
                }
            }
            let mut at = Some(holder);
            for _ in 0..12 {
                at = at.filter(|key| *key != waiter).and_then(|key| next[key as usize]).or(at.filter(|key| *key == waiter));
            }
            prop_assert_eq!(graph.would_deadlock(waiter, &[holder]), at == Some(waiter));
        }
    }
}
