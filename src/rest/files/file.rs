//! Files: create, properties, metadata, delete.

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use super::properties::{changed, file_headers, stored_md5};
use super::ranges::RANGE_MAX;
use crate::fs::requests::{FileChange, NewFile};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::HttpHeaders;
use crate::wire::checksum::{Declared, Sums, Wanted, md5_text};
use crate::wire::version::ServiceVersion;
use crate::wire::{ErrorCode, Fault, headers};

/// From this version on a new file may come with its first bytes.
const BODY_SINCE: ServiceVersion = ServiceVersion::of(2026, 6, 6);
/// The largest file, in bytes.
const FILE_MAX: u64 = 4 << 40;

impl FilesService {
    /// Create File: a file of zeros, with its first bytes if they are sent along. Replaces one that is there.
    pub(super) async fn create_file(&self, call: &mut Call<'_>, at: &Place) -> Result<Answer> {
        at.check_new_name()?;
        let kind = headers::required(call.headers(), headers::FILE_TYPE)?;
        if !kind.eq_ignore_ascii_case("file") {
            return Err(Fault::invalid_header(headers::FILE_TYPE, kind).into());
        }
        let size = call.size()?.ok_or_else(|| Fault::missing_header(headers::CONTENT_LENGTH_STORED))?;
        check_size(size)?;
        if call.body.length() > 0 && (call.version < BODY_SINCE || call.body.length() > size) {
            return Err(Fault::new(ErrorCode::InvalidHeaderValue)
                .with("HeaderName", headers::CONTENT_LENGTH)
                .saying("The body of a new file may not be longer than the file.")
                .into());
        }
        let declared = Declared::from_headers(call.headers())?;
        let (_room, body) = self.small_body(call, RANGE_MAX).await?;
        if !body.is_empty() {
            Sums::of(&body, Wanted::Md5AndCrc64).check(&declared)?;
        }
        let (headers, lease) = (call.stored_headers()?, call.lease()?);
        let share = self.share(call, &at.share).await?;
        let room = self.room_for(at, &share, Some(size)).await?;
        let smb = self.with_permission(call, &share, call.smb_change(true)?).await?;
        let new = NewFile {
            size,
            body,
            smb,
            metadata: call.metadata()?,
            headers,
            content_md5: call.stored_md5()?,
            create_only: call.create_only,
        };
        let entry = room.after(share.create_file(&at.path, new, lease).await)?;
        Ok(changed(Reply::created(), &entry).empty())
    }

    /// Get File Properties: what Get File says, without the content.
    pub(super) async fn get_file_properties(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let entry = self.view(call, at).await?.file_properties(&at.path, call.lease()?).await?;
        let reply = file_headers(Reply::ok(), &entry, call.now).number(headers::CONTENT_LENGTH, entry.size);
        let reply = stored_md5(reply, headers::CONTENT_MD5, &entry);
        Ok(call.overridden(reply).empty())
    }

    /// Get File Metadata.
    pub(super) async fn get_file_metadata(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let entry = self.view(call, at).await?.file_properties(&at.path, call.lease()?).await?;
        Ok(Reply::ok().version(entry.etag, entry.modified).metadata(&entry.metadata).empty())
    }

    /// Set File Metadata.
    pub(super) async fn set_file_metadata(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let share = self.share(call, &at.share).await?;
        let entry = share.set_file_metadata(&at.path, call.metadata()?, call.lease()?).await?;
        Ok(changed(Reply::ok(), &entry).empty())
    }

    /// Set File Properties: headers, size, attributes and times. One header given clears those that are not.
    pub(super) async fn set_file_properties(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let size = call.size()?;
        size.map(check_size).transpose()?;
        let stored = (call.stored_headers()?, call.stored_md5()?);
        let smb = call.smb_change(false)?;
        let share = self.share(call, &at.share).await?;
        let room = self.room_for(at, &share, size).await?;
        let smb = self.with_permission(call, &share, smb).await?;
        let named = stored.0 != HttpHeaders::default() || stored.1.is_some();
        let change = FileChange { headers: named.then_some(stored), size, smb };
        let done = share.set_file_properties(&at.path, change, call.lease()?).await;
        let entry = room.after(done)?;
        Ok(changed(Reply::ok(), &entry).empty())
    }

    /// Delete File.
    pub(super) async fn delete_file(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let _turn = self.shares.moving_turn(&at.share).await;
        self.share(call, &at.share).await?.delete_file(&at.path, call.lease()?).await?;
        Ok(Reply::accepted().empty())
    }
}

impl Call<'_> {
    /// An answer to a read, with the headers that a signed URL sets.
    pub(super) fn overridden(&self, mut reply: Reply) -> Reply {
        for (name, value) in &self.overrides {
            reply = reply.header(name, value);
        }
        reply
    }
}

fn check_size(size: u64) -> Result<()> {
    if size > FILE_MAX { Err(ErrorCode::OutOfRangeInput.into()) } else { Ok(()) }
}

/// The text of the MD5 of some bytes.
pub(super) fn md5_of(bytes: &[u8]) -> Option<String> {
    Sums::of(bytes, Wanted::Md5AndCrc64).md5.as_ref().map(md5_text)
}
