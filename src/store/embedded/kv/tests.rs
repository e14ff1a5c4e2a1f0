//! Tests of the key-value module from inside.

use super::*;

const LIMIT: u64 = 64 << 10;
const OPTIONS: KvOptions =
    KvOptions { cache: 1 << 20, memtable: LIMIT, table: TABLE_BYTES, after_crash: false };

fn batch(number: u64, bytes: usize) -> Batch {
    let mut batch = Batch::default();
    batch.put(Space::Names, number.to_be_bytes(), vec![1; bytes]);
    batch.put(Space::Inline, number.to_be_bytes(), vec![2; bytes / 3]);
    batch.remove(Space::Contents, number.to_be_bytes());
    batch
}

/// What the library counts as in memory, and what we do.
fn counted(kv: &Kv) -> (Sizes, Sizes) {
    let state = kv.state.read();
    let handles = state.as_ref().unwrap();
    (handles.spaces.each_ref().map(|space| space.tree.active_memtable().size()), *handles.filled.lock())
}

#[test]
fn we_seal_before_the_library_would() {
    let folder = tempfile::tempdir().unwrap();
    let kv = Kv::open(folder.path(), OPTIONS).unwrap();
    let mut sealed = 0;
    for number in 0..2000 {
        let (_, before) = counted(&kv);
        kv.commit(batch(number, (number % 7 * 100) as usize)).unwrap();
        let (library, ours) = counted(&kv);
        for space in 0..SPACES.len() {
            assert!(library[space] <= ours[space] && ours[space] <= LIMIT, "{library:?} {ours:?}");
            sealed += u64::from(ours[space] < before[space]);
        }
    }
    assert!(sealed > 10, "sealed {sealed} times");
    // What was in memory is counted again after a start.
    kv.close();
    let (library, ours) = counted(&Kv::open(folder.path(), OPTIONS).unwrap());
    assert_eq!(library, ours);
    assert!(ours.iter().sum::<u64>() > 0);
}

#[test]
fn a_batch_may_be_bigger_than_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let kv = Kv::open(folder.path(), OPTIONS).unwrap();
    for number in 0..20 {
        kv.commit(batch(number, 10 * LIMIT as usize)).unwrap();
        kv.commit(batch(100 + number, 100)).unwrap();
    }
    let view = kv.view().unwrap();
    assert_eq!(view.range(Space::Names, &[], None).count(), 40);
}

#[test]
fn what_is_sealed_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let kv = Kv::open(folder.path(), OPTIONS).unwrap();
    let none = kv.synced.load(Ordering::Acquire);
    kv.commit(batch(0, 100)).unwrap();
    assert_eq!(kv.synced.load(Ordering::Acquire), none);
    kv.compact(Space::Names).unwrap();
    assert!(!kv.is_dirty(), "sealed by a compaction");
    let mut number = 1;
    loop {
        let (_, before) = counted(&kv);
        kv.commit(batch(number, 1000)).unwrap();
        number += 1;
        let (_, after) = counted(&kv);
        if after[Space::Names as usize] < before[Space::Names as usize] {
            break;
        }
    }
    // All but the last, which came after.
    let (synced, committed) = (kv.synced.load(Ordering::Acquire), kv.committed.load(Ordering::Acquire));
    assert_eq!(synced + 1, committed);
}

/// A database whose workers have ended.
fn without_workers(folder: &Path) -> Kv {
    let mut kv = Kv::open(folder, OPTIONS).unwrap();
    kv.patience = Duration::from_millis(50);
    wait_for_others(kv.state.write().take());
    let handles = Handles::open_with(folder, OPTIONS, 0).unwrap();
    *kv.state.write() = Some(Arc::new(handles));
    kv
}

#[test]
fn a_commit_does_not_wait_for_workers_that_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let kv = without_workers(folder.path());
    let (tell, told) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let mut stored = Vec::new();
        for number in 0..1000 {
            if kv.commit(batch(number, 1000)).is_ok() {
                stored.push(number);
            }
        }
        tell.send((kv, stored)).unwrap();
    });
    let (kv, stored) = told.recv_timeout(Duration::from_secs(60)).expect("a commit never came back");
    writer.join().unwrap();
    // One was refused; then the database was opened again, with workers.
    assert_eq!((stored.len(), kv.reopened()), (999, 1));
    for number in stored {
        assert!(kv.get(Space::Names, &number.to_be_bytes()).unwrap().is_some(), "{number} is lost");
    }
}

#[test]
fn removed_values_give_their_room_back_without_a_rewrite_of_all() {
    const VALUES: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let kv = Kv::open(folder.path(), KvOptions { memtable: 8 << 20, ..OPTIONS }).unwrap();
    let noise = |number: u64| {
        let words = (0..512).map(|word| xxhash_rust::xxh3::xxh3_64_with_seed(&[], number << 16 | word));
        words.flat_map(u64::to_be_bytes).collect::<Vec<u8>>()
    };
    let mut put = Batch::default();
    (0..VALUES).for_each(|number| put.put(Space::Inline, number.to_be_bytes(), noise(number)));
    kv.commit(put).unwrap();
    kv.write_removed(Space::Inline).unwrap();
    let bytes = || kv.table_bytes(Space::Inline).unwrap();
    let wait_for = |what: &str, done: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < Duration::from_secs(30), "{what}: {} bytes", bytes());
            std::thread::sleep(LOOK_EVERY);
        }
    };
    wait_for("written", &|| bytes() > VALUES * 4096);
    for part in 0..4 {
        let mut remove = Batch::default();
        (0..VALUES)
            .filter(|number| number % 4 == part)
            .for_each(|number| remove.remove(Space::Inline, number.to_be_bytes()));
        kv.commit(remove).unwrap();
        kv.write_removed(Space::Inline).unwrap();
        // Two that are sealed at once would get into one table.
        let written = || {
            let state = kv.state.read();
            state.as_ref().unwrap().space(Space::Inline).sealed_memtable_count() == 0
        };
        wait_for("written", &written);
    }
    wait_for("removed", &|| bytes() < VALUES * 1024);
}

/// Tables that nobody merges.
fn write_tables(kv: &Kv, tables: usize) {
    for _ in 0..tables {
        kv.commit(batch(0, 10)).unwrap();
        let state = kv.state.read();
        state.as_ref().unwrap().space(Space::Names).tree.flush_active_memtable(0).unwrap();
    }
}

#[test]
fn a_merge_that_nobody_queued_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut kv = without_workers(folder.path());
    kv.patience = Duration::from_secs(1);
    write_tables(&kv, UNMERGED_MAX);
    let handles = Arc::clone(kv.state.read().as_ref().unwrap());
    assert_eq!(handles.left(Space::Names), (0, UNMERGED_MAX));
    // What nobody needs now is left for later.
    kv.commit(batch(0, 10)).unwrap();
    kv.write_removed(Space::Names).unwrap();
    assert_eq!(handles.left(Space::Names), (0, UNMERGED_MAX), "sealed too early");
    handles.wait_until_sealable(Space::Names, kv.patience).expect("it waits for a merge that never comes");
    // The library itself would halt soon.
    write_tables(&kv, UNMERGED_LAST - UNMERGED_MAX);
    assert!(handles.wait_until_sealable(Space::Names, kv.patience).is_err());
}

#[test]
fn a_write_that_fails_during_a_rewrite_ends_no_reads() {
    let folder = tempfile::tempdir().unwrap();
    let kv = Kv::open(folder.path(), OPTIONS).unwrap();
    kv.commit(batch(1, 10)).unwrap();
    let read = || kv.get(Space::Names, &1u64.to_be_bytes());
    let rewriting = kv.rewriting.lock();
    // What a rewrite has in its hands.
    let handles = Arc::clone(kv.state.read().as_ref().unwrap());
    kv.start_over(&KvError::Full);
    assert!(read().unwrap().is_some());
    assert_eq!(kv.reopened(), 0);
    drop((handles, rewriting));
    kv.compact(Space::Names).unwrap();
    assert_eq!(kv.reopened(), 1, "it is opened anew after the rewrite");
    assert!(read().unwrap().is_some());
    kv.compact(Space::Names).unwrap();
    assert_eq!(kv.reopened(), 1);
}
