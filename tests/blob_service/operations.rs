//! Operations whose answers are easier to see in bytes than through an SDK: batch, CORS, ranges, checksums, versions.

use crate::rig::{Rig, signed};
use leasefs::rest::server::Limits;

const PUT: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

async fn rig() -> Rig {
    let rig = Rig::with_container(Limits::default()).await;
    assert_eq!(rig.call("PUT", "/box1/blob", &[PUT], b"0123456789").await.status, 201);
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_does_each_part_by_itself() {
    let rig = rig().await;
    let part = |number: usize, request: &[u8]| {
        let mut part =
            format!("--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n").into_bytes();
        part.extend_from_slice(request);
        part.extend_from_slice(b"\r\n");
        part
    };
    let tier = signed("PUT", "/box1/blob?comp=tier", &[("x-ms-access-tier", "Cool")], b"");
    let stranger = b"DELETE /devstoreaccount1/box1/blob HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
    let list = signed("GET", "/?comp=list", &[], b"");
    let mut body = part(0, &tier);
    body.extend(part(1, &signed("DELETE", "/box1/missing", &[], b"")));
    body.extend(part(2, stranger));
    body.extend(part(3, &list));
    body.extend(part(4, &signed("DELETE", "/box1/blob", &[], b"")));
    body.extend_from_slice(b"--b--\r\n");
    let kind = ("content-type", "multipart/mixed; boundary=b");
    let reply = rig.call("POST", "/?comp=batch", &[kind], &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    let text = reply.text();
    let parts: Vec<&str> = text.split("--batchresponse_").skip(1).collect();
    for (number, status) in
        [(0, "200 OK"), (1, "404 Not Found"), (2, "401 Unauthorized"), (3, "400 Bad"), (4, "202 Accepted")]
    {
        assert!(parts[number].contains(&format!("Content-ID: {number}\r\n")), "{text}");
        assert!(parts[number].contains(&format!("HTTP/1.1 {status}")), "{number}: {text}");
    }
    assert_eq!(rig.call("HEAD", "/box1/blob", &[], b"").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_are_told_what_the_rules_allow() {
    let rig = rig().await;
    let rules = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://page</AllowedOrigins>\
        <AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders>\
        <ExposedHeaders>etag,x-ms-blob-*</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors>\
        </StorageServiceProperties>";
    let ask = |origin: &str, method: &str, names: &str| {
        format!(
            "OPTIONS /devstoreaccount1/box1/blob HTTP/1.1\r\nhost: h\r\norigin: {origin}\r\n\
             access-control-request-method: {method}\r\naccess-control-request-headers: {names}\r\n\r\n"
        )
    };
    let before = rig.send(ask("http://page", "GET", "x-ms-date").as_bytes()).await;
    assert_eq!(before.verdict(), (403, "CorsPreflightFailure"));
    let set = rig.call("PUT", "/?restype=service&comp=properties", &[], rules.as_bytes()).await;
    assert_eq!(set.status, 202, "{}", set.text());
    let told = rig.send(ask("http://page", "PUT", "x-ms-date,x-ms-version").as_bytes()).await;
    assert_eq!((told.status, told.header("access-control-allow-origin")), (200, "http://page"));
    assert_eq!(told.header("access-control-max-age"), "60");
    for (origin, method, names) in [
        ("http://other", "GET", "x-ms-a"),
        ("http://page", "DELETE", "x-ms-a"),
        ("http://page", "GET", "cookie"),
    ] {
        assert_eq!(
            rig.send(ask(origin, method, names).as_bytes()).await.status,
            403,
            "{origin} {method} {names}"
        );
    }
    let read = rig.call("GET", "/box1/blob", &[("origin", "http://page")], b"").await;
    assert_eq!(read.header("access-control-allow-origin"), "http://page");
    assert!(read.header("access-control-expose-headers").contains("x-ms-blob-type"), "{read:?}");
    let read = rig.call("GET", "/box1/blob", &[("origin", "http://other")], b"").await;
    assert_eq!((read.status, read.header("access-control-allow-origin")), (200, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn checksums_are_checked_and_told() {
    let rig = rig().await;
    let right = "eB5eJF1ptWaXm4bijSPyxw=="; // of 0123456789
    let wrong = "AAAAAAAAAAAAAAAAAAAAAA==";
    let put = |name: &'static str, value: &'static str| {
        let rig = &rig;
        async move { rig.call("PUT", "/box1/sum", &[PUT, (name, value)], b"0123456789").await }
    };
    assert_eq!(put("content-md5", right).await.status, 201);
    assert_eq!(put("content-md5", wrong).await.verdict(), (400, "Md5Mismatch"));
    assert_eq!(put("content-md5", "short").await.verdict(), (400, "InvalidMd5"));
    assert_eq!(put("x-ms-content-crc64", "AAAAAAAAAAA=").await.verdict(), (400, "Crc64Mismatch"));
    let both = [PUT, ("content-md5", right), ("x-ms-content-crc64", "AAAAAAAAAAA=")];
    let both = rig.call("PUT", "/box1/sum", &both, b"0123456789").await;
    assert_eq!(both.verdict(), (400, "BothCrc64AndMd5HeaderPresent"));
    let read = rig.call("GET", "/box1/sum", &[], b"").await;
    assert_eq!((read.body.as_slice(), read.header("content-md5")), (&b"0123456789"[..], right));
    let part = [("x-ms-range", "bytes=0-9"), ("x-ms-range-get-content-md5", "true")];
    let part = rig.call("GET", "/box1/sum", &part, b"").await;
    assert_eq!(
        (part.status, part.header("content-md5"), part.header("content-range")),
        (206, right, "bytes 0-9/10")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_end_where_the_blob_does() {
    let rig = rig().await;
    for (range, status, body) in [
        ("bytes=2-4", 206, "234"),
        ("bytes=7-100", 206, "789"),
        ("bytes=9-", 206, "9"),
        ("bytes=10-", 416, ""),
        ("lines=1-2", 200, "0123456789"),
    ] {
        let read = rig.call("GET", "/box1/blob", &[("range", range)], b"").await;
        assert_eq!(read.status, status, "{range}");
        assert!(status == 416 || read.text() == body, "{range}: {}", read.text());
    }
    // Long enough to be read piece by piece.
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    assert_eq!(rig.call("PUT", "/box1/long", &[PUT], &long).await.status, 201);
    assert!(rig.call("GET", "/box1/long", &[], b"").await.body == long);
    let part = rig.call("GET", "/box1/long", &[("x-ms-range", "bytes=99999-2000000")], b"").await;
    assert!(part.body == long[99_999..=2_000_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_offered_says_so() {
    let rig = rig().await;
    for target in [
        "/box1/blob?comp=undelete",
        "/box1/blob?comp=query",
        "/box1/blob?comp=legalhold",
        "/box1/blob?comp=expiry",
    ] {
        let reply = rig.call("PUT", target, &[], b"").await;
        assert_eq!(reply.verdict(), (501, "APINotImplemented"), "{target}");
        assert!(reply.text().contains("not supported by leasefs"), "{}", reply.text());
    }
    let with_key = [PUT, ("x-ms-encryption-key", "abc")];
    assert_eq!(rig.call("PUT", "/box1/secret", &with_key, b"x").await.verdict(), (400, "UnsupportedHeader"));
    assert_eq!(rig.call("PUT", "/box1/blob?comp=nonsense", &[], b"").await.status, 400);
    assert_eq!(rig.call("PATCH", "/box1/blob", &[], b"").await.verdict(), (405, "UnsupportedHttpVerb"));
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_newer_than_all_known_are_served() {
    let rig = rig().await;
    for (version, told) in [("2031-01-01", "2026-06-06"), ("2019-12-12", "2019-12-12")] {
        let read = rig.call("GET", "/box1/blob", &[("x-ms-version", version)], b"").await;
        assert_eq!((read.status, read.header("x-ms-version")), (200, told));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_name_the_same_blob_in_both_styles() {
    let rig = rig().await;
    // On a host of the account's own, the path has no account; what is signed then is the path as it is.
    let message = "GET /box1/blob HTTP/1.1\r\nhost: devstoreaccount1.blob.localhost\r\n\r\n";
    assert_eq!(rig.send(message.as_bytes()).await.status, 401, "known, but private");
    let acl = [("x-ms-blob-public-access", "blob")];
    assert_eq!(rig.call("PUT", "/box1?restype=container&comp=acl", &acl, b"").await.status, 200);
    assert_eq!(rig.send(message.as_bytes()).await.text(), "0123456789");
    // A name alone is a blob of the root container.
    assert_eq!(rig.call("PUT", "/alone", &[PUT], b"x").await.verdict(), (404, "ContainerNotFound"));
    assert_eq!(rig.call("PUT", "/$root?restype=container", &[], b"").await.status, 201);
    assert_eq!(rig.call("PUT", "/alone", &[PUT], b"x").await.status, 201);
    assert_eq!(rig.call("GET", "/$root/alone", &[], b"").await.text(), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_segments_are_refused_and_metadata_comes_in_lower_case() {
    let rig = Rig::with_container(Limits::default()).await;
    let put = [("x-ms-blob-type", "BlockBlob"), ("X-Ms-Meta-Mixed", "Case")];
    for name in ["a//b", "./a", "a/%2e%2e/b", "a/..", "//a"] {
        let reply = rig.call("PUT", &format!("/box1/{name}"), &put, b"x").await;
        assert_eq!(reply.verdict(), (400, "InvalidResourceName"), "{name}");
    }
    assert_eq!(rig.call("PUT", "/box1/a/b", &put, b"x").await.status, 201);
    assert_eq!(rig.call("GET", "/box1/a/b", &[], b"").await.header("x-ms-meta-mixed"), "Case");
    let list = rig.call("GET", "/box1?restype=container&comp=list&include=metadata", &[], b"").await.text();
    assert!(list.contains("<mixed>Case</mixed>"), "{list}");
}
