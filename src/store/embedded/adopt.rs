//! Versions that were made elsewhere: a mirror knows their properties before it has their content.

use std::sync::Arc;

use crate::share::Moment;
use crate::store::conditions::{WriteKind, judge_write};
use crate::store::{
    BlobName, BlobPath, BlobProperties, DeleteSnapshots, ETag, ListItem, ListQuery, NewContent,
    Preconditions, Result, StoreError,
};

use super::blobs::{Body, NewVersion};
use super::record::Extent;
use super::tx::{changed, points};
use super::{EmbeddedStore, Growth};

/// Names of a listing that are read at a time.
const NAMES_AT_A_TIME: usize = 1000;

/// A version made elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Adopted {
    /// Length of its content.
    pub size: u64,
    /// When the blob was made there.
    pub created: Moment,
    /// When the version was made there.
    pub modified: Moment,
    /// Everything else.
    pub new: NewContent,
}

impl EmbeddedStore {
    /// Makes versions with these properties whose content is a hole. One batch for all; what does not meet its
    /// conditions is left as it is and answered with nothing.
    pub fn adopt(
        &self,
        versions: Vec<(BlobPath, Adopted, Preconditions)>,
    ) -> Result<Vec<Option<Arc<BlobProperties>>>> {
        self.write(Growth::Adds, points!("adopt"), |tx| {
            let mut made = Vec::with_capacity(versions.len());
            for (at, adopted, conditions) in versions {
                let root = self.container(&at.container)?.root;
                let (_, found) = tx.look(root, &at)?;
                if judge_write(&conditions, tx.now, WriteKind::Create, &found).is_err() {
                    made.push(None);
                    continue;
                }
                let Adopted { size, created, modified, new } = adopted;
                let hole = (size > 0).then_some(Extent { len: size, source: None });
                let body = Body::Pieces(hole.into_iter().collect());
                let spot = tx.locate_or_make(root, at.name.as_str())?;
                tx.put_version(&spot, root, &at, NewVersion::local(body, size, new), &found)?;
                let (_, entry) = tx.existing(&at)?;
                let entry = changed(&entry, |blob| {
                    blob.created = created;
                    blob.modified = modified;
                });
                made.push(Some(Arc::clone(&entry.properties)));
                tx.put_blob(&spot, Arc::new(entry));
            }
            Ok(made)
        })
    }

    /// Blobs below a name, with their versions.
    pub fn names_below(&self, at: &BlobPath) -> Result<Vec<(BlobName, ETag)>> {
        let prefix = format!("{}/", at.name);
        let mut query = ListQuery { prefix, max: NAMES_AT_A_TIME, ..ListQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = self.blob_list(&at.container, &query)?;
            for item in page.items {
                if let ListItem::Blob { name, properties } = item {
                    found.push((BlobName::new(name)?, properties.etag));
                }
            }
            query.marker = page.next;
            if query.marker.is_none() {
                return Ok(found);
            }
        }
    }

    /// Deletes a blob; [`BlobStore::delete_blob`](crate::store::BlobStore::delete_blob) without the future.
    pub fn discard(&self, at: &BlobPath, conditions: &Preconditions) -> Result<()> {
        match self.blob_delete(at, DeleteSnapshots::Include, conditions) {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
