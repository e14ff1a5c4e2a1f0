//! REST clients and mounted programs hammer the same files: nothing that was acknowledged is lost, nobody sees half a write,
//! and the store is clean afterwards.
//!
//! Runs for some seconds on each data path; `LEASEFS_TOGETHER_SECONDS=60` makes it a longer one.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "files/client.rs"]
mod client;
mod common;
#[path = "files/nonsense.rs"]
mod nonsense;

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::{Client, PATIENCE, free_addr};
use common::{Mount, on_both_paths};

/// Each writer of the shared file has a place of this size.
const SLOT: usize = 4096;

/// Writers of each side.
const WRITERS: usize = 2;

/// A file that REST clients replace as a whole.
const UNIFORM: usize = 64 << 10;

fn seconds() -> Duration {
    let asked = std::env::var("LEASEFS_TOGETHER_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(asked.unwrap_or(6))
}

/// The content for a number: the same in every part, so that half a write shows.
fn record(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(SLOT / 8)
}

/// The number in a record that must be whole.
#[track_caller]
fn whole(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("a record"));
    assert!(bytes == record(number), "a record is torn");
    number
}

/// Both sides together: the clock, and how often each side did what it does.
#[derive(Default)]
struct Together {
    over: AtomicBool,
    rest: AtomicU64,
    mounted: AtomicU64,
}

impl Together {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Ends it after the time, and when both sides had their turn.
    fn watch(&self) {
        let start = Instant::now();
        let both = || self.rest.load(Ordering::Relaxed) > 0 && self.mounted.load(Ordering::Relaxed) > 0;
        while start.elapsed() < seconds() || !both() {
            if start.elapsed() > seconds() + PATIENCE {
                self.over.store(true, Ordering::Relaxed);
                panic!("one side never had its turn");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Sets this open's access and share mode (`LEASEFS_IOC_SET_SHARE` of `src/fuse/leasefs.h`).
fn set_share(file: &File, access: u32, share: u32) -> io::Result<()> {
    nix::ioctl_write_ptr!(set_share_of, 0xE9, 1, [u32; 2]);
    // SAFETY: the descriptor is open, and the argument is the two numbers that the request reads.
    unsafe { set_share_of(file.as_raw_fd(), &[access, share]) }.map(drop).map_err(Into::into)
}

/// A mounted program that counts: opens the file for itself alone, reads, adds one, writes.
fn count_mounted(mount: &Mount) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(mount.path("counter"))?;
    set_share(&file, 3, 0)?;
    let mut buffer = vec![0; SLOT];
    file.read_exact_at(&mut buffer, 0)?;
    file.write_all_at(&record(whole(&buffer) + 1), 0)?;
    // A commit that is refused would not count.
    nix::unistd::close(file).map_err(io::Error::from)
}

/// A REST client that counts: takes the file's lease, reads, adds one, writes, gives the lease back. `false` if refused.
fn count_rest(client: &mut Client, id: &str) -> bool {
    let at = "/share/counter?comp=lease";
    let acquire =
        [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1"), ("x-ms-proposed-lease-id", id)];
    let taken = client.call("PUT", at, &acquire, b"");
    match taken.verdict().as_str() {
        "ok" => {}
        "409 SharingViolation" | "409 LeaseAlreadyPresent" => return false,
        other => panic!("acquire: {other}"),
    }
    let read = client.call("GET", "/share/counter", &[], b"");
    assert_eq!(read.verdict(), "ok");
    let range = format!("bytes=0-{}", SLOT - 1);
    let headers = [("x-ms-write", "update"), ("x-ms-range", range.as_str()), ("x-ms-lease-id", id)];
    let written = client.call("PUT", "/share/counter?comp=range", &headers, &record(whole(&read.body) + 1));
    assert_eq!(written.verdict(), "ok");
    let release = [("x-ms-lease-action", "release"), ("x-ms-lease-id", id)];
    assert_eq!(client.call("PUT", at, &release, b"").verdict(), "ok");
    true
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// Everybody adds one under mutual exclusion; in the end the file holds the sum.
#[test]
fn no_increment_is_lost() {
    let addr = free_addr();
    on_both_paths(&["--files-addr", &addr.to_string()], |mount| {
        Client::open(addr).put("/share/counter", &record(0));
        let together = Together::default();
        std::thread::scope(|scope| {
            for number in 0..WRITERS {
                scope.spawn({
                    let together = &together;
                    move || {
                        let id = format!("{number}1111111-aaaa-4aaa-8aaa-111111111111");
                        let mut client = Client::open(addr);
                        while together.goes_on() {
                            if count_rest(&mut client, &id) {
                                together.rest.fetch_add(1, Ordering::Relaxed);
                            }
                            std::thread::sleep(Duration::from_millis(1 + number as u64));
                        }
                    }
                });
                scope.spawn(|| {
                    while together.goes_on() {
                        match count_mounted(mount) {
                            Ok(()) => drop(together.mounted.fetch_add(1, Ordering::Relaxed)),
                            Err(error) if is_busy(&error) => {}
                            Err(error) => panic!("{error}"),
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            together.watch();
        });
        let (rest, mounted) = (together.rest.into_inner(), together.mounted.into_inner());
        let found = whole(&Client::open(addr).call("GET", "/share/counter", &[], b"").body);
        let beside = common::names(&mount.path(""));
        assert_eq!(found, rest + mounted, "{rest} by REST and {mounted} by programs, in {beside:?}");
        println!("{rest} by REST, {mounted} by programs");
    });
}

/// The slot of a writer over REST.
fn read_slot(client: &mut Client, slot: usize) -> u64 {
    let range = format!("bytes={}-{}", slot * SLOT, (slot + 1) * SLOT - 1);
    let read = client.call("GET", "/share/slots", &[("x-ms-range", &range)], b"");
    assert_eq!(read.verdict(), "ok");
    whole(&read.body)
}

/// Each writer has its place in one file and looks at it through the other side after every write.
#[test]
fn what_one_side_wrote_the_other_sees() {
    let addr = free_addr();
    on_both_paths(&["--files-addr", &addr.to_string()], |mount| {
        Client::open(addr).put("/share/slots", &vec![0; 2 * WRITERS * SLOT]);
        let together = Together::default();
        let last: Vec<AtomicU64> = (0..2 * WRITERS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for slot in 0..2 * WRITERS {
                let (together, last) = (&together, &last[slot]);
                let write = if slot < WRITERS { write_by_rest } else { write_by_mount };
                scope.spawn(move || write(mount, addr, slot, together, last));
            }
            together.watch();
        });
        let mut client = Client::open(addr);
        let file = File::open(mount.path("slots")).unwrap();
        for (slot, last) in last.iter().enumerate() {
            let mut buffer = vec![0; SLOT];
            file.read_exact_at(&mut buffer, (slot * SLOT) as u64).unwrap();
            let expected = last.load(Ordering::Relaxed);
            assert_eq!((read_slot(&mut client, slot), whole(&buffer)), (expected, expected), "slot {slot}");
        }
    });
}

fn write_by_rest(mount: &Mount, addr: SocketAddr, slot: usize, together: &Together, last: &AtomicU64) {
    let mut client = Client::open(addr);
    let file = File::open(mount.path("slots")).unwrap();
    let mut number = 0;
    let mut buffer = vec![0; SLOT];
    while together.goes_on() {
        number += 1;
        let written = client.put_range("/share/slots", slot * SLOT, &record(number));
        assert_eq!(written.verdict(), "ok");
        last.store(number, Ordering::Relaxed);
        file.read_exact_at(&mut buffer, (slot * SLOT) as u64).unwrap();
        assert_eq!(whole(&buffer), number, "slot {slot}: a program sees what REST wrote");
        together.rest.fetch_add(1, Ordering::Relaxed);
    }
}

fn write_by_mount(mount: &Mount, addr: SocketAddr, slot: usize, together: &Together, last: &AtomicU64) {
    let mut client = Client::open(addr);
    let mut number = 0;
    while together.goes_on() {
        let file = OpenOptions::new().read(true).write(true).open(mount.path("slots")).unwrap();
        // Some writes through one open, then a close and the next open.
        for _ in 0..5 {
            number += 1;
            file.write_all_at(&record(number), (slot * SLOT) as u64).unwrap();
            last.store(number, Ordering::Relaxed);
            assert_eq!(read_slot(&mut client, slot), number, "slot {slot}: REST sees what a program wrote");
        }
        together.mounted.fetch_add(1, Ordering::Relaxed);
    }
}

/// A file that is replaced as a whole by REST is whole for everybody who reads it over REST, and names come and go.
#[test]
fn nobody_sees_half_a_write() {
    let addr = free_addr();
    on_both_paths(&["--files-addr", &addr.to_string()], |mount| {
        Client::open(addr).put("/share/uniform", &[0; UNIFORM]);
        let together = Together::default();
        std::thread::scope(|scope| {
            for number in 0..WRITERS {
                let together = &together;
                scope.spawn(move || {
                    let mut client = Client::open(addr);
                    let mut byte = number as u8;
                    while together.goes_on() {
                        byte = byte.wrapping_add(2);
                        let written = client.put_range("/share/uniform", 0, &[byte; UNIFORM]);
                        assert_eq!(written.verdict(), "ok");
                        let read = client.call("GET", "/share/uniform", &[], b"").body;
                        assert_eq!(read.len(), UNIFORM);
                        assert!(read.iter().all(|one| *one == read[0]), "a read is torn");
                        together.rest.fetch_add(1, Ordering::Relaxed);
                    }
                });
                // Programs that make, rename and remove files beside them, and REST clients that list them.
                scope.spawn(move || {
                    let (a, b) = (mount.path(&format!("a{number}")), mount.path(&format!("b{number}")));
                    let mut client = Client::open(addr);
                    while together.goes_on() {
                        std::fs::write(&a, [number as u8; 100]).unwrap();
                        std::fs::rename(&a, &b).unwrap();
                        let listed =
                            client.call("GET", "/share?restype=directory&comp=list", &[], b"").text();
                        let name = format!("<Name>b{number}</Name>");
                        assert!(listed.contains(&name), "{name} is not in {listed}");
                        let gone = client.call("DELETE", &format!("/share/b{number}"), &[], b"").verdict();
                        match gone.as_str() {
                            "ok" => {}
                            // The kernel has not closed it yet.
                            "409 SharingViolation" => std::fs::remove_file(&b).unwrap(),
                            other => panic!("{other}"),
                        }
                        together.mounted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            together.watch();
        });
    });
}
