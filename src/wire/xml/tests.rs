//! Every shape is sent around, and every reader is fed with rubbish.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::share::Moment;
use crate::share::lease::LeaseState;
use crate::wire::codes::ErrorCode;
use crate::wire::etag::Etag;
use crate::wire::fault::Fault;

const NOON: Moment = Moment(1_794_917_233_000_000_000);

/// All readers of bodies, for the tests that must not panic.
fn read_all(bytes: &[u8]) {
    let _ = parse_error(bytes);
    let _ = parse_signed_identifiers(bytes);
    let _ = parse_blob_list(bytes);
    let _ = parse_container_list(bytes);
    let _ = parse_block_list(bytes);
    let _ = parse_block_list_report(bytes);
    let _ = parse_page_list(bytes);
    let _ = parse_service_properties(bytes);
    let _ = parse_tags_body(bytes);
    let _ = parse_filter_result(bytes);
}

fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A list of blobs that uses every field.
fn full_listing() -> BlobListing {
    let full = BlobFields {
        created: Some(NOON),
        modified: Some(NOON),
        etag: Some(Etag(0x8DC)),
        content_length: 7,
        content_type: Some("text/plain; charset=\"utf-8\"".to_owned()),
        content_encoding: Some("gzip".to_owned()),
        content_language: Some("de".to_owned()),
        content_md5: Some([7; 16]),
        cache_control: Some("no-store".to_owned()),
        content_disposition: Some("attachment; filename=\"a&b.txt\"".to_owned()),
        sequence_number: Some(3),
        blob_type: "PageBlob".to_owned(),
        access_tier: Some("Hot".to_owned()),
        access_tier_inferred: true,
        access_tier_changed: Some(NOON),
        lease: Some(LeaseFields { state: LeaseState::Leased, infinite: Some(true) }),
        copy: Some(CopyFields {
            id: "id".to_owned(),
            source: "http://host/a/b?c=d&e=f".to_owned(),
            status: "success".to_owned(),
            progress: "7/7".to_owned(),
            completed: Some(NOON),
        }),
        sealed: Some(false),
        tag_count: Some(1),
    };
    BlobListing {
        prefix: Some("a<b".to_owned()),
        marker: Some("m".to_owned()),
        max: Some(5),
        delimiter: Some("/".to_owned()),
        lines: vec![
            BlobLine::Blob {
                name: " a<b>&\"c'\u{1} \r\n".to_owned(),
                snapshot: Some(Moment(NOON.0 + 123_456_700)),
                fields: Box::new(full),
                metadata: Some([("hdi_isfolder", "true"), ("k", "")].into()),
                tags: Some(pairs(&[("status", "done")])),
            },
            BlobLine::Prefix { name: "a<b/".to_owned() },
            BlobLine::Blob {
                name: "plain".to_owned(),
                snapshot: None,
                fields: Box::new(BlobFields { blob_type: "BlockBlob".to_owned(), ..BlobFields::default() }),
                metadata: None,
                tags: None,
            },
        ],
        next: Some("next".to_owned()),
    }
}

#[test]
fn lists_of_blobs_come_back() {
    let page = full_listing();
    let body = blob_list("http://127.0.0.1:10000/devstoreaccount1/", "share", &page);
    assert_eq!(parse_blob_list(body.as_bytes()).unwrap(), page);
    assert!(body.contains("<Etag>0x8DC</Etag>"), "bare in lists of blobs: {body}");
    assert!(body.contains("<Name Encoded=\"true\">%20a%3Cb%3E"), "{body}");
}

#[test]
fn lists_of_containers_come_back() {
    let line = |name: &str| ContainerLine {
        name: name.to_owned(),
        modified: NOON,
        etag: Some(Etag(1)),
        lease: LeaseFields { state: LeaseState::Breaking, infinite: None },
        public_access: Some("blob".to_owned()),
        metadata: Some([("k", "v & w")].into()),
    };
    let page = ContainerListing {
        prefix: Some("c".to_owned()),
        marker: Some("c1".to_owned()),
        max: Some(2),
        lines: vec![line("c1"), ContainerLine { public_access: None, metadata: None, ..line("c2") }],
        next: Some("c3".to_owned()),
    };
    let body = container_list("http://host/", &page);
    assert_eq!(parse_container_list(body.as_bytes()).unwrap(), page);
    assert!(body.contains("<LeaseStatus>locked</LeaseStatus>"), "{body}");
}

#[test]
fn block_lists_keep_their_order() {
    use BlockWhere::{Committed, Latest, Uncommitted};
    let list: [(BlockWhere, &[u8]); 4] =
        [(Latest, b"3"), (Committed, b"1"), (Uncommitted, b"2"), (Committed, b"1")];
    let body = block_list(list);
    let read = parse_block_list(body.as_bytes()).unwrap();
    assert!(read.iter().map(|(place, id)| (*place, id.as_slice())).eq(list));
    assert_eq!(parse_block_list(b"<BlockList/>"), Ok(vec![]));
    for (body, code) in [
        ("<BlockList><Newest>AA==</Newest></BlockList>", ErrorCode::UnsupportedXmlNode),
        ("<BlockList><Latest>?</Latest></BlockList>", ErrorCode::InvalidBlockId),
        ("<BlockList><Latest></Latest></BlockList>", ErrorCode::InvalidBlockId),
        ("<Blocks/>", ErrorCode::InvalidXmlDocument),
        ("<BlockList>", ErrorCode::InvalidXmlDocument),
        ("", ErrorCode::InvalidXmlDocument),
    ] {
        assert_eq!(parse_block_list(body.as_bytes()).unwrap_err().code, code, "{body}");
    }
    let long = format!("<BlockList>{}</BlockList>", "<Latest>AA==</Latest>".repeat(50_001));
    assert_eq!(parse_block_list(long.as_bytes()).unwrap_err().code, ErrorCode::BlockListTooLong);
}

#[test]
fn block_reports_come_back() {
    let (committed, staged) = (vec![(b"one".to_vec(), 5), (b"two".to_vec(), 0)], vec![(b"new".to_vec(), 1)]);
    let body = block_list_report(Some(&committed), Some(&staged));
    assert_eq!(parse_block_list_report(body.as_bytes()), Ok((committed, staged)));
    let none = block_list_report(Some(&[]), None);
    assert!(none.contains("<CommittedBlocks></CommittedBlocks>") && !none.contains("Uncommitted"), "{none}");
}

#[test]
fn policies_come_back() {
    let policies = vec![
        AccessPolicy {
            id: "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=".to_owned(),
            start: Some("2026-11-17".to_owned()),
            expiry: Some("2026-11-18T00:00:00.0000000Z".to_owned()),
            permissions: Some("rwd".to_owned()),
        },
        AccessPolicy { id: "b".to_owned(), ..AccessPolicy::default() },
    ];
    let body = signed_identifiers(&policies);
    assert_eq!(parse_signed_identifiers(body.as_bytes()).unwrap(), policies);
    assert_eq!(parse_signed_identifiers(b""), Ok(vec![]));
    let six: Vec<_> = (0..6).map(|i| AccessPolicy { id: i.to_string(), ..AccessPolicy::default() }).collect();
    assert!(parse_signed_identifiers(signed_identifiers(&six).as_bytes()).is_err());
    let twice = vec![AccessPolicy { id: "a".to_owned(), ..AccessPolicy::default() }; 2];
    assert!(parse_signed_identifiers(signed_identifiers(&twice).as_bytes()).is_err());
    let tomorrow =
        [AccessPolicy { id: "a".to_owned(), start: Some("soon".to_owned()), ..AccessPolicy::default() }];
    let code = parse_signed_identifiers(signed_identifiers(&tomorrow).as_bytes()).unwrap_err().code;
    assert_eq!(code, ErrorCode::InvalidXmlNodeValue);
}

#[test]
fn page_lists_come_back() {
    let line = |start, clear| PageRangeLine { start, end: start + 511, clear };
    let lines = vec![line(0, false), line(512, true), line(4096, false)];
    let body = page_list(lines.clone(), Some("8192"));
    assert_eq!(parse_page_list(body.as_bytes()), Ok((lines, Some("8192".to_owned()))));
    assert_eq!(parse_page_list(page_list([], None).as_bytes()), Ok((vec![], None)));
}

#[test]
fn service_properties_come_back() {
    let properties = ServiceProperties {
        logging: Some(Logging {
            delete: true,
            read: false,
            write: true,
            retention: Retention { days: Some(7) },
        }),
        hour_metrics: Some(Metrics {
            enabled: true,
            include_apis: Some(true),
            retention: Retention::default(),
        }),
        minute_metrics: Some(Metrics::default()),
        cors: Some(vec![CorsRule {
            origins: vec!["*".to_owned()],
            methods: vec!["GET".to_owned(), "PUT".to_owned()],
            allowed_headers: vec!["x-ms-meta-*".to_owned()],
            exposed_headers: vec![],
            max_age: 60,
        }]),
        default_version: Some("2019-12-12".to_owned()),
        delete_retention: Some(Retention { days: Some(365) }),
        static_website: Some(StaticWebsite { enabled: true, index: Some("i.html".to_owned()), error: None }),
    };
    let body = service_properties(&properties);
    assert_eq!(parse_service_properties(body.as_bytes()).unwrap(), properties);
    let nothing = service_properties(&ServiceProperties::default());
    assert_eq!(parse_service_properties(nothing.as_bytes()).unwrap(), ServiceProperties::default());
    for bad in [
        "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>366</Days></DeleteRetentionPolicy>",
        "<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>FLY</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds></CorsRule></Cors>",
        "<Logging><Delete>maybe</Delete></Logging>",
    ] {
        let body = format!("<StorageServiceProperties>{bad}</StorageServiceProperties>");
        assert!(parse_service_properties(body.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn found_blobs_come_back() {
    let page = FilterListing {
        query: "\"a\" = 'b'".to_owned(),
        blobs: vec![TaggedLine {
            container: "share".to_owned(),
            name: "a\u{b}b".to_owned(),
            tags: pairs(&[("a", "b"), ("empty", "")]),
        }],
        next: Some("x".to_owned()),
    };
    assert_eq!(parse_filter_result(filter_result("http://host/", &page).as_bytes()).unwrap(), page);
}

#[test]
fn errors_tell_their_details() {
    let fault = Fault::invalid_header("x-ms-range", "a<b\u{0}");
    let body = error_body(&fault, "request", "now");
    assert!(body.contains("<HeaderName>x-ms-range</HeaderName><HeaderValue>a&lt;b</HeaderValue>"), "{body}");
    let error = parse_error(body.as_bytes()).unwrap();
    assert_eq!(error.code, "InvalidHeaderValue");
    assert!(error.message.ends_with("RequestId:request\nTime:now"), "{}", error.message);
}

#[test]
fn dangerous_documents_are_refused() {
    let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let laughs =
        "<!DOCTYPE Tags [<!ENTITY a \"ha\">]><Tags><TagSet><Tag><Key>&a;</Key></Tag></TagSet></Tags>";
    let unknown = "<Tags><TagSet><Tag><Key>&nbsp;</Key></Tag></TagSet></Tags>";
    for body in [deep.as_str(), laughs, unknown, "<Tags></Other>", "<Tags/><Tags/>", "<Tags/>more", "\u{0}"] {
        assert_eq!(parse_tags_body(body.as_bytes()).unwrap_err().code, ErrorCode::InvalidXmlDocument);
        read_all(body.as_bytes());
    }
}

#[test]
fn documents_of_other_writers_are_read() {
    let body = "\u{feff}<?xml version='1.0' encoding='utf-8'?>\r\n<!-- x --><Tags xmlns=\"urn:x\">\r\n  <TagSet>\r\n    \
        <Tag><Key><![CDATA[a b]]></Key><Value>x&#x2b;&#61;</Value><New/></Tag></TagSet></Tags>\n";
    assert_eq!(parse_tags_body(body.as_bytes()).unwrap(), pairs(&[("a b", "x+=")]));
}

proptest! {
    #[test]
    fn names_of_blobs_come_back(names in vec(".{1,20}", 0..5), prefix in option::of(".{1,8}")) {
        let line = |name: String| BlobLine::Blob {
            name,
            snapshot: None,
            fields: Box::default(),
            metadata: None,
            tags: None,
        };
        let page = BlobListing { prefix, lines: names.into_iter().map(line).collect(), ..BlobListing::default() };
        prop_assert_eq!(parse_blob_list(blob_list("e", "c", &page).as_bytes()).unwrap(), page);
    }

    #[test]
    fn tags_in_xml_come_back(tags in btree_map("[a-zA-Z0-9 +./:=_-]{1,8}", "[a-zA-Z0-9 +./:=_-]{0,8}", 0..10)) {
        prop_assert_eq!(parse_tags_body(tags_body(&tags).as_bytes()).unwrap(), tags);
    }

    #[test]
    fn random_bytes_are_refused(bytes in vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn random_markup_is_read_or_refused(text in "(<|>|/|&|;|=|\"|!|\\[|\\]|-|\\?|#|Tags|BlockList|Latest|amp|x41| ){0,60}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn damaged_documents_are_read_or_refused(at in 0..3000_usize, byte in any::<u8>(), cut in 0..3000_usize) {
        let mut body = blob_list("e", "c", &full_listing()).into_bytes();
        let length = body.len();
        body[at % length] = byte;
        read_all(&body);
        read_all(&body[..cut.min(length)]);
    }
}
