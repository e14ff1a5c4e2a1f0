//! Put Blob of the three kinds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::properties::sequence_number;
use super::receive::{Received, receive};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::{BlobPath, BlobProperties, NewContent, PAGE_BYTES};
use crate::wire::checksum::{Declared, Sums, Wanted, md5_text};
use crate::wire::version::ServiceVersion;
use crate::wire::{ErrorCode, Fault, headers};

const MIB: u64 = 1024 * 1024;

/// The longest body of Put Blob, by the rules of the client's version.
pub(super) fn put_blob_max(version: ServiceVersion) -> u64 {
    if version >= ServiceVersion::of(2019, 12, 12) {
        5000 * MIB
    } else if version >= ServiceVersion::of(2016, 5, 31) {
        256 * MIB
    } else {
        64 * MIB
    }
}

/// The longest block, by the rules of the client's version.
pub(super) fn put_block_max(version: ServiceVersion) -> u64 {
    if version >= ServiceVersion::of(2019, 12, 12) {
        4000 * MIB
    } else if version >= ServiceVersion::of(2016, 5, 31) {
        100 * MIB
    } else {
        4 * MIB
    }
}

impl BlobService {
    /// Put Blob.
    pub(super) async fn put_blob(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        call.refuse_unsupported()?;
        match headers::required(call.headers(), headers::BLOB_TYPE)? {
            "BlockBlob" => self.put_block_blob(call, at).await,
            "AppendBlob" => self.create_append_blob(call, at).await,
            "PageBlob" => self.create_page_blob(call, at).await,
            other => Err(Fault::invalid_header(headers::BLOB_TYPE, other).into()),
        }
    }

    async fn put_block_blob(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let stored_md5 = call.stored_md5()?;
        let declared = Declared::from_headers(call.headers())?;
        let mut new = new_content(call, true)?;
        let max = put_blob_max(call.version);
        let received = receive(call.body, self.store.upload(), max, declared, Wanted::Md5AndCrc64).await?;
        let Received { body, sums } = received;
        new.content_md5 = stored_md5.or(sums.md5);
        let blob = self.store.put_blob(at, body, new, &conditions).await?;
        Ok(sums_headers(put_reply(&blob), &sums).empty())
    }

    async fn create_append_blob(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        refuse_body(call)?;
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let blob = self.store.create_append_blob(at, new_content(call, true)?, &conditions).await?;
        Ok(put_reply(&blob).empty())
    }

    async fn create_page_blob(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        refuse_body(call)?;
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let size: u64 = headers::number(call.headers(), headers::BLOB_CONTENT_LENGTH)?
            .ok_or_else(|| Fault::missing_header(headers::BLOB_CONTENT_LENGTH))?;
        if !size.is_multiple_of(PAGE_BYTES) {
            return Err(Fault::invalid_header(headers::BLOB_CONTENT_LENGTH, size.to_string()).into());
        }
        let number = sequence_number(call)?;
        let new = new_content(call, true)?;
        let blob = self.store.create_page_blob(at, size, number, new, &conditions).await?;
        Ok(put_reply(&blob).empty())
    }
}

/// What a new blob carries besides its bytes.
pub(super) fn new_content(call: &Call<'_>, or_plain: bool) -> Result<NewContent> {
    Ok(NewContent {
        metadata: call.metadata()?,
        headers: call.stored_headers(or_plain)?,
        content_md5: call.stored_md5()?,
        tags: call.tags()?,
        tier: call.tier()?,
        copy: None,
    })
}

/// The answer to a write that made a version.
pub(super) fn put_reply(blob: &BlobProperties) -> Reply {
    Reply::created().version(blob.etag, blob.modified).fixed(headers::REQUEST_SERVER_ENCRYPTED, "false")
}

/// The checksums that were computed.
pub(super) fn sums_headers(reply: Reply, sums: &Sums) -> Reply {
    reply
        .maybe(headers::CONTENT_MD5, sums.md5.as_ref().map(md5_text).as_deref())
        .header(headers::CONTENT_CRC64, &STANDARD.encode(sums.crc64.to_le_bytes()))
}

/// Append and page blobs are made empty.
fn refuse_body(call: &Call<'_>) -> Result<()> {
    if call.body.length() == 0 {
        return Ok(());
    }
    Err(Fault::new(ErrorCode::InvalidHeaderValue)
        .with("HeaderName", headers::CONTENT_LENGTH)
        .saying("A new append or page blob has no body.")
        .into())
}
