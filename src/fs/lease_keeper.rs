//! Keeps the leases that an engine's opens and range locks hold on blobs.
//!
//! All uses of one file share one lease; it is taken with the first and given back with the last. Each acquire
//! proposes an id of our own, so that one whose answer was lost can be repeated.
//!
//! ```text
//!            acquire              renewed in time (a third of the duration)
//!   (none) ----------> HELD <---------------------------------+
//!      ^                | |                                   |
//!      |   last use     | +-----------------------------------+
//!      |   gone         |
//!      +----------------+---- renew refused, the blob is gone, or no answer for a whole duration ----> LOST
//!      |                                                                                                |
//!      +------------------------------------------ last use gone ---------------------------------------+
//!                                                (an acquire takes a new lease: HELD)
//! ```
//!
//! Times are the runtime's monotonic clock, counted from before the request: the store's clock never starts earlier.
//! Knows blobs and numbers of files, never names: whoever calls says where the blob is, and holds the guard of that
//! name, so the blob does not move meanwhile and no two calls for one file meet.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::share::Moment;
use crate::share::lease::{Lease, LeaseDuration, LeaseId, LeaseRefusal};
use crate::store::{BlobPath, BlobStore, LeaseRequest, Preconditions, StoreError, Upstream};

use super::error::{FsError, Result};
use super::nodes::Ino;

#[cfg(test)]
mod tests;

/// An infinite lease is asked after as often as one of this duration: somebody may have broken it.
const INFINITE_AS: Duration = Duration::from_secs(60);

/// Leases on a store of this machine begin with this. Only one engine at a time has such a store, so one that begins
/// like this and is not in the table was left by an engine that died.
const OWN_MARK: u128 = 0x1ea5_ef50_1ea5_4ef5 << 64;
const MARK_BITS: u128 = !0 << 64;

/// How often an acquire or release is sent again when the store did not answer.
const TRIES: usize = 3;

/// All leases of one engine.
#[derive(Debug)]
pub struct LeaseKeeper {
    store: Store,
    /// Where leases are noted that outlive the engine should it die.
    notes: Option<Arc<dyn Upstream>>,
    duration: LeaseDuration,
    leases: Mutex<HashMap<Ino, Kept>>,
    /// How many there are, so that those who hold none need no mutex.
    count: AtomicUsize,
    next_epoch: AtomicU64,
    /// Rings when there is something new to look after.
    changed: Notify,
    lost: AtomicU64,
}

/// The store, without what cannot be printed.
struct Store(Arc<dyn BlobStore>);

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

#[derive(Debug)]
struct Kept {
    id: LeaseId,
    /// Where its blob was last.
    at: BlobPath,
    /// Tells this entry from a later one for the same file.
    epoch: u64,
    uses: usize,
    state: Keeping,
    since: Moment,
    /// Before the last request that the store answered with yes.
    confirmed: Instant,
    /// When to look after it.
    next: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    Held,
    Lost,
}

/// One use of a file's lease. The last one that is dropped ends the lease.
#[derive(Debug)]
pub struct LeaseHold {
    keeper: Arc<LeaseKeeper>,
    ino: Ino,
    epoch: u64,
}

/// A lease, for status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The file.
    pub ino: Ino,
    /// The lease's id.
    pub id: LeaseId,
    /// How many opens and range locks share it.
    pub uses: usize,
    /// Since when it is held.
    pub since: Moment,
    /// It is not held any more, but its users are still there.
    pub lost: bool,
}

/// How a renewal went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is held.
    Held,
    /// It is not held any more.
    Lost,
    /// The store did not answer; it is tried again soon.
    Unknown,
}

impl LeaseKeeper {
    /// Keeps leases of this duration on blobs of a store of this machine.
    pub fn new(store: Arc<dyn BlobStore>, duration: LeaseDuration) -> Arc<Self> {
        Self::noting(store, duration, None)
    }

    /// The same for blobs elsewhere; the leases are noted in their mirror.
    pub fn of_service(upstream: &Arc<dyn Upstream>, duration: LeaseDuration) -> Arc<Self> {
        Self::noting(upstream.service(), duration, Some(Arc::clone(upstream)))
    }

    fn noting(
        store: Arc<dyn BlobStore>,
        duration: LeaseDuration,
        notes: Option<Arc<dyn Upstream>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: Store(store),
            notes,
            duration,
            leases: Mutex::default(),
            count: AtomicUsize::new(0),
            next_epoch: AtomicU64::new(1),
            changed: Notify::new(),
            lost: AtomicU64::new(0),
        })
    }

    /// One more use of the lease on `ino`, whose blob is `at`; takes the lease if nobody has it yet.
    /// [`FsError::Leased`] if somebody else does.
    pub async fn acquire(self: &Arc<Self>, ino: Ino, at: &BlobPath, now: Moment) -> Result<LeaseHold> {
        if let Some(hold) = self.share(ino) {
            return Ok(hold);
        }
        let proposed = self.propose();
        let started = Instant::now();
        self.note(at, proposed);
        if let Err(error) = self.ask_to_acquire(at, proposed, now).await {
            if matches!(error, FsError::Leased(_) | FsError::NotFound) {
                self.strike(at, proposed);
            }
            return Err(error);
        }
        let mut leases = self.leases.lock();
        let kept = leases.entry(ino).or_insert_with(|| Kept {
            id: proposed,
            at: at.clone(),
            epoch: self.next_epoch.fetch_add(1, Ordering::Relaxed),
            uses: 0,
            state: Keeping::Held,
            since: now,
            confirmed: started,
            next: started,
        });
        (kept.id, kept.state, kept.since, kept.confirmed) = (proposed, Keeping::Held, now, started);
        kept.at.clone_from(at);
        kept.next = started + self.pace(ino, proposed);
        kept.uses += 1;
        let epoch = kept.epoch;
        self.count.store(leases.len(), Ordering::Release);
        drop(leases);
        self.changed.notify_one();
        tracing::debug!(ino = ino.0, %at, id = %proposed, "lease taken");
        Ok(LeaseHold { keeper: Arc::clone(self), ino, epoch })
    }

    /// Notes a lease that is going to be asked for. Without the note it would keep the next mount out for a while should
    /// this one die, no worse.
    fn note(&self, at: &BlobPath, id: LeaseId) {
        if let Some(Err(error)) = self.notes.as_ref().map(|notes| notes.note_lease(at, id)) {
            tracing::warn!(%at, %error, "a lease could not be noted in the cache directory");
        }
    }

    /// A lease is not held any more.
    fn strike(&self, at: &BlobPath, id: LeaseId) {
        if let Some(Err(error)) = self.notes.as_ref().map(|notes| notes.strike_lease(at, id)) {
            tracing::debug!(%at, %error, "a lease stays noted in the cache directory");
        }
    }

    /// One more use, if the lease is held already.
    fn share(self: &Arc<Self>, ino: Ino) -> Option<LeaseHold> {
        let mut leases = self.leases.lock();
        let kept = leases.get_mut(&ino).filter(|kept| kept.state == Keeping::Held)?;
        kept.uses += 1;
        Some(LeaseHold { keeper: Arc::clone(self), ino, epoch: kept.epoch })
    }

    async fn ask_to_acquire(&self, at: &BlobPath, proposed: LeaseId, now: Moment) -> Result<()> {
        let request = LeaseRequest::Acquire { proposed, duration: self.duration };
        let refused = match self.ask(at, request).await {
            Ok(()) => return Ok(()),
            Err(StoreError::Lease(_)) => self.present(at).await?,
            Err(error) => return Err(error.into()),
        };
        // Left by an engine that died: taken over by its own id, then given a new one.
        let old =
            refused.holder(now).filter(|id| self.is_left_over(*id)).ok_or_else(|| leased(&refused, now))?;
        self.ask(at, LeaseRequest::Release { id: old }).await?;
        match self.ask(at, request).await {
            Err(StoreError::Lease(_)) => Err(leased(&refused, now)),
            other => Ok(other?),
        }
    }

    async fn present(&self, at: &BlobPath) -> Result<Lease> {
        let always = Preconditions::default();
        Ok(self.store.0.blob_properties(at, None, &always).await?.lease)
    }

    /// Sends a request again when the store did not answer; each of ours can be repeated.
    async fn ask(&self, at: &BlobPath, request: LeaseRequest) -> std::result::Result<(), StoreError> {
        let always = Preconditions::default();
        let mut tries = 1;
        loop {
            match self.store.0.lease_blob(at, request, &always).await {
                Err(StoreError::Io { .. }) if tries < TRIES => tries += 1,
                other => return other.map(drop),
            }
        }
    }

    fn propose(&self) -> LeaseId {
        let random = uuid::Uuid::new_v4().as_u128();
        match self.store.0.local() {
            Some(_) => LeaseId(OWN_MARK | (random & !MARK_BITS)),
            None => LeaseId(random),
        }
    }

    /// Whether a lease with this id was left by an engine that died.
    pub fn is_left_over(&self, id: LeaseId) -> bool {
        self.store.0.local().is_some()
            && id.0 & MARK_BITS == OWN_MARK
            && !self.leases.lock().values().any(|kept| kept.id == id)
    }

    /// The id that a write to `ino` must give, if we hold its lease.
    pub fn id(&self, ino: Ino) -> Option<LeaseId> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let leases = self.leases.lock();
        leases.get(&ino).filter(|kept| kept.state == Keeping::Held).map(|kept| kept.id)
    }

    /// Whether `ino` has a lease that nobody uses any more, or one that was lost.
    pub fn is_unused(&self, ino: Ino) -> bool {
        self.leases.lock().get(&ino).is_some_and(|kept| kept.uses == 0)
    }

    /// Asks the store whether the lease of `ino` is still ours, and for another duration of it. A lease that ran out
    /// is renewed too; that it can be proves that nobody wrote.
    pub async fn renew(&self, ino: Ino, at: &BlobPath) -> Renewal {
        let Some(id) = self.id(ino) else { return Renewal::Lost };
        let started = Instant::now();
        let always = Preconditions::default();
        let answer = self.store.0.lease_blob(at, LeaseRequest::Renew { id }, &always).await;
        let mut leases = self.leases.lock();
        let Some(kept) = leases.get_mut(&ino).filter(|kept| kept.id == id) else { return Renewal::Lost };
        let overdue = !self.duration.is_infinite() && started >= kept.confirmed + self.whole();
        let renewal = match answer {
            Ok(_) => Renewal::Held,
            Err(StoreError::Lease(_) | StoreError::BlobNotFound(_) | StoreError::ContainerNotFound(_)) => {
                Renewal::Lost
            }
            Err(_) if overdue => Renewal::Lost,
            Err(_) => Renewal::Unknown,
        };
        match renewal {
            Renewal::Held => {
                kept.confirmed = started;
                kept.next = started + self.pace(ino, id);
            }
            Renewal::Unknown => kept.next = started + self.pace(ino, id) / 4,
            Renewal::Lost => {
                kept.state = Keeping::Lost;
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        renewal
    }

    /// Gives the lease of `ino` up at `at`, because the blob is going to be elsewhere; [`follow`](Self::follow) takes
    /// it there.
    pub async fn leave(&self, ino: Ino, at: &BlobPath) {
        let Some(id) = self.id(ino) else { return };
        match self.ask(at, LeaseRequest::Release { id }).await {
            Ok(()) => self.strike(at, id),
            Err(error) => tracing::debug!(ino = ino.0, %at, %error, "a lease could not be given up"),
        }
    }

    /// Takes the lease of `ino` again at `at`, where its blob is now.
    pub async fn follow(&self, ino: Ino, at: &BlobPath) -> Renewal {
        let Some(id) = self.id(ino) else { return Renewal::Lost };
        let started = Instant::now();
        self.note(at, id);
        let taken = self.ask(at, LeaseRequest::Acquire { proposed: id, duration: self.duration }).await;
        let mut leases = self.leases.lock();
        let Some(kept) = leases.get_mut(&ino).filter(|kept| kept.id == id) else { return Renewal::Lost };
        kept.at.clone_from(at);
        if taken.is_ok() {
            kept.confirmed = started;
            kept.next = started + self.pace(ino, id);
            Renewal::Held
        } else {
            kept.state = Keeping::Lost;
            self.lost.fetch_add(1, Ordering::Relaxed);
            Renewal::Lost
        }
    }

    /// Gives the lease of `ino` back if nobody uses it any more. Without a blob there is nothing to give back.
    pub async fn give_back(&self, ino: Ino, at: Option<&BlobPath>) {
        let unused = {
            let mut leases = self.leases.lock();
            let unused = leases.get(&ino).is_some_and(|kept| kept.uses == 0);
            let kept = if unused { leases.remove(&ino) } else { None };
            self.count.store(leases.len(), Ordering::Release);
            kept
        };
        let Some(kept) = unused else { return };
        let Some(at) = at.filter(|_| kept.state == Keeping::Held) else {
            return self.strike(&kept.at, kept.id);
        };
        let released = self.ask(at, LeaseRequest::Release { id: kept.id }).await;
        if !matches!(released, Err(StoreError::Io { .. })) {
            self.strike(at, kept.id);
        }
        match released {
            Ok(()) => tracing::debug!(ino = ino.0, %at, id = %kept.id, "lease given back"),
            // It ends by itself in at most one duration; or somebody ended it already.
            Err(error) => tracing::debug!(ino = ino.0, %at, %error, "a lease could not be given back"),
        }
    }

    /// Forgets the lease of a file that has no blob any more.
    pub fn forget(&self, ino: Ino) {
        let forgotten = {
            let mut leases = self.leases.lock();
            let forgotten = leases.remove(&ino);
            self.count.store(leases.len(), Ordering::Release);
            forgotten
        };
        if let Some(kept) = forgotten {
            self.strike(&kept.at, kept.id);
        }
    }

    /// Ends every use: the engine stops.
    pub fn abandon_all(&self) -> Vec<Ino> {
        let mut leases = self.leases.lock();
        leases.values_mut().for_each(|kept| kept.uses = 0);
        leases.keys().copied().collect()
    }

    /// Waits until leases have to be looked after, and says which.
    pub async fn due(&self) -> Vec<Ino> {
        loop {
            // Registered before the look, so that nothing in between is missed.
            let changed = self.changed.notified();
            let now = Instant::now();
            let (due, next) = {
                let leases = self.leases.lock();
                let living =
                    || leases.iter().filter(|(_, kept)| kept.state == Keeping::Held || kept.uses == 0);
                let due = living().filter(|(_, kept)| kept.next <= now).map(|(ino, _)| *ino);
                let due: Vec<Ino> = due.collect();
                (due, living().map(|(_, kept)| kept.next).min())
            };
            if !due.is_empty() {
                return due;
            }
            match next {
                Some(next) => drop(timeout_at(next, changed).await),
                None => changed.await,
            }
        }
    }

    /// It cannot be looked after now: soon again.
    pub fn put_off(&self, ino: Ino) {
        if let Some(kept) = self.leases.lock().get_mut(&ino) {
            kept.next = Instant::now() + self.pace(ino, kept.id) / 4;
        }
    }

    /// All leases, for status.
    pub fn list(&self) -> Vec<LeaseInfo> {
        let leases = self.leases.lock();
        let info = |(ino, kept): (&Ino, &Kept)| LeaseInfo {
            ino: *ino,
            id: kept.id,
            uses: kept.uses,
            since: kept.since,
            lost: kept.state == Keeping::Lost,
        };
        let mut list: Vec<LeaseInfo> = leases.iter().map(info).collect();
        list.sort_unstable_by_key(|lease| lease.ino);
        list
    }

    /// How many leases were lost since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn whole(&self) -> Duration {
        self.duration.as_seconds().map_or(INFINITE_AS, |seconds| Duration::from_secs(u64::from(seconds)))
    }

    /// When to renew: after a third of the duration, a tenth of it sooner or not, so that leases taken together are
    /// not renewed together.
    fn pace(&self, ino: Ino, id: LeaseId) -> Duration {
        let mut hasher = DefaultHasher::new();
        (ino, id).hash(&mut hasher);
        let third = self.whole() / 3;
        // Below 100, so it fits.
        third - third / 1000 * (hasher.finish() % 100) as u32
    }
}

/// The refusal, with what is known about whoever holds the lease.
pub(super) fn leased(lease: &Lease, now: Moment) -> FsError {
    let kind = match lease.duration(now) {
        Some(duration) => match duration.as_seconds() {
            Some(seconds) => format!("{seconds} seconds"),
            None => "without end".to_owned(),
        },
        None => "unknown".to_owned(),
    };
    FsError::Leased(format!("lease {}, duration {kind}", lease.state(now)))
}

impl From<LeaseRefusal> for FsError {
    fn from(refusal: LeaseRefusal) -> Self {
        FsError::Leased(refusal.to_string())
    }
}

impl Drop for LeaseHold {
    fn drop(&mut self) {
        let mut leases = self.keeper.leases.lock();
        if let Some(kept) = leases.get_mut(&self.ino).filter(|kept| kept.epoch == self.epoch) {
            kept.uses = kept.uses.saturating_sub(1);
            if kept.uses == 0 {
                kept.next = Instant::now();
                self.keeper.changed.notify_one();
            }
        }
    }
}
