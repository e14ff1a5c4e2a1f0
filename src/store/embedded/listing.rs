//! Listing blobs: flat, folded at slashes (one range of the tree), or folded at anything else.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use crate::share::Moment;
use crate::store::{BlobPage, ContainerName, ListItem, ListQuery, Result, SnapshotId};

use super::EmbeddedStore;
use super::blocks::StagedNames;
use super::cache::{Look, Tickets};
use super::kv::View;
use super::record::{Entry, Staging, etag_of};
use super::tx::Slot;
use super::walk::{Blob, Line, Lines, Walk, child, segment, text};

/// Records of one listing that are kept in memory at most.
const REMEMBERED_LINES: usize = 4096;

impl EmbeddedStore {
    pub(super) fn blob_list(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage> {
        let root = self.container(container)?.root;
        let tickets = self.slots.tickets();
        let view = self.kv.view()?;
        let page = Page { items: Vec::new(), max: query.max.max(1) };
        match query.delimiter.as_deref() {
            None | Some("") => flat(&view, root, query, page),
            Some("/") if !query.uncommitted => self.folded_at_slash(&view, &tickets, root, query, page),
            Some(delimiter) => folded(&view, root, query, delimiter, page),
        }
    }
}

struct Page {
    items: Vec<ListItem>,
    max: usize,
}

impl Page {
    /// Whether there is room for one more.
    fn has_room(&self) -> bool {
        self.items.len() < self.max
    }

    fn cut(self, next: String) -> BlobPage {
        BlobPage { items: self.items, next: Some(next) }
    }

    fn whole(self) -> BlobPage {
        BlobPage { items: self.items, next: None }
    }
}

/// Where to begin: no name before it counts.
fn start(query: &ListQuery) -> &str {
    let name = |marker: &'_ str| marker.find(SNAPSHOT_MARK).unwrap_or(marker.len());
    let marker = query.marker.as_deref().map(|marker| &marker[..name(marker)]);
    marker.map_or(&*query.prefix, |marker| marker.max(&query.prefix))
}

/// Stands between the name and the snapshot in a marker; no name holds it.
const SNAPSHOT_MARK: char = '\0';

/// The marker of a snapshot; behind all of them it is the blob itself.
fn snapshot_marker(name: &str, snapshot: Option<SnapshotId>) -> String {
    let moment = snapshot.map_or(i64::MAX, |snapshot| snapshot.0.0);
    format!("{name}{SNAPSHOT_MARK}{moment}")
}

/// Where the snapshots of this blob begin.
fn first_snapshot(query: &ListQuery, name: &str) -> Option<SnapshotId> {
    let (marked, moment) = query.marker.as_deref()?.split_once(SNAPSHOT_MARK)?;
    (marked == name).then_some(SnapshotId(Moment(moment.parse().ok()?)))
}

fn item(listed: Listed) -> Result<ListItem> {
    Ok(match listed {
        Listed::Blob(blob) => ListItem::Blob { properties: blob.entry()?.properties, name: blob.name },
        Listed::Staged(name, staging) => {
            ListItem::Uncommitted { name, touched: staging.touched, lease: staging.lease }
        }
    })
}

fn flat(view: &View, root: u64, query: &ListQuery, mut page: Page) -> Result<BlobPage> {
    for listed in Names::start(view, root, start(query).as_bytes(), query.uncommitted)? {
        let listed = listed?;
        if !listed.name().starts_with(&query.prefix) {
            break;
        }
        if query.snapshots
            && let Listed::Blob(blob) = &listed
        {
            let entry = blob.entry()?;
            let id = if entry.snapshots > 0 { entry.properties.id } else { 0 };
            for taken in EmbeddedStore::snapshots_from(view, id, first_snapshot(query, &blob.name)) {
                let (snapshot, properties) = taken?;
                if !page.has_room() {
                    return Ok(page.cut(snapshot_marker(&blob.name, Some(snapshot))));
                }
                page.items.push(ListItem::Snapshot { name: blob.name.clone(), snapshot, properties });
            }
        }
        if !page.has_room() {
            let only_itself = query.snapshots.then(|| snapshot_marker(listed.name(), None));
            return Ok(page.cut(only_itself.unwrap_or_else(|| listed.name().to_owned())));
        }
        page.items.push(item(listed)?);
    }
    Ok(page.whole())
}

/// What a listing meets.
enum Listed {
    Blob(Blob),
    /// A name that has staged blocks and no blob.
    Staged(String, Staging),
}

impl Listed {
    fn name(&self) -> &str {
        match self {
            Listed::Blob(blob) => &blob.name,
            Listed::Staged(name, _) => name,
        }
    }
}

/// Names in order: those of blobs, and if asked those that have only staged blocks.
struct Names<'v> {
    blobs: Peekable<Walk<'v>>,
    staged: Option<Peekable<StagedNames>>,
}

impl<'v> Names<'v> {
    fn start(view: &'v View, root: u64, from: &[u8], staged: bool) -> Result<Self> {
        let staged = staged.then(|| StagedNames::start(view, root, from).peekable());
        Ok(Self { blobs: Walk::start(view, root, from)?.peekable(), staged })
    }
}

impl Iterator for Names<'_> {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let staged = self.staged.as_mut().and_then(Peekable::peek);
            let order = match (self.blobs.peek(), staged) {
                (_, None) | (Some(Err(_)), _) => Ordering::Less,
                (None, Some(_)) | (_, Some(Err(_))) => Ordering::Greater,
                (Some(Ok(blob)), Some(Ok((name, _)))) => blob.name.cmp(name),
            };
            let taken = match order {
                Ordering::Less => return self.blobs.next().map(|blob| blob.map(Listed::Blob)),
                // The blob stands for the name.
                Ordering::Equal | Ordering::Greater => self.staged.as_mut().and_then(Iterator::next),
            };
            if order == Ordering::Greater {
                return taken.map(|staged| staged.map(|(name, staging)| Listed::Staged(name, staging)));
            }
        }
    }
}

impl EmbeddedStore {
    fn folded_at_slash(
        &self,
        view: &View,
        tickets: &Tickets,
        root: u64,
        query: &ListQuery,
        mut page: Page,
    ) -> Result<BlobPage> {
        let (folder, partial) = match query.prefix.rfind('/') {
            Some(slash) => query.prefix.split_at(slash + 1),
            None => ("", &*query.prefix),
        };
        let Some(parent) = descend(view, root, folder)? else { return Ok(page.whole()) };
        let Some(from) = first_line(view, root, folder, query)? else { return Ok(page.whole()) };
        let mut fresh = Vec::new();
        for line in Lines::new(view, parent, from.as_bytes()) {
            let (key, line) = line?;
            let segment = segment(&key);
            if !segment.starts_with(partial.as_bytes()) {
                break;
            }
            let name = text([folder.as_bytes(), segment].concat())?;
            if !page.has_room() {
                return Ok(page.cut(name));
            }
            page.items.push(match line {
                Line::Blob(value) => {
                    let entry = self
                        .known(&key, &value)?
                        .map_or_else(|| decode_into(&mut fresh, &key, &value), Ok)?;
                    ListItem::Blob { name, properties: Arc::clone(&entry.properties) }
                }
                Line::Prefix(prefix) => {
                    forget_slot(&mut fresh, &key);
                    ListItem::Prefix { name, id: prefix.id }
                }
            });
        }
        // Read to the end: what has no prefix in this listing has none, so the records can be kept for lookups.
        if partial.is_empty() && query.marker.is_none() {
            for (key, blob) in fresh {
                self.slots.fill_from(tickets, &key, Slot { blob: Some(blob), prefix: None });
            }
        }
        Ok(page.whole())
    }

    /// The decoded record, if it is in memory in exactly this version.
    fn known(&self, key: &[u8], value: &[u8]) -> Result<Option<Arc<Entry>>> {
        let Look::Known(slot) = self.slots.look(key) else { return Ok(None) };
        let etag = etag_of(value);
        // A lease action changes the record without the tag, so only the newest record is taken from memory.
        Ok(slot.blob.filter(|blob| Some(blob.properties.etag) == etag))
    }
}

fn decode_into(fresh: &mut Vec<(Box<[u8]>, Arc<Entry>)>, key: &[u8], value: &[u8]) -> Result<Arc<Entry>> {
    let entry = Arc::new(Entry::decode(value)?);
    if fresh.len() < REMEMBERED_LINES {
        fresh.push((key.into(), Arc::clone(&entry)));
    }
    Ok(entry)
}

/// The blob of this prefix has one, so its slot cannot be filled without it.
fn forget_slot(fresh: &mut Vec<(Box<[u8]>, Arc<Entry>)>, prefix_key: &[u8]) {
    let slot_key = &prefix_key[..prefix_key.len() - 1];
    if let Ok(index) = fresh.binary_search_by(|(key, _)| (**key).cmp(slot_key)) {
        fresh.remove(index);
    }
}

/// The number of a folder; nothing if it does not exist.
fn descend(view: &View, root: u64, folder: &str) -> Result<Option<u64>> {
    let mut parent = root;
    for part in folder.split_terminator('/') {
        match child(view, parent, part.as_bytes())? {
            Some(prefix) => parent = prefix.id,
            None => return Ok(None),
        }
    }
    Ok(Some(parent))
}

/// The segment a folded listing of a folder begins with; nothing if the marker is behind the folder.
fn first_line(view: &View, root: u64, folder: &str, query: &ListQuery) -> Result<Option<String>> {
    // A marker behind the prefix that is not in this folder is behind all of it.
    let Some(from) = start(query).strip_prefix(folder) else { return Ok(None) };
    Ok(Some(match from.find('/') {
        // Inside something folded: it counts if any name in it is not before the marker.
        Some(slash) if slash + 1 < from.len() => {
            let fold = &from[..=slash];
            let whole = format!("{folder}{fold}");
            let first = Walk::start(view, root, start(query).as_bytes())?.next().transpose()?;
            let counts = first.is_some_and(|blob| blob.name.starts_with(&whole));
            if counts { fold.to_owned() } else { format!("{fold}\0") }
        }
        Some(_) | None => from.to_owned(),
    }))
}

fn folded(view: &View, root: u64, query: &ListQuery, delimiter: &str, mut page: Page) -> Result<BlobPage> {
    let mut walk = Names::start(view, root, start(query).as_bytes(), query.uncommitted)?;
    while let Some(listed) = walk.next().transpose()? {
        let Some(rest) = listed.name().strip_prefix(&query.prefix) else { break };
        match rest.find(delimiter) {
            None => {
                if !page.has_room() {
                    return Ok(page.cut(listed.name().to_owned()));
                }
                page.items.push(item(listed)?);
            }
            Some(at) => {
                let fold = listed.name()[..query.prefix.len() + at + delimiter.len()].to_owned();
                if !page.has_room() {
                    return Ok(page.cut(fold));
                }
                walk = Names::start(view, root, &behind(&fold), query.uncommitted)?;
                page.items.push(ListItem::Prefix { name: fold, id: 0 });
            }
        }
    }
    Ok(page.whole())
}

/// The first bytes behind everything that starts with `text`.
fn behind(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    // Text never holds the highest byte, so the last one can always be raised.
    if let Some(last) = bytes.last_mut() {
        *last += 1;
    }
    bytes
}
