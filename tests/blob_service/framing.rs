//! Where a request ends has one answer, and what is not a request is refused.

use crate::rig::{Line, Rig, signed, signed_head};
use leasefs::rest::server::Limits;

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// A request that would show if the body of another one were taken for it.
fn hidden() -> Vec<u8> {
    signed("DELETE", "/box1/kept", &[], b"")
}

async fn rig_with_blob() -> Rig {
    let rig = Rig::with_container(Limits::default()).await;
    assert_eq!(rig.call("PUT", "/box1/kept", &[PUT], b"kept").await.status, 201);
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn doubtful_lengths_are_refused_and_hide_nothing() {
    let rig = rig_with_blob().await;
    let base = String::from_utf8(signed_head("PUT", "/box1/new", &[PUT], 4)).unwrap();
    for framing in [
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "content-length: 4\r\ncontent-length: 40\r\n",
        "content-length: 4, 40\r\n",
        "content-length: +4\r\n",
        "content-length: -4\r\n",
        "content-length: 99999999999999999999\r\n",
        "content-length : 4\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked\r\n",
        "content-length: 4\r\n folded: yes\r\n",
        "",
    ] {
        let mut message = base.replace("content-length: 4\r\n", framing).into_bytes();
        message.extend_from_slice(b"0\r\n\r\n");
        message.extend_from_slice(&hidden());
        let mut line = Line::open(rig.addr).await;
        line.send(&message).await;
        let reply = line.reply(false).await;
        assert!(
            reply.as_ref().is_none_or(|reply| (400..500).contains(&reply.status)),
            "{framing:?}: {reply:?}"
        );
        assert!(line.is_over().await, "{framing:?}: the connection goes on behind a doubtful request");
        assert_eq!(rig.call("GET", "/box1/kept", &[], b"").await.body, b"kept", "{framing:?}");
        assert_eq!(rig.call("HEAD", "/box1/new", &[], b"").await.status, 404, "{framing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_heads_are_refused() {
    let rig = rig_with_blob().await;
    let plain = String::from_utf8(signed("GET", "/box1/kept", &[], b"")).unwrap();
    assert_eq!(rig.send(plain.as_bytes()).await.status, 200);
    for (from, to, status) in [
        ("host: 127.0.0.1\r\n", "host: a\r\nhost: b\r\n", 400),
        ("host: 127.0.0.1\r\n", "", 400),
        ("x-ms-version: 2026-06-06\r\n", "x-ms-version: 2026-06-06\r\nx-ms-version: 2020-02-10\r\n", 400),
        ("GET /", "GET http://elsewhere/", 400),
        ("GET /", "TRACE /", 405),
        ("\r\n\r\n", "\r\nexpect: a-miracle\r\n\r\n", 400),
        ("x-ms-version: 2026-06-06", "x-ms-version: yesterday", 400),
    ] {
        let reply = rig.send(plain.replacen(from, to, 1).as_bytes()).await;
        assert_eq!(reply.status, status, "{to:?}: {reply:?}");
        assert!(!reply.header("x-ms-request-id").is_empty(), "{to:?}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_stop_leave_nothing() {
    let rig = rig_with_blob().await;
    for (target, headers) in [
        ("/box1/new", &[PUT][..]),
        ("/box1/new?comp=block&blockid=YQ%3D%3D", &[]),
        ("/box1/new?comp=blocklist", &[]),
    ] {
        for length in [100_000, 3_000_000] {
            let mut line = Line::open(rig.addr).await;
            let mut message = signed_head("PUT", target, headers, length);
            message.extend(std::iter::repeat_n(b'x', length / 2));
            line.send(&message).await;
            line.finish().await;
            let reply = line.reply(false).await;
            assert!(reply.is_none_or(|reply| reply.status >= 400), "{target}");
        }
    }
    let list = "/box1?restype=container&comp=list&include=uncommittedblobs";
    let names = rig.call("GET", list, &[], b"").await.text();
    assert!(names.contains("<Name>kept</Name>") && !names.contains("new"), "{names}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_in_order_and_errors_say_who_they_are() {
    let rig = rig_with_blob().await;
    let mut line = Line::open(rig.addr).await;
    let mut message = signed("GET", "/box1/kept", &[("x-ms-client-request-id", "me-1")], b"");
    message.extend(signed("HEAD", "/box1/missing", &[("x-ms-client-request-id", "me-2")], b""));
    message.extend(signed("GET", "/box1/missing", &[("x-ms-client-request-id", "me-3")], b""));
    line.send(&message).await;
    let first = line.reply(false).await.unwrap();
    assert_eq!((first.status, first.header("x-ms-client-request-id")), (200, "me-1"));
    let second = line.reply(true).await.unwrap();
    assert_eq!(second.verdict(), (404, "BlobNotFound"));
    let third = line.reply(false).await.unwrap();
    assert_eq!(third.verdict(), (404, "BlobNotFound"));
    assert!(third.text().contains("<Code>BlobNotFound</Code>"), "{}", third.text());
    for reply in [&first, &second, &third] {
        for name in ["x-ms-request-id", "x-ms-version", "server", "date", "x-ms-client-request-id"] {
            assert!(!reply.header(name).is_empty(), "{name}: {reply:?}");
        }
    }
    assert_ne!(first.header("x-ms-request-id"), third.header("x-ms-request-id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_is_not_asked_for_and_a_wanted_one_is() {
    let rig = rig_with_blob().await;
    let mut line = Line::open(rig.addr).await;
    line.send(b"PUT /devstoreaccount1/box1/new HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n")
        .await;
    assert_eq!(line.reply(false).await.unwrap().status, 401);
    let mut line = Line::open(rig.addr).await;
    line.send(&signed_head("PUT", "/box1/new", &[PUT, ("expect", "100-continue")], 3)).await;
    assert_eq!(line.reply(false).await.unwrap().status, 100);
    line.send(b"abc").await;
    assert_eq!(line.reply(false).await.unwrap().status, 201);
}
