//! The everyday operations of the embedded store, one by one.

use super::block_on;

use super::*;
use crate::store::{
    AppendConditions, BlockId, DeleteSnapshots, Metadata, RenameMode, SequenceConditions, StoreError,
};

fn delete(bench: &Bench, name: &str) {
    block_on(bench.store.delete_blob(&at(name), DeleteSnapshots::Refuse, &Preconditions::default())).unwrap();
}

#[test]
fn what_was_put_is_there_after_a_reopen() {
    let bench = Bench::new(EmbeddedOptions::default());
    let big = vec![7; 100_000];
    let etag = bench.put("a/b/small", b"hello").etag;
    bench.put("a/big", &big);
    let bench = bench.reopen(EmbeddedOptions::default());
    assert_eq!(bench.read("a/b/small"), b"hello");
    assert_eq!(bench.read("a/big"), big);
    let found = bench.store.find(&at("a/b/small")).unwrap();
    assert_eq!(found.blob.unwrap().etag, etag);
    assert!(found.prefix.is_none());
    assert!(bench.store.find(&at("a/b")).unwrap().prefix.is_some());
    assert!(bench.put("c", b"").etag > etag);
}

#[test]
fn a_scratch_file_can_be_published_growing_and_shrinking() {
    let bench = Bench::new(small());
    let scratch = bench.store.scratch().unwrap();
    for size in [5u64, 100, 3, 0, 40, 16, 17, 200] {
        let bytes: Vec<u8> = (0..size).map(|i| (i + size) as u8).collect();
        scratch.file().set_len(0).unwrap();
        fill(&scratch, &bytes, 0);
        assert_eq!(bench.publish("f", &scratch, size).size, size);
        assert_eq!(bench.read("f"), bytes);
    }
    drop(scratch);
    assert_eq!(bench.read("f").len(), 200);
}

#[test]
fn a_reader_keeps_its_version() {
    let bench = Bench::new(small());
    bench.put("f", &[1; 100]);
    let old = bench.store.reader(&at("f")).unwrap();
    bench.put("f", &[2; 50]);
    delete(&bench, "f");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let mut buffer = [0; 100];
    assert_eq!(old.read_at(&mut buffer, 0).unwrap(), 100);
    assert_eq!(buffer, [1; 100]);
}

#[test]
fn deletes_take_empty_prefixes_along() {
    let bench = Bench::new(small());
    bench.put("a/b/c", b"1");
    bench.put("a/x", b"2");
    delete(&bench, "a/b/c");
    assert!(bench.store.find(&at("a/b")).unwrap().prefix.is_none());
    assert!(bench.store.find(&at("a")).unwrap().prefix.is_some());
    delete(&bench, "a/x");
    assert!(bench.store.find(&at("a")).unwrap().prefix.is_none());
    assert!(bench.list("", None).is_empty());
}

#[test]
fn a_blob_and_its_prefix_share_a_number() {
    let bench = Bench::new(small());
    let id = bench.put("d", b"").id;
    bench.put("d/x", b"1");
    assert_eq!(bench.store.find(&at("d")).unwrap().prefix, Some(id));
    bench.put("e/x", b"1");
    let prefix = bench.store.find(&at("e")).unwrap().prefix;
    assert_eq!(prefix, Some(bench.put("e", b"").id));
}

#[test]
fn renames_move_whole_prefixes() {
    let bench = Bench::new(small());
    let id = bench.put("d", b"").id;
    bench.put("d/x/1", b"one");
    bench.put("d/2", &[2; 50]);
    bench.store.rename(&at("d"), &at("p/q/e"), RenameMode::NoReplace).unwrap();
    assert_eq!(bench.list("", None), ["p/q/e", "p/q/e/2", "p/q/e/x/1"]);
    assert_eq!(bench.store.find(&at("p/q/e")).unwrap().prefix, Some(id));
    assert_eq!(bench.read("p/q/e/x/1"), b"one");
    bench.put("f", b"file");
    bench.store.rename(&at("f"), &at("p/q/e"), RenameMode::Exchange).unwrap();
    assert_eq!(bench.list("", None), ["f", "f/2", "f/x/1", "p/q/e"]);
    bench.store.rename(&at("p/q/e"), &at("g"), RenameMode::Replace).unwrap();
    assert_eq!(bench.list("", Some("/")), ["f", "f/", "g"]);
    let refused = bench.store.rename(&at("f"), &at("g"), RenameMode::NoReplace);
    assert!(matches!(refused, Err(StoreError::BlobExists(_))));
    let refused = bench.store.rename(&at("f"), &at("f/x/y"), RenameMode::Replace);
    assert!(matches!(refused, Err(StoreError::InvalidRename { .. })));
    let missing = bench.store.rename(&at("nothing"), &at("h"), RenameMode::Replace);
    assert!(matches!(missing, Err(StoreError::BlobNotFound(_))));
}

#[test]
fn metadata_changes_the_version_and_nothing_else() {
    let bench = Bench::new(small());
    let before = bench.put("f", &[3; 40]);
    let metadata: Metadata = [("k".to_owned(), "v".to_owned())].into();
    let after = bench.store.set_metadata(&at("f"), metadata.clone(), &Preconditions::default()).unwrap();
    assert!(after.etag > before.etag);
    assert_eq!(after.metadata, metadata);
    assert_eq!((after.id, after.size, after.created), (before.id, before.size, before.created));
    assert_eq!(bench.read("f"), [3; 40]);
    let stale = bench.store.set_metadata(&at("f"), metadata, &Preconditions::if_version(before.etag));
    assert!(matches!(stale, Err(StoreError::ConditionNotMet)));
}

#[test]
fn unpublished_scratch_files_are_used_again() {
    let bench = Bench::new(EmbeddedOptions::default());
    let first = bench.store.scratch().unwrap();
    fill(&first, b"some bytes", 0);
    bench.publish("f", &first, 10);
    let number = first.id();
    drop(first);
    let second = bench.store.scratch().unwrap();
    assert_eq!(second.id(), number, "small content went into the database, so the file is free");
    assert_eq!(second.file().metadata().unwrap().len(), 0);
    fill(&second, &[1; 100_000], 0);
    bench.publish("g", &second, 100_000);
    drop(second);
    assert_ne!(bench.store.scratch().unwrap().id(), number, "it is content now");
    assert_eq!(bench.read("f"), b"some bytes");
}

#[test]
fn blocks_that_nobody_commits_go_after_a_week() {
    use std::sync::atomic::{AtomicI64, Ordering};
    let time = Arc::new(AtomicI64::new(1_790_000_000_000_000_000));
    let clock = {
        let time = Arc::clone(&time);
        Arc::new(move || crate::share::Moment(time.load(Ordering::Relaxed)))
    };
    let bench = Bench::new(EmbeddedOptions { clock, ..small() });
    let day = 24 * 3600 * 1_000_000_000;
    let stage = |name: &str| {
        let id = BlockId(vec![1]);
        block_on(bench.store.put_block(&at(name), &id, vec![1; 100].into(), None)).unwrap();
    };
    stage("old");
    time.fetch_add(5 * day, Ordering::Relaxed);
    stage("young");
    time.fetch_add(3 * day, Ordering::Relaxed);
    assert_eq!(bench.store.drop_stale_blocks().unwrap(), 1);
    let list = |name: &str| block_on(bench.store.get_block_list(&at(name), &Preconditions::default()));
    assert!(matches!(list("old"), Err(StoreError::BlobNotFound(_))));
    assert_eq!(list("young").unwrap().uncommitted.len(), 1);
    bench.assert_clean();
}

/// What the files of the store take on the disk.
fn disk_bytes(bench: &Bench) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let folders = std::fs::read_dir(bench.folder.path().join("content")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().metadata().map_or(0, |about| about.blocks() * 512)).sum()
}

#[test]
fn appends_and_page_writes_cost_what_they_write() {
    const BIG: usize = 4 << 20;
    let bench = Bench::new(small());
    let (store, none) = (&bench.store, Preconditions::default());
    let body = |length: usize| bytes::Bytes::from(vec![1; length]).into();
    let append = |length| {
        block_on(store.append_block(&at("log"), body(length), AppendConditions::default(), &none)).unwrap();
    };
    let write = |offset, length| {
        let sequence = SequenceConditions::default();
        block_on(store.put_pages(&at("disk"), offset, body(length), sequence, &none)).unwrap();
    };
    block_on(store.create_append_blob(&at("log"), NewContent::default(), &none)).unwrap();
    block_on(store.create_page_blob(&at("disk"), BIG as u64, 0, NewContent::default(), &none)).unwrap();
    append(BIG);
    write(0, BIG);
    // Whoever reads the old version keeps it from being overwritten.
    let readers = [store.reader(&at("log")).unwrap(), store.reader(&at("disk")).unwrap()];
    let before = disk_bytes(&bench);
    for turn in 0..16 {
        append(512);
        write(turn * 65_536, 512);
    }
    let grown = disk_bytes(&bench) - before;
    assert!(grown < 1 << 20, "32 writes of 512 bytes took {grown} bytes");
    assert_eq!(readers.map(|reader| reader.size()), [BIG as u64; 2]);
    assert_eq!(bench.read("log").len(), BIG + 16 * 512);
    bench.assert_clean();
}
