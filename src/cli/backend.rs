//! The one place where the command line meets the store, the engine and the kernel's front end.
//!
//! Opens them in order, closes them in the reverse one, and turns their errors into sentences.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nix::unistd::{getgid, getuid};

use super::config::MountPlan;
use super::control::{Status, Steward};
use super::detach;
use super::endpoint::{Endpoints, ShareMaker};
use super::error::CliError;
use super::overview;
use super::processes;
use super::remote::Connected;
use super::settings::DeleteChoice;
use crate::fs::attributes::DefaultOwner;
use crate::fs::policy::SharePolicies;
use crate::fs::shares::Shares;
use crate::fs::strategy::Fencing;
use crate::fs::{Caller, DeleteRule, Engine, EngineConfig, FrontEnd, FsError};
use crate::fuse::{self, MountConfig, Mounted};
use crate::share::OpenId;
use crate::store::embedded::{CheckReport, EmbeddedOptions, EmbeddedStore, OpenError};
use crate::store::{BlobStore, Progress};

/// A daemon that is just ending keeps the data directory for a moment longer than its mount.
const IN_USE_PATIENCE: Duration = Duration::from_secs(1);

/// A share that is open and can be mounted.
pub(super) struct Backend {
    store: Arc<EmbeddedStore>,
    engine: Arc<Engine>,
    /// How engines of other shares behave.
    config: EngineConfig,
    /// Something the user should know.
    pub(super) note: Option<String>,
    /// What is not at the service yet stays in the cache directory for the next mount.
    keep_rest: AtomicBool,
}

impl Backend {
    /// Opens the store and starts the engine on it.
    pub(super) async fn open(plan: &MountPlan) -> Result<Self, CliError> {
        let store = open_store(&plan.data).await?;
        let config = EngineConfig {
            delete: match plan.delete {
                DeleteChoice::Smb => DeleteRule::Smb,
                DeleteChoice::Posix => DeleteRule::Posix,
            },
            passthrough: plan.passthrough && detach::may_mount(),
            owner: DefaultOwner { uid: getuid().as_raw(), gid: getgid().as_raw() },
            policies: plan.policies.clone(),
            fencing: plan.fencing.clone(),
            mandatory_locks: plan.mandatory_locks,
        };
        if plan.passthrough && !config.passthrough {
            tracing::info!("without CAP_SYS_ADMIN all data goes through the daemon");
        }
        let blobs: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(&store);
        let (engine, note) = match &plan.remote {
            None => (Engine::start(blobs, plan.share.clone(), config.clone()).await, None),
            Some(remote) => {
                let Connected { mirror, attr_ttl, note } = remote.connect(&store, plan.share.clone()).await?;
                (
                    Engine::start_remote(blobs, plan.share.clone(), config.clone(), mirror, attr_ttl).await,
                    note,
                )
            }
        };
        let engine = engine.map_err(|e| {
            CliError::Failed(format!("{} in {} cannot be opened: {e}", plan.title(), plan.data.display()))
        })?;
        Ok(Self { store, engine, config, note, keep_rest: AtomicBool::new(false) })
    }

    /// Serves the blobs and the files too, if the plan says so: the files of the mounted share through the mount's own
    /// engine. Must be called on the runtime.
    pub(super) async fn serve(&self, plan: &MountPlan) -> Result<Endpoints, CliError> {
        let own = match &plan.remote {
            Some(remote) => Shares::of_remote(Arc::clone(&self.engine), remote.source.container.clone()),
            None => {
                let shares = shares_with(&self.store, self.config.clone());
                shares.adopt(Arc::clone(&self.engine));
                shares
            }
        };
        let config = self.config.clone();
        let other = Box::new(move |store: &Arc<EmbeddedStore>| shares_with(store, config.clone()));
        let plans = (plan.blobs.as_ref(), plan.files.as_ref());
        Endpoints::start(plans, (&plan.data, &self.store), ShareMaker { own, other }).await
    }

    /// Mounts the share at the canonical path `mountpoint`. Must be called on the runtime.
    pub(super) fn mount(&self, plan: &MountPlan, mountpoint: &Path) -> Result<Mounted, CliError> {
        let config = MountConfig {
            mountpoint: mountpoint.to_owned(),
            source: match &plan.remote {
                Some(remote) => remote.source.to_string(),
                None => plan.data.display().to_string(),
            },
            allow_other: plan.allow_other,
            read_only: plan.read_only,
            passthrough: plan.passthrough && detach::may_mount(),
            threads: plan.threads,
            extra: plan.kernel_flags.clone(),
        };
        fuse::mount(&self.engine, &tokio::runtime::Handle::current(), &config).map_err(|e| {
            CliError::Failed(format!("{} cannot be mounted: {}", mountpoint.display(), e.to_string().trim()))
        })
    }

    /// Writes the store's last words and frees the data directory. Nothing can be changed afterwards, even if requests
    /// still come in from somewhere.
    pub(super) async fn close(&self) -> Result<(), String> {
        self.engine.release_leases().await;
        close_store(Arc::clone(&self.store)).await
    }
}

#[async_trait]
impl Steward for Backend {
    async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<(), String> {
        if self.keep_rest.load(Ordering::Acquire) {
            return self.engine.drain_here(progress).await.map_err(|e| e.to_string());
        }
        self.engine.drain(progress).await.map_err(|e| format!("what is pending cannot be committed: {e}"))
    }

    fn keep_rest(&self) -> Result<(), String> {
        if self.engine.upstream().is_none() {
            return Err("everything is on this machine: there is nowhere else to keep it".to_owned());
        }
        self.keep_rest.store(true, Ordering::Release);
        Ok(())
    }

    fn status(&self, below: Option<&str>) -> Status {
        overview::of(&self.engine, below)
    }

    async fn close_handle(&self, id: u64) -> Result<(), String> {
        match self.engine.close_handle(OpenId(id)).await {
            Ok(()) => Ok(()),
            Err(FsError::BadHandle | FsError::Revoked) => Err(format!("no open has the id {id}")),
            Err(problem) => Err(problem.to_string()),
        }
    }

    async fn undelete(&self, path: &str) -> Result<(), String> {
        // Whoever may use the control socket may do what root may.
        let root = Caller { uid: 0, gid: 0, pid: 0, front_end: FrontEnd::Mount };
        match self.engine.undelete_path(path, root).await {
            Ok(()) => Ok(()),
            Err(FsError::NotFound) => Err("it is not delete pending".to_owned()),
            Err(problem) => Err(problem.to_string()),
        }
    }

    async fn break_lease(&self, path: &str, after: u8) -> Result<(), String> {
        match self.engine.break_lease(path, after).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("nobody holds a lease on it".to_owned()),
            Err(FsError::NotFound) => Err("it does not exist".to_owned()),
            Err(problem) => Err(problem.to_string()),
        }
    }
}

/// The shares of a store that nobody has mounted.
pub(super) fn shares(store: &Arc<EmbeddedStore>) -> Arc<Shares> {
    let config = EngineConfig {
        delete: DeleteRule::Smb,
        passthrough: false,
        owner: DefaultOwner { uid: getuid().as_raw(), gid: getgid().as_raw() },
        policies: SharePolicies::default(),
        fencing: Fencing::default(),
        mandatory_locks: false,
    };
    shares_with(store, config)
}

fn shares_with(store: &Arc<EmbeddedStore>, config: EngineConfig) -> Arc<Shares> {
    let store: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(store);
    Shares::new(store, config)
}

/// Opens the store in `data`; waits a moment for a process that is just ending.
pub(super) async fn open_store(data: &Path) -> Result<Arc<EmbeddedStore>, CliError> {
    let started = Instant::now();
    loop {
        match EmbeddedStore::open(data, EmbeddedOptions::default()) {
            Ok(store) => return Ok(store),
            Err(OpenError::InUse { .. }) if started.elapsed() < IN_USE_PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error @ OpenError::InUse { pid, .. }) => {
                let text = error.to_string();
                let pid_text = format!("process {pid}");
                let named = format!("{pid_text} ({})", processes::command_line(pid));
                return Err(CliError::Failed(text.replacen(&pid_text, &named, 1)));
            }
            // The store's own sentences name the directory and say what to do.
            Err(error) => return Err(CliError::Failed(error.to_string())),
        }
    }
}

/// Writes the store's last words and frees its directory.
pub(super) async fn close_store(store: Arc<EmbeddedStore>) -> Result<(), String> {
    match tokio::task::spawn_blocking(move || store.close()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(format!("the store did not end cleanly: {e}")),
        Err(_) => Err("the store did not end cleanly".to_owned()),
    }
}

/// Checks the store in `data`, which must exist and not be in use.
pub(super) fn check(data: &Path) -> Result<CheckReport, CliError> {
    let nothing = |why: &str| CliError::Failed(format!("there is no store in {}: {why}", data.display()));
    // Opening would make a store in an empty directory.
    match std::fs::read_dir(data).map(|mut entries| entries.next()) {
        Ok(Some(_)) => {}
        Ok(None) => return Err(nothing("the directory is empty")),
        Err(e) => return Err(nothing(&e.to_string())),
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| CliError::Failed(format!("the check cannot be started: {e}")))?;
    let store = runtime.block_on(open_store(data))?;
    let report = store.check();
    let failed = |e| CliError::Failed(format!("the check of {} did not finish: {e}", data.display()));
    store.close().map_err(failed)?;
    report.map_err(failed)
}
