//! What was changed here becomes the service's.

use super::Mirror;
use crate::store::upstream::{Changed, Fence};
use crate::store::{BlobName, Progress, Result, StoreError};

impl Mirror {
    pub(super) fn note_change(&self, _name: &BlobName, _what: Changed<'_>) -> Result<()> {
        Err(StoreError::NotSupported("changes of a mirror"))
    }

    pub(super) async fn push_one(&self, _name: &BlobName, _fence: Fence) -> Result<()> {
        Err(StoreError::NotSupported("pushes of a mirror"))
    }

    pub(super) async fn forget_changes(&self, _name: &BlobName) -> Result<()> {
        Err(StoreError::NotSupported("pushes of a mirror"))
    }

    pub(super) async fn push_all(&self, _progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        Err(StoreError::NotSupported("pushes of a mirror"))
    }
}
