//! Operations that take their content from a URL: Copy Blob, Copy Blob From URL, Put Blob From URL, and the pieces of
//! block, append and page blobs.

use super::BlobService;
use super::append::{append_conditions, append_max, appended_reply};
use super::blocks::block_id;
use super::call::Call;
use super::failure::{Failure, Result};
use super::pages::{PAGES_MAX, page_range, page_reply, sequence_conditions};
use super::put::{new_content, put_blob_max, put_block_max, put_reply, sums_headers};
use super::receive::Received;
use super::source::{CopyFrom, Fetched, SourceRight};
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::rest::sources::without_query;
use crate::store::{
    BlobPath, BlobProperties, CopyRequest, CopySource, CopyState, HttpHeaders, NewContent, Preconditions,
    StoreError, Tags,
};
use crate::wire::checksum::{Declared, Sums, Wanted};
use crate::wire::range::RequestedRange;
use crate::wire::{ErrorCode, Fault, headers};

const MIB: u64 = 1024 * 1024;
/// The longest source of Copy Blob From URL.
const SYNC_COPY_MAX: u64 = 256 * MIB;

impl BlobService {
    /// Copy Blob. The real service may take its time; here the copy is done when this answers.
    pub(super) async fn copy_blob(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        let source = self.source(call, SourceRight::BySignature).await?;
        let id = uuid::Uuid::new_v4().to_string();
        let blob = match source {
            CopyFrom::Own(own) => {
                let request = CopyRequest {
                    record: Some((id.clone(), shown_source(call)?)),
                    metadata: call.metadata_if_any()?,
                    headers: None,
                    tags: call.tags()?,
                    tier: call.tier()?,
                    seal: headers::flag(call.headers(), headers::SEAL_BLOB)?,
                    infinite_lease: true,
                };
                self.copy_own(call, &own, at, request).await?
            }
            elsewhere @ (CopyFrom::Neighbour(..) | CopyFrom::Elsewhere(_)) => {
                self.copy_elsewhere(call, &elsewhere, at, &id, put_blob_max(call.version)).await?.0
            }
        };
        Ok(copied_reply(&blob, &id).empty())
    }

    /// Copy Blob From URL: the same while the client waits, with a source that needs a right of its own.
    pub(super) async fn copy_blob_from_url(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        let source = self.source(call, SourceRight::ByUrl).await?;
        let id = uuid::Uuid::new_v4().to_string();
        let declared = Declared::of_source(call.headers())?;
        let (blob, sums) = match source {
            CopyFrom::Own(own) if declared == Declared::default() => {
                let size = self.store.blob_properties(&own.at, own.snapshot, &Preconditions::default()).await;
                if size.is_ok_and(|blob| blob.size > SYNC_COPY_MAX) {
                    return Err(Fault::new(ErrorCode::RequestBodyTooLarge).into());
                }
                let request = CopyRequest {
                    record: Some((id.clone(), shown_source(call)?)),
                    metadata: call.metadata_if_any()?,
                    headers: None,
                    tags: self.copied_tags(call, &own).await?,
                    tier: call.tier()?,
                    seal: false,
                    infinite_lease: false,
                };
                (self.copy_own(call, &own, at, request).await?, None)
            }
            source => {
                let (blob, sums) = self.copy_elsewhere(call, &source, at, &id, SYNC_COPY_MAX).await?;
                (blob, Some(sums))
            }
        };
        let reply = copied_reply(&blob, &id);
        Ok(match sums {
            Some(sums) => sums_headers(reply, &sums),
            None => reply,
        }
        .empty())
    }

    /// Put Blob From URL.
    pub(super) async fn put_blob_from_url(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        call.refuse_unsupported()?;
        let kind = headers::required(call.headers(), headers::BLOB_TYPE)?;
        if kind != "BlockBlob" {
            return Err(Fault::invalid_header(headers::BLOB_TYPE, kind).into());
        }
        refuse_body(call)?;
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let source = self.source(call, SourceRight::ByUrl).await?;
        let max = put_blob_max(call.version);
        let fetched = self.fetch(call, &source, None, max, Wanted::Md5AndCrc64).await?;
        let mut new = new_content(call, false)?;
        let keep = call
            .header(headers::COPY_SOURCE_BLOB_PROPERTIES)?
            .is_none_or(|text| !text.eq_ignore_ascii_case("false"));
        if keep {
            new.headers = filled(new.headers, &fetched.headers);
        }
        if copies_tags(call)? {
            new.tags = fetched.tags.clone();
        }
        let (blob, sums) = self.store_fetched(at, fetched, new, &conditions).await?;
        Ok(sums_headers(put_reply(&blob), &sums).empty())
    }

    /// Put Block From URL.
    pub(super) async fn put_block_from_url(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        refuse_body(call)?;
        let (id, lease) = (block_id(call)?, call.lease()?);
        let source = self.source(call, SourceRight::ByUrl).await?;
        let range = source_range(call)?;
        let fetched = self.fetch(call, &source, range, put_block_max(call.version), Wanted::Crc64).await?;
        let Received { body, sums } = fetched.received;
        self.store.put_block(at, &id, body, lease).await?;
        let reply = Reply::created().fixed(headers::REQUEST_SERVER_ENCRYPTED, "false");
        Ok(sums_headers(reply, &sums).empty())
    }

    /// Append Block From URL.
    pub(super) async fn append_block_from_url(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        refuse_body(call)?;
        let (conditions, append) = (call.write_conditions()?, append_conditions(call)?);
        let source = self.source(call, SourceRight::ByUrl).await?;
        let range = source_range(call)?;
        let fetched = self.fetch(call, &source, range, append_max(call.version), Wanted::Crc64).await?;
        let Received { body, sums } = fetched.received;
        let appended = self.store.append_block(at, body, append, &conditions).await?;
        Ok(sums_headers(appended_reply(&appended), &sums).empty())
    }

    /// Put Page From URL.
    pub(super) async fn put_page_from_url(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_unsupported()?;
        refuse_body(call)?;
        let (conditions, sequence) = (call.write_conditions()?, sequence_conditions(call)?);
        let target = page_range(call)?;
        let range = source_range(call)?.ok_or_else(|| Fault::missing_header(headers::SOURCE_RANGE))?;
        if range.length() != Some(target.end - target.start) {
            return Err(Fault::invalid_header(headers::SOURCE_RANGE, range.to_text()).into());
        }
        let source = self.source(call, SourceRight::ByUrl).await?;
        let fetched = self.fetch(call, &source, Some(range), PAGES_MAX, Wanted::Crc64).await?;
        let Received { body, sums } = fetched.received;
        let blob = self.store.put_pages(at, target.start, body, sequence, &conditions).await?;
        Ok(sums_headers(page_reply(&blob), &sums).empty())
    }

    /// Abort Copy Blob. Copies are done when they are answered, so there is never one to end.
    pub(super) async fn abort_copy(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        match headers::required(call.headers(), headers::COPY_ACTION)? {
            text if text.eq_ignore_ascii_case("abort") => {}
            text => return Err(Fault::invalid_header(headers::COPY_ACTION, text).into()),
        }
        let id = call.query.filled("copyid").ok_or_else(|| Fault::missing_query("copyid"))?;
        self.store.abort_copy(at, id, call.lease()?).await?;
        Ok(Reply::new(http::StatusCode::NO_CONTENT).empty())
    }

    async fn copy_own(
        &self,
        call: &Call<'_>,
        own: &super::source::OwnSource,
        at: &BlobPath,
        request: CopyRequest,
    ) -> Result<std::sync::Arc<BlobProperties>> {
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let of_source = call.source_conditions()?;
        self.check_source(own, &of_source).await?;
        let source = CopySource { at: own.at.clone(), snapshot: own.snapshot, conditions: of_source };
        self.store.copy_blob(&source, at, request, &conditions).await.map_err(about_target)
    }

    /// A copy whose bytes go through this process.
    async fn copy_elsewhere(
        &self,
        call: &Call<'_>,
        source: &CopyFrom,
        at: &BlobPath,
        id: &str,
        max: u64,
    ) -> Result<(std::sync::Arc<BlobProperties>, Sums)> {
        let conditions = self.overwrite_conditions(call, call.write_conditions()?)?;
        let fetched = self.fetch(call, source, None, max, Wanted::Md5AndCrc64).await?;
        let copy = CopyState {
            id: id.to_owned(),
            source: shown_source(call)?,
            bytes: fetched.received.sums.length,
            completed: call.now,
        };
        let new = NewContent {
            metadata: call.metadata_if_any()?.unwrap_or_else(|| fetched.metadata.clone()),
            headers: fetched.headers.clone(),
            content_md5: None,
            tags: if copies_tags(call)? { fetched.tags.clone() } else { call.tags()? },
            tier: call.tier()?,
            copy: Some(copy),
        };
        match self.store_fetched(at, fetched, new, &conditions).await {
            Err(Failure::Refused(fault)) if fault.code == ErrorCode::ConditionNotMet => {
                Err(ErrorCode::TargetConditionNotMet.into())
            }
            other => other,
        }
    }

    /// Makes fetched content a block blob.
    async fn store_fetched(
        &self,
        at: &BlobPath,
        fetched: Fetched,
        mut new: NewContent,
        conditions: &Preconditions,
    ) -> Result<(std::sync::Arc<BlobProperties>, Sums)> {
        let Received { body, sums } = fetched.received;
        new.content_md5 = new.content_md5.or(sums.md5);
        Ok((self.store.put_blob(at, body, new, conditions).await?, sums))
    }

    /// The tags of a copy: those given, or the source's if that is asked for.
    async fn copied_tags(&self, call: &Call<'_>, own: &super::source::OwnSource) -> Result<Tags> {
        if !copies_tags(call)? {
            return call.tags();
        }
        let blob = self.store.blob_properties(&own.at, own.snapshot, &Preconditions::default()).await?;
        Ok(blob.tags.clone())
    }
}

/// What a store's refusal means when it is about the target of a copy.
fn about_target(error: StoreError) -> Failure {
    match error {
        StoreError::ConditionNotMet => ErrorCode::TargetConditionNotMet.into(),
        other => other.into(),
    }
}

fn copies_tags(call: &Call<'_>) -> Result<bool> {
    match call.header(headers::COPY_SOURCE_TAG_OPTION)? {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("replace") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("copy") => Ok(true),
        Some(text) => Err(Fault::invalid_header(headers::COPY_SOURCE_TAG_OPTION, text).into()),
    }
}

/// The source as it is remembered with the blob: without its signature.
fn shown_source(call: &Call<'_>) -> Result<String> {
    Ok(without_query(headers::required(call.headers(), headers::COPY_SOURCE)?).to_owned())
}

fn source_range(call: &Call<'_>) -> Result<Option<RequestedRange>> {
    let Some(text) = call.header(headers::SOURCE_RANGE)? else { return Ok(None) };
    let range = RequestedRange::parse(text)?;
    Ok(Some(range.ok_or_else(|| Fault::invalid_header(headers::SOURCE_RANGE, text))?))
}

/// Headers given, and the source's where none is.
fn filled(given: HttpHeaders, source: &HttpHeaders) -> HttpHeaders {
    let source = source.clone();
    HttpHeaders {
        content_type: given.content_type.or(source.content_type),
        content_encoding: given.content_encoding.or(source.content_encoding),
        content_language: given.content_language.or(source.content_language),
        content_disposition: given.content_disposition.or(source.content_disposition),
        cache_control: given.cache_control.or(source.cache_control),
    }
}

fn refuse_body(call: &Call<'_>) -> Result<()> {
    match call.body.length() {
        0 => Ok(()),
        length => Err(Fault::invalid_header(headers::CONTENT_LENGTH, length.to_string()).into()),
    }
}

fn copied_reply(blob: &BlobProperties, id: &str) -> Reply {
    Reply::accepted()
        .version(blob.etag, blob.modified)
        .header(headers::COPY_ID, id)
        .fixed(headers::COPY_STATUS, "success")
}
