//! The shares of a store: one engine each, started when somebody asks for it.
//!
//! A share is a container. The engine of a share that is mounted is the mount's own, so that programs and callers meet
//! at one gate. The others come when they are needed and go when nobody needed them for a while.
//!
//! There is never more than one engine of a share: whoever starts or ends one holds `changing`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{BlobStore, ContainerName, StoreError};

use super::error::{FsError, Result};
use super::requests::Requests;
use super::{Engine, EngineConfig};

mod about;
mod document;
mod elsewhere;
mod room;
mod snapshots;

pub use about::{ShareInfo, ShareSettings};
pub use room::Grant;

/// So many engines run at most besides those that are in use.
const IDLE_MAX: usize = 64;

/// An engine that nobody asked for during this time ends.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The engines of a process, by share.
pub struct Shares {
    store: Arc<dyn BlobStore>,
    /// How engines behave that are started here.
    config: EngineConfig,
    running: Mutex<HashMap<ContainerName, Running>>,
    /// The share of a mount whose blobs are elsewhere: there is no other then.
    only: Option<elsewhere::Only>,
    /// Held by whoever starts or ends an engine.
    changing: tokio::sync::Mutex<()>,
    /// How much room shares have left, of those that have a limit.
    rooms: Mutex<HashMap<ContainerName, Arc<room::Room>>>,
}

struct Running {
    engine: Arc<Engine>,
    /// Belongs to a mount.
    mounted: bool,
    used: Instant,
}

impl Running {
    /// Whether nobody has it in hands.
    fn is_quiet(&self) -> bool {
        !self.mounted && Arc::strong_count(&self.engine) == 1
    }

    /// Whether nobody has it, or anything of it, in hands.
    fn is_idle(&self) -> bool {
        self.is_quiet() && self.engine.usage() == (0, 0)
    }
}

impl std::fmt::Debug for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shares").field("running", &self.running.lock().len()).finish_non_exhaustive()
    }
}

impl Shares {
    /// The shares of `store`; engines that are started here behave as `config` says.
    pub fn new(store: Arc<dyn BlobStore>, config: EngineConfig) -> Arc<Self> {
        Arc::new(Self::empty(store, config))
    }

    fn empty(store: Arc<dyn BlobStore>, config: EngineConfig) -> Self {
        Self {
            store,
            config,
            running: Mutex::default(),
            only: None,
            changing: tokio::sync::Mutex::default(),
            rooms: Mutex::default(),
        }
    }

    /// Takes in the engine of a mount. Before anybody asks for its share.
    pub fn adopt(&self, engine: Arc<Engine>) {
        let name = engine.share().clone();
        let running = Running { engine, mounted: true, used: Instant::now() };
        self.running.lock().insert(name, running);
    }

    /// Calls on a share that exists.
    pub async fn open(&self, name: &ContainerName) -> Result<Requests> {
        match self.store.container_properties(&self.container(name)?, None).await {
            Ok(_) => {}
            Err(StoreError::ContainerNotFound(_)) => return Err(FsError::NoShare),
            Err(error) => return Err(error.into()),
        }
        if let Some(engine) = self.find(name) {
            return Ok(Requests::new(engine));
        }
        let _changing = self.changing.lock().await;
        if let Some(engine) = self.find(name) {
            return Ok(Requests::new(engine));
        }
        self.end_idle().await;
        let engine = Engine::start(Arc::clone(&self.store), name.clone(), self.config.clone()).await?;
        let running = Running { engine: Arc::clone(&engine), mounted: false, used: Instant::now() };
        self.running.lock().insert(name.clone(), running);
        Ok(Requests::new(engine))
    }

    fn find(&self, name: &ContainerName) -> Option<Arc<Engine>> {
        let mut running = self.running.lock();
        let found = running.get_mut(name)?;
        found.used = Instant::now();
        Some(Arc::clone(&found.engine))
    }

    /// Ends engines that nobody needed for a while, and the oldest if they are too many. For holders of `changing`.
    async fn end_idle(&self) {
        self.write_quiet().await;
        let ended: Vec<Running> = {
            let mut running = self.running.lock();
            let now = Instant::now();
            let mut idle: Vec<(Instant, ContainerName)> = running
                .iter()
                .filter(|(_, running)| running.is_idle())
                .map(|(name, running)| (running.used, name.clone()))
                .collect();
            idle.sort_unstable_by_key(|(used, _)| *used);
            let too_many = idle.len().saturating_sub(IDLE_MAX);
            let due = |(index, (used, _)): &(usize, (Instant, ContainerName))| {
                *index < too_many || now.duration_since(*used) >= IDLE_TIME
            };
            let due = idle.into_iter().enumerate().filter(due);
            due.filter_map(|(_, (_, name))| running.remove(&name)).collect()
        };
        for Running { engine, .. } in ended {
            engine.write_directory_times().await;
            engine.release_leases().await;
        }
    }

    /// Has the engines that nobody uses now write what they put off, which keeps them from being idle.
    async fn write_quiet(&self) {
        let quiet: Vec<Arc<Engine>> = {
            let running = self.running.lock();
            let quiet = running.values().filter(|running| running.is_quiet());
            quiet.map(|running| Arc::clone(&running.engine)).collect()
        };
        for engine in quiet {
            engine.finish_removes().await;
            engine.write_directory_times().await;
        }
    }

    /// Ends the engine of a share that is going to be deleted. For holders of `changing`.
    async fn end(&self, name: &ContainerName) -> Result<()> {
        let ended = {
            let mut running = self.running.lock();
            match running.get(name) {
                Some(found) if found.mounted => return Err(FsError::ShareInUse("it is mounted")),
                Some(_) => running.remove(name),
                None => None,
            }
        };
        if let Some(Running { engine, .. }) = ended {
            engine.release_leases().await;
        }
        Ok(())
    }
}
