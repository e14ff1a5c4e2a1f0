//! Moving blobs at the service, under a journal.

use super::Mirror;
use crate::store::upstream::{Fence, Settling};
use crate::store::{BlobName, RenameMode, Result, StoreError};

impl Mirror {
    pub(super) async fn rename_there(
        &self,
        _from: &BlobName,
        _to: &BlobName,
        _mode: RenameMode,
        _fence: Fence,
    ) -> Result<Settling> {
        Err(StoreError::NotSupported("renaming in a mirror"))
    }
}
