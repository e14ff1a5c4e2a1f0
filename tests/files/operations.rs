//! Every REST operation that touches a file, and what it gets when a mounted program has the file open.

use crate::client::{Client, Reply};

/// One operation on the file `/share/NAME`; other files it needs have names of their own.
pub struct Operation {
    pub name: &'static str,
    /// The answer for each share mode of the open that exists, in the order of [`SHARES`]: `.` passes, `X` is refused
    /// with 409 SharingViolation, `r` passes only if that open neither writes nor deletes.
    pub row: &'static str,
    /// Whether an open without any access stands in its way, too.
    pub any_handle: bool,
    /// Whether it changes the content, which a range lock forbids.
    pub writes_content: bool,
    pub run: fn(&mut Client, &str) -> Reply,
}

/// The share modes, in the order of the rows.
pub const SHARES: [&str; 8] = ["none", "r", "w", "d", "rw", "rd", "wd", "rwd"];

/// The access of the open that exists.
pub const ACCESSES: [&str; 8] = ["none", "r", "w", "d", "rw", "rd", "wd", "rwd"];

/// Operations by the access they act as. The rows are typed in from the service's page "Managing file locks"; nothing of
/// leasefs computes them.
pub const OPERATIONS: &[Operation] = &[
    // share mode that exists:            none R W D RW RD WD RWD
    plain("Get File Properties", "........", |client, name| client.call("HEAD", &at(name), &[], b"")),
    plain("Get File Metadata", "........", |client, name| {
        client.call("GET", &format!("{}?comp=metadata", at(name)), &[], b"")
    }),
    plain("List Handles", "........", |client, name| {
        client.call("GET", &format!("{}?comp=listhandles", at(name)), &[], b"")
    }),
    plain("Get File", "X.XX..X.", |client, name| client.call("GET", &at(name), &[], b"")),
    plain("Get File, a range", "X.XX..X.", |client, name| {
        client.call("GET", &at(name), &[("x-ms-range", "bytes=0-3")], b"")
    }),
    plain("List Ranges", "X.XX..X.", |client, name| {
        client.call("GET", &format!("{}?comp=rangelist", at(name)), &[], b"")
    }),
    plain("Copy File, source", "X.XX..X.", |client, name| {
        let source = client.url(&at(name));
        client.call("PUT", &at(&format!("{name}-copy")), &[("x-ms-copy-source", &source)], b"")
    }),
    content("Put Range", "XX.X.X..", |client, name| client.put_range(&at(name), 2, b"xy")),
    content("Put Range, clear", "XX.X.X..", |client, name| {
        let headers = [("x-ms-write", "clear"), ("x-ms-range", "bytes=0-3")];
        client.call("PUT", &format!("{}?comp=range", at(name)), &headers, b"")
    }),
    content("Put Range From URL", "XX.X.X..", |client, name| {
        let source = client.url(&at("source"));
        let headers = [
            ("x-ms-write", "update"),
            ("x-ms-range", "bytes=0-3"),
            ("x-ms-source-range", "bytes=0-3"),
            ("x-ms-copy-source", source.as_str()),
        ];
        client.call("PUT", &format!("{}?comp=range", at(name)), &headers, b"")
    }),
    plain("Set File Properties", "XX.X.X..", |client, name| {
        let headers = [("x-ms-content-type", "text/plain")];
        client.call("PUT", &format!("{}?comp=properties", at(name)), &headers, b"")
    }),
    content("Set File Properties, resize", "XX.X.X..", |client, name| {
        let headers = [("x-ms-content-length", "3")];
        client.call("PUT", &format!("{}?comp=properties", at(name)), &headers, b"")
    }),
    plain("Set File Metadata", "XX.X.X..", |client, name| {
        client.call("PUT", &format!("{}?comp=metadata", at(name)), &[("x-ms-meta-k", "v")], b"")
    }),
    content("Create File", "XXXXXX..", |client, name| client.create(&at(name), 3)),
    content("Copy File, destination", "XXXXXX..", |client, name| {
        let source = client.url(&at("source"));
        client.call("PUT", &at(name), &[("x-ms-copy-source", &source)], b"")
    }),
    plain("Rename File, source", "XXX.X...", |client, name| {
        let source = client.url(&at(name));
        let to = format!("{}?comp=rename", at(&format!("{name}-renamed")));
        client.call("PUT", &to, &[("x-ms-file-rename-source", &source)], b"")
    }),
    plain("Rename File, replaced target", "XXX.X...", |client, name| {
        let mover = at(&format!("{name}-mover"));
        client.put(&mover, b"mover");
        let source = client.url(&mover);
        let headers =
            [("x-ms-file-rename-source", source.as_str()), ("x-ms-file-rename-replace-if-exists", "true")];
        client.call("PUT", &format!("{}?comp=rename", at(name)), &headers, b"")
    }),
    Operation {
        name: "Delete File",
        row: "XXXXXXXX",
        any_handle: true,
        writes_content: false,
        run: |client, name| client.call("DELETE", &at(name), &[], b""),
    },
    plain("Lease File, acquire", "XXXXXXXr", |client, name| {
        let headers = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
        client.call("PUT", &format!("{}?comp=lease", at(name)), &headers, b"")
    }),
];

const fn plain(name: &'static str, row: &'static str, run: fn(&mut Client, &str) -> Reply) -> Operation {
    Operation { name, row, any_handle: false, writes_content: false, run }
}

const fn content(name: &'static str, row: &'static str, run: fn(&mut Client, &str) -> Reply) -> Operation {
    Operation { name, row, any_handle: false, writes_content: true, run }
}

/// Where a file of the mounted share is.
pub fn at(name: &str) -> String {
    format!("/share/{name}")
}

impl Operation {
    /// The verdict when a program holds the file with this access and share mode.
    pub fn expected(&self, access: &str, share: usize) -> &'static str {
        let passes = match (access, self.row.as_bytes()[share]) {
            ("none", _) => !self.any_handle,
            (_, b'.') => true,
            (access, b'r') => access == "r",
            _ => false,
        };
        if passes { "ok" } else { "409 SharingViolation" }
    }
}
