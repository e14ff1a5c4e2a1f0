//! The engine's side of leases: who takes one, who may write beside one, and what happens when one is lost.

use std::sync::{Arc, Weak};

use futures_util::stream::{self, StreamExt};

use crate::share::lease::{Lease, LeaseId};
use crate::store::{BlobName, BlobPath, BlobProperties, Found, LeaseRequest, Preconditions, StoreError};

use super::error::{FsError, Result};
use super::file::Fenced;
use super::gate::Claim;
use super::handles::Handle;
use super::lease_keeper::{LeaseHold, LeaseInfo, LeaseKeeper, Renewal, leased};
use super::names::Segment;
use super::nodes::Ino;
use super::place::Guarded;
use super::remote::Need;
use super::{Engine, now};

/// So many leases are renewed at the same time.
const RENEWALS_AT_ONCE: usize = 8;

/// The task that renews leases. Ends with the engine.
#[derive(Debug)]
pub(super) struct LeaseTask(tokio::task::AbortHandle);

impl LeaseTask {
    /// Looks after the leases of `keeper` as long as the engine is there.
    pub(super) fn start(engine: Weak<Engine>, keeper: Arc<LeaseKeeper>) -> Self {
        let task = tokio::spawn(async move {
            loop {
                let due = keeper.due().await;
                let Some(engine) = engine.upgrade() else { return };
                stream::iter(due)
                    .for_each_concurrent(RENEWALS_AT_ONCE, |ino| engine.tend_due_lease(ino))
                    .await;
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for LeaseTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    /// One use of the lease on `ino` for as long as the answer lives; nothing if the file has no name, and with it no
    /// blob. For callers that hold no guard; they let [`settle_lease`](Self::settle_lease) follow the drop.
    pub(super) async fn hold_lease(&self, ino: Ino) -> Result<Option<LeaseHold>> {
        // What is not at the service yet cannot be leased there.
        if let Some(file) = self.open_file(ino) {
            self.push_file(&file).await?;
        }
        match &self.guard_name(ino).await? {
            Some(Guarded { at, .. }) => {
                self.leases.acquire(ino, &self.lease_place(at)?, now()).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Gives the lease on `ino` back if its last use is gone.
    pub(super) async fn settle_lease(&self, ino: Ino) {
        if self.leases.is_unused(ino) {
            self.tend_lease(ino).await;
        }
    }

    /// Takes the lease that a handle with this claim has to hold, or gives back the one it needs no longer.
    pub(super) async fn fit_lease(&self, handle: &Handle, claim: Claim) -> Result<()> {
        let ino = handle.file.ino();
        let wanted = self.config.fencing.concurrency.takes_lease(claim);
        match (wanted, handle.has_lease()) {
            (true, false) => handle.set_lease(self.hold_lease(ino).await?),
            (false, true) => {
                handle.set_lease(None);
                self.settle_lease(ino).await;
            }
            (true, true) | (false, false) => {}
        }
        Ok(())
    }

    /// Ends the lease on the file with this path in the share, whoever holds it, in so many seconds. False if nobody
    /// holds one. A program of this mount that held it loses it like any other holder.
    pub async fn break_lease(&self, path: &str, after: u8) -> Result<bool> {
        let segments: Result<Vec<Segment>> =
            path.split('/').map(|name| Segment::from_file_name(name.as_bytes())).collect();
        let names: Vec<String> = segments?.iter().map(|segment| segment.as_str().to_owned()).collect();
        let at = self.at(BlobName::new(names.join("/")).map_err(|_| FsError::NotFound)?);
        let request = LeaseRequest::Break { period: Some(after) };
        let store = self.upstream().map_or_else(|| Arc::clone(&self.store), |upstream| upstream.service());
        let at = self.lease_place(&at)?;
        match store.lease_blob(&at, request, &Preconditions::default()).await {
            Ok(_) => Ok(true),
            Err(StoreError::Lease(_)) => Ok(false),
            Err(problem) => Err(problem.into()),
        }
    }

    /// The lease id that a change of this blob must give. Refuses if somebody else holds the lease.
    pub(super) fn lease_for(&self, blob: &BlobProperties) -> Result<Option<LeaseId>> {
        if blob.lease == Lease::default() {
            // Nearly always, and without looking at the clock.
            return Ok(None);
        }
        let now = now();
        let Some(holder) = blob.lease.holder(now) else { return Ok(None) };
        if self.is_own_lease(Ino::of(blob.id), holder) {
            Ok(Some(holder))
        } else {
            Err(leased(&blob.lease, now))
        }
    }

    /// Whether the lease `id` on `ino` is held by this engine, or was by one that died.
    pub(super) fn is_own_lease(&self, ino: Ino, id: LeaseId) -> bool {
        self.leases.id(ino) == Some(id) || self.leases.is_left_over(id)
    }

    /// The conditions of a change that only a stranger's lease forbids.
    pub(super) fn beside_leases(&self, found: &Found) -> Result<Preconditions> {
        let lease = found.blob.as_deref().map(|blob| self.lease_for(blob)).transpose()?.flatten();
        Ok(Preconditions { lease, ..Preconditions::default() })
    }

    /// What a commit on top of `base` says to a store that has `current`, so that it is refused if it comes too late.
    pub(super) fn fence(&self, ino: Ino, base: &BlobProperties, current: &BlobProperties) -> Preconditions {
        let version = if self.config.fencing.concurrency.checks_version() {
            Preconditions::if_version(base.etag)
        } else {
            Preconditions::default()
        };
        if self.upstream().is_some() {
            // The lease is the service's: the push carries it.
            return version;
        }
        let lease = self.leases.id(ino).or_else(|| self.lease_for(current).ok().flatten());
        Preconditions { lease, ..version }
    }

    /// Looks after a lease whose time has come. One whose directory is just being moved must not keep the others
    /// waiting: whoever moves it takes the lease along.
    async fn tend_due_lease(&self, ino: Ino) {
        match self.try_guard_name(ino).await {
            Some(guarded) => self.tend_guarded(ino, guarded).await,
            None => self.leases.put_off(ino),
        }
    }

    /// Renews a lease, or gives it back.
    async fn tend_lease(&self, ino: Ino) {
        self.tend_guarded(ino, self.guard_name(ino).await).await;
    }

    async fn tend_guarded(&self, ino: Ino, guarded: Result<Option<Guarded<'_>>>) {
        let Ok(Some(guarded)) = guarded else {
            // The lease went with the blob.
            return self.leases.forget(ino);
        };
        let Ok(place) = self.lease_place(&guarded.at) else { return };
        if self.leases.is_unused(ino) {
            return self.leases.give_back(ino, Some(&place)).await;
        }
        if self.leases.id(ino).is_none() {
            // Given back by its last user while this call waited for the guard: nothing was lost.
            return;
        }
        match self.leases.renew(ino, &place).await {
            Renewal::Held => {}
            Renewal::Unknown => {
                tracing::warn!(ino = ino.0, at = %guarded.at, "a lease could not be renewed yet");
            }
            Renewal::Lost => self.lease_lost(ino, &guarded),
        }
    }

    /// Stops the writes to a file whose lease is gone, and keeps what was written.
    pub(super) fn lease_lost(&self, ino: Ino, guarded: &Guarded<'_>) {
        tracing::warn!(ino = ino.0, at = %guarded.at, "the lease was lost; writes to the file fail from now on");
        if let Some(file) = self.open_file(ino) {
            // Whoever writes learns it from the next call; here it is enough that nothing is lost.
            drop(self.set_aside(&file, guarded, Fenced::LeaseLost));
        }
    }

    /// Gives the leases below `directory` (or on the file itself) up for a moment: their blobs are going to have other
    /// names, and at a service leases do not move along. For holders of the guards.
    pub(super) async fn leave_leases(&self, directory: Ino) -> Vec<Ino> {
        let mut left = Vec::new();
        if self.upstream().is_none() {
            return left;
        }
        for lease in self.leases.list() {
            if !lease.lost
                && self.nodes.is_within(lease.ino, directory)
                && let Ok(Some(name)) = self.nodes.blob_name(lease.ino)
                && let Ok(place) = self.lease_place(&self.at(name))
            {
                self.leases.leave(lease.ino, &place).await;
                left.push(lease.ino);
            }
        }
        left
    }

    /// Takes the leases again where the blobs are now.
    pub(super) async fn follow_leases(&self, left: Vec<Ino>) {
        for ino in left {
            let Ok(Some(name)) = self.nodes.blob_name(ino) else { continue };
            let Ok(at) = self.lease_place(&self.at(name)) else { continue };
            if self.leases.follow(ino, &at).await == Renewal::Lost {
                tracing::warn!(ino = ino.0, %at, "the lease was lost while the file was renamed");
                if let Some(file) = self.open_file(ino) {
                    file.fence_off(Fenced::LeaseLost);
                }
            }
        }
    }

    /// Whether the lease of `ino`, which the store just refused, is ours after all: it ran out, and nobody wrote.
    pub(super) async fn lease_revived(&self, ino: Ino, at: &BlobPath) -> bool {
        self.leases.renew(ino, at).await == Renewal::Held
    }

    /// All leases that are held, for status.
    pub fn lease_list(&self) -> Vec<LeaseInfo> {
        self.leases.list()
    }

    /// How many leases were lost since the start.
    pub fn leases_lost(&self) -> u64 {
        self.leases.lost()
    }

    /// Gives all leases back. For the end: nothing is written afterwards.
    pub async fn release_leases(&self) {
        for ino in self.leases.abandon_all() {
            self.tend_lease(ino).await;
        }
    }

    /// Takes what others committed to an open file that nobody here is changing; says whether there was anything.
    ///
    /// Not while the kernel serves the file: its programs have the old version until they close it.
    pub async fn revalidate(&self, ino: Ino) -> Result<bool> {
        let Some(file) = self.open_file(ino) else { return Ok(false) };
        let ready = self.make_ready(ino, false, Need::Read).await?;
        let Some(Guarded { at, .. }) = &self.guard_name(ino).await? else { return Ok(false) };
        let store = self.local()?;
        let blob = store.find(at)?.blob.ok_or(FsError::Stale)?;
        if !self.is_ready(ready.as_ref(), Need::Read, blob.etag) {
            // Somebody else is just bringing another version; the next open has it.
            return Ok(false);
        }
        let fetch = ready.and_then(|ready| ready.fetch);
        let changed = file.refresh(blob.etag, || Ok((store.reader(at)?, fetch)))?;
        if changed {
            self.nodes.set_cached(ino, None);
        }
        Ok(changed)
    }
}
