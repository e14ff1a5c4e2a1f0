//! Steps on a store, and the plain model they are compared with.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::embedded::EmbeddedStore;
use leasefs::store::{
    AccessTier, AppendConditions, BlobName, BlobPath, BlobStore, BlockId, BlockKind, BlockListEntry, Change,
    ContainerAcl, ContainerName, CopyRequest, CopySource, DeleteSnapshots, HttpHeaders, LeaseRequest,
    ListItem, ListQuery, LocalStore, Metadata, NewContent, Preconditions, PropertiesChange, PublicAccess,
    RenameMode, SequenceConditions, Tags,
};

/// A blob's bytes and its metadata value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) bytes: Vec<u8>,
    pub(crate) note: String,
}

/// What the store should hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    blobs: BTreeMap<String, Blob>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put {
        name: String,
        seed: u8,
        size: usize,
    },
    Publish {
        name: String,
        seed: u8,
        size: usize,
    },
    Patch {
        name: String,
        seed: u8,
        range: Range<usize>,
        size: usize,
    },
    Delete {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    RenameFolder {
        from: String,
        to: String,
    },
    Note {
        name: String,
        note: String,
    },
    Tidy {
        name: String,
    },
    Snapshot {
        name: String,
    },
    DropSnapshots {
        name: String,
    },
    Blocks {
        name: String,
        seed: u8,
        sizes: Vec<usize>,
    },
    Copy {
        from: String,
        to: String,
    },
    TakeOver {
        name: String,
        seed: u8,
    },
    NewAppend {
        name: String,
    },
    Append {
        name: String,
        seed: u8,
        size: usize,
    },
    NewPages {
        name: String,
    },
    /// Whole pages; cleared instead of written if `clear`.
    Pages {
        name: String,
        seed: u8,
        range: Range<usize>,
        clear: bool,
    },
    /// Changes that the model does not see: headers, leases, containers, syncs.
    Unseen(u8),
}

/// Size of every page blob.
const PAGE_BLOB: usize = 3 * 64 * 1024;

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

pub(crate) fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|index| ((index / 7) as u8).wrapping_mul(13).wrapping_add(seed)).collect()
}

impl Model {
    /// The step that child and parent both come to.
    pub(crate) fn next_step(&self, seed: u64, index: u64) -> Step {
        let mut state = mix(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index);
        let mut next = |limit: u64| {
            state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
            state % limit
        };
        let any_name = format!("top/dir{}/f{}", next(4), next(6));
        let other_name = format!("top/dir{}/f{}", next(4), next(6));
        let plain: Vec<&String> = self.blobs.keys().filter(|name| name.starts_with("top/")).collect();
        let there = plain.get(next(plain.len().max(1) as u64) as usize).map(|name| (*name).clone());
        let seed = next(256) as u8;
        let size = match next(4) {
            0 => next(20) as usize,
            1 => next(1000) as usize,
            2 => 1001 + next(9000) as usize,
            _ => 10_000 + next(90_000) as usize,
        };
        let choice = next(36);
        if choice >= 26 {
            let number = next(3);
            return self.special_step(choice - 26, number, seed, size);
        }
        let Some(name) = there else { return Step::Put { name: any_name, seed, size } };
        match choice {
            0..4 => Step::Put { name: any_name, seed, size },
            4..8 => Step::Publish { name: any_name, seed, size },
            8..12 => {
                let old = self.blobs[&name].bytes.len();
                let new = if next(2) == 0 { old } else { size };
                let start = next(new as u64 + 1) as usize;
                let end = (start + next(3000) as usize).min(new);
                Step::Patch { name, seed, range: start..end, size: new }
            }
            12..14 => Step::Delete { name },
            14 if name != other_name => Step::Rename { from: name, to: other_name },
            15 => {
                let (from, to) = (format!("top/dir{}", next(4)), format!("top/dir{}", next(4)));
                let has =
                    |folder: &str| self.blobs.keys().any(|name| name.starts_with(&format!("{folder}/")));
                if has(&from) && !has(&to) { Step::RenameFolder { from, to } } else { Step::Tidy { name } }
            }
            14 | 16 => Step::Note { name, note: format!("n{seed}") },
            17..19 => Step::Tidy { name },
            19 => Step::Snapshot { name },
            20 => Step::DropSnapshots { name },
            21 => Step::Blocks { name: any_name, seed, sizes: vec![size % 700, size, 900, 2000] },
            22 if name != other_name => Step::Copy { from: name, to: other_name },
            23 => Step::TakeOver { name, seed },
            _ => Step::Unseen(seed % 8),
        }
    }

    /// A step on an append or page blob.
    fn special_step(&self, choice: u64, number: u64, seed: u8, size: usize) -> Step {
        let append = choice < 5;
        let name = format!("{}{number}", if append { "log/a" } else { "disk/d" });
        match (self.blobs.contains_key(&name), append, choice % 5) {
            (false, true, _) => Step::NewAppend { name },
            (false, false, _) => Step::NewPages { name },
            (true, _, 0) if seed < 40 => Step::Delete { name },
            (true, _, 0) if seed < 100 => Step::DropSnapshots { name },
            (true, _, 0) => Step::Snapshot { name },
            (true, true, _) => Step::Append { name, seed, size: size % 20_000 },
            (true, false, _) => {
                let pages = PAGE_BLOB / 512;
                let (start, length) = (size % pages, 1 + usize::from(seed) % 40);
                let range = start * 512..(start + length).min(pages) * 512;
                Step::Pages { name, seed, range, clear: seed.is_multiple_of(5) }
            }
        }
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        let blob = |bytes| Blob { bytes, note: String::new() };
        match step {
            Step::Put { name, seed, size } | Step::Publish { name, seed, size } => {
                self.blobs.insert(name.clone(), blob(pattern(*seed, *size)));
            }
            Step::Patch { name, seed, range, size } => {
                let blob = self.blobs.get_mut(name).unwrap();
                blob.bytes.resize(*size, 0);
                blob.bytes[range.clone()].copy_from_slice(&pattern(*seed, range.len()));
                blob.note.clear();
            }
            Step::Delete { name } => {
                self.blobs.remove(name);
            }
            Step::Rename { from, to } => {
                let moved = self.blobs.remove(from).unwrap();
                self.blobs.insert(to.clone(), moved);
            }
            Step::RenameFolder { from, to } => {
                let below = format!("{from}/");
                let names: Vec<String> =
                    self.blobs.keys().filter(|name| name.starts_with(&below)).cloned().collect();
                for name in names {
                    let moved = self.blobs.remove(&name).unwrap();
                    self.blobs.insert(format!("{to}/{}", &name[below.len()..]), moved);
                }
            }
            Step::Note { name, note } => self.blobs.get_mut(name).unwrap().note.clone_from(note),
            Step::Blocks { name, seed, sizes } => {
                let bytes = sizes.iter().flat_map(|size| pattern(*seed, *size)).collect();
                self.blobs.insert(name.clone(), blob(bytes));
            }
            Step::Copy { from, to } => {
                let copied = self.blobs[from].clone();
                self.blobs.insert(to.clone(), copied);
            }
            Step::TakeOver { name, seed } => {
                let blob = self.blobs.get_mut(name).unwrap();
                if let Some(first) = blob.bytes.first_mut() {
                    *first = *seed;
                    blob.note.clear();
                }
            }
            Step::NewAppend { name } => {
                self.blobs.insert(name.clone(), blob(Vec::new()));
            }
            Step::Append { name, seed, size } => {
                self.blobs.get_mut(name).unwrap().bytes.extend(pattern(*seed, *size));
            }
            Step::NewPages { name } => {
                self.blobs.insert(name.clone(), blob(vec![0; PAGE_BLOB]));
            }
            Step::Pages { name, seed, range, clear } => {
                let bytes = if *clear { vec![0; range.len()] } else { pattern(*seed, range.len()) };
                self.blobs.get_mut(name).unwrap().bytes[range.clone()].copy_from_slice(&bytes);
            }
            Step::Tidy { .. } | Step::Snapshot { .. } | Step::DropSnapshots { .. } | Step::Unseen(_) => {}
        }
    }

    pub(crate) fn contents(&self) -> BTreeMap<String, Blob> {
        self.blobs.clone()
    }

    pub(crate) fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let read = |line: &str| {
            let [name, note, bytes] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let byte = |at: usize| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap();
            let bytes = (0..bytes.len()).step_by(2).map(byte).collect();
            (name.to_owned(), Blob { bytes, note: note.to_owned() })
        };
        Self { blobs: text.lines().map(read).collect() }
    }

    pub(crate) fn save(&self, path: &Path) {
        let line = |(name, blob): (&String, &Blob)| {
            let bytes: String = blob.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{name}\t{}\t{bytes}\n", blob.note)
        };
        fs::write(path, self.blobs.iter().map(line).collect::<String>()).unwrap();
    }
}

fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

const ALWAYS: Preconditions = Preconditions {
    if_match: None,
    if_none_match: None,
    if_modified_since: None,
    if_unmodified_since: None,
    lease: None,
    if_tags: None,
};

/// Does the steps on a store.
pub(crate) struct Worker {
    store: Arc<EmbeddedStore>,
}

impl Worker {
    pub(crate) async fn new(store: Arc<EmbeddedStore>) -> Self {
        // There already in every round but the first.
        let _ = store.create_container(&share(), Metadata::new(), PublicAccess::None).await;
        Self { store }
    }

    pub(crate) async fn apply(&mut self, step: &Step, before: &Model) {
        let store = &self.store;
        let new = NewContent::default;
        match step {
            Step::Put { name, seed, size } => {
                store.put_blob(&at(name), pattern(*seed, *size).into(), new(), &ALWAYS).await.unwrap();
            }
            Step::Publish { name, seed, size } => {
                let scratch = store.scratch().unwrap();
                let bytes = pattern(*seed, *size);
                scratch.file().write_all_at(&bytes, 0).unwrap();
                store.publish(&at(name), &scratch, *size as u64, new(), &ALWAYS).unwrap();
                store.publish(&at(name), &scratch, *size as u64, new(), &ALWAYS).unwrap();
            }
            Step::Patch { name, seed, range, size } => self.patch(name, *seed, range.clone(), *size),
            Step::Delete { name } => {
                store.delete_blob(&at(name), DeleteSnapshots::Include, &ALWAYS).await.unwrap();
            }
            Step::Rename { from, to } | Step::RenameFolder { from, to } => {
                store.rename(&at(from), &at(to), RenameMode::Replace).unwrap();
            }
            Step::Note { name, note } => {
                store.set_metadata(&at(name), [("note".to_owned(), note.clone())].into(), &ALWAYS).unwrap();
            }
            Step::Tidy { name } => store.tidy(&at(name)).unwrap(),
            Step::Snapshot { name } => {
                store.snapshot_blob(&at(name), None, &ALWAYS).await.unwrap();
            }
            Step::DropSnapshots { name } => {
                for (snapshot, _) in store.list_snapshots(&at(name)).await.unwrap() {
                    store.delete_snapshot(&at(name), snapshot, &ALWAYS).await.unwrap();
                }
            }
            Step::Blocks { name, seed, sizes } => self.blocks(name, *seed, sizes).await,
            Step::Copy { from, to } => self.copy(from, to).await,
            Step::TakeOver { name, seed } => self.take_over(name, *seed, before),
            Step::Unseen(which) => self.unseen(*which, before).await,
            Step::NewAppend { name } => {
                store.create_append_blob(&at(name), new(), &ALWAYS).await.unwrap();
            }
            Step::Append { name, seed, size } => {
                let body = pattern(*seed, *size).into();
                store.append_block(&at(name), body, AppendConditions::default(), &ALWAYS).await.unwrap();
            }
            Step::NewPages { name } => {
                store.create_page_blob(&at(name), PAGE_BLOB as u64, 0, new(), &ALWAYS).await.unwrap();
            }
            Step::Pages { name, seed, range, clear } => {
                let any = SequenceConditions::default();
                let (start, end) = (range.start as u64, range.end as u64);
                if *clear {
                    store.clear_pages(&at(name), start..end, any, &ALWAYS).await.unwrap();
                } else {
                    let body = pattern(*seed, range.len()).into();
                    store.put_pages(&at(name), start, body, any, &ALWAYS).await.unwrap();
                }
            }
        }
    }

    /// Settings that the model does not see, and an append blob that comes and goes.
    async fn settings(&self, first: Option<&String>) {
        let store = &self.store;
        let name = ContainerName::new("logs").unwrap();
        let _ = store.create_container(&name, Metadata::new(), PublicAccess::None).await;
        let log = BlobPath::new(name, BlobName::new("log").unwrap());
        let any = AppendConditions::default();
        store.create_append_blob(&log, NewContent::default(), &ALWAYS).await.unwrap();
        store.append_block(&log, vec![1; 3000].into(), any, &ALWAYS).await.unwrap();
        store.seal_blob(&log, any, &ALWAYS).await.unwrap();
        store.set_container_acl(&share(), ContainerAcl::default(), &ALWAYS).await.unwrap();
        store.set_service_properties("<settings/>".into()).await.unwrap();
        if let Some(name) = first.filter(|name| name.starts_with("top/")) {
            let tags = Tags::new([("k".to_owned(), "v".to_owned())].into()).unwrap();
            store.set_blob_tags(&at(name), tags, &ALWAYS).await.unwrap();
            store.set_blob_tier(&at(name), None, AccessTier::Cool, &ALWAYS).await.unwrap();
        }
    }

    fn patch(&self, name: &str, seed: u8, range: Range<usize>, size: usize) {
        let base = self.store.reader(&at(name)).unwrap();
        let scratch = self.store.scratch().unwrap();
        scratch.file().write_all_at(&pattern(seed, range.len()), range.start as u64).unwrap();
        let ranges: Vec<_> = std::iter::once(range.start as u64..range.end as u64)
            .filter(|r| !r.is_empty())
            .map(Change::in_place)
            .collect();
        let new = NewContent::default();
        self.store.patch(&at(name), &base, &scratch, &ranges, size as u64, new, &ALWAYS).unwrap();
    }

    async fn blocks(&self, name: &str, seed: u8, sizes: &[usize]) {
        let mut list = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let id = BlockId(vec![index as u8]);
            self.store.put_block(&at(name), &id, pattern(seed, *size).into(), None).await.unwrap();
            list.push(BlockListEntry { kind: BlockKind::Latest, id });
        }
        self.store.put_block_list(&at(name), &list, NewContent::default(), &ALWAYS).await.unwrap();
    }

    /// A copy while the source is still held by its writer has to be a physical one.
    async fn copy(&self, from: &str, to: &str) {
        let reader = self.store.reader(&at(from)).unwrap();
        let held = reader.as_file().map(|_| self.store.take_over(Some(&at(from)), &reader));
        if let Some(Ok(scratch)) = &held {
            let metadata = reader.properties().metadata.clone();
            let new = NewContent { metadata, ..NewContent::default() };
            self.store.publish(&at(from), scratch, reader.size(), new, &ALWAYS).unwrap();
        }
        let source = CopySource::of(&at(from));
        self.store.copy_blob(&source, &at(to), CopyRequest::default(), &ALWAYS).await.unwrap();
    }

    fn take_over(&self, name: &str, seed: u8, before: &Model) {
        let size = before.blobs[name].bytes.len();
        if size == 0 {
            return;
        }
        let reader = self.store.reader(&at(name)).unwrap();
        let taken = reader.as_file().map(|_| self.store.take_over(Some(&at(name)), &reader));
        match taken {
            Some(Ok(scratch)) => {
                scratch.file().write_all_at(&[seed], 0).unwrap();
                self.store.publish(&at(name), &scratch, size as u64, NewContent::default(), &ALWAYS).unwrap();
            }
            // Not one file, or shared with a snapshot.
            _ => self.patch(name, seed, 0..1, size),
        }
    }

    /// Snapshots of the whole container, each knowing what it must hold; only some are kept.
    async fn share_snapshot(&self, before: &Model) {
        let store = &self.store;
        // One file is being written in place meanwhile, so it has to be copied.
        let held = before.blobs.keys().find(|name| name.starts_with("top/")).and_then(|name| {
            let reader = store.reader(&at(name)).unwrap();
            let scratch = reader.as_file().map(|_| store.take_over(Some(&at(name)), &reader))?.ok()?;
            let metadata = reader.properties().metadata.clone();
            let new = NewContent { metadata, ..NewContent::default() };
            store.publish(&at(name), &scratch, reader.size(), new, &ALWAYS).unwrap();
            Some(scratch)
        });
        let digest = digest(&before.blobs);
        store.snapshot_container(&share(), Some([("digest".to_owned(), digest)].into())).await.unwrap();
        drop(held);
        let taken = store.container_snapshots(&share()).unwrap();
        for (snapshot, _) in taken.iter().rev().skip(2) {
            store.delete_container_snapshot(&share(), *snapshot).await.unwrap();
        }
    }

    /// A snapshot that needs more than one batch.
    async fn big_share_snapshot(&self) {
        let store = &self.store;
        let name = ContainerName::new("big").unwrap();
        if store.create_container(&name, Metadata::new(), PublicAccess::None).await.is_ok() {
            for index in 0..12 {
                let path = BlobPath::new(name.clone(), BlobName::new(format!("a/b{index}")).unwrap());
                let metadata = [("big".to_owned(), "x".repeat(100_000))].into();
                let new = NewContent { metadata, ..NewContent::default() };
                store.put_blob(&path, vec![1; 10 * index].into(), new, &ALWAYS).await.unwrap();
            }
        }
        let (snapshot, _) = store.snapshot_container(&name, None).await.unwrap();
        store.delete_container_snapshot(&name, snapshot).await.unwrap();
    }

    async fn unseen(&self, which: u8, before: &Model) {
        let store = &self.store;
        let first = before.blobs.keys().next();
        match (which, first) {
            (0, _) => {
                let name = ContainerName::new("short-lived").unwrap();
                let _ = store.create_container(&name, Metadata::new(), PublicAccess::None).await;
                for index in 0..5u8 {
                    let at = BlobPath::new(name.clone(), BlobName::new(format!("a/b{index}")).unwrap());
                    let bytes = pattern(index, 2000 * usize::from(index % 2) + 5);
                    store.put_blob(&at, bytes.into(), NewContent::default(), &ALWAYS).await.unwrap();
                    let staged = BlobPath::new(name.clone(), BlobName::new("staged").unwrap());
                    store
                        .put_block(&staged, &BlockId(vec![index]), vec![1; 1500].into(), None)
                        .await
                        .unwrap();
                }
                store.delete_container(&name, &ALWAYS).await.unwrap();
            }
            (1, Some(name)) => {
                let headers = HttpHeaders { content_type: Some("x".into()), ..HttpHeaders::default() };
                let change =
                    PropertiesChange { headers: Some((headers, None)), ..PropertiesChange::default() };
                store.set_blob_properties(&at(name), change, &ALWAYS).await.unwrap();
            }
            (2, Some(name)) => {
                let acquire =
                    LeaseRequest::Acquire { proposed: LeaseId(7), duration: LeaseDuration::INFINITE };
                store.lease_blob(&at(name), acquire, &ALWAYS).await.unwrap();
                store.lease_blob(&at(name), LeaseRequest::Release { id: LeaseId(7) }, &ALWAYS).await.unwrap();
            }
            (3, _) => {
                store.set_container_metadata(&share(), Metadata::new(), &ALWAYS).await.unwrap();
                let acquire =
                    LeaseRequest::Acquire { proposed: LeaseId(7), duration: LeaseDuration::INFINITE };
                store.lease_container(&share(), acquire, &ALWAYS).await.unwrap();
                store
                    .lease_container(&share(), LeaseRequest::Release { id: LeaseId(7) }, &ALWAYS)
                    .await
                    .unwrap();
            }
            (4, _) => self.settings(before.blobs.keys().next_back()).await,
            (5, _) => self.share_snapshot(before).await,
            (6, _) => self.big_share_snapshot().await,
            (_, _) => LocalStore::sync(&**store).await.unwrap(),
        }
    }
}

/// Names what is in a container in a few letters.
fn digest(blobs: &BTreeMap<String, Blob>) -> String {
    let mut hasher = DefaultHasher::new();
    for (name, blob) in blobs {
        (name, &blob.bytes, &blob.note).hash(&mut hasher);
    }
    format!("{:x}", hasher.finish())
}

/// Every snapshot of the container holds what its metadata says it was taken of.
pub(crate) fn assert_snapshots(store: &EmbeddedStore, context: &str) {
    for (snapshot, properties) in store.container_snapshots(&share()).unwrap_or_default() {
        let found = digest(&read_container(store, &share().at_snapshot(snapshot)));
        assert_eq!(Some(&*found), properties.metadata.get("digest"), "{context}: the snapshot {snapshot:?}");
    }
}

/// Everything that is in the container.
pub(crate) fn read_back(store: &EmbeddedStore) -> BTreeMap<String, Blob> {
    read_container(store, &share())
}

fn read_container(store: &EmbeddedStore, container: &ContainerName) -> BTreeMap<String, Blob> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let query = ListQuery {
        prefix: String::new(),
        delimiter: None,
        marker: None,
        max: usize::MAX,
        ..ListQuery::default()
    };
    let Ok(page) = runtime.block_on(store.list_blobs(container, &query)) else { return BTreeMap::new() };
    let read = |item| {
        let ListItem::Blob { name, properties } = item else { panic!("a flat listing has no prefixes") };
        let path = BlobPath::new(container.clone(), BlobName::new(name.clone()).unwrap());
        let reader = store.reader(&path).unwrap();
        let mut bytes = vec![0; reader.size() as usize];
        reader.read_at(&mut bytes, 0).unwrap();
        let note = properties.metadata.get("note").unwrap_or_default().to_owned();
        (name, Blob { bytes, note })
    };
    page.items.into_iter().map(read).collect()
}

/// Names at which two states differ, with sizes.
pub(crate) fn differences(found: &BTreeMap<String, Blob>, expected: &BTreeMap<String, Blob>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let about = |blob: Option<&Blob>| blob.map(|blob| (blob.bytes.len(), blob.note.clone()));
    names
        .into_iter()
        .filter(|name| found.get(*name) != expected.get(*name))
        .map(|name| {
            format!("{name}: found {:?}, expected {:?}", about(found.get(name)), about(expected.get(name)))
        })
        .collect()
}
