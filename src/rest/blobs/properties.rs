//! A blob's properties: how answers tell them, and the operations that set them.

use http::StatusCode;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use super::read::kind_name;
use crate::rest::leases::lease_headers;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::share::Moment;
use crate::store::{
    AccessTier, BlobKind, BlobPath, BlobProperties, HttpHeaders, PAGE_BYTES, PropertiesChange,
    SequenceUpdate, Tags,
};
use crate::wire::{ErrorCode, Fault, date, headers};

/// Largest body of Set Blob Tags.
const TAGS_BODY_MAX: u64 = 64 * 1024;

/// What a stored blob without a type is sent as.
const DEFAULT_TYPE: &str = "application/octet-stream";

/// Everything a read says about a blob besides length and checksum.
pub(super) fn blob_headers(reply: Reply, blob: &BlobProperties, now: Moment) -> Reply {
    let HttpHeaders { content_type, content_encoding, content_language, content_disposition, cache_control } =
        &blob.headers;
    let mut reply = reply
        .version(blob.etag, blob.modified)
        .header(headers::CONTENT_TYPE, content_type.as_deref().unwrap_or(DEFAULT_TYPE))
        .maybe(headers::CONTENT_ENCODING, content_encoding.as_deref())
        .maybe(headers::CONTENT_LANGUAGE, content_language.as_deref())
        .maybe(headers::CONTENT_DISPOSITION, content_disposition.as_deref())
        .maybe(headers::CACHE_CONTROL, cache_control.as_deref())
        .fixed(headers::ACCEPT_RANGES, "bytes")
        .fixed(headers::BLOB_TYPE, kind_name(blob))
        .fixed(headers::SERVER_ENCRYPTED, "false")
        .header(headers::CREATION_TIME, &date::http(blob.created))
        .metadata(&blob.metadata);
    reply = lease_headers(reply, &blob.lease, now);
    reply = match blob.kind {
        BlobKind::Block => tier_headers(reply, blob),
        BlobKind::Page => reply.number(headers::BLOB_SEQUENCE_NUMBER, blob.sequence_number),
        BlobKind::Append => {
            let reply = reply.number(headers::BLOB_COMMITTED_BLOCK_COUNT, u64::from(blob.appended_blocks));
            if blob.sealed { reply.fixed(headers::BLOB_SEALED, "true") } else { reply }
        }
    };
    if !blob.tags.is_empty() {
        reply = reply.number(headers::TAG_COUNT, blob.tags.len() as u64);
    }
    if let Some(copy) = &blob.copy {
        reply = reply
            .header(headers::COPY_ID, &copy.id)
            .header(headers::COPY_SOURCE, &copy.source)
            .fixed(headers::COPY_STATUS, "success")
            .header(headers::COPY_PROGRESS, &format!("{0}/{0}", copy.bytes))
            .header(headers::COPY_COMPLETION_TIME, &date::http(copy.completed));
    }
    reply
}

fn tier_headers(reply: Reply, blob: &BlobProperties) -> Reply {
    match blob.tier {
        None => reply
            .fixed(headers::ACCESS_TIER, tier_name(AccessTier::Hot))
            .fixed(headers::ACCESS_TIER_INFERRED, "true"),
        Some(tier) => {
            let changed = tier.changed.map(date::http);
            reply
                .fixed(headers::ACCESS_TIER, tier_name(tier.tier))
                .maybe(headers::ACCESS_TIER_CHANGE_TIME, changed.as_deref())
        }
    }
}

/// The tier's name on the wire.
pub(super) fn tier_name(tier: AccessTier) -> &'static str {
    match tier {
        AccessTier::Hot => "Hot",
        AccessTier::Cool => "Cool",
        AccessTier::Cold => "Cold",
        AccessTier::Archive => "Archive",
    }
}

impl BlobService {
    /// Set Blob Metadata.
    pub(super) async fn set_blob_metadata(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        let blob = self.store.set_blob_metadata(at, call.metadata()?, &call.write_conditions()?).await?;
        let reply = Reply::ok().version(blob.etag, blob.modified);
        Ok(reply.fixed(headers::REQUEST_SERVER_ENCRYPTED, "false").empty())
    }

    /// Set Blob Properties: headers, and for page blobs size and sequence number.
    pub(super) async fn set_blob_properties(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        let size: Option<u64> = headers::number(call.headers(), headers::BLOB_CONTENT_LENGTH)?;
        if let Some(size) = size.filter(|size| !size.is_multiple_of(PAGE_BYTES)) {
            return Err(Fault::invalid_header(headers::BLOB_CONTENT_LENGTH, size.to_string()).into());
        }
        let sequence = sequence_update(call)?;
        let stored = (call.stored_headers(false)?, call.stored_md5()?);
        let named = stored.0 != HttpHeaders::default() || stored.1.is_some();
        // Naming no header at all clears them, unless it is the size or the number that is to be set.
        let clears = size.is_none() && sequence.is_none();
        let change = PropertiesChange { headers: (named || clears).then_some(stored), size, sequence };
        let blob = self.store.set_blob_properties(at, change, &call.write_conditions()?).await?;
        let mut reply = Reply::ok().version(blob.etag, blob.modified);
        if blob.kind == BlobKind::Page {
            reply = reply.number(headers::BLOB_SEQUENCE_NUMBER, blob.sequence_number);
        }
        Ok(reply.empty())
    }

    /// Set Blob Tier.
    pub(super) async fn set_blob_tier(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let tier = call.tier()?.ok_or_else(|| Fault::missing_header(headers::ACCESS_TIER))?;
        self.store.set_blob_tier(at, call.snapshot()?, tier, &call.lease_and_tags()?).await?;
        // There is nothing to wait for, even when a blob leaves the archive.
        Ok(Reply::ok().empty())
    }

    /// Get Blob Tags.
    pub(super) async fn get_blob_tags(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        let blob = self.store.blob_properties(at, call.snapshot()?, &call.lease_and_tags()?).await?;
        let pairs = blob.tags.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Reply::ok().xml(crate::wire::xml::tags_body(&pairs)))
    }

    /// Set Blob Tags.
    pub(super) async fn set_blob_tags(&self, call: &mut Call<'_>, at: &BlobPath) -> Result<Answer> {
        call.refuse_snapshot()?;
        let conditions = call.lease_and_tags()?;
        let body = call.whole_body(TAGS_BODY_MAX).await?;
        let tags = Tags::new(crate::wire::xml::parse_tags_body(&body)?)?;
        self.store.set_blob_tags(at, tags, &conditions).await?;
        Ok(Reply::new(StatusCode::NO_CONTENT).empty())
    }
}

fn sequence_update(call: &Call<'_>) -> Result<Option<SequenceUpdate>> {
    let number = headers::number::<u64>(call.headers(), headers::BLOB_SEQUENCE_NUMBER)?;
    let Some(action) = call.header(headers::SEQUENCE_NUMBER_ACTION)? else { return Ok(None) };
    let needed = || number.ok_or_else(|| Fault::missing_header(headers::BLOB_SEQUENCE_NUMBER));
    match action.to_ascii_lowercase().as_str() {
        "max" => Ok(Some(SequenceUpdate::Max(needed()?))),
        "update" => Ok(Some(SequenceUpdate::Update(needed()?))),
        "increment" if number.is_some() => {
            Err(Fault::invalid_header(headers::BLOB_SEQUENCE_NUMBER, "not together with increment").into())
        }
        "increment" => Ok(Some(SequenceUpdate::Increment)),
        _ => Err(Fault::invalid_header(headers::SEQUENCE_NUMBER_ACTION, action).into()),
    }
}

/// The sequence number given with a new page blob.
pub(super) fn sequence_number(call: &Call<'_>) -> Result<u64> {
    let number = headers::number::<u64>(call.headers(), headers::BLOB_SEQUENCE_NUMBER)?.unwrap_or(0);
    if number > i64::MAX.unsigned_abs() {
        return Err(ErrorCode::InvalidHeaderValue.into());
    }
    Ok(number)
}
