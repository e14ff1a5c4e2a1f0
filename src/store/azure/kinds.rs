//! Append blobs and page blobs.

use std::ops::Range;
use std::sync::Arc;

use http::Method;

use super::AzureStore;
use super::answers::{Reader, kind_name, nonsense};
use super::blobs::{Replacing, unreadable};
use super::client::Call;
use crate::store::{
    AppendConditions, Appended, BlobBody, BlobKind, BlobPath, BlobProperties, ByteRange, NewContent,
    PAGE_BYTES, PageRange, PageRanges, Preconditions, Result, SequenceConditions, SnapshotId, StoreError,
};
use crate::wire::range::RequestedRange;
use crate::wire::{ErrorCode, date, headers, xml};

impl AzureStore {
    pub(super) async fn create_append(
        &self,
        at: &BlobPath,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let call = Call::new(Method::PUT, at).header(headers::BLOB_TYPE, kind_name(BlobKind::Append))?;
        let replacing = Replacing { kind: BlobKind::Append, size: 0, sequence_number: 0 };
        self.replace(call, at, new, replacing, conditions).await
    }

    pub(super) async fn create_pages(
        &self,
        at: &BlobPath,
        size: u64,
        sequence_number: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        if !size.is_multiple_of(PAGE_BYTES) {
            return Err(StoreError::InvalidPageRange);
        }
        let call = Call::new(Method::PUT, at)
            .header(headers::BLOB_TYPE, kind_name(BlobKind::Page))?
            .header(headers::BLOB_CONTENT_LENGTH, size.to_string())?
            .header(headers::BLOB_SEQUENCE_NUMBER, sequence_number.to_string())?;
        let replacing = Replacing { kind: BlobKind::Page, size, sequence_number };
        self.replace(call, at, new, replacing, conditions).await
    }

    /// Appends once. An append whose answer was lost is repeated only under a condition on the position, and one that
    /// then finds the blob exactly so much longer was there already.
    pub(super) async fn append(
        &self,
        at: &BlobPath,
        body: BlobBody,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Appended> {
        let size = body.size();
        let call = Call::new(Method::PUT, at)
            .query("comp", "appendblock")
            .append_conditions(append)?
            .conditions(conditions)?
            .body(body);
        let call = if append.position.is_some() { call } else { call.once() };
        let offset = match self.client.send(&call).await {
            Ok(answer) => Reader(&answer.headers).number(headers::BLOB_APPEND_OFFSET),
            Err(failure) if failure.lost && is_own_append(failure.code()) => {
                let found = self.properties(at, None, &Preconditions::default()).await?;
                match append.position {
                    Some(position) if found.size == position.saturating_add(size) => Some(position),
                    _ => return Err(failure.about(at)),
                }
            }
            Err(failure) => return Err(failure.about(at)),
        };
        let offset = offset.ok_or_else(|| nonsense("no offset of an append"))?;
        Ok(Appended { offset, properties: self.properties(at, None, &Preconditions::default()).await? })
    }

    pub(super) async fn seal(
        &self,
        at: &BlobPath,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let call = Call::new(Method::PUT, at)
            .query("comp", "seal")
            .append_conditions(append)?
            .conditions(conditions)?;
        self.change(at, &call).await
    }

    pub(super) async fn write_pages(
        &self,
        at: &BlobPath,
        offset: u64,
        body: BlobBody,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let range = offset..offset.saturating_add(body.size());
        let call = page_call(at, &range, "update", sequence, conditions)?.body(body);
        self.change(at, &call).await
    }

    pub(super) async fn zero_pages(
        &self,
        at: &BlobPath,
        range: &Range<u64>,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.change(at, &page_call(at, range, "clear", sequence, conditions)?).await
    }

    pub(super) async fn pages(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        since: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<PageRanges> {
        let wanted = range.map(|range| RequestedRange {
            first: range.start,
            last: range.length.map(|length| range.start.saturating_add(length).saturating_sub(1)),
        });
        let mut ranges = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let call = Call::new(Method::GET, at)
                .query("comp", "pagelist")
                .snapshot(snapshot)
                .maybe_query("prevsnapshot", since.map(|id| date::iso_ticks(id.0)))
                .maybe_query("marker", marker)
                .maybe_header(headers::X_MS_RANGE, wanted.map(RequestedRange::to_text))?
                .conditions(conditions)?;
            let answer = self.client.send(&call).await.map_err(|failure| failure.about(at))?;
            let (lines, next) = xml::parse_page_list(&answer.body).map_err(|fault| unreadable(&fault))?;
            ranges.extend(lines.iter().map(|line| PageRange {
                range: line.start..line.end.saturating_add(1),
                cleared: line.clear,
            }));
            if next.is_none() {
                break;
            }
            marker = next;
        }
        let properties = self.properties(at, snapshot, &Preconditions::default()).await?;
        Ok(PageRanges { properties, ranges })
    }
}

fn is_own_append(code: Option<ErrorCode>) -> bool {
    matches!(code, Some(ErrorCode::AppendPositionConditionNotMet | ErrorCode::ConditionNotMet))
}

/// Whole pages only, checked here because an empty or crooked range has no words on the wire.
fn page_call(
    at: &BlobPath,
    range: &Range<u64>,
    action: &str,
    sequence: SequenceConditions,
    conditions: &Preconditions,
) -> Result<Call> {
    let whole = |number: u64| number.is_multiple_of(PAGE_BYTES);
    if range.is_empty() || !whole(range.start) || !whole(range.end) {
        return Err(StoreError::InvalidPageRange);
    }
    let text = RequestedRange { first: range.start, last: Some(range.end - 1) }.to_text();
    Call::new(Method::PUT, at)
        .query("comp", "page")
        .header(headers::PAGE_WRITE, action)?
        .header(headers::X_MS_RANGE, text)?
        .sequence_conditions(sequence)?
        .conditions(conditions)
}
