//! Signatures made by the official Python SDK (azure-storage-blob 12.31.1) and by hand, with the emulators' public
//! key; every refusal of a token; and rubbish.

use core::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::need::{Level, Need};
use super::sas::{Circumstances, Grant, Place, SasToken, SignedResource};
use super::shared_key::{Authorization, SignedParts, authorization};
use super::*;
use crate::share::Moment;
use crate::wire::fault::Result;
use crate::wire::query::Query;
use crate::wire::version::ServiceVersion;
use crate::wire::xml::AccessPolicy;

/// 2026-11-17 12:07:13.
const NOON: Moment = Moment(1_794_917_233_000_000_000);
const MINUTE: i64 = 60_000_000_000;
const TOMORROW: &str = "2026-11-18T00:00:00Z";

fn key() -> AccountKey {
    AccountKey::parse(DEVELOPMENT_KEY).unwrap()
}

fn other_key() -> AccountKey {
    AccountKey::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    pairs.iter().map(pair).collect()
}

const DATE: (&str, &str) = ("x-ms-date", "Tue, 17 Nov 2026 12:07:13 GMT");
const VERSION: (&str, &str) = ("x-ms-version", "2026-06-06");

/// Checks an `Authorization` header for a request.
fn check(text: &str, method: &str, url: &str, headers: &HeaderMap, now: Moment) -> Result<()> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(query).unwrap();
    Authorization::parse(text)?.check(
        &[other_key(), key()],
        &SignedParts { method, path, query: &query, headers },
        now,
    )
}

#[test]
fn shared_keys_of_the_sdk_are_accepted() {
    let put = headers(&[
        ("content-length", "0"),
        ("content-type", "text/plain"),
        ("if-match", "\"0x1\""),
        DATE,
        VERSION,
        ("x-ms-meta-a_b", "1"),
        ("x-ms-meta-a1", "2"),
        ("x-ms-meta-ab", "3"),
        ("x-ms-meta-hdi_isfolder", "true"),
        ("x-ms-meta-hdi1", "x"),
        ("x-ms-client-request-id", "77"),
    ]);
    let put_url = "/devstoreaccount1/share/dir/a%20b%26c.txt?timeout=30&comp=metadata";
    let put_sign = "SharedKey devstoreaccount1:wnMR9jwxJC+w4d2EI7BAus2+2kn9yyT3LbMeNvsy6XE=";
    assert_eq!(check(put_sign, "PUT", put_url, &put, NOON), Ok(()));
    let list = headers(&[DATE, VERSION, ("accept", "application/xml")]);
    let list_url =
        "/devstoreaccount1/share?restype=container&comp=list&prefix=a%2Fb%20c&include=metadata%2Csnapshots";
    let list_sign = "SharedKey devstoreaccount1:+0Mc64zdlulJ5s6pV9MNIRnH4wUm5B3XtVim5Tb5ttQ=";
    assert_eq!(check(list_sign, "GET", list_url, &list, NOON), Ok(()));
    let stats_url = "/devstoreaccount1-secondary?restype=service&comp=stats";
    let stats_sign = "SharedKey devstoreaccount1:UtaYTo40VQS9cZtOevHWGarvWKJeQN2azDPaZeMCIqA=";
    assert_eq!(check(stats_sign, "GET", stats_url, &headers(&[DATE, VERSION]), NOON), Ok(()));
    let lite = "SharedKeyLite devstoreaccount1:AOoFpTNpyoH7M2dsjEn4hFZ1SqNPComm3nLNRSirsIc=";
    assert_eq!(
        check(lite, "GET", "/devstoreaccount1/share?comp=list", &headers(&[DATE, VERSION]), NOON),
        Ok(())
    );
}

#[test]
fn our_own_signature_is_the_one_of_the_sdk() {
    let headers = headers(&[DATE, VERSION]);
    let query =
        Query::parse("restype=container&comp=list&prefix=a%2Fb%20c&include=metadata%2Csnapshots").unwrap();
    let parts =
        SignedParts { method: "GET", path: "/devstoreaccount1/share", query: &query, headers: &headers };
    assert_eq!(
        authorization(DEVELOPMENT_ACCOUNT, &key(), &parts),
        "SharedKey devstoreaccount1:+0Mc64zdlulJ5s6pV9MNIRnH4wUm5B3XtVim5Tb5ttQ="
    );
}

#[test]
fn shared_keys_are_refused_for_anything_else() {
    let sign = "SharedKey devstoreaccount1:UtaYTo40VQS9cZtOevHWGarvWKJeQN2azDPaZeMCIqA=";
    let url = "/devstoreaccount1-secondary?restype=service&comp=stats";
    let headers = headers(&[DATE, VERSION]);
    let code = |sign: &str, method: &str, url: &str, headers: &HeaderMap, now| {
        check(sign, method, url, headers, now).unwrap_err().code
    };
    assert_eq!(check(sign, "GET", url, &headers, NOON), Ok(()));
    let failed = ErrorCode::AuthenticationFailed;
    assert_eq!(code(sign, "PUT", url, &headers, NOON), failed);
    assert_eq!(code(sign, "GET", "/devstoreaccount1?restype=service&comp=other", &headers, NOON), failed);
    assert_eq!(code(sign, "GET", url, &HeaderMap::new(), NOON), failed);
    let mut more = headers.clone();
    more.insert("x-ms-lease-id", HeaderValue::from_static("1"));
    assert_eq!(code(sign, "GET", url, &more, NOON), failed);
    for minutes in [-16, 16] {
        assert_eq!(code(sign, "GET", url, &headers, Moment(NOON.0 + minutes * MINUTE)), failed);
    }
    for minutes in [-15, 15] {
        assert_eq!(check(sign, "GET", url, &headers, Moment(NOON.0 + minutes * MINUTE)), Ok(()));
    }
    for malformed in ["", "SharedKey", "SharedKey a", "Basic a:b", "Bearer x"] {
        assert_eq!(code(malformed, "GET", url, &headers, NOON), ErrorCode::InvalidAuthenticationInfo);
    }
    assert!(!format!("{:?}", Authorization::parse(sign).unwrap()).contains("UtaYTo"));
    assert!(!format!("{:?}", key()).contains("Eby8"));
}

#[test]
fn names_are_sorted_as_the_service_does() {
    let mut names = [
        "x-ms-meta-ab",
        "x-ms-meta-a1",
        "x-ms-meta-a_b",
        "x-ms-meta-a",
        "x-ms-date",
        "x-ms-meta-ab-",
        "x-ms-me-tab",
    ];
    names.sort_by(|one, other| collation::compare(one, other));
    // As the SDK sorts them.
    let sorted = [
        "x-ms-date",
        "x-ms-meta-a",
        "x-ms-meta-a_b",
        "x-ms-meta-a1",
        "x-ms-meta-ab",
        "x-ms-meta-ab-",
        "x-ms-me-tab",
    ];
    assert_eq!(names, sorted);
}

const PLACE: Place<'static> = Place {
    service: Service::Blob,
    account: DEVELOPMENT_ACCOUNT,
    container: Some("share"),
    name: Some("dir/a b&c.txt"),
    snapshot: None,
};

fn here() -> Circumstances {
    Circumstances { now: NOON, client: Some("10.0.0.5".parse().unwrap()), secure: true }
}

fn grant(
    query: &str,
    place: &Place<'_>,
    policies: &[AccessPolicy],
    circumstances: &Circumstances,
) -> Result<Grant> {
    let token = SasToken::from_query(&Query::parse(query).unwrap())?.expect("there is a signature");
    token.check(&[other_key(), key()], place, policies, circumstances)
}

fn code(query: &str, place: &Place<'_>, circumstances: &Circumstances) -> ErrorCode {
    grant(query, place, &[], circumstances).unwrap_err().code
}

const BLOB: &str = "se=2026-11-18T00%3A00%3A00Z&sp=racwd&sv=2026-06-06&sr=b&sig=FxsKkLDJJGxZezzXRgcqQaC/hHpL2JWDtFWxV7LUU9E%3D";
const FULL: &str = "st=2026-11-17T00%3A00%3A00Z&se=2026-11-18T00%3A00%3A00Z&sp=r&sip=10.0.0.1-10.0.0.9&spr=https&\
    sv=2026-06-06&sr=b&rscc=no-store&rscd=attachment%3B%20filename%3D%22x%22&rsce=gzip&rscl=de&rsct=text/plain&\
    sig=22CYBX5Eb/uqohW5%2BBkoEQWAicsi%2BBuyrQTsM9XtkhU%3D";
const SNAPSHOT: &str = "se=2026-11-18T00%3A00%3A00Z&sp=r&sv=2026-06-06&sr=bs&sig=90xkvqGZjoL2WYpT7jAm%2BDy8A4YwfSodhSiOFXAaXug%3D";
const CONTAINER: &str =
    "se=2026-11-18T00%3A00%3A00Z&sp=rl&sv=2026-06-06&sr=c&sig=FcXqFzudAZKHc54J/ZJzwKcOhxHFF8RzvbiG9zO6cqE%3D";
const POLICY: &str = "sv=2026-06-06&si=my%20policy&sr=c&sig=2Situsbf7TwHkUljr3sNS9L/6ss7%2BWzpZ0A2X9/Xl0I%3D";
const ACCOUNT: &str = "st=2026-11-17&se=2026-11-18T00%3A00%3A00Z&sp=rwdl&sip=10.0.0.1&spr=https%2Chttp&\
    sv=2026-06-06&ss=bf&srt=sco&sig=QhUMMTIWmw1RvWaI6r4Yfyfn4jF44o264rYcatOiOCg%3D";

#[test]
fn tokens_of_the_sdk_are_accepted() {
    assert!(grant(BLOB, &PLACE, &[], &here()).unwrap().may_overwrite());
    let full = grant(FULL, &PLACE, &[], &here()).unwrap();
    assert_eq!(full.overrides[1], ("content-disposition", "attachment; filename=\"x\"".to_owned()));
    assert_eq!(full.overrides.len(), 5);
    let snapshot = Place { snapshot: Some("2026-11-17T12:07:13.1234567Z"), ..PLACE };
    assert!(grant(SNAPSHOT, &snapshot, &[], &here()).is_ok());
    assert!(grant(CONTAINER, &PLACE, &[], &here()).is_ok());
    assert!(grant(CONTAINER, &Place { name: None, ..PLACE }, &[], &here()).is_ok());
    let at_one = Circumstances { client: Some("10.0.0.1".parse().unwrap()), secure: false, ..here() };
    let service = Place { container: None, name: None, ..PLACE };
    assert!(grant(ACCOUNT, &service, &[], &at_one).is_ok());
}

#[test]
fn tokens_of_every_version_are_accepted() {
    let place = Place { name: Some("f"), ..PLACE };
    for (version, signature) in [
        ("2015-04-05", "L3q1ONsiOmnWDV4brptvLVb7NQnKd4Ghlckvce4vFu0%3D"),
        ("2018-11-09", "eQgX2m5c%2BadUu89R5rQsgKemuPOlgsC7OBww0ADWofY%3D"),
        ("2020-12-06", "qOSmu%2BS2nD282cAsDKL/FFelNvr5QiH3mrw5ayWWXFk%3D"),
    ] {
        let query = format!("sp=r&se={TOMORROW}&spr=https&sv={version}&sr=b&rsct=text/plain&sig={signature}");
        assert!(grant(&query, &place, &[], &here()).is_ok(), "{version}");
    }
    let old_account = format!(
        "sp=r&ss=b&srt=o&se={TOMORROW}&sv=2019-12-12&sig=UEoqyXz6f6zBJkTmOEu9VEpb3sr0thjYyM6fpeIeypM%3D"
    );
    assert!(grant(&old_account, &place, &[], &here()).is_ok());
    let file =
        format!("sp=r&se={TOMORROW}&sv=2026-06-06&sr=f&sig=o%2Br8AJcDKODGVimgCfWJQocyDOdh1jQcHy94cNTtCRs%3D");
    assert!(grant(&file, &Place { service: Service::File, ..place }, &[], &here()).is_ok());
    for (version, what) in [("2014-02-14", "old"), ("soon", "nonsense")] {
        let query = format!("sp=r&se={TOMORROW}&sv={version}&sr=b&sig=x");
        assert_eq!(code(&query, &place, &here()), ErrorCode::AuthenticationFailed, "{what}");
    }
}

#[test]
fn every_refusal_has_its_code() {
    let failed = ErrorCode::AuthenticationFailed;
    let other_blob = Place { name: Some("dir/other"), ..PLACE };
    assert_eq!(code(BLOB, &other_blob, &here()), failed);
    assert_eq!(code(BLOB, &Place { name: None, ..PLACE }, &here()), failed);
    assert_eq!(code(SNAPSHOT, &PLACE, &here()), failed, "the blob itself is not its snapshot");
    assert_eq!(code(&BLOB.replace("racwd", "racw"), &PLACE, &here()), failed);
    for day in [-2, 1] {
        let now = Moment(NOON.0 + day * 24 * 60 * MINUTE);
        assert_eq!(code(FULL, &PLACE, &Circumstances { now, ..here() }), failed, "{day}");
    }
    let client = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    for address in ["10.0.0.0", "10.0.0.10", "::1"] {
        let from = Circumstances { client: client(address), ..here() };
        assert_eq!(code(FULL, &PLACE, &from), ErrorCode::AuthorizationSourceIPMismatch, "{address}");
    }
    let mapped = Circumstances { client: client("::ffff:10.0.0.9"), ..here() };
    assert!(grant(FULL, &PLACE, &[], &mapped).is_ok());
    let nowhere = Circumstances { client: None, ..here() };
    assert_eq!(code(FULL, &PLACE, &nowhere), ErrorCode::AuthorizationSourceIPMismatch);
    let clear = Circumstances { secure: false, ..here() };
    assert_eq!(code(FULL, &PLACE, &clear), ErrorCode::AuthorizationProtocolMismatch);
    assert_eq!(code("sv=2026-06-06&sr=b&sp=r&sig=", &PLACE, &here()), failed);
    assert_eq!(code("sr=b&sp=r&sig=x", &PLACE, &here()), failed);
    assert_eq!(code("sv=2026-06-06&sp=r&sig=x", &PLACE, &here()), failed);
    assert_eq!(code("sv=2026-06-06&sr=d&sp=r&sig=x", &PLACE, &here()), failed);
    assert_eq!(code("sv=2026-06-06&sr=b&skoid=x&sig=x", &PLACE, &here()), failed);
}

#[test]
fn stored_policies_complete_a_token() {
    let policy = |permissions: Option<&str>, expiry: Option<&str>| {
        [AccessPolicy {
            id: "my policy".to_owned(),
            start: None,
            expiry: expiry.map(str::to_owned),
            permissions: permissions.map(str::to_owned),
        }]
    };
    let read = Need::blob(&[Permission::Read]);
    let full = grant(POLICY, &PLACE, &policy(Some("r"), Some(TOMORROW)), &here()).unwrap();
    assert_eq!(full.allows(&read), Ok(()));
    for incomplete in
        [policy(None, Some(TOMORROW)), policy(Some("r"), None), policy(Some("?"), Some(TOMORROW))]
    {
        assert!(grant(POLICY, &PLACE, &incomplete, &here()).is_err());
    }
    assert!(grant(POLICY, &PLACE, &[], &here()).is_err());
    assert!(grant(POLICY, &PLACE, &policy(Some("r"), Some("2026-11-17")), &here()).is_err(), "expired");
    let both = SasToken::service(SignedResource::Container, "r", "").with_policy("my policy");
    let both = both.sign(&key(), &PLACE).unwrap();
    assert!(grant(&both, &PLACE, &policy(Some("r"), Some(TOMORROW)), &here()).is_err(), "twice");
    assert!(grant(&both, &PLACE, &policy(None, Some(TOMORROW)), &here()).is_ok());
}

#[test]
fn grants_are_compared_with_needs() {
    let account = |services, levels, permissions| {
        let query = SasToken::account(services, levels, permissions, TOMORROW).sign(&key(), &PLACE).unwrap();
        grant(&query, &PLACE, &[], &here())
    };
    let refusal = |grant: &Grant, need: &Need| grant.allows(need).unwrap_err().code;
    let write = Need::blob(&[Permission::Create, Permission::Write]);
    assert_eq!(account("qt", "o", "w").unwrap_err().code, ErrorCode::AuthorizationServiceMismatch);
    assert_eq!(account("b", "o", "c").unwrap().allows(&write), Ok(()));
    assert!(!account("b", "o", "c").unwrap().may_overwrite());
    assert_eq!(
        refusal(&account("b", "sc", "w").unwrap(), &write),
        ErrorCode::AuthorizationResourceTypeMismatch
    );
    assert_eq!(
        refusal(&account("b", "o", "rl").unwrap(), &write),
        ErrorCode::AuthorizationPermissionMismatch
    );
    let tagged = write.and(&[Permission::Tags]);
    assert_eq!(
        refusal(&account("b", "o", "w").unwrap(), &tagged),
        ErrorCode::AuthorizationPermissionMismatch
    );
    assert_eq!(account("b", "o", "wt").unwrap().allows(&tagged), Ok(()));
    let everything = account("b", "sco", "racwdxyltfmeopiu").unwrap();
    assert_eq!(
        refusal(&everything, &Need::key_only(Level::Container)),
        ErrorCode::AuthorizationPermissionMismatch
    );
    let list = Need::container(&[Permission::List]);
    let container = grant(CONTAINER, &Place { name: None, ..PLACE }, &[], &here()).unwrap();
    assert_eq!(refusal(&container, &list), ErrorCode::AuthorizationFailure);
    assert_eq!(container.allows(&list.or_by_service_sas()), Ok(()));
    assert_eq!(refusal(&container, &Need::service(&[Permission::List])), ErrorCode::AuthorizationFailure);
}

#[test]
fn permissions_are_written_in_the_services_order() {
    assert_eq!(Permissions::parse("wdrc").unwrap().to_string(), "rcwd");
    assert_eq!(Permissions::parse("z"), None);
    assert_eq!(Permissions::parse(""), Some(Permissions::NONE));
}

proptest! {
    #[test]
    fn tokens_we_make_are_accepted(
        service in any::<bool>(), old in any::<bool>(), name in "[ -~äß]{1,20}", kind in "[ -~]{1,10}",
        permissions in "[racwdl]{1,6}",
    ) {
        let place = Place { name: Some(&name), ..PLACE };
        let token = if service {
            SasToken::service(SignedResource::Blob, &permissions, TOMORROW).with_override("rsct", &kind)
        } else {
            SasToken::account("b", "o", &permissions, TOMORROW)
        };
        let token = token.with_start("2026-11-17").with_addresses("10.0.0.5").with_protocol("https");
        let token = if old { token.with_version(ServiceVersion::of(2018, 11, 9)) } else { token };
        let query = token.sign(&key(), &place).unwrap();
        prop_assert!(grant(&query, &place, &[], &here()).is_ok());
        let elsewhere = Place { account: "other", ..place };
        prop_assert!(grant(&query, &elsewhere, &[], &here()).is_err());
    }

    #[test]
    fn any_query_is_a_token_or_refused(query in "((sv|sr|ss|srt|sp|se|st|si|sip|spr|sig)=[0-9a-z:Z-]{0,12}&){0,12}") {
        if let Ok(Some(token)) = SasToken::from_query(&Query::parse(&query).unwrap()) {
            prop_assert!(token.check(&[key()], &PLACE, &[], &here()).is_err());
        }
    }

    #[test]
    fn any_authorization_is_refused(text in "(SharedKey(Lite)? )?[ -~]{0,60}") {
        prop_assert!(check(&text, "GET", "/a", &headers(&[DATE]), NOON).is_err());
    }

    #[test]
    fn order_of_names_is_an_order(names in proptest::collection::vec("[a-c0-2_-]{0,5}", 3)) {
        use std::cmp::Ordering::Less;
        let compare = collation::compare;
        prop_assert_eq!(compare(&names[0], &names[1]), compare(&names[1], &names[0]).reverse());
        if compare(&names[0], &names[1]) == Less && compare(&names[1], &names[2]) == Less {
            prop_assert_eq!(compare(&names[0], &names[2]), Less);
        }
    }
}
