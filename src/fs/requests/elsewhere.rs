//! A share whose blobs are elsewhere: what a call asks the service before it looks, and tells it before it answers.
//!
//! ```text
//!   ask: the names on the way, if they are not known well enough; the last one always, with its lease
//!     └─▶ look, gate, turn ─▶ change the mirror ─▶ push, under the lease that was shown ─▶ answer
//!                  ^                                  |
//!                  +── somebody else was first: the service's version takes the place of ours ──+
//! ```
//!
//! Calls are last-writer-wins, so one that came too late begins again with what is there now; only what a mounted
//! program has written is kept beside. On a share of this machine every function here is done at once.

use std::future::Future;
use std::sync::Arc;

use crate::share::lease::{Lease, LeaseId, LeaseRefusal};
use crate::store::{
    BlobName, BlobPath, ContentReader, ETag, Fence, Fetch, Preconditions, Ready, Settling, StoreError,
};

use super::super::error::{FsError, Result};
use super::super::file::{Fenced, OpenFile};
use super::super::guards::Turn;
use super::super::nodes::Ino;
use super::super::remote::OUTRUN_MAX;
use super::Requests;
use super::brief::{Brief, Target};
use super::failure::Answer;
use super::path::{FilePath, joined};

/// How often a call begins again because somebody elsewhere was first.
const TRIES: usize = 8;

impl Requests {
    /// Brings what the path names up to date and tells the lease that the service has on it. An id that is shown must
    /// be right.
    pub(super) async fn ask(&self, path: &FilePath, shown: Option<LeaseId>) -> Result<Option<Lease>> {
        let Some(upstream) = self.engine.upstream() else { return Ok(None) };
        let Some((above, _)) = path.split().filter(|_| !path.is_reserved()) else { return Ok(None) };
        for depth in 0..above.len() {
            if let Some(name) = joined(&above[..=depth])? {
                upstream.refresh_name(&name).await?;
            }
        }
        let Some(name) = path.blob_name()? else { return Ok(None) };
        let standing = upstream.revalidate(&name).await?;
        if shown.is_some() {
            self.judge_there(&name, shown).await?;
        }
        Ok(Some(standing.lease))
    }

    /// Only the service knows the id of a lease.
    async fn judge_there(&self, name: &BlobName, shown: Option<LeaseId>) -> Result<()> {
        let Some(upstream) = self.engine.upstream() else { return Ok(()) };
        let conditions = Preconditions { lease: shown, ..Preconditions::default() };
        match upstream.service().blob_properties(&upstream.there(name)?, None, &conditions).await {
            Ok(_) => Ok(()),
            Err(StoreError::Lease(refusal)) => Err(FsError::Lease(refusal)),
            Err(StoreError::BlobNotFound(_)) => {
                // What is only here has no lease; what is nowhere is not found by the look.
                let here = self.engine.local()?.find(&self.engine.at(name.clone()))?.blob.is_some();
                let absent = FsError::Lease(LeaseRefusal::NotPresentWithBlobOperation);
                if here { Err(absent) } else { Ok(()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Brings the names in a directory up to date.
    pub(super) async fn ask_entries(&self, path: &FilePath) -> Result<()> {
        match self.engine.upstream() {
            Some(upstream) => Ok(upstream.refresh_directory(path.blob_name()?.as_ref()).await?),
            None => Ok(()),
        }
    }

    /// The turn of a call that changes a file.
    pub(super) async fn turn(&self, ino: Ino) -> Option<Turn<'_>> {
        self.engine.upstream()?;
        Some(self.engine.guards.turn(ino).await)
    }

    /// Makes a call that begins again if somebody elsewhere was first.
    pub(super) async fn again<T, F: Future<Output = Answer<T>>>(
        &self,
        mut call: impl FnMut() -> F,
    ) -> Answer<T> {
        let tries = if self.engine.upstream().is_some() { TRIES } else { 1 };
        for _ in 1..tries {
            match call().await {
                Err(failure) if matches!(failure.error, FsError::Stale) => {}
                other => return other,
            }
        }
        call().await
    }

    /// The id under which the store here is changed. The leases of a share elsewhere are the service's.
    pub(super) fn lease_here(&self, ino: Ino, shown: Option<LeaseId>) -> Option<LeaseId> {
        match self.engine.upstream() {
            Some(_) => None,
            None => shown.or(self.engine.leases.id(ino)),
        }
    }

    fn fence(&self, ino: Ino, shown: Option<LeaseId>) -> Fence {
        let fence = self.engine.push_fence(ino);
        Fence { lease: shown.or(fence.lease), ..fence }
    }

    /// The content of a version that nobody has open, and how to bring what is not here.
    pub(super) async fn version_of(
        &self,
        target: &Target,
    ) -> Result<(ContentReader, Option<Arc<dyn Fetch>>)> {
        let local = self.engine.local()?;
        let Some(upstream) = self.engine.upstream() else { return Ok((local.reader(&target.at)?, None)) };
        for _ in 0..OUTRUN_MAX {
            let Ready { version, fetch } = upstream.content(&target.at.name).await?;
            let reader = local.reader(&target.at)?;
            if reader.properties().etag == version {
                return Ok((reader, fetch));
            }
        }
        Err(FsError::Stale)
    }

    /// Pushes what was committed of an open file.
    pub(super) async fn push(&self, open: &Brief<'_>) -> Result<()> {
        let (engine, file, ino) = (&self.engine, &open.file, open.target.ino);
        if engine.upstream().is_none() {
            return Ok(());
        }
        if open.shown.is_none() && engine.gate.is_living(ino) {
            // What a program wrote is in it, too: as if that had closed it.
            return engine.push_file(file).await;
        }
        while let Some(count) = file.unpushed() {
            // Without a name there is nothing to push to; should it be taken back, it is pushed then.
            let Ok(Some(name)) = engine.nodes.blob_name(ino) else { return Ok(()) };
            if engine.gate.is_delete_pending(ino) {
                return Ok(());
            }
            if let Err(error) = self.push_as(ino, &name, open.shown).await {
                let version = file.base().etag;
                return Err(self.push_refused(ino, &name, version, Some(file), error).await);
            }
            // Moved meanwhile: pushed under its new name.
            if engine.nodes.blob_name(ino).is_ok_and(|now| now.as_ref() == Some(&name)) {
                file.note_pushed(count);
            }
        }
        Ok(())
    }

    /// Pushes `version` of something that is not, or need not be, open.
    pub(super) async fn push_version(
        &self,
        ino: Ino,
        name: &BlobName,
        version: ETag,
        shown: Option<LeaseId>,
    ) -> Result<()> {
        if let Some(file) = self.engine.open_file(ino)
            && file.unpushed().is_some()
        {
            // Goes with its next commit.
            file.note_unpushed();
            return Ok(());
        }
        match self.push_as(ino, name, shown).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.push_refused(ino, name, version, None, error).await),
        }
    }

    /// Pushes under the lease that was shown, or as this mount.
    async fn push_as(&self, ino: Ino, name: &BlobName, shown: Option<LeaseId>) -> Result<()> {
        let Some(upstream) = self.engine.upstream() else { return Ok(()) };
        match shown {
            Some(_) => Ok(upstream.push(name, self.fence(ino, shown)).await?),
            None => self.engine.push_fenced(&**upstream, ino, name).await,
        }
    }

    /// The same for new content, whatever the service has by now.
    pub(super) async fn push_over(
        &self,
        target: &Target,
        version: ETag,
        shown: Option<LeaseId>,
    ) -> Result<()> {
        let Some(upstream) = self.engine.upstream() else { return Ok(()) };
        let (ino, name) = (target.ino, &target.at.name);
        let fence = Fence { check_version: false, ..self.fence(ino, shown) };
        match upstream.push(name, fence).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.push_refused(ino, name, version, None, error.into()).await),
        }
    }

    /// What the service will never take is undone here: its version takes the place of `version`, unless somebody has
    /// changed that since and is going to be refused, too. Answers what the call failed for.
    async fn push_refused(
        &self,
        ino: Ino,
        name: &BlobName,
        version: ETag,
        file: Option<&OpenFile>,
        error: FsError,
    ) -> FsError {
        let engine = &self.engine;
        let error = match error {
            // Made, or removed, by somebody else.
            FsError::Exists | FsError::NotFound => FsError::Stale,
            other => other,
        };
        if Fenced::of(&error).is_none() {
            // The mirror goes on trying.
            return error;
        }
        if let Some(file) = file.filter(|_| engine.gate.is_living(ino)) {
            // A program's writes are in it and are kept beside.
            return engine.push_file(file).await.err().unwrap_or(error);
        }
        let Ok(Some(guarded)) = engine.guard_name(ino).await else { return error };
        if guarded.at.name == *name {
            engine.let_service_win(name, Some(version)).await;
        }
        error
    }

    /// Removes a blob at the service. The caller removes it here while it has the answer.
    pub(super) async fn remove_there(
        &self,
        ino: Ino,
        at: &BlobPath,
        shown: Option<LeaseId>,
    ) -> Result<Settling> {
        let Some(upstream) = self.engine.upstream() else { return Ok(Settling::nothing()) };
        let fence = Fence { check_version: false, ..self.fence(ino, shown) };
        Ok(upstream.remove(&at.name, fence).await?)
    }
}
