//! Files that are being written, told to the service before their commit, so that `close` has less to wait for.
//!
//! Only a hint: what a commit makes of the file is decided by the commit.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::task::AbortHandle;

use super::Engine;
use super::file::OpenFile;

/// How often one looks at what is being written.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// So many files at a time.
const FILES_AT_ONCE: usize = 4;

/// Starts to look, as long as the engine is there.
pub(super) fn start(engine: Weak<Engine>) -> AbortHandle {
    let task = tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(engine) = engine.upgrade() else { return };
            engine.send_early().await;
        }
    });
    task.abort_handle()
}

impl Engine {
    async fn send_early(&self) {
        let written = |file: &&Arc<OpenFile>| file.has_writers();
        let files: Vec<Arc<OpenFile>> = self.files.lock().values().filter(written).cloned().collect();
        stream::iter(files).for_each_concurrent(FILES_AT_ONCE, |file| self.send_file_early(file)).await;
    }

    async fn send_file_early(&self, file: Arc<OpenFile>) {
        let ino = file.ino();
        let (Some(upstream), Ok(Some((content, written)))) = (self.upstream(), file.written_so_far()) else {
            return;
        };
        if self.gate.is_delete_pending(ino) || file.fenced().is_some() {
            return;
        }
        let Ok(Some(name)) = self.nodes.blob_name(ino) else { return };
        if let Err(error) = upstream.send_early(&name, &content, written, self.leases.id(ino)).await {
            tracing::debug!(%name, %error, "nothing is sent before the commit");
        }
    }
}
