//! Hostile bytes on real sockets: valid requests that were damaged, and signed ones that ask for nonsense. The server
//! answers all it understands, never with a failure of its own, and nothing half is stored.
//!
//! Seeded: a failure names the request, and comes again.

use crate::rig::{Line, Reply, Rig, signed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leasefs::rest::server::Limits;
use md5::{Digest, Md5};

const SEED: u64 = 0x5eed_1ea5_ef50_0001;
const DAMAGED: usize = 1_200;
const NONSENSE: usize = 1_500;

/// Random numbers that are the same in each run (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }

    fn pick<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.roll(list.len())]
    }
}

/// The content of the blob number `index`, as long as it is whole.
fn content(index: usize) -> Vec<u8> {
    format!("content of blob {index}, ").repeat(1 + index % 2_000).into_bytes()
}

/// A valid request. Puts carry the checksum of their body, so that damage to it shows.
fn valid(index: usize, dice: &mut Dice) -> Vec<u8> {
    let body = content(index);
    let md5 = STANDARD.encode(Md5::digest(&body));
    let name = format!("/box1/f-{index}");
    let kind = ("x-ms-blob-type", "BlockBlob");
    match dice.roll(8) {
        0..=3 => signed("PUT", &name, &[kind, ("content-md5", &md5)], &body),
        4 => signed("GET", "/box1/canary", &[("x-ms-range", "bytes=0-3")], b""),
        5 => signed("GET", "/box1?restype=container&comp=list&maxresults=2", &[], b""),
        6 => signed("PUT", "/box1/canary?comp=lease", &[("x-ms-lease-action", "break")], b""),
        _ => signed("HEAD", "/box1/canary", &[("if-none-match", "*")], b""),
    }
}

/// Changes a request somewhere: bytes, lines, its end, or another request inside of it.
fn damage(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    for _ in 0..1 + dice.roll(3) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = dice.roll(bytes.len());
        let to = (at + 1 + dice.roll(40)).min(bytes.len());
        match dice.roll(8) {
            0 => bytes[at] = dice.roll(256) as u8,
            1 => bytes[at] ^= 1 << dice.roll(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to)),
            4 => {
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let pieces: [&[u8]; 8] = [
                    b"\r\n",
                    b"\r\n\r\n",
                    b"\0",
                    b"Transfer-Encoding: chunked\r\n",
                    b"Content-Length: 5\r\n",
                    b"\xff\xfe",
                    b"GET / HTTP/1.1\r\n",
                    b" ",
                ];
                let piece = dice.pick(&pieces);
                bytes.splice(at..at, piece.iter().copied());
            }
            6 => {
                // Between two lines.
                let lines: Vec<usize> =
                    bytes.windows(2).enumerate().filter(|(_, w)| *w == b"\r\n").map(|(i, _)| i).collect();
                let at = if lines.is_empty() { at } else { lines[dice.roll(lines.len())] + 2 };
                let piece: [&[u8]; 4] =
                    [b"x-ms-version: 1\r\n", b"Content-Length: 99999999999\r\n", b": \r\n", b"Host: b\r\n"];
                bytes.splice(at..at, dice.pick(&piece).iter().copied());
            }
            _ => {
                let copy = bytes.clone();
                bytes.extend(copy);
            }
        }
    }
    bytes
}

/// Sends everything, says that nothing more comes, and reads all answers.
async fn answers(rig: &Rig, bytes: &[u8]) -> Vec<Reply> {
    let mut line = Line::open(rig.addr).await;
    line.send(bytes).await;
    line.finish().await;
    let mut all = Vec::new();
    while let Some(reply) = line.reply(bytes.starts_with(b"HEAD ")).await {
        all.push(reply);
        if all.len() == 8 {
            break;
        }
    }
    all
}

#[track_caller]
fn assert_no_failure(reply: &Reply, of: &str) {
    assert!(reply.status < 500 || reply.status == 501, "{reply:?}\n{of}");
}

async fn rig() -> Rig {
    let rig = Rig::with_container(Limits::default()).await;
    let put = rig.call("PUT", "/box1/canary", &[("x-ms-blob-type", "BlockBlob")], b"alive").await;
    assert_eq!(put.status, 201);
    rig
}

async fn assert_healthy(rig: &Rig) {
    assert_eq!(rig.send(b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await.text(), "ok\n");
    let report = rig.store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_requests_are_refused_and_store_nothing_half() {
    let rig = rig().await;
    let mut dice = Dice(SEED);
    let mut stored = 0;
    for index in 0..DAMAGED {
        let bytes = damage(valid(index, &mut dice), &mut dice);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned();
        for reply in answers(&rig, &bytes).await {
            // A body that ends early is a client that did not send it in time.
            assert!(
                reply.header("x-ms-error-code") == "OperationTimedOut"
                    || reply.status < 500
                    || reply.status == 501,
                "request {index}: {reply:?}\n{shown}"
            );
        }
        // Some damage is harmless, such as a second request behind the first.
        let read = rig.call("GET", &format!("/box1/f-{index}"), &[], b"").await;
        match read.status {
            404 => {}
            200 => {
                assert!(read.body == content(index), "request {index} stored something else:\n{shown}");
                stored += 1;
            }
            other => panic!("request {index}: {other}"),
        }
    }
    assert!(stored > 10 && stored < DAMAGED / 2, "{stored} of {DAMAGED} requests did their work");
    assert_eq!(rig.call("GET", "/box1/canary", &[], b"").await.text(), "alive");
    let uncommitted =
        rig.call("GET", "/box1?restype=container&comp=list&include=uncommittedblobs", &[], b"").await;
    assert_eq!(uncommitted.text().matches("<Name>").count(), stored + 1, "only what was answered is there");
    assert_healthy(&rig).await;
}

const COMPS: [&str; 22] = [
    "",
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
    "nonsense",
];
const PARAMETERS: [&str; 14] = [
    "blockid",
    "snapshot",
    "prevsnapshot",
    "prefix",
    "delimiter",
    "marker",
    "maxresults",
    "include",
    "where",
    "timeout",
    "copyid",
    "blocklisttype",
    "versionid",
    "showonly",
];
const HEADERS: [&str; 34] = [
    "x-ms-blob-type",
    "x-ms-blob-content-length",
    "x-ms-blob-sequence-number",
    "x-ms-range",
    "range",
    "x-ms-page-write",
    "x-ms-lease-action",
    "x-ms-lease-id",
    "x-ms-lease-duration",
    "x-ms-proposed-lease-id",
    "x-ms-lease-break-period",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "x-ms-if-tags",
    "x-ms-tags",
    "x-ms-access-tier",
    "x-ms-copy-source",
    "x-ms-source-range",
    "x-ms-requires-sync",
    "x-ms-copy-action",
    "x-ms-delete-snapshots",
    "x-ms-blob-public-access",
    "content-md5",
    "x-ms-content-crc64",
    "x-ms-meta-a",
    "x-ms-blob-condition-appendpos",
    "x-ms-blob-condition-maxsize",
    "x-ms-if-sequence-number-le",
    "x-ms-range-get-content-md5",
    "x-ms-blob-content-md5",
    "x-ms-version",
    "content-type",
];
const VALUES: [&str; 44] = [
    "",
    "0",
    "-1",
    "1",
    "512",
    "1024",
    "15",
    "60",
    "18446744073709551615",
    "99999999999999999999",
    "bytes=0-511",
    "bytes=0-",
    "bytes=512-0",
    "bytes=0-18446744073709551615",
    "bytes=511-1023",
    "BlockBlob",
    "PageBlob",
    "AppendBlob",
    "acquire",
    "renew",
    "change",
    "release",
    "break",
    "11111111-aaaa-4aaa-8aaa-111111111111",
    "*",
    "\"0x1\"",
    "update",
    "clear",
    "true",
    "false",
    "include",
    "only",
    "container",
    "a=b&c=d",
    "\"a\" = 'b'",
    "2021-08-06",
    "1999-01-01",
    "Tue, 17 Nov 2026 10:00:00 GMT",
    "http://127.0.0.1/devstoreaccount1/box1/canary",
    "http://127.0.0.1:1/x",
    "YQ==",
    "AAAAAAAAAAA=",
    "multipart/mixed; boundary=b",
    "2026-11-17T10:00:00.0000000Z",
];
const BODIES: [&[u8]; 9] = [
    b"",
    b"x",
    &[0; 512],
    b"<BlockList><Latest>YQ==</Latest></BlockList>",
    b"<BlockList><Latest>",
    b"<Tags/>",
    b"<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier></SignedIdentifiers>",
    b"--b\r\n\r\nDELETE /box1/x HTTP/1.1\r\n\r\n--b--",
    b"\xff\xfe\0<",
];

/// Requests that make sense, for most operations there are.
type Base = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [u8]);
const LEASE: &str = "11111111-aaaa-4aaa-8aaa-111111111111";
const BASES: [Base; 30] = [
    ("PUT", "/box1/a?", &[("x-ms-blob-type", "BlockBlob")], b"hello"),
    ("PUT", "/box1/a?", &[("x-ms-blob-type", "BlockBlob"), ("x-ms-lease-id", LEASE)], b"hello"),
    ("PUT", "/box1/p?", &[("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "2048")], b""),
    ("PUT", "/box1/l?", &[("x-ms-blob-type", "AppendBlob")], b""),
    ("PUT", "/box1/l?comp=appendblock", &[], b"line"),
    ("PUT", "/box1/l?comp=seal", &[], b""),
    ("PUT", "/box1/p?comp=page", &[("x-ms-range", "bytes=0-511"), ("x-ms-page-write", "update")], &[7; 512]),
    ("PUT", "/box1/p?comp=page", &[("x-ms-range", "bytes=512-1023"), ("x-ms-page-write", "clear")], b""),
    ("GET", "/box1/p?comp=pagelist", &[], b""),
    ("PUT", "/box1/p?comp=properties", &[("x-ms-blob-content-length", "1024")], b""),
    ("PUT", "/box1/b?comp=block&blockid=YQ%3D%3D", &[], b"block"),
    ("PUT", "/box1/b?comp=blocklist", &[], b"<BlockList><Latest>YQ==</Latest></BlockList>"),
    ("GET", "/box1/b?comp=blocklist&blocklisttype=all", &[], b""),
    ("GET", "/box1/a?", &[("x-ms-range", "bytes=0-2")], b""),
    ("HEAD", "/box1/a?", &[], b""),
    ("PUT", "/box1/a?comp=metadata", &[("x-ms-meta-a", "1")], b""),
    (
        "PUT",
        "/box1/a?comp=tags",
        &[],
        b"<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>",
    ),
    ("GET", "/box1/a?comp=tags", &[], b""),
    ("PUT", "/box1/a?comp=tier", &[("x-ms-access-tier", "Cool")], b""),
    ("PUT", "/box1/a?comp=snapshot", &[], b""),
    (
        "PUT",
        "/box1/a?comp=lease",
        &[("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "15"), ("x-ms-proposed-lease-id", LEASE)],
        b"",
    ),
    ("PUT", "/box1/a?comp=lease", &[("x-ms-lease-action", "release"), ("x-ms-lease-id", LEASE)], b""),
    ("PUT", "/box1/copy?", &[("x-ms-copy-source", "http://127.0.0.1/devstoreaccount1/box1/canary")], b""),
    ("DELETE", "/box1/a?", &[("x-ms-delete-snapshots", "include")], b""),
    ("PUT", "/box2?restype=container", &[], b""),
    ("DELETE", "/box2?restype=container", &[], b""),
    ("PUT", "/box1?restype=container&comp=acl", &[], b"<SignedIdentifiers/>"),
    ("GET", "/box1?restype=container&comp=list&include=snapshots,metadata,tags,uncommittedblobs", &[], b""),
    ("GET", "/?comp=list", &[], b""),
    ("PUT", "/?restype=service&comp=properties", &[], b"<StorageServiceProperties/>"),
];

#[tokio::test(flavor = "multi_thread")]
async fn signed_nonsense_is_answered_and_never_a_failure_of_the_server() {
    let rig = rig().await;
    let mut dice = Dice(SEED ^ 1);
    let mut done = 0;
    for index in 0..NONSENSE {
        let (mut method, target, base, mut body) = BASES[dice.roll(BASES.len())];
        let (mut target, mut extra) = (target.to_owned(), base.to_vec());
        for _ in 0..dice.roll(4) {
            match dice.roll(6) {
                0 => method = dice.pick(&["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"]),
                1 => {
                    let value = leasefs::wire::query::encode(dice.pick(&VALUES));
                    target.push_str(&format!("&{}={value}", dice.pick(&PARAMETERS)));
                }
                2 => {
                    let (path, _) = target.split_once('?').unwrap();
                    target = format!("{path}?comp={}", dice.pick(&COMPS));
                }
                3 => body = dice.pick(&BODIES),
                _ => extra.push((dice.pick(&HEADERS), dice.pick(&VALUES))),
            }
        }
        extra.retain(|(_, value)| !value.is_empty());
        let reply = rig.call(method, &target, &extra, body).await;
        assert_no_failure(&reply, &format!("request {index}: {method} {target} {extra:?}"));
        done += usize::from(reply.status < 300);
    }
    assert!(done > NONSENSE / 10, "only {done} of {NONSENSE} requests made sense");
    assert_healthy(&rig).await;
}
