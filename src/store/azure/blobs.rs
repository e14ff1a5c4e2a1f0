//! Whole blobs: put, get, properties, metadata, tier, tags, delete, snapshots.

use std::sync::Arc;

use http::Method;

use super::AzureStore;
use super::answers::{Reader, WRITE_TOKEN, kind_name, nonsense, number_of, tier_name};
use super::client::{Answer, Call, Payload};
use super::conditions::is_conditional;
use crate::share::lease::{Lease, LeaseState};
use crate::store::{
    AccessTier, BlobBody, BlobDownload, BlobKind, BlobPath, BlobProperties, BlobStream, BlobTier, ByteRange,
    DeleteSnapshots, HttpHeaders, Metadata, NewContent, PAGE_BYTES, Preconditions, PropertiesChange, Result,
    SequenceUpdate, SnapshotId, StoreError, Tags,
};
use crate::wire::range::{RequestedRange, parse_content_range};
use crate::wire::{ErrorCode, Fault, checksum, date, headers, tags, xml};

/// A write that replaces a blob: what will be there if it succeeds.
pub(super) struct Replacing {
    pub(super) kind: BlobKind,
    pub(super) size: u64,
    pub(super) sequence_number: u64,
}

impl Call {
    /// With everything that replaces a blob's own together with its content.
    pub(super) fn new_content(self, new: &NewContent) -> Result<Self> {
        let tags = (!new.tags.is_empty()).then(|| tags::to_header(&pairs(&new.tags)));
        self.metadata(&new.metadata)?
            .blob_headers(&new.headers, new.content_md5)?
            .maybe_header(headers::TAGS, tags)?
            .maybe_header(headers::ACCESS_TIER, new.tier.map(tier_name))
    }

    /// With the headers that are stored with a blob.
    pub(super) fn blob_headers(self, stored: &HttpHeaders, md5: Option<[u8; 16]>) -> Result<Self> {
        self.maybe_header(headers::BLOB_CONTENT_TYPE, stored.content_type.as_ref())?
            .maybe_header(headers::BLOB_CONTENT_ENCODING, stored.content_encoding.as_ref())?
            .maybe_header(headers::BLOB_CONTENT_LANGUAGE, stored.content_language.as_ref())?
            .maybe_header(headers::BLOB_CONTENT_DISPOSITION, stored.content_disposition.as_ref())?
            .maybe_header(headers::BLOB_CACHE_CONTROL, stored.cache_control.as_ref())?
            .maybe_header(headers::BLOB_CONTENT_MD5, md5.map(|md5| checksum::md5_text(&md5)))
    }

    /// With a new token in the metadata that tells whether a write was ours, if the write may be refused because of
    /// its own success: under a condition, or because its staged blocks are used up.
    pub(super) fn write_token(self, conditions: &Preconditions) -> Result<(Self, Option<String>)> {
        if !is_conditional(conditions) && !self.is_about("blocklist") {
            return Ok((self, None));
        }
        let token = uuid::Uuid::new_v4().simple().to_string();
        let call = self.header(&format!("{}{WRITE_TOKEN}", headers::META_PREFIX), &token)?;
        Ok((call, Some(token)))
    }

    /// About a snapshot, if there is one.
    pub(super) fn snapshot(self, snapshot: Option<SnapshotId>) -> Self {
        self.maybe_query("snapshot", snapshot.map(|id| date::iso_ticks(id.0)))
    }
}

impl AzureStore {
    pub(super) async fn put(
        &self,
        at: &BlobPath,
        body: BlobBody,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let replacing = Replacing { kind: BlobKind::Block, size: body.size(), sequence_number: 0 };
        let call =
            Call::new(Method::PUT, at).header(headers::BLOB_TYPE, kind_name(BlobKind::Block))?.body(body);
        self.replace(call, at, new, replacing, conditions).await
    }

    /// Sends a write that replaces a blob. If its answer is lost, the token in the metadata tells whether what is
    /// there afterwards is ours.
    pub(super) async fn replace(
        &self,
        call: Call,
        at: &BlobPath,
        new: NewContent,
        replacing: Replacing,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let (call, token) = call.new_content(&new)?.conditions(conditions)?.write_token(conditions)?;
        match self.client.send(&call).await {
            Ok(answer) => made(at, &answer, new, &replacing, conditions).map(Arc::new),
            Err(failure) => {
                let ours = match &token {
                    Some(token) if failure.lost => self.written_with(at, token).await,
                    _ => None,
                };
                ours.map(Arc::new).ok_or_else(|| failure.about(at))
            }
        }
    }

    /// The blob, if the write with this token made it.
    pub(super) async fn written_with(&self, at: &BlobPath, token: &str) -> Option<BlobProperties> {
        let answer = self.client.send(&Call::new(Method::HEAD, at)).await.ok()?;
        let reader = Reader(&answer.headers);
        (reader.write_token() == Some(token)).then(|| reader.blob(at).ok())?
    }

    pub(super) async fn get(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<BlobDownload> {
        let wanted = range.map(|range| RequestedRange {
            first: range.start,
            last: range.length.map(|length| range.start.saturating_add(length.max(1)) - 1),
        });
        let call = Call::new(Method::GET, at)
            .snapshot(snapshot)
            .maybe_header(headers::X_MS_RANGE, wanted.map(RequestedRange::to_text))?
            .conditions(conditions)?;
        let answer = match self.client.send(&call).await {
            Ok(answer) => answer,
            Err(failure) if failure.code() == Some(ErrorCode::InvalidRange) => {
                let blob = self.properties(at, snapshot, conditions).await?;
                return Err(StoreError::InvalidRange { size: blob.size });
            }
            Err(failure) => return Err(failure.about(at)),
        };
        let reader = Reader(&answer.headers);
        let offset =
            reader.text(headers::CONTENT_RANGE).and_then(parse_content_range).map_or(0, |(first, _)| first);
        let mut properties = reader.blob(at)?;
        self.complete(at, snapshot, &answer, &mut properties).await?;
        let mut body = answer.body;
        if let Some(length) = range.and_then(|range| range.length) {
            body.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        Ok(BlobDownload { properties: Arc::new(properties), offset, body })
    }

    /// A part of a blob as it comes. Tags are not asked for.
    pub(super) async fn stream(
        &self,
        at: &BlobPath,
        range: ByteRange,
        conditions: &Preconditions,
    ) -> Result<BlobStream> {
        let wanted = RequestedRange {
            first: range.start,
            last: range.length.map(|length| range.start.saturating_add(length.max(1)) - 1),
        };
        let call = Call::new(Method::GET, at)
            .header(headers::X_MS_RANGE, wanted.to_text())?
            .conditions(conditions)?
            .piecewise();
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(at))?;
        let reader = Reader(&answer.headers);
        let offset =
            reader.text(headers::CONTENT_RANGE).and_then(parse_content_range).map_or(0, |(first, _)| first);
        let properties = Arc::new(reader.blob(at)?);
        let coming = answer.coming.ok_or_else(|| nonsense("no body"))?;
        Ok(BlobStream { properties, offset, pieces: Box::pin(coming.pieces()) })
    }

    pub(super) async fn properties(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let call = Call::new(Method::HEAD, at).snapshot(snapshot).conditions(conditions)?;
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(at))?;
        let mut properties = Reader(&answer.headers).blob(at)?;
        self.complete(at, snapshot, &answer, &mut properties).await?;
        Ok(Arc::new(properties))
    }

    /// Asks for the tags, if there are any: answers only count them.
    async fn complete(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        answer: &Answer,
        properties: &mut BlobProperties,
    ) -> Result<()> {
        if Reader(&answer.headers).number(headers::TAG_COUNT).unwrap_or_default() > 0 {
            let call = Call::new(Method::GET, at).query("comp", "tags").snapshot(snapshot);
            let answer = self.client.send(&call).await.map_err(|failure| failure.about(at))?;
            properties.tags =
                Tags::new(xml::parse_tags_body(&answer.body).map_err(|fault| unreadable(&fault))?)?;
        }
        Ok(())
    }

    /// Sends a change, and tells what is there afterwards.
    pub(super) async fn change(&self, at: &BlobPath, call: &Call) -> Result<Arc<BlobProperties>> {
        self.client.send(call).await.map_err(|failure| failure.about(at))?;
        self.properties(at, None, &Preconditions::default()).await
    }

    pub(super) async fn set_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let call = Call::new(Method::PUT, at)
            .query("comp", "metadata")
            .metadata(&metadata)?
            .conditions(conditions)?;
        let (call, token) = call.write_token(conditions)?;
        match (self.client.send(&call).await, token) {
            (Err(failure), Some(token)) if failure.lost => {
                self.written_with(at, &token).await.map(Arc::new).ok_or_else(|| failure.about(at))
            }
            (Err(failure), _) => Err(failure.about(at)),
            (Ok(_), _) => self.properties(at, None, &Preconditions::default()).await,
        }
    }

    pub(super) async fn set_properties(
        &self,
        at: &BlobPath,
        change: PropertiesChange,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        if change.size.is_some_and(|size| !size.is_multiple_of(PAGE_BYTES)) {
            return Err(StoreError::InvalidPageRange);
        }
        let mut call = Call::new(Method::PUT, at).query("comp", "properties").conditions(conditions)?;
        if let Some((stored, md5)) = &change.headers {
            call = call.blob_headers(stored, *md5)?;
        }
        call = call.maybe_header(headers::BLOB_CONTENT_LENGTH, change.size.map(|size| size.to_string()))?;
        let (action, number) = match change.sequence {
            None => (None, None),
            Some(SequenceUpdate::Max(number)) => (Some("max"), Some(number)),
            Some(SequenceUpdate::Update(number)) => (Some("update"), Some(number)),
            Some(SequenceUpdate::Increment) => (Some("increment"), None),
        };
        call = call
            .maybe_header(headers::SEQUENCE_NUMBER_ACTION, action)?
            .maybe_header(headers::BLOB_SEQUENCE_NUMBER, number.map(|number| number.to_string()))?;
        let call = once_if_conditional(call, conditions);
        let call = if change.sequence == Some(SequenceUpdate::Increment) { call.once() } else { call };
        self.change(at, &call).await
    }

    pub(super) async fn set_tier(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        tier: AccessTier,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let call = Call::new(Method::PUT, at)
            .query("comp", "tier")
            .snapshot(snapshot)
            .header(headers::ACCESS_TIER, tier_name(tier))?
            .lease_and_tags(conditions)?;
        self.client.send(&call).await.map_err(|failure| failure.about(at))?;
        self.properties(at, snapshot, &Preconditions::default()).await
    }

    pub(super) async fn set_tags(
        &self,
        at: &BlobPath,
        tags: &Tags,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let call = Call::new(Method::PUT, at)
            .query("comp", "tags")
            .lease_and_tags(conditions)?
            .body(Payload::Bytes(xml::tags_body(&pairs(tags)).into()));
        self.change(at, &call).await
    }

    pub(super) async fn remove(
        &self,
        at: &BlobPath,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        let which = match snapshots {
            DeleteSnapshots::Refuse => None,
            DeleteSnapshots::Include => Some("include"),
            DeleteSnapshots::Only => Some("only"),
        };
        let call = Call::new(Method::DELETE, at)
            .maybe_header(headers::DELETE_SNAPSHOTS, which)?
            .conditions(conditions)?;
        self.removed(at, &call).await
    }

    pub(super) async fn remove_snapshot(
        &self,
        at: &BlobPath,
        snapshot: SnapshotId,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.removed(at, &Call::new(Method::DELETE, at).snapshot(Some(snapshot)).conditions(conditions)?)
            .await
    }

    /// Sends a delete. One that finds nothing after an attempt whose answer was lost has done its work.
    async fn removed(&self, at: &BlobPath, call: &Call) -> Result<()> {
        match self.client.send(call).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.lost && self.is_gone(at).await => Ok(()),
            Err(failure) => Err(failure.about(at)),
        }
    }

    async fn is_gone(&self, at: &BlobPath) -> bool {
        let found = self.properties(at, None, &Preconditions::default()).await;
        matches!(found, Err(StoreError::BlobNotFound(_)))
    }

    pub(super) async fn snapshot(
        &self,
        at: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<(SnapshotId, Arc<BlobProperties>)> {
        let call = Call::new(Method::PUT, at)
            .query("comp", "snapshot")
            .metadata(&metadata.unwrap_or_default())?
            .conditions(conditions)?
            .once();
        let answer = self.client.send(&call).await.map_err(|failure| failure.about(at))?;
        let id = Reader(&answer.headers).text(headers::SNAPSHOT).and_then(date::parse_iso);
        let id = SnapshotId(id.ok_or_else(|| nonsense("no snapshot id"))?);
        Ok((id, self.properties(at, Some(id), &Preconditions::default()).await?))
    }
}

/// A conditional change without a token cannot be told from its repetition.
fn once_if_conditional(call: Call, conditions: &Preconditions) -> Call {
    if is_conditional(conditions) { call.once() } else { call }
}

/// What a write that succeeded made: what was sent, with what the answer says.
fn made(
    at: &BlobPath,
    answer: &Answer,
    new: NewContent,
    replacing: &Replacing,
    conditions: &Preconditions,
) -> Result<BlobProperties> {
    let reader = Reader(&answer.headers);
    let modified = reader.modified()?;
    let computed = || reader.text(headers::CONTENT_MD5).and_then(checksum::parse_md5);
    Ok(BlobProperties {
        id: number_of(&at.container, at.name.as_str()),
        etag: reader.etag()?,
        kind: replacing.kind,
        size: replacing.size,
        created: modified,
        modified,
        metadata: new.metadata,
        headers: new.headers,
        content_md5: new.content_md5.or_else(computed),
        lease: match conditions.lease {
            Some(_) => Lease::observed(LeaseState::Leased, false, super::client::now()),
            None => Lease::default(),
        },
        tier: new.tier.map(|tier| BlobTier { tier, changed: None }),
        tags: new.tags,
        copy: None,
        sequence_number: replacing.sequence_number,
        appended_blocks: 0,
        sealed: false,
    })
}

pub(super) fn pairs(tags: &Tags) -> std::collections::BTreeMap<String, String> {
    tags.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A body of the service that cannot be read.
pub(super) fn unreadable(fault: &Fault) -> StoreError {
    nonsense(&format!("a body that cannot be read ({fault})"))
}
