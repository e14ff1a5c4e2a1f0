//! Who is let in: wrong signatures, old dates and strangers are not, and are told so with the right code.

use crate::rig::{Rig, signed};
use leasefs::rest::server::Limits;

async fn rig() -> Rig {
    let rig = Rig::with_container(Limits::default()).await;
    let put = rig.call("PUT", "/box1/blob", &[("x-ms-blob-type", "BlockBlob")], b"x").await;
    assert_eq!(put.status, 201, "{put:?}");
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_changed_after_signing_is_refused() {
    let rig = rig().await;
    let right = String::from_utf8(signed("GET", "/box1/blob", &[("x-ms-meta-a", "1")], b"")).unwrap();
    assert_eq!(rig.send(right.as_bytes()).await.status, 200);
    for (from, to) in [
        ("GET ", "DELETE "),
        ("/box1/blob", "/box1/blob2"),
        ("x-ms-meta-a: 1", "x-ms-meta-a: 2"),
        ("SharedKey devstoreaccount1:", "SharedKey devstoreaccount1:A"),
        ("SharedKey devstoreaccount1:", "SharedKey another:"),
    ] {
        let reply = rig.send(right.replacen(from, to, 1).as_bytes()).await;
        assert_eq!(reply.verdict(), (403, "AuthenticationFailed"), "{to}");
    }
    assert_eq!(rig.call("GET", "/box1/blob", &[], b"").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_date_is_refused() {
    let rig = rig().await;
    for date in ["Tue, 17 Nov 2015 10:00:00 GMT", "Fri, 17 Nov 2125 10:00:00 GMT", "yesterday"] {
        let reply = rig.call("GET", "/box1/blob", &[("x-ms-date", date)], b"").await;
        assert_eq!(reply.verdict(), (403, "AuthenticationFailed"), "{date}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_read_only_what_is_public() {
    let rig = rig().await;
    let plain = |method: &str, target: &str| {
        format!("{method} /devstoreaccount1{target} HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n")
            .into_bytes()
    };
    let list = "/box1?restype=container&comp=list";
    assert_eq!(rig.send(&plain("GET", "/box1/blob")).await.status, 401);
    let acl = "/box1?restype=container&comp=acl";
    assert_eq!(rig.call("PUT", acl, &[("x-ms-blob-public-access", "blob")], b"").await.status, 200);
    assert_eq!(rig.send(&plain("GET", "/box1/blob")).await.body, b"x");
    assert_eq!(rig.send(&plain("GET", list)).await.status, 401);
    assert_eq!(rig.call("PUT", acl, &[("x-ms-blob-public-access", "container")], b"").await.status, 200);
    assert_eq!(rig.send(&plain("GET", list)).await.status, 200);
    for (method, target) in
        [("PUT", "/box1/new"), ("DELETE", "/box1/blob"), ("DELETE", "/box1?restype=container")]
    {
        assert_eq!(rig.send(&plain(method, target)).await.status, 401, "{method} {target}");
    }
    assert_eq!(rig.call("PUT", acl, &[], b"").await.status, 200);
    assert_eq!(rig.send(&plain("GET", "/box1/blob")).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secondary_endpoint_only_reads() {
    let rig = rig().await;
    let to_secondary = |method: &str, target: &str| {
        let message =
            String::from_utf8(signed(method, target, &[("x-ms-blob-type", "BlockBlob")], b"")).unwrap();
        message.replacen("/devstoreaccount1/", "/devstoreaccount1-secondary/", 1).into_bytes()
    };
    assert_eq!(rig.send(&to_secondary("GET", "/box1/blob")).await.body, b"x");
    for (method, target) in [("PUT", "/box1/new"), ("DELETE", "/box1/blob")] {
        let reply = rig.send(&to_secondary(method, target)).await;
        assert_eq!(reply.verdict(), (403, "InsufficientAccountPermissions"), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_reads_from_nowhere_but_this_machine() {
    let rig = rig().await;
    for source in ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/x", "https://example.com/x"] {
        let copied = rig.call("PUT", "/box1/copy", &[("x-ms-copy-source", source)], b"").await;
        assert_eq!(copied.verdict(), (403, "CannotVerifyCopySource"), "{source}");
    }
    for source in ["file:///etc/passwd", "ftp://127.0.0.1/x", "not a url"] {
        let copied = rig.call("PUT", "/box1/copy", &[("x-ms-copy-source", source)], b"").await;
        assert_eq!(copied.verdict(), (400, "InvalidHeaderValue"), "{source}");
    }
    let missing = [("x-ms-copy-source", "http://127.0.0.1/devstoreaccount1/box1/missing")];
    assert_eq!(rig.call("PUT", "/box1/copy", &missing, b"").await.verdict(), (404, "CannotVerifyCopySource"));
    let own = ("x-ms-copy-source", "http://127.0.0.1/devstoreaccount1/box1/blob");
    assert_eq!(rig.call("PUT", "/box1/copy", &[own], b"").await.status, 202);
    // While the client waits the source needs a right of its own, and this URL has none.
    let waiting = [own, ("x-ms-requires-sync", "true")];
    assert_eq!(
        rig.call("PUT", "/box1/copy2", &waiting, b"").await.verdict(),
        (401, "CannotVerifyCopySource")
    );
}
