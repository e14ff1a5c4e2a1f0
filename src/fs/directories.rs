//! Reading directories.
//!
//! A directory is read page by page from the store, continued by name, so entries that come or go meanwhile neither
//! repeat nor hide others, and a directory of any size needs one page of memory.
//!
//! A position is the count of entries handed out before it. The names of the last ones are kept, so that whoever goes
//! back to a position (`seekdir`, or the kernel when a program's buffer was full) gets what is left of the entries that
//! followed it, whatever was removed since.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::{BlobName, BlobPage, BlobProperties, Found, ListItem, ListQuery, StoreError};

use super::Engine;
use super::attributes::{Attributes, Kind};
use super::error::{FsError, Result};
use super::handles::HandleId;
use super::names::{RESERVED, Segment};
use super::nodes::{Ino, ROOT};
use super::stat::Stat;

/// Entries fetched from the store at a time.
const PAGE: usize = 1024;

/// Names that an open directory remembers for those who go back. Farther back, entries are counted again.
const HISTORY_MAX: usize = 64 << 10;

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// The name as stored.
    pub segment: Segment,
    /// The number of what it names.
    pub ino: Ino,
    /// What that is.
    pub kind: Kind,
    found: Found,
    /// The count of changes when it was fetched.
    fetched_at: u64,
    /// Somebody was just changing what the name leads to when it was handed out.
    moving: bool,
}

impl DirectoryEntry {
    /// Others are below its name, so it is a directory, or they could not be reached.
    fn has_more_below(&mut self, prefix: u64) {
        self.found.prefix = Some(prefix);
        self.kind = Kind::Directory;
    }

    /// What the look-up found.
    pub(super) fn found(&self) -> &Found {
        &self.found
    }
}

/// The entry whose blob has the name of this prefix, if it is among these: between the two come only names that begin
/// with it.
fn listed_before<'a>(
    entries: &'a mut [DirectoryEntry],
    prefix: &str,
    name: &str,
) -> Option<&'a mut DirectoryEntry> {
    let segment = name.strip_prefix(prefix)?.strip_suffix('/')?;
    let mut near = entries.iter_mut().rev().take_while(|entry| entry.segment.as_str().starts_with(segment));
    near.find(|entry| entry.segment.as_str() == segment)
}

/// A directory being read.
#[derive(Debug)]
pub(super) struct DirectoryStream {
    ino: Ino,
    /// How many entries come before the next one.
    position: u64,
    /// The names of the entries before the first one in `buffer`.
    history: VecDeque<Segment>,
    /// The position of the first entry in `buffer`.
    frontier: u64,
    buffer: VecDeque<DirectoryEntry>,
    next: Next,
}

#[derive(Debug)]
enum Next {
    Page(Option<String>),
    End,
}

impl DirectoryStream {
    fn new(ino: Ino) -> Self {
        Self {
            ino,
            position: 0,
            history: VecDeque::new(),
            frontier: 0,
            buffer: VecDeque::new(),
            next: Next::Page(None),
        }
    }

    /// The first entry in the buffer becomes history. Says whether there was one.
    fn pass(&mut self) -> bool {
        let Some(entry) = self.buffer.pop_front() else { return false };
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(entry.segment);
        self.frontier += 1;
        self.position = self.frontier;
        true
    }

    /// The name behind the current position, if it was handed out before.
    fn passed(&self) -> Option<&Segment> {
        let back = usize::try_from(self.frontier - self.position).ok()?;
        self.history.get(self.history.len().checked_sub(back)?)
    }
}

impl Engine {
    /// Opens a directory for reading.
    pub fn open_directory(&self, ino: Ino) -> HandleId {
        self.directories.insert(ino, DirectoryStream::new(ino))
    }

    /// Hands entries from `position` on to `take`, which says `false` when it cannot take that one any more.
    /// Entries come in the order of their stored names; `.` and `..` are the front end's business.
    pub async fn read_directory(
        &self,
        handle: HandleId,
        position: u64,
        mut take: impl FnMut(u64, &DirectoryEntry) -> bool + Send,
    ) -> Result<()> {
        let directory = self.directories.get(handle)?;
        let stream = &directory.stream;
        self.seek(stream, position).await?;
        loop {
            let full = {
                let (_path, moving) = self.guards.paths.rely_to_list(&self.nodes, directory.ino).await;
                self.hand_out(stream, &moving, &mut take)?
            };
            if full || !self.fill(stream).await? {
                return Ok(());
            }
        }
    }

    /// The attributes of an entry that was just read; [`FsError::Stale`] if the name leads elsewhere by now.
    pub fn entry_stat(&self, parent: Ino, entry: &DirectoryEntry) -> Result<Stat> {
        // The kernel keeps what it is told here, so it must be true now, not when the page was fetched.
        if entry.fetched_at == self.guards.changes() {
            return self.stat_found(entry.ino, &entry.found);
        }
        let (ino, found) = self.find_child(parent, &entry.segment)?;
        if ino != entry.ino {
            return Err(FsError::Stale);
        }
        self.stat_found(ino, &found)
    }

    /// Notes that the kernel is going to learn the number of an entry that was just read. Says no if it must not: it
    /// is being moved, and nobody knows its number yet, so that a wrong place would be noted.
    pub fn remember_entry(&self, parent: Ino, entry: &DirectoryEntry) -> bool {
        if entry.moving {
            return self.nodes.remember_again(entry.ino);
        }
        self.nodes.remember(entry.ino, parent, &entry.segment);
        true
    }

    /// The directory above, for `..`.
    pub fn parent(&self, ino: Ino) -> Ino {
        self.nodes.place(ino).map_or(ROOT, |(parent, _)| parent)
    }

    /// Moves to `position`. Going back to the start, or very far, means reading from the start again.
    async fn seek(&self, stream: &Mutex<DirectoryStream>, position: u64) -> Result<()> {
        {
            let mut stream = stream.lock();
            let remembered = stream.frontier - stream.history.len() as u64;
            // Position 0 is a rewind: POSIX wants to see what was added since.
            let rewinds = position == 0 && (stream.frontier > 0 || !stream.buffer.is_empty());
            if rewinds || position < remembered {
                *stream = DirectoryStream::new(stream.ino);
            }
            stream.position = position.min(stream.frontier);
        }
        loop {
            {
                let mut stream = stream.lock();
                while stream.position < position && stream.pass() {}
                if stream.position >= position {
                    return Ok(());
                }
            }
            if !self.fill(stream).await? {
                return Ok(());
            }
        }
    }

    /// Fetches the next page that has something to show; says whether there was one.
    async fn fill(&self, stream: &Mutex<DirectoryStream>) -> Result<bool> {
        loop {
            let (ino, marker) = {
                let stream = stream.lock();
                match &stream.next {
                    Next::Page(marker) => (stream.ino, marker.clone()),
                    Next::End => return Ok(false),
                }
            };
            if marker.is_none() {
                self.refresh_entries(ino).await?;
            }
            let _path = self.path_stays(ino).await;
            let prefix = match self.nodes.blob_name(ino) {
                Ok(Some(name)) => format!("{}/", name.as_str()),
                Ok(None) => String::new(),
                // Removed while it is open: nothing is in it.
                Err(FsError::NotFound) => return Ok(false),
                Err(error) => return Err(error),
            };
            let query = ListQuery {
                prefix: prefix.clone(),
                delimiter: Some("/".into()),
                marker,
                max: PAGE,
                ..ListQuery::default()
            };
            let fetched_at = self.guards.changes();
            let BlobPage { items, next } = self.store.list_blobs(&self.share, &query).await?;
            let entries = self.entries(ino, &prefix, items, (next.is_some(), fetched_at))?;
            let mut stream = stream.lock();
            stream.next = next.map_or(Next::End, |marker| Next::Page(Some(marker)));
            stream.buffer.extend(entries);
            if !stream.buffer.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Hands out what was handed out before and is still there, then what is buffered; says whether the taker is full.
    /// What the names in `moving` lead to is just being changed.
    fn hand_out(
        &self,
        stream: &Mutex<DirectoryStream>,
        moving: &[Segment],
        take: &mut (impl FnMut(u64, &DirectoryEntry) -> bool + Send),
    ) -> Result<bool> {
        let mut stream = stream.lock();
        while let Some(segment) = stream.passed() {
            let is_moving = moving.contains(segment);
            let again = self.entry_again(stream.ino, segment)?;
            let again = again.map(|entry| DirectoryEntry { moving: is_moving, ..entry });
            if again.is_some_and(|entry| !take(stream.position + 1, &entry)) {
                return Ok(true);
            }
            stream.position += 1;
        }
        let mut position = stream.position;
        while let Some(entry) = stream.buffer.front_mut() {
            position += 1;
            entry.moving = moving.contains(&entry.segment);
            if !take(position, entry) {
                return Ok(true);
            }
            stream.pass();
        }
        Ok(false)
    }

    /// The entry of that name, if there still is one to be seen.
    fn entry_again(&self, parent: Ino, segment: &Segment) -> Result<Option<DirectoryEntry>> {
        let fetched_at = self.guards.changes();
        let (ino, found) = match self.find_child(parent, segment) {
            Ok(found) => found,
            Err(FsError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        if self.pending.in_directory(parent).iter().any(|(hidden, _)| hidden == segment) {
            return Ok(None);
        }
        let kind = match &found {
            Found { blob: Some(blob), prefix: None } => Attributes::of_blob(blob, self.config.owner).kind,
            // A plain blob with others below its name is a directory, too.
            Found { prefix: Some(_), .. } | Found { blob: None, .. } => Kind::Directory,
        };
        Ok(Some(DirectoryEntry { segment: segment.clone(), ino, kind, found, fetched_at, moving: false }))
    }

    pub(super) fn entries(
        &self,
        ino: Ino,
        prefix: &str,
        items: Vec<ListItem>,
        (more, fetched_at): (bool, u64),
    ) -> Result<Vec<DirectoryEntry>> {
        let edge = match items.last() {
            Some(ListItem::Blob { name, .. }) if more => Some(name.clone()),
            // A directory's name, too, may be between another one and its prefix.
            Some(ListItem::Prefix { name, .. }) if more => name.strip_suffix('/').map(str::to_owned),
            _ => None,
        };
        let pending = self.pending.in_directory(ino);
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            let entry = match item {
                ListItem::Blob { name, properties } => self.blob_entry(prefix, &name, properties),
                ListItem::Prefix { name, id } => match listed_before(&mut entries, prefix, &name) {
                    Some(entry) => {
                        entry.has_more_below(id);
                        continue;
                    }
                    None => self.prefix_entry(prefix, &name, id)?,
                },
                // Not asked for.
                ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } => continue,
            };
            let hidden = |entry: &DirectoryEntry| {
                (ino == ROOT && entry.segment.as_str() == RESERVED)
                    || pending.iter().any(|(segment, _)| *segment == entry.segment)
            };
            entries.extend(
                entry.filter(|entry| !hidden(entry)).map(|entry| DirectoryEntry { fetched_at, ..entry }),
            );
        }
        if let Some(edge) = edge {
            self.look_over_the_edge(prefix, &edge, &mut entries)?;
        }
        Ok(entries)
    }

    /// The last entries of a page may have their prefix on the next one, and must be told as what they are before.
    fn look_over_the_edge(&self, prefix: &str, edge: &str, entries: &mut [DirectoryEntry]) -> Result<()> {
        // Between a name and its prefix come only names that begin with it.
        let last = edge.strip_prefix(prefix).unwrap_or(edge);
        for entry in entries.iter_mut().filter(|entry| entry.found.prefix.is_none()) {
            if last.starts_with(entry.segment.as_str()) {
                let name = BlobName::new(format!("{prefix}{}", entry.segment.as_str()));
                let found = self.local()?.find(&self.at(name.map_err(StoreError::from)?))?;
                found.prefix.into_iter().for_each(|id| entry.has_more_below(id));
            }
        }
        Ok(())
    }

    fn blob_entry(
        &self,
        prefix: &str,
        name: &str,
        properties: Arc<BlobProperties>,
    ) -> Option<DirectoryEntry> {
        let segment = Segment::from_stored(name.strip_prefix(prefix)?);
        // A marker with a trailing slash, as some tools write it: the directory itself, not an entry.
        if segment.as_str().is_empty() {
            return None;
        }
        let kind = Attributes::of_blob(&properties, self.config.owner).kind;
        let ino = Ino::of(properties.id);
        Some(DirectoryEntry {
            segment,
            ino,
            kind,
            found: Found { blob: Some(properties), prefix: None },
            fetched_at: 0,
            moving: false,
        })
    }

    fn prefix_entry(&self, prefix: &str, name: &str, id: u64) -> Result<Option<DirectoryEntry>> {
        let Some(segment) = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('/')) else {
            return Ok(None);
        };
        let plain = BlobName::new(name.strip_suffix('/').unwrap_or(name)).map_err(StoreError::from)?;
        let found = self.local()?.find(&self.at(plain))?;
        // Its marker blob was on the page before, or is hidden.
        if found.blob.is_some() {
            return Ok(None);
        }
        let (segment, ino) = (Segment::from_stored(segment), Ino::of(id));
        let kind = Kind::Directory;
        Ok(Some(DirectoryEntry { segment, ino, kind, found, fetched_at: 0, moving: false }))
    }
}
