//! Copy File and Abort Copy File. A copy is done when it is answered.

use bytes::Bytes;

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use super::ranges::RANGE_MAX;
use super::source::CopyFrom;
use crate::fs::requests::{CopyFile, Entry, LastWrite, NewFile, Requests, SmbAttributes, SmbChange};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::rest::sources::{cannot_read, open_elsewhere, without_query};
use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::wire::smb::{Setting, SmbSettings};
use crate::wire::{ErrorCode, Fault, headers};

impl FilesService {
    /// Copy File.
    pub(super) async fn copy_file(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        at.check_new_name()?;
        let lease = call.lease()?;
        let source = self.source(call).await?;
        let share = self.share(call, &at.share).await?;
        let from = match &source {
            CopyFrom::Own(reading) => Some(&reading.entry),
            CopyFrom::Elsewhere(_) => None,
        };
        let room = self.room_for(at, &share, from.map(|entry| entry.size)).await?;
        let smb = self.with_permission(call, &share, copied_smb(call, from)?).await?;
        let named = without_query(headers::required(call.headers(), headers::COPY_SOURCE)?).to_owned();
        let id = uuid::Uuid::new_v4().to_string();
        let copy = CopyFile {
            record: Some((id.clone(), named)),
            ignore_read_only: headers::flag(call.headers(), headers::FILE_COPY_IGNORE_READONLY)?,
            smb,
            metadata: call.metadata_if_any()?,
            create_only: call.create_only,
        };
        let entry = match source {
            CopyFrom::Own(reading) => room.after(share.copy(&reading, &at.path, copy, lease).await)?,
            CopyFrom::Elsewhere(url) => self.copy_elsewhere(&share, &url, at, copy, lease).await?,
        };
        let reply = Reply::accepted().version(entry.etag, entry.modified);
        Ok(reply.header(headers::COPY_ID, &id).fixed(headers::COPY_STATUS, "success").empty())
    }

    /// Abort Copy File: there is never a copy under way.
    pub(super) async fn abort_copy(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let action = headers::required(call.headers(), headers::COPY_ACTION)?;
        if !action.eq_ignore_ascii_case("abort") {
            return Err(Fault::invalid_header(headers::COPY_ACTION, action).into());
        }
        if call.query.filled("copyid").is_none() {
            return Err(Fault::missing_query("copyid").into());
        }
        self.share(call, &at.share).await?.file_properties(&at.path, call.lease()?).await?;
        Err(ErrorCode::NoPendingCopyOperation.into())
    }
}

/// Attributes and times of a copy: given, the source's, or those of a new file.
fn copied_smb(call: &Call<'_>, source: Option<&Entry>) -> Result<SmbChange> {
    let given = SmbSettings::from_headers(call.headers(), true)?;
    let time = |setting: Option<Setting<Moment>>, of_source: fn(&Entry) -> Moment| match setting {
        Some(Setting::To(moment)) => Some(moment),
        Some(Setting::Source) => source.map(of_source),
        Some(Setting::Now | Setting::Preserve) | None => Some(call.now),
    };
    let mut attributes = match given.attributes {
        Some(Setting::To(0)) | None => None,
        Some(Setting::To(bits)) => Some(SmbAttributes(bits)),
        Some(Setting::Source) => source.map(|entry| entry.attributes),
        Some(Setting::Now | Setting::Preserve) => None,
    };
    if headers::flag(call.headers(), headers::FILE_COPY_SET_ARCHIVE)? {
        attributes = Some(attributes.unwrap_or_default().union(SmbAttributes::ARCHIVE));
    }
    let keeps_permission = call
        .header(headers::FILE_PERMISSION_COPY_MODE)?
        .is_some_and(|mode| mode.eq_ignore_ascii_case("source"));
    Ok(SmbChange {
        attributes,
        created: time(given.created, |entry| entry.created),
        last_write: time(given.written, |entry| entry.last_write),
        changed: time(given.changed, |entry| entry.changed),
        permission: source.filter(|_| keeps_permission).and_then(|entry| entry.permission.clone()),
    })
}

impl FilesService {
    /// Copies from another server: the file is made in its size first and then filled. If the source fails in the
    /// middle, the part that came stays.
    async fn copy_elsewhere(
        &self,
        share: &Requests,
        url: &str,
        at: &Place,
        copy: CopyFile,
        lease: Option<LeaseId>,
    ) -> Result<Entry> {
        use futures_util::StreamExt;
        let answer = open_elsewhere(url, Vec::new(), None).await?;
        let size = answer.content_length().ok_or_else(|| cannot_read(url, &"its length is not told"))?;
        let content_type = answer.headers().get(headers::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let new = NewFile {
            size,
            body: Bytes::new(),
            smb: copy.smb,
            metadata: copy.metadata.unwrap_or_default(),
            headers: crate::store::HttpHeaders {
                content_type: content_type.map(str::to_owned),
                ..crate::store::HttpHeaders::default()
            },
            content_md5: None,
            create_only: copy.create_only,
        };
        let room = self.room_for(at, share, Some(size)).await?;
        let mut entry = room.after(share.create_file(&at.path, new, lease).await)?;
        let (mut pieces, mut offset, mut batch) = (answer.bytes_stream(), 0, Vec::new());
        let full = usize::try_from(RANGE_MAX).unwrap_or(usize::MAX);
        loop {
            let piece = pieces.next().await.transpose();
            let piece = piece.map_err(|error| cannot_read(url, &error.without_url()))?;
            let ended = piece.is_none();
            batch.extend_from_slice(piece.as_deref().unwrap_or_default());
            while batch.len() >= full || (ended && !batch.is_empty()) {
                let rest = batch.split_off(batch.len().min(full));
                let data = Bytes::from(std::mem::replace(&mut batch, rest));
                let length = data.len() as u64;
                entry = share.put_range(&at.path, offset, data, LastWrite::Preserve, lease).await?;
                offset += length;
            }
            if ended {
                return Ok(entry);
            }
        }
    }
}
