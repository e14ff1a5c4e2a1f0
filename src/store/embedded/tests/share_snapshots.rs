//! Snapshots of containers: whatever happens to the container, a snapshot stays what the container was.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::store::{
    CONTAINER_SNAPSHOTS_MAX, Change, CopySource, DeleteSnapshots, Limit, ListItem, RenameMode, SnapshotId,
    StoreError,
};

/// Names and bytes.
type Tree = BTreeMap<String, Vec<u8>>;

const NAMES: [&str; 5] = ["a", "a!", "a/b", "a/c/d", "e"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put {
        name: usize,
        size: usize,
        byte: u8,
    },
    /// Publishes a file that goes on being written in place.
    Publish {
        name: usize,
        size: usize,
        byte: u8,
    },
    /// Writes into such a file.
    WriteInPlace {
        name: usize,
        at: usize,
        byte: u8,
    },
    /// Its writer is done.
    Close {
        name: usize,
    },
    Patch {
        name: usize,
        from: usize,
        to: usize,
        size: usize,
        byte: u8,
    },
    Append {
        name: usize,
        count: usize,
        byte: u8,
    },
    Tidy {
        name: usize,
    },
    TakeOver {
        name: usize,
        byte: u8,
    },
    Copy {
        from: usize,
        to: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Delete {
        name: usize,
    },
    Snapshot,
    DeleteSnapshot {
        index: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let size = || 0usize..150;
    prop_oneof![
        2 => (name(), size(), any::<u8>()).prop_map(|(name, size, byte)| Step::Put { name, size, byte }),
        2 => (name(), size(), any::<u8>()).prop_map(|(name, size, byte)| Step::Publish { name, size, byte }),
        2 => (name(), size(), any::<u8>()).prop_map(|(name, at, byte)| Step::WriteInPlace { name, at, byte }),
        1 => name().prop_map(|name| Step::Close { name }),
        4 => (name(), size(), size(), size(), any::<u8>())
            .prop_map(|(name, from, to, size, byte)| Step::Patch { name, from, to, size, byte }),
        1 => (name(), 1usize..40, any::<u8>()).prop_map(|(name, count, byte)| Step::Append { name, count, byte }),
        4 => name().prop_map(|name| Step::Tidy { name }),
        1 => (name(), any::<u8>()).prop_map(|(name, byte)| Step::TakeOver { name, byte }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Copy { from, to }),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => name().prop_map(|name| Step::Delete { name }),
        4 => Just(Step::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(|index| Step::DeleteSnapshot { index: index.index(100) }),
    ]
}

fn always() -> Preconditions {
    Preconditions::default()
}

fn pattern(byte: u8, size: usize) -> Vec<u8> {
    (0..size).map(|at| byte.wrapping_add(at as u8)).collect()
}

/// A store, what it should hold, and the snapshots with what they should hold.
struct Story {
    bench: Bench,
    tree: Tree,
    taken: Vec<(SnapshotId, Tree)>,
    /// Files that are being written in place.
    open: BTreeMap<usize, Scratch>,
}

impl Story {
    fn new() -> Self {
        Self { bench: Bench::new(small()), tree: Tree::new(), taken: Vec::new(), open: BTreeMap::new() }
    }

    fn set(&mut self, name: usize, bytes: Vec<u8>) {
        self.open.remove(&name);
        self.tree.insert(NAMES[name].to_owned(), bytes);
    }

    fn has(&self, name: usize) -> bool {
        self.tree.contains_key(NAMES[name])
    }

    fn apply(&mut self, step: Step) {
        let store = Arc::clone(&self.bench.store);
        match step {
            Step::Put { name, size, byte } => {
                // Another kind of blob stands in the way of a plain put.
                let _ = block_on(store.delete_blob(&at(NAMES[name]), DeleteSnapshots::Include, &always()));
                self.bench.put(NAMES[name], &pattern(byte, size));
                self.set(name, pattern(byte, size));
            }
            Step::Publish { name, size, byte } => {
                let scratch = store.scratch().unwrap();
                fill(&scratch, &pattern(byte, size), 0);
                self.bench.publish(NAMES[name], &scratch, size as u64);
                self.set(name, pattern(byte, size));
                self.open.insert(name, scratch);
            }
            Step::WriteInPlace { name, at: place, byte } => {
                let Some(scratch) = self.open.get(&name) else { return };
                let bytes = self.tree.get_mut(NAMES[name]).unwrap();
                // Small content was copied into the index when it was published.
                if place < bytes.len() && bytes.len() > 16 {
                    fill(scratch, &[byte], place as u64);
                    bytes[place] = byte;
                }
            }
            Step::Close { name } => drop(self.open.remove(&name)),
            Step::Patch { name, from, to, size, byte }
                if self.has(name) && !self.open.contains_key(&name) =>
            {
                let (from, to) = (from.min(to).min(size), from.max(to).min(size));
                let scratch = store.scratch().unwrap();
                let new = pattern(byte, to - from);
                fill(&scratch, &new, from as u64);
                let base = store.reader(&at(NAMES[name])).unwrap();
                let change = Change::in_place(from as u64..to as u64);
                let changes = if from < to { vec![change] } else { Vec::new() };
                let content = NewContent::default();
                store
                    .patch(&at(NAMES[name]), &base, &scratch, &changes, size as u64, content, &always())
                    .unwrap();
                let mut bytes = self.tree[NAMES[name]].clone();
                bytes.resize(size, 0);
                bytes[from..to].copy_from_slice(&new);
                self.set(name, bytes);
            }
            Step::Patch { .. } => {}
            Step::Append { name, count, byte } => {
                let path = at(NAMES[name]);
                let kind = store.find(&path).unwrap().blob.map(|blob| blob.kind);
                if kind.is_some_and(|kind| kind != crate::store::BlobKind::Append) {
                    return;
                }
                if kind.is_none() {
                    block_on(store.create_append_blob(&path, NewContent::default(), &always())).unwrap();
                    self.set(name, Vec::new());
                }
                let bytes = bytes::Bytes::from(pattern(byte, count));
                block_on(store.append_block(&path, bytes.clone().into(), Default::default(), &always()))
                    .unwrap();
                self.tree.get_mut(NAMES[name]).unwrap().extend_from_slice(&bytes);
            }
            Step::Tidy { name } => store.tidy(&at(NAMES[name])).unwrap(),
            Step::TakeOver { name, byte } => {
                let Ok(reader) = store.reader(&at(NAMES[name])) else { return };
                if reader.as_file().is_none() || self.open.contains_key(&name) {
                    return;
                }
                let scratch = store.take_over(Some(&at(NAMES[name])), &reader).unwrap();
                fill(&scratch, &[byte], 0);
                self.bench.publish(NAMES[name], &scratch, reader.size());
                let mut bytes = self.tree[NAMES[name]].clone();
                bytes[0] = byte;
                self.set(name, bytes);
                self.open.insert(name, scratch);
            }
            Step::Copy { from, to } => {
                if from == to || !self.has(from) {
                    return;
                }
                let _ = block_on(store.delete_blob(&at(NAMES[to]), DeleteSnapshots::Include, &always()));
                let source = CopySource::of(&at(NAMES[from]));
                block_on(store.copy_blob(&source, &at(NAMES[to]), Default::default(), &always())).unwrap();
                let bytes = self.tree[NAMES[from]].clone();
                self.set(to, bytes);
            }
            Step::Rename { from, to } => {
                // Whole prefixes move along, which the model leaves out.
                let leaf = |name: usize| NAMES[name] != "a";
                if from == to || !self.has(from) || !leaf(from) || !leaf(to) {
                    return;
                }
                store.rename(&at(NAMES[from]), &at(NAMES[to]), RenameMode::Replace).unwrap();
                let bytes = self.tree.remove(NAMES[from]).unwrap();
                let open = self.open.remove(&from);
                self.set(to, bytes);
                self.open.extend(open.map(|scratch| (to, scratch)));
            }
            Step::Delete { name } => {
                if self.has(name) {
                    block_on(store.delete_blob(&at(NAMES[name]), DeleteSnapshots::Include, &always()))
                        .unwrap();
                    self.tree.remove(NAMES[name]);
                    self.open.remove(&name);
                }
            }
            Step::Snapshot => {
                let (snapshot, _) = block_on(store.snapshot_container(&share(), None)).unwrap();
                self.taken.push((snapshot, self.tree.clone()));
            }
            Step::DeleteSnapshot { index } => {
                if !self.taken.is_empty() {
                    let (snapshot, _) = self.taken.remove(index % self.taken.len());
                    block_on(store.delete_container_snapshot(&share(), snapshot)).unwrap();
                }
            }
        }
    }

    /// Everything reads as it should.
    fn verify(&self) {
        assert_eq!(read_all(&self.bench.store, &share()), self.tree, "the share itself");
        for (snapshot, tree) in &self.taken {
            assert_eq!(&read_all(&self.bench.store, &share().at_snapshot(*snapshot)), tree, "{snapshot:?}");
        }
        let listed = self.bench.store.container_snapshots(&share()).unwrap();
        let listed: Vec<SnapshotId> = listed.into_iter().map(|(snapshot, _)| snapshot).collect();
        let taken: Vec<SnapshotId> = self.taken.iter().map(|(snapshot, _)| *snapshot).collect();
        assert_eq!(listed, taken);
    }
}

/// All blobs of a container by listing and reading them.
fn read_all(store: &EmbeddedStore, container: &ContainerName) -> Tree {
    let page =
        block_on(store.list_blobs(container, &ListQuery { max: 100, ..ListQuery::default() })).unwrap();
    let read = |item: ListItem| {
        let ListItem::Blob { name, properties } = item else { panic!("only blobs were asked for: {item:?}") };
        let path = BlobPath::new(container.clone(), BlobName::new(name.clone()).unwrap());
        assert_eq!(store.find(&path).unwrap().blob.map(|blob| blob.id), Some(properties.id));
        let reader = store.reader(&path).unwrap();
        let mut buffer = vec![0xee; properties.size as usize];
        assert_eq!(reader.read_at(&mut buffer, 0).unwrap(), buffer.len());
        (name, buffer)
    };
    page.items.into_iter().map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_snapshot_stays_what_the_container_was(steps in prop::collection::vec(step(), 1..60)) {
        let mut story = Story::new();
        for step in steps {
            story.apply(step);
            story.verify();
        }
        story.bench.assert_clean();
        story.open.clear();
        story.verify();
        let Story { bench, tree, taken, .. } = story;
        let story = Story { bench: bench.reopen(small()), tree, taken, open: BTreeMap::new() };
        story.verify();
        story.bench.assert_clean();
        let store = Arc::clone(&story.bench.store);
        block_on(store.delete_container(&share(), &always())).unwrap();
        store.purge_all();
        story.bench.assert_clean();
        let report = store.check().unwrap();
        prop_assert_eq!((report.containers, report.container_snapshots, report.blobs), (0, 0, 0));
    }
}

fn publish_live(bench: &Bench, name: &str, bytes: &[u8]) -> Scratch {
    let scratch = bench.store.scratch().unwrap();
    fill(&scratch, bytes, 0);
    bench.publish(name, &scratch, bytes.len() as u64);
    scratch
}

#[test]
fn a_file_written_in_place_is_copied() {
    let bench = Bench::new(small());
    let live = publish_live(&bench, "a", &[1; 100]);
    let (snapshot, _) = block_on(bench.store.snapshot_container(&share(), None)).unwrap();
    fill(&live, &[2; 50], 0);
    live.file().set_len(10).unwrap();
    let taken = read_all(&bench.store, &share().at_snapshot(snapshot));
    assert_eq!(taken["a"], [1; 100]);
    // What its writer cut off before the commit that says so reads as zeros; the snapshot is made all the same.
    let (snapshot, _) = block_on(bench.store.snapshot_container(&share(), None)).unwrap();
    let taken = read_all(&bench.store, &share().at_snapshot(snapshot));
    assert_eq!(taken["a"], [[2; 10].as_slice(), &[0; 90]].concat());
}

#[test]
fn nothing_changes_a_snapshot() {
    let bench = Bench::new(small());
    bench.put("d/a", &[1; 100]);
    let store = &bench.store;
    let (snapshot, _) = block_on(store.snapshot_container(&share(), None)).unwrap();
    let hidden = share().at_snapshot(snapshot);
    let path = BlobPath::new(hidden.clone(), BlobName::new("d/a").unwrap());
    let refused = |what: &str, result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::NotSupported(_))), "{what}: {result:?}");
    };
    let body = || bytes::Bytes::from_static(b"x").into();
    refused("put", block_on(store.put_blob(&path, body(), NewContent::default(), &always())).map(drop));
    refused("delete", block_on(store.delete_blob(&path, DeleteSnapshots::Refuse, &always())));
    refused("metadata", store.set_metadata(&path, Default::default(), &always()).map(drop));
    refused("rename away", store.rename(&path, &at("x"), RenameMode::Replace));
    refused("rename in", store.rename(&at("d/a"), &path, RenameMode::Replace));
    refused("snapshot", block_on(store.snapshot_blob(&path, None, &always())).map(drop));
    let id = crate::store::BlockId(vec![1]);
    refused("stage", block_on(store.put_block(&path, &id, body(), None)));
    refused(
        "container",
        block_on(store.set_container_metadata(&hidden, Default::default(), &always())).map(drop),
    );
    refused("delete all", block_on(store.delete_container(&hidden, &always())));
    refused("twice", block_on(store.snapshot_container(&hidden, None)).map(drop));
    store.tidy(&path).unwrap();
    // Copying out of it is reading.
    block_on(store.copy_blob(&CopySource::of(&path), &at("copy"), Default::default(), &always())).unwrap();
    assert_eq!(bench.read("copy"), [1; 100]);
    let (containers, _) = block_on(store.list_containers("", None, 100)).unwrap();
    assert_eq!(containers.len(), 1, "a listing of containers does not meet snapshots");
    bench.assert_clean();
}

#[test]
fn a_container_with_snapshots_is_deleted_only_with_them() {
    let bench = Bench::new(small());
    bench.put("a", &[1; 100]);
    let store = &bench.store;
    let (first, taken) = block_on(store.snapshot_container(&share(), Some([("k", "v")].into()))).unwrap();
    assert_eq!((taken.name.as_str(), taken.metadata.get("k")), ("share", Some("v")));
    let (second, _) = block_on(store.snapshot_container(&share(), None)).unwrap();
    assert!(first < second);
    let delete = |snapshots| block_on(store.delete_container_with(&share(), snapshots, &always()));
    assert!(matches!(delete(DeleteSnapshots::Refuse), Err(StoreError::SnapshotsPresent(_))));
    block_on(store.delete_container_snapshot(&share(), first)).unwrap();
    let again = block_on(store.delete_container_snapshot(&share(), first));
    assert!(matches!(again, Err(StoreError::ContainerNotFound(_))));
    delete(DeleteSnapshots::Include).unwrap();
    assert!(matches!(store.container_snapshots(&share()), Err(StoreError::ContainerNotFound(_))));
    store.purge_all();
    bench.assert_clean();
}

#[test]
fn a_container_has_at_most_200_snapshots() {
    let bench = Bench::new(small());
    bench.put("a", b"small");
    let mut last = None;
    for _ in 0..CONTAINER_SNAPSHOTS_MAX {
        last = Some(block_on(bench.store.snapshot_container(&share(), None)).unwrap().0);
    }
    let more = || block_on(bench.store.snapshot_container(&share(), None));
    assert!(matches!(more(), Err(StoreError::LimitExceeded(Limit::ContainerSnapshots))));
    block_on(bench.store.delete_container_snapshot(&share(), last.unwrap())).unwrap();
    more().unwrap();
}

/// More than one batch, beside the keeper and a writer: what is unfinished must never be taken for trash to empty.
#[test]
fn a_big_container_is_one_moment() {
    let options =
        EmbeddedOptions { inline_max: 16 << 10, checkpoint_every: Duration::from_millis(5), ..small() };
    let bench = Bench::new(options);
    for index in 0..900 {
        bench.put(&format!("d{}/f{index}", index % 7), &vec![index as u8; 12 << 10]);
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Two names that always change together, by one exchange.
        bench.put("left", b"1");
        bench.put("right", b"2");
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                bench.store.rename(&at("left"), &at("right"), RenameMode::Exchange).unwrap();
            }
        });
        scope.spawn(|| {
            let mut purged = Purged::default();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                bench.store.purge_some(&mut purged).unwrap();
            }
        });
        for _ in 0..3 {
            let (snapshot, _) = block_on(bench.store.snapshot_container(&share(), None)).unwrap();
            let hidden = share().at_snapshot(snapshot);
            let query = ListQuery { max: 5000, ..ListQuery::default() };
            let page = block_on(bench.store.list_blobs(&hidden, &query)).unwrap();
            assert_eq!(page.items.len(), 902);
            let read = |name: &str| {
                let path = BlobPath::new(hidden.clone(), BlobName::new(name).unwrap());
                block_on(bench.store.get_blob(&path, None, None, &always())).unwrap().body[0]
            };
            assert_eq!(read("left") + read("right"), b'1' + b'2');
            assert_eq!(read("d3/f3"), 3);
            block_on(bench.store.delete_container_snapshot(&share(), snapshot)).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    bench.store.purge_all();
    bench.assert_clean();
}
