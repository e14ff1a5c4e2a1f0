//! What a well-behaved client never sends, and what could make two servers in a row see different requests.
//!
//! The HTTP library refuses differing Content-Lengths, folded headers, blanks before the colon, control characters
//! and a Transfer-Encoding in HTTP/1.0 by itself; this is the rest.

use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Version, header};

/// Why a request is refused before anybody asks what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A body without a declared length. The service has never taken one, and so nobody has to guess whether a
    /// Content-Length beside it counts.
    NoLength,
    /// HTTP/1.1 needs exactly one Host.
    Host,
    /// The target is not a path: a proxy's absolute form, or `*`.
    Target,
    /// A method no storage service knows.
    Method,
    /// An Expect other than 100-continue.
    Expect,
    /// A header that may stand only once stands twice.
    Repeated(HeaderName),
}

/// Headers whose repetition would leave open which one counts.
const SINGLE: [HeaderName; 13] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    header::DATE,
    header::EXPECT,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::ORIGIN,
    header::RANGE,
];

/// The prefix of the service's own headers, none of which may be repeated.
const SERVICE_PREFIX: &str = "x-ms-";

/// Checks a request's head.
pub fn check_framing(head: &Parts) -> Result<(), Unfit> {
    let carries = matches!(head.method, Method::PUT | Method::POST | Method::PATCH);
    if head.headers.contains_key(header::TRANSFER_ENCODING)
        || (carries && !head.headers.contains_key(header::CONTENT_LENGTH))
    {
        return Err(Unfit::NoLength);
    }
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Unfit::Method);
    }
    if head.uri.authority().is_some() || !head.uri.path().starts_with('/') {
        return Err(Unfit::Target);
    }
    let hosts = head.headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && head.version >= Version::HTTP_11) {
        return Err(Unfit::Host);
    }
    let expectation = head.headers.get(header::EXPECT);
    if expectation.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(Unfit::Expect);
    }
    repeated(&head.headers).map_or(Ok(()), |name| Err(Unfit::Repeated(name)))
}

fn repeated(headers: &HeaderMap) -> Option<HeaderName> {
    // Nearly always there are as many values as names.
    if headers.len() == headers.keys_len() {
        return None;
    }
    let single = |name: &&HeaderName| name.as_str().starts_with(SERVICE_PREFIX) || SINGLE.contains(name);
    headers.keys().filter(single).find(|name| headers.get_all(*name).iter().count() > 1).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(build: impl FnOnce(http::request::Builder) -> http::request::Builder) -> Parts {
        let base = http::Request::builder()
            .method("PUT")
            .uri("/a/b")
            .header("host", "x")
            .header("content-length", "0");
        build(base).body(()).unwrap().into_parts().0
    }

    #[test]
    fn plain_requests_pass() {
        assert_eq!(check_framing(&head(|b| b.header("accept", "a").header("accept", "b"))), Ok(()));
        assert_eq!(check_framing(&head(|b| b.header("expect", "100-Continue"))), Ok(()));
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let of = |build: fn(http::request::Builder) -> http::request::Builder| {
            check_framing(&head(build)).unwrap_err()
        };
        assert_eq!(of(|b| b.header("transfer-encoding", "chunked")), Unfit::NoLength);
        let bare = http::Request::builder().method("PUT").uri("/a").header("host", "x").body(()).unwrap();
        assert_eq!(check_framing(&bare.into_parts().0), Err(Unfit::NoLength));
        assert_eq!(of(|b| b.header("host", "y")), Unfit::Host);
        assert_eq!(of(|b| b.uri("http://elsewhere/a")), Unfit::Target);
        assert_eq!(of(|b| b.method("TRACE")), Unfit::Method);
        assert_eq!(of(|b| b.header("expect", "a-miracle")), Unfit::Expect);
        let twice = of(|b| b.header("x-ms-date", "1").header("x-ms-date", "2"));
        assert_eq!(twice, Unfit::Repeated(HeaderName::from_static("x-ms-date")));
        let twice = of(|b| b.header("range", "bytes=0-1").header("range", "bytes=2-3"));
        assert_eq!(twice, Unfit::Repeated(header::RANGE));
    }
}
