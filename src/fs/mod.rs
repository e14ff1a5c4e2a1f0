//! The engine: files and directories on top of blobs.
//!
//! One [`Engine`] serves one share (one container of a [`BlobStore`]). Front ends call its methods, one per
//! operation, with numbers, names and handles; it asks the [`gate`] before anything is opened, removed or renamed,
//! and commits to the store at flush, fsync and close.
//!
//! * [`gate`]: who may open, remove and rename. Permits. [`holders`]: who holds what. `oversight`: seeing and acting.
//! * [`nodes`]: numbers and paths. [`guards`]: who changes which name at a time.
//! * [`strategy`], [`lease_keeper`], `leases`, `conflicts`: writers elsewhere, and what is kept of who loses.
//! * [`content`], [`memory`], [`file`](mod@file): the bytes of open files, and who moves them (`habits`: a guess).
//!   `farewells`: files that were just replaced.
//! * `remote`: blobs that are elsewhere, and the mirror of them that the engine works on then.
//! * `range_locks`: byte ranges, and waiting for them.
//! * [`requests`]: calls by path, for front ends without handles. [`shares`]: the engines of a process.
//! * [`policy`], `sticky`: share modes for programs that cannot ask for one.
//! * [`names`], [`attributes`]: how names and attributes look in the store.
//! * `open`, `close`, `data`, `commit`, `namespace`, `rename`, `directories`, `stat`, `xattr`: the operations.
//! * `upkeep`: what is done later, whoever uses the engine.
//!
//! The engine knows no kernel requests, no HTTP and no errno.

pub mod attributes;
mod changes;
mod claims;
mod close;
mod commit;
mod conflicts;
pub mod content;
mod data;
mod descriptors;
mod directories;
mod directory_times;
mod early;
mod error;
mod farewells;
pub mod file;
pub mod gate;
mod gathered;
pub mod guards;
mod habits;
mod handles;
pub mod holders;
pub mod lease_keeper;
mod leases;
pub mod memory;
pub mod names;
mod namespace;
mod node_table;
pub mod nodes;
mod open;
mod oversight;
mod pending;
mod place;
pub mod policy;
mod range_locks;
mod remote;
mod rename;
pub mod requests;
pub mod shares;
mod stat;
mod status;
mod sticky;
pub mod strategy;
#[cfg(test)]
mod testing;
mod upkeep;
mod watch;
mod xattr;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::share::Moment;
use crate::store::{
    BlobName, BlobPath, BlobStore, ContainerName, Lag, LocalStore, Metadata, PublicAccess, StoreError,
    Upstream,
};

use attributes::DefaultOwner;
use directory_times::DirectoryTimes;
use farewells::Farewells;
use file::OpenFile;
use gate::Gate;
use guards::Guards;
use habits::Habits;
use handles::{DirectoryHandles, FileHandles};
use lease_keeper::LeaseKeeper;
use leases::LeaseTask;
use memory::Budget;
use nodes::{Ino, Nodes};
use pending::PendingNames;
use policy::SharePolicies;
use range_locks::RangeWaits;
use remote::Remote;
use status::ContentForgetter;
use sticky::Stickies;
use strategy::Fencing;
use upkeep::UpkeepTask;

pub use attributes::{Attributes, Kind};
pub use claims::{HandleState, HiddenName};
pub use close::ReleaseReport;
pub use data::{Mover, Zeroing};
pub use directories::DirectoryEntry;
pub use error::{FsError, Result};
pub use file::Route;
pub use gate::{Claim, DeleteRule, OpenInfo, RangeRequest};
pub use handles::HandleId;
pub use holders::{FrontEnd, Holder, Process, utc};
pub use namespace::Caller;
pub use open::{OpenRequest, Opened};
pub use range_locks::{RangeAsker, RangeChange, WaitInfo};
pub use rename::RenameRule;
pub use stat::{AttributeChange, Stat};
pub use status::{HOLDERS_ATTRIBUTE, HolderLine, LeaseLine};
pub use watch::{Outdated, Watch};
pub use xattr::XattrMode;

/// How an engine behaves.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What removing the name of an open file means.
    pub delete: DeleteRule,
    /// Whether local files may be handed to the kernel, where that is possible.
    pub passthrough: bool,
    /// Who owns what carries no owner of its own.
    pub owner: DefaultOwner,
    /// The share modes of programs that cannot ask for one.
    pub policies: SharePolicies,
    /// How commits are protected from writers elsewhere.
    pub fencing: Fencing,
    /// Range locks bind the reads and writes of others, not only their range locks. The kernel moves no bytes then.
    pub mandatory_locks: bool,
}

/// One share, ready to be used by front ends.
pub struct Engine {
    store: Arc<dyn BlobStore>,
    /// The service that the store mirrors, if it does.
    remote: Option<Remote>,
    share: ContainerName,
    /// The store's number of the share's root.
    root: u64,
    /// How far the watcher of the store is behind, if there is one.
    lag: OnceLock<Arc<Lag>>,
    config: EngineConfig,
    gate: Arc<Gate>,
    guards: Guards,
    nodes: Nodes,
    /// Files that are open, by number.
    files: Mutex<HashMap<Ino, Arc<OpenFile>>>,
    /// Those of them that a rename has just replaced.
    farewells: Farewells,
    /// Rings when one of them is no longer.
    file_closed: Notify,
    /// Held by those who put content together after a close, which the end waits for.
    tidying: Arc<tokio::sync::RwLock<()>>,
    /// Places for files that wait for that, and whose turn it is.
    tidy_places: Arc<tokio::sync::Semaphore>,
    tidy_turn: Arc<tokio::sync::Mutex<()>>,
    /// Files whose content is going to be put together in a while.
    untidy: Mutex<HashSet<Ino>>,
    handles: FileHandles,
    directories: DirectoryHandles,
    pending: PendingNames,
    directory_times: DirectoryTimes,
    stickies: Stickies,
    leases: Arc<LeaseKeeper>,
    _lease_task: LeaseTask,
    _upkeep_task: UpkeepTask,
    /// How many times content was kept beside its file.
    conflicts: AtomicU64,
    range_waits: RangeWaits,
    /// How many files have their bytes in memory.
    memory: Budget,
    habits: Habits,
    started: Moment,
    passthrough: AtomicBool,
    /// Has the kernel forget the pages of a file.
    content_forgetter: OnceLock<ContentForgetter>,
    /// Has the kernel forget what calls by path made outdated.
    announcer: OnceLock<watch::Announcer>,
    /// The engine itself, for work that outlives a call.
    this: Weak<Engine>,
}

impl Engine {
    /// Starts serving `share`, which is made if it does not exist. Removes that were pending when the last engine
    /// died are finished first.
    pub async fn start(
        store: Arc<dyn BlobStore>,
        share: ContainerName,
        config: EngineConfig,
    ) -> Result<Arc<Self>> {
        Self::start_on(store, share, config, None).await
    }

    /// The same for a `store` that is a mirror of the service behind `upstream`. Front ends may rely on names and
    /// attributes for `attr_ttl`.
    pub async fn start_remote(
        store: Arc<dyn BlobStore>,
        share: ContainerName,
        mut config: EngineConfig,
        upstream: Arc<dyn Upstream>,
        attr_ttl: Duration,
    ) -> Result<Arc<Self>> {
        // Two mounts of one host must not give their conflict copies the same name.
        let mount = uuid::Uuid::new_v4().simple().to_string();
        config.fencing.host = format!("{}-{}", config.fencing.host, &mount[..6]);
        Self::start_on(store, share, config, Some((upstream, attr_ttl))).await
    }

    async fn start_on(
        store: Arc<dyn BlobStore>,
        share: ContainerName,
        config: EngineConfig,
        remote: Option<(Arc<dyn Upstream>, Duration)>,
    ) -> Result<Arc<Self>> {
        if store.local().is_none() {
            return Err(FsError::NotSupported("the store is not on this machine"));
        }
        let root = match store.create_container(&share, Metadata::new(), PublicAccess::None).await {
            Ok(made) => made.id,
            Err(StoreError::ContainerExists(_)) => store.container_properties(&share, None).await?.id,
            Err(error) => return Err(error.into()),
        };
        let leases = match &remote {
            Some((upstream, _)) => LeaseKeeper::of_service(upstream, config.fencing.lease),
            None => LeaseKeeper::new(Arc::clone(&store), config.fencing.lease),
        };
        let engine = Arc::new_cyclic(|this| Self {
            _lease_task: LeaseTask::start(Weak::clone(this), Arc::clone(&leases)),
            _upkeep_task: UpkeepTask::start(Weak::clone(this)),
            leases,
            conflicts: AtomicU64::new(0),
            remote: remote.map(|(upstream, ttl)| Remote::start(upstream, ttl, Weak::clone(this))),
            store,
            share,
            root,
            lag: OnceLock::new(),
            passthrough: AtomicBool::new(config.passthrough && !config.mandatory_locks),
            config,
            gate: Gate::new(),
            guards: Guards::default(),
            nodes: Nodes::default(),
            files: Mutex::default(),
            farewells: Farewells::default(),
            file_closed: Notify::new(),
            tidying: Arc::default(),
            tidy_places: Arc::new(tokio::sync::Semaphore::new(close::UNTIDY_MAX)),
            tidy_turn: Arc::default(),
            untidy: Mutex::default(),
            handles: FileHandles::default(),
            directories: DirectoryHandles::default(),
            pending: PendingNames::default(),
            directory_times: DirectoryTimes::default(),
            stickies: Stickies::default(),
            range_waits: RangeWaits::default(),
            memory: Budget::default(),
            habits: Habits::default(),
            started: now(),
            content_forgetter: OnceLock::new(),
            announcer: OnceLock::new(),
            this: Weak::clone(this),
        });
        engine.finish_old_removes().await?;
        Ok(engine)
    }

    /// The share's name.
    pub fn share(&self) -> &ContainerName {
        &self.share
    }

    /// Tells whether the front end can hand local files to the kernel; it knows only once it has met the kernel.
    pub fn set_passthrough(&self, possible: bool) {
        let allowed = self.config.passthrough && !self.config.mandatory_locks;
        self.passthrough.store(possible && allowed, Ordering::Release);
    }

    /// The kernel cannot after all. Says whether that is news.
    pub fn give_up_passthrough(&self) -> bool {
        self.passthrough.swap(false, Ordering::AcqRel)
    }

    /// Whether all bytes must come through the engine, because somebody may be refused some of them.
    pub fn bypass_caches(&self) -> bool {
        self.config.mandatory_locks
    }

    /// The same for an open that writes: what the kernel writes by itself nobody can make room for.
    fn kernel_may_write(&self) -> bool {
        self.passthrough() && self.upstream().is_none_or(|upstream| upstream.is_roomy())
    }

    fn passthrough(&self) -> bool {
        self.passthrough.load(Ordering::Acquire)
    }

    /// How many numbers are in use and how many handles are open: for tests and status.
    pub fn usage(&self) -> (usize, usize) {
        (self.nodes.len(), self.handles.len())
    }

    fn local(&self) -> Result<&dyn LocalStore> {
        self.store.local().ok_or(FsError::NotSupported("the store is not on this machine"))
    }

    fn at(&self, name: BlobName) -> BlobPath {
        BlobPath::new(self.share.clone(), name)
    }

    fn open_file(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        self.files.lock().get(&ino).cloned()
    }
}

/// The time. The only place where the engine reads the clock.
fn now() -> Moment {
    SystemTime::now().into()
}
