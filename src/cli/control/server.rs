//! The daemon's side of the control socket.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nix::unistd::Uid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::{Hello, REQUEST_MAX, Reply, Request, Status, line};
use crate::cli::paths;
use crate::store::Progress;

/// Conversations at the same time; more are turned away.
const CONNECTIONS_MAX: usize = 16;
/// A peer that says nothing for so long, or takes so long to read an answer, is dropped.
const PEER_PATIENCE: Duration = Duration::from_secs(10);
/// How often progress is told.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// What the daemon does for its peers. Errors are sentences.
#[async_trait]
pub(in crate::cli) trait Steward: Send + Sync + 'static {
    /// Commits everything pending. May be dropped half-way.
    async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<(), String>;
    /// From now on a drain leaves what is not at the service yet in the cache directory.
    fn keep_rest(&self) -> Result<(), String>;
    /// What is open, range-locked, leased and delete pending at and below a path in the share. Blocks: it reads /proc.
    fn status(&self, below: Option<&str>) -> Status;
    /// Takes the open with this id away from its holder.
    async fn close_handle(&self, id: u64) -> Result<(), String>;
    /// Brings back the delete-pending file at this path in the share.
    async fn undelete(&self, path: &str) -> Result<(), String>;
    /// Ends the lease on the file at this path in the share, in so many seconds.
    async fn break_lease(&self, path: &str, after: u8) -> Result<(), String>;
}

/// A listening control socket; its file is removed when this is dropped.
pub(in crate::cli) struct ControlServer {
    file: SocketFile,
    closing: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

struct Shared {
    hello: Hello,
    closing: Arc<AtomicBool>,
    steward: Arc<dyn Steward>,
}

impl ControlServer {
    /// Listens in the first of `dirs` that can be used. Must be called on the runtime.
    pub(in crate::cli) fn start(
        dirs: &[PathBuf],
        hello: Hello,
        steward: Arc<dyn Steward>,
    ) -> io::Result<Self> {
        let name = paths::socket_name(&hello.mountpoint);
        let mut result = Err(io::Error::other("no directory for the control socket"));
        for dir in dirs {
            result = listen(dir, &name);
            if result.is_ok() {
                break;
            }
        }
        let (file, listener) = result?;
        let closing = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared { hello, closing: Arc::clone(&closing), steward });
        let listener = tokio::spawn(accept(listener, shared));
        Ok(Self { file, closing, listener })
    }

    /// Where it listens.
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.file.path
    }

    /// From now on peers are told that the daemon is about to end.
    pub(in crate::cli) fn announce_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Ends every conversation, so that nothing refers to the steward any more. The file stays until drop.
    pub(in crate::cli) async fn stop(&mut self) {
        self.listener.abort();
        // Being cancelled is what was asked for.
        (&mut self.listener).await.ok();
    }
}

/// Removes the socket's file, unless a later daemon has put its own in the same place.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            std::fs::remove_file(&self.path).ok();
        }
    }
}

fn listen(dir: &Path, name: &str) -> io::Result<(SocketFile, UnixListener)> {
    private_directory(dir)?;
    let path = dir.join(name);
    // A file from before: its daemon died, or its mount was detached and it serves the last open files only.
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    let inode = std::fs::symlink_metadata(&path)?.ino();
    Ok((SocketFile { path, inode }, listener))
}

/// Makes `dir`, or accepts it if it is a real directory that only we can enter.
fn private_directory(dir: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let found = std::fs::symlink_metadata(dir)?;
    let ours = found.is_dir() && found.uid() == Uid::effective().as_raw() && found.mode() & 0o077 == 0;
    if ours { Ok(()) } else { Err(io::Error::other(format!("{} is not a private directory", dir.display()))) }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    let mut conversations = JoinSet::new();
    loop {
        while conversations.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) if may_speak(&stream) && conversations.len() < CONNECTIONS_MAX => {
                conversations.spawn(converse(stream, Arc::clone(&shared)));
            }
            Ok(_) => tracing::warn!("a connection to the control socket was turned away"),
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot accept");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn may_speak(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == Uid::effective().as_raw())
}

async fn converse(stream: UnixStream, shared: Arc<Shared>) {
    if let Err(error) = answer_all(stream, &shared).await {
        tracing::debug!(%error, "a conversation on the control socket ended");
    }
}

async fn answer_all(stream: UnixStream, shared: &Shared) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = Vec::new();
        let mut limited = (&mut stream).take(REQUEST_MAX);
        timeout(PEER_PATIENCE, limited.read_until(b'\n', &mut request)).await??;
        if request.is_empty() {
            return Ok(());
        }
        if request.last() != Some(&b'\n') {
            let reason = format!("a request is one line of at most {REQUEST_MAX} bytes");
            return send(&mut stream, &Reply::Failed { reason }).await;
        }
        match serde_json::from_slice(&request) {
            Ok(Request::Hello) => send(&mut stream, &Reply::Hello(shared.hello())).await?,
            Ok(Request::Drain) => drain(&mut stream, &*shared.steward).await?,
            Ok(Request::KeepRest) => send(&mut stream, &outcome(shared.steward.keep_rest())).await?,
            Ok(Request::Status { below }) => status(&mut stream, &shared.steward, below).await?,
            Ok(Request::CloseHandle { id }) => {
                let done = shared.steward.close_handle(id).await;
                send(&mut stream, &outcome(done)).await?;
            }
            Ok(Request::Undelete { path }) => {
                let done = shared.steward.undelete(&path).await;
                send(&mut stream, &outcome(done)).await?;
            }
            Ok(Request::BreakLease { path, after }) => {
                let done = shared.steward.break_lease(&path, after).await;
                send(&mut stream, &outcome(done)).await?;
            }
            Err(_) => {
                let reason = format!("leasefs {} does not know this request", shared.hello.version);
                send(&mut stream, &Reply::Failed { reason }).await?;
            }
        }
    }
}

impl Shared {
    fn hello(&self) -> Hello {
        Hello { closing: self.closing.load(Ordering::Acquire), ..self.hello.clone() }
    }
}

async fn drain(stream: &mut BufReader<UnixStream>, steward: &dyn Steward) -> io::Result<()> {
    let (teller, latest) = watch::channel(Progress::default());
    let tell = move |progress| {
        teller.send_replace(progress);
    };
    let work = steward.drain(&tell);
    tokio::pin!(work);
    let mut ticks = tokio::time::interval(PROGRESS_PERIOD);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = ticks.tick() => {
                let progress = *latest.borrow();
                send(stream, &Reply::Progress(progress.into())).await?;
            }
        }
    };
    send(stream, &outcome(result)).await
}

fn outcome(result: Result<(), String>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(reason) => Reply::Failed { reason },
    }
}

async fn status(
    stream: &mut BufReader<UnixStream>,
    steward: &Arc<dyn Steward>,
    below: Option<String>,
) -> io::Result<()> {
    let steward = Arc::clone(steward);
    let found = tokio::task::spawn_blocking(move || steward.status(below.as_deref())).await;
    for page in found.map_err(io::Error::other)?.pages() {
        send(stream, &Reply::Status(page)).await?;
    }
    send(stream, &Reply::Done).await
}

async fn send(stream: &mut BufReader<UnixStream>, reply: &Reply) -> io::Result<()> {
    let bytes = line(reply)?;
    timeout(PEER_PATIENCE, stream.get_mut().write_all(&bytes)).await?
}
