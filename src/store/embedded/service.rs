//! The blob service's contract. Every call is done on the caller's thread: the store is local and quick.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::share::lease::LeaseId;
use crate::store::{
    BlobDownload, BlobPage, BlobPath, BlobProperties, BlobStore, BlockId, BlockListEntry, BlockReport,
    ByteRange, ContainerName, ContainerProperties, DeleteSnapshots, HttpHeaders, LeaseReport, LeaseRequest,
    ListQuery, LocalStore, Metadata, NewContent, Preconditions, Result, SnapshotId,
};

use super::EmbeddedStore;

#[async_trait]
impl BlobStore for EmbeddedStore {
    async fn create_container(
        &self,
        name: &ContainerName,
        metadata: Metadata,
    ) -> Result<ContainerProperties> {
        self.container_create(name, metadata)
    }

    async fn container_properties(
        &self,
        name: &ContainerName,
        lease: Option<LeaseId>,
    ) -> Result<ContainerProperties> {
        self.container_read(name, lease)
    }

    async fn set_container_metadata(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        self.container_set_metadata(name, metadata, conditions)
    }

    async fn delete_container(&self, name: &ContainerName, conditions: &Preconditions) -> Result<()> {
        self.container_delete(name, conditions)
    }

    async fn list_containers(
        &self,
        prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<(Vec<ContainerProperties>, Option<String>)> {
        self.container_list(prefix, marker, max)
    }

    async fn lease_container(
        &self,
        name: &ContainerName,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport> {
        self.container_lease(name, request, conditions)
    }

    async fn put_blob(
        &self,
        at: &BlobPath,
        body: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_put(at, body, new, conditions)
    }

    async fn get_blob(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<BlobDownload> {
        self.blob_get(at, snapshot, range, conditions)
    }

    async fn blob_properties(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_read_properties(at, snapshot, conditions)
    }

    async fn set_blob_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_set_metadata(at, metadata, conditions)
    }

    async fn set_blob_headers(
        &self,
        at: &BlobPath,
        headers: HttpHeaders,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_set_headers(at, headers, conditions)
    }

    async fn delete_blob(
        &self,
        at: &BlobPath,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.blob_delete(at, snapshots, conditions)
    }

    async fn delete_snapshot(&self, at: &BlobPath, snapshot: SnapshotId) -> Result<()> {
        self.snapshot_delete(at, snapshot)
    }

    async fn put_block(
        &self,
        at: &BlobPath,
        id: &BlockId,
        body: Bytes,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        self.block_put(at, id, body, lease)
    }

    async fn put_block_list(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.block_list_put(at, list, new, conditions)
    }

    async fn get_block_list(&self, at: &BlobPath, conditions: &Preconditions) -> Result<BlockReport> {
        self.block_list_get(at, conditions)
    }

    async fn copy_blob(
        &self,
        from: &BlobPath,
        source_conditions: &Preconditions,
        to: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.blob_copy(from, source_conditions, to, metadata.as_ref(), conditions)
    }

    async fn snapshot_blob(
        &self,
        at: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<(SnapshotId, Arc<BlobProperties>)> {
        self.blob_snapshot(at, metadata.as_ref(), conditions)
    }

    async fn list_snapshots(&self, at: &BlobPath) -> Result<Vec<(SnapshotId, Arc<BlobProperties>)>> {
        self.snapshot_list(at)
    }

    async fn lease_blob(
        &self,
        at: &BlobPath,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport> {
        self.blob_lease(at, request, conditions)
    }

    async fn list_blobs(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage> {
        self.blob_list(container, query)
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}
