//! The contract of a blob store.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::share::Moment;
use crate::share::lease::{Lease, LeaseDuration, LeaseId};

use super::blob::{BlobProperties, ETag, HttpHeaders, Metadata};
use super::conditions::Preconditions;
use super::error::Result;
use super::local::{LocalStore, NewContent};
use super::names::{BlobPath, ContainerName};

/// A blob store, after the Azure Blob service.
///
/// Every operation is atomic: it happens as a whole or not at all, and readers see one version or the other. A
/// successful answer means the change survives the death of the process that made it. All conditions of a request,
/// including the lease, are judged together with the change they guard.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Creates an empty container. [`ContainerExists`](super::StoreError::ContainerExists) if there is one.
    async fn create_container(&self, name: &ContainerName, metadata: Metadata)
    -> Result<ContainerProperties>;

    /// Properties of a container; a lease id given is checked.
    async fn container_properties(
        &self,
        name: &ContainerName,
        lease: Option<LeaseId>,
    ) -> Result<ContainerProperties>;

    /// Replaces a container's metadata.
    async fn set_container_metadata(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties>;

    /// Deletes a container with all its blobs. The only container operation that an active lease guards.
    async fn delete_container(&self, name: &ContainerName, conditions: &Preconditions) -> Result<()>;

    /// Containers in name order that start with `prefix` and sort at or behind `marker`; at most `max`, and the
    /// marker to go on with.
    async fn list_containers(
        &self,
        prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<(Vec<ContainerProperties>, Option<String>)>;

    /// One lease action on a container.
    async fn lease_container(
        &self,
        name: &ContainerName,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport>;

    /// Makes `body` the blob's whole content and replaces metadata and headers. Drops staged blocks.
    async fn put_blob(
        &self,
        at: &BlobPath,
        body: Bytes,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Reads a blob, or the part of it in `range`, from one version.
    async fn get_blob(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<BlobDownload>;

    /// Properties of a blob or of one of its snapshots.
    async fn blob_properties(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Replaces a blob's metadata.
    async fn set_blob_metadata(
        &self,
        at: &BlobPath,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Replaces a blob's stored HTTP headers.
    async fn set_blob_headers(
        &self,
        at: &BlobPath,
        headers: HttpHeaders,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Deletes a blob.
    async fn delete_blob(
        &self,
        at: &BlobPath,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()>;

    /// Deletes one snapshot.
    async fn delete_snapshot(&self, at: &BlobPath, snapshot: SnapshotId) -> Result<()>;

    /// Stages a block under the blob's name. Changes neither content nor ETag; of the conditions only the lease
    /// counts. Staging the same id again replaces it.
    async fn put_block(&self, at: &BlobPath, id: &BlockId, body: Bytes, lease: Option<LeaseId>)
    -> Result<()>;

    /// Makes the named blocks, in this order, the blob's content. Staged blocks that are not named are dropped.
    async fn put_block_list(
        &self,
        at: &BlobPath,
        list: &[BlockListEntry],
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Committed blocks in order and staged blocks by id.
    async fn get_block_list(&self, at: &BlobPath, conditions: &Preconditions) -> Result<BlockReport>;

    /// Copies content, headers and (unless `metadata` is given) metadata of `from` to `to`.
    async fn copy_blob(
        &self,
        from: &BlobPath,
        source_conditions: &Preconditions,
        to: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Keeps the current version readable under a snapshot id.
    async fn snapshot_blob(
        &self,
        at: &BlobPath,
        metadata: Option<Metadata>,
        conditions: &Preconditions,
    ) -> Result<(SnapshotId, Arc<BlobProperties>)>;

    /// Snapshots of a blob, oldest first.
    async fn list_snapshots(&self, at: &BlobPath) -> Result<Vec<(SnapshotId, Arc<BlobProperties>)>>;

    /// One lease action on a blob. Never changes the ETag.
    async fn lease_blob(
        &self,
        at: &BlobPath,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport>;

    /// Blobs in byte order of their names; with a delimiter, names that continue behind it are folded into one
    /// [`ListItem::Prefix`].
    async fn list_blobs(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage>;

    /// The store's local abilities, if its content is on this machine.
    fn local(&self) -> Option<&dyn LocalStore> {
        None
    }
}

/// Properties of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProperties {
    /// Its name.
    pub name: ContainerName,
    /// Version tag; changes with the container's own metadata, not with its blobs.
    pub etag: ETag,
    /// When the container itself was last changed.
    pub modified: Moment,
    /// User metadata.
    pub metadata: Metadata,
    /// The lease as stored.
    pub lease: Lease,
}

/// A lease action and what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    /// Take the lease under `proposed`.
    Acquire {
        /// The id the lease will have.
        proposed: LeaseId,
        /// How long it lasts unless renewed.
        duration: LeaseDuration,
    },
    /// Restart the clock of the lease `id`.
    Renew {
        /// The lease's id.
        id: LeaseId,
    },
    /// Give the lease `id` the id `proposed`.
    Change {
        /// The id it has.
        id: LeaseId,
        /// The id it will have.
        proposed: LeaseId,
    },
    /// Give the lease up.
    Release {
        /// The lease's id.
        id: LeaseId,
    },
    /// End somebody's lease, at once or after a period of at most 60 seconds.
    Break {
        /// Seconds until it is broken; absent: the rest of a finite lease, at once for an infinite one.
        period: Option<u8>,
    },
}

/// The answer to a lease action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseReport {
    /// The blob's or container's version tag, unchanged by the action.
    pub etag: ETag,
    /// Last change of the blob or container, unchanged too.
    pub modified: Moment,
    /// The lease id after an acquire, renew or change.
    pub id: Option<LeaseId>,
    /// After a break: whole seconds until the lease is gone.
    pub seconds_left: Option<u64>,
}

/// Names a snapshot: the moment it was taken, unique per blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub Moment);

/// A range of bytes: from `start`, `length` bytes or to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// How many; absent: all that follow.
    pub length: Option<u64>,
}

/// Bytes of one version of a blob.
#[derive(Clone, Debug)]
pub struct BlobDownload {
    /// The version's properties.
    pub properties: Arc<BlobProperties>,
    /// First byte of `body` in the blob.
    pub offset: u64,
    /// The bytes.
    pub body: Bytes,
}

/// What a delete does about snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteSnapshots {
    /// Refuse if there are any.
    Refuse,
    /// Delete them with the blob.
    Include,
    /// Delete only them.
    Only,
}

/// A block's id: 1 to 64 bytes, all ids of one blob of equal length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub Vec<u8>);

/// Where a block named in a block list is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Among the blob's committed blocks.
    Committed,
    /// Among the staged ones.
    Uncommitted,
    /// Staged first, then committed.
    Latest,
}

/// One entry of a block list to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockListEntry {
    /// Where to look.
    pub kind: BlockKind,
    /// Which block.
    pub id: BlockId,
}

/// A blob's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockReport {
    /// Committed blocks in content order, with sizes. Empty for content that was put in one piece.
    pub committed: Vec<(BlockId, u64)>,
    /// Staged blocks by id, with sizes.
    pub uncommitted: Vec<(BlockId, u64)>,
    /// The committed blob's properties, if there is one.
    pub properties: Option<Arc<BlobProperties>>,
}

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Only names that start with this.
    pub prefix: String,
    /// Fold names that contain this behind the prefix.
    pub delimiter: Option<String>,
    /// Only names at or behind this one.
    pub marker: Option<String>,
    /// At most so many items.
    pub max: usize,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// A blob.
    Blob {
        /// Its full name.
        name: String,
        /// Its properties.
        properties: Arc<BlobProperties>,
    },
    /// Names folded at the delimiter; `name` ends with it.
    Prefix {
        /// The folded prefix.
        name: String,
        /// The number the prefix shares with the blob of the same name without the delimiter; 0 if the delimiter
        /// is not `/`.
        id: u64,
    },
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPage {
    /// The items in order.
    pub items: Vec<ListItem>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
}
