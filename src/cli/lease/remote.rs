//! The lease of a blob that a URL names: taken, renewed and given back by asking the service.
//!
//! Every request has a short life of its own, runtime included: no thread of ours outlives it, so signals meant for the
//! command reach nobody else. Time is monotonic: a clock that jumps ends no lease.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Look, Refusal};
use crate::cli::error::CliError;
use crate::cli::report;
use crate::share::lease::{LeaseDuration, LeaseId, LeaseRefusal, LeaseState};
use crate::store::azure::{AzureConfig, AzureStore, Environment, RetryPolicy, Source};
use crate::store::{
    BlobPath, BlobProperties, BlobStore, LeaseReport, LeaseRequest, NewContent, Preconditions, StoreError,
};

/// An infinite lease is looked at so often, and a request about it may take so long.
const INFINITE_LOOK: Duration = Duration::from_secs(20);
/// After a renewal that got no answer, the next one follows so soon.
const SOON: Duration = Duration::from_secs(1);

/// A lease of ours, or one to be.
#[derive(Clone)]
pub(super) struct RemoteLease {
    config: AzureConfig,
    source: Source,
    at: BlobPath,
    id: LeaseId,
    duration: LeaseDuration,
    /// When the last request that held or renewed it was sent.
    sure: Arc<Mutex<Instant>>,
}

impl RemoteLease {
    pub(super) fn new(url: &str, duration: LeaseDuration) -> Result<Self, CliError> {
        let (source, at, config) = place(url, patience(duration))?;
        let id = LeaseId(uuid::Uuid::new_v4().as_u128());
        Ok(Self { config, source, at, id, duration, sure: Arc::new(Mutex::new(Instant::now())) })
    }

    pub(super) fn id(&self) -> LeaseId {
        self.id
    }

    /// Takes it. The same id is proposed every time, so a lost answer does no harm.
    pub(super) fn acquire(&self, create: bool) -> Result<(), Refusal> {
        let sent = Instant::now();
        let request = LeaseRequest::Acquire { proposed: self.id, duration: self.duration };
        match self.ask(request) {
            Ok(_) => *self.sure.lock() = sent,
            Err(StoreError::BlobNotFound(_)) if create => {
                let made = once(&self.config, patience(self.duration), async |store| {
                    let absent = Preconditions::if_absent();
                    store.put_blob(&self.at, "".into(), NewContent::default(), &absent).await
                });
                return match made {
                    // Somebody else may have made it just now.
                    Ok(_) | Err(StoreError::BlobExists(_)) => self.acquire(false),
                    Err(problem) => Err(self.failed(&problem)),
                };
            }
            Err(StoreError::BlobNotFound(_)) => {
                let text = format!("{} does not exist; --create makes it", self.source);
                return Err(Refusal::Failed(CliError::Failed(text)));
            }
            Err(StoreError::Lease(
                LeaseRefusal::AlreadyPresent | LeaseRefusal::IsBreakingAndCannotBeAcquired,
            )) => return Err(Refusal::Busy(self.what_is_known())),
            Err(problem) => return Err(self.failed(&problem)),
        }
        Ok(())
    }

    fn failed(&self, problem: &StoreError) -> Refusal {
        Refusal::Failed(CliError::Failed(format!("the lease on {} cannot be taken: {problem}", self.source)))
    }

    /// The service tells that somebody holds a lease, and for how long, but not who.
    fn what_is_known(&self) -> String {
        let blob = once(&self.config, patience(self.duration), async |store| {
            store.blob_properties(&self.at, None, &Preconditions::default()).await
        });
        blob.map_or_else(|_| "is leased by somebody else".to_owned(), |blob| describe(&blob))
    }

    /// Renews it.
    pub(super) fn tend(&self) -> Look {
        let sent = Instant::now();
        match self.ask(LeaseRequest::Renew { id: self.id }) {
            Ok(_) => {
                *self.sure.lock() = sent;
                Look::Held(patience(self.duration))
            }
            Err(StoreError::Lease(refusal)) => Look::Lost(format!("{refusal}")),
            Err(StoreError::BlobNotFound(_)) => Look::Lost("the blob is gone".to_owned()),
            Err(problem) => {
                let ends = self.duration.as_seconds().map(|seconds| Duration::from_secs(seconds.into()));
                match ends {
                    Some(length) if self.sure.lock().elapsed() >= length => {
                        Look::Lost(format!("it could not be renewed in time: {problem}"))
                    }
                    Some(_) | None => {
                        report::complain(&format!("the lease on {} is not renewed: {problem}", self.source));
                        Look::Held(SOON)
                    }
                }
            }
        }
    }

    /// Gives it back; if that fails, it ends by itself.
    pub(super) fn release(&self) {
        match self.ask(LeaseRequest::Release { id: self.id }) {
            Ok(_) | Err(StoreError::Lease(_) | StoreError::BlobNotFound(_)) => {}
            Err(problem) => {
                report::complain(&format!("the lease on {} is not released: {problem}", self.source));
            }
        }
    }

    fn ask(&self, request: LeaseRequest) -> Result<LeaseReport, StoreError> {
        once(&self.config, patience(self.duration), async |store| {
            store.lease_blob(&self.at, request, &Preconditions::default()).await
        })
    }
}

/// Ends whoever's lease.
pub(super) fn break_lease(url: &str, after: u8) -> Result<(), CliError> {
    let (source, at, config) = place(url, INFINITE_LOOK)?;
    let broken = once(&config, INFINITE_LOOK, async |store| {
        store.lease_blob(&at, LeaseRequest::Break { period: Some(after) }, &Preconditions::default()).await
    });
    match broken {
        Ok(_) => Ok(()),
        Err(StoreError::Lease(LeaseRefusal::NotPresentWithLeaseOperation)) => {
            Err(CliError::Failed(format!("nobody holds a lease on {source}")))
        }
        Err(StoreError::BlobNotFound(_)) => Err(CliError::Failed(format!("{source} does not exist"))),
        Err(problem) => Err(CliError::Failed(format!("the lease on {source} cannot be broken: {problem}"))),
    }
}

/// The blob that a URL names, and how to ask for it.
fn place(url: &str, patience: Duration) -> Result<(Source, BlobPath, AzureConfig), CliError> {
    let wrong = |problem: &dyn std::fmt::Display| CliError::Usage(problem.to_string());
    let source = Source::parse(url).map_err(|problem| wrong(&problem))?;
    let at = source.blob().ok_or_else(|| wrong(&format!("{source} names no blob: add its name")))?;
    let config = AzureConfig::from_environment(&source.service, &Environment::of_this_process());
    let config = config.map_err(|problem| CliError::Failed(problem.to_string()))?;
    let retry = RetryPolicy { deadline: patience, ..RetryPolicy::default() };
    Ok((source, at, config.with_retry(retry)))
}

/// A third of the duration: how often a lease is renewed, and how long one renewal may take.
fn patience(duration: LeaseDuration) -> Duration {
    duration.as_seconds().map_or(INFINITE_LOOK, |seconds| Duration::from_secs(seconds.into()) / 3)
}

/// One request with a client and a runtime of its own.
fn once<T, F: Future<Output = Result<T, StoreError>>>(
    config: &AzureConfig,
    patience: Duration,
    request: impl FnOnce(Arc<AzureStore>) -> F,
) -> Result<T, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| StoreError::io("starting a runtime", e))?;
    runtime.block_on(async {
        let store = Arc::new(AzureStore::new(config.clone())?);
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let asked = tokio::time::timeout(patience, request(store)).await;
        asked.unwrap_or_else(|_| Err(StoreError::io("waiting for the blob service", late())))
    })
}

fn describe(blob: &BlobProperties) -> String {
    let now = std::time::SystemTime::now().into();
    let length = match blob.lease.duration(now) {
        Some(duration) if duration.is_infinite() => "an infinite lease",
        Some(_) | None => "a lease",
    };
    match blob.lease.state(now) {
        LeaseState::Breaking => "is held by somebody else with a lease that is being broken".to_owned(),
        LeaseState::Leased | LeaseState::Available | LeaseState::Broken | LeaseState::Expired => {
            format!("is held by somebody else with {length}; the service does not tell who")
        }
    }
}
