//! Signed requests that ask for nonsense: each gets an answer in the service's own words, never a failure of the server, and
//! a file that none of them names stays as it was.
//!
//! Seeded: a failure names the request, and comes again.

use crate::client::{Client, free_addr};
use crate::common::Mount;

const REQUESTS: usize = 3_000;

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

    fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.roll(list.len())]
    }
}

const METHODS: &[&str] = &["GET", "PUT", "DELETE", "HEAD", "POST", "OPTIONS", "PATCH"];
const PATHS: &[&str] = &[
    "/share/a",
    "/share/d",
    "/share/d/b",
    "/share",
    "/",
    "/other",
    "/share/%00",
    "/share/..",
    "/share/a%2Fb",
    "/share/a/b/c",
    "/share/%E4%F6",
    "/share/d/",
    "/share//x",
    "/share/CON",
    "/share/x%3Ay",
    "/share/.leasefs/x",
    "/no--share/x",
];
const QUERIES: &[&str] = &[
    "",
    "restype=directory",
    "restype=share",
    "restype=service",
    "restype=nonsense",
    "comp=range",
    "comp=rangelist",
    "comp=properties",
    "comp=metadata",
    "comp=lease",
    "comp=list",
    "comp=rename",
    "comp=copy",
    "comp=listhandles",
    "comp=forceclosehandles",
    "comp=acl",
    "comp=stats",
    "comp=snapshot",
    "comp=filepermission",
    "comp=undelete",
    "comp=nonsense",
    "sharesnapshot=2020-01-01T00:00:00.0000000Z",
    "sharesnapshot=x",
    "prevsharesnapshot=x",
    "marker=x",
    "maxresults=0",
    "maxresults=99999999999999999999",
    "maxresults=2",
    "prefix=%FF",
    "timeout=x",
    "copyid=x",
    "include=x",
];
const HEADERS: &[&str] = &[
    "x-ms-range",
    "range",
    "x-ms-write",
    "x-ms-type",
    "x-ms-content-length",
    "x-ms-lease-action",
    "x-ms-lease-id",
    "x-ms-lease-duration",
    "x-ms-proposed-lease-id",
    "x-ms-lease-break-period",
    "x-ms-copy-source",
    "x-ms-source-range",
    "x-ms-file-rename-source",
    "x-ms-file-rename-replace-if-exists",
    "x-ms-file-attributes",
    "x-ms-file-creation-time",
    "x-ms-file-last-write-time",
    "x-ms-file-permission",
    "x-ms-file-permission-key",
    "x-ms-handle-id",
    "x-ms-recursive",
    "x-ms-meta-k",
    "x-ms-meta-",
    "x-ms-share-quota",
    "x-ms-access-tier",
    "x-ms-delete-snapshots",
    "content-md5",
    "if-match",
    "x-ms-content-md5",
    "x-ms-content-type",
    "x-ms-copy-action",
    "x-ms-allow-trailing-dot",
    "x-ms-range-get-content-md5",
    "x-ms-file-extended-info",
    "x-ms-version",
];
const VALUES: &[&str] = &[
    "",
    "x",
    "0",
    "1",
    "-1",
    "3",
    "true",
    "false",
    "*",
    "file",
    "update",
    "clear",
    "acquire",
    "release",
    "break",
    "change",
    "renew",
    "bytes=0-1",
    "bytes=0-2",
    "bytes=5-",
    "bytes=-5",
    "bytes=9-1",
    "bytes=0-18446744073709551615",
    "abort",
    "bytes=18446744073709551615-18446744073709551616",
    "18446744073709551616",
    "9223372036854775807",
    "11111111-aaaa-4aaa-8aaa-111111111111",
    "ReadOnly|Hidden",
    "None",
    "now",
    "preserve",
    "source",
    "inherit",
    "include",
    "2020-01-02T03:04:05.1234567Z",
    "9999-99-99T99:99:99Z",
    "http://127.0.0.1:1/x",
    "http://",
    "O:SYG:SYD:",
    "1*2",
    "2019-02-02",
    "2021-06-08",
    "1999-01-01",
    "AAAAAAAAAAAAAAAAAAAAAA==",
];
const BODIES: &[&[u8]] = &[
    b"",
    b"x",
    b"abc",
    b"<?xml version=\"1.0\"?><SignedIdentifiers/>",
    b"{\"permission\": 3}",
    b"<a><b></a>",
];

#[test]
fn nonsense_gets_the_services_own_answers() {
    let addr = free_addr();
    let Some(mount) = Mount::new(&["--files-addr", &addr.to_string()]) else { return };
    let mut client = Client::open(addr);
    client.put("/share/canary", b"canary");
    let mut dice = Dice(0x5eed_f11e_5000_0001);
    for number in 0..REQUESTS {
        let method = dice.pick(METHODS);
        let queries: Vec<&str> =
            (0..dice.roll(4)).map(|_| dice.pick(QUERIES)).filter(|one| !one.is_empty()).collect();
        let target = format!("{}?{}", dice.pick(PATHS), queries.join("&"));
        let mut headers: Vec<(&str, &str)> =
            (0..dice.roll(6)).map(|_| (dice.pick(HEADERS), dice.pick(VALUES))).collect();
        // Often enough nearly right, so that it comes past the first checks.
        if dice.roll(3) == 0 {
            headers.extend([("x-ms-type", "file"), ("x-ms-content-length", "10")]);
        }
        if dice.roll(4) == 0 {
            headers.extend([("x-ms-write", "update"), ("x-ms-range", "bytes=0-2")]);
        }
        let body = if method == "GET" || method == "HEAD" { b"" } else { BODIES[dice.roll(BODIES.len())] };
        let answer = client.call(method, &target, &headers, body);
        let about = || format!("{number}: {method} {target} {headers:?} {body:?}: {answer:?}");
        // 501 says that something is not offered; any other failure would be the server's own.
        assert!((200..500).contains(&answer.status) || answer.status == 501, "{}", about());
        assert!(answer.status < 400 || !answer.header("x-ms-error-code").is_empty(), "no code: {}", about());
        if answer.header("connection") == "close" {
            client = Client::open(addr);
        }
    }
    // Whatever became of the share's own settings, the file is as it was.
    assert_eq!(std::fs::read(mount.path("canary")).unwrap(), b"canary");
    mount.check();
}
