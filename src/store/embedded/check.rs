//! The store's own consistency check: reads everything and believes nothing.
//!
//! Changes nothing. Runs under the writer's mutex, so what it sees is one state of the store.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::store::{ContainerName, Result, StoreError};

use super::content::{FOLDERS, folder_name};
use super::kv::{Space, View};
use super::names::end_key;
use super::record::{ContainerRecord, Content, Entry, Extent, PageMap, Prefix, StagedBlock, decode};
use super::startup::OpenError;
use super::walk::segment;
use super::{EmbeddedOptions, EmbeddedStore, blocks, containers, pages, purge, share_snapshots, snapshots};

/// Problems listed one by one; further ones are only counted.
const LISTED_PROBLEMS: usize = 1000;

/// How often a file that nothing refers to is looked at again before it counts as a problem.
const LOOKS: u32 = 3;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Containers seen.
    pub containers: u64,
    /// Blobs seen.
    pub blobs: u64,
    /// Snapshots seen.
    pub snapshots: u64,
    /// Snapshots of containers seen.
    pub container_snapshots: u64,
    /// Content files seen.
    pub files: u64,
    /// Bytes of all blobs together.
    pub bytes: u64,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
    /// How many further problems there are.
    pub more_problems: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, text: impl FnOnce() -> String) {
        if self.problems.len() < LISTED_PROBLEMS {
            self.problems.push(text());
        } else {
            self.more_problems += 1;
        }
    }
}

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It could not be read to the end.
    #[error(transparent)]
    Read(#[from] StoreError),
}

/// Opens the store in `folder`, checks it and closes it.
pub fn check(folder: &Path) -> std::result::Result<CheckReport, CheckError> {
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default())?;
    let report = store.check()?;
    store.close()?;
    Ok(report)
}

/// What records say about a content file.
#[derive(Default)]
struct Expected {
    records: u64,
    length: u64,
    /// One of those who need it.
    user: String,
}

/// What a tree of names is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// A container, or a snapshot of one.
    Whole,
    /// What is left of a deleted one, or was made of a snapshot when the process died.
    Parts,
}

struct Check<'a> {
    store: &'a EmbeddedStore,
    view: View,
    report: CheckReport,
    files: HashMap<u64, Expected>,
    inline: HashSet<u64>,
    ids: HashSet<u64>,
    /// Page maps that belong to a blob.
    maps: HashSet<u64>,
    /// Snapshots that each blob should have.
    snapshots: HashMap<u64, (u32, String)>,
    names_seen: u64,
}

impl EmbeddedStore {
    /// Reads the whole store and reports everything that does not fit together.
    pub fn check(&self) -> Result<CheckReport> {
        self.keeper.wait_for_leftovers();
        let _writer = self.writer.lock();
        let mut check = Check {
            store: self,
            view: self.kv.view()?,
            report: CheckReport::default(),
            files: HashMap::new(),
            inline: HashSet::new(),
            ids: HashSet::new(),
            maps: HashSet::new(),
            snapshots: HashMap::new(),
            names_seen: 0,
        };
        check.trees()?;
        check.snapshots()?;
        check.staged()?;
        check.page_maps()?;
        check.names()?;
        check.inline()?;
        check.references()?;
        check.folders()?;
        Ok(check.report)
    }
}

impl Check<'_> {
    fn trees(&mut self) -> Result<()> {
        for pair in self.view.prefix(Space::Misc, &[containers::CONTAINER_TAG]) {
            let (key, value) = pair?;
            let name = String::from_utf8_lossy(&key[1..]).into_owned();
            self.report.containers += 1;
            if ContainerName::new(&name).is_err() {
                self.report.problem(|| format!("the container {name:?} has a name that is not allowed"));
            }
            match decode::<ContainerRecord>(&value, "its record") {
                Ok(record) => self.tree(record.root, &name, Tree::Whole)?,
                Err(error) => self.report.problem(|| format!("container {name}: {error}")),
            }
        }
        self.share_snapshots()?;
        for pair in self.view.prefix(Space::Misc, &[purge::TRASH_TAG]) {
            let (key, _) = pair?;
            if let Some(bytes) = key.last_chunk() {
                self.tree(u64::from_be_bytes(*bytes), "(deleted)", Tree::Parts)?;
            }
        }
        Ok(())
    }

    fn share_snapshots(&mut self) -> Result<()> {
        let (blobs, bytes) = (self.report.blobs, self.report.bytes);
        for pair in self.view.prefix(Space::Misc, &[share_snapshots::SHARE_SNAPSHOT_TAG]) {
            let (key, value) = pair?;
            let name = String::from_utf8_lossy(&key[1..]).into_owned();
            self.report.container_snapshots += 1;
            let container = name.split_once('@').and_then(|(name, _)| ContainerName::new(name).ok());
            let exists = match &container {
                Some(container) => {
                    self.view.get(Space::Misc, &containers::container_key(container))?.is_some()
                }
                None => false,
            };
            if !exists {
                self.report.problem(|| format!("{name} is a snapshot of no container"));
            }
            match decode::<ContainerRecord>(&value, "its record") {
                Ok(record) => self.tree(record.root, &name, Tree::Whole)?,
                Err(error) => self.report.problem(|| format!("the snapshot {name}: {error}")),
            }
        }
        // They count as what they are, not as blobs of their own.
        (self.report.blobs, self.report.bytes) = (blobs, bytes);
        Ok(())
    }

    /// Everything below one prefix.
    fn tree(&mut self, root: u64, name: &str, tree: Tree) -> Result<()> {
        let mut waiting = vec![(root, name.to_owned(), None)];
        while let Some((parent, name, children)) = waiting.pop() {
            let mut seen = 0;
            let mut blobs = HashMap::new();
            for pair in self.view.range(Space::Names, &parent.to_be_bytes(), Some(&end_key(parent))) {
                let (key, value) = pair?;
                seen += 1;
                self.names_seen += 1;
                let full = format!("{name}/{}", String::from_utf8_lossy(segment(&key)));
                match segment(&key).strip_suffix(b"/") {
                    None => {
                        if let Some(id) = self.blob(&full, &value) {
                            blobs.insert(segment(&key).to_vec(), id);
                        }
                    }
                    Some(bare) => match decode::<Prefix>(&value, "its record") {
                        Ok(prefix) => {
                            self.prefix(&full, prefix, blobs.get(bare).copied());
                            let below = full.trim_end_matches('/').to_owned();
                            waiting.push((prefix.id, below, Some(prefix.children)));
                        }
                        Err(error) => self.report.problem(|| format!("{full}: {error}")),
                    },
                }
            }
            let miscounted = children.is_some_and(|children| children != seen) || children == Some(0);
            if tree == Tree::Whole && miscounted {
                self.report
                    .problem(|| format!("{name}/ counts {} entries and has {seen}", children.unwrap_or(0)));
            }
        }
        Ok(())
    }

    fn prefix(&mut self, name: &str, prefix: Prefix, blob: Option<u64>) {
        match blob {
            Some(id) if id != prefix.id => {
                self.report.problem(|| format!("{name} has the number {} and its blob {id}", prefix.id));
            }
            Some(_) => {}
            None => self.id(prefix.id, name),
        }
    }

    fn id(&mut self, id: u64, name: &str) {
        if !self.ids.insert(id) {
            self.report.problem(|| format!("{name} has the number {id}, which something else has too"));
        }
    }

    fn blob(&mut self, name: &str, value: &[u8]) -> Option<u64> {
        self.report.blobs += 1;
        let entry = match Entry::decode(value) {
            Ok(entry) => entry,
            Err(error) => {
                self.report.problem(|| format!("{name}: {error}"));
                return None;
            }
        };
        let id = entry.properties.id;
        self.id(id, name);
        self.report.bytes += entry.properties.size;
        if entry.snapshots > 0 {
            self.snapshots.insert(id, (entry.snapshots, name.to_owned()));
        }
        self.version(name, &entry);
        Some(id)
    }

    fn version(&mut self, name: &str, entry: &Entry) {
        self.content(name, entry.properties.size, &entry.content);
        if let Some(number) = entry.block_list {
            self.inline.insert(number);
            if !matches!(self.view.get(Space::Inline, &number.to_be_bytes()), Ok(Some(_))) {
                self.report.problem(|| format!("{name}: its block list is missing"));
            }
        }
    }

    fn content(&mut self, name: &str, size: u64, content: &Content) {
        let stored = match content {
            Content::Empty => 0,
            Content::Inline(number) => {
                self.inline.insert(*number);
                match self.view.get(Space::Inline, &number.to_be_bytes()) {
                    Ok(Some(value)) => value.len() as u64,
                    Ok(None) => return self.report.problem(|| format!("{name}: its content is missing")),
                    Err(error) => return self.report.problem(|| format!("{name}: its content: {error}")),
                }
            }
            Content::Extents(extents) => self.pieces(name, extents),
            Content::Pages(map) => return self.pages(name, size, *map),
        };
        if stored != size {
            self.report.problem(|| format!("{name} has {size} bytes and its content {stored}"));
        }
    }

    /// Pieces of one record; answers their length.
    fn pieces(&mut self, name: &str, pieces: &[Extent]) -> u64 {
        let mut files = HashSet::new();
        for (source, len) in pieces.iter().filter_map(|piece| Some((piece.source?, piece.len))) {
            let expected = self.files.entry(source.file).or_default();
            expected.records += u64::from(files.insert(source.file));
            if source.offset + len > expected.length {
                expected.length = source.offset + len;
                name.clone_into(&mut expected.user);
            }
        }
        pieces.iter().map(|piece| piece.len).sum()
    }

    /// The map of a page blob and its chunks.
    fn pages(&mut self, name: &str, size: u64, map: PageMap) {
        self.maps.insert(map.number);
        match pages::map_version(&self.view, map.number) {
            Ok(Some(version)) if version == map.version => {}
            Ok(found) => self.report.problem(|| format!("{name}: its page map is {found:?} and not {map:?}")),
            Err(error) => self.report.problem(|| format!("{name}: its page map: {error}")),
        }
        let chunks: Vec<_> = pages::chunks(&self.view, map.number, &(0..u64::MAX - pages::CHUNK)).collect();
        for chunk in chunks {
            match chunk {
                Ok((index, pieces)) => {
                    let length = self.pieces(name, &pieces);
                    if length != pages::CHUNK || index * pages::CHUNK >= size {
                        self.report.problem(|| format!("{name}: chunk {index} of its pages does not fit"));
                    }
                }
                Err(error) => self.report.problem(|| format!("{name}: its pages: {error}")),
            }
        }
    }

    fn page_maps(&mut self) -> Result<()> {
        for pair in self.view.prefix(Space::Misc, &[pages::PAGES_TAG]) {
            let (key, _) = pair?;
            let map = key.get(1..9).and_then(|map| map.try_into().ok()).map_or(0, u64::from_be_bytes);
            if !self.maps.contains(&map) {
                self.report.problem(|| format!("pages of map {map:x} belong to no blob"));
            }
        }
        Ok(())
    }

    fn snapshots(&mut self) -> Result<()> {
        for pair in self.view.prefix(Space::Misc, &[snapshots::SNAPSHOT_TAG]) {
            let (key, value) = pair?;
            self.report.snapshots += 1;
            let id = key.get(1..9).and_then(|id| id.try_into().ok()).map_or(0, u64::from_be_bytes);
            let name = match self.snapshots.get_mut(&id) {
                Some((left, name)) if *left > 0 => {
                    *left -= 1;
                    format!("a snapshot of {name}")
                }
                _ => {
                    self.report.problem(|| format!("there is a snapshot of number {id}, which has none"));
                    format!("a snapshot of number {id}")
                }
            };
            match Entry::decode(&value) {
                Ok(entry) => self.version(&name, &entry),
                Err(error) => self.report.problem(|| format!("{name}: {error}")),
            }
        }
        for (left, name) in self.snapshots.values().filter(|(left, _)| *left > 0) {
            self.report.problem(|| format!("{name} lacks {left} of its snapshots"));
        }
        Ok(())
    }

    fn staged(&mut self) -> Result<()> {
        for pair in self.view.prefix(Space::Misc, &[blocks::STAGED_TAG]) {
            let (key, value) = pair?;
            if blocks::is_staging_key(&key) {
                continue;
            }
            match decode::<StagedBlock>(&value, "its record") {
                Ok(block) => self.content("a staged block", block.size, &block.content),
                Err(error) => self.report.problem(|| format!("a staged block: {error}")),
            }
        }
        Ok(())
    }

    fn names(&mut self) -> Result<()> {
        let mut all = 0;
        for pair in self.view.range(Space::Names, &[], None) {
            pair?;
            all += 1;
        }
        let seen = self.names_seen;
        if all != seen {
            self.report
                .problem(|| format!("the index has {all} names, of which {seen} belong to a container"));
        }
        Ok(())
    }

    fn inline(&mut self) -> Result<()> {
        for pair in self.view.range(Space::Inline, &[], None) {
            let (key, _) = pair?;
            let number = key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            if !self.inline.contains(&number) {
                self.report.problem(|| format!("small content {number:x} belongs to no blob"));
            }
        }
        Ok(())
    }

    fn references(&mut self) -> Result<()> {
        let mut counted = HashMap::new();
        for pair in self.view.range(Space::Contents, &[], None) {
            let (key, value) = pair?;
            let number = key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            counted.insert(number, decode::<u64>(&value, "a reference count")?);
        }
        for (number, expected) in &self.files {
            let count = counted.remove(number).unwrap_or(0);
            let (records, user) = (expected.records, &expected.user);
            if count != records {
                let text =
                    || format!("content {number:x} of {user} counts {count} references and has {records}");
                self.report.problem(text);
            }
            match fs::metadata(self.store.files.path(*number)) {
                Ok(file) if file.len() >= expected.length => {}
                Ok(file) => {
                    let (length, needed) = (file.len(), expected.length);
                    let text =
                        || format!("{user}: its content {number:x} has {length} bytes instead of {needed}");
                    self.report.problem(text);
                }
                Err(error) => self.report.problem(|| format!("{user}: its content {number:x}: {error}")),
            }
        }
        for (number, count) in counted {
            self.report.problem(|| format!("content {number:x} counts {count} references and has none"));
        }
        Ok(())
    }

    fn folders(&mut self) -> Result<()> {
        let mut unknown = Vec::new();
        for folder in 0..FOLDERS {
            let path = self.store.files.folder().join(folder_name(folder));
            let Ok(entries) = fs::read_dir(&path) else { continue };
            for entry in entries {
                let entry =
                    entry.map_err(|error| StoreError::io(format!("read {}", path.display()), error))?;
                self.report.files += 1;
                if self.is_unknown(&entry.path()) {
                    unknown.push(entry.path());
                }
            }
        }
        // A file on its way from one user to the next, or to its removal, looks unknown for a moment.
        for _ in 0..LOOKS {
            if !unknown.is_empty() {
                std::thread::sleep(LOOK_AGAIN_AFTER);
                unknown.retain(|path| path.exists() && self.is_unknown(path));
            }
        }
        for path in unknown {
            self.report.problem(|| format!("{} belongs to no blob", path.display()));
        }
        Ok(())
    }

    fn is_unknown(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| u64::from_str_radix(name, 16).ok());
        !number.is_some_and(|number| self.files.contains_key(&number) || self.store.files.in_use(number))
    }
}
