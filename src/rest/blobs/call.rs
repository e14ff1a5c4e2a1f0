//! A request on its way to its handler: everything that was read of it once, and readers for what handlers share.

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;

use super::failure::{Failure, Result};
use super::route::Target;
use crate::rest::face::Caller;
use crate::rest::server::RequestBody;
use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::conditions::TagExpression;
use crate::store::{AccessTier, ETag, EtagMatch, HttpHeaders, Metadata, Preconditions, SnapshotId, Tags};
use crate::wire::conditions::Conditions;
use crate::wire::etag::EtagList;
use crate::wire::query::Query;
use crate::wire::version::ServiceVersion;
use crate::wire::{ErrorCode, Fault, checksum, date, headers, lease, metadata, tags};

/// Headers that ask for something this service does not have. Ignoring them would break a promise the client relies
/// on: encryption with its own key, protection from deletion, a framed body.
const REFUSED: [&str; 8] = [
    headers::ENCRYPTION_ALGORITHM,
    headers::ENCRYPTION_KEY,
    headers::ENCRYPTION_KEY_SHA256,
    headers::ENCRYPTION_SCOPE,
    headers::IMMUTABILITY_POLICY_MODE,
    headers::IMMUTABILITY_POLICY_UNTIL_DATE,
    headers::LEGAL_HOLD,
    headers::STRUCTURED_BODY,
];

/// One request, authorized.
pub(super) struct Call<'a> {
    pub(super) head: &'a Parts,
    pub(super) query: Query,
    pub(super) target: Target,
    /// The rules the client expects.
    pub(super) version: ServiceVersion,
    pub(super) body: &'a mut RequestBody,
    /// When it came.
    pub(super) now: Moment,
    /// How it came.
    pub(super) caller: Caller,
    /// What the signature allows beyond the operation itself.
    pub(super) rights: Rights,
}

/// What a caller may do besides the operation that was authorized.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    /// The caller has the account's key.
    pub(super) by_key: bool,
    /// May create, but not replace what exists.
    pub(super) create_only: bool,
    /// Answer headers that a SAS sets on reads.
    pub(super) overrides: Vec<(&'static str, String)>,
}

impl Call<'_> {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The whole body, which may have at most `max` bytes.
    pub(super) async fn whole_body(&mut self, max: u64) -> Result<bytes::Bytes> {
        Ok(self.body.whole(max).await?)
    }

    /// A header's text, if it is there and not empty.
    pub(super) fn header(&self, name: &str) -> Result<Option<&str>> {
        Ok(headers::text(self.headers(), name)?)
    }

    /// Refuses requests for what this service does not have.
    pub(super) fn refuse_unsupported(&self) -> Result<()> {
        match REFUSED.iter().find(|name| self.headers().contains_key(**name)) {
            Some(name) => Err(Fault::new(ErrorCode::UnsupportedHeader).with("HeaderName", *name).into()),
            None => match self.query.filled("versionid") {
                Some(_) => Err(Fault::new(ErrorCode::UnsupportedQueryParameter)
                    .with("QueryParameterName", "versionid")
                    .into()),
                None => Ok(()),
            },
        }
    }

    /// The snapshot the URL names.
    pub(super) fn snapshot(&self) -> Result<Option<SnapshotId>> {
        self.snapshot_named("snapshot")
    }

    /// The snapshot in a parameter of the query.
    pub(super) fn snapshot_named(&self, name: &str) -> Result<Option<SnapshotId>> {
        let Some(text) = self.query.filled(name) else { return Ok(None) };
        let moment = date::parse_iso(text).ok_or_else(|| Fault::invalid_query(name, text))?;
        Ok(Some(SnapshotId(moment)))
    }

    /// Refuses a snapshot where only the blob itself will do.
    pub(super) fn refuse_snapshot(&self) -> Result<()> {
        match self.query.filled("snapshot") {
            Some(_) => Err(ErrorCode::InvalidOperation.into()),
            None => Ok(()),
        }
    }

    /// Conditions of a read.
    pub(super) fn read_conditions(&self) -> Result<Preconditions> {
        Self::judged(&Conditions::of_read(self.headers())?, headers::IF_TAGS)
    }

    /// Conditions of a write or delete.
    pub(super) fn write_conditions(&self) -> Result<Preconditions> {
        Self::judged(&Conditions::of_write(self.headers())?, headers::IF_TAGS)
    }

    /// Conditions on the source of a copy.
    pub(super) fn source_conditions(&self) -> Result<Preconditions> {
        let conditions = Self::judged(&Conditions::of_source(self.headers())?, headers::SOURCE_IF_TAGS)?;
        Ok(conditions.without_lease())
    }

    /// Of the conditions only the lease and the tags, for operations that know no others.
    pub(super) fn lease_and_tags(&self) -> Result<Preconditions> {
        let all = self.read_conditions()?;
        Ok(Preconditions { lease: all.lease, if_tags: all.if_tags, ..Preconditions::default() })
    }

    fn judged(conditions: &Conditions, tags_header: &str) -> Result<Preconditions> {
        let if_tags = match &conditions.if_tags {
            None => None,
            Some(text) => {
                let parsed = TagExpression::condition(text).map_err(|why| {
                    Fault::invalid_header(tags_header, text.as_str()).saying(why.to_string())
                })?;
                Some(Arc::new(parsed))
            }
        };
        Ok(Preconditions {
            if_match: conditions.if_match.as_ref().map(known_etags),
            if_none_match: conditions.if_none_match.as_ref().map(known_etags),
            if_modified_since: conditions.if_modified_since,
            if_unmodified_since: conditions.if_unmodified_since,
            lease: conditions.lease,
            if_tags,
        })
    }

    /// The lease id given.
    pub(super) fn lease(&self) -> Result<Option<LeaseId>> {
        Ok(lease::id_header(self.headers(), headers::LEASE_ID)?)
    }

    pub(super) fn metadata(&self) -> Result<Metadata> {
        Ok(metadata::from_headers(self.headers())?)
    }

    /// Metadata, if any header names some.
    pub(super) fn metadata_if_any(&self) -> Result<Option<Metadata>> {
        Ok(Some(self.metadata()?).filter(|metadata| !metadata.is_empty()))
    }

    /// The headers to store: `x-ms-blob-content-type` and its kin. `or_plain` lets the request's own Content-Type and
    /// kin stand in for them, as Put Blob has it.
    pub(super) fn stored_headers(&self, or_plain: bool) -> Result<HttpHeaders> {
        let one = |name: &str, plain: &str| -> Result<Option<String>> {
            let own = self.header(name)?;
            let found = if or_plain && own.is_none() { self.header(plain)? } else { own };
            Ok(found.map(str::to_owned))
        };
        Ok(HttpHeaders {
            content_type: one(headers::BLOB_CONTENT_TYPE, headers::CONTENT_TYPE)?,
            content_encoding: one(headers::BLOB_CONTENT_ENCODING, headers::CONTENT_ENCODING)?,
            content_language: one(headers::BLOB_CONTENT_LANGUAGE, headers::CONTENT_LANGUAGE)?,
            content_disposition: one(headers::BLOB_CONTENT_DISPOSITION, headers::CONTENT_DISPOSITION)?,
            cache_control: one(headers::BLOB_CACHE_CONTROL, headers::CACHE_CONTROL)?,
        })
    }

    /// The MD5 to store with the blob.
    pub(super) fn stored_md5(&self) -> Result<Option<[u8; 16]>> {
        Ok(checksum::md5_header(self.headers(), headers::BLOB_CONTENT_MD5)?)
    }

    /// Tags given with a new blob.
    pub(super) fn tags(&self) -> Result<Tags> {
        match self.header(headers::TAGS)? {
            None => Ok(Tags::NONE),
            Some(text) => Ok(Tags::new(tags::parse_header(text)?)?),
        }
    }

    /// The tier given, if any.
    pub(super) fn tier(&self) -> Result<Option<AccessTier>> {
        let Some(text) = self.header(headers::ACCESS_TIER)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "hot" => Ok(Some(AccessTier::Hot)),
            "cool" => Ok(Some(AccessTier::Cool)),
            "cold" => Ok(Some(AccessTier::Cold)),
            "archive" => Ok(Some(AccessTier::Archive)),
            _ => Err(Failure::from(ErrorCode::InvalidBlobTier)),
        }
    }
}

/// The ETags that a blob of ours can have; the others match nothing.
fn known_etags(list: &EtagList) -> EtagMatch {
    match list.known() {
        None => EtagMatch::Any,
        Some(known) => EtagMatch::List(known.into_iter().map(|etag| ETag(etag.0)).collect()),
    }
}
