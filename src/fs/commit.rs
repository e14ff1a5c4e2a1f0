//! Committing: making the current content of a file the blob's content.

use std::sync::Arc;

use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::{BlobPath, BlobProperties, NewContent, Preconditions, Progress, crash_point};

use super::Engine;
use super::attributes::Attributes;
use super::descriptors;
use super::error::{FsError, Result};
use super::file::{CommitInfo, Fenced, OpenFile};
use super::handles::HandleId;
use super::nodes::Ino;
use super::place::Guarded;

impl Engine {
    /// A program closed one of its descriptors: commit, so that the close can report a failure. The range locks of
    /// the program (`key`) go, whichever descriptor they came through.
    pub async fn flush(&self, handle: HandleId, key: u64) -> Result<()> {
        let handle = self.handles.peek(handle)?;
        let done = if handle.commits() { self.commit(&handle.file).await } else { Ok(()) };
        self.drop_range_key(handle.file.ino(), key).await;
        handle.note_flushed();
        done
    }

    /// The same for a descriptor that `thread` closes. An empty file elsewhere is left to the close of a copy of that
    /// descriptor, if its process has one: that brings the content.
    pub async fn flush_by(&self, handle: HandleId, key: u64, thread: u32) -> Result<()> {
        let open = self.handles.peek(handle)?;
        if self.upstream().is_none() || !open.commits() || !open.file.is_empty()? {
            return self.flush(handle, key).await;
        }
        let place = self.nodes.place(open.file.ino());
        let left = place.is_some_and(|(_, name)| descriptors::are_left(thread, open.file.ino(), &name));
        if !left {
            return self.flush(handle, key).await;
        }
        self.drop_range_key(open.file.ino(), key).await;
        Ok(())
    }

    /// Commits and makes it survive a power loss.
    pub async fn fsync(&self, handle: HandleId) -> Result<()> {
        let file = Arc::clone(&self.handles.get(handle)?.file);
        self.sync_content(&file).await?;
        self.commit(&file).await?;
        crash_point("fsync_after_commit");
        Ok(self.local()?.sync().await?)
    }

    /// Makes the content survive a power loss. It comes before the version that names it: the version must never be
    /// there without its bytes.
    pub(super) async fn sync_content(&self, file: &OpenFile) -> Result<()> {
        let local = self.local()?;
        let unsynced = file.unsynced(local)?;
        if !unsynced.is_empty() {
            local.sync_data(unsynced).await?;
            crash_point("fsync_after_data_sync");
        }
        Ok(())
    }

    /// Makes the directory's entries survive a power loss.
    pub async fn fsync_directory(&self, ino: Ino) -> Result<()> {
        if self.upstream().is_none() {
            self.write_directory_time(ino).await;
        }
        Ok(self.local()?.sync().await?)
    }

    /// Commits `file` under the name it has, if there is anything to commit and it has one.
    pub(super) async fn commit(&self, file: &OpenFile) -> Result<()> {
        let fenced = file.fenced();
        if fenced.is_none() && !file.needs_commit()? {
            // An earlier commit may not have got through.
            return self.push_file(file).await;
        }
        if file.is_cut_off() && self.gate.open_count(file.ino()) == 0 {
            // Only handles that were closed from outside are left, and what comes through them counts no more.
            return Ok(());
        }
        let committed = self.commit_here(file).await;
        if self.upstream().is_none() {
            return committed;
        }
        // Without the guards: a long upload must not stop the mount.
        if committed.is_err() {
            self.push_aside(file).await;
            self.call_off(file.ino()).await;
            return committed;
        }
        self.push_file(file).await
    }

    /// Commits to the store, or keeps the content beside.
    async fn commit_here(&self, file: &OpenFile) -> Result<()> {
        loop {
            let fenced = file.fenced();
            if fenced.is_some() {
                self.bring_all(file).await;
            }
            let Some(guarded) = &self.guard_name(file.ino()).await? else { return Ok(()) };
            if let Some(why) = fenced {
                return Err(self.set_aside(file, guarded, why));
            }
            // While this waited for the guards, a renewal may have found the lease lost and kept the content beside:
            // then nothing is left to commit, and whoever waits for it must not hear that it went well.
            if file.fenced().is_some() {
                continue;
            }
            return match self.commit_at(file, &guarded.at) {
                Err(error) => self.commit_refused(file, guarded, error).await,
                Ok(()) => Ok(()),
            };
        }
    }

    /// What the store would not take is kept beside, unless it was a misunderstanding about our own lease.
    async fn commit_refused(&self, file: &OpenFile, guarded: &Guarded<'_>, error: FsError) -> Result<()> {
        let Some(mut why) = Fenced::of(&error) else { return Err(error) };
        if why == Fenced::Leased && self.leases.id(file.ino()).is_some() {
            if self.lease_revived(file.ino(), &self.lease_place(&guarded.at)?).await {
                return self.commit_at(file, &guarded.at);
            }
            why = Fenced::LeaseLost;
        }
        Err(self.set_aside(file, guarded, why))
    }

    fn commit_at(&self, file: &OpenFile, at: &BlobPath) -> Result<()> {
        self.commit_with(file, at, None)
    }

    /// Commits for somebody who showed the id of the lease on the blob.
    pub(super) fn commit_with(&self, file: &OpenFile, at: &BlobPath, shown: Option<LeaseId>) -> Result<()> {
        let local = self.local()?;
        let blob = local.find(at)?.blob.ok_or(FsError::Stale)?;
        if Ino::of(blob.id) != file.ino() {
            // Somebody else removed the file and made another one of that name.
            return Err(FsError::Stale);
        }
        let shown = shown.or_else(|| file.shown());
        let changing = self.will_commit(&at.name, file)?;
        let info = Committing { engine: self, ino: file.ino(), blob, shown };
        let committed = file.commit(local, at, &info);
        let noted = self.note_in_place(&at.name, file);
        drop(changing);
        // Not earlier: who pushes beside this must not take it for pushed.
        file.note_unpushed();
        let page_cache_agrees = committed?;
        noted?;
        if let Some(maker) = file.take_maker() {
            self.habits.note(maker, file.is_small());
        }
        tracing::trace!(ino = file.ino().0, %at, "committed");
        if !page_cache_agrees {
            self.nodes.set_cached(file.ino(), None);
        }
        Ok(())
    }

    /// Commits everything that is open and changed, writes what was put off, and makes all of it durable.
    pub async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        self.end_farewells();
        let committed = self.commit_all().await;
        if let Some(upstream) = self.upstream() {
            upstream.drain(progress).await?;
        }
        self.local()?.checkpoint(progress).await?;
        committed
    }

    /// The same without waiting for a service elsewhere: what it has not got stays here, for the next engine.
    pub async fn drain_here(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        self.end_farewells();
        let committed = self.commit_all().await;
        self.local()?.checkpoint(progress).await?;
        committed
    }

    async fn commit_all(&self) -> Result<()> {
        let files: Vec<Arc<OpenFile>> = self.files.lock().values().cloned().collect();
        let mut failed = None;
        for file in files {
            match self.commit(&file).await {
                Ok(()) => {}
                // Kept beside its blob already: nothing is pending.
                Err(_) if file.fenced().is_some() && !file.needs_saving()? => {}
                Err(error) => {
                    tracing::error!(ino = file.ino().0, %error, "a file could not be committed");
                    failed = Some(error);
                }
            }
        }
        crash_point("drain_after_commits");
        drop(self.tidying.write().await);
        self.write_directory_times().await;
        crash_point("drain_after_times");
        failed.map_or(Ok(()), Err)
    }
}

/// A commit of `ino` on top of the version `blob`.
pub(super) struct Committing<'a> {
    pub(super) engine: &'a Engine,
    pub(super) ino: Ino,
    pub(super) blob: Arc<BlobProperties>,
    /// The id of the lease on the blob that the caller showed.
    pub(super) shown: Option<LeaseId>,
}

impl CommitInfo for Committing<'_> {
    fn new_content(&self, mtime: Moment, ctime: Moment) -> Result<NewContent> {
        let mut attributes = Attributes::of_blob(&self.blob, self.engine.config.owner);
        attributes.mtime = mtime;
        attributes.ctime = ctime.max(attributes.ctime);
        let mut metadata = self.blob.metadata.clone();
        attributes.write_to(&mut metadata);
        let blob = &self.blob;
        Ok(NewContent {
            metadata,
            headers: blob.headers.clone(),
            tags: blob.tags.clone(),
            tier: blob.tier.map(|tier| tier.tier),
            ..NewContent::default()
        })
    }

    fn fence(&self, base: &BlobProperties) -> Preconditions {
        let fence = self.engine.fence(self.ino, base, &self.blob);
        // The leases of a share elsewhere are the service's: the push carries them.
        let shown = self.shown.filter(|_| self.engine.upstream().is_none());
        Preconditions { lease: shown.or(fence.lease), ..fence }
    }

    fn committed(&self, properties: &BlobProperties) {
        self.engine.nodes.set_cached(self.ino, Some(properties.etag));
    }
}
