//! A request on its way to its handler: everything that was read of it once, and readers for what handlers share.

use http::HeaderMap;
use http::request::Parts;

use super::failure::Result;
use super::route::Target;
use crate::fs::requests::{SmbAttributes, SmbChange};
use crate::rest::auth::Claim;
use crate::rest::face::Caller;
use crate::rest::server::RequestBody;
use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::{HttpHeaders, Metadata, SnapshotId};
use crate::wire::query::Query;
use crate::wire::smb::{Setting, SmbSettings};
use crate::wire::version::ServiceVersion;
use crate::wire::{ErrorCode, Fault, checksum, date, headers, lease, metadata, permission};

/// Headers that ask for something this service does not have. Ignoring them would break a promise the client relies
/// on: a framed body, the owner and mode of an NFS share, conditions.
const REFUSED: [&str; 4] = [headers::STRUCTURED_BODY, "x-ms-mode", "x-ms-owner", "x-ms-group"];
/// The service has no conditions on files.
const CONDITIONS: [&str; 4] =
    [headers::IF_MATCH, headers::IF_NONE_MATCH, headers::IF_MODIFIED_SINCE, headers::IF_UNMODIFIED_SINCE];
/// The parent's permission is taken over, which is what having none means.
const INHERIT: &str = "inherit";

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
    /// By what right it came.
    pub(super) claim: Claim,
    /// May create, but not replace what exists.
    pub(super) create_only: bool,
    /// Answer headers that a SAS sets on reads.
    pub(super) overrides: Vec<(&'static str, String)>,
}

/// A permission that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GivenPermission {
    /// The permission itself.
    Text(String),
    /// The key of one that the share keeps.
    Key(String),
}

impl Call<'_> {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The host as the client reached it.
    pub(super) fn host(&self) -> &str {
        self.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or_default()
    }

    /// The service's URL as the client reached it.
    pub(super) fn endpoint(&self) -> String {
        self.target.account.endpoint(self.caller, self.host())
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
        let given =
            |names: &[&'static str]| names.iter().copied().find(|name| self.headers().contains_key(*name));
        if let Some(name) = given(&REFUSED) {
            return Err(Fault::new(ErrorCode::UnsupportedHeader).with("HeaderName", name).into());
        }
        if let Some(name) = given(&CONDITIONS) {
            return Err(Fault::new(ErrorCode::ConditionHeadersNotSupported).with("HeaderName", name).into());
        }
        Ok(())
    }

    /// The snapshot of the share that the URL names.
    pub(super) fn snapshot(&self) -> Result<Option<SnapshotId>> {
        self.snapshot_named("sharesnapshot")
    }

    /// The snapshot in a parameter of the query.
    pub(super) fn snapshot_named(&self, name: &str) -> Result<Option<SnapshotId>> {
        Ok(snapshot_in(&self.query, name)?)
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

    /// The headers to store with a file: `x-ms-content-type` and its kin.
    pub(super) fn stored_headers(&self) -> Result<HttpHeaders> {
        let one = |name: &str| -> Result<Option<String>> { Ok(self.header(name)?.map(str::to_owned)) };
        Ok(HttpHeaders {
            content_type: one(headers::CONTENT_TYPE_STORED)?,
            content_encoding: one(headers::CONTENT_ENCODING_STORED)?,
            content_language: one(headers::CONTENT_LANGUAGE_STORED)?,
            content_disposition: one(headers::CONTENT_DISPOSITION_STORED)?,
            cache_control: one(headers::CACHE_CONTROL_STORED)?,
        })
    }

    /// The MD5 to store with the file.
    pub(super) fn stored_md5(&self) -> Result<Option<[u8; 16]>> {
        Ok(checksum::md5_header(self.headers(), headers::CONTENT_MD5_STORED)?)
    }

    /// The size the file shall have.
    pub(super) fn size(&self) -> Result<Option<u64>> {
        let Some(text) = self.header(headers::CONTENT_LENGTH_STORED)? else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(size) => Ok(Some(size)),
            Err(_) if text.parse::<i128>().is_ok() => Err(ErrorCode::OutOfRangeInput.into()),
            Err(_) => Err(Fault::invalid_header(headers::CONTENT_LENGTH_STORED, text).into()),
        }
    }

    /// Attributes and times that a file or directory shall have. Not the permission, which has to be looked up.
    pub(super) fn smb_change(&self, new: bool) -> Result<SmbChange> {
        let given = SmbSettings::from_headers(self.headers(), false)?;
        let attributes = match given.attributes {
            // A new file whose attributes are "None" gets those that files have.
            Some(Setting::To(0)) if new => None,
            Some(Setting::To(bits)) => Some(SmbAttributes(bits)),
            Some(Setting::Now | Setting::Preserve | Setting::Source) | None => None,
        };
        let time = |setting: Option<Setting<Moment>>| match setting {
            Some(Setting::To(moment)) => Some(moment),
            Some(Setting::Now) => Some(self.now),
            Some(Setting::Preserve | Setting::Source) | None => None,
        };
        Ok(SmbChange {
            attributes,
            created: time(given.created),
            last_write: time(given.written),
            changed: time(given.changed),
            permission: None,
        })
    }

    /// The permission that a file or directory shall have, if one is named.
    pub(super) fn given_permission(&self) -> Result<Option<GivenPermission>> {
        let format = permission::Format::parse(self.header(headers::FILE_PERMISSION_FORMAT)?)?;
        let key = self.header(headers::FILE_PERMISSION_KEY)?.filter(|key| !is_kept(key));
        match (self.header(headers::FILE_PERMISSION)?.filter(|text| !is_kept(text)), key) {
            (Some(_), Some(_)) => Err(Fault::invalid_header(
                headers::FILE_PERMISSION_KEY,
                "not together with x-ms-file-permission",
            )
            .into()),
            (Some(text), None) => {
                permission::check(text, format, permission::INLINE_MAX)?;
                Ok(Some(GivenPermission::Text(text.to_owned())))
            }
            (None, Some(key)) if permission::is_key(key) => Ok(Some(GivenPermission::Key(key.to_owned()))),
            (None, Some(_)) => Err(ErrorCode::FileInvalidPermissionKey.into()),
            (None, None) => Ok(None),
        }
    }
}

/// The snapshot in a parameter of a query.
pub(super) fn snapshot_in(query: &Query, name: &str) -> std::result::Result<Option<SnapshotId>, Fault> {
    let Some(text) = query.filled(name) else { return Ok(None) };
    let moment = date::parse_iso(text).ok_or_else(|| Fault::invalid_query(name, text))?;
    Ok(Some(SnapshotId(moment)))
}

/// Words that leave a permission as it is.
fn is_kept(text: &str) -> bool {
    text.eq_ignore_ascii_case(INHERIT) || text.eq_ignore_ascii_case("preserve")
}
