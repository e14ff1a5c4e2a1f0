//! The one place where the command line meets the store, the engine and the kernel's front end.
//!
//! Opens them in order, closes them in the reverse one, and turns their errors into sentences.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nix::unistd::{getgid, getuid};

use super::config::MountPlan;
use super::control::Drainer;
use super::detach;
use super::error::CliError;
use super::settings::DeleteChoice;
use crate::fs::attributes::DefaultOwner;
use crate::fs::{DeleteRule, Engine, EngineConfig};
use crate::fuse::{self, MountConfig, Mounted};
use crate::store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use crate::store::{
    BlobName, BlobPath, BlobStore, ContainerName, ListItem, ListQuery, LocalStore, Progress, StoreError,
};

/// A daemon that is just ending keeps the data directory for a moment longer than its mount.
const IN_USE_PATIENCE: Duration = Duration::from_secs(1);

/// How many names a check asks for at a time.
const PAGE: usize = 5000;

/// A share that is open and can be mounted.
pub(super) struct Backend {
    store: Arc<EmbeddedStore>,
    engine: Arc<Engine>,
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
        };
        if plan.passthrough && !config.passthrough {
            tracing::info!("without CAP_SYS_ADMIN all data goes through the daemon");
        }
        let blobs: Arc<dyn BlobStore> = Arc::<EmbeddedStore>::clone(&store);
        let engine = Engine::start(blobs, plan.share.clone(), config).await.map_err(|e| {
            CliError::Failed(format!(
                "the share {} in {} cannot be opened: {e}",
                plan.share,
                plan.data.display()
            ))
        })?;
        Ok(Self { store, engine })
    }

    /// Mounts the share at the canonical path `mountpoint`. Must be called on the runtime.
    pub(super) fn mount(&self, plan: &MountPlan, mountpoint: &Path) -> Result<Mounted, CliError> {
        let config = MountConfig {
            mountpoint: mountpoint.to_owned(),
            source: plan.data.display().to_string(),
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
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || store.close()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(format!("the store did not end cleanly: {e}")),
            Err(_) => Err("the store did not end cleanly".to_owned()),
        }
    }
}

#[async_trait]
impl Drainer for Backend {
    async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<(), String> {
        self.engine.drain(progress).await.map_err(|e| format!("what is pending cannot be committed: {e}"))
    }
}

async fn open_store(data: &Path) -> Result<Arc<EmbeddedStore>, CliError> {
    let started = Instant::now();
    loop {
        match EmbeddedStore::open(data, EmbeddedOptions::default()) {
            Ok(store) => return Ok(store),
            Err(OpenError::InUse { .. }) if started.elapsed() < IN_USE_PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // The store's own sentences name the directory and say what to do.
            Err(error) => return Err(CliError::Failed(error.to_string())),
        }
    }
}

/// What a check of the embedded store found.
#[derive(Default)]
pub(super) struct Checked {
    /// One sentence each.
    pub(super) problems: Vec<String>,
    pub(super) containers: u64,
    pub(super) blobs: u64,
    pub(super) bytes: u64,
}

/// Checks the store in `data`, which must exist and not be in use.
pub(super) fn check(data: &Path) -> Result<Checked, CliError> {
    let nothing = |why: &str| CliError::Failed(format!("there is no store in {}: {why}", data.display()));
    // Opening would make a store in an empty directory.
    match std::fs::read_dir(data).map(|mut entries| entries.next()) {
        Ok(Some(_)) => {}
        Ok(None) => return Err(nothing("the directory is empty")),
        Err(e) => return Err(nothing(&e.to_string())),
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| CliError::Failed(format!("the check cannot be started: {e}")))?;
    runtime.block_on(async {
        let store = open_store(data).await?;
        let checked = walk(&store).await;
        let closed = store.close();
        let failed = |e| CliError::Failed(format!("the check of {} did not finish: {e}", data.display()));
        closed.map_err(failed)?;
        checked.map_err(failed)
    })
}

/// Visits every blob and compares what is recorded of it with what is there.
async fn walk(store: &EmbeddedStore) -> Result<Checked, StoreError> {
    let mut checked = Checked::default();
    let mut marker: Option<String> = None;
    loop {
        let (page, next) = store.list_containers("", marker.as_deref(), PAGE).await?;
        for container in page {
            checked.containers += 1;
            walk_container(store, &container.name, &mut checked).await?;
        }
        match next {
            Some(next) => marker = Some(next),
            None => return Ok(checked),
        }
    }
}

async fn walk_container(
    store: &EmbeddedStore,
    container: &ContainerName,
    checked: &mut Checked,
) -> Result<(), StoreError> {
    let mut query = ListQuery { prefix: String::new(), delimiter: None, marker: None, max: PAGE };
    loop {
        let page = store.list_blobs(container, &query).await?;
        for item in page.items {
            let ListItem::Blob { name, properties } = item else { continue };
            checked.blobs += 1;
            checked.bytes += properties.size;
            let at = BlobPath::new(container.clone(), BlobName::new(name)?);
            if let Err(problem) = check_content(store, &at, properties.size) {
                checked.problems.push(format!("{at}: {problem}"));
            }
        }
        match page.next {
            Some(next) => query.marker = Some(next),
            None => return Ok(()),
        }
    }
}

/// Every recorded byte must have a place in some file.
fn check_content(store: &EmbeddedStore, at: &BlobPath, size: u64) -> Result<(), String> {
    let reader = LocalStore::reader(store, at).map_err(|e| e.to_string())?;
    if reader.size() != size {
        return Err(format!("it is listed with {size} bytes and has {}", reader.size()));
    }
    for piece in reader.pieces() {
        let Some((file, offset)) = &piece.source else { continue };
        let there = file.metadata().map_err(|e| e.to_string())?.len();
        let needed = offset.saturating_add(piece.len);
        if there < needed {
            return Err(format!("its content file ends {} bytes too early", needed - there));
        }
    }
    Ok(())
}
