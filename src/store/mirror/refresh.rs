//! Names and properties on their way into the mirror.

use super::Mirror;
use crate::store::upstream::Standing;
use crate::store::{BlobName, Result, StoreError};

impl Mirror {
    pub(super) async fn refresh_names_in(&self, _directory: Option<&BlobName>) -> Result<()> {
        Err(StoreError::NotSupported("names of a mirror"))
    }

    pub(super) async fn refresh_one(&self, _name: &BlobName) -> Result<()> {
        Err(StoreError::NotSupported("names of a mirror"))
    }

    pub(super) async fn ask_for(&self, _name: &BlobName) -> Result<Standing> {
        Err(StoreError::NotSupported("names of a mirror"))
    }
}
