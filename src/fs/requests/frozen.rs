//! A snapshot of a share: the calls that read, on files that nobody changes any more. No opens, no gate: nobody can be
//! in the way.

use std::sync::Arc;

use crate::store::{
    BlobName, BlobPage, BlobPath, BlobProperties, BlobStore, ContainerName, ETag, Found, ListItem, ListQuery,
    LocalStore,
};

use super::super::attributes::{Attributes, DefaultOwner, Kind};
use super::super::error::{FsError, Result};
use super::super::names::{RESERVED, Segment};
use super::super::nodes::{Ino, ROOT};
use super::super::stat::Stat;
use super::entry::{Entry, bare, entry_of};
use super::list::{ListRequest, Listed, Listing, PAGE_MAX};
use super::path::FilePath;
use super::read::Reading;

/// A snapshot of a share. Numbers of files are its own, not those of the share.
#[derive(Clone)]
pub struct Frozen {
    store: Arc<dyn BlobStore>,
    /// The snapshot, as the container that it is.
    container: ContainerName,
    owner: DefaultOwner,
}

impl std::fmt::Debug for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Frozen").field(&self.container).finish()
    }
}

impl Frozen {
    /// Calls on the snapshot that is this container.
    pub(in crate::fs) fn new(
        store: Arc<dyn BlobStore>,
        container: ContainerName,
        owner: DefaultOwner,
    ) -> Self {
        Self { store, container, owner }
    }

    /// What a file was.
    pub async fn file_properties(&self, path: &FilePath) -> Result<Entry> {
        let entry = self.entry(path)?;
        if entry.is_directory() { Err(FsError::IsADirectory) } else { Ok(entry) }
    }

    /// What a directory was.
    pub async fn directory_properties(&self, path: &FilePath) -> Result<Entry> {
        if path.is_root() {
            return self.root().await;
        }
        let entry = self.entry(path)?;
        if entry.is_directory() { Ok(entry) } else { Err(FsError::NotADirectory) }
    }

    /// The bytes of a file.
    pub async fn read(&self, path: &FilePath) -> Result<Reading> {
        let entry = self.file_properties(path).await?;
        let name = path.blob_name()?.ok_or(FsError::NotFound)?;
        Ok(Reading::of_version(entry, self.local()?.reader(&self.at(name))?))
    }

    /// Lists a directory. A page can be short and still have a next one.
    pub async fn list(&self, path: &FilePath, request: ListRequest) -> Result<Listing> {
        let directory = self.directory_properties(path).await?;
        let within = path.blob_name()?.map_or_else(String::new, |name| format!("{}/", name.as_str()));
        let query = ListQuery {
            prefix: format!("{within}{}", request.prefix),
            delimiter: Some("/".into()),
            marker: request.marker,
            max: if request.max == 0 { PAGE_MAX } else { request.max.min(PAGE_MAX) },
            ..ListQuery::default()
        };
        let BlobPage { items, next } = self.store.list_blobs(&self.container, &query).await?;
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            entries.extend(self.listed(directory.ino, &within, item)?);
        }
        Ok(Listing { directory, entries, next })
    }

    fn listed(&self, parent: Ino, within: &str, item: ListItem) -> Result<Option<Listed>> {
        let (name, found) = match item {
            ListItem::Blob { name, properties } => (name, Found { blob: Some(properties), prefix: None }),
            ListItem::Prefix { name, .. } => {
                let name = name.trim_end_matches('/').to_owned();
                let found = self.local()?.find(&self.at(blob_name(&name)?))?;
                // Its marker blob was listed before, under the same name without the slash.
                if found.blob.is_some() {
                    return Ok(None);
                }
                (name, found)
            }
            // Not asked for.
            ListItem::Snapshot { .. } | ListItem::Uncommitted { .. } => return Ok(None),
        };
        let Some(segment) = name.strip_prefix(within).filter(|segment| !segment.is_empty()) else {
            return Ok(None);
        };
        if parent == ROOT && segment == RESERVED {
            return Ok(None);
        }
        let entry = self.entry_of(parent, &found)?;
        Ok(Some(Listed { name: Segment::from_stored(segment).file_name(), entry }))
    }

    async fn root(&self) -> Result<Entry> {
        let container = self.store.container_properties(&self.container, None).await?;
        let attributes = self.plain_directory(container.modified);
        let mut entry = bare(&stat(ROOT, 0, attributes), Ino(0));
        (entry.etag, entry.modified) = (ETag(container.etag.0), container.modified);
        Ok(entry)
    }

    fn entry(&self, path: &FilePath) -> Result<Entry> {
        let (above, _) = path.split().ok_or(FsError::IsADirectory)?;
        if path.is_reserved() {
            return Err(FsError::NotFound);
        }
        let parent = match FilePath::from_segments(above).blob_name()? {
            None => ROOT,
            Some(name) => {
                let found = self.local()?.find(&self.at(name))?;
                let parent = self.entry_of(ROOT, &found).map_err(|_| FsError::NoParent)?;
                if !parent.is_directory() {
                    return Err(FsError::NoParent);
                }
                parent.ino
            }
        };
        let name = path.blob_name()?.ok_or(FsError::NotFound)?;
        self.entry_of(parent, &self.local()?.find(&self.at(name))?)
    }

    fn entry_of(&self, parent: Ino, found: &Found) -> Result<Entry> {
        match (&found.blob, found.prefix) {
            (Some(blob), prefix) => Ok(self.blob_entry(parent, blob, prefix.is_some())),
            (None, Some(id)) => {
                let attributes = self.plain_directory(crate::share::Moment(0));
                Ok(bare(&stat(Ino::of(id), 0, attributes), parent))
            }
            (None, None) => Err(FsError::NotFound),
        }
    }

    /// A plain blob with others below its name is a directory, as in the share itself.
    fn blob_entry(&self, parent: Ino, blob: &BlobProperties, has_children: bool) -> Entry {
        let mut attributes = Attributes::of_blob(blob, self.owner);
        if has_children {
            attributes.kind = Kind::Directory;
        }
        entry_of(&stat(Ino::of(blob.id), blob.size, attributes), parent, blob)
    }

    fn plain_directory(&self, at: crate::share::Moment) -> Attributes {
        Attributes::new(Kind::Directory, 0o755, self.owner.uid, self.owner.gid, at)
    }

    fn at(&self, name: BlobName) -> BlobPath {
        BlobPath::new(self.container.clone(), name)
    }

    fn local(&self) -> Result<&dyn LocalStore> {
        self.store.local().ok_or(FsError::NotSupported("the store is not on this machine"))
    }
}

fn blob_name(name: &str) -> Result<BlobName> {
    BlobName::new(name).map_err(|_| FsError::NameTooLong)
}

fn stat(ino: Ino, size: u64, attributes: Attributes) -> Stat {
    Stat { ino, size, blocks: size.div_ceil(512), links: 1, attributes, volatile: false }
}
