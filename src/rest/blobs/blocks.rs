//! Block blobs in pieces: Put Block, Put Block List, Get Block List.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::put::{new_content, put_block_max, put_reply, sums_headers};
use super::receive::{Received, receive};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::store::{BlobPath, BlockId, BlockKind, BlockListEntry};
use crate::wire::checksum::{Declared, Sums, Wanted};
use crate::wire::{ErrorCode, Fault, headers, xml};

/// Largest body of Put Block List: 50,000 entries of 64 bytes each, in base64, with their tags.
const BLOCK_LIST_MAX: u64 = 8 * 1024 * 1024;
/// Longest block id, before its encoding.
const BLOCK_ID_MAX: usize = 64;

impl BlobService {
    /// Put Block.
    pub(super) async fn put_block(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        let (id, lease) = (block_id(call)?, call.lease()?);
        let declared = Declared::from_headers(call.headers())?;
        if call.body.length() == 0 {
            return Err(Fault::invalid_header(headers::CONTENT_LENGTH, "0").into());
        }
        let max = put_block_max(call.version);
        let Received { body, sums } =
            receive(call.body, self.store.upload(), max, declared, Wanted::Crc64).await?;
        self.store.put_block(at, &id, body, lease).await?;
        let reply = Reply::created().fixed(headers::REQUEST_SERVER_ENCRYPTED, "false");
        Ok(sums_headers(reply, &sums).empty())
    }

    /// Put Block List.
    pub(super) async fn put_block_list(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let declared = Declared::from_headers(call.headers())?;
        // The request's own Content-Type is that of the list.
        let new = new_content(call, false)?;
        let body = call.whole_body(BLOCK_LIST_MAX).await?;
        let sums = Sums::of(&body, Wanted::Md5AndCrc64);
        sums.check(&declared)?;
        let list = parse_list(&body)?;
        let blob = self.store.put_block_list(at, &list, new, &conditions).await?;
        Ok(sums_headers(put_reply(&blob), &Sums { md5: declared.md5, ..sums }).empty())
    }

    /// Get Block List.
    pub(super) async fn get_block_list(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let (committed, uncommitted) = match call.query.filled("blocklisttype") {
            None => (true, false),
            Some(text) if text.eq_ignore_ascii_case("committed") => (true, false),
            Some(text) if text.eq_ignore_ascii_case("uncommitted") => (false, true),
            Some(text) if text.eq_ignore_ascii_case("all") => (true, true),
            Some(text) => return Err(Fault::invalid_query("blocklisttype", text).into()),
        };
        let report = self.store.get_block_list(at, &call.lease_and_tags()?).await?;
        let lines = |wanted: bool, list: &[(BlockId, u64)]| {
            wanted.then(|| list.iter().map(|(id, size)| (id.0.clone(), *size)).collect::<Vec<_>>())
        };
        let body = xml::block_list_report(
            lines(committed, &report.committed).as_deref(),
            lines(uncommitted, &report.uncommitted).as_deref(),
        );
        let mut reply = Reply::ok();
        if let Some(blob) = &report.properties {
            reply = reply.version(blob.etag, blob.modified);
        }
        let size = report.properties.as_ref().map_or(0, |blob| blob.size);
        Ok(reply.number(headers::BLOB_CONTENT_LENGTH, size).xml(body))
    }
}

/// The block id in the query.
pub(super) fn block_id(call: &Call<'_>) -> Result<BlockId> {
    let text = call.query.filled("blockid").ok_or_else(|| Fault::missing_query("blockid"))?;
    let id = STANDARD.decode(text).map_err(|_| Fault::invalid_query("blockid", text))?;
    if id.is_empty() || id.len() > BLOCK_ID_MAX {
        return Err(Fault::new(ErrorCode::OutOfRangeInput)
            .with("QueryParameterName", "blockid")
            .saying("A block id has 1 to 64 bytes before its encoding.")
            .into());
    }
    Ok(BlockId(id))
}

fn parse_list(body: &[u8]) -> Result<Vec<BlockListEntry>> {
    let entry = |(kind, id): (xml::BlockWhere, Vec<u8>)| BlockListEntry {
        kind: match kind {
            xml::BlockWhere::Committed => BlockKind::Committed,
            xml::BlockWhere::Uncommitted => BlockKind::Uncommitted,
            xml::BlockWhere::Latest => BlockKind::Latest,
        },
        id: BlockId(id),
    };
    Ok(xml::parse_block_list(body)?.into_iter().map(entry).collect())
}
