//! Removing blobs at the service.

use super::Mirror;
use crate::store::upstream::{Fence, Settling};
use crate::store::{BlobName, Result, StoreError};

impl Mirror {
    pub(super) async fn remove_there(&self, _name: &BlobName, _fence: Fence) -> Result<Settling> {
        Err(StoreError::NotSupported("removing in a mirror"))
    }
}
