//! Where content is copied from when a client names a URL.
//!
//! A server that fetches what a client names can be used to reach what the client cannot. So by default it fetches
//! from nowhere but itself, and from this machine if only this machine can ask ([`CopySources`]). It never follows a
//! redirect and uses no proxy.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use http::{HeaderMap, StatusCode, Uri};

use super::failure::Failure;
use crate::wire::range::RequestedRange;
use crate::wire::{ErrorCode, Fault, headers};

/// How long another server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long another server may send nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest URL of a source.
const URL_MAX: usize = 2048;

/// Which URLs outside this service content may be copied from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySources {
    /// None: only this service's own blobs or files.
    Own,
    /// Servers on this machine too.
    Loopback,
    /// Everywhere.
    Any,
}

impl CopySources {
    /// Refuses hosts that may not be copied from.
    pub(super) fn check(self, host: &str) -> Result<(), Failure> {
        let allowed = match self {
            CopySources::Own => false,
            CopySources::Loopback => is_loopback(host),
            CopySources::Any => true,
        };
        if allowed {
            return Ok(());
        }
        Err(Failure::Source(StatusCode::FORBIDDEN, format!("This server does not copy from {host}.")))
    }
}

/// The URL of a source in the header `name`: absolute, without a password.
pub(super) fn named_url<'h>(given: &'h HeaderMap, name: &'static str) -> Result<(&'h str, Uri), Fault> {
    let text = headers::required(given, name)?;
    if given.contains_key(headers::COPY_SOURCE_AUTHORIZATION) {
        return Err(
            Fault::new(ErrorCode::UnsupportedHeader).with("HeaderName", headers::COPY_SOURCE_AUTHORIZATION)
        );
    }
    let invalid = || Fault::invalid_header(name, without_query(text));
    if text.len() > URL_MAX {
        return Err(invalid());
    }
    let url: Uri = text.parse().map_err(|_| invalid())?;
    let (Some(scheme), Some(authority)) = (url.scheme_str(), url.authority()) else {
        return Err(invalid());
    };
    if !matches!(scheme, "http" | "https") || authority.as_str().contains('@') {
        return Err(invalid());
    }
    Ok((text, url))
}

/// Whether an authority is the server that was reached as `host`; `label` is the service's name in hosts.
pub(super) fn is_same_server(host: &str, authority: &str, label: &str) -> bool {
    let mark = format!(".{label}.");
    let base = |host: &str| match host.split_once(&mark) {
        Some((_, rest)) => rest.to_ascii_lowercase(),
        None => host.to_ascii_lowercase(),
    };
    !host.is_empty() && (host.eq_ignore_ascii_case(authority) || base(host) == base(authority))
}

/// Asks another server for a source, or for a range of it.
pub(super) async fn open_elsewhere(
    url: &str,
    conditions: Vec<(&'static str, String)>,
    range: Option<RequestedRange>,
) -> Result<reqwest::Response, Failure> {
    let client = client().ok_or_else(|| cannot_read(url, &"no HTTP client"))?;
    let mut request = client.get(url);
    for (name, value) in conditions {
        request = request.header(name, value);
    }
    if let Some(range) = range {
        request = request.header(headers::RANGE, range.to_text());
    }
    let answer = request.send().await.map_err(|error| cannot_read(url, &error.without_url()))?;
    let status = StatusCode::from_u16(answer.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    match status {
        StatusCode::OK if range.is_some() => Err(Failure::Source(
            StatusCode::BAD_REQUEST,
            "The source of the copy does not answer ranges.".into(),
        )),
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
        StatusCode::PRECONDITION_FAILED | StatusCode::NOT_MODIFIED => {
            Err(ErrorCode::SourceConditionNotMet.into())
        }
        status => Err(Failure::Source(status, format!("The source of the copy answered {status}."))),
    }
}

/// A source that does not do what it should.
pub(super) fn cannot_read(url: &str, error: &dyn std::fmt::Display) -> Failure {
    tracing::debug!(source = without_query(url), %error, "a copy source could not be read");
    Failure::Source(StatusCode::BAD_GATEWAY, "The source of the copy could not be read.".into())
}

/// One client for all copies, made when the first one needs it.
fn client() -> Option<&'static reqwest::Client> {
    static CLIENT: OnceLock<Option<reqwest::Client>> = OnceLock::new();
    let make = || {
        // Fails if there is a provider already, which is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build();
        client.inspect_err(|error| tracing::warn!(%error, "nothing can be copied from elsewhere")).ok()
    };
    CLIENT.get_or_init(make).as_ref()
}

/// Whether a host is this machine, without asking anybody.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A URL to show: queries hold signatures.
pub(super) fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_by_the_address_alone() {
        for yes in ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "[::1]"] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in ["169.254.169.254", "10.0.0.1", "localhost.example.com", "0.0.0.0", "2130706433", "127.1"] {
            assert!(!is_loopback(no), "{no}");
        }
    }

    #[test]
    fn shown_urls_have_no_signature() {
        assert_eq!(without_query("http://h/a/b?sv=1&sig=x"), "http://h/a/b");
    }
}
