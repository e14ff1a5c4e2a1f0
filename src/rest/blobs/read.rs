//! Reading blobs: Get Blob, Get Blob Properties, Get Blob Metadata.

use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;

use super::BlobService;
use super::call::Call;
use super::failure::{Failure, Result};
use super::properties::blob_headers;
use crate::rest::reply::Reply;
use crate::rest::server::{Answer, AnswerBody, Source};
use crate::store::{AccessTier, BlobPath, BlobProperties, ByteRange, ContentReader, StoreError};
use crate::wire::checksum::{Sums, Wanted, md5_text};
use crate::wire::range::{RequestedRange, content_range};
use crate::wire::{ErrorCode, Fault, headers};

/// The longest range whose checksum the service computes.
const RANGE_SUM_MAX: u64 = 4 * 1024 * 1024;

/// A part of a blob: from where, how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    offset: u64,
    length: u64,
}

impl BlobService {
    /// Get Blob: the whole, or a range of it.
    pub(super) async fn get_blob(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let range = RequestedRange::of_read(call.headers())?;
        let wanted = range.map(|range| ByteRange { start: range.first, length: range.length() });
        let reader = self.store.open_version(at, call.snapshot()?, wanted, &call.read_conditions()?)?;
        let blob = Arc::clone(reader.properties());
        if blob.tier.is_some_and(|tier| tier.tier == AccessTier::Archive) {
            return Err(ErrorCode::BlobArchived.into());
        }
        let (part, status) = match range {
            None => (Part { offset: 0, length: blob.size }, StatusCode::OK),
            Some(range) => (cut(range, blob.size)?, StatusCode::PARTIAL_CONTENT),
        };
        let mut reply =
            blob_headers(Reply::new(status), &blob, call.now).number(headers::CONTENT_LENGTH, part.length);
        let sum = wanted_sum(call, range.is_some(), part.length)?;
        reply = match range {
            None => reply.maybe(headers::CONTENT_MD5, blob.content_md5.as_ref().map(md5_text).as_deref()),
            Some(_) => reply
                .header(headers::CONTENT_RANGE, &content_range(part.offset, part.length, blob.size))
                .maybe(headers::BLOB_CONTENT_MD5, blob.content_md5.as_ref().map(md5_text).as_deref()),
        };
        for (name, value) in &call.rights.overrides {
            reply = reply.header(name, value);
        }
        match sum {
            None => Ok(reply.with(body_of(reader, part))),
            Some(sum) => {
                let bytes = read_part(reader, part).await?;
                let sums = Sums::of(&bytes, Wanted::Md5AndCrc64);
                reply = match sum {
                    Sum::Md5 => reply.maybe(headers::CONTENT_MD5, sums.md5.as_ref().map(md5_text).as_deref()),
                    Sum::Crc64 => {
                        reply.header(headers::CONTENT_CRC64, &STANDARD.encode(sums.crc64.to_le_bytes()))
                    }
                };
                Ok(reply.with(AnswerBody::Bytes(bytes)))
            }
        }
    }

    /// Get Blob Properties: what Get Blob says, without the content.
    pub(super) async fn get_blob_properties(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let blob = self.store.blob_properties(at, call.snapshot()?, &call.read_conditions()?).await?;
        let mut reply = blob_headers(Reply::ok(), &blob, call.now)
            .number(headers::CONTENT_LENGTH, blob.size)
            .maybe(headers::CONTENT_MD5, blob.content_md5.as_ref().map(md5_text).as_deref());
        for (name, value) in &call.rights.overrides {
            reply = reply.header(name, value);
        }
        Ok(reply.empty())
    }

    /// Get Blob Metadata.
    pub(super) async fn get_blob_metadata(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let blob = self.store.blob_properties(at, call.snapshot()?, &call.read_conditions()?).await?;
        Ok(Reply::ok().version(blob.etag, blob.modified).metadata(&blob.metadata).empty())
    }
}

/// A checksum of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    Md5,
    Crc64,
}

fn wanted_sum(call: &Call<'_>, ranged: bool, length: u64) -> Result<Option<Sum>> {
    let md5 = headers::flag(call.headers(), headers::RANGE_GET_CONTENT_MD5)?;
    let crc64 = headers::flag(call.headers(), headers::RANGE_GET_CONTENT_CRC64)?;
    let (sum, name) = match (md5, crc64) {
        (false, false) => return Ok(None),
        (true, true) => return Err(ErrorCode::BothCrc64AndMd5HeaderPresent.into()),
        (true, false) => (Sum::Md5, headers::RANGE_GET_CONTENT_MD5),
        (false, true) => (Sum::Crc64, headers::RANGE_GET_CONTENT_CRC64),
    };
    if !ranged {
        return Err(Fault::invalid_header(name, "a range is needed with it").into());
    }
    if length > RANGE_SUM_MAX {
        return Err(ErrorCode::OutOfRangeInput.into());
    }
    Ok(Some(sum))
}

/// The part of a blob of `size` bytes that a range names. A range may go beyond the end, but not begin there.
fn cut(range: RequestedRange, size: u64) -> Result<Part> {
    if range.first >= size {
        return Err(StoreError::InvalidRange { size }.into());
    }
    let length = range.length().unwrap_or(u64::MAX).min(size - range.first);
    Ok(Part { offset: range.first, length })
}

fn body_of(reader: ContentReader, part: Part) -> AnswerBody {
    match slice(&reader, part) {
        Some(bytes) => AnswerBody::Bytes(bytes),
        None => AnswerBody::from_source(Arc::new(BlobSource(reader)), part.offset, part.length),
    }
}

/// The part as bytes, if the content is in memory.
fn slice(reader: &ContentReader, part: Part) -> Option<bytes::Bytes> {
    let bytes = reader.as_bytes()?;
    let start = usize::try_from(part.offset).ok()?;
    let end = start.checked_add(usize::try_from(part.length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// A short part, read on a thread that may block.
async fn read_part(reader: ContentReader, part: Part) -> Result<bytes::Bytes> {
    if let Some(bytes) = slice(&reader, part) {
        return Ok(bytes);
    }
    let length = usize::try_from(part.length).map_err(|_| ErrorCode::OutOfRangeInput)?;
    let read = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; length];
        BlobSource(reader).read_exact_at(&mut buffer, part.offset)?;
        Ok(bytes::Bytes::from(buffer))
    });
    let failed = |error: io::Error| Failure::from(StoreError::io("read content", error));
    read.await.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)
}

/// One version of a blob as the source of an answer.
struct BlobSource(ContentReader);

impl Source for BlobSource {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let count = self.0.read_at(buffer, offset)?;
        if count == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The kind's name on the wire.
pub(super) fn kind_name(blob: &BlobProperties) -> &'static str {
    use crate::store::BlobKind;
    match blob.kind {
        BlobKind::Block => "BlockBlob",
        BlobKind::Append => "AppendBlob",
        BlobKind::Page => "PageBlob",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_end_and_refused_behind_it() {
        let range = |first, last| RequestedRange { first, last };
        let part = |offset, length| Part { offset, length };
        assert_eq!(cut(range(0, Some(9)), 100).unwrap(), part(0, 10));
        assert_eq!(cut(range(95, Some(200)), 100).unwrap(), part(95, 5));
        assert_eq!(cut(range(7, None), 100).unwrap(), part(7, 93));
        assert!(cut(range(100, None), 100).is_err());
        assert!(cut(range(0, None), 0).is_err());
    }
}
