//! The blob service's contract. Every call is done on the caller's thread: the store is local and quick. Only a durable
//! user waits, for its content and for the committer.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::share::lease::LeaseId;
use crate::store::{
    AccessTier, AppendConditions, Appended, BlobBody, BlobDownload, BlobPage, BlobPath, BlobProperties,
    BlobStore, BlockId, BlockListEntry, BlockReport, ByteRange, ContainerAcl, ContainerName,
    ContainerProperties, CopyRequest, CopySource, DeleteSnapshots, LeaseReport, LeaseRequest, ListQuery,
    LocalStore, Metadata, NewContent, PageRanges, Preconditions, PropertiesChange, PublicAccess, Result,
    SequenceConditions, SnapshotId, TagExpression, TaggedPage, Tags,
};

use super::EmbeddedStore;

impl EmbeddedStore {
    /// The answer of a change, once it is as durable as this user wants it.
    pub(super) async fn answer<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_ok() {
            self.make_durable().await?;
        }
        done
    }

    /// Before a change that names the body.
    async fn settled(&self, body: &BlobBody) -> Result<()> {
        if self.durable { self.settle(body).await } else { Ok(()) }
    }
}

#[async_trait]
impl BlobStore for EmbeddedStore {
    async fn create_container(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        access: PublicAccess,
    ) -> Result<ContainerProperties> {
        self.answer(self.container_create(name, metadata, access)).await
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
        self.answer(self.container_set_metadata(name, metadata, conditions)).await
    }

    async fn set_container_acl(
        &self,
        name: &ContainerName,
        acl: ContainerAcl,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        self.answer(self.container_set_acl(name, acl, conditions)).await
    }

    async fn delete_container(&self, name: &ContainerName, conditions: &Preconditions) -> Result<()> {
        // The Blob service knows no snapshots of containers: they go with it, as snapshots of blobs do.
        self.answer(self.container_delete(name, DeleteSnapshots::Include, conditions)).await
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
        self.answer_lease(self.container_lease(name, request, conditions)).await
    }

    async fn service_properties(&self) -> Result<Option<Bytes>> {
        self.service_read()
    }

    async fn set_service_properties(&self, document: Bytes) -> Result<()> {
        self.answer(self.service_set(&document)).await
    }

    async fn put_blob(
        &self,
        at: &BlobPath,
        body: BlobBody,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.settled(&body).await?;
        self.answer(self.blob_put(at, body, new, conditions)).await
    }

    async fn create_append_blob(
        &self,
        at: &BlobPath,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.append_blob_create(at, new, conditions)).await
    }

    async fn create_page_blob(
        &self,
        at: &BlobPath,
        size: u64,
        sequence_number: u64,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.page_blob_create(at, size, sequence_number, new, conditions)).await
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
        self.answer(self.blob_set_metadata(at, metadata, conditions)).await
    }

    async fn set_blob_properties(
        &self,
        at: &BlobPath,
        change: PropertiesChange,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.blob_set_properties(at, change, conditions)).await
    }

    async fn set_blob_tier(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        tier: AccessTier,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.blob_set_tier(at, snapshot, tier, conditions)).await
    }

    async fn set_blob_tags(
        &self,
        at: &BlobPath,
        tags: Tags,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.blob_set_tags(at, tags, conditions)).await
    }

    async fn delete_blob(
        &self,
        at: &BlobPath,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.answer(self.blob_delete(at, snapshots, conditions)).await
    }

    async fn delete_snapshot(
        &self,
        at: &BlobPath,
        snapshot: SnapshotId,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.answer(self.snapshot_delete(at, snapshot, conditions)).await
    }

    async fn put_block(
        &self,
        at: &BlobPath,
        id: &BlockId,
        body: BlobBody,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        self.settled(&body).await?;
        self.answer(self.block_put(at, id, body, lease)).await
    }

    async fn put_block_from(
        &self,
        at: &BlobPath,
        id: &BlockId,
        source: &CopySource,
        range: Option<ByteRange>,
        lease: Option<LeaseId>,
    ) -> Result<u64> {
        self.answer(self.block_put_from(at, id, source, range, lease)).await
    }

    async fn put_block_list(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.block_list_put(at, list, &new, conditions)).await
    }

    async fn get_block_list(&self, at: &BlobPath, conditions: &Preconditions) -> Result<BlockReport> {
        self.block_list_get(at, conditions)
    }

    async fn append_block(
        &self,
        at: &BlobPath,
        body: BlobBody,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Appended> {
        let done = self.block_append(at, body, append, conditions).await;
        self.answer(done).await
    }

    async fn seal_blob(
        &self,
        at: &BlobPath,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.append_seal(at, append, conditions)).await
    }

    async fn put_pages(
        &self,
        at: &BlobPath,
        offset: u64,
        body: BlobBody,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let done = self.pages_put(at, offset, body, sequence, conditions).await;
        self.answer(done).await
    }

    async fn clear_pages(
        &self,
        at: &BlobPath,
        range: Range<u64>,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.pages_clear(at, range, sequence, conditions)).await
    }

    async fn page_ranges(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        since: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<PageRanges> {
        self.page_ranges_of(at, snapshot, since, range, conditions)
    }

    async fn copy_blob(
        &self,
        source: &CopySource,
        to: &BlobPath,
        request: CopyRequest,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.answer(self.blob_copy(source, to, &request, conditions)).await
    }

    async fn abort_copy(&self, at: &BlobPath, copy_id: &str, lease: Option<LeaseId>) -> Result<()> {
        self.copy_abort(at, copy_id, lease)
    }

    async fn snapshot_blob(
        &self,
        at: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<(SnapshotId, Arc<BlobProperties>)> {
        self.answer(self.blob_snapshot(at, metadata.as_ref(), conditions)).await
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
        self.answer_lease(self.blob_lease(at, request, conditions)).await
    }

    async fn list_blobs(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage> {
        self.blob_list(container, query)
    }

    async fn find_by_tags(
        &self,
        container: Option<&ContainerName>,
        tags: &TagExpression,
        marker: Option<&str>,
        max: usize,
    ) -> Result<TaggedPage> {
        self.blobs_tagged(container, tags, marker, max)
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}
