//! The part of a URL that is the same for every service: where the account stands.
//!
//! Two styles: `/ACCOUNT/…`, and `/…` on a host called `ACCOUNT.SERVICE.…`.

use percent_encoding::percent_decode_str;

use super::face::Caller;
use crate::wire::query;

/// What the read-only second endpoint of an account ends with.
const SECONDARY: &str = "-secondary";

/// The account that a URL names, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccountPart {
    /// The account, without the mark of its secondary endpoint.
    pub(super) name: String,
    /// Whether it was named through the secondary endpoint, which only reads.
    pub(super) secondary: bool,
    /// Whether the account stands in the host, not in the path.
    pub(super) in_host: bool,
}

/// The URL cannot name anything: its escapes are broken or not UTF-8, or it names no account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadUrl;

impl AccountPart {
    /// Reads the host and the path as they came; `label` is the service's name in hosts. Also answers the rest of
    /// the path.
    pub(super) fn split<'p>(host: &str, path: &'p str, label: &str) -> Result<(Self, &'p str), BadUrl> {
        let path = path.strip_prefix('/').ok_or(BadUrl)?;
        let (account, rest, in_host) = match account_of_host(host, label) {
            Some(account) => (account.to_owned(), path, true),
            None => {
                let (account, rest) = path.split_once('/').unwrap_or((path, ""));
                (decoded(account)?, rest, false)
            }
        };
        let (account, secondary) = match account.strip_suffix(SECONDARY) {
            Some(primary) => (primary.to_owned(), true),
            None => (account, false),
        };
        if account.is_empty() {
            return Err(BadUrl);
        }
        Ok((Self { name: account, secondary, in_host }, rest))
    }

    /// The account's URL, as the client wrote it.
    pub(super) fn endpoint(&self, caller: Caller, host: &str) -> String {
        let scheme = if caller.secure { "https" } else { "http" };
        let secondary = if self.secondary { SECONDARY } else { "" };
        if self.in_host {
            format!("{scheme}://{host}/")
        } else {
            format!("{scheme}://{host}/{}{secondary}/", query::encode(&self.name))
        }
    }
}

/// The account in a host of the form `ACCOUNT.LABEL.…`.
fn account_of_host<'h>(host: &'h str, label: &str) -> Option<&'h str> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let (account, rest) = name.split_once('.')?;
    let found = rest.split('.').next()?;
    let is_account = !account.is_empty() && account.bytes().any(|b| b.is_ascii_alphabetic());
    (is_account && found.eq_ignore_ascii_case(label)).then_some(account)
}

/// The text behind percent escapes.
pub(super) fn decoded(text: &str) -> Result<String, BadUrl> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| BadUrl)
}
