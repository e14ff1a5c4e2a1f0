//! What every case of the contract needs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasefs::share::lease::{LeaseDuration, LeaseId};
use leasefs::store::{
    BlobName, BlobPath, BlobProperties, BlobStore, ContainerName, CopyRequest, CopySource, LeaseReport,
    LeaseRequest, Metadata, NewContent, Preconditions, PublicAccess, Result, StoreError,
};

type Advance = Box<dyn Fn(Duration) + Send + Sync>;
type AtEnd = Box<dyn FnOnce() + Send + Sync>;

/// A store under test with the container `share`, and its clock.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn BlobStore>,
    advance: Advance,
    at_end: AtEnd,
}

pub(crate) const ALWAYS: Preconditions = Preconditions {
    if_match: None,
    if_none_match: None,
    if_modified_since: None,
    if_unmodified_since: None,
    lease: None,
    if_tags: None,
};

impl Bench {
    pub(crate) async fn new(store: Arc<dyn BlobStore>, advance: Advance, at_end: AtEnd) -> Self {
        store.create_container(&share(), Metadata::new(), PublicAccess::None).await.unwrap();
        Self { store, advance, at_end }
    }

    /// Lets time pass.
    pub(crate) fn wait(&self, seconds: u64) {
        (self.advance)(Duration::from_secs(seconds));
    }

    /// The backend's own check, after the case.
    pub(crate) fn end(self) {
        (self.at_end)();
    }

    pub(crate) async fn put(&self, name: &str, body: &[u8]) -> Arc<BlobProperties> {
        self.try_put(name, body, &ALWAYS).await.unwrap()
    }

    pub(crate) async fn try_put(
        &self,
        name: &str,
        body: &[u8],
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.store.put_blob(&at(name), body.to_vec().into(), NewContent::default(), conditions).await
    }

    pub(crate) async fn get(&self, name: &str) -> Bytes {
        self.store.get_blob(&at(name), None, None, &ALWAYS).await.unwrap().body
    }

    pub(crate) async fn properties(&self, name: &str) -> Result<Arc<BlobProperties>> {
        self.store.blob_properties(&at(name), None, &ALWAYS).await
    }

    pub(crate) async fn copy(&self, from: &str, to: &str) -> Result<Arc<BlobProperties>> {
        self.store.copy_blob(&CopySource::of(&at(from)), &at(to), CopyRequest::default(), &ALWAYS).await
    }

    pub(crate) async fn lease(&self, name: &str, request: LeaseRequest) -> Result<LeaseReport> {
        self.store.lease_blob(&at(name), request, &ALWAYS).await
    }

    pub(crate) async fn acquire(&self, name: &str, id: LeaseId, seconds: Option<u8>) {
        self.lease(name, acquire(id, seconds)).await.unwrap();
    }
}

pub(crate) fn share() -> ContainerName {
    ContainerName::new("share").unwrap()
}

pub(crate) fn at(name: &str) -> BlobPath {
    BlobPath::new(share(), BlobName::new(name).unwrap())
}

pub(crate) const A: LeaseId = LeaseId(0xA);
pub(crate) const B: LeaseId = LeaseId(0xB);
pub(crate) const C: LeaseId = LeaseId(0xC);

pub(crate) fn acquire(id: LeaseId, seconds: Option<u8>) -> LeaseRequest {
    let duration =
        seconds.map_or(LeaseDuration::INFINITE, |seconds| LeaseDuration::seconds(seconds).unwrap());
    LeaseRequest::Acquire { proposed: id, duration }
}

pub(crate) fn with_lease(id: LeaseId) -> Preconditions {
    ALWAYS.with_lease(id)
}

pub(crate) fn pairs(list: &[(&str, &str)]) -> Metadata {
    list.iter().copied().collect()
}

pub(crate) fn not_found<T>(result: &Result<T>) -> bool {
    matches!(result, Err(StoreError::BlobNotFound(_)))
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}
