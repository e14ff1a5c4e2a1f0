//! Tests of the embedded store from inside.

mod basic;
mod blocks;
mod concurrent;
mod contents;
mod keeping;
mod laxity;
mod share_snapshots;
mod tree;

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tempfile::TempDir;

use super::purge::Purged;
use super::{EmbeddedOptions, EmbeddedStore};
use crate::store::{
    BlobName, BlobPath, BlobProperties, BlobStore, ContainerName, ListItem, ListQuery, LocalStore,
    NewContent, Preconditions, Scratch,
};

/// A store in a folder of its own, with the container `share`.
pub(super) struct Bench {
    pub(super) store: Arc<EmbeddedStore>,
    pub(super) folder: TempDir,
}

pub(super) fn small() -> EmbeddedOptions {
    EmbeddedOptions { inline_max: 16, cached_records: 64, ..EmbeddedOptions::default() }
}

impl Bench {
    pub(super) fn new(options: EmbeddedOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        block_on(store.create_container(&share(), Default::default(), Default::default())).unwrap();
        Self { store, folder }
    }

    /// The store's own check finds nothing.
    pub(super) fn assert_clean(&self) {
        let report = self.store.check().unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    }

    /// Closes the store and opens it again.
    pub(super) fn reopen(self, options: EmbeddedOptions) -> Self {
        let Self { store, folder } = self;
        store.close().unwrap();
        drop(store);
        let store = EmbeddedStore::open(folder.path(), options).unwrap();
        Self { store, folder }
    }

    pub(super) fn put(&self, name: &str, body: &[u8]) -> Arc<BlobProperties> {
        let body = bytes::Bytes::copy_from_slice(body);
        block_on(self.store.put_blob(
            &at(name),
            body.into(),
            NewContent::default(),
            &Preconditions::default(),
        ))
        .unwrap()
    }

    pub(super) fn publish(&self, name: &str, scratch: &Scratch, size: u64) -> Arc<BlobProperties> {
        self.store
            .publish(&at(name), scratch, size, NewContent::default(), &Preconditions::default())
            .unwrap()
    }

    pub(super) fn read(&self, name: &str) -> Vec<u8> {
        let reader = self.store.reader(&at(name)).unwrap();
        let mut buffer = vec![0xee; reader.size() as usize];
        assert_eq!(reader.read_at(&mut buffer, 0).unwrap(), buffer.len());
        buffer
    }

    pub(super) fn list(&self, prefix: &str, delimiter: Option<&str>) -> Vec<String> {
        let mut names = Vec::new();
        let mut marker = None;
        loop {
            let delimiter = delimiter.map(str::to_owned);
            let query =
                ListQuery { prefix: prefix.into(), delimiter, marker, max: 3, ..ListQuery::default() };
            let page = block_on(self.store.list_blobs(&share(), &query)).unwrap();
            assert!(page.items.len() <= 3);
            names.extend(page.items.into_iter().map(|item| match item {
                ListItem::Blob { name, .. }
                | ListItem::Prefix { name, .. }
                | ListItem::Snapshot { name, .. }
                | ListItem::Uncommitted { name, .. } => name,
            }));
            match page.next {
                Some(next) => marker = Some(next),
                None => return names,
            }
        }
    }
}

impl EmbeddedStore {
    /// Empties all deleted containers, beside the keeper.
    fn purge_all(&self) {
        let mut purged = Purged::default();
        while self.purge_some(&mut purged).unwrap() {}
    }
}

pub(super) fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

pub(super) fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

pub(super) fn fill(scratch: &Scratch, bytes: &[u8], offset: u64) {
    scratch.file().write_all_at(bytes, offset).unwrap();
}

/// Runs a future of the store to its end.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
