//! SharedKey and SharedKeyLite: the `Authorization` header of somebody who has the account's key.

use std::time::Duration;

use http::HeaderMap;

use super::key::AccountKey;
use super::{collation, not_authenticated};
use crate::share::Moment;
use crate::wire::codes::ErrorCode;
use crate::wire::date;
use crate::wire::fault::{Fault, Result};
use crate::wire::headers;
use crate::wire::query::Query;
use crate::wire::version::ServiceVersion;

/// How far a request's date may be from the server's.
pub const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// From this version on a length of 0 is signed as nothing.
const EMPTY_LENGTH_SINCE: ServiceVersion = ServiceVersion::of(2015, 2, 21);

/// The lines of a SharedKey string between the method and the `x-ms-` headers.
const LINES: [&str; 11] = [
    headers::CONTENT_ENCODING,
    headers::CONTENT_LANGUAGE,
    headers::CONTENT_LENGTH,
    headers::CONTENT_MD5,
    headers::CONTENT_TYPE,
    headers::DATE,
    headers::IF_MODIFIED_SINCE,
    headers::IF_MATCH,
    headers::IF_NONE_MATCH,
    headers::IF_UNMODIFIED_SINCE,
    headers::RANGE,
];
/// The same for SharedKeyLite.
const LITE_LINES: [&str; 3] = [headers::CONTENT_MD5, headers::CONTENT_TYPE, headers::DATE];

/// Which string is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `SharedKey`
    Full,
    /// `SharedKeyLite`
    Lite,
}

/// The parts of a request that are signed.
#[derive(Clone, Copy)]
pub struct SignedParts<'r> {
    /// The method.
    pub method: &'r str,
    /// The path as it is on the wire, percent escapes and all.
    pub path: &'r str,
    /// The query.
    pub query: &'r Query,
    /// The headers.
    pub headers: &'r HeaderMap,
}

/// An `Authorization` header that was read. Prints without its signature.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization {
    /// Which string was signed.
    pub scheme: Scheme,
    /// Whose key.
    pub account: String,
    signature: String,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorization")
            .field("scheme", &self.scheme)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

impl Authorization {
    /// Reads the header: `SharedKey account:signature`.
    pub fn parse(text: &str) -> Result<Self> {
        let malformed = || Fault::new(ErrorCode::InvalidAuthenticationInfo);
        let (scheme, rest) = text.split_once(' ').ok_or_else(malformed)?;
        let scheme = match scheme {
            "SharedKey" => Scheme::Full,
            "SharedKeyLite" => Scheme::Lite,
            _ => return Err(malformed()),
        };
        let (account, signature) = rest.trim().split_once(':').ok_or_else(malformed)?;
        Ok(Self { scheme, account: account.to_owned(), signature: signature.to_owned() })
    }

    /// Whether the request was signed with one of the account's keys, and not too long ago.
    pub fn check(&self, keys: &[AccountKey], request: &SignedParts<'_>, now: Moment) -> Result<()> {
        check_date(request.headers, now)?;
        let paths = paths(&self.account, request.path);
        let signed = paths.iter().any(|path| {
            let text = string_to_sign(self.scheme, &self.account, &SignedParts { path, ..*request });
            // No key is left out, so that the time does not tell which one it was.
            keys.iter().fold(false, |found, key| key.verifies(&text, &self.signature) | found)
        });
        if signed {
            Ok(())
        } else {
            Err(not_authenticated(
                "The signature in the Authorization header is not the one of this request.",
            ))
        }
    }
}

/// Paths that clients sign: as it is on the wire and, through the second endpoint of an account in the path, also
/// with the account's own name.
fn paths(account: &str, path: &str) -> Vec<String> {
    let mut paths = vec![path.to_owned()];
    let secondary = path.strip_prefix('/').and_then(|rest| rest.strip_prefix(account));
    if let Some(rest) = secondary.and_then(|rest| rest.strip_prefix("-secondary"))
        && (rest.is_empty() || rest.starts_with('/'))
    {
        paths.push(format!("/{account}{rest}"));
    }
    paths
}

/// The value of the `Authorization` header for a request. Everything that is signed must be in it already.
pub fn authorization(account: &str, key: &AccountKey, request: &SignedParts<'_>) -> String {
    let signature = key.sign(&string_to_sign(Scheme::Full, account, request));
    format!("SharedKey {account}:{signature}")
}

fn check_date(headers: &HeaderMap, now: Moment) -> Result<()> {
    let text = headers::text(headers, headers::X_MS_DATE)?.or(headers::text(headers, headers::DATE)?);
    let date =
        text.and_then(date::parse_http).ok_or_else(|| not_authenticated("The request has no valid date."))?;
    if now.since(date) > MAX_SKEW || date.since(now) > MAX_SKEW {
        return Err(not_authenticated("The date of the request is more than 15 minutes off."));
    }
    Ok(())
}

/// What is signed. In bytes, because header values need not be text.
pub(super) fn string_to_sign(scheme: Scheme, account: &str, request: &SignedParts<'_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    let lines = match scheme {
        Scheme::Full => &LINES[..],
        Scheme::Lite => &LITE_LINES[..],
    };
    text.extend_from_slice(request.method.as_bytes());
    text.push(b'\n');
    for name in lines {
        text.extend_from_slice(line(request.headers, name));
        text.push(b'\n');
    }
    own_headers(&mut text, request.headers);
    text.extend_from_slice(format!("/{account}{}", request.path).as_bytes());
    match scheme {
        Scheme::Full => parameters(&mut text, request.query),
        Scheme::Lite => {
            if let Some(comp) = request.query.get("comp") {
                text.extend_from_slice(format!("?comp={comp}").as_bytes());
            }
        }
    }
    text
}

/// The value of a plain header, as it is signed.
fn line<'h>(headers: &'h HeaderMap, name: &str) -> &'h [u8] {
    let value = headers.get(name).map_or(&b""[..], |value| value.as_bytes().trim_ascii());
    let nothing = match name {
        headers::CONTENT_LENGTH => value == b"0" && empty_length_is_nothing(headers),
        // The other date counts then, and it is among the headers of the service.
        headers::DATE => headers.contains_key(headers::X_MS_DATE),
        _ => false,
    };
    if nothing { b"" } else { value }
}

fn empty_length_is_nothing(headers: &HeaderMap) -> bool {
    !matches!(ServiceVersion::from_headers(headers), Ok(Some(version)) if version < EMPTY_LENGTH_SINCE)
}

/// All headers of the service, sorted: `name:value`.
fn own_headers(text: &mut Vec<u8>, headers: &HeaderMap) {
    let own = |name: &&http::HeaderName| name.as_str().starts_with(headers::X_MS_PREFIX);
    let mut names: Vec<_> = headers.keys().filter(own).map(http::HeaderName::as_str).collect();
    names.sort_by(|one, other| collation::compare(one, other));
    for name in names {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        for (index, value) in headers.get_all(name).iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(value.as_bytes().trim_ascii());
        }
        text.push(b'\n');
    }
}

/// The query, sorted by name; values of one name are sorted too and joined.
fn parameters(text: &mut Vec<u8>, query: &Query) {
    let mut pairs: Vec<_> = query.pairs().map(|(name, value)| (name.to_lowercase(), value)).collect();
    pairs.sort();
    let mut last: Option<&str> = None;
    for (name, value) in &pairs {
        if last == Some(name) {
            text.push(b',');
        } else {
            text.push(b'\n');
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
        }
        text.extend_from_slice(value.as_bytes());
        last = Some(name);
    }
}
