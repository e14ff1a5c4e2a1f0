//! Mounting and unmounting.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL};
use nix::mount::{MntFlags, umount2};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::fs::Engine;

use super::adapter::Adapter;
use super::stale;

/// The read-ahead that root raises the mount to; the kernel's default for FUSE is 128 KiB.
const READ_AHEAD_KIB: u32 = 2048;

/// Where and how to mount.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The directory to mount on.
    pub mountpoint: PathBuf,
    /// What `/proc/mounts` shows as the device.
    pub source: String,
    /// Other users may use the mount.
    pub allow_other: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Hand local files to the kernel where it allows it.
    pub passthrough: bool,
    /// Threads that read requests; at least 2 make sense.
    pub threads: usize,
    /// Further mount options, passed on as they are.
    pub extra: Vec<String>,
}

/// A mount that is being served.
#[derive(Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    ended: watch::Receiver<bool>,
    server: Option<JoinHandle<io::Result<()>>>,
}

fn options(config: &MountConfig) -> Config {
    let mut options = vec![
        MountOption::FSName(config.source.clone()),
        // Not `Subtype`: without fusermount3 the crate drops that one, and the type would be plain `fuse`.
        MountOption::CUSTOM("subtype=leasefs".into()),
        MountOption::DefaultPermissions,
        if config.read_only { MountOption::RO } else { MountOption::RW },
    ];
    options.extend(config.extra.iter().map(|option| match option.as_str() {
        "dev" => MountOption::Dev,
        "nodev" => MountOption::NoDev,
        "suid" => MountOption::Suid,
        "nosuid" => MountOption::NoSuid,
        "exec" => MountOption::Exec,
        "noexec" => MountOption::NoExec,
        "atime" => MountOption::Atime,
        "noatime" => MountOption::NoAtime,
        "dirsync" => MountOption::DirSync,
        "sync" => MountOption::Sync,
        "async" => MountOption::Async,
        other => MountOption::CUSTOM(other.to_owned()),
    }));
    let mut fuser = Config::default();
    fuser.mount_options = options;
    fuser.acl = if config.allow_other { SessionACL::All } else { SessionACL::Owner };
    fuser.n_threads = Some(config.threads.max(1));
    fuser.clone_fd = true;
    fuser
}

/// Mounts the engine's share. It is served from the moment this returns.
pub fn mount(engine: &Arc<Engine>, runtime: &Handle, config: &MountConfig) -> io::Result<Mounted> {
    let (announcer, announcements) = stale::channel();
    engine.forget_content_with(announcer.content_forgetter());
    // Registering files with the kernel is for root only.
    let passthrough = config.passthrough && nix::unistd::geteuid().is_root();
    let adapter = Adapter::new(Arc::clone(engine), runtime.clone(), passthrough, announcer.clone());
    let requests = adapter.requests();
    engine.announce_with(announcer.change_announcer(Arc::clone(&requests)));
    drop(announcer);
    let watching = engine.watch().map_err(io::Error::other)?;
    let session = Session::new(adapter, &config.mountpoint, &options(config))?;
    let (notifier, watch_notifier) = (session.notifier(), session.notifier());
    let names = super::watch::name_teller(runtime, session.notifier());
    let (end, ended) = watch::channel(false);
    let server = std::thread::Builder::new().name("leasefs-fuse".into()).spawn(move || {
        let result = session.run();
        // The receiver is gone only if nobody waits.
        let _ = end.send(true);
        result
    })?;
    std::thread::Builder::new().name("leasefs-notify".into()).spawn({
        let names = Arc::clone(&names);
        move || announcements.run(&notifier, &names)
    })?;
    let over = ended.clone();
    super::watch::start(watching, watch_notifier, names, requests, move || *over.borrow())?;
    raise_read_ahead(&config.mountpoint);
    Ok(Mounted { mountpoint: config.mountpoint.clone(), ended, server: Some(server) })
}

/// Sequential reads through the daemon are faster with more read-ahead. Only root may say so.
fn raise_read_ahead(mountpoint: &Path) {
    let raised = std::fs::metadata(mountpoint).and_then(|data| {
        let device = data.dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), READ_AHEAD_KIB.to_string())
    });
    if let Err(error) = raised {
        tracing::debug!(%error, "read-ahead stays as it is");
    }
}

impl Mounted {
    /// Whether the kernel has ended the connection.
    pub fn is_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Resolves when the kernel has ended the connection: somebody unmounted.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // The sender is dropped only after it said so.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Asks the kernel to unmount; an error (busy) leaves everything as it is.
    pub fn unmount(&self) -> io::Result<()> {
        unmount_path(&self.mountpoint, false)
    }

    /// Takes the mount out of the tree at once; it ends when its last user is gone.
    pub fn detach(&self) -> io::Result<()> {
        unmount_path(&self.mountpoint, true)
    }

    /// Waits for the serving threads after the mount has ended.
    pub fn join(mut self) -> io::Result<()> {
        match self.server.take() {
            Some(server) => server.join().unwrap_or_else(|_| Err(io::Error::other("the FUSE thread failed"))),
            None => Ok(()),
        }
    }
}

/// Unmounts whatever is at `mountpoint`: by system call as root, else with the helper program.
pub fn unmount_path(mountpoint: &Path, lazy: bool) -> io::Result<()> {
    if nix::unistd::geteuid().is_root() {
        let flags = if lazy { MntFlags::MNT_DETACH } else { MntFlags::empty() };
        return Ok(umount2(mountpoint, flags)?);
    }
    let status = Command::new("fusermount3")
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(mountpoint)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::ErrorKind::ResourceBusy.into()) }
}
