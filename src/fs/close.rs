//! Closing files, and what is left to do then.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::store::{BlobPath, crash_point};

use super::Engine;
use super::error::Result;
use super::file::OpenFile;
use super::gate::{Closing, GHOST_WAIT, OpenPermit, RemovePermit};
use super::handles::HandleId;
use super::nodes::Ino;
use super::place::Guarded;

/// How soon a file that is still mapped after its last close is looked at again, at first and at most.
const LINGER_FIRST: Duration = Duration::from_millis(1);
const LINGER_MAX: Duration = Duration::from_secs(1);

/// Putting more bytes of changed content together than this is not done on a thread that serves requests.
const TIDY_AT_ONCE: u64 = 1 << 20;

/// After short opens content is put together this much later.
const TIDY_LATER: Duration = Duration::from_secs(1);
/// So many files at most wait for that.
const UNTIDY_MAX: usize = 1024;

/// When content is put back together that was changed in places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tidying {
    Now,
    Later,
}

/// What a close did.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseReport {
    /// The file.
    pub ino: Ino,
    /// Bytes were changed after the last flush (through a mapping): cached attributes are wrong.
    pub changed: bool,
}

impl Engine {
    /// Closes a handle: commits what is not committed yet, and finishes a pending remove with the last close.
    pub async fn release(&self, handle: HandleId) -> Result<ReleaseReport> {
        let handle = self.handles.remove(handle)?;
        let ino = handle.file.ino();
        let others_commit = handle.leaves_to_others();
        let commits = handle.commits() && !handle.is_revoked() && !others_commit;
        // If that cannot be told, there may be something.
        let changed = commits && handle.file.needs_commit().unwrap_or(true);
        let waits = commits && self.upstream().is_some() && handle.file.unpushed().is_some();
        if (changed || waits)
            && let Err(error) = self.commit(&handle.file).await
        {
            tracing::error!(ino = ino.0, %error, "a file could not be committed at its close");
            // What only the service has not got yet is in the mirror, which tries again.
            let kept = self.upstream().is_some() && handle.file.needs_saving().is_ok_and(|needs| !needs);
            if handle.file.is_last_open() && !kept {
                self.rescue(&handle.file).await;
            }
        }
        crash_point("release_after_commit");
        self.detach(Arc::clone(&handle.file), &handle.permit).await;
        if handle.has_lease() {
            handle.set_lease(None);
            self.settle_lease(ino).await;
        }
        Ok(ReleaseReport { ino, changed })
    }

    /// Gives up one use of an open file, with the permit that went with it.
    pub(super) async fn detach(&self, file: Arc<OpenFile>, permit: &OpenPermit) {
        self.detach_and(file, permit, Tidying::Now).await;
    }

    /// The same for a short open, which the next one may follow at once.
    pub(super) async fn detach_brief(&self, file: Arc<OpenFile>, permit: &OpenPermit) {
        self.detach_and(file, permit, Tidying::Later).await;
    }

    async fn detach_and(&self, file: Arc<OpenFile>, permit: &OpenPermit, tidying: Tidying) {
        let ino = file.ino();
        let closing = permit.close();
        self.ranges_closed(ino, permit.id()).await;
        // A mapping outlives the descriptor it was made from, and the kernel does not tell when it ends.
        let lingers = matches!(closing, Closing::Done) && file.may_be_mapped() && self.linger(&file);
        if !lingers {
            self.drop_use(&file, tidying).await;
        }
        drop(file);
        if let Closing::Remove(permit) = closing
            && let Err(error) = self.finish_remove(ino, permit).await
        {
            tracing::error!(ino = ino.0, %error, "a removed file could not be taken away at its last close");
        }
    }

    /// Gives up a use whose open did not come about. Nothing was changed, so there is nothing to finish.
    pub(super) fn give_up(&self, file: &Arc<OpenFile>, permit: &OpenPermit) {
        self.drop_file(file);
        self.nodes.unhold(file.ino());
        drop(permit.close());
    }

    /// Gives up one use; the last one takes the file out of the table.
    async fn drop_use(&self, file: &Arc<OpenFile>, tidying: Tidying) {
        let last = self.drop_file(file);
        if last {
            self.settle_in_place(file).await;
        }
        self.nodes.unhold(file.ino());
        let Some(bytes) = file.in_pieces().filter(|_| last) else { return };
        match tidying {
            Tidying::Later if self.tidy_later(file.ino()).await => {}
            Tidying::Now | Tidying::Later => self.tidy(file.ino(), bytes).await,
        }
    }

    /// Takes the file out of the table if this was its last use.
    pub(super) fn drop_file(&self, file: &Arc<OpenFile>) -> bool {
        let mut files = self.files.lock();
        if !file.drop_open() {
            return false;
        }
        if let Entry::Occupied(entry) = files.entry(file.ino())
            && Arc::ptr_eq(entry.get(), file)
        {
            entry.remove();
        }
        drop(files);
        self.file_closed.notify_waiters();
        true
    }

    /// Waits for a file that its programs have closed already, until we know it, too.
    ///
    /// `close(2)` returns before the kernel tells us. What was closed is whole, and stays so until the next commit; but
    /// a writer that joined the last one would write in place. So would a writer that joins a reader that joined. A file that is still used after the wait (through a copy of
    /// a descriptor, or a mapping) is not waited for again.
    pub(super) async fn outlast_close(&self, ino: Ino, writes: bool) {
        let mut deadline = None;
        loop {
            // Registered before the look, so that a close in between is not missed.
            let closed = self.file_closed.notified();
            let Some(file) = self.open_file(ino) else { return };
            if !(writes || file.is_in_place()) || file.is_kept_open() || self.gate.is_living(ino) {
                return;
            }
            let until = *deadline.get_or_insert_with(|| Instant::now() + GHOST_WAIT);
            if timeout_at(until, closed).await.is_err() {
                return file.keep_open();
            }
        }
    }

    /// Keeps a file that a program still has mapped, and commits what it writes, until the mapping is gone.
    /// Says whether that is needed.
    fn linger(&self, file: &Arc<OpenFile>) -> bool {
        let runtime = tokio::runtime::Handle::try_current();
        let (Ok(runtime), Some(engine)) = (runtime, self.this.upgrade()) else {
            return false;
        };
        let file = Arc::clone(file);
        runtime.spawn(async move {
            let mut wait = LINGER_FIRST;
            loop {
                tokio::time::sleep(wait).await;
                let mapped = file.is_mapped();
                if let Err(error) = engine.commit(&file).await
                    && file.fenced().is_none()
                {
                    tracing::error!(ino = file.ino().0, %error, "a mapped file could not be committed");
                }
                if !mapped {
                    return engine.drop_use(&file, Tidying::Now).await;
                }
                wait = (wait * 2).min(LINGER_MAX);
            }
        });
        true
    }

    /// Takes away a pending file whose last open is closed.
    pub(super) async fn finish_remove(&self, ino: Ino, permit: RemovePermit) -> Result<()> {
        if let Some(Guarded { at, parent, segment, .. }) = &self.guard_name(ino).await? {
            let found = self.local()?.find(at)?;
            self.delete_blob(at, &found).await?;
            crash_point("finish_remove_after_delete");
            self.forget_pending(*parent, segment, ino).await?;
            self.lose_name(ino, &found);
        }
        permit.confirm();
        Ok(())
    }

    /// Puts content back together in a while, once for all short opens until then. Says no if too many files wait for
    /// that already.
    async fn tidy_later(&self, ino: Ino) -> bool {
        let (Ok(runtime), Some(at)) = (tokio::runtime::Handle::try_current(), self.at_now(ino).await) else {
            return false;
        };
        {
            let mut untidy = self.untidy.lock();
            if untidy.contains(&ino) {
                return true;
            }
            if untidy.len() == UNTIDY_MAX {
                return false;
            }
            untidy.insert(ino);
        }
        let this = std::sync::Weak::clone(&self.this);
        runtime.spawn(async move {
            tokio::time::sleep(TIDY_LATER).await;
            let Some(engine) = this.upgrade() else { return };
            engine.untidy.lock().remove(&ino);
            let under_way = Arc::clone(&engine.tidying).read_owned().await;
            tokio::task::spawn_blocking(move || {
                engine.tidy_at(ino, &at);
                drop(under_way);
            });
        });
        true
    }

    /// Where the blob of a file is.
    async fn at_now(&self, ino: Ino) -> Option<BlobPath> {
        self.guard_name(ino).await.ok().flatten().map(|guarded| guarded.at)
    }

    /// No guard is needed: this changes where bytes are, not what they are, of whatever has the name by then.
    fn tidy_at(&self, ino: Ino, at: &BlobPath) {
        if let Err(error) = self.local().and_then(|local| Ok(local.tidy(at)?)) {
            tracing::debug!(ino = ino.0, %error, "content stays in pieces");
        }
    }

    /// Puts content back together after the last close of a file that was changed in places: at once if that moves few
    /// bytes, else on a thread of its own.
    async fn tidy(&self, ino: Ino, bytes: u64) {
        let Some(at) = self.at_now(ino).await else { return };
        match (tokio::runtime::Handle::try_current(), self.this.upgrade()) {
            (Ok(runtime), Some(engine)) if bytes > TIDY_AT_ONCE => {
                let under_way = Arc::clone(&self.tidying).read_owned().await;
                runtime.spawn_blocking(move || {
                    engine.tidy_at(ino, &at);
                    drop(under_way);
                });
            }
            _ => self.tidy_at(ino, &at),
        }
    }
}
