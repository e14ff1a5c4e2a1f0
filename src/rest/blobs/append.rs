//! Append blobs: Append Block, Seal.

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::put::{put_reply, sums_headers};
use super::receive::{Received, receive};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::{AppendConditions, Appended, BlobPath};
use crate::wire::checksum::{Declared, Wanted};
use crate::wire::conditions as wire;
use crate::wire::version::ServiceVersion;
use crate::wire::{Fault, headers};

const MIB: u64 = 1024 * 1024;

/// The longest block of an append blob, by the rules of the client's version.
pub(super) fn append_max(version: ServiceVersion) -> u64 {
    if version >= ServiceVersion::of(2022, 11, 2) { 100 * MIB } else { 4 * MIB }
}

impl BlobService {
    /// Append Block.
    pub(super) async fn append_block(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        let (conditions, append) = (call.write_conditions()?, append_conditions(call)?);
        let declared = Declared::from_headers(call.headers())?;
        if call.body.length() == 0 {
            return Err(Fault::invalid_header(headers::CONTENT_LENGTH, "0").into());
        }
        let max = append_max(call.version);
        let Received { body, sums } =
            receive(call.body, self.store.upload(), max, declared, Wanted::Crc64).await?;
        let appended = self.store.append_block(at, body, append, &conditions).await?;
        Ok(sums_headers(appended_reply(&appended), &sums).empty())
    }

    /// Append Blob Seal.
    pub(super) async fn seal_blob(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let (conditions, append) = (call.write_conditions()?, append_conditions(call)?);
        let blob = self.store.seal_blob(at, append, &conditions).await?;
        Ok(Reply::ok().version(blob.etag, blob.modified).fixed(headers::BLOB_SEALED, "true").empty())
    }
}

pub(super) fn append_conditions(call: &Call<'_>) -> Result<AppendConditions> {
    let given = wire::AppendConditions::from_headers(call.headers())?;
    Ok(AppendConditions { position: given.position, max_size: given.max_size })
}

/// The answer to an append.
pub(super) fn appended_reply(appended: &Appended) -> Reply {
    put_reply(&appended.properties)
        .number(headers::BLOB_APPEND_OFFSET, appended.offset)
        .number(headers::BLOB_COMMITTED_BLOCK_COUNT, u64::from(appended.properties.appended_blocks))
}
