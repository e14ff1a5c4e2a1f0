//! Reading the tree of names in byte order of the full names.

use crate::store::{Result, StoreError};

use super::kv::{Range, Space, Value, View};
use super::names::{end_key, prefix_key};
use super::record::{Entry, Prefix, decode};

/// The key of `segment` (as bytes) in `parent`.
pub(super) fn key(parent: u64, segment: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + segment.len());
    key.extend_from_slice(&parent.to_be_bytes());
    key.extend_from_slice(segment);
    key
}

/// The prefix `segment/` in `parent`, in this view.
pub(super) fn child(view: &View, parent: u64, segment: &[u8]) -> Result<Option<Prefix>> {
    let value = view.get(Space::Names, &prefix_key(&key(parent, segment)))?;
    value.map(|value| decode(&value, "a prefix node")).transpose()
}

/// A line of a prefix.
pub(super) enum Line {
    /// A blob.
    Blob(Value),
    /// A prefix; the segment ends with the slash.
    Prefix(Prefix),
}

/// What is directly in one prefix, from a segment on: each with its segment.
pub(super) struct Lines(Range);

impl Lines {
    pub(super) fn new(view: &View, parent: u64, from: &[u8]) -> Self {
        Self(view.range(Space::Names, &key(parent, from), Some(&end_key(parent))))
    }
}

impl Iterator for Lines {
    type Item = Result<(Value, Line)>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = |(key, value): (Value, Value)| {
            let line = match segment(&key).last() {
                Some(b'/') => Line::Prefix(decode(&value, "a prefix node")?),
                _ => Line::Blob(value),
            };
            Ok((key, line))
        };
        Some(self.0.next()?.map_err(StoreError::from).and_then(read))
    }
}

/// The segment in a key.
pub(super) fn segment(key: &[u8]) -> &[u8] {
    key.get(8..).unwrap_or_default()
}

/// All blobs of a container, depth first.
pub(super) struct Walk<'v> {
    view: &'v View,
    levels: Vec<Level>,
    /// Full name of the innermost prefix.
    name: Vec<u8>,
}

struct Level {
    lines: Lines,
    /// Length of the full name of this level's prefix.
    name_length: usize,
}

impl<'v> Walk<'v> {
    /// From the first name that is not before `from`.
    pub(super) fn start(view: &'v View, root: u64, from: &[u8]) -> Result<Self> {
        let mut walk = Self { view, levels: Vec::new(), name: Vec::new() };
        let (mut parent, mut rest) = (root, from);
        while let Some(slash) = rest.iter().position(|byte| *byte == b'/') {
            let (with_slash, below) = rest.split_at(slash + 1);
            let Some(prefix) = child(view, parent, &rest[..slash])? else { break };
            // Come back behind the prefix after what is in it.
            walk.enter(parent, &[with_slash, &[0]].concat());
            walk.name.extend_from_slice(with_slash);
            (parent, rest) = (prefix.id, below);
        }
        // If the prefix is not there, what sorts behind its slash is where to go on.
        let whole = rest.iter().position(|byte| *byte == b'/').map_or(rest.len(), |slash| slash + 1);
        walk.enter(parent, &rest[..whole]);
        Ok(walk)
    }

    fn enter(&mut self, parent: u64, from: &[u8]) {
        let lines = Lines::new(self.view, parent, from);
        self.levels.push(Level { lines, name_length: self.name.len() });
    }
}

/// A blob of the walk.
pub(super) struct Blob {
    /// Its full name.
    pub(super) name: String,
    /// Its record.
    pub(super) value: Value,
}

impl Blob {
    pub(super) fn entry(&self) -> Result<Entry> {
        Entry::decode(&self.value)
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Blob>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let level = self.levels.last_mut()?;
            self.name.truncate(level.name_length);
            match level.lines.next() {
                None => {
                    self.levels.pop();
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok((key, Line::Blob(value)))) => {
                    let name = [&self.name, segment(&key)].concat();
                    return Some(text(name).map(|name| Blob { name, value }));
                }
                Some(Ok((key, Line::Prefix(prefix)))) => {
                    self.name.extend_from_slice(segment(&key));
                    self.enter(prefix.id, b"");
                }
            }
        }
    }
}

/// A name read from the database.
pub(super) fn text(name: Vec<u8>) -> Result<String> {
    String::from_utf8(name).map_err(|_| StoreError::Damaged("a name is not text".into()))
}
