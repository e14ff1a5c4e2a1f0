//! The memory of [`nodes`](super::nodes): a map from numbers to nodes that stays small with a million of them.
//!
//! Numbers are given out one after another, so neighbours are kept together: a page has the nodes of 256 numbers,
//! those that exist, in order. A hash map of nodes would take twice the room. Never looks at what the nodes mean.

use std::collections::HashMap;

use crate::store::ETag;

use super::names::Segment;
use super::nodes::Ino;

/// What is known of a number.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Ino,
    pub(super) segment: Segment,
    /// The version whose bytes the kernel's page cache may hold; 0 for none (no version has that tag).
    cached: u64,
    /// How often the kernel was told of this number and has not forgotten it. At its limit it stays there.
    lookups: u32,
    /// Opens that need the place to commit to. At its limit it stays there.
    holds: u16,
    /// The number within its page.
    low: u8,
}

const _: () = assert!(size_of::<Node>() <= 40, "a node got bigger, times a million");

impl Node {
    /// How often the kernel knows it: once more.
    pub(super) fn learned(&mut self) {
        self.lookups = self.lookups.saturating_add(1);
    }

    /// The kernel forgot it `count` times.
    pub(super) fn forgotten(&mut self, count: u64) {
        if self.lookups < u32::MAX {
            self.lookups = self.lookups.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// One more open.
    pub(super) fn hold(&mut self) {
        self.holds = self.holds.saturating_add(1);
    }

    /// One open less.
    pub(super) fn unhold(&mut self) {
        if self.holds < u16::MAX {
            self.holds = self.holds.saturating_sub(1);
        }
    }

    /// Whether nobody refers to it.
    pub(super) fn is_unused(&self) -> bool {
        self.lookups == 0 && self.holds == 0
    }

    /// The version whose bytes the kernel's page cache may hold.
    pub(super) fn cached(&self) -> Option<ETag> {
        (self.cached != 0).then_some(ETag(self.cached))
    }

    /// Notes which it is.
    pub(super) fn set_cached(&mut self, version: Option<ETag>) {
        self.cached = version.map_or(0, |version| version.0);
    }
}

/// Nodes by number.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    pages: HashMap<u64, Vec<Node>>,
    len: usize,
}

/// Page and place of a number.
fn split(ino: Ino) -> (u64, u8) {
    let [.., low] = ino.0.to_be_bytes();
    (ino.0 >> u8::BITS, low)
}

impl NodeTable {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All nodes, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ino, &Node)> {
        let number = |page: u64, node: &Node| Ino(page << u8::BITS | u64::from(node.low));
        self.pages
            .iter()
            .flat_map(move |(page, nodes)| nodes.iter().map(move |node| (number(*page, node), node)))
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Node> {
        let (page, low) = split(ino);
        let page = self.pages.get(&page)?;
        page.binary_search_by_key(&low, |node| node.low).ok().map(|at| &page[at])
    }

    pub(super) fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        let (page, low) = split(ino);
        let page = self.pages.get_mut(&page)?;
        page.binary_search_by_key(&low, |node| node.low).ok().map(|at| &mut page[at])
    }

    /// The node of `ino`, which is put in at this place if it is not known yet.
    pub(super) fn get_or_insert(&mut self, ino: Ino, parent: Ino, segment: &Segment) -> &mut Node {
        let (number, low) = split(ino);
        let page = self.pages.entry(number).or_default();
        let at = match page.binary_search_by_key(&low, |node| node.low) {
            Ok(at) => at,
            Err(at) => {
                if page.len() == page.capacity() {
                    // Doubling would leave half of the room unused for good.
                    page.reserve_exact((page.len() / 4).max(4));
                }
                let segment = segment.clone();
                page.insert(at, Node { parent, segment, cached: 0, lookups: 0, holds: 0, low });
                self.len += 1;
                at
            }
        };
        &mut page[at]
    }

    pub(super) fn remove(&mut self, ino: Ino) {
        let (number, low) = split(ino);
        let Some(page) = self.pages.get_mut(&number) else { return };
        let Ok(at) = page.binary_search_by_key(&low, |node| node.low) else { return };
        page.remove(at);
        self.len -= 1;
        if page.is_empty() {
            self.pages.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u64..700, any::<bool>()), 1..200)) {
            let mut table = NodeTable::default();
            let mut model = BTreeMap::new();
            for (number, put) in steps {
                if put {
                    let parent = table.get_or_insert(Ino(number), Ino(number * 7), &Segment::from_stored("x")).parent;
                    prop_assert_eq!(*model.entry(number).or_insert(number * 7), parent.0);
                } else {
                    table.remove(Ino(number));
                    model.remove(&number);
                }
                prop_assert_eq!(table.len(), model.len());
            }
            let numbers: BTreeMap<u64, u64> = table.iter().map(|(ino, node)| (ino.0, node.parent.0)).collect();
            prop_assert_eq!(&numbers, &model);
            for number in 0..700 {
                let found = table.get(Ino(number)).map(|node| node.parent.0);
                prop_assert_eq!(found, model.get(&number).copied());
                prop_assert_eq!(table.get_mut(Ino(number)).is_some(), found.is_some());
            }
        }
    }

    #[test]
    fn counts_at_their_limit_stay_there() {
        let mut table = NodeTable::default();
        let node = table.get_or_insert(Ino(5), Ino(1), &Segment::from_stored("x"));
        (0..70_000).for_each(|_| node.hold());
        (0..70_000).for_each(|_| node.unhold());
        assert!(!node.is_unused(), "nobody knows any more how often it is held");
    }
}
