//! Calls by path beside programs on a real mount of the same engine, in one process: what a call changed is what a
//! program reads once the call has answered, whoever moves the bytes; and the other way round.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::requests::{
    FileChange, FilePath, LastWrite, LeaseAction, NewFile, RenameRequest, Requests, SmbAttributes, SmbChange,
};
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{DeleteRule, Engine, EngineConfig, FsError};
use leasefs::fuse::{self, MountConfig, Mounted};
use leasefs::share::lease::LeaseId;
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{ContainerName, Metadata};

/// An engine, mounted, and calls on it.
struct Both {
    rest: Requests,
    mounted: Option<Mounted>,
    folder: tempfile::TempDir,
}

impl Both {
    /// Nothing if this machine cannot mount.
    async fn start(passthrough: bool) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
        let config = EngineConfig {
            delete: DeleteRule::Smb,
            passthrough,
            owner: DefaultOwner { uid: 0, gid: 0 },
            policies: SharePolicies::default(),
            fencing: Fencing::default(),
            mandatory_locks: false,
        };
        let engine = Engine::start(store, ContainerName::new("share").unwrap(), config).await.unwrap();
        let mountpoint = folder.path().join("mount");
        fs::create_dir(&mountpoint).unwrap();
        let config = MountConfig {
            mountpoint,
            source: "test".into(),
            allow_other: false,
            read_only: false,
            passthrough,
            threads: 2,
            extra: Vec::new(),
        };
        let mounted = fuse::mount(&engine, &tokio::runtime::Handle::current(), &config).unwrap();
        Some(Self { rest: Requests::new(engine), mounted: Some(mounted), folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }

    /// What a program does, on a thread that may wait for the mount.
    async fn program<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(PathBuf) -> T + Send + 'static,
    ) -> T {
        let path = self.path(name);
        tokio::task::spawn_blocking(move || work(path)).await.unwrap()
    }

    async fn put(&self, name: &str, body: &[u8]) {
        let body = Bytes::copy_from_slice(body);
        let new = NewFile { size: body.len() as u64, body, ..NewFile::default() };
        self.rest.create_file(&path(name), new, None).await.unwrap();
    }

    async fn write(&self, name: &str, offset: u64, data: &[u8]) {
        let data = Bytes::copy_from_slice(data);
        self.rest.put_range(&path(name), offset, data, LastWrite::Now, None).await.unwrap();
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            let _ = mounted.detach();
        }
    }
}

fn path(text: &str) -> FilePath {
    FilePath::parse(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_call_changed_is_seen_by_programs_when_it_has_answered() {
    for passthrough in [true, false] {
        let Some(both) = Both::start(passthrough).await else { return };
        // Sizes that are in the index, in one file, and changed in places.
        for size in [100_usize, 100_000, 3_000_000] {
            let name = format!("f{size}");
            assert!(both.program(&name, fs::metadata).await.is_err(), "known not to be there");
            both.put(&name, &vec![b'a'; size]).await;
            assert_eq!(both.program(&name, |path| fs::read(path).unwrap()).await, vec![b'a'; size]);
            let open = both.program(&name, |path| Arc::new(File::open(path).unwrap())).await;
            let mut seen = vec![0; size];
            open.read_exact_at(&mut seen, 0).unwrap();
            both.write(&name, 50, b"call").await;
            let reading = Arc::clone(&open);
            let seen = tokio::task::spawn_blocking(move || {
                let mut seen = [0; 4];
                reading.read_exact_at(&mut seen, 50).unwrap();
                seen
            });
            assert_eq!(&seen.await.unwrap(), b"call", "{passthrough} {size}, open");
            let longer = FileChange { size: Some(size as u64 + 10), ..FileChange::default() };
            both.rest.set_file_properties(&path(&name), longer, None).await.unwrap();
            let reading = Arc::clone(&open);
            let length = tokio::task::spawn_blocking(move || reading.metadata().unwrap().len());
            assert_eq!(length.await.unwrap(), size as u64 + 10);
            both.program(&name, move |_| drop(open)).await;
            both.write(&name, 60, b"again").await;
            let seen = both.program(&name, |path| fs::read(path).unwrap()).await;
            assert_eq!((&seen[60..65], seen.len()), (&b"again"[..], size + 10), "{passthrough} {size}");
            let to = path(&format!("moved{size}"));
            both.rest.rename(&path(&name), &to, RenameRequest::default()).await.unwrap();
            assert!(both.program(&name, fs::metadata).await.is_err());
            let moved = both.program(&format!("moved{size}"), |path| fs::read(path).unwrap().len()).await;
            assert_eq!(moved, size + 10);
            both.rest.delete_file(&to, None).await.unwrap();
            assert!(both.program(&format!("moved{size}"), fs::metadata).await.is_err());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_reads_a_slot_that_was_replaced_before_its_read_began() {
    const SLOTS: u64 = 16;
    const SLOT: u64 = 1024;
    const ROUNDS: u64 = 400;
    for passthrough in [true, false] {
        let Some(both) = Both::start(passthrough).await else { return };
        for (name, size) in [("small", SLOTS * SLOT), ("big", 2 << 20)] {
            both.put(name, &vec![0; usize::try_from(size).unwrap()]).await;
            // The number that a slot holds at least, as soon as the call that put it there has answered.
            let answered: Arc<Vec<AtomicU64>> = Arc::new((0..SLOTS).map(|_| AtomicU64::new(0)).collect());
            let writers = Arc::new(AtomicUsize::new(2));
            let readers: Vec<_> = (0..2_u64)
                .map(|reader| {
                    let (file, answered) = (both.path(name), Arc::clone(&answered));
                    let writers = Arc::clone(&writers);
                    tokio::task::spawn_blocking(move || {
                        let mut open = File::open(&file).unwrap();
                        let mut reads = 0_u64;
                        while writers.load(Ordering::SeqCst) > 0 || reads < 10 {
                            reads += 1;
                            if reads.is_multiple_of(32) {
                                // Somebody who comes anew must not find old pages, either.
                                drop(std::mem::replace(&mut open, File::open(&file).unwrap()));
                            }
                            let slot = (reads * 7 + reader) % SLOTS;
                            let least = answered[usize::try_from(slot).unwrap()].load(Ordering::SeqCst);
                            let mut bytes = [0; 8];
                            open.read_exact_at(&mut bytes, slot * SLOT).unwrap();
                            let seen = u64::from_le_bytes(bytes);
                            assert!(seen >= least, "slot {slot} holds {seen}, but {least} was there before");
                        }
                    })
                })
                .collect();
            let mut calls = Vec::new();
            for writer in 0..2_u64 {
                let (rest, answered, writers) =
                    (both.rest.clone(), Arc::clone(&answered), Arc::clone(&writers));
                let file = path(name);
                calls.push(tokio::spawn(async move {
                    for round in 1..=ROUNDS {
                        // Each writer has slots of its own.
                        let slot = (round * 2 + writer) % SLOTS;
                        let data = Bytes::copy_from_slice(&round.to_le_bytes());
                        rest.put_range(&file, slot * SLOT, data, LastWrite::Now, None).await.unwrap();
                        answered[usize::try_from(slot).unwrap()].store(round, Ordering::SeqCst);
                    }
                    writers.fetch_sub(1, Ordering::SeqCst);
                }));
            }
            for call in calls {
                call.await.unwrap();
            }
            for reader in readers {
                reader.await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_see_what_programs_write_and_stand_behind_them() {
    for passthrough in [true, false] {
        let Some(both) = Both::start(passthrough).await else { return };
        let open = both
            .program("a", |path| {
                let mut open = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
                open.write_all(&[b'p'; 50_000]).unwrap();
                open
            })
            .await;
        let reading = both.rest.read(&path("a"), None).await.unwrap();
        let mut seen = vec![0; 50_000];
        assert_eq!(reading.read_at(&mut seen, 0).unwrap(), 50_000, "{passthrough}");
        assert_eq!(seen, vec![b'p'; 50_000]);
        let refused = both.rest.delete_file(&path("a"), None).await.unwrap_err();
        assert!(matches!(refused.error, FsError::SharingViolation));
        both.program("a", |path| fs::remove_file(path).unwrap()).await;
        let refused = both.rest.file_properties(&path("a"), None).await.unwrap_err();
        assert!(matches!(refused.error, FsError::DeletePending));
        both.program("a", move |_| drop(open)).await;
        let gone = both.rest.file_properties(&path("a"), None).await.unwrap_err();
        assert!(matches!(gone.error, FsError::NotFound | FsError::DeletePending), "{gone}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_and_leases_count_on_both_sides() {
    let Some(both) = Both::start(true).await else { return };
    both.put("a", b"hello").await;
    let read_only = |attributes| FileChange {
        smb: SmbChange { attributes: Some(attributes), ..SmbChange::default() },
        ..FileChange::default()
    };
    let set = SmbAttributes::READ_ONLY.union(SmbAttributes::HIDDEN);
    both.rest.set_file_properties(&path("a"), read_only(set), None).await.unwrap();
    let write = |path: PathBuf| OpenOptions::new().write(true).open(path).map(drop);
    let refused = both.program("a", write).await.unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EACCES), "root, too");
    assert_eq!(both.program("a", |path| fs::metadata(path).unwrap().mode() & 0o777).await, 0o444);
    let put = both.rest.put_range(&path("a"), 0, Bytes::from_static(b"J"), LastWrite::Now, None).await;
    assert!(matches!(put.unwrap_err().error, FsError::ReadOnly));
    both.program("a", |path| fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap()).await;
    let entry = both.rest.file_properties(&path("a"), None).await.unwrap();
    assert_eq!(entry.attributes, SmbAttributes::HIDDEN, "chmod took it away");
    both.program("a", write).await.unwrap();
    both.program("a", |path| fs::set_permissions(path, PermissionsExt::from_mode(0o440)).unwrap()).await;
    let entry = both.rest.file_properties(&path("a"), None).await.unwrap();
    assert!(entry.attributes.contains(SmbAttributes::READ_ONLY), "chmod brought it back");
    both.rest.set_file_properties(&path("a"), read_only(SmbAttributes::NONE), None).await.unwrap();
    both.rest.set_file_metadata(&path("a"), Metadata::new(), None).await.unwrap();
    both.rest.lease(&path("a"), LeaseAction::Acquire { proposed: LeaseId(5) }).await.unwrap();
    assert_eq!(both.program("a", write).await.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    let removed = both.program("a", fs::remove_file).await;
    assert_eq!(removed.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    both.program("a", |path| fs::read(path).unwrap()).await;
    both.rest.lease(&path("a"), LeaseAction::Release { id: LeaseId(5) }).await.unwrap();
    both.program("a", write).await.unwrap();
}
