//! Stored permissions: texts that files name by a key. Kept for callers, judged by nobody here.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::store::{BlobName, BlobPath, BlobStore, NewContent, Preconditions, StoreError};

use super::super::error::{FsError, Result};
use super::super::names::RESERVED;
use super::Requests;
use super::failure::Answer;

impl Requests {
    /// Stores a permission. Answers its key, which is the same for the same text.
    pub async fn put_permission(&self, text: &str) -> Answer<String> {
        let digest = Sha256::digest(text.as_bytes());
        let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let key = format!("{}*{}", number(&digest[..8]), number(&digest[8..16]));
        let (at, always) = (self.permission_at(&key)?, Preconditions::default());
        let body = bytes::Bytes::copy_from_slice(text.as_bytes());
        self.permissions().put_blob(&at, body.into(), NewContent::default(), &always).await?;
        self.engine.local()?.sync().await?;
        Ok(key)
    }

    /// The permission with this key.
    pub async fn permission(&self, key: &str) -> Answer<String> {
        let (at, always) = (self.permission_at(key)?, Preconditions::default());
        match self.permissions().get_blob(&at, None, None, &always).await {
            Ok(found) => Ok(String::from_utf8_lossy(&found.body).into_owned()),
            Err(StoreError::BlobNotFound(_)) => Err(FsError::NotFound.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn permission_at(&self, key: &str) -> Result<BlobPath> {
        let (first, second) = key.split_once('*').ok_or(FsError::Invalid("not the key of a permission"))?;
        let number =
            |text: &str| text.parse::<u64>().map_err(|_| FsError::Invalid("not the key of a permission"));
        let name = format!("{RESERVED}/permissions/{}-{}", number(first)?, number(second)?);
        // Of a share elsewhere they are there, beside the files that name them.
        self.engine.lease_place(&self.engine.at(BlobName::new(name).map_err(|_| FsError::NameTooLong)?))
    }

    fn permissions(&self) -> Arc<dyn BlobStore> {
        self.engine.upstream().map_or_else(|| Arc::clone(&self.engine.store), |there| there.service())
    }
}
