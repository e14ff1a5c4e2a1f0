//! Hostile requests for what reads them before anybody has been asked who sends them: URL, operation, needs, claim,
//! batch, host. Nothing panics, and what cannot be understood is refused.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::batch;
use super::needs::need;
use super::operation::Operation;
use super::route::{BLOB_LABEL, Resource, Target};
use crate::rest::auth::{Accounts, Asked, Claim};
use crate::rest::face::redacted;
use crate::rest::server::check_framing;
use crate::rest::url::AccountPart;
use crate::share::Moment;
use crate::store::TagExpression;
use crate::wire::query::{self, Query};
use crate::wire::signing::Service;
use crate::wire::signing::sas::{Circumstances, Place};
use crate::wire::signing::shared_key::SignedParts;

const PIECES: &[&str] = &[
    "/",
    "//",
    "acct",
    "acct-secondary",
    "-secondary",
    "$root",
    "$logs",
    "%24root",
    "box1",
    "a",
    ".",
    "..",
    "%2F",
    "%2f",
    "%00",
    "%FF",
    "%",
    "%2",
    "ä",
    "%C3%A4",
    " ",
    "\\",
    "?",
    "&",
    "=",
    "comp=",
    "restype=",
    "container",
    "service",
    "account",
    "list",
    "lease",
    "block",
    "blocklist",
    "page",
    "pagelist",
    "appendblock",
    "metadata",
    "properties",
    "acl",
    "tags",
    "tier",
    "snapshot",
    "copy",
    "seal",
    "batch",
    "blobs",
    "stats",
    "undelete",
    "query",
    "expiry",
    "sv=2026-02-06",
    "sr=b",
    "sig=x",
    "se=2099-01-01",
    "sp=racwdl",
    "ss=b",
    "srt=sco",
    "si=p",
];

const HOSTS: &[&str] = &[
    "127.0.0.1:10000",
    "acct.blob.localhost",
    "acct-secondary.blob.localhost:1",
    ".blob.",
    "a.b",
    "",
    "[::1]:1",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => vec(select(PIECES), 0..14).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

const NAMES: &[&str] = &[
    "authorization",
    "content-length",
    "transfer-encoding",
    "expect",
    "host",
    "x-ms-blob-type",
    "x-ms-copy-source",
    "x-ms-requires-sync",
    "x-ms-copy-action",
    "x-ms-page-write",
    "x-ms-lease-action",
    "x-ms-tags",
    "x-ms-source-if-tags",
    "x-ms-if-tags",
];
const VALUES: &[&str] = &[
    "BlockBlob",
    "PageBlob",
    "AppendBlob",
    "true",
    "abort",
    "update",
    "clear",
    "http://h/a/c/b?sig=1",
    "0",
    "5",
    "chunked",
    "100-continue",
    "SharedKey acct:AAAA",
    "SharedKeyLite acct:",
    "Bearer x",
    "a=b",
    "\"a\" = 'b'",
    "h",
];

const METHODS: &[&str] =
    &["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "ODD"];

fn request() -> impl Strategy<Value = Parts> {
    let header = (select(NAMES), prop_oneof![select(VALUES).prop_map(str::to_owned), text()]);
    (select(METHODS), text(), text(), vec(header, 0..8)).prop_map(|(method, path, query, list)| {
        let mut request = Request::new(());
        *request.method_mut() = method.parse().expect("a method");
        for target in
            [format!("/{path}?{query}"), format!("/{}?{}", query::encode(&path), query::encode(&query))]
        {
            if let Ok(uri) = target.parse() {
                *request.uri_mut() = uri;
                break;
            }
        }
        for (name, value) in list {
            if let Ok(value) = HeaderValue::from_str(&value) {
                request.headers_mut().append(HeaderName::from_static(name), value);
            }
        }
        request.into_parts().0
    })
}

/// What a request is about, as `admit` reads it.
fn understood(host: &str, head: &Parts) -> Option<(Query, Target, Operation)> {
    let query = Query::parse(head.uri.query().unwrap_or_default()).ok()?;
    let of_container = query.get("restype").is_some();
    let target = Target::parse(host, head.uri.path(), of_container).ok()?;
    let operation = Operation::parse(&head.method, &target.resource, &query, &head.headers).ok()?;
    Some((query, target, operation))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// A stranger gets no further than a refusal, whatever is asked.
    #[test]
    fn no_request_of_a_stranger_panics_or_is_allowed(host in select(HOSTS), head in request()) {
        let _ = check_framing(&head);
        let Some((query, target, operation)) = understood(host, &head) else { return Ok(()) };
        let needed = need(&operation, &head.headers, &query);
        let _ = operation.is_read();
        let Ok(claim) = Claim::of(&head.headers, &query) else { return Ok(()) };
        let (container, name) = match &target.resource {
            Resource::Account => (None, None),
            Resource::Container(container) => (Some(container.as_str()), None),
            Resource::Blob(container, name) => (Some(container.as_str()), Some(name.as_str())),
        };
        let parts =
            SignedParts { method: head.method.as_str(), path: head.uri.path(), query: &query, headers: &head.headers };
        let place = Place { service: Service::Blob, account: &target.account.name, container, name, snapshot: None };
        let circumstances = Circumstances { now: Moment(1_794_917_233_000_000_000), client: None, secure: false };
        let asked = Asked { parts, place, circumstances };
        prop_assert!(claim.judge(&Accounts::development(), &asked, None, &needed).is_err());
    }

    /// Where a request goes is the same for who picks the account and for who serves it.
    #[test]
    fn account_and_target_agree(host in select(HOSTS), path in text(), of_container in any::<bool>()) {
        let path = format!("/{path}");
        if let Ok(target) = Target::parse(host, &path, of_container) {
            let named = AccountPart::split(host, &path, BLOB_LABEL).map(|(account, _)| account.name);
            prop_assert_eq!(named, Ok(target.account.name));
        }
    }

    /// A name in a URL, escaped in full, is the name again.
    #[test]
    fn names_in_urls_come_back(name in "[^/\u{0}]{1,20}") {
        let path = format!("/acct/box1/{}", query::encode(&name));
        let target = Target::parse("127.0.0.1", &path, false).unwrap();
        prop_assert_eq!(target.resource, Resource::Blob("box1".to_owned(), name));
    }

    #[test]
    fn no_batch_panics(body in vec(select(&[
        "--b", "--b--", "\r\n", "\n", "\r\n\r\n", "Content-Type: application/http", "Content-ID: 0", "DELETE /a/b HTTP/1.1",
        "PUT /a?comp=tier HTTP/1.1", "x-ms-access-tier: Hot", ": ", "DELETE", " ", "HTTP/1.0", "ä", "\u{0}",
    ][..]), 0..24), kind in text()) {
        batch::read(body.concat().as_bytes(), &format!("multipart/mixed; boundary={kind}"));
        batch::read(body.concat().as_bytes(), "multipart/mixed; boundary=b");
    }

    /// No log line holds a signature.
    #[test]
    fn signatures_stay_out_of_the_log(before in "[a-z=&]{0,20}", secret in "[A-Z0-9]{8,20}") {
        let shown = redacted("/a", Some(&format!("{before}&sIg={secret}&se=1")));
        prop_assert!(!shown.contains(&secret), "{}", shown);
    }

    /// Expressions on tags are read or refused, and come back as they were read.
    #[test]
    fn tag_expressions_come_back(text in vec(select(&[
        "\"a\"", "a", "@container", "=", "<>", ">", ">=", "<", "<=", "'b'", "''", "'", "\"", " ", "AND", "and", "OR", "(", ")",
    ][..]), 0..14)) {
        let text = text.concat();
        for read in [TagExpression::condition, TagExpression::search] {
            if let Ok(expression) = read(&text) {
                prop_assert_eq!(read(&expression.to_string()).unwrap().to_string(), expression.to_string());
            }
        }
    }
}

#[test]
fn methods_nobody_knows_are_refused() {
    let head = HeaderMap::new();
    let method: Method = "BREW".parse().unwrap();
    for resource in
        [Resource::Account, Resource::Container("box1".into()), Resource::Blob("box1".into(), "b".into())]
    {
        assert!(Operation::parse(&method, &resource, &Query::default(), &head).is_err(), "{resource:?}");
    }
}
