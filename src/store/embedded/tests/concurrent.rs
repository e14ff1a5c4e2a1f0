//! Writers, readers, tidying and renames at once: every reader sees one version, whole.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::store::{
    Change, ContentReader, CopyRequest, CopySource, DeleteSnapshots, RenameMode, SequenceConditions,
    StoreError,
};

const STRIPES: usize = 5;
const STRIPE: usize = 1000;
const SIZE: usize = STRIPES * STRIPE + 1;
const RUN: Duration = Duration::from_secs(2);

/// Each stripe has one byte value all over; the last byte is their sum.
fn assert_whole(bytes: &[u8]) -> [u8; STRIPES] {
    assert_eq!(bytes.len(), SIZE);
    let mut values = [0; STRIPES];
    for (index, stripe) in bytes.chunks_exact(STRIPE).take(STRIPES).enumerate() {
        assert!(stripe.iter().all(|byte| *byte == stripe[0]), "stripe {index} is of two versions");
        values[index] = stripe[0];
    }
    assert_eq!(bytes[SIZE - 1], sum(values), "the stripes are of two versions: {values:?}");
    values
}

fn sum(values: [u8; STRIPES]) -> u8 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

fn read(reader: &ContentReader) -> Vec<u8> {
    let mut bytes = vec![0; reader.size() as usize];
    reader.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Puts another value into one stripe. `false` if somebody else was quicker.
fn patch(bench: &Bench, name: &str, stripe: usize, value: u8) -> bool {
    let Ok(base) = bench.store.reader(&at(name)) else { return false };
    let mut values = assert_whole(&read(&base));
    values[stripe] = value;
    let scratch = bench.store.scratch().unwrap();
    let start = stripe * STRIPE;
    fill(&scratch, &[value; STRIPE], start as u64);
    fill(&scratch, &[sum(values)], SIZE as u64 - 1);
    let ranges = [start as u64..(start + STRIPE) as u64, SIZE as u64 - 1..SIZE as u64].map(Change::in_place);
    let same = Preconditions::if_version(base.properties().etag);
    match bench.store.patch(&at(name), &base, &scratch, &ranges, SIZE as u64, NewContent::default(), &same) {
        Ok(_) => true,
        Err(StoreError::ConditionNotMet | StoreError::BlobNotFound(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

fn put(bench: &Bench, name: &str, value: u8) {
    let scratch = bench.store.scratch().unwrap();
    fill(&scratch, &[value; SIZE], 0);
    fill(&scratch, &[sum([value; STRIPES])], SIZE as u64 - 1);
    bench.publish(name, &scratch, SIZE as u64);
}

const NAMES: [&str; 3] = ["d/one", "d/two", "d/three"];

#[test]
fn every_reader_sees_one_version() {
    let bench = Bench::new(small());
    for name in NAMES {
        put(&bench, name, 1);
    }
    let stop = AtomicBool::new(false);
    let (patched, read_count) = (AtomicU64::new(0), AtomicU64::new(0));
    let running = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (bench, patched) = (&bench, &patched);
            scope.spawn(move || {
                let mut round = writer;
                while running() {
                    round += 2;
                    let name = NAMES[(round / 3 % 3) as usize];
                    if round.is_multiple_of(50) {
                        put(bench, name, round as u8);
                    } else if patch(bench, name, (round % 5) as usize, round as u8) {
                        patched.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut held: Vec<(ContentReader, Vec<u8>)> = Vec::new();
                while running() {
                    for name in NAMES {
                        let Ok(reader) = bench.store.reader(&at(name)) else { continue };
                        let bytes = read(&reader);
                        assert_whole(&bytes);
                        held.push((reader, bytes));
                        read_count.fetch_add(1, Ordering::Relaxed);
                    }
                    for (reader, bytes) in held.iter().take(4) {
                        assert!(read(reader) == *bytes, "a reader's version changed");
                    }
                    if held.len() > 20 {
                        held.drain(..15);
                    }
                }
            });
        }
        scope.spawn(|| {
            while running() {
                NAMES.iter().for_each(|name| bench.store.tidy(&at(name)).unwrap());
            }
        });
        scope.spawn(|| {
            while running() {
                let _ = bench.store.rename(&at("d/one"), &at("d/two"), RenameMode::Exchange);
                let listed = bench.list("d/", Some("/"));
                assert_eq!(listed, ["d/one", "d/three", "d/two"], "a listing is of one moment");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let started = Instant::now();
        while started.elapsed() < RUN {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(patched.into_inner() > 50 && read_count.into_inner() > 50, "everybody did something");
    bench.assert_clean();
    for name in NAMES {
        assert_whole(&bench.read(name));
        block_on(bench.store.delete_blob(&at(name), DeleteSnapshots::Include, &Preconditions::default()))
            .unwrap();
    }
    let bench = bench.reopen(small());
    bench.assert_clean();
    assert_eq!(bench.store.check().unwrap().files, 0, "nothing is left behind");
}

/// Page ranges and copies of a blob that is written without a pause: each is of one version, and none gives up.
#[test]
fn page_ranges_and_copies_go_on_beside_a_busy_writer() {
    const PAGE: usize = 512;
    let bench = Bench::new(small());
    let (disk, none) = (at("disk"), Preconditions::default());
    let store = &bench.store;
    block_on(store.create_page_blob(&disk, 4 * PAGE as u64, 0, NewContent::default(), &none)).unwrap();
    let stop = AtomicBool::new(false);
    let write = |value: u8| {
        // The first and the last page are always written together.
        let body = bytes::Bytes::from(vec![value; 4 * PAGE]);
        block_on(store.put_pages(&disk, 0, body.into(), SequenceConditions::default(), &none)).unwrap();
    };
    write(0);
    std::thread::scope(|scope| {
        for first in 0..2u8 {
            let (stop, write) = (&stop, &write);
            scope.spawn(move || {
                let mut value = first;
                while !stop.load(Ordering::Relaxed) {
                    value = value.wrapping_add(2);
                    write(value);
                }
            });
        }
        let source = CopySource { at: at("disk"), snapshot: None, conditions: Preconditions::default() };
        for _ in 0..1_000 {
            let found = block_on(store.page_ranges(&disk, None, None, None, &none)).unwrap();
            assert_eq!(found.ranges.len(), 1, "{:?}", found.ranges);
            block_on(store.copy_blob(&source, &at("copy"), CopyRequest::default(), &none)).unwrap();
            let copy = bench.read("copy");
            assert!(copy.iter().all(|byte| *byte == copy[0]), "a copy is of two versions");
        }
        stop.store(true, Ordering::Relaxed);
    });
    bench.assert_clean();
}

/// Lookups run beside changes of the same name: what a writer has finished is what the next lookup finds.
#[test]
fn lookups_are_never_older_than_the_last_change() {
    let bench = Bench::new(EmbeddedOptions { cached_records: 16, ..small() });
    let last = AtomicU64::new(bench.put("d/e/f", b"").etag.0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let known = last.load(Ordering::SeqCst);
                    let found = bench.store.find(&at("d/e/f")).unwrap().blob.unwrap().etag.0;
                    assert!(found >= known, "an old version came back");
                    // Pushes the record out of the small cache.
                    for index in 0..20 {
                        let _ = bench.store.find(&at(&format!("x{index}")));
                    }
                }
            });
        }
        for _ in 0..5_000 {
            let none = Preconditions::default();
            let etag = bench.store.set_metadata(&at("d/e/f"), Default::default(), &none).unwrap().etag.0;
            last.store(etag, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
