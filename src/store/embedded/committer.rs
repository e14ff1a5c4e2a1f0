//! The one thread that makes batches survive a power loss, for everybody who waits at once.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tokio::runtime::RuntimeFlavor;
use tokio::sync::oneshot;

use crate::store::{Result, StoreError, crash_point};

use super::content::{Files, folder_name};
use super::kv::Kv;
use super::startup::sync_folder;

/// Callers that can wait at once; more wait for a place.
const QUEUE: usize = 4096;

enum Request {
    Sync(oneshot::Sender<Result<()>>),
    Stop,
}

/// The handle of the committer thread.
pub(super) struct Committer {
    queue: SyncSender<Request>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    pub(super) fn start(kv: Arc<Kv>, files: Arc<Files>) -> Self {
        let (queue, requests) = sync_channel(QUEUE);
        let work = move || run(&requests, &kv, &files);
        let thread = std::thread::Builder::new().name("store-committer".into()).spawn(work);
        let thread =
            thread.inspect_err(|error| tracing::error!(%error, "the committer could not be started")).ok();
        Self { queue, thread: Mutex::new(thread) }
    }

    /// Makes everything committed so far survive a power loss.
    pub(super) async fn sync(&self) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let mut request = Request::Sync(done);
        loop {
            match self.queue.try_send(request) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) => {
                    request = back;
                    tokio::task::yield_now().await;
                }
                Err(TrySendError::Disconnected(_)) => return Err(closed()),
            }
        }
        answer.await.map_err(|_| closed())?
    }

    /// Answers everybody who waits, then ends.
    pub(super) fn stop(&self) {
        let _ = self.queue.send(Request::Stop);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

/// Makes the bytes of these files survive a power loss. Files are independent of each other: with a runtime they need
/// not queue up.
pub(super) async fn sync_files(files: Vec<Arc<File>>) -> Result<()> {
    let work = move || files.iter().try_for_each(|file| sync_file(file));
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let ended = runtime.spawn_blocking(work).await;
            ended.map_err(|error| StoreError::io("sync", io::Error::other(error)))?
        }
        Err(_) => work(),
    }
}

/// Makes the bytes of one file survive a power loss before this returns, for callers that cannot wait otherwise. Other
/// tasks of a runtime's thread go on elsewhere meanwhile.
pub(super) fn sync_file_now(file: &File) -> Result<()> {
    match tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| sync_file(file)),
        _ => sync_file(file),
    }
}

fn closed() -> StoreError {
    StoreError::io("sync", io::Error::other("the store is closed"))
}

fn sync_file(file: &File) -> Result<()> {
    file.sync_data().map_err(|error| StoreError::io("sync content", error))
}

fn run(requests: &Receiver<Request>, kv: &Kv, files: &Files) {
    let mut stop = false;
    while !stop {
        let Ok(first) = requests.recv() else { return };
        let mut waiting = Vec::new();
        for request in std::iter::once(first).chain(requests.try_iter().take(QUEUE)) {
            match request {
                Request::Stop => stop = true,
                Request::Sync(done) => waiting.push(done),
            }
        }
        if waiting.is_empty() {
            continue;
        }
        let mut result = persist(kv, files);
        for done in waiting {
            let again = result.as_ref().err().map(repeat);
            let _ = done.send(again.map_or(Ok(()), Err));
        }
        if let Err(error) = &mut result {
            tracing::error!(%error, "a sync failed");
        }
    }
}

/// Folders first, so that no record on the disk names a file that is not.
pub(super) fn persist(kv: &Kv, files: &Files) -> Result<()> {
    sync_folders(files)?;
    crash_point("sync_after_content");
    kv.sync()?;
    crash_point("sync_after_journal");
    Ok(())
}

/// Makes the names of all content files survive a power loss.
pub(super) fn sync_folders(files: &Files) -> Result<()> {
    files.unsynced().sync_folders(|folder| {
        let path = files.folder().join(folder_name(folder));
        sync_folder(&path).map_err(|error| StoreError::io(format!("sync {}", path.display()), error))
    })
}

/// The same failure for the next who waited.
fn repeat(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        other => StoreError::Io { context: "sync".into(), source: io::Error::other(other.to_string()) },
    }
}
