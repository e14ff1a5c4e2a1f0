//! The life of a mount, from the checks before it to the end of the process.
//!
//! ```text
//!   starting --mounted and answering--> serving --signal--> draining --> detaching --+
//!                                          |                                         v
//!                                          +-----------kernel ended it----------> closing --> exit 0
//!   any state --second signal--> detach lazily, exit 1
//! ```
//!
//! On every orderly path the mount is gone before the process is. On a disorderly one (a panic, an error after the
//! mount was made) [`Detacher`] takes it away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Uid;
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::backend::Backend;
use super::config::MountPlan;
use super::control::{Client, ControlServer, Hello, Steward};
use super::detach::{self, DetachError, Manner};
use super::error::CliError;
use super::mounts::{self, Health};
use super::paths::Places;
use super::progress::{self, ProgressView};
use super::report::Reporter;
use super::signals::Signals;
use super::{log, mountpoint, processes};
use crate::fuse::Mounted;
use crate::store::Progress;

/// Threads for what is neither a kernel request answered in place nor a blocking call.
const RUNTIME_THREADS: usize = 2;
/// How long a new mount may take to answer its first request.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
/// How long the users of a detached mount may take to close their files.
const DETACHED_PATIENCE: Duration = Duration::from_secs(5);
/// How long the kernel's threads may take to end after the mount has.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);
/// How long an earlier daemon of the same mountpoint may take to write its last changes.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(60);

/// Mounts, serves until the mount ends, and closes everything.
pub(super) fn run(plan: &MountPlan, places: &Places, reporter: Reporter) -> Result<(), CliError> {
    let mountpoint = mountpoint::prepare(&plan.mountpoint, &|text| reporter.note(text))?;
    mountpoint::refuse_overlap(&mountpoint, &plan.data)?;
    mountpoint::refuse_without_fuse(plan.allow_other)?;
    start_log(plan, reporter)?;
    raise_file_limit();
    wait_for_predecessor(&mountpoint, places, reporter);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()
        .map_err(|e| CliError::Failed(format!("the daemon's threads cannot be started: {e}")))?;
    let result = live(&runtime, plan, places, reporter, &mountpoint);
    // A thread that still waits for something must not keep the process.
    runtime.shutdown_background();
    result
}

/// In the background standard error is the log already.
fn start_log(plan: &MountPlan, reporter: Reporter) -> Result<(), CliError> {
    let file = match (&plan.log_file, reporter) {
        (Some(path), Reporter::Terminal) => Some(log::open(path).map_err(|e| {
            CliError::Failed(format!("the log file {} cannot be opened: {e}", path.display()))
        })?),
        (None, _) | (Some(_), Reporter::Starter) => None,
    };
    log::start(plan.log, file);
    Ok(())
}

/// Every file that a program has open through the mount is one that we have open too.
pub(super) fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| hard));
    match raised {
        Ok(limit) => tracing::debug!(limit, "open files"),
        Err(error) => tracing::warn!(%error, "the limit of open files stays as it is"),
    }
}

/// `umount` returns before the daemon has ended; whoever mounts again right after it should not have to know.
fn wait_for_predecessor(mountpoint: &Path, places: &Places, reporter: Reporter) {
    let Some(client) = Client::find(&places.control_dirs(), mountpoint, Uid::effective().as_raw()) else {
        return;
    };
    if !client.hello.closing {
        return;
    }
    let pid = client.hello.pid;
    if !processes::wait_for_end(pid, Some(Instant::now() + Duration::from_secs(1))) {
        reporter
            .note(&format!("waiting for process {pid}, which writes the last changes of the mount before"));
        processes::wait_for_end(pid, Some(Instant::now() + PREDECESSOR_PATIENCE));
    }
}

fn live(
    runtime: &Runtime,
    plan: &MountPlan,
    places: &Places,
    reporter: Reporter,
    mountpoint: &Path,
) -> Result<(), CliError> {
    runtime.block_on(async {
        let backend = Arc::new(Backend::open(plan).await?);
        let mut signals = Signals::new()?;
        let mut endpoints = backend.serve(plan).await?;
        let mounted = backend.mount(plan, mountpoint)?;
        let detacher = Detacher::new(mountpoint.to_owned())?;
        first_answer(mountpoint).await?;
        let mut control = start_control(plan, places, mountpoint, &backend);
        // The daemon must not keep the directory busy that it was started in.
        std::env::set_current_dir("/").ok();
        tracing::info!(mountpoint = %mountpoint.display(), data = %plan.data.display(), share = %plan.share, "mounted");
        if let Some(endpoint) = &endpoints.blobs {
            tracing::info!(url = endpoint.url, "blobs are served");
            reporter.note(&format!("blobs are served at {}", endpoint.url));
        }
        if let Some(endpoint) = &endpoints.files {
            tracing::info!(url = endpoint.url, "files are served");
            reporter.note(&format!("files are served at {}", endpoint.url));
        }
        if let Some(note) = &backend.note {
            tracing::info!("{note}");
            reporter.note(note);
        }
        let kept = if plan.remote.is_some() { "cache" } else { "data" };
        reporter.ready(&format!(
            "{} is mounted at {} ({kept} in {})",
            plan.title(),
            mountpoint.display(),
            plan.data.display()
        ));
        let signalled = tokio::select! {
            () = endpoints.until_signal(&mut signals) => true,
            () = mounted.ended() => false,
        };
        tracing::info!("{}", if signalled { "ending on a signal" } else { "unmounted from outside" });
        endpoints.stop().await.unwrap_or_else(|problem| tracing::error!("{problem}"));
        let ending = end(signalled, &detacher, control.as_mut(), mounted, &backend, reporter == Reporter::Terminal);
        tokio::pin!(ending);
        tokio::select! {
            result = &mut ending => result.map_err(CliError::Failed),
            _ = signals.next() => {
                tracing::warn!("ending at once on a second signal");
                detacher.detach_if_there();
                std::process::exit(1);
            }
        }
    })
}

/// Waits until the mount is in the kernel's list and answers.
async fn first_answer(mountpoint: &Path) -> Result<(), CliError> {
    let path = mountpoint.to_owned();
    let listed = mounts::at(mountpoint).is_some_and(|entry| entry.is_ours());
    // Not on a runtime thread: those may be needed for the answer.
    let health = tokio::task::spawn_blocking(move || mounts::probe(&path, FIRST_ANSWER)).await;
    match health {
        Ok(Health::Alive) if listed => Ok(()),
        Ok(Health::Alive | Health::Dead | Health::Hangs) | Err(_) => {
            Err(CliError::Failed(format!("the mount at {} was made but does not work", mountpoint.display())))
        }
    }
}

fn start_control(
    plan: &MountPlan,
    places: &Places,
    mountpoint: &Path,
    backend: &Arc<Backend>,
) -> Option<ControlServer> {
    let hello = Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: nix::unistd::getpid().as_raw(),
        mountpoint: mountpoint.to_owned(),
        data: plan.data.clone(),
        share: match &plan.remote {
            Some(remote) => remote.source.container.to_string(),
            None => plan.share.to_string(),
        },
        source: plan.remote.as_ref().map(|remote| remote.source.to_string()),
        closing: false,
    };
    let steward: Arc<dyn Steward> = Arc::<Backend>::clone(backend);
    match ControlServer::start(&places.control_dirs(), hello, steward) {
        Ok(server) => {
            tracing::debug!(path = %server.path().display(), "control socket");
            Some(server)
        }
        // umount(8) and signals still work.
        Err(error) => {
            tracing::warn!(%error, "there is no control socket; leasefs umount cannot ask this daemon");
            None
        }
    }
}

/// Commits what is pending, and tells the terminal or the log how far it is.
async fn drain(backend: &Backend, show: bool) -> Result<(), String> {
    let view = Mutex::new(ProgressView::new(Instant::now()));
    let logged = Mutex::new(Instant::now());
    let tell = |progress: Progress| {
        let now = Instant::now();
        let mut last = logged.lock();
        if show {
            view.lock().update(now, progress);
        } else if now.duration_since(*last) >= Duration::from_secs(1) {
            *last = now;
            tracing::info!("{}", progress::sentence(progress));
        }
    };
    let result = backend.drain(&tell).await;
    view.into_inner().finish();
    result.inspect_err(|problem| tracing::error!("{problem}"))
}

/// From the wish to end, or the end of the mount, to the last change in the store. The error is what could not be
/// written; the mount is gone all the same.
async fn end(
    signalled: bool,
    detacher: &Detacher,
    mut control: Option<&mut ControlServer>,
    mounted: Mounted,
    backend: &Backend,
    show: bool,
) -> Result<(), String> {
    if signalled {
        // A failure here may be over by the second try below, when no file is open any more.
        drain(backend, show).await.ok();
        detacher.detach(&mounted).await;
    }
    if let Some(control) = &mut control {
        control.announce_closing();
    }
    join(mounted).await;
    let drained = drain(backend, show).await;
    if let Some(control) = control {
        control.stop().await;
    }
    let closed = backend.close().await.inspect_err(|problem| tracing::error!("{problem}"));
    tracing::info!("ended");
    drained.and(closed)
}

async fn join(mounted: Mounted) {
    if !mounted.is_ended() {
        tracing::warn!("files are still open; their programs will see errors");
        // Joining would wait for those programs; the kernel's threads end with the process.
        std::mem::forget(mounted);
        return;
    }
    let joined = tokio::task::spawn_blocking(move || mounted.join());
    match timeout(JOIN_PATIENCE, joined).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!(%error, "the kernel's threads ended with an error"),
        Ok(Err(_)) | Err(_) => tracing::warn!("the kernel's threads did not end"),
    }
}

/// Knows our mount in the kernel's list and takes it away, at the latest when dropped. Never touches another mount
/// at the same path.
struct Detacher {
    mountpoint: PathBuf,
    device: String,
}

impl Detacher {
    /// For the mount that was just made.
    fn new(mountpoint: PathBuf) -> Result<Self, CliError> {
        match mounts::at(&mountpoint) {
            // The exact type is checked later, when there is somebody to take away what is wrong.
            Some(entry) if entry.kind.starts_with("fuse") => Ok(Self { mountpoint, device: entry.device }),
            Some(_) | None => {
                Err(CliError::Failed(format!("the mount at {} is not there", mountpoint.display())))
            }
        }
    }

    fn is_there(&self) -> bool {
        mounts::at(&self.mountpoint).is_some_and(|entry| entry.device == self.device)
    }

    /// Unmounts cleanly, or lazily if files are open, and then waits a while for them to be closed.
    async fn detach(&self, mounted: &Mounted) {
        if self.is_there() {
            let path = self.mountpoint.clone();
            // The kernel writes back what is dirty first, which needs our other threads.
            let result = tokio::task::spawn_blocking(move || detach::detach(&path, Manner::Clean)).await;
            match result {
                Ok(Ok(()) | Err(DetachError::NotMounted)) => {}
                Ok(Err(reason)) => {
                    tracing::info!(%reason, "detaching the mount while files are open");
                    self.detach_now();
                }
                Err(_) => self.detach_now(),
            }
        }
        timeout(DETACHED_PATIENCE, mounted.ended()).await.ok();
    }

    fn detach_if_there(&self) {
        if self.is_there() {
            self.detach_now();
        }
    }

    fn detach_now(&self) {
        match detach::detach(&self.mountpoint, Manner::Lazy) {
            Ok(()) | Err(DetachError::NotMounted) => {}
            Err(reason) => tracing::error!(%reason, "the mount cannot be detached"),
        }
    }
}

impl Drop for Detacher {
    fn drop(&mut self) {
        self.detach_if_there();
    }
}
