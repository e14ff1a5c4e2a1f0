//! Listing blobs: flat, folded at slashes (one range of the tree), or folded at anything else.

use std::sync::Arc;

use crate::store::{BlobPage, ContainerName, ListItem, ListQuery, Result};

use super::EmbeddedStore;
use super::kv::View;
use super::record::Entry;
use super::walk::{Blob, Line, Lines, Walk, child, segment, text};

impl EmbeddedStore {
    pub(super) fn blob_list(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage> {
        let root = self.container(container)?.root;
        let view = self.kv.view()?;
        let page = Page { items: Vec::new(), max: query.max.max(1) };
        match query.delimiter.as_deref() {
            None | Some("") => flat(&view, root, query, page),
            Some("/") => folded_at_slash(&view, root, query, page),
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

fn folded_at_slash(view: &View, root: u64, query: &ListQuery, mut page: Page) -> Result<BlobPage> {
    let (folder, partial) = match query.prefix.rfind('/') {
        Some(slash) => query.prefix.split_at(slash + 1),
        None => ("", &*query.prefix),
    };
    let mut parent = root;
    for part in folder.split_terminator('/') {
        match child(view, parent, part.as_bytes())? {
            Some(prefix) => parent = prefix.id,
            None => return Ok(page.whole()),
        }
    }
    // A marker behind the prefix that is not in this folder is behind all of it.
    let Some(from) = start(query).strip_prefix(folder) else { return Ok(page.whole()) };
    let from = match from.find('/') {
        // Inside something folded: it counts if any name in it is not before the marker.
        Some(slash) if slash + 1 < from.len() => {
            let fold = &from[..=slash];
            let whole = format!("{folder}{fold}");
            let first = Walk::start(view, root, start(query).as_bytes())?.next().transpose()?;
            let counts = first.is_some_and(|blob| blob.name.starts_with(&whole));
            if counts { fold.to_owned() } else { format!("{fold}\0") }
        }
        Some(_) | None => from.to_owned(),
    };
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
                ListItem::Blob { name, properties: Arc::clone(&Entry::decode(&value)?.properties) }
            }
            Line::Prefix(prefix) => ListItem::Prefix { name, id: prefix.id },
        });
    }
    Ok(page.whole())
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
