//! The numbers the kernel knows files by, and where each of them is in the tree.
//!
//! A number is the store's id of the blob plus one (the root is 1), so it is the same for as long as the file lives,
//! across renames and remounts. The table holds only what the kernel or an open file still refers to.
//!
//! Children name their parent by number, so renaming a directory changes one entry however much is below it.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::store::{BlobName, ETag};

use super::attributes::Attributes;
use super::error::{FsError, Result};
use super::names::Segment;

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

#[derive(Debug)]
struct Node {
    parent: Ino,
    segment: Segment,
    /// How often the kernel was told of this number and has not forgotten it.
    lookups: u64,
    /// Opens that need the place to commit to.
    holds: u32,
    /// No name leads here any more; only opens do.
    nameless: bool,
    /// What it was when it lost its name, if that may still be asked for.
    last: Option<Box<Attributes>>,
    /// The version whose bytes the kernel's page cache may hold.
    cached: Option<ETag>,
}

/// The table of numbers in use.
#[derive(Debug, Default)]
pub struct Nodes {
    map: RwLock<HashMap<Ino, Node>>,
}

impl Nodes {
    /// Notes that the kernel learns of `ino` at this place.
    pub fn remember(&self, ino: Ino, parent: Ino, segment: &Segment) {
        let mut map = self.map.write();
        match map.get_mut(&ino) {
            Some(node) => node.lookups += 1,
            None => drop(map.insert(
                ino,
                Node {
                    parent,
                    segment: segment.clone(),
                    lookups: 1,
                    holds: 0,
                    nameless: false,
                    last: None,
                    cached: None,
                },
            )),
        }
    }

    /// Notes that the kernel forgot `count` of its references to `ino`.
    pub fn forget(&self, ino: Ino, count: u64) {
        let mut map = self.map.write();
        if let Some(node) = map.get_mut(&ino) {
            node.lookups = node.lookups.saturating_sub(count);
            if node.lookups == 0 && node.holds == 0 {
                map.remove(&ino);
            }
        }
    }

    /// Keeps `ino` in the table for an open file, also when the kernel forgets it first.
    pub fn hold(&self, ino: Ino, parent: Ino, segment: &Segment) {
        let mut map = self.map.write();
        let node = map.entry(ino).or_insert_with(|| Node {
            parent,
            segment: segment.clone(),
            lookups: 0,
            holds: 0,
            nameless: false,
            last: None,
            cached: None,
        });
        node.holds += 1;
    }

    /// [`remember`](Self::remember) and [`hold`](Self::hold) for something that was just made.
    pub fn remember_held(&self, ino: Ino, parent: Ino, segment: &Segment) {
        let node = Node {
            parent,
            segment: segment.clone(),
            lookups: 1,
            holds: 1,
            nameless: false,
            last: None,
            cached: None,
        };
        self.map.write().insert(ino, node);
    }

    /// [`hold`](Self::hold) for a number that is in the table already, with or without a name.
    pub fn hold_again(&self, ino: Ino) {
        if let Some(node) = self.map.write().get_mut(&ino) {
            node.holds += 1;
        }
    }

    /// Gives up one [`hold`](Self::hold).
    pub fn unhold(&self, ino: Ino) {
        let mut map = self.map.write();
        if let Some(node) = map.get_mut(&ino) {
            node.holds = node.holds.saturating_sub(1);
            if node.lookups == 0 && node.holds == 0 {
                map.remove(&ino);
            }
        }
    }

    /// Where `ino` is: its parent and its segment there. Nothing for the root and for what has no name.
    pub fn place(&self, ino: Ino) -> Option<(Ino, Segment)> {
        let map = self.map.read();
        let node = map.get(&ino)?;
        (!node.nameless).then(|| (node.parent, node.segment.clone()))
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
        let map = self.map.read();
        let mut segments: Vec<&str> = Vec::with_capacity(8);
        segments.extend(last.map(Segment::as_str));
        let mut at = ino;
        while at != ROOT {
            let node = map.get(&at).filter(|node| !node.nameless).ok_or(FsError::NotFound)?;
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
        if let Some(node) = self.map.write().get_mut(&ino) {
            node.parent = parent;
            node.segment = segment.clone();
        }
    }

    /// Notes that no name leads to `ino` any more, and what it was.
    pub fn unnamed(&self, ino: Ino, last: Option<Attributes>) {
        if let Some(node) = self.map.write().get_mut(&ino) {
            node.nameless = true;
            node.last = last.map(Box::new);
        }
    }

    /// What `ino` was when it lost its name.
    pub fn last(&self, ino: Ino) -> Option<Attributes> {
        self.map.read().get(&ino)?.last.as_deref().copied()
    }

    /// Whether `ino` is known and has lost its name.
    pub fn is_nameless(&self, ino: Ino) -> bool {
        self.map.read().get(&ino).is_some_and(|node| node.nameless)
    }

    /// Whether `ancestor` is `ino` or one of the directories above it.
    pub fn is_within(&self, ino: Ino, ancestor: Ino) -> bool {
        let map = self.map.read();
        let mut at = ino;
        loop {
            if at == ancestor {
                return true;
            }
            match map.get(&at) {
                Some(node) => at = node.parent,
                None => return false,
            }
        }
    }

    /// The version that the kernel's page cache may hold of `ino`.
    pub fn cached(&self, ino: Ino) -> Option<ETag> {
        self.map.read().get(&ino).and_then(|node| node.cached)
    }

    /// Notes which version the kernel's page cache is going to hold, and tells which it may hold until now.
    pub fn swap_cached(&self, ino: Ino, version: Option<ETag>) -> Option<ETag> {
        let mut map = self.map.write();
        map.get_mut(&ino).and_then(|node| std::mem::replace(&mut node.cached, version))
    }

    /// Notes which version the kernel's page cache may hold.
    pub fn set_cached(&self, ino: Ino, version: Option<ETag>) {
        if let Some(node) = self.map.write().get_mut(&ino) {
            node.cached = version;
        }
    }

    /// All numbers in use and where they are; nothing for the root and what has no name.
    pub fn all(&self) -> Vec<(Ino, Option<(Ino, Segment)>)> {
        let place = |node: &Node| (!node.nameless).then(|| (node.parent, node.segment.clone()));
        self.map.read().iter().map(|(ino, node)| (*ino, place(node))).collect()
    }

    /// How many numbers are in use.
    pub fn len(&self) -> usize {
        self.map.read().len()
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
    fn what_lost_its_name_has_no_path() {
        let nodes = Nodes::default();
        nodes.remember(Ino(2), ROOT, &segment("a"));
        nodes.unnamed(Ino(2), None);
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
