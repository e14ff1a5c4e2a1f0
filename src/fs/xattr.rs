//! Extended attributes: the `user.` names, kept in the blob's metadata. Those of leasefs itself are in `sticky`.

use bytes::Bytes;

use crate::store::{BlobPath, BlobProperties, Changed, Metadata, NewContent, Preconditions};

use super::attributes::{Attributes, xattr_decode, xattr_encode, xattr_key, xattr_name};
use super::error::{FsError, Result};
use super::nodes::{Ino, ROOT};
use super::{Engine, now, sticky};

const USER: &str = "user.";

/// Longest name of an extended attribute, as in Linux.
const NAME_BYTES_MAX: usize = 255;

/// What setting an attribute expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Make or replace it.
    Set,
    /// It must be new.
    Create,
    /// It must exist.
    Replace,
}

fn user_name(name: &[u8]) -> Result<&str> {
    let name = std::str::from_utf8(name).map_err(|_| FsError::NotUtf8)?;
    match name.strip_prefix(USER) {
        Some("") => Err(FsError::Invalid("an attribute needs a name")),
        Some(_) if name.len() > NAME_BYTES_MAX => Err(FsError::NameTooLong),
        Some(rest) => Ok(rest),
        None => Err(FsError::NotSupported("only user.* attributes are kept")),
    }
}

impl Engine {
    /// The value of an attribute.
    pub async fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        // The kernel asks for security.* and ACLs all the time: answered without looking.
        let name = user_name(name).map_err(|_| FsError::NoAttribute)?;
        if sticky::is_holders(name) {
            return Ok(self.holders_text(ino).await.into_bytes());
        }
        let metadata = self.metadata(ino).await?;
        metadata.get(&xattr_key(name)).and_then(xattr_decode).ok_or(FsError::NoAttribute)
    }

    /// The names of all attributes.
    pub async fn list_xattrs(&self, ino: Ino) -> Result<Vec<String>> {
        let metadata = self.metadata(ino).await?;
        let names = metadata.iter().filter_map(|(key, _)| xattr_name(key));
        Ok(names.map(|name| format!("{USER}{name}")).collect())
    }

    /// Sets an attribute.
    pub async fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let name = user_name(name)?;
        sticky::may_set(name, value)?;
        let (key, value) = (xattr_key(name), xattr_encode(value));
        self.change_metadata(ino, |metadata| match (mode, metadata.contains(&key)) {
            (XattrMode::Create, true) => Err(FsError::Exists),
            (XattrMode::Replace, false) => Err(FsError::NoAttribute),
            _ => {
                metadata.set(&key, &value);
                Ok(())
            }
        })
        .await
    }

    /// Removes an attribute.
    pub async fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let key = xattr_key(user_name(name)?);
        self.change_metadata(ino, |metadata| match metadata.remove(&key) {
            true => Ok(()),
            false => Err(FsError::NoAttribute),
        })
        .await
    }

    pub(super) async fn metadata(&self, ino: Ino) -> Result<Metadata> {
        if ino == ROOT {
            return Ok(self.store.container_properties(&self.share, None).await?.metadata);
        }
        self.refresh_node(ino).await?;
        let _path = self.path_stays(ino).await;
        let name = self.nodes.blob_name(ino)?.ok_or(FsError::NotFound)?;
        let found = self.local()?.find(&self.at(name))?;
        Ok(found.blob.map(|blob| blob.metadata.clone()).unwrap_or_default())
    }

    async fn change_metadata(
        &self,
        ino: Ino,
        change: impl FnOnce(&mut Metadata) -> Result<()>,
    ) -> Result<()> {
        let done = self.change_stored_metadata(ino, change).await;
        self.stickies.forget(ino);
        done
    }

    async fn change_stored_metadata(
        &self,
        ino: Ino,
        change: impl FnOnce(&mut Metadata) -> Result<()>,
    ) -> Result<()> {
        if ino == ROOT {
            return self
                .change_root(|metadata, mut attributes| {
                    change(metadata)?;
                    attributes.ctime = now();
                    attributes.write_to(metadata);
                    Ok(())
                })
                .await;
        }
        let name = {
            let guarded = self.guard_name(ino).await?.ok_or(FsError::Stale)?;
            let at = &guarded.at;
            let found = self.find_same(ino, at)?;
            let mut attributes = self.stat_found(ino, &found)?.attributes;
            attributes.ctime = now();
            let mut metadata = found.blob.as_ref().map(|blob| blob.metadata.clone()).unwrap_or_default();
            change(&mut metadata)?;
            self.write_metadata(ino, at, found.blob.as_deref(), metadata, &attributes).await?;
            at.name.clone()
        };
        self.push_name(ino, &name).await
    }

    pub(super) async fn write_metadata(
        &self,
        ino: Ino,
        at: &BlobPath,
        blob: Option<&BlobProperties>,
        mut metadata: Metadata,
        attributes: &Attributes,
    ) -> Result<()> {
        self.to_store(blob, *attributes).write_to(&mut metadata);
        let _changing = self.will_change(&at.name, Changed::Properties)?;
        match blob {
            Some(blob) => {
                // Onto the version that was read, or what somebody else changed meanwhile would get lost.
                let lease = self.lease_for(blob)?;
                let conditions = Preconditions { lease, ..Preconditions::if_version(blob.etag) };
                let done = self.local()?.set_metadata(at, metadata, &conditions)?;
                self.note_version(ino, blob, &done);
            }
            // A directory without a marker gets one now.
            None => {
                let new = NewContent { metadata, ..NewContent::default() };
                self.store.put_blob(at, Bytes::new().into(), new, &Preconditions::default()).await?;
            }
        }
        Ok(())
    }
}
