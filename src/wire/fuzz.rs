//! Hostile text for every parser of this layer: nothing makes one panic, and what is written comes back when read.
//!
//! Text is drawn from three sources: arbitrary characters, words of the protocol strung together at random, and valid
//! samples with a few characters changed. The last one gets deepest.

use std::str::FromStr;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::share::Moment;
use crate::share::lease::{LeaseDuration, LeaseId};
use etag::{Etag, EtagList};
use lease::LeaseCommand;
use query::Query;
use range::RequestedRange;
use signing::sas::{Circumstances, Place, SasToken};
use signing::shared_key::{Authorization, SignedParts};
use signing::{AccountKey, DEVELOPMENT_KEY, Permissions, Service};
use version::ServiceVersion;

/// One valid text for each parser, at least.
const SAMPLES: &[&str] = &[
    "bytes=0-511",
    "bytes 0-9/100",
    "SharedKey acct:SGVsbG8gd29ybGQ=",
    "SharedKeyLite acct:",
    "Tue, 17 Nov 2026 10:00:00 GMT",
    "2026-11-17T10:00:00.0000000Z",
    "2026-11-17",
    "2026-06-06",
    "\"0x8DC0FFEE\"",
    "\"a\", W/\"b\", *",
    "a=1&b%20c=%C3%A4",
    "sv=2026-02-06&sr=b&sp=r&se=2026-11-18T00%3A00%3A00Z&sig=AAAA",
    "sv=2020-02-10&ss=bqf&srt=sco&sp=rwdl&st=2026-01-01&se=2099-01-01&sip=1.1.1.1-2.2.2.2&spr=https&sig=x",
    "racwdxltmeop",
    "11111111-aaaa-4aaa-8aaa-111111111111",
    "{11111111-aaaa-4aaa-8aaa-111111111111}",
    "acquire",
    "-1",
    "18446744073709551615",
    "sQqNsWTgdUEFt6mb5y4/5Q==",
    "BlobAlreadyExists",
];

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "bytes",
    "=",
    "-",
    ",",
    "\"",
    "*",
    "W/",
    "0x",
    "%",
    "%2",
    "%FF",
    "&",
    "sig=",
    "sv=",
    "se=",
    "2026",
    "T",
    "Z",
    ":",
    "/",
    " ",
    "\t",
    "GMT",
    "SharedKey ",
    "acquire",
    "break",
    "true",
    "18446744073709551616",
    "-1",
    "ä",
    "\u{0}",
    "\u{feff}",
];

fn hostile() -> impl Strategy<Value = String> {
    let damaged =
        (select(SAMPLES), vec((any::<usize>(), any::<char>(), 0..3u8), 1..4)).prop_map(|(text, changes)| {
            let mut text: Vec<char> = text.chars().collect();
            for (at, with, how) in changes {
                let at = at % text.len().max(1);
                match how {
                    0 if !text.is_empty() => text[at] = with,
                    1 if !text.is_empty() => drop(text.remove(at)),
                    _ => text.insert(at, with),
                }
            }
            text.into_iter().collect()
        });
    prop_oneof![
        1 => any::<String>(),
        1 => select(SAMPLES).prop_map(str::to_owned),
        2 => vec(select(WORDS), 0..12).prop_map(|words| words.concat()),
        4 => damaged,
    ]
}

/// Names of headers that some parser looks at.
const NAMES: &[&str] = &[
    headers::AUTHORIZATION,
    headers::VERSION,
    headers::RANGE,
    headers::X_MS_RANGE,
    headers::SOURCE_RANGE,
    headers::IF_MATCH,
    headers::IF_NONE_MATCH,
    headers::IF_MODIFIED_SINCE,
    headers::IF_UNMODIFIED_SINCE,
    headers::IF_TAGS,
    headers::SOURCE_IF_MATCH,
    headers::SOURCE_IF_NONE_MATCH,
    headers::SOURCE_IF_MODIFIED_SINCE,
    headers::SOURCE_IF_UNMODIFIED_SINCE,
    headers::BLOB_CONDITION_APPENDPOS,
    headers::BLOB_CONDITION_MAXSIZE,
    headers::IF_SEQUENCE_NUMBER_EQ,
    headers::IF_SEQUENCE_NUMBER_LE,
    headers::IF_SEQUENCE_NUMBER_LT,
    headers::LEASE_ACTION,
    headers::LEASE_ID,
    headers::PROPOSED_LEASE_ID,
    headers::LEASE_DURATION,
    headers::LEASE_BREAK_PERIOD,
    headers::CONTENT_MD5,
    headers::CONTENT_CRC64,
    headers::SOURCE_CONTENT_MD5,
    headers::SOURCE_CONTENT_CRC64,
    headers::DATE,
    "x-ms-date",
    "x-ms-meta-a",
    "x-ms-meta-",
    "x-ms-meta-0-b",
];

fn hostile_headers() -> impl Strategy<Value = HeaderMap> {
    vec((select(NAMES), hostile(), vec(any::<u8>(), 0..4)), 0..8).prop_map(|list| {
        let mut headers = HeaderMap::new();
        for (name, text, bytes) in list {
            // Bytes that are no text, too: the HTTP library lets them through.
            let value = if bytes.len() == 3 { bytes } else { text.into_bytes() };
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        headers
    })
}

fn id(bytes: u128) -> LeaseId {
    LeaseId::from_str(&uuid::Uuid::from_u128(bytes).to_string()).expect("a GUID is a lease id")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_makes_a_parser_panic(text in hostile()) {
        let _ = RequestedRange::parse(&text);
        let _ = range::parse_content_range(&text);
        let _ = AccountKey::parse(&text);
        let _ = Authorization::parse(&text);
        let _ = Permissions::parse(&text);
        let _ = xml::LeaseFields::parse_state(&text);
        let _ = checksum::parse_md5(&text);
        let _ = checksum::parse_crc64(&text);
        let _ = ErrorCode::parse(&text);
        let _ = date::parse_http(&text);
        let _ = date::parse_iso(&text);
        let _ = date::parse_ticks(&text);
        let _ = tags::parse_header(&text);
        let _ = Etag::parse(&text);
        let _ = EtagList::parse("if-match", &text);
        let _ = query::decode(&text);
        let _ = ServiceVersion::from_str(&text);
        let _ = LeaseId::from_str(&text);
    }

    #[test]
    fn no_header_makes_a_parser_panic(map in hostile_headers()) {
        let _ = RequestedRange::of_read(&map);
        let _ = RequestedRange::of_write(&map);
        let _ = checksum::Declared::from_headers(&map);
        let _ = checksum::Declared::of_source(&map);
        let _ = metadata::from_headers(&map);
        let _ = conditions::Conditions::of_read(&map);
        let _ = conditions::Conditions::of_write(&map);
        let _ = conditions::Conditions::of_source(&map);
        let _ = conditions::AppendConditions::from_headers(&map);
        let _ = conditions::SequenceConditions::from_headers(&map);
        let _ = ServiceVersion::from_headers(&map);
        let _ = LeaseCommand::from_headers(&map);
        for name in NAMES {
            let _ = headers::text(&map, name);
            let _ = headers::required(&map, name);
            let _ = headers::number::<u64>(&map, name);
            let _ = headers::flag(&map, name);
            let _ = lease::id_header(&map, name);
        }
    }

    /// Neither panics nor lets anybody in: nobody guesses a signature.
    #[test]
    fn no_stranger_is_authorized(headers in hostile_headers(), text in hostile(), path in hostile(), of in hostile()) {
        let keys = [AccountKey::parse(DEVELOPMENT_KEY).unwrap()];
        let now = Moment(1_794_917_233_000_000_000);
        let Ok(query) = Query::parse(&text) else { return Ok(()) };
        let parts = SignedParts { method: "GET", path: &path, query: &query, headers: &headers };
        if let Ok(claim) = Authorization::parse(&of) {
            prop_assert!(claim.check(&keys, &parts, now).is_err());
        }
        if let Ok(Some(token)) = SasToken::from_query(&query) {
            let place =
                Place { service: Service::Blob, account: "a", container: Some(&path), name: Some(&of), snapshot: None };
            let here = Circumstances { now, client: None, secure: true };
            prop_assert!(token.check(&keys, &place, &[], &here).is_err());
        }
    }

    #[test]
    fn a_query_that_was_read_is_written_and_read_the_same(text in hostile()) {
        if let Ok(query) = Query::parse(&text) {
            let written: Vec<_> =
                query.pairs().map(|(name, value)| format!("{}={}", query::encode(name), query::encode(value))).collect();
            let again = Query::parse(&written.join("&")).unwrap();
            // A parameter without a name and a value leaves nothing to write.
            prop_assert_eq!(again, query);
        }
    }

    #[test]
    fn lease_commands_come_back(
        which in 0..5u8, a in 1..u128::MAX, b in option::of(1..u128::MAX), seconds in option::of(15..=60u8),
        period in option::of(0..=60u8),
    ) {
        let duration = seconds.and_then(LeaseDuration::seconds).unwrap_or(LeaseDuration::INFINITE);
        let command = match which {
            0 => LeaseCommand::Acquire { proposed: b.map(id), duration },
            1 => LeaseCommand::Renew { id: id(a) },
            2 => LeaseCommand::Change { id: id(a), proposed: id(b.unwrap_or(a)) },
            3 => LeaseCommand::Release { id: id(a) },
            _ => LeaseCommand::Break { period },
        };
        let pair = |(name, value): (&'static str, String)| (HeaderName::from_static(name), value.parse().unwrap());
        let headers: HeaderMap = command.to_headers().into_iter().map(pair).collect();
        prop_assert_eq!(LeaseCommand::from_headers(&headers).unwrap(), command);
    }

    #[test]
    fn etags_versions_and_ids_come_back(number in any::<u64>(), bytes in any::<u128>(), day in 1..=28u8) {
        prop_assert_eq!(Etag::parse(&Etag(number).to_string()), Some(Etag(number)));
        let version = ServiceVersion::of(2020, 1 + day % 12, day);
        prop_assert_eq!(ServiceVersion::from_str(&version.to_string()).ok(), Some(version));
        let id = id(bytes.max(1));
        prop_assert_eq!(LeaseId::from_str(&id.to_string()).ok(), Some(id));
    }

    #[test]
    fn tags_in_a_header_come_back(tags in btree_map("[a-zA-Z0-9 +./:=_-]{1,8}", "[a-zA-Z0-9 +./:=_-]{0,8}", 0..10)) {
        prop_assert_eq!(tags::parse_header(&tags::to_header(&tags)).unwrap(), tags);
    }
}
