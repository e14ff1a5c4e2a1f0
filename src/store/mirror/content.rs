//! Content on its way into the mirror: what is here, and bringing what is not.

use std::ops::Range;
use std::sync::Arc;

use super::Mirror;
use crate::store::{BlobName, Fetch, Result, StoreError};

impl Mirror {
    /// [`Upstream::content`](crate::store::Upstream::content).
    pub(super) async fn open_content(&self, _name: &BlobName) -> Result<Option<Arc<dyn Fetch>>> {
        Err(StoreError::NotSupported("content of a mirror"))
    }

    /// Makes sure that these bytes of the blob, as it is in the mirror, can be read from the mirror: before a block
    /// that was changed in part is pushed. Nothing to do for bytes that were changed here.
    pub(super) async fn bring_here(&self, _name: &BlobName, _range: Range<u64>) -> Result<()> {
        Err(StoreError::NotSupported("content of a mirror"))
    }
}
