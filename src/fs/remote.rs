//! A share whose blobs are elsewhere: the engine works on a mirror of them, and this is where it asks and tells the
//! service.
//!
//! ```text
//!   look-up, list, stat      refreshed first, with no guard held
//!   open                     asked for whatever is known; content is made ready for that very version
//!   commit                   to the mirror under the guards, then pushed without them
//!   push refused             the content is kept beside the file, and the service's version takes its place
//! ```
//!
//! A share of this machine has no [`Remote`], and every function here is then done at once. Never decides who may open
//! what: the gate does.

use std::sync::Arc;
use std::time::Duration;

use crate::share::lease::LeaseId;
use crate::store::{
    BlobName, BlobPath, Changed, Changing, ETag, Fence, Fetch, Ready, Refused, Settling, Standing,
    StoreError, Upstream,
};

use super::Engine;
use super::content::COPY_MAX;
use super::early;
use super::error::{FsError, Result};
use super::file::{Fenced, OpenFile};
use super::names::{RESERVED, Segment};
use super::nodes::{Ino, ROOT};
use super::open::{OpenRequest, Opened};

/// How often an open starts again because the mirror got another version meanwhile.
pub(super) const OUTRUN_MAX: usize = 8;

/// How often a push is sent again because the lease on its blob was taken or given back here meanwhile.
const LEASE_CHANGES_MAX: usize = 16;

/// How often a commit pushes again what was noted beside it, before that is left to others.
const PUSHES_MAX: usize = 4;

/// The service behind a mirror.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) upstream: Arc<dyn Upstream>,
    /// How long front ends may rely on names and attributes.
    pub(super) attr_ttl: Duration,
    /// The task that keeps what the service refuses later.
    keeper: tokio::task::AbortHandle,
    /// The task that tells it of what is being written.
    early: tokio::task::AbortHandle,
}

impl Remote {
    /// Starts to look after what `upstream` refuses on behalf of the engine.
    pub(super) fn start(
        upstream: Arc<dyn Upstream>,
        attr_ttl: Duration,
        engine: std::sync::Weak<Engine>,
    ) -> Self {
        let source = Arc::clone(&upstream);
        let early = early::start(std::sync::Weak::clone(&engine));
        let keeper = tokio::spawn(async move {
            loop {
                let refused = source.refused().await;
                let Some(engine) = engine.upgrade() else { return };
                engine.keep_refused(refused).await;
            }
        });
        Self { upstream, attr_ttl, keeper: keeper.abort_handle(), early }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.keeper.abort();
        self.early.abort();
    }
}

/// What an open is going to need of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It is read.
    Read,
    /// It is changed.
    Change,
    /// It is thrown away.
    Nothing,
}

impl Engine {
    /// The service, if the blobs are elsewhere.
    pub fn upstream(&self) -> Option<&Arc<dyn Upstream>> {
        self.remote.as_ref().map(|remote| &remote.upstream)
    }

    /// How long a front end may rely on names and attributes; nothing: until it is told otherwise.
    pub fn attr_ttl(&self) -> Option<Duration> {
        self.remote.as_ref().map(|remote| remote.attr_ttl)
    }

    /// Where a blob, and its lease, is at the service.
    pub(super) fn lease_place(&self, at: &BlobPath) -> Result<BlobPath> {
        match self.upstream() {
            Some(upstream) => Ok(upstream.there(&at.name)?),
            None => Ok(at.clone()),
        }
    }

    /// Brings a name in a directory up to date. For callers without guards.
    pub(super) async fn refresh_child(&self, parent: Ino, segment: &Segment) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        if parent == ROOT && segment.as_str() == RESERVED {
            return Ok(());
        }
        let name = {
            let _entry = self.entry_stays(parent, segment).await;
            self.nodes.child_name(parent, segment)?
        };
        Ok(upstream.refresh_name(&name).await?)
    }

    /// The name that `ino` has at the service, when its directory is not being moved there. For callers without guards.
    pub(super) async fn name_there(&self, ino: Ino) -> Result<Option<BlobName>> {
        let _path = self.path_stays(ino).await;
        self.nodes.blob_name(ino)
    }

    /// The same for a number. What has no name needs nothing.
    pub(super) async fn refresh_node(&self, ino: Ino) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        match self.name_there(ino).await {
            Ok(Some(name)) => Ok(upstream.refresh_name(&name).await?),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Brings the names in a directory up to date.
    pub(super) async fn refresh_entries(&self, directory: Ino) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        match self.name_there(directory).await {
            Ok(name) => Ok(upstream.refresh_directory(name.as_ref()).await?),
            // Removed while it is open: nothing is in it.
            Err(FsError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks the service about a file that is going to be opened, and makes its content ready. A stranger's lease
    /// refuses writers.
    pub(super) async fn make_ready(&self, ino: Ino, writes: bool, need: Need) -> Result<Option<Ready>> {
        let Some(upstream) = self.upstream() else { return Ok(None) };
        let Ok(Some(name)) = self.name_there(ino).await else { return Ok(None) };
        let Standing { leased, .. } = upstream.revalidate(&name).await?;
        if leased && writes && self.is_strangers_lease(&**upstream, ino, &name).await? {
            return Err(FsError::Leased("held at the service".to_owned()));
        }
        if need == Need::Nothing {
            return Ok(None);
        }
        let ready = match upstream.content(&name).await {
            // Whoever opens it finds out what is there instead.
            Err(StoreError::BlobNotFound(_)) => return Ok(None),
            other => other?,
        };
        if let (Need::Change, Some(fetch)) = (need, &ready.fetch) {
            let size = self.local()?.find(&self.at(name))?.blob.map_or(0, |blob| blob.size);
            if size <= COPY_MAX {
                fetch.bring(0..size).await?;
            }
        }
        Ok(Some(ready))
    }

    /// Whether the lease that the service told of is not this mount's own, taken or given back while it was asked.
    pub(super) async fn is_strangers_lease(
        &self,
        upstream: &dyn Upstream,
        ino: Ino,
        name: &BlobName,
    ) -> Result<bool> {
        if self.leases.id(ino).is_some() {
            return Ok(false);
        }
        // Who takes the lease, or gives it back, holds the guard of the name: under it the answer is certain.
        let _name = self.guard_name(ino).await?;
        Ok(self.leases.id(ino).is_none() && upstream.revalidate(name).await?.leased)
    }

    /// Whether content of `version` can be opened with what was made ready. A share of this machine always can.
    pub(super) fn is_ready(&self, ready: Option<&Ready>, need: Need, version: ETag) -> bool {
        self.remote.is_none() || need == Need::Nothing || ready.is_some_and(|ready| ready.version == version)
    }

    /// Brings bytes of an open file.
    pub(super) async fn bring(&self, file: &OpenFile, range: std::ops::Range<u64>) -> Result<()> {
        let Some(fetch) = file.fetch() else { return Ok(()) };
        match fetch.bring(range.clone()).await {
            // Our own push made another version, in which these bytes are the same.
            Err(StoreError::ConditionNotMet | StoreError::BlobNotFound(_)) => {
                match self.renew_fetch(file).await? {
                    Some(fetch) => Ok(fetch.bring(range).await?),
                    None => Ok(()),
                }
            }
            other => Ok(other?),
        }
    }

    /// Runs `action` on an open file, bringing what it needs and does not find here.
    pub(super) async fn with_bytes<T>(
        &self,
        file: &OpenFile,
        mut action: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match action() {
                Err(FsError::NotHere(range)) => self.bring(file, range).await?,
                other => return other,
            }
        }
    }

    /// Asks anew how to bring bytes of the version that is open. [`FsError::Stale`] if the service has another one.
    async fn renew_fetch(&self, file: &OpenFile) -> Result<Option<Arc<dyn Fetch>>> {
        let Some(upstream) = self.upstream() else { return Ok(None) };
        let name = self.name_there(file.ino()).await?.ok_or(FsError::Stale)?;
        let ready = upstream.content(&name).await?;
        if ready.version != file.base().etag {
            return Err(FsError::Stale);
        }
        file.set_fetch(ready.fetch.clone());
        Ok(ready.fetch)
    }

    /// Notes that a blob of the share is going to be changed here and must be pushed. Before the change; what it answers
    /// is kept until the change is made.
    pub(super) fn will_change(&self, name: &BlobName, what: Changed<'_>) -> Result<Changing> {
        match self.upstream() {
            Some(upstream) => Ok(upstream.will_change(name, what)?),
            None => Ok(Changing::nothing()),
        }
    }

    /// The same for a commit of what an open file has.
    pub(super) fn will_commit(&self, name: &BlobName, file: &OpenFile) -> Result<Changing> {
        let Some(upstream) = self.upstream() else { return Ok(Changing::nothing()) };
        let ranges = file.changed_ranges();
        let what = ranges.as_deref().map_or(Changed::Everything, Changed::Ranges);
        Ok(upstream.will_change(name, what)?)
    }

    /// Notes what a commit under this name has made of an open file, before its announcement ends: what is written in
    /// place from now on shows in the mirror before the next commit.
    pub(super) fn note_in_place(&self, name: &BlobName, file: &OpenFile) -> Result<()> {
        match self.upstream() {
            Some(upstream) if file.is_in_place() => Ok(upstream.in_place(name)?),
            Some(_) | None => Ok(()),
        }
    }

    /// How the service protects a change of `ino`.
    pub(super) fn push_fence(&self, ino: Ino) -> Fence {
        let shown = || self.open_file(ino)?.shown();
        let lease = self.leases.id(ino).or_else(shown);
        Fence { lease, check_version: self.config.fencing.concurrency.checks_version() }
    }

    /// Pushes a name. A refusal because of a lease that this mount took or gave back meanwhile is none. For callers
    /// without guards.
    pub(super) async fn push_fenced(&self, upstream: &dyn Upstream, ino: Ino, name: &BlobName) -> Result<()> {
        for _ in 1..LEASE_CHANGES_MAX {
            let fence = self.push_fence(ino);
            match upstream.push(name, fence).await {
                Err(StoreError::Lease(_)) if self.settled_lease(ino).await != fence.lease => {}
                other => return Ok(other?),
            }
        }
        Ok(upstream.push(name, self.push_fence(ino)).await?)
    }

    /// The lease for a push, when nobody is just taking it or giving it back: whoever does holds the guard of the name.
    async fn settled_lease(&self, ino: Ino) -> Option<LeaseId> {
        let _name = self.guard_name(ino).await;
        self.push_fence(ino).lease
    }

    /// Pushes what was committed of an open file and is not there yet. For callers without guards.
    pub(super) async fn push_file(&self, file: &OpenFile) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        let ino = file.ino();
        let mut pushes = 0;
        // What others note beside this is pushed along, but not for ever: they push it, too.
        while let Some(count) = file.unpushed().filter(|_| pushes < PUSHES_MAX) {
            if self.gate.is_delete_pending(ino) {
                // Going away; should it be taken back, it is pushed then.
                return Ok(());
            }
            // Without a name there is nothing to push to.
            let Ok(Some(name)) = self.nodes.blob_name(ino) else { return Ok(()) };
            match self.push_fenced(&**upstream, ino, &name).await {
                // Moved meanwhile: pushed under its new name.
                Ok(()) if !self.is_named(ino, &name) => {}
                Ok(()) => {
                    pushes += 1;
                    file.note_pushed(count);
                    if file.fetch().is_some()
                        && let Err(error) = self.renew_fetch(file).await
                    {
                        tracing::debug!(ino = ino.0, %error, "what is not here yet cannot be brought now");
                    }
                }
                Err(error) => return self.push_refused(file, &name, error).await,
            }
        }
        Ok(())
    }

    /// After the last close of a file: if it was written in place, nothing changes it without a commit any more.
    pub(super) async fn settle_in_place(&self, file: &OpenFile) {
        let Some(upstream) = self.upstream().filter(|_| file.is_in_place()) else { return };
        let ino = file.ino();
        let name = {
            let Ok(Some(guarded)) = self.guard_name(ino).await else { return };
            let again = self.open_file(ino).is_some_and(|file| file.is_in_place());
            if again || self.gate.is_delete_pending(ino) {
                // Whoever opened it again closes it, too; and what is going away is not pushed.
                return;
            }
            upstream.at_rest(&guarded.at.name);
            guarded.at.name.clone()
        };
        if let Err(error) = self.push_fenced(&**upstream, ino, &name).await {
            tracing::debug!(%name, %error, "to be pushed again");
        }
    }

    /// A change that the mirror did not take, because it has another version by now, was announced in vain: until that
    /// is taken back, no other version of the service's would be taken, either. For callers without guards.
    pub(super) async fn call_off(&self, ino: Ino) {
        if let (Some(upstream), Ok(Some(name))) = (self.upstream(), self.nodes.blob_name(ino))
            && let Err(error) = self.push_fenced(&**upstream, ino, &name).await
        {
            tracing::debug!(%name, %error, "what others changed is pushed later");
        }
    }

    fn is_named(&self, ino: Ino, name: &BlobName) -> bool {
        self.nodes.blob_name(ino).is_ok_and(|now| now.as_ref() == Some(name))
    }

    /// What the service would not take is kept beside, unless it was a misunderstanding about our own lease.
    async fn push_refused(&self, file: &OpenFile, name: &BlobName, error: FsError) -> Result<()> {
        let ino = file.ino();
        let Some(mut why) = fenced(&error) else { return Err(error) };
        let Some(upstream) = self.upstream() else { return Err(error) };
        if why == Fenced::Leased && self.leases.id(ino).is_some() {
            if self.lease_revived(ino, &upstream.there(name)?).await
                && self.push_fenced(&**upstream, ino, name).await.is_ok()
            {
                return Ok(());
            }
            why = Fenced::LeaseLost;
        }
        self.bring_all(file).await;
        let (refusal, version) = {
            let Some(guarded) = self.guard_name(ino).await? else { return Ok(()) };
            file.must_be_saved();
            (self.set_aside(file, &guarded, why), file.base().etag)
        };
        file.note_pushed(file.unpushed().unwrap_or(0));
        self.push_aside(file).await;
        self.let_service_win(name, Some(version)).await;
        Err(refusal)
    }

    /// Pushes the conflict copy of a file, if it has one. Should that fail, the mirror has it and tries again.
    pub(super) async fn push_aside(&self, file: &OpenFile) {
        if let (Some(upstream), Some(copy)) = (self.upstream(), file.aside()) {
            // Never over a copy that another mount made.
            let plain = Fence { lease: None, check_version: true };
            if let Err(error) = upstream.push(&copy.name, plain).await {
                tracing::warn!(%copy, %error, "a conflict copy is only in the cache directory as yet");
            }
        }
    }

    pub(super) async fn let_service_win(&self, name: &BlobName, version: Option<ETag>) {
        if let (Some(upstream), Some(version)) = (self.upstream(), version)
            && let Err(error) = upstream.give_up(name, version).await
        {
            tracing::warn!(%name, %error, "the service's version could not be taken yet");
        }
    }

    /// Brings everything of an open file, as far as that is possible: before it is copied to another name.
    pub(super) async fn bring_all(&self, file: &OpenFile) {
        if file.is_all_here() {
            return;
        }
        if let Err(error) = self.bring(file, 0..u64::MAX).await {
            // The version they belong to is gone; what was written is kept without them.
            tracing::error!(ino = file.ino().0, %error, "parts that were never read cannot be brought any more and are zeros in the copy");
            file.set_fetch(None);
        }
    }

    /// Pushes a change of a name that is not, or need not be, open. A refusal undoes it here.
    pub(super) async fn push_name(&self, ino: Ino, name: &BlobName) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        if let Some(file) = self.open_file(ino)
            && file.unpushed().is_some()
        {
            // Goes with its next commit.
            file.note_unpushed();
            return Ok(());
        }
        let version = self.version_here(name)?;
        match self.push_fenced(&**upstream, ino, name).await {
            Ok(()) => Ok(()),
            Err(error) => {
                if fenced(&error).is_some() {
                    self.let_service_win(name, version).await;
                }
                Err(error)
            }
        }
    }

    /// The mirror's version of a name.
    fn version_here(&self, name: &BlobName) -> Result<Option<ETag>> {
        Ok(self.local()?.find(&self.at(name.clone()))?.blob.map(|blob| blob.etag))
    }

    /// Pushes something that was just made and is not open. If that fails, it was not made.
    pub(super) async fn push_made(&self, ino: Ino, name: &BlobName) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        let version = self.version_here(name)?;
        let pushed = self.push_fenced(&**upstream, ino, name).await;
        if pushed.is_err() {
            self.let_service_win(name, version).await;
        }
        match pushed {
            Err(FsError::Stale) => Err(FsError::Exists),
            other => other,
        }
    }

    /// Pushes the marker of a directory, which nobody has a lease on here; also for holders of guards. That somebody
    /// else made one is as good.
    pub(super) async fn push_marker(&self, name: &BlobName) -> Result<()> {
        let Some(upstream) = self.upstream() else { return Ok(()) };
        let version = self.version_here(name)?;
        let fence = Fence { lease: None, check_version: self.config.fencing.concurrency.checks_version() };
        let Err(error) = upstream.push(name, fence).await else { return Ok(()) };
        self.let_service_win(name, version).await;
        match FsError::from(error) {
            FsError::Exists | FsError::Stale => Ok(()),
            error => Err(error),
        }
    }

    /// Makes a file that was just created exist at the service at once, if it must: because its creator asked for the
    /// name to be new, or holds its lease. Others are there with their first commit.
    pub(super) async fn reserve(&self, opened: &Opened, request: OpenRequest) -> Result<()> {
        if self.upstream().is_none() {
            return Ok(());
        }
        let handle = self.handles.peek(opened.handle)?;
        let claim = handle.permit.claim().ok_or(FsError::BadHandle)?;
        let leases = self.config.fencing.concurrency.takes_lease(claim);
        if !request.exclusive && !leases {
            return Ok(());
        }
        let reserved = async {
            let name = self.nodes.blob_name(handle.file.ino())?.ok_or(FsError::NotFound)?;
            let count = handle.file.unpushed().unwrap_or(0);
            self.push_made(handle.file.ino(), &name).await?;
            handle.file.note_pushed(count);
            self.fit_lease(&handle, claim).await
        }
        .await;
        if reserved.is_err() {
            let ino = handle.file.ino();
            drop(handle);
            let handle = self.handles.remove(opened.handle)?;
            self.give_up(&handle.file);
            self.leave(ino, &handle.permit).await;
            self.nodes.forget(ino, 1);
        }
        reserved
    }

    /// Brings all of a small blob that is read without being opened.
    pub(super) async fn bring_whole(&self, ino: Ino) -> Result<()> {
        if let Some(Ready { fetch: Some(fetch), .. }) = self.make_ready(ino, false, Need::Read).await? {
            fetch.bring(0..u64::MAX).await?;
        }
        Ok(())
    }

    /// Removes a blob at the service. The caller removes it here while it has the answer.
    pub(super) async fn remove_there(&self, ino: Option<Ino>, at: &BlobPath) -> Result<Settling> {
        let Some(upstream) = self.upstream() else { return Ok(Settling::nothing()) };
        let fence = Fence { lease: ino.and_then(|ino| self.leases.id(ino)), check_version: false };
        Ok(upstream.remove(&at.name, fence).await?)
    }

    /// Keeps what was to be pushed later and was refused then.
    async fn keep_refused(&self, Refused { name, error }: Refused) {
        let error = FsError::from(error);
        let why = fenced(&error).unwrap_or(Fenced::Failed);
        if let Err(error) = self.keep_refused_as(&name, why).await {
            tracing::error!(%name, %error, "content that the service refused stays in the cache directory");
        }
    }

    async fn keep_refused_as(&self, name: &BlobName, why: Fenced) -> Result<()> {
        let at = self.at(name.clone());
        let Some(blob) = self.local()?.find(&at)?.blob else { return Ok(()) };
        let ino = Ino::of(blob.id);
        if let Some(file) = self.open_file(ino) {
            return match self.push_refused(&file, name, why.into()).await {
                // Whoever has it open is told by its next flush.
                Ok(()) | Err(FsError::Stale | FsError::Leased(_) | FsError::LeaseLost) => Ok(()),
                Err(error) => Err(error),
            };
        }
        let Some(upstream) = self.upstream() else { return Ok(()) };
        if let Some(fetch) = upstream.content(name).await?.fetch {
            fetch.bring(0..u64::MAX).await?;
        }
        if let Some((copy, version)) = self.copy_aside(&at, why)? {
            upstream.push(&copy.name, Fence { lease: None, check_version: true }).await?;
            self.let_service_win(name, Some(version)).await;
        }
        Ok(())
    }
}

/// Whether the service will not take a change later, either.
fn fenced(error: &FsError) -> Option<Fenced> {
    match error {
        // A name that was to be new is not.
        FsError::Exists => Some(Fenced::Stale),
        other => Fenced::of(other),
    }
}
