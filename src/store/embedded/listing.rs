//! Listing blobs: flat, folded at slashes (one range of the tree), or folded at anything else.

use std::sync::Arc;

use crate::store::{BlobPage, ContainerName, ListItem, ListQuery, Result};

use super::EmbeddedStore;
use super::cache::{Look, Tickets};
use super::kv::View;
use super::record::{Entry, etag_of};
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
            Some("/") => self.folded_at_slash(&view, &tickets, root, query, page),
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
    query.marker.as_deref().map_or(&*query.prefix, |marker| marker.max(&query.prefix))
}

fn item(blob: Blob) -> Result<ListItem> {
    let properties = blob.entry()?.properties;
    Ok(ListItem::Blob { name: blob.name, properties })
}

fn flat(view: &View, root: u64, query: &ListQuery, mut page: Page) -> Result<BlobPage> {
    for blob in Walk::start(view, root, start(query).as_bytes())? {
        let blob = blob?;
        if !blob.name.starts_with(&query.prefix) {
            break;
        }
        if !page.has_room() {
            return Ok(page.cut(blob.name));
        }
        page.items.push(item(blob)?);
    }
    Ok(page.whole())
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
    let mut walk = Walk::start(view, root, start(query).as_bytes())?;
    while let Some(blob) = walk.next().transpose()? {
        let Some(rest) = blob.name.strip_prefix(&query.prefix) else { break };
        match rest.find(delimiter) {
            None => {
                if !page.has_room() {
                    return Ok(page.cut(blob.name));
                }
                page.items.push(item(blob)?);
            }
            Some(at) => {
                let fold = blob.name[..query.prefix.len() + at + delimiter.len()].to_owned();
                if !page.has_room() {
                    return Ok(page.cut(fold));
                }
                walk = Walk::start(view, root, &behind(&fold))?;
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
