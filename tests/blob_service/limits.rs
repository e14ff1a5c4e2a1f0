//! Limits: what is too much, too slow or too many ends, and disturbs nobody else.

use std::time::Duration;

use crate::rig::{Line, Rig, signed_head};
use leasefs::rest::server::Limits;

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");
const MOMENT: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn too_many_or_too_long_headers_are_refused() {
    let rig = Rig::new();
    let long = format!("GET / HTTP/1.1\r\nhost: h\r\nx-long: {}\r\n\r\n", "v".repeat(100_000));
    let many: String = (0..200).map(|number| format!("x-{number}: v\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nhost: h\r\n{many}\r\n");
    let address = format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", "a".repeat(70_000));
    for message in [long, many, address] {
        let mut line = Line::open(rig.addr).await;
        line.send(message.as_bytes()).await;
        let reply = line.reply(false).await;
        assert!(reply.is_none_or(|reply| (400..500).contains(&reply.status)));
        assert!(line.is_over().await);
    }
    assert_eq!(rig.send(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_ends_the_connection() {
    let rig = Rig::with(Limits { head_timeout: MOMENT, ..Limits::default() });
    for start in [&b""[..], b"GET / HT", b"GET /healthz HTTP/1.1\r\nhost: h\r\n"] {
        let mut line = Line::open(rig.addr).await;
        line.send(start).await;
        let reply = line.reply(false).await;
        assert!(reply.is_none_or(|reply| reply.status >= 400), "{start:?}");
        assert!(line.is_over().await, "{start:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_refused_and_leaves_nothing() {
    let limits = Limits { body_pace_time: MOMENT, ..Limits::default() };
    let rig = Rig::with_container(limits).await;
    let mut line = Line::open(rig.addr).await;
    line.send(&signed_head("PUT", "/box1/slow", &[PUT], 100_000)).await;
    line.send(b"just this").await;
    assert_eq!(line.reply(false).await.unwrap().verdict(), (500, "OperationTimedOut"));
    assert_eq!(rig.call("HEAD", "/box1/slow", &[], b"").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_beyond_the_limit_waits_for_its_turn() {
    let rig = Rig::with(Limits { connections: 2, ..Limits::default() });
    const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n";
    let mut first = Line::open(rig.addr).await;
    let mut second = Line::open(rig.addr).await;
    for line in [&mut first, &mut second] {
        line.send(HEALTH).await;
        assert_eq!(line.reply(false).await.unwrap().status, 200);
    }
    let mut third = Line::open(rig.addr).await;
    third.send(HEALTH).await;
    drop(first);
    assert_eq!(third.reply(false).await.unwrap().status, 200);
    second.send(HEALTH).await;
    assert_eq!(second.reply(false).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_longer_than_an_operation_takes_are_refused() {
    let rig = Rig::with_container(Limits::default()).await;
    let huge = 6_000 << 20;
    for (target, headers, length) in [
        ("/box1/new", &[PUT][..], huge),
        ("/box1/new?comp=block&blockid=YQ%3D%3D", &[], huge),
        ("/box1/new?comp=blocklist", &[], 20 << 20),
        ("/box1/new?comp=tags", &[], 1 << 20),
        ("/box1?restype=container&comp=acl", &[], 1 << 20),
    ] {
        let reply = rig.send(&signed_head("PUT", target, headers, length)).await;
        assert_eq!(reply.verdict(), (413, "RequestBodyTooLarge"), "{target}");
    }
}
