//! The numbers the kernel knows files by, and where each of them is in the tree.
//!
//! A number is the store's id of the blob plus one (the root is 1), so it is the same for as long as the file lives,
//! across renames and remounts. The table holds only what the kernel or an open file still refers to.
//!
//! Children name their parent by number, so renaming a directory changes one entry however much is below it.
//!
//! The kernel may know a million files, so a node is small, and what only few of them have is kept apart.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::store::{BlobName, ETag};

use super::attributes::Attributes;
use super::error::{FsError, Result};
use super::names::Segment;
use super::node_table::{Node, NodeTable};

/// A file's or directory's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

/// The root directory.
pub const ROOT: Ino = Ino(1);

impl Ino {
    /// The number of what the store knows as `id`.
    pub fn of(id: u64) -> Self {
        Self(id + 1)
    }
}

/// Numbers that stay in the table: one of them and those of the directories above it, as they were when it was made.
#[derive(Debug, Default)]
#[must_use = "given back to `unhold_path`"]
pub struct PathHold(Box<[Ino]>);

impl PathHold {
    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The table of numbers in use.
#[derive(Debug, Default)]
pub struct Nodes {
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    nodes: NodeTable,
    /// No name leads to these any more; only opens do. With what they were, if that may still be asked for.
    nameless: HashMap<Ino, Option<Attributes>>,
}

impl Table {
    /// The node of something that has a name.
    fn named(&self, ino: Ino) -> Option<&Node> {
        let node = self.nodes.get(ino)?;
        (self.nameless.is_empty() || !self.nameless.contains_key(&ino)).then_some(node)
    }

    /// Takes the node out if nobody refers to it any more.
    fn drop_unused(&mut self, ino: Ino) {
        if self.nodes.get(ino).is_some_and(Node::is_unused) {
            self.nodes.remove(ino);
            self.nameless.remove(&ino);
        }
    }
}

impl Nodes {
    /// Notes that the kernel learns of `ino` at this place.
    pub fn remember(&self, ino: Ino, parent: Ino, segment: &Segment) {
        let mut table = self.table.write();
        table.nodes.get_or_insert(ino, parent, segment).learned();
    }

    /// [`remember`](Self::remember) for a number that is in the table already, wherever it is; says whether it is.
    pub fn remember_again(&self, ino: Ino) -> bool {
        self.table.write().nodes.get_mut(ino).map(Node::learned).is_some()
    }

    /// Notes that the kernel forgot `count` of its references to `ino`.
    pub fn forget(&self, ino: Ino, count: u64) {
        let mut table = self.table.write();
        if let Some(node) = table.nodes.get_mut(ino) {
            node.forgotten(count);
            table.drop_unused(ino);
        }
    }

    /// Keeps `ino` in the table for an open file, also when the kernel forgets it first.
    pub fn hold(&self, ino: Ino, parent: Ino, segment: &Segment) {
        let mut table = self.table.write();
        table.nodes.get_or_insert(ino, parent, segment).hold();
    }

    /// [`remember`](Self::remember) and [`hold`](Self::hold) for something that was just made.
    pub fn remember_held(&self, ino: Ino, parent: Ino, segment: &Segment) {
        let mut table = self.table.write();
        let node = table.nodes.get_or_insert(ino, parent, segment);
        node.learned();
        node.hold();
    }

    /// [`hold`](Self::hold) for a number that is in the table already, with or without a name.
    pub fn hold_again(&self, ino: Ino) {
        if let Some(node) = self.table.write().nodes.get_mut(ino) {
            node.hold();
        }
    }

    /// Gives up one [`hold`](Self::hold).
    pub fn unhold(&self, ino: Ino) {
        let mut table = self.table.write();
        if let Some(node) = table.nodes.get_mut(ino) {
            node.unhold();
            table.drop_unused(ino);
        }
    }

    /// Keeps `ino` and the directories above it in the table, so that it can be found without the kernel's help.
    pub fn hold_path(&self, ino: Ino) -> PathHold {
        let mut table = self.table.write();
        let (mut held, mut at) = (Vec::new(), ino);
        while let Some(node) = table.nodes.get_mut(at).filter(|_| at != ROOT) {
            node.hold();
            held.push(at);
            at = node.parent;
        }
        PathHold(held.into())
    }

    /// Gives up a [`hold_path`](Self::hold_path).
    pub fn unhold_path(&self, PathHold(held): PathHold) {
        held.into_iter().for_each(|ino| self.unhold(ino));
    }

    /// Where `ino` is: its parent and its segment there. Nothing for the root and for what has no name.
    pub fn place(&self, ino: Ino) -> Option<(Ino, Segment)> {
        let table = self.table.read();
        let node = table.named(ino)?;
        Some((node.parent, node.segment.clone()))
    }

    /// The blob name of `ino`; nothing for the root.
    pub fn blob_name(&self, ino: Ino) -> Result<Option<BlobName>> {
        if ino == ROOT {
            return Ok(None);
        }
        self.join(ino, None).map(Some)
    }

    /// The blob name of `segment` in the directory `parent`.
    pub fn child_name(&self, parent: Ino, segment: &Segment) -> Result<BlobName> {
        self.join(parent, Some(segment))
    }

    fn join(&self, ino: Ino, last: Option<&Segment>) -> Result<BlobName> {
        const DEPTH_MAX: usize = 1024;
        let table = self.table.read();
        let mut segments: Vec<&str> = Vec::with_capacity(8);
        segments.extend(last.map(Segment::as_str));
        let mut at = ino;
        while at != ROOT {
            let node = table.named(at).ok_or(FsError::NotFound)?;
            segments.push(node.segment.as_str());
            at = node.parent;
            if segments.len() > DEPTH_MAX {
                return Err(FsError::NameTooLong);
            }
        }
        segments.reverse();
        BlobName::new(segments.join("/")).map_err(|_| FsError::NameTooLong)
    }

    /// Notes that `ino` is now at another place.
    pub fn moved(&self, ino: Ino, parent: Ino, segment: &Segment) {
        if let Some(node) = self.table.write().nodes.get_mut(ino) {
            node.parent = parent;
            node.segment = segment.clone();
        }
    }

    /// Notes that no name leads to `ino` any more, and what it was.
    pub fn unnamed(&self, ino: Ino, last: Option<Attributes>) {
        let mut table = self.table.write();
        if table.nodes.get(ino).is_some() {
            table.nameless.insert(ino, last);
        }
    }

    /// What `ino` was when it lost its name.
    pub fn last(&self, ino: Ino) -> Option<Attributes> {
        self.table.read().nameless.get(&ino).copied().flatten()
    }

    /// Whether `ino` is known and has lost its name.
    pub fn is_nameless(&self, ino: Ino) -> bool {
        self.table.read().nameless.contains_key(&ino)
    }

    /// Whether `ancestor` is `ino` or one of the directories above it.
    pub fn is_within(&self, ino: Ino, ancestor: Ino) -> bool {
        let table = self.table.read();
        let mut at = ino;
        loop {
            if at == ancestor {
                return true;
            }
            match table.nodes.get(at) {
                Some(node) => at = node.parent,
                None => return false,
            }
        }
    }

    /// The same of the way that the path of `ino` takes. What has no name has no path.
    pub fn leads_through(&self, ino: Ino, ancestor: Ino) -> bool {
        let table = self.table.read();
        let mut at = ino;
        loop {
            if at == ancestor {
                return true;
            }
            match table.named(at) {
                Some(node) => at = node.parent,
                None => return false,
            }
        }
    }

    /// The version that the kernel's page cache may hold of `ino`.
    pub fn cached(&self, ino: Ino) -> Option<ETag> {
        self.table.read().nodes.get(ino).and_then(Node::cached)
    }

    /// Notes which version the kernel's page cache is going to hold, and tells which it may hold until now.
    pub fn swap_cached(&self, ino: Ino, version: Option<ETag>) -> Option<ETag> {
        let mut table = self.table.write();
        let node = table.nodes.get_mut(ino)?;
        let before = node.cached();
        node.set_cached(version);
        before
    }

    /// Notes which version the kernel's page cache may hold.
    pub fn set_cached(&self, ino: Ino, version: Option<ETag>) {
        self.swap_cached(ino, version);
    }

    /// All numbers in use and where they are; nothing for the root and what has no name.
    pub fn all(&self) -> Vec<(Ino, Option<(Ino, Segment)>)> {
        let table = self.table.read();
        let place = |ino: Ino| table.named(ino).map(|node| (node.parent, node.segment.clone()));
        table.nodes.iter().map(|(ino, _)| (ino, place(ino))).collect()
    }

    /// How many numbers are in use.
    pub fn len(&self) -> usize {
        self.table.read().nodes.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(name: &str) -> Segment {
        Segment::from_stored(name)
    }

    #[test]
    fn paths_follow_a_directory_rename() {
        let nodes = Nodes::default();
        nodes.remember(Ino(2), ROOT, &segment("a"));
        nodes.remember(Ino(3), Ino(2), &segment("b"));
        nodes.remember(Ino(4), Ino(3), &segment("c"));
        assert_eq!(nodes.blob_name(Ino(4)).unwrap().unwrap().as_str(), "a/b/c");
        nodes.moved(Ino(3), ROOT, &segment("x"));
        assert_eq!(nodes.blob_name(Ino(4)).unwrap().unwrap().as_str(), "x/c");
        assert!(nodes.is_within(Ino(4), Ino(3)) && !nodes.is_within(Ino(4), Ino(2)));
    }

    #[test]
    fn entries_go_when_nobody_refers_to_them() {
        let nodes = Nodes::default();
        nodes.remember(Ino(2), ROOT, &segment("a"));
        nodes.remember(Ino(2), ROOT, &segment("a"));
        nodes.hold(Ino(2), ROOT, &segment("a"));
        nodes.forget(Ino(2), 2);
        assert!(nodes.place(Ino(2)).is_some(), "held by an open");
        nodes.unhold(Ino(2));
        assert!(nodes.is_empty());
    }

    #[test]
    fn a_held_path_is_found_without_the_kernel() {
        let nodes = Nodes::default();
        nodes.remember(Ino(2), ROOT, &segment("a"));
        nodes.remember(Ino(3), Ino(2), &segment("b"));
        let held = nodes.hold_path(Ino(3));
        nodes.forget(Ino(3), 1);
        nodes.forget(Ino(2), 1);
        assert_eq!(nodes.blob_name(Ino(3)).unwrap().unwrap().as_str(), "a/b");
        nodes.unhold_path(held);
        assert!(nodes.is_empty());
        nodes.unhold_path(nodes.hold_path(ROOT));
    }

    #[test]
    fn what_lost_its_name_has_no_path() {
        let nodes = Nodes::default();
        nodes.remember(Ino(2), ROOT, &segment("a"));
        assert!(nodes.leads_through(Ino(2), ROOT));
        nodes.unnamed(Ino(2), None);
        assert!(nodes.is_within(Ino(2), ROOT) && !nodes.leads_through(Ino(2), ROOT));
        assert!(matches!(nodes.blob_name(Ino(2)), Err(FsError::NotFound)));
        assert!(nodes.is_nameless(Ino(2)));
    }

    #[test]
    fn paths_have_a_limit() {
        let nodes = Nodes::default();
        let long = segment(&"x".repeat(250));
        for level in 0..5 {
            nodes.remember(Ino(level + 2), Ino(level + 1), &long);
        }
        assert!(nodes.blob_name(Ino(5)).is_ok());
        assert!(matches!(nodes.blob_name(Ino(6)), Err(FsError::NameTooLong)));
    }
}
