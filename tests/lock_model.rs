//! The engine's share modes, range locks and delete-pending files against a naive model: seeded random sequences of
//! open, claim, lock, remove, rename and close, compared after every step. A failing seed is a bug report: run it again
//! with `LEASEFS_SEED=n cargo test --test lock_model`.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[path = "lock_model/model.rs"]
mod model;

use std::sync::Arc;

use leasefs::fs::attributes::DefaultOwner;
use leasefs::fs::names::Segment;
use leasefs::fs::nodes::{Ino, ROOT};
use leasefs::fs::policy::SharePolicies;
use leasefs::fs::strategy::Fencing;
use leasefs::fs::{
    Caller, Claim, DeleteRule, Engine, EngineConfig, FrontEnd, FsError, HandleId, OpenRequest, RangeAsker,
    RangeChange, RenameRule,
};
use leasefs::share::{Access, RangeKind, ShareMode, Span};
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};
use leasefs::store::{BlobStore, ContainerName};

use model::{BYTES, Model, No};

const SEQUENCES: u64 = 10_000;
const STEPS: usize = 16;
const NAMES: [&str; 3] = ["a", "b", "c"];
const CALLER: Caller = Caller { front_end: FrontEnd::Mount, uid: 0, gid: 0, pid: 0 };

/// A small seeded generator; the sequence belongs to the seed for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

struct World {
    engine: Arc<Engine>,
    model: Model,
    dice: Dice,
    /// Handle and number of each open of the model, in its order.
    opens: Vec<(HandleId, Ino)>,
    said: String,
}

fn no(error: &FsError) -> No {
    match error {
        FsError::NotFound => No::NotFound,
        FsError::Exists => No::Exists,
        FsError::SharingViolation => No::Shared,
        FsError::DeletePending => No::Pending,
        FsError::RangeLocked => No::Locked,
        FsError::NotPermitted(_) => No::CannotDelete,
        FsError::Invalid(_) => No::Nameless,
        other => panic!("unexpected error {other:?}"),
    }
}

fn segment(name: &str) -> Segment {
    Segment::from_file_name(name.as_bytes()).unwrap()
}

fn request(access: u8) -> OpenRequest {
    OpenRequest { read: access & 1 != 0, write: access & 2 != 0, ..OpenRequest::default() }
}

impl World {
    fn agree<T>(&self, real: &Result<T, FsError>, expected: Result<(), No>) {
        let real = real.as_ref().map(drop).map_err(no);
        assert_eq!(real, expected, "{}", self.said);
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.dice.roll(NAMES.len())]
    }

    async fn step(&mut self) {
        match self.dice.roll(100) {
            0..10 => self.create().await,
            10..30 => self.open().await,
            30..48 => self.claim().await,
            48..62 => self.lock().await,
            62..70 => self.remove().await,
            70..76 => self.rename().await,
            76..84 => self.mark().await,
            _ => self.close().await,
        }
        self.compare().await;
    }

    async fn create(&mut self) {
        let name = self.name();
        self.said = format!("create {name}");
        let exclusive = OpenRequest { read: true, write: true, exclusive: true, ..OpenRequest::default() };
        let done = self.engine.create(ROOT, &segment(name), 0o644, exclusive, CALLER).await;
        let expected = self.model.create(name);
        self.agree(&done, expected);
        if let Ok((stat, opened)) = done {
            self.opens.push((opened.handle, stat.ino));
        }
    }

    async fn open(&mut self) {
        let (name, access) = (self.name(), u8::try_from(self.dice.roll(4)).unwrap());
        self.said = format!("open {name} {access}");
        let done = match self.engine.lookup(ROOT, &segment(name)).await {
            Ok(stat) => {
                let opened = self.engine.open(stat.ino, request(access), CALLER).await;
                self.engine.forget(stat.ino, 1);
                opened.map(|opened| (opened.handle, stat.ino))
            }
            Err(error) => Err(error),
        };
        let expected = self.model.open(name, access);
        self.agree(&done, expected);
        self.opens.extend(done.ok());
    }

    fn some_open(&mut self) -> Option<usize> {
        (!self.opens.is_empty()).then(|| self.dice.roll(self.opens.len()))
    }

    async fn claim(&mut self) {
        let Some(n) = self.some_open() else { return };
        let (delete, share) = (self.dice.roll(2) == 1, u8::try_from(self.dice.roll(8)).unwrap());
        let access = self.model.data_access(n) | if delete { 4 } else { 0 };
        self.said = format!("claim {n} {access} {share}");
        let claim = Claim { access: Access::from_bits(access), share: ShareMode::from_bits(share) };
        let done = self.engine.set_share(self.opens[n].0, claim).await;
        let expected = self.model.claim(n, access, share);
        self.agree(&done, expected);
    }

    async fn lock(&mut self) {
        let Some(n) = self.some_open() else { return };
        let key = 1 + self.dice.roll(3) as u64;
        let start = self.dice.roll(BYTES);
        let length = 1 + self.dice.roll(BYTES - start);
        let kind = [None, Some(RangeKind::Shared), Some(RangeKind::Exclusive)][self.dice.roll(3)];
        self.said = format!("lock {n} by {key} {start}+{length} {kind:?}");
        let asker = RangeAsker { key, process: u32::try_from(key).unwrap(), thread: 0 };
        let span = Span::of_length(start as u64, length as u64).unwrap();
        let change = kind.map_or(RangeChange::Clear, RangeChange::Set);
        let done = self.engine.change_range(self.opens[n].0, asker, change, span, false).await;
        let exclusive = kind.map(|kind| kind == RangeKind::Exclusive);
        let expected = self.model.lock(n, key, start..start + length, exclusive);
        self.agree(&done, expected);
    }

    async fn remove(&mut self) {
        let name = self.name();
        self.said = format!("remove {name}");
        let done = self.engine.unlink(ROOT, &segment(name)).await;
        let expected = self.model.remove(name);
        self.agree(&done, expected);
    }

    async fn rename(&mut self) {
        let (from, to) = (self.name(), self.name());
        self.said = format!("rename {from} {to}");
        let (source, target) = (segment(from), segment(to));
        let done = self.engine.rename((ROOT, &source), (ROOT, &target), RenameRule::Replace).await;
        let expected = self.model.rename(from, to);
        self.agree(&done, expected);
    }

    async fn mark(&mut self) {
        let Some(n) = self.some_open() else { return };
        let pending = self.dice.roll(2) == 1;
        self.said = format!("mark {n} {pending}");
        let done = self.engine.set_delete(self.opens[n].0, pending).await;
        let expected = self.model.mark(n, pending);
        self.agree(&done, expected);
    }

    async fn close(&mut self) {
        let Some(n) = self.some_open() else { return };
        // A process that has no range lock of its own.
        self.said = format!("close {n}");
        let (handle, _) = self.opens.remove(n);
        self.engine.flush(handle, 99).await.unwrap();
        self.engine.release(handle).await.unwrap();
        self.model.close(n);
    }

    async fn compare(&self) {
        for name in NAMES {
            let found = self.engine.lookup(ROOT, &segment(name)).await;
            if let Ok(stat) = &found {
                self.engine.forget(stat.ino, 1);
            }
            self.agree(&found, self.model.look_up(name));
        }
        for (n, (handle, ino)) in self.opens.iter().enumerate() {
            let state = self.engine.handle_state(*handle).unwrap();
            let expected = self.model.state(n);
            let real = (state.access.bits(), state.share.bits(), state.delete_pending, state.opens);
            assert_eq!(real, expected, "open {n} after {}", self.said);
            assert_eq!(self.engine.holders(*ino).len(), state.opens);
            let locks = self.engine.ranges_of(*ino);
            let has = |key: u64, byte: usize| {
                let over = |lock: &&leasefs::share::RangeLock| {
                    lock.owner.key == key && (lock.span.start()..=lock.span.last()).contains(&(byte as u64))
                };
                locks.iter().find(over).map(|lock| lock.kind == RangeKind::Exclusive)
            };
            for key in 1..=3 {
                for byte in 0..BYTES {
                    assert_eq!(
                        has(key, byte),
                        self.model.held(n, key, byte),
                        "{key} {byte} after {}",
                        self.said
                    );
                }
            }
            let exclusive = locks.iter().any(|lock| lock.kind == RangeKind::Exclusive);
            // What has lost its name has no blob to keep others from.
            if self.model.has_name(n) {
                assert_eq!(state.lease, self.model.leased(n) || exclusive, "the lease after {}", self.said);
            }
        }
    }
}

async fn engine(folder: &std::path::Path) -> Arc<Engine> {
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).expect("store opens");
    let config = EngineConfig {
        delete: DeleteRule::Smb,
        passthrough: false,
        owner: DefaultOwner { uid: 0, gid: 0 },
        policies: SharePolicies::default(),
        mandatory_locks: false,
        fencing: Fencing::default(),
    };
    let share = ContainerName::new("share").unwrap();
    Engine::start(store as Arc<dyn BlobStore>, share, config).await.expect("engine starts")
}

/// Time is paused, so that waiting for somebody who does not come costs nothing.
#[tokio::test(start_paused = true)]
async fn random_sequences_agree_with_the_naive_model() {
    let seeds = match std::env::var("LEASEFS_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().expect("LEASEFS_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 1..SEQUENCES + 1,
    };
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for seed in seeds {
        println!("seed {seed}");
        let mut world = World {
            engine: Arc::clone(&engine),
            model: Model::default(),
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            opens: Vec::new(),
            said: String::new(),
        };
        for _ in 0..STEPS {
            world.step().await;
        }
        while !world.opens.is_empty() {
            world.close().await;
        }
        for name in NAMES {
            drop(engine.unlink(ROOT, &segment(name)).await);
        }
        assert!(engine.open_list().is_empty() && engine.range_list().is_empty(), "seed {seed}");
    }
}
