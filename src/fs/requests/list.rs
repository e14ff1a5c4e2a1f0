//! Listing a directory, page by page.

use crate::store::{BlobPage, ListQuery};

use super::super::nodes::ROOT;
use super::Requests;
use super::entry::Entry;
use super::failure::Answer;
use super::path::FilePath;

/// Entries of one page at most.
pub(super) const PAGE_MAX: usize = 5000;

/// What to list of a directory.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Only names that begin like this.
    pub prefix: String,
    /// Where an earlier page ended.
    pub marker: Option<String>,
    /// At most so many; 0: as many as one page has.
    pub max: usize,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name there.
    pub name: String,
    /// What it is.
    pub entry: Entry,
}

/// A page of a directory.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The directory.
    pub directory: Entry,
    /// Its entries, in the order of their names. Files that are delete pending are not among them.
    pub entries: Vec<Listed>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl Requests {
    /// Lists a directory. A page can be short and still have a next one.
    pub async fn list(&self, path: &FilePath, request: ListRequest) -> Answer<Listing> {
        let directory = self.directory_properties(path).await?;
        self.ask_entries(path).await?;
        let engine = &self.engine;
        let ino = if path.is_root() { ROOT } else { directory.ino };
        let within = path.blob_name()?.map_or_else(String::new, |name| format!("{}/", name.as_str()));
        let query = ListQuery {
            prefix: format!("{within}{}", request.prefix),
            delimiter: Some("/".into()),
            marker: request.marker,
            max: if request.max == 0 { PAGE_MAX } else { request.max.min(PAGE_MAX) },
            ..ListQuery::default()
        };
        let BlobPage { items, next } = engine.store.list_blobs(&engine.share, &query).await?;
        let mut entries = Vec::with_capacity(items.len());
        for found in engine.entries(ino, &within, items, (next.is_some(), 0))? {
            let entry = engine.entry(found.ino, ino, found.found())?;
            entries.push(Listed { name: found.segment.file_name(), entry });
        }
        Ok(Listing { directory, entries, next })
    }
}
