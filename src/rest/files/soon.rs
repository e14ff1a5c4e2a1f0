//! What the engine is going to have: refused until then. Goes away.
#![allow(missing_docs, clippy::unused_async, async_fn_in_trait)]
use crate::fs::requests::*;
use crate::fs::shares::*;
use crate::fs::{FsError, Result};
use crate::store::*;
use std::ops::Range;

fn soon<T>() -> Result<T> {
    Err(FsError::NotSupported("this is not there yet"))
}

pub(super) struct Frozen;
impl Frozen {
    pub(super) async fn file_properties(&self, _: &FilePath) -> Result<Entry> {
        soon()
    }
    pub(super) async fn directory_properties(&self, _: &FilePath) -> Result<Entry> {
        soon()
    }
    pub(super) async fn read(&self, _: &FilePath) -> Result<Reading> {
        soon()
    }
    pub(super) async fn list(&self, _: &FilePath, _: ListRequest) -> Result<Listing> {
        soon()
    }
}

pub(super) trait SharesSoon {
    fn service_document(&self) -> impl Future<Output = Result<Option<bytes::Bytes>>> + Send {
        async { Ok(None) }
    }
    fn set_service_document(&self, _: bytes::Bytes) -> impl Future<Output = Result<()>> + Send {
        async { soon() }
    }
    fn frozen(&self, _: &ContainerName, _: SnapshotId) -> impl Future<Output = Result<Frozen>> + Send {
        async { soon() }
    }
    fn snapshot_properties(
        &self,
        _: &ContainerName,
        _: SnapshotId,
    ) -> impl Future<Output = Result<ShareInfo>> + Send {
        async { soon() }
    }
    fn delete_snapshot(&self, _: &ContainerName, _: SnapshotId) -> impl Future<Output = Result<()>> + Send {
        async { soon() }
    }
}
impl SharesSoon for Shares {}

pub(super) trait ReadingSoon {
    fn changes_since(&self, _: &Reading, _: Option<Range<u64>>) -> Result<Vec<(Range<u64>, bool)>> {
        soon()
    }
}
impl ReadingSoon for Reading {}

pub(super) trait RequestsSoon {
    fn put_permission(&self, _: &str, _: &str) -> impl Future<Output = Result<()>> + Send {
        async { soon() }
    }
    fn permission(&self, _: &str) -> impl Future<Output = Result<String>> + Send {
        async { soon() }
    }
}
impl RequestsSoon for Requests {}
