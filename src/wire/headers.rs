//! Header names, once, and reading a header as text.
//!
//! Names are lower case, as `http` wants them.

use http::HeaderMap;
use http::header::HeaderValue;

use super::fault::{Fault, Result};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident $text:literal)*) => {
        $(#[doc = concat!("`", $text, "`")] $(#[$doc])* pub const $name: &str = $text;)*
    };
}

names! {
    // Plain HTTP.
    ACCEPT_RANGES "accept-ranges"
    AUTHORIZATION "authorization"
    CACHE_CONTROL "cache-control"
    CONTENT_DISPOSITION "content-disposition"
    CONTENT_ENCODING "content-encoding"
    CONTENT_LANGUAGE "content-language"
    CONTENT_LENGTH "content-length"
    CONTENT_MD5 "content-md5"
    CONTENT_RANGE "content-range"
    CONTENT_TYPE "content-type"
    DATE "date"
    ETAG "etag"
    HOST "host"
    IF_MATCH "if-match"
    IF_MODIFIED_SINCE "if-modified-since"
    IF_NONE_MATCH "if-none-match"
    IF_UNMODIFIED_SINCE "if-unmodified-since"
    LAST_MODIFIED "last-modified"
    ORIGIN "origin"
    RANGE "range"
    RETRY_AFTER "retry-after"
    SERVER "server"
    WWW_AUTHENTICATE "www-authenticate"

    // Every request and answer.
    CLIENT_REQUEST_ID "x-ms-client-request-id"
    X_MS_DATE "x-ms-date"
    ERROR_CODE "x-ms-error-code"
    REQUEST_ID "x-ms-request-id"
    REQUEST_SERVER_ENCRYPTED "x-ms-request-server-encrypted"
    RETRY_AFTER_MS "x-ms-retry-after-ms"
    SERVER_ENCRYPTED "x-ms-server-encrypted"
    VERSION "x-ms-version"

    // Account.
    ACCOUNT_KIND "x-ms-account-kind"
    IS_HNS_ENABLED "x-ms-is-hns-enabled"
    SKU_NAME "x-ms-sku-name"

    // Leases.
    LEASE_ACTION "x-ms-lease-action"
    LEASE_BREAK_PERIOD "x-ms-lease-break-period"
    LEASE_DURATION "x-ms-lease-duration"
    LEASE_ID "x-ms-lease-id"
    LEASE_STATE "x-ms-lease-state"
    LEASE_STATUS "x-ms-lease-status"
    LEASE_TIME "x-ms-lease-time"
    PROPOSED_LEASE_ID "x-ms-proposed-lease-id"

    // Conditions beyond plain HTTP.
    BLOB_CONDITION_APPENDPOS "x-ms-blob-condition-appendpos"
    BLOB_CONDITION_MAXSIZE "x-ms-blob-condition-maxsize"
    IF_SEQUENCE_NUMBER_EQ "x-ms-if-sequence-number-eq"
    IF_SEQUENCE_NUMBER_LE "x-ms-if-sequence-number-le"
    IF_SEQUENCE_NUMBER_LT "x-ms-if-sequence-number-lt"
    IF_TAGS "x-ms-if-tags"
    SOURCE_IF_MATCH "x-ms-source-if-match"
    SOURCE_IF_MODIFIED_SINCE "x-ms-source-if-modified-since"
    SOURCE_IF_NONE_MATCH "x-ms-source-if-none-match"
    SOURCE_IF_TAGS "x-ms-source-if-tags"
    SOURCE_IF_UNMODIFIED_SINCE "x-ms-source-if-unmodified-since"
    SOURCE_LEASE_ID "x-ms-source-lease-id"

    // Blobs and containers.
    ACCESS_TIER "x-ms-access-tier"
    ACCESS_TIER_CHANGE_TIME "x-ms-access-tier-change-time"
    ACCESS_TIER_INFERRED "x-ms-access-tier-inferred"
    ARCHIVE_STATUS "x-ms-archive-status"
    BLOB_APPEND_OFFSET "x-ms-blob-append-offset"
    BLOB_CACHE_CONTROL "x-ms-blob-cache-control"
    BLOB_COMMITTED_BLOCK_COUNT "x-ms-blob-committed-block-count"
    BLOB_CONTENT_DISPOSITION "x-ms-blob-content-disposition"
    BLOB_CONTENT_ENCODING "x-ms-blob-content-encoding"
    BLOB_CONTENT_LANGUAGE "x-ms-blob-content-language"
    BLOB_CONTENT_LENGTH "x-ms-blob-content-length"
    BLOB_CONTENT_MD5 "x-ms-blob-content-md5"
    BLOB_CONTENT_TYPE "x-ms-blob-content-type"
    BLOB_PUBLIC_ACCESS "x-ms-blob-public-access"
    BLOB_SEALED "x-ms-blob-sealed"
    BLOB_SEQUENCE_NUMBER "x-ms-blob-sequence-number"
    BLOB_TYPE "x-ms-blob-type"
    CONTENT_CRC64 "x-ms-content-crc64"
    CREATION_TIME "x-ms-creation-time"
    DELETE_SNAPSHOTS "x-ms-delete-snapshots"
    DELETE_TYPE_PERMANENT "x-ms-delete-type-permanent"
    HAS_IMMUTABILITY_POLICY "x-ms-has-immutability-policy"
    HAS_LEGAL_HOLD "x-ms-has-legal-hold"
    IMMUTABLE_STORAGE_WITH_VERSIONING_ENABLED "x-ms-immutable-storage-with-versioning-enabled"
    DEFAULT_ENCRYPTION_SCOPE "x-ms-default-encryption-scope"
    DENY_ENCRYPTION_SCOPE_OVERRIDE "x-ms-deny-encryption-scope-override"
    IS_CURRENT_VERSION "x-ms-is-current-version"
    PAGE_WRITE "x-ms-page-write"
    RANGE_GET_CONTENT_CRC64 "x-ms-range-get-content-crc64"
    RANGE_GET_CONTENT_MD5 "x-ms-range-get-content-md5"
    REHYDRATE_PRIORITY "x-ms-rehydrate-priority"
    SEQUENCE_NUMBER_ACTION "x-ms-sequence-number-action"
    SNAPSHOT "x-ms-snapshot"
    TAGS "x-ms-tags"
    TAG_COUNT "x-ms-tag-count"
    VERSION_ID "x-ms-version-id"
    X_MS_RANGE "x-ms-range"

    // Copies.
    COPY_ACTION "x-ms-copy-action"
    COPY_COMPLETION_TIME "x-ms-copy-completion-time"
    COPY_ID "x-ms-copy-id"
    COPY_PROGRESS "x-ms-copy-progress"
    COPY_SOURCE "x-ms-copy-source"
    COPY_SOURCE_AUTHORIZATION "x-ms-copy-source-authorization"
    COPY_SOURCE_BLOB_PROPERTIES "x-ms-copy-source-blob-properties"
    COPY_SOURCE_TAG_OPTION "x-ms-copy-source-tag-option"
    COPY_STATUS "x-ms-copy-status"
    COPY_STATUS_DESCRIPTION "x-ms-copy-status-description"
    REQUIRES_SYNC "x-ms-requires-sync"
    SEAL_BLOB "x-ms-seal-blob"
    SOURCE_CONTENT_CRC64 "x-ms-source-content-crc64"
    SOURCE_CONTENT_MD5 "x-ms-source-content-md5"
    SOURCE_RANGE "x-ms-source-range"

    // Files and shares.
    ALLOW_TRAILING_DOT "x-ms-allow-trailing-dot"
    CACHE_CONTROL_STORED "x-ms-cache-control"
    CONTENT_DISPOSITION_STORED "x-ms-content-disposition"
    CONTENT_ENCODING_STORED "x-ms-content-encoding"
    CONTENT_LANGUAGE_STORED "x-ms-content-language"
    CONTENT_LENGTH_STORED "x-ms-content-length"
    CONTENT_MD5_STORED "x-ms-content-md5"
    CONTENT_TYPE_STORED "x-ms-content-type"
    DESTINATION_LEASE_ID "x-ms-destination-lease-id"
    ENABLED_PROTOCOLS "x-ms-enabled-protocols"
    FILE_ATTRIBUTES "x-ms-file-attributes"
    FILE_CHANGE_TIME "x-ms-file-change-time"
    FILE_COPY_IGNORE_READONLY "x-ms-file-copy-ignore-readonly"
    FILE_COPY_SET_ARCHIVE "x-ms-file-copy-set-archive"
    FILE_CREATION_TIME "x-ms-file-creation-time"
    FILE_EXTENDED_INFO "x-ms-file-extended-info"
    FILE_ID "x-ms-file-id"
    FILE_LAST_WRITE_TIME "x-ms-file-last-write-time"
    FILE_PARENT_ID "x-ms-file-parent-id"
    FILE_PERMISSION "x-ms-file-permission"
    FILE_PERMISSION_COPY_MODE "x-ms-file-permission-copy-mode"
    FILE_PERMISSION_FORMAT "x-ms-file-permission-format"
    FILE_PERMISSION_KEY "x-ms-file-permission-key"
    FILE_RENAME_IGNORE_READONLY "x-ms-file-rename-ignore-readonly"
    FILE_RENAME_REPLACE_IF_EXISTS "x-ms-file-rename-replace-if-exists"
    FILE_RENAME_SOURCE "x-ms-file-rename-source"
    FILE_SUPPORT_RENAME "x-ms-file-support-rename"
    FILE_TYPE "x-ms-type"
    FILE_WRITE "x-ms-write"
    HANDLE_ID "x-ms-handle-id"
    HANDLE_MARKER "x-ms-marker"
    HANDLES_CLOSED "x-ms-number-of-handles-closed"
    HANDLES_FAILED "x-ms-number-of-handles-failed"
    IGNORE_READONLY_OLD "x-ms-file-ignore-readonly"
    RECURSIVE "x-ms-recursive"
    ROOT_SQUASH "x-ms-root-squash"
    SHARE_QUOTA "x-ms-share-quota"
    SOURCE_ALLOW_TRAILING_DOT "x-ms-source-allow-trailing-dot"

    // Things the service has and leasefs refuses.
    ENCRYPTION_ALGORITHM "x-ms-encryption-algorithm"
    ENCRYPTION_KEY "x-ms-encryption-key"
    ENCRYPTION_KEY_SHA256 "x-ms-encryption-key-sha256"
    ENCRYPTION_SCOPE "x-ms-encryption-scope"
    IMMUTABILITY_POLICY_MODE "x-ms-immutability-policy-mode"
    IMMUTABILITY_POLICY_UNTIL_DATE "x-ms-immutability-policy-until-date"
    LEGAL_HOLD "x-ms-legal-hold"
    STRUCTURED_BODY "x-ms-structured-body"
}

/// What every metadata header starts with.
pub const META_PREFIX: &str = "x-ms-meta-";

/// What every header of the service starts with.
pub const X_MS_PREFIX: &str = "x-ms-";

/// The header as text, without blanks around it. An empty value counts as absent, as the service has it.
///
/// Refused: a header that is there twice, and bytes outside printable ASCII.
pub fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>> {
    let mut all = headers.get_all(name).iter();
    let Some(first) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Fault::invalid_header(name, "given more than once"));
    }
    let value = plain(name, first)?;
    Ok((!value.is_empty()).then_some(value))
}

/// The header as text; refused if absent.
pub fn required<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str> {
    text(headers, name)?.ok_or_else(|| Fault::missing_header(name))
}

/// The header as a number.
pub fn number<N: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Result<Option<N>> {
    text(headers, name)?
        .map(|value| value.parse().map_err(|_| Fault::invalid_header(name, value)))
        .transpose()
}

/// The header as `true` or `false`, in any case; absent is false.
pub fn flag(headers: &HeaderMap, name: &str) -> Result<bool> {
    match text(headers, name)? {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => Err(Fault::invalid_header(name, value)),
    }
}

/// One header value as trimmed text.
pub(super) fn plain<'h>(name: &str, value: &'h HeaderValue) -> Result<&'h str> {
    let text = value.to_str().map_err(|_| Fault::invalid_header(name, "not printable ASCII"))?;
    Ok(text.trim_matches([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::codes::ErrorCode;

    #[test]
    fn empty_double_and_binary_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(text(&headers, LEASE_ID), Ok(None));
        headers.insert(LEASE_ID, HeaderValue::from_static("  "));
        assert_eq!(text(&headers, LEASE_ID), Ok(None));
        headers.insert(LEASE_ID, HeaderValue::from_static(" a "));
        assert_eq!(text(&headers, LEASE_ID), Ok(Some("a")));
        headers.append(LEASE_ID, HeaderValue::from_static("b"));
        assert_eq!(text(&headers, LEASE_ID).unwrap_err().code, ErrorCode::InvalidHeaderValue);
        headers.insert(LEASE_ID, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(text(&headers, LEASE_ID).unwrap_err().code, ErrorCode::InvalidHeaderValue);
        assert_eq!(required(&headers, TAGS).unwrap_err().code, ErrorCode::MissingRequiredHeader);
    }

    #[test]
    fn flags_and_numbers() {
        let mut headers = HeaderMap::new();
        assert_eq!(flag(&headers, BLOB_SEALED), Ok(false));
        headers.insert(BLOB_SEALED, HeaderValue::from_static("True"));
        assert_eq!(flag(&headers, BLOB_SEALED), Ok(true));
        assert!(number::<u64>(&headers, BLOB_SEALED).is_err());
        headers.insert(BLOB_SEALED, HeaderValue::from_static("18446744073709551615"));
        assert_eq!(number::<u64>(&headers, BLOB_SEALED), Ok(Some(u64::MAX)));
        assert!(flag(&headers, BLOB_SEALED).is_err());
    }
}
