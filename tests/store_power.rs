//! A power loss at the worst moment: the store opens again, and every change is there whole or not at all, also those
//! that nobody had asked to sync.

#![allow(unreachable_pub, reason = "helper modules of one test")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/disk.rs"]
mod disk;
#[path = "store_power/slow_syncs.rs"]
mod slow_syncs;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use disk::Disk;
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{
    BlobName, BlobPath, BlobStore, ContainerName, LocalStore, Metadata, NewContent, Preconditions,
    PublicAccess,
};
use tokio::runtime::Runtime;

/// Bytes that each key space collects before they are written out.
const MEMTABLE: usize = 256 << 10;

const PAGE: usize = 4096;

fn open(folder: &Path) -> Arc<EmbeddedStore> {
    let options = EmbeddedOptions {
        memtable_bytes: MEMTABLE as u64,
        checkpoint_every: Duration::from_secs(3600),
        ..EmbeddedOptions::default()
    };
    EmbeddedStore::open(folder, options).unwrap()
}

fn container() -> ContainerName {
    ContainerName::new("share").unwrap()
}

/// Puts blobs that need no file and that nobody syncs.
struct Load {
    store: Arc<EmbeddedStore>,
    runtime: Runtime,
    /// Bytes of content and of metadata of each.
    sizes: (usize, usize),
    blobs: u64,
}

impl Load {
    fn new(store: Arc<EmbeddedStore>, sizes: (usize, usize)) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.create_container(&container(), Metadata::new(), PublicAccess::None)).unwrap();
        Self { store, runtime, sizes, blobs: 0 }
    }

    fn put(&mut self) {
        let (content, metadata) = self.sizes;
        let path = BlobPath::new(container(), BlobName::new(format!("blob{}", self.blobs)).unwrap());
        let metadata = [("text".to_owned(), "x".repeat(metadata))].into();
        let new = NewContent { metadata, ..NewContent::default() };
        let always = Preconditions::default();
        let put = self.store.put_blob(&path, vec![b'c'; content].into(), new, &always);
        self.runtime.block_on(put).unwrap();
        self.blobs += 1;
    }

    /// Puts more than one key space collects.
    fn fill(&mut self) {
        for _ in 0..MEMTABLE * 5 / 4 / self.sizes.0.max(self.sizes.1) {
            self.put();
        }
    }

    fn sync(&self) {
        self.runtime.block_on(LocalStore::sync(&*self.store)).unwrap();
    }
}

/// The store opens again without complaints; answers how many blobs it has.
fn blobs_after(folder: &Path, context: &str) -> u64 {
    let store = open(folder);
    let report = store.check().unwrap();
    let some: Vec<_> = report.problems.iter().take(5).collect();
    assert!(report.is_clean(), "{context}: {} problems: {some:#?}", report.problems.len());
    store.close().unwrap();
    report.blobs
}

/// One key space of several is written to a table, with changes that came after the last sync of the journal:
///
/// ```text
/// worker 1   writes table 1: held up .....................|  seals 3, syncs the journal: held up ............| power
/// worker 2              seals 2, syncs the journal, waits for worker 1 ... |  writes a table of 2 and 3 -----| is
/// changes    fill 1     fill 2                fill 3: nobody syncs them                                      | lost
/// ```
fn lose_power_after_one_key_space(number: u32, sizes: (usize, usize), context: &str) -> Option<()> {
    let disk = Disk::new()?;
    let folder = disk.root().join("store");
    let space = folder.join(format!("kv/keyspaces/{number}"));
    let mut load = Load::new(open(&folder), sizes);
    slow_syncs::hold_tables(&space);
    load.fill();
    assert!(slow_syncs::wait_for_table(), "{context}: nothing was written out");
    let before = slow_syncs::journal_syncs();
    load.fill();
    assert!(slow_syncs::wait_for_journal(before), "{context}: nobody synced the journal");
    // Until the worker has got from there to waiting for the other.
    std::thread::sleep(Duration::from_millis(50));
    slow_syncs::hold_journal();
    load.fill();
    // The list of tables is synced twice for each.
    assert!(slow_syncs::let_go_of_tables(&space, 4), "{context}: the second table was not written out");
    disk.lose_power();
    slow_syncs::let_go();
    let blobs = load.blobs;
    drop(load);
    disk.power_up();
    let left = blobs_after(&folder, context);
    assert!((1..blobs).contains(&left), "{context}: {left} of {blobs} blobs are left");
    Some(())
}

#[test]
fn a_change_is_whole_although_one_key_space_was_written_out_before_the_others() {
    let _turn = slow_syncs::turn();
    for round in 0..3 {
        for (space, number, sizes) in [("names", 1, (10, 4000)), ("inline", 2, (4000, 10))] {
            let context = format!("round {round}, {space}");
            if lose_power_after_one_key_space(number, sizes, &context).is_none() {
                return;
            }
        }
    }
}

/// Writes pages of a file to the disk, without waiting for anything that is known of it.
fn write_back(file: &File, pages: impl Iterator<Item = usize>) {
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    for page in pages {
        // SAFETY: the call takes a descriptor that is open, and numbers.
        let done = unsafe { libc::sync_file_range(file.as_raw_fd(), (page * PAGE) as i64, PAGE as i64, all) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Where the newest journal ends, and it.
fn journal(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join("kv/0.jnl");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    (path, bytes)
}

/// The system writes the pages of the journal that nobody has synced in an order of its own: all but one are on the disk
/// when the power is lost.
#[test]
fn a_journal_of_which_a_page_is_missing_counts_up_to_there() {
    let _turn = slow_syncs::turn();
    for round in 0..4 {
        let Some(disk) = Disk::new() else { return };
        let folder = disk.root().join("store");
        let mut load = Load::new(open(&folder), (14_000, 10));
        (0..5).for_each(|_| load.put());
        load.sync();
        let (synced, (path, bytes)) = (load.blobs, journal(&folder));
        let first = bytes.len().div_ceil(PAGE);
        (0..5).for_each(|_| load.put());
        let (_, bytes) = journal(&folder);
        // Inside a value.
        let inside = |page: &usize| bytes[page * PAGE..].iter().take(PAGE).all(|byte| *byte == b'c');
        let missing = (first..bytes.len() / PAGE).filter(inside).nth(round * 3).unwrap();
        write_back(
            &File::open(path).unwrap(),
            (first - 1..=bytes.len() / PAGE).filter(|page| *page != missing),
        );
        let mut other = File::create(disk.root().join("other")).unwrap();
        other.write_all(b"x").and_then(|()| other.sync_all()).unwrap();
        disk.lose_power();
        let blobs = load.blobs;
        drop(load);
        drop(other);
        disk.power_up();
        let (_, left) = journal(&folder);
        assert!(
            left.len() > (missing + 1) * PAGE,
            "round {round}: nothing behind the missing page was written"
        );
        assert_eq!(left[missing * PAGE..][..PAGE], [0; PAGE], "round {round}: the page is not missing");
        let left = blobs_after(&folder, &format!("round {round}"));
        assert!((synced..blobs).contains(&left), "round {round}: {left} blobs, {synced} synced, {blobs} put");
    }
}
