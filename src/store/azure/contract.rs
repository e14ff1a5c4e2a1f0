//! The contract, answered by the operations in the files beside this one.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::AzureStore;
use crate::share::lease::LeaseId;
use crate::store::{
    AccessTier, AppendConditions, Appended, BlobBody, BlobDownload, BlobPage, BlobPath, BlobProperties,
    BlobStore, BlobStream, BlockId, BlockListEntry, BlockReport, ByteRange, ContainerAcl, ContainerName,
    ContainerProperties, CopyRequest, CopySource, DeleteSnapshots, LeaseReport, LeaseRequest, ListQuery,
    Metadata, NewContent, PageRanges, Preconditions, PropertiesChange, PublicAccess, Result,
    SequenceConditions, SnapshotId, TagExpression, TaggedPage, Tags,
};

#[async_trait]
impl BlobStore for AzureStore {
    async fn create_container(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        access: PublicAccess,
    ) -> Result<ContainerProperties> {
        self.create(name, metadata, access).await
    }

    async fn container_properties(
        &self,
        name: &ContainerName,
        lease: Option<LeaseId>,
    ) -> Result<ContainerProperties> {
        self.properties_of(name, lease).await
    }

    async fn set_container_metadata(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        self.set_metadata_of(name, metadata, conditions).await
    }

    async fn set_container_acl(
        &self,
        name: &ContainerName,
        acl: ContainerAcl,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        self.set_acl_of(name, acl, conditions).await
    }

    async fn delete_container(&self, name: &ContainerName, conditions: &Preconditions) -> Result<()> {
        self.delete(name, conditions).await
    }

    async fn list_containers(
        &self,
        prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<(Vec<ContainerProperties>, Option<String>)> {
        self.list(prefix, marker, max).await
    }

    async fn lease_container(
        &self,
        name: &ContainerName,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport> {
        self.lease_of_container(name, request, conditions).await
    }

    async fn service_properties(&self) -> Result<Option<Bytes>> {
        self.settings().await
    }

    async fn set_service_properties(&self, document: Bytes) -> Result<()> {
        self.set_settings(document).await
    }

    async fn put_blob(
        &self,
        at: &BlobPath,
        body: BlobBody,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.put(at, body, new, conditions).await
    }

    async fn create_append_blob(
        &self,
        at: &BlobPath,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.create_append(at, new, conditions).await
    }

    async fn create_page_blob(
        &self,
        at: &BlobPath,
        size: u64,
        sequence_number: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.create_pages(at, size, sequence_number, new, conditions).await
    }

    async fn get_blob(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<BlobDownload> {
        self.get(at, snapshot, range, conditions).await
    }

    async fn stream_blob(
        &self,
        at: &BlobPath,
        range: ByteRange,
        conditions: &Preconditions,
    ) -> Result<BlobStream> {
        self.stream(at, range, conditions).await
    }

    async fn blob_properties(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.properties(at, snapshot, conditions).await
    }

    async fn set_blob_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.set_metadata(at, metadata, conditions).await
    }

    async fn set_blob_properties(
        &self,
        at: &BlobPath,
        change: PropertiesChange,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.set_properties(at, change, conditions).await
    }

    async fn set_blob_tier(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        tier: AccessTier,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.set_tier(at, snapshot, tier, conditions).await
    }

    async fn set_blob_tags(
        &self,
        at: &BlobPath,
        tags: Tags,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.set_tags(at, &tags, conditions).await
    }

    async fn delete_blob(
        &self,
        at: &BlobPath,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.remove(at, snapshots, conditions).await
    }

    async fn delete_snapshot(
        &self,
        at: &BlobPath,
        snapshot: SnapshotId,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.remove_snapshot(at, snapshot, conditions).await
    }

    async fn put_block(
        &self,
        at: &BlobPath,
        id: &BlockId,
        body: BlobBody,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        self.stage(at, id, body, lease).await
    }

    async fn put_block_from(
        &self,
        at: &BlobPath,
        id: &BlockId,
        source: &CopySource,
        range: Option<ByteRange>,
        lease: Option<LeaseId>,
    ) -> Result<u64> {
        self.stage_from(at, id, source, range, lease).await
    }

    async fn put_block_list(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.commit(at, list, new, conditions).await
    }

    async fn get_block_list(&self, at: &BlobPath, conditions: &Preconditions) -> Result<BlockReport> {
        self.blocks(at, conditions).await
    }

    async fn append_block(
        &self,
        at: &BlobPath,
        body: BlobBody,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Appended> {
        self.append(at, body, append, conditions).await
    }

    async fn seal_blob(
        &self,
        at: &BlobPath,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.seal(at, append, conditions).await
    }

    async fn put_pages(
        &self,
        at: &BlobPath,
        offset: u64,
        body: BlobBody,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.write_pages(at, offset, body, sequence, conditions).await
    }

    async fn clear_pages(
        &self,
        at: &BlobPath,
        range: Range<u64>,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.zero_pages(at, &range, sequence, conditions).await
    }

    async fn page_ranges(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        since: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<PageRanges> {
        self.pages(at, snapshot, since, range, conditions).await
    }

    async fn copy_blob(
        &self,
        source: &CopySource,
        to: &BlobPath,
        request: CopyRequest,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.copy(source, to, request, conditions).await
    }

    async fn abort_copy(&self, at: &BlobPath, copy_id: &str, lease: Option<LeaseId>) -> Result<()> {
        self.end_copy(at, copy_id, lease).await
    }

    async fn snapshot_blob(
        &self,
        at: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<(SnapshotId, Arc<BlobProperties>)> {
        self.snapshot(at, metadata, conditions).await
    }

    async fn list_snapshots(&self, at: &BlobPath) -> Result<Vec<(SnapshotId, Arc<BlobProperties>)>> {
        self.snapshots_of(at).await
    }

    async fn lease_blob(
        &self,
        at: &BlobPath,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport> {
        self.lease_of_blob(at, request, conditions).await
    }

    async fn list_blobs(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage> {
        self.list_in(container, query).await
    }

    async fn find_by_tags(
        &self,
        container: Option<&ContainerName>,
        tags: &TagExpression,
        marker: Option<&str>,
        max: usize,
    ) -> Result<TaggedPage> {
        self.find(container, tags, marker, max).await
    }
}
