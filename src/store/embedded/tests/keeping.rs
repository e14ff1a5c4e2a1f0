//! Tests of what the keeper does: removing files, emptying deleted containers.

use std::time::{Duration, Instant};

use super::super::kv::{Batch, Space};
use super::*;
use crate::store::{BlockId, DeleteSnapshots};

/// Longer than any of these tests may take.
const FOREVER: Duration = Duration::from_secs(60);

/// Contents that are files of their own, without a keeper that would remove them.
fn without_keeper() -> Bench {
    let bench = Bench::new(small());
    bench.store.keeper.stop(&bench.store.files);
    bench.store.files.take_doomed(Duration::ZERO);
    bench
}

fn delete(bench: &Bench, name: &str) {
    block_on(bench.store.delete_blob(&at(name), DeleteSnapshots::Refuse, &Preconditions::default())).unwrap();
}

#[test]
fn a_few_removed_files_wait_for_the_next_look() {
    const WAIT: Duration = Duration::from_millis(100);
    let bench = without_keeper();
    bench.put("f", &[1; 100]);
    delete(&bench, "f");
    let started = Instant::now();
    assert_eq!(bench.store.files.take_doomed(WAIT).len(), 1);
    assert!(started.elapsed() >= WAIT, "taken after {:?}", started.elapsed());
}

#[test]
fn many_removed_files_wake_the_keeper() {
    let bench = without_keeper();
    for number in 0..256 {
        bench.put(&format!("f{number}"), &[1; 100]);
    }
    (0..255).for_each(|number| delete(&bench, &format!("f{number}")));
    let started = Instant::now();
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| bench.store.files.take_doomed(FOREVER));
        delete(&bench, "f255");
        assert_eq!(keeper.join().unwrap().len(), 256);
    });
    assert!(started.elapsed() < FOREVER);
}

#[test]
fn a_disk_that_is_nearly_full_wakes_the_keeper() {
    let bench = without_keeper();
    bench.put("f", &[1; 100]);
    bench.store.space.pretend_tight();
    delete(&bench, "f");
    let started = Instant::now();
    assert_eq!(bench.store.files.take_doomed(FOREVER).len(), 1);
    assert!(started.elapsed() < FOREVER);
}

/// Deletes the container; answers the number of its tree.
fn discard(bench: &Bench) -> u64 {
    let root = bench.store.container(&share()).unwrap().root;
    block_on(bench.store.delete_container(&share(), &Preconditions::default())).unwrap();
    root
}

fn stage(bench: &Bench, name: &str, id: &[u8]) {
    block_on(bench.store.put_block(&at(name), &BlockId(id.to_vec()), vec![1; 100].into(), None)).unwrap();
}

/// A stranger's record in front of those that were removed: a step that begins at the front would come across it.
fn trap(bench: &Bench, root: u64) -> Vec<u8> {
    let key = [&root.to_be_bytes()[..], b"!"].concat();
    let mut batch = Batch::default();
    batch.put(Space::Names, key.clone(), b"no record at all".to_vec());
    bench.store.kv.commit(batch).unwrap();
    key
}

#[test]
fn emptying_a_container_never_begins_again_at_the_front() {
    let bench = without_keeper();
    for number in 0..1200 {
        bench.put(&format!("f{number:04}"), b"small");
        stage(&bench, &format!("g{number:04}"), b"a");
    }
    let root = discard(&bench);
    let mut purged = Purged::default();
    assert!(bench.store.purge_some(&mut purged).unwrap());
    let trap = trap(&bench, root);
    while bench.store.purge_some(&mut purged).unwrap() {}
    let mut batch = Batch::default();
    batch.remove(Space::Names, trap);
    bench.store.kv.commit(batch).unwrap();
    bench.assert_clean();
    assert_eq!(bench.store.kv.view().unwrap().range(Space::Names, &[], None).count(), 0);
    let staged = bench.store.kv.view().unwrap().prefix(Space::Misc, b"b").count();
    assert_eq!(staged, 0, "staged blocks are left");
}

#[test]
fn trees_with_lower_numbers_are_emptied_too() {
    let bench = without_keeper();
    // The directory is older than the one it is moved into, and the second container than the first.
    bench.put("old/a/b/f", &[1; 100]);
    let other = ContainerName::new("other").unwrap();
    block_on(bench.store.create_container(&other, Default::default(), Default::default())).unwrap();
    (0..600).for_each(|number| drop(bench.put(&format!("new/f{number}"), b"small")));
    bench.store.rename(&at("old"), &at("new/old"), crate::store::RenameMode::NoReplace).unwrap();
    (0..600).for_each(|number| drop(bench.put(&format!("new/old/f{number}"), b"small")));
    discard(&bench);
    let mut purged = Purged::default();
    assert!(bench.store.purge_some(&mut purged).unwrap());
    block_on(bench.store.delete_container(&other, &Preconditions::default())).unwrap();
    while bench.store.purge_some(&mut purged).unwrap() {}
    let view = bench.store.kv.view().unwrap();
    assert_eq!(view.range(Space::Names, &[], None).count(), 0);
    assert_eq!(view.prefix(Space::Misc, b"t").count(), 0, "trees are left");
    bench.assert_clean();
}
