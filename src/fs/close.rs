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

/// After short opens content is put together this much later.
const TIDY_LATER: Duration = Duration::from_secs(1);
/// So many files at most wait for that.
pub(super) const UNTIDY_MAX: usize = 1024;

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
        // Before the look at what has changed: a mapping that has ended by now has written all that it ever will.
        let mapped = handle.file.may_be_mapped();
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
        self.detach_and(Arc::clone(&handle.file), &handle.permit, mapped, Tidying::Now).await;
        if handle.has_lease() {
            handle.set_lease(None);
            self.settle_lease(ino).await;
        }
        Ok(ReleaseReport { ino, changed })
    }

    /// Gives up one use of an open file, with the permit that went with it.
    pub(super) async fn detach(&self, file: Arc<OpenFile>, permit: &OpenPermit) {
        let mapped = file.may_be_mapped();
        self.detach_and(file, permit, mapped, Tidying::Now).await;
    }

    /// The same for a short open, which the next one may follow at once.
    pub(super) async fn detach_brief(&self, file: Arc<OpenFile>, permit: &OpenPermit) {
        let mapped = file.may_be_mapped();
        self.detach_and(file, permit, mapped, Tidying::Later).await;
    }

    async fn detach_and(&self, file: Arc<OpenFile>, permit: &OpenPermit, mapped: bool, tidying: Tidying) {
        let ino = file.ino();
        let closing = permit.close();
        self.ranges_closed(ino, permit.id()).await;
        // A mapping outlives the descriptor it was made from, and the kernel does not tell when it ends.
        let lingers = matches!(closing, Closing::Done) && mapped && self.linger(&file);
        if !lingers {
            self.drop_use(&file, tidying).await;
        }
        drop(file);
        self.after_close(ino, closing).await;
    }

    /// Gives up a use whose open did not come about. Nothing was changed, so there is nothing to commit; its permit is
    /// the caller's to [`leave`](Self::leave).
    pub(super) fn give_up(&self, file: &Arc<OpenFile>) {
        self.drop_file(file);
        self.nodes.unhold(file.ino());
    }

    /// Gives a permit back that leads to no open file, or no longer. If that was the last open of a file that was
    /// removed meanwhile, it goes now: whoever just drops a permit leaves such a file behind. Not for holders of a guard.
    pub(super) async fn leave(&self, ino: Ino, permit: &OpenPermit) {
        self.after_close(ino, permit.close()).await;
    }

    /// What is left to do after a permit was closed.
    pub(super) async fn after_close(&self, ino: Ino, closing: Closing) {
        match closing {
            Closing::Done => {}
            Closing::Remove(permit) => {
                if let Err(error) = self.finish_remove(ino, permit).await {
                    tracing::error!(ino = ino.0, %error, "a removed file could not be taken away at its last close");
                }
            }
        }
    }

    /// Gives up a use that was no open, only kept the file in the table.
    pub(super) async fn let_go(&self, file: &Arc<OpenFile>) {
        self.drop_use(file, Tidying::Now).await;
    }

    /// Gives up one use; the last one takes the file out of the table.
    async fn drop_use(&self, file: &Arc<OpenFile>, tidying: Tidying) {
        let last = self.drop_file(file);
        if last {
            self.settle_in_place(file).await;
        }
        self.nodes.unhold(file.ino());
        if !last || !file.is_in_pieces() {
            return;
        }
        match tidying {
            Tidying::Later if self.tidy_later(file.ino()).await => {}
            Tidying::Now | Tidying::Later => self.tidy(file.ino()).await,
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

    /// Takes away a pending file whose last open is closed. What cannot be taken away (somebody leased it) stays
    /// pending.
    pub(super) async fn finish_remove(&self, ino: Ino, permit: RemovePermit) -> Result<()> {
        if self.remove_pending(ino, &permit).await? {
            permit.confirm();
        }
        Ok(())
    }

    /// Says whether it is gone; it is not if its removal was called off.
    async fn remove_pending(&self, ino: Ino, permit: &RemovePermit) -> Result<bool> {
        let Some(Guarded { at, parent, segment, .. }) = &self.guard_name(ino).await? else { return Ok(true) };
        if !permit.is_due() {
            return Ok(false);
        }
        let found = self.local()?.find(at)?;
        // Others may have removed or replaced it; what has the name then is not ours to take away.
        if found.blob.as_ref().is_some_and(|blob| Ino::of(blob.id) == ino) {
            self.delete_blob(at, &found).await?;
            crash_point("finish_remove_after_delete");
        }
        if let Err(error) = self.forget_pending(*parent, segment, ino).await {
            // It names a file that is not there any more: the next start takes it away.
            tracing::warn!(ino = ino.0, %error, "the mark of a removed file stays");
        }
        self.lose_name(ino, &found);
        Ok(true)
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

    /// Puts content back together after the last close of a file that was changed in places. That waits for the disk
    /// several times, so it is never done on a thread that serves requests, and for one file at a time. If too many
    /// files wait for it, this one is left to its next close.
    async fn tidy(&self, ino: Ino) {
        let Some(at) = self.at_now(ino).await else { return };
        let (Ok(runtime), Some(engine)) = (tokio::runtime::Handle::try_current(), self.this.upgrade()) else {
            return self.tidy_at(ino, &at);
        };
        // A permit is a place among those who wait. A close has more to do, for which others wait, so it never waits for
        // one, nor for those whom the end waits for.
        let place = Arc::clone(&self.tidy_places).try_acquire_owned();
        let under_way = Arc::clone(&self.tidying).try_read_owned();
        let (Ok(place), Ok(under_way)) = (place, under_way) else { return };
        runtime.spawn(async move {
            let turn = Arc::clone(&engine.tidy_turn).lock_owned().await;
            let done = tokio::task::spawn_blocking(move || {
                engine.tidy_at(ino, &at);
                drop((under_way, turn));
            });
            if let Err(error) = done.await {
                tracing::error!(ino = ino.0, %error, "content stays in pieces");
            }
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::OpenRequest;
    use super::super::file::Route;
    use super::super::nodes::ROOT;
    use super::super::testing::{CALLER, WRITE, World, segment, start, start_on};
    use super::*;
    use crate::store::{BlobStore, LocalStore, NewContent, Preconditions};

    /// Longer than a close takes, even on a busy machine.
    const LIMIT: Duration = Duration::from_secs(30);

    const READ: OpenRequest = OpenRequest { read: true, write: false, truncate: false, exclusive: false };

    async fn put(world: &World, name: &str, size: usize) -> Ino {
        let (new, always) = (NewContent::default(), Preconditions::default());
        world.store.put_blob(&world.at(name), vec![1; size].into(), new, &always).await.unwrap();
        world.engine.lookup(ROOT, &segment(name)).await.unwrap().ino
    }

    /// Closes the last handles of a file, and waits until it is out of the table.
    async fn close_all(world: &World, ino: Ino, handles: [HandleId; 2]) {
        for handle in handles {
            world.close(handle).await;
        }
        let gone = async {
            while world.engine.open_file(ino).is_some() {
                tokio::time::sleep(LINGER_FIRST).await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.expect("the file stays open");
    }

    #[tokio::test]
    async fn a_close_does_not_wait_until_content_is_put_together() {
        let world = start().await;
        let (engine, ino) = (&world.engine, put(&world, "big", 4 << 20).await);
        let handle = engine.open(ino, WRITE, CALLER).await.unwrap().handle;
        engine.write(handle, 5000, b"changed").await.unwrap();
        let pieces = || world.store.reader(&world.at("big")).unwrap().pieces().len();
        let turn = Arc::clone(&engine.tidy_turn).lock_owned().await;
        tokio::time::timeout(LIMIT, engine.release(handle)).await.expect("the close waits").unwrap();
        assert!(pieces() > 1, "put together by the close itself");
        drop(turn);
        tokio::time::timeout(LIMIT, engine.drain(&|_| {})).await.expect("the end waits").unwrap();
        assert_eq!(pieces(), 1);
    }

    #[tokio::test]
    async fn a_close_does_not_wait_for_others_to_be_put_together() {
        let world = start().await;
        let (engine, ino) = (&world.engine, put(&world, "big", 4 << 20).await);
        let pieces = || world.store.reader(&world.at("big")).unwrap().pieces().len();
        let everything = u32::try_from(UNTIDY_MAX).unwrap();
        let places = Arc::clone(&engine.tidy_places).acquire_many_owned(everything).await.unwrap();
        let handle = engine.open(ino, WRITE, CALLER).await.unwrap().handle;
        engine.write(handle, 5000, b"changed").await.unwrap();
        tokio::time::timeout(LIMIT, engine.release(handle)).await.expect("the close waits").unwrap();
        assert!(pieces() > 1);
        drop(places);
        let handle = engine.open(ino, READ, CALLER).await.unwrap().handle;
        engine.release(handle).await.unwrap();
        tokio::time::timeout(LIMIT, engine.drain(&|_| {})).await.expect("the end waits").unwrap();
        assert_eq!(pieces(), 1, "by its next close");
    }

    #[tokio::test]
    async fn a_file_that_is_copied_before_it_is_cut_off_stays_in_the_table() {
        const CUT: OpenRequest = OpenRequest { truncate: true, ..WRITE };
        let mut world = start().await;
        world.engine = start_on(&world.store, true).await;
        let (engine, ino) = (&world.engine, put(&world, "f", 2 << 20).await);
        let reader = engine.open(ino, READ, CALLER).await.unwrap();
        assert!(matches!(reader.route, Route::Kernel(_)));
        let file = engine.open_file(ino).unwrap();
        let guard = engine.guard_entry(ROOT, &segment("f")).await;
        let cutting = Arc::clone(engine);
        let cutting = tokio::spawn(async move { cutting.open(ino, CUT, CALLER).await });
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(engine.gate.open_count(ino), 2, "past the gate");
        assert!(!file.is_last_open(), "the last close of others must not take it out");
        drop((guard, file));
        let cut = cutting.await.unwrap().unwrap();
        assert!(!engine.open_file(ino).unwrap().is_last_open());
        drop((reader.route, cut.route));
        close_all(&world, ino, [cut.handle, reader.handle]).await;
        assert_eq!(engine.stat(ino).await.unwrap().size, 0);
    }

    /// A descriptor that the engine forgets to close looks like a mapping that never ends.
    #[tokio::test]
    async fn a_file_that_a_writer_took_over_from_readers_is_let_go() {
        let mut world = start().await;
        world.engine = start_on(&world.store, true).await;
        let (engine, ino) = (&world.engine, put(&world, "f", 200_000).await);
        let reader = engine.open(ino, READ, CALLER).await.unwrap();
        assert!(matches!(reader.route, Route::Kernel(_)));
        let writer = engine.open(ino, WRITE, CALLER).await.unwrap();
        assert!(matches!(writer.route, Route::Direct(_)));
        engine.write(writer.handle, 50, b"changed").await.unwrap();
        drop((reader.route, writer.route));
        close_all(&world, ino, [writer.handle, reader.handle]).await;
    }
}
