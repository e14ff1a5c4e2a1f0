//! Who is let in: the key, account SAS, SAS of a share or file, stored policies; nobody else.

use leasefs::rest::auth::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use leasefs::wire::signing::sas::{Place, SasToken, SignedResource};
use leasefs::wire::signing::{AccountKey, Service};

use super::rig::{Reply, Rig};
use crate::http_rig::{exchange, signed};

const FAR: &str = "2100-01-01T00:00:00Z";

/// The query of a token for a file of `docs`, or for the share.
fn sas(token: &SasToken, name: Option<&str>) -> String {
    let place = Place {
        service: Service::File,
        account: DEVELOPMENT_ACCOUNT,
        container: Some("docs"),
        name,
        snapshot: None,
    };
    token.sign(&AccountKey::parse(DEVELOPMENT_KEY).unwrap(), &place).unwrap()
}

/// A request without a key.
async fn plain(rig: &Rig, method: &str, target: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    let text = format!(
        "{method} /{DEVELOPMENT_ACCOUNT}{target} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(rig.addr, text.as_bytes()).await
}

const CREATE: &str = "x-ms-type: file\r\nx-ms-content-length: 0\r\n";

#[tokio::test]
async fn strangers_and_forgers_are_refused() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"secret").await;
    assert_eq!(plain(&rig, "GET", "/docs/f", "", "").await.verdict(), (401, "NoAuthenticationInformation"));
    let right = String::from_utf8(signed("GET", "/docs/f", &[], b"")).unwrap();
    let forged = right.replacen("/docs/f", "/docs/g", 1);
    assert_eq!(exchange(rig.addr, forged.as_bytes()).await.verdict(), (403, "AuthenticationFailed"));
    let bearer = plain(&rig, "GET", "/docs/f", "authorization: Bearer x\r\n", "").await;
    assert_eq!(bearer.verdict(), (400, "InvalidAuthenticationInfo"));
}

#[tokio::test]
async fn a_share_sas_opens_what_it_says_and_no_share_operations() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"content").await;
    let read = sas(&SasToken::service(SignedResource::Share, "rl", FAR), None);
    assert_eq!(plain(&rig, "GET", &format!("/docs/f?{read}"), "", "").await.text(), "content");
    let list = plain(&rig, "GET", &format!("/docs?restype=directory&comp=list&{read}"), "", "").await;
    assert_eq!(list.status, 200, "{list:?}");
    let refused = plain(&rig, "DELETE", &format!("/docs/f?{read}"), "", "").await;
    assert_eq!(refused.verdict(), (403, "AuthorizationPermissionMismatch"));
    let share = plain(&rig, "GET", &format!("/docs?restype=share&{read}"), "", "").await;
    assert_eq!(share.verdict(), (403, "AuthorizationFailure"));
}

#[tokio::test]
async fn a_file_sas_is_for_that_file_alone() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"content").await;
    rig.file("/docs/g", b"other").await;
    let token = sas(&SasToken::service(SignedResource::File, "r", FAR), Some("f"));
    assert_eq!(plain(&rig, "GET", &format!("/docs/f?{token}"), "", "").await.text(), "content");
    let other = plain(&rig, "GET", &format!("/docs/g?{token}"), "", "").await;
    assert_eq!(other.verdict(), (403, "AuthenticationFailed"));
    // What may read one file may not take another one's name.
    let write = sas(&SasToken::service(SignedResource::File, "rw", FAR), Some("f"));
    let source = format!("x-ms-file-rename-source: http://127.0.0.1/{DEVELOPMENT_ACCOUNT}/docs/g\r\n");
    let stolen = plain(&rig, "PUT", &format!("/docs/f?comp=rename&{write}"), &source, "").await;
    assert_eq!(stolen.status, 403, "{stolen:?}");
    assert_eq!(rig.get("/docs/g", &[]).await.text(), "other");
}

#[tokio::test]
async fn who_may_only_create_does_not_replace() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"content").await;
    let token = sas(&SasToken::service(SignedResource::Share, "c", FAR), None);
    let made = plain(&rig, "PUT", &format!("/docs/new?{token}"), CREATE, "").await;
    assert_eq!(made.status, 201, "{made:?}");
    let refused = plain(&rig, "PUT", &format!("/docs/f?{token}"), CREATE, "").await;
    assert_eq!(refused.verdict(), (403, "AuthorizationPermissionMismatch"));
    assert_eq!(rig.get("/docs/f", &[]).await.text(), "content");
}

#[tokio::test]
async fn an_account_sas_counts_for_its_services_only() {
    let rig = Rig::new().await;
    let files = sas(&SasToken::account("bf", "sco", "rl", FAR), None);
    assert_eq!(plain(&rig, "GET", &format!("/?comp=list&{files}"), "", "").await.status, 200);
    assert_eq!(plain(&rig, "GET", &format!("/docs?restype=share&{files}"), "", "").await.status, 200);
    let blobs = sas(&SasToken::account("b", "sco", "rl", FAR), None);
    let refused = plain(&rig, "GET", &format!("/?comp=list&{blobs}"), "", "").await;
    assert_eq!(refused.verdict(), (403, "AuthorizationServiceMismatch"));
    let objects = sas(&SasToken::account("f", "o", "rl", FAR), None);
    let refused = plain(&rig, "GET", &format!("/?comp=list&{objects}"), "", "").await;
    assert_eq!(refused.verdict(), (403, "AuthorizationResourceTypeMismatch"));
}

#[tokio::test]
async fn a_stored_policy_can_be_taken_back() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"content").await;
    let acl = format!(
        "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Expiry>{FAR}</Expiry>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    );
    assert_eq!(rig.put("/docs?restype=share&comp=acl", &[], acl.as_bytes()).await.status, 200);
    let read = rig.get("/docs?restype=share&comp=acl", &[]).await.text();
    assert!(read.contains("<Id>p</Id>"), "{read}");
    let token = sas(&SasToken::service(SignedResource::Share, "", "").with_policy("p"), None);
    assert_eq!(plain(&rig, "GET", &format!("/docs/f?{token}"), "", "").await.text(), "content");
    assert_eq!(rig.put("/docs?restype=share&comp=acl", &[], b"").await.status, 200);
    let refused = plain(&rig, "GET", &format!("/docs/f?{token}"), "", "").await;
    assert_eq!(refused.verdict(), (403, "AuthenticationFailed"));
}

#[tokio::test]
async fn the_secondary_endpoint_only_reads() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"content").await;
    let token = sas(&SasToken::account("f", "sco", "rwdlc", FAR), None);
    let secondary = |method: &'static str, target: String| {
        let rig = &rig;
        async move {
            let text = format!(
                "{method} /{DEVELOPMENT_ACCOUNT}-secondary{target} HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n"
            );
            exchange(rig.addr, text.as_bytes()).await
        }
    };
    assert_eq!(secondary("GET", format!("/docs/f?{token}")).await.text(), "content");
    let refused = secondary("DELETE", format!("/docs/f?{token}")).await;
    assert_eq!(refused.verdict(), (403, "InsufficientAccountPermissions"));
}
