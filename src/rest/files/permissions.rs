//! Permissions: Create Permission, Get Permission, and the permission that a file is given.
//!
//! A share keeps every permission it was given under a key that follows from the text; files carry the key. What the
//! descriptor says binds nobody: leasefs has no Windows users.

use super::FilesService;
use super::call::{Call, GivenPermission};
use super::failure::Result;
use crate::fs::FsError;
use crate::fs::requests::{Requests, SmbChange};
use crate::rest::reply::Reply;
use crate::rest::server::{Answer, AnswerBody};
use crate::store::ContainerName;
use crate::wire::{ErrorCode, headers, permission};

/// Largest body of Create Permission.
const BODY_MAX: u64 = 2 * permission::STORED_MAX as u64;

impl FilesService {
    /// Create Permission.
    pub(super) async fn create_permission(
        &self,
        call: &mut Call<'_>,
        name: &ContainerName,
    ) -> Result<Answer> {
        let body = call.whole_body(BODY_MAX).await?;
        let (text, _) = permission::parse_body(&body)?;
        let share = self.share(call, name).await?;
        let key = self.keep(&share, &text).await?;
        Ok(Reply::created().header(headers::FILE_PERMISSION_KEY, &key).empty())
    }

    /// Get Permission.
    pub(super) async fn get_permission(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let key = headers::required(call.headers(), headers::FILE_PERMISSION_KEY)?;
        let asked = call.header(headers::FILE_PERMISSION_FORMAT)?;
        let format = permission::Format::parse(asked)?;
        if !permission::is_key(key) {
            return Err(ErrorCode::FileInvalidPermissionKey.into());
        }
        let share = self.share(call, name).await?;
        let text = if key == permission::key(permission::INHERITED) {
            permission::INHERITED.to_owned()
        } else {
            kept(&share, key).await?
        };
        let body = permission::body(&text, asked.map(|_| format));
        let reply = Reply::ok().fixed(headers::CONTENT_TYPE, "application/json");
        Ok(reply.with(AnswerBody::Bytes(body.into())))
    }

    /// A change with the permission that the request names.
    pub(super) async fn with_permission(
        &self,
        call: &Call<'_>,
        share: &Requests,
        mut change: SmbChange,
    ) -> Result<SmbChange> {
        change.permission = match call.given_permission()? {
            None => None,
            Some(GivenPermission::Text(text)) => Some(self.keep(share, &text).await?),
            Some(GivenPermission::Key(key)) if key == permission::key(permission::INHERITED) => Some(key),
            Some(GivenPermission::Key(key)) => {
                kept(share, &key).await?;
                Some(key)
            }
        };
        Ok(change)
    }

    async fn keep(&self, share: &Requests, text: &str) -> Result<String> {
        if text == permission::INHERITED {
            return Ok(permission::key(text));
        }
        Ok(share.put_permission(text).await?)
    }
}

/// The permission that a share keeps under a key.
async fn kept(share: &Requests, key: &str) -> Result<String> {
    share.permission(key).await.map_err(|failure| match failure.error {
        FsError::NotFound => ErrorCode::FileInvalidPermissionKey.into(),
        _ => failure.into(),
    })
}
