//! REST against mounted programs, through a real mount and real HTTP: every operation, every share mode (8), every access a
//! program can hold (8); the same for files that are delete pending, range locks, flock and file leases.
//!
//! The expectations are typed in from the service's documentation (`tests/files/operations.rs`), not computed.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "files/client.rs"]
mod client;
mod common;
#[path = "share/holder.rs"]
mod holder;
#[path = "files/operations.rs"]
mod operations;

use std::fs::{self, OpenOptions};
use std::io;

use client::{Client, free_addr};
use common::{Mount, errno, on_both_paths};
use holder::Holder;
use operations::{ACCESSES, OPERATIONS, SHARES, at};

/// Runs `test` on both data paths with a mount that has a Files endpoint.
fn on_both_paths_with_files(test: impl Fn(&Mount, &mut Client)) {
    let addr = free_addr();
    on_both_paths(&["--files-addr", &addr.to_string()], |mount| {
        let mut client = Client::open(addr);
        client.put(&at("source"), b"source");
        test(mount, &mut client);
    });
}

/// A name that fits into a file name.
fn label(parts: &[&str]) -> String {
    parts.join("-").replace([' ', ','], "_")
}

fn assert_none(wrong: &[String], all: usize) {
    assert!(wrong.is_empty(), "{} of {all} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_operation_meets_every_open() {
    let allowed: usize = OPERATIONS.iter().map(|one| one.row.matches('.').count()).sum();
    assert_eq!((OPERATIONS.len(), allowed), (19, 76), "the table was typed wrong");
    on_both_paths_with_files(|mount, client| {
        let mut holder = Holder::start();
        let mut wrong = Vec::new();
        let mut all = 0;
        for operation in OPERATIONS {
            for access in ACCESSES {
                for (column, share) in SHARES.into_iter().enumerate() {
                    // A file for each cell, so that no late close of the cell before is in the way.
                    let name = label(&[operation.name, access, share]);
                    client.put(&at(&name), b"content");
                    let held = holder.open_shared(&mount.path(&name), access, share);
                    let held = held.unwrap_or_else(|errno| panic!("{name}: open: errno {errno}"));
                    let answer = (operation.run)(client, &name);
                    let expected = operation.expected(access, column);
                    if answer.verdict() != expected {
                        let name = operation.name;
                        wrong.push(format!(
                            "{name} against {access}/{share}: {}, not {expected}",
                            answer.verdict()
                        ));
                    }
                    all += 1;
                    holder.close(&held);
                }
            }
        }
        assert_none(&wrong, all);
    });
}

#[test]
fn a_refusal_names_the_holder_and_ends_with_the_open() {
    on_both_paths_with_files(|mount, client| {
        client.put(&at("a"), b"content");
        let mut holder = Holder::start();
        let held = holder.open_shared(&mount.path("a"), "rw", "none").unwrap();
        let refused = client.call("GET", &at("a"), &[], b"");
        assert_eq!(refused.verdict(), "409 SharingViolation");
        let (text, pid) = (refused.text(), holder.pid().to_string());
        assert!(text.contains(&pid), "the holder {pid} is not named: {text}");
        holder.close(&held);
        // What is only due to a late close is waited for.
        assert_eq!(client.call("GET", &at("a"), &[], b"").verdict(), "ok");
    });
}

#[test]
fn every_operation_meets_a_pending_file() {
    on_both_paths_with_files(|mount, client| {
        let mut holder = Holder::start();
        let mut wrong = Vec::new();
        for operation in OPERATIONS {
            let name = label(&[operation.name]);
            client.put(&at(&name), b"content");
            let held = holder.open_shared(&mount.path(&name), "r", "rwd").unwrap();
            fs::remove_file(mount.path(&name)).unwrap();
            let answer = (operation.run)(client, &name);
            if answer.verdict() != "409 SMBDeletePending" {
                wrong.push(format!("{}: {}", operation.name, answer.verdict()));
            }
            let listed = client.call("GET", "/share?restype=directory&comp=list", &[], b"").text();
            assert!(!listed.contains(&format!("<Name>{name}</Name>")), "{name} is listed: {listed}");
            holder.close(&held);
            // Once the last open is closed it is really gone.
            let gone = client.call("HEAD", &at(&name), &[], b"");
            assert_eq!(gone.verdict(), "404 ResourceNotFound", "{name}");
        }
        assert_none(&wrong, OPERATIONS.len());
    });
}

#[test]
fn a_pending_file_that_comes_back_works_again() {
    on_both_paths_with_files(|mount, client| {
        client.put(&at("a"), b"content");
        let mut holder = Holder::start();
        let held = holder.open_shared(&mount.path("a"), "r", "rwd").unwrap();
        fs::remove_file(mount.path("a")).unwrap();
        assert_eq!(client.call("GET", &at("a"), &[], b"").verdict(), "409 SMBDeletePending");
        let undelete = std::process::Command::new(env!("CARGO_BIN_EXE_leasefs"))
            .args(["undelete", mount.path("a").to_str().unwrap()])
            .output()
            .unwrap();
        assert!(undelete.status.success(), "{undelete:?}");
        assert_eq!(client.call("GET", &at("a"), &[], b"").body, b"content");
        holder.close(&held);
    });
}

/// What locks a range of the open file.
const RANGE_LOCKS: [(&str, &[&str]); 4] = [
    ("flock shared", &["flock", "sh"]),
    ("flock exclusive", &["flock", "ex"]),
    ("fcntl shared", &["lock", "rd", "5", "1"]),
    ("fcntl exclusive, behind the end", &["lock", "wr", "1000000", "10"]),
];

#[test]
fn every_operation_meets_every_range_lock() {
    on_both_paths_with_files(|mount, client| {
        let mut holder = Holder::start();
        let mut wrong = Vec::new();
        for operation in OPERATIONS {
            for (kind, words) in RANGE_LOCKS {
                let name = label(&[operation.name, kind]);
                client.put(&at(&name), b"content");
                let held = holder.open_shared(&mount.path(&name), "rw", "rwd").unwrap();
                let words: Vec<&str> =
                    [&words[..1], std::slice::from_ref(&held.as_str()), &words[1..]].concat();
                holder.act(&words).unwrap();
                let answer = (operation.run)(client, &name);
                let expected = match operation.writes_content {
                    true => "409 FileLockConflict",
                    false => operation.expected("rw", SHARES.len() - 1),
                };
                if answer.verdict() != expected {
                    wrong.push(format!(
                        "{} against {kind}: {}, not {expected}",
                        operation.name,
                        answer.verdict()
                    ));
                }
                holder.close(&held);
            }
        }
        assert_none(&wrong, OPERATIONS.len() * RANGE_LOCKS.len());
    });
}

#[test]
fn a_file_lease_refuses_mounted_writers_and_deleters() {
    on_both_paths_with_files(|mount, client| {
        let open = |name: &str, read: bool, write: bool| -> io::Result<()> {
            OpenOptions::new().read(read).write(write).open(mount.path(name)).map(drop)
        };
        client.put(&at("a"), b"content");
        let acquire = [
            ("x-ms-lease-action", "acquire"),
            ("x-ms-lease-duration", "-1"),
            ("x-ms-proposed-lease-id", "11111111-aaaa-4aaa-8aaa-111111111111"),
        ];
        let taken = client.call("PUT", "/share/a?comp=lease", &acquire, b"");
        assert_eq!(taken.verdict(), "ok", "{taken:?}");
        assert_eq!(fs::read(mount.path("a")).unwrap(), b"content", "reading is free");
        fs::metadata(mount.path("a")).unwrap();
        assert_eq!(errno(open("a", false, true)), libc::EBUSY);
        assert_eq!(errno(open("a", true, true)), libc::EBUSY);
        assert_eq!(errno(fs::write(mount.path("a"), "x")), libc::EBUSY);
        assert_eq!(errno(fs::remove_file(mount.path("a"))), libc::EBUSY);
        assert_eq!(errno(fs::rename(mount.path("a"), mount.path("b"))), libc::EBUSY);
        let mut holder = Holder::start();
        for access in ["d", "rd", "w", "wd", "rw", "rwd"] {
            let refused = holder.open_shared(&mount.path("a"), access, "rwd");
            assert_eq!(refused.err(), Some(libc::EBUSY), "{access}");
        }
        assert_eq!(client.put_range("/share/a", 0, b"x").verdict(), "412 LeaseIdMissing");
        let release =
            [("x-ms-lease-action", "release"), ("x-ms-lease-id", "11111111-aaaa-4aaa-8aaa-111111111111")];
        assert_eq!(client.call("PUT", "/share/a?comp=lease", &release, b"").verdict(), "ok");
        fs::write(mount.path("a"), "again").unwrap();
        assert_eq!(client.call("GET", &at("a"), &[], b"").body, b"again");
    });
}

#[test]
fn a_directory_that_is_held_is_not_deleted() {
    on_both_paths_with_files(|mount, client| {
        let made = client.call("PUT", "/share/d?restype=directory", &[], b"");
        assert_eq!(made.verdict(), "ok", "{made:?}");
        fs::write(mount.path("d/inside"), "x").unwrap();
        let refused = client.call("DELETE", "/share/d?restype=directory", &[], b"");
        assert_eq!(refused.verdict(), "409 DirectoryNotEmpty");
        fs::remove_file(mount.path("d/inside")).unwrap();
        let done = client.call("DELETE", "/share/d?restype=directory", &[], b"");
        assert_eq!(done.verdict(), "ok");
        assert_eq!(errno(fs::metadata(mount.path("d"))), libc::ENOENT);
    });
}
