//! Staged blocks and block lists.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;

use super::AzureStore;
use super::blobs::{Replacing, unreadable};
use super::client::{Call, Payload};
use crate::share::lease::LeaseId;
use crate::store::{
    BlobBody, BlobKind, BlobPath, BlobProperties, BlockId, BlockKind, BlockListEntry, BlockReport, ByteRange,
    CopySource, Limit, NewContent, Preconditions, Result, StoreError,
};
use crate::wire::range::RequestedRange;
use crate::wire::xml::{self, BlockWhere};
use crate::wire::{checksum, headers};

/// The most blocks of a list.
const MAX_BLOCKS: usize = 50_000;

fn staging(at: &BlobPath, id: &BlockId, lease: Option<LeaseId>) -> Result<Call> {
    if id.0.is_empty() || id.0.len() > 64 {
        return Err(StoreError::InvalidBlockId);
    }
    Call::new(Method::PUT, at).query("comp", "block").query("blockid", STANDARD.encode(&id.0)).lease(lease)
}

impl AzureStore {
    pub(super) async fn stage(
        &self,
        at: &BlobPath,
        id: &BlockId,
        body: BlobBody,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        // The service refuses a block that did not come as it was sent.
        let sum = body.md5().map(|md5| checksum::md5_text(&md5));
        let call = staging(at, id, lease)?.maybe_header(headers::CONTENT_MD5, sum)?.body(body);
        self.client.send(&call).await.map_err(|failure| failure.about(at)).map(|_| ())
    }

    pub(super) async fn stage_from(
        &self,
        at: &BlobPath,
        id: &BlockId,
        source: &CopySource,
        range: Option<ByteRange>,
        lease: Option<LeaseId>,
    ) -> Result<u64> {
        let found = self.properties(&source.at, source.snapshot, &Preconditions::default()).await?;
        let start = range.map_or(0, |range| range.start);
        if start > 0 && start >= found.size {
            return Err(StoreError::InvalidRange { size: found.size });
        }
        let rest = found.size - start;
        let size = range.and_then(|range| range.length).map_or(rest, |length| length.min(rest));
        let wanted = range.map(|range| RequestedRange {
            first: range.start,
            last: Some(start.saturating_add(size).saturating_sub(1)),
        });
        let url = self.client.source_url(&source.at, source.snapshot.map(|id| id.0), true)?;
        let call = staging(at, id, lease)?
            .header(headers::COPY_SOURCE, url)?
            .maybe_header(headers::SOURCE_RANGE, wanted.map(RequestedRange::to_text))?
            .source_conditions(&source.conditions)?;
        self.client.send(&call).await.map_err(|failure| failure.about(at))?;
        Ok(size)
    }

    pub(super) async fn commit(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        if list.len() > MAX_BLOCKS {
            return Err(StoreError::LimitExceeded(Limit::BlockList));
        }
        let entry = |entry: &BlockListEntry| {
            let place = match entry.kind {
                BlockKind::Committed => BlockWhere::Committed,
                BlockKind::Uncommitted => BlockWhere::Uncommitted,
                BlockKind::Latest => BlockWhere::Latest,
            };
            (place, entry.id.0.clone())
        };
        let entries: Vec<_> = list.iter().map(entry).collect();
        let body = xml::block_list(entries.iter().map(|(place, id)| (*place, id.as_slice())));
        let call = Call::new(Method::PUT, at).query("comp", "blocklist").body(Payload::Bytes(body.into()));
        let replacing = Replacing { kind: BlobKind::Block, size: 0, sequence_number: 0 };
        // The service does not check an MD5 of the whole here, and the answer's is that of the list.
        let stored_md5 = new.content_md5;
        let made = self.replace(call, at, new, replacing, conditions).await?;
        // How long the content is only the service knows.
        let now = self.properties(at, None, &Preconditions::default()).await?;
        if now.etag == made.etag {
            return Ok(now);
        }
        Ok(Arc::new(BlobProperties { content_md5: stored_md5, ..(*made).clone() }))
    }

    pub(super) async fn blocks(&self, at: &BlobPath, conditions: &Preconditions) -> Result<BlockReport> {
        let call = Call::new(Method::GET, at)
            .query("comp", "blocklist")
            .query("blocklisttype", "all")
            .lease_and_tags(conditions)?;
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(at))?;
        let (committed, uncommitted) =
            xml::parse_block_list_report(&answer.body).map_err(|fault| unreadable(&fault))?;
        let properties = match self.properties(at, None, &Preconditions::default()).await {
            Ok(properties) => Some(properties),
            Err(StoreError::BlobNotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let named =
            |list: Vec<(Vec<u8>, u64)>| list.into_iter().map(|(id, size)| (BlockId(id), size)).collect();
        Ok(BlockReport { committed: named(committed), uncommitted: named(uncommitted), properties })
    }
}
