//! The contract of a blob store.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;

use crate::share::Moment;
use crate::share::lease::{LeaseDuration, LeaseId};

use super::blob::{AccessTier, BlobProperties, CopyState, ETag, HttpHeaders, Metadata};
use super::body::BlobBody;
use super::conditions::{Preconditions, TagExpression};
use super::container::{ContainerAcl, ContainerProperties, PublicAccess};
use super::error::Result;
use super::kinds::{AppendConditions, Appended, PageRanges, SequenceConditions, SequenceUpdate};
use super::listing::{BlobPage, ListQuery, TaggedPage};
use super::local::LocalStore;
use super::names::{BlobPath, ContainerName};
use super::tags::Tags;

/// A blob store, after the Azure Blob service.
///
/// Every operation is atomic: it happens as a whole or not at all, and readers see one version or the other. A
/// successful answer means the change survives the death of the process that made it. All conditions of a request,
/// including the lease, are judged together with the change they guard.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Creates an empty container. [`ContainerExists`](super::StoreError::ContainerExists) if there is one.
    async fn create_container(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        access: PublicAccess,
    ) -> Result<ContainerProperties>;

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

    /// Replaces who may use a container. [`ContainerProperties::acl`] tells it.
    async fn set_container_acl(
        &self,
        name: &ContainerName,
        acl: ContainerAcl,
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

    /// The stored document of the service's settings, if one was ever set.
    async fn service_properties(&self) -> Result<Option<Bytes>>;

    /// Stores the document of the service's settings.
    async fn set_service_properties(&self, document: Bytes) -> Result<()>;

    /// Makes `body` the whole content of a block blob and replaces everything else about it. Drops staged blocks.
    /// Stores the MD5 that is given, or the body's.
    async fn put_blob(
        &self,
        at: &BlobPath,
        body: BlobBody,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Makes an empty append blob, replacing one that is there.
    async fn create_append_blob(
        &self,
        at: &BlobPath,
        new: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Makes a page blob of zeros, replacing one that is there. `size` is a multiple of 512.
    async fn create_page_blob(
        &self,
        at: &BlobPath,
        size: u64,
        sequence_number: u64,
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

    /// Reads a part of a blob piece by piece, from one version. The answer may break off: what is missing is asked for
    /// again by the caller, who knows what it has.
    async fn stream_blob(
        &self,
        at: &BlobPath,
        range: ByteRange,
        conditions: &Preconditions,
    ) -> Result<BlobStream> {
        let BlobDownload { properties, offset, body } =
            self.get_blob(at, None, Some(range), conditions).await?;
        let pieces = futures_util::stream::once(std::future::ready(Ok(body)));
        Ok(BlobStream { properties, offset, pieces: Box::pin(pieces) })
    }

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

    /// Replaces a blob's stored HTTP headers, resizes a page blob, sets its sequence number; what the change names.
    async fn set_blob_properties(
        &self,
        at: &BlobPath,
        change: PropertiesChange,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Moves a block blob or a snapshot of one to a tier. Changes no version tag; of the conditions the lease and the
    /// tags count.
    async fn set_blob_tier(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        tier: AccessTier,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Replaces a blob's tags. Changes no version tag; of the conditions the lease and the tags count. Reading them
    /// is [`Self::blob_properties`].
    async fn set_blob_tags(
        &self,
        at: &BlobPath,
        tags: Tags,
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
    async fn delete_snapshot(
        &self,
        at: &BlobPath,
        snapshot: SnapshotId,
        conditions: &Preconditions,
    ) -> Result<()>;

    /// Stages a block under the blob's name. Changes neither content nor ETag; of the conditions only the lease
    /// counts. Staging the same id again replaces it.
    async fn put_block(
        &self,
        at: &BlobPath,
        id: &BlockId,
        body: BlobBody,
        lease: Option<LeaseId>,
    ) -> Result<()>;

    /// Stages a part of a blob in this store as a block; without copying bytes where the store can. Answers how many
    /// bytes it has.
    async fn put_block_from(
        &self,
        at: &BlobPath,
        id: &BlockId,
        source: &CopySource,
        range: Option<ByteRange>,
        lease: Option<LeaseId>,
    ) -> Result<u64>;

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

    /// Adds a block at the end of an append blob.
    async fn append_block(
        &self,
        at: &BlobPath,
        body: BlobBody,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Appended>;

    /// Ends an append blob: nothing can be appended any more. Sealing it again is fine.
    async fn seal_blob(
        &self,
        at: &BlobPath,
        append: AppendConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Writes whole pages of a page blob.
    async fn put_pages(
        &self,
        at: &BlobPath,
        offset: u64,
        body: BlobBody,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Makes whole pages of a page blob zero and frees them.
    async fn clear_pages(
        &self,
        at: &BlobPath,
        range: Range<u64>,
        sequence: SequenceConditions,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// The written stretches of a page blob or of one of its snapshots; with `since`, what differs from that earlier
    /// snapshot.
    async fn page_ranges(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        since: Option<SnapshotId>,
        range: Option<ByteRange>,
        conditions: &Preconditions,
    ) -> Result<PageRanges>;

    /// Copies a blob or snapshot of this store to `to`, without copying bytes where the store can. The copy is done
    /// when this answers.
    async fn copy_blob(
        &self,
        source: &CopySource,
        to: &BlobPath,
        request: CopyRequest,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>>;

    /// Ends a copy that is under way. There never is one: refused with
    /// [`CopyIdMismatch`](super::StoreError::CopyIdMismatch) or [`NoPendingCopy`](super::StoreError::NoPendingCopy)
    /// after the lease was judged.
    async fn abort_copy(&self, at: &BlobPath, copy_id: &str, lease: Option<LeaseId>) -> Result<()>;

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
    /// [`ListItem::Prefix`](super::ListItem::Prefix).
    async fn list_blobs(&self, container: &ContainerName, query: &ListQuery) -> Result<BlobPage>;

    /// Blobs whose tags fit, in one container or in all. Looks at a bounded number of blobs per call, so a page can
    /// be short or empty and still name a `next`.
    async fn find_by_tags(
        &self,
        container: Option<&ContainerName>,
        tags: &TagExpression,
        marker: Option<&str>,
        max: usize,
    ) -> Result<TaggedPage>;

    /// The store's local abilities, if its content is on this machine.
    fn local(&self) -> Option<&dyn LocalStore> {
        None
    }
}

/// Everything that replaces a blob's own together with its content.
#[derive(Clone, Debug, Default)]
pub struct NewContent {
    /// User metadata.
    pub metadata: Metadata,
    /// Stored HTTP headers.
    pub headers: HttpHeaders,
    /// MD5 to store. Absent: Put Blob stores the body's, everything else none.
    pub content_md5: Option<[u8; 16]>,
    /// Tags.
    pub tags: Tags,
    /// The tier; absent: the account's.
    pub tier: Option<AccessTier>,
    /// Where the content was copied from.
    pub copy: Option<CopyState>,
}

/// What to change about a blob's properties. What is absent stays as it is.
#[derive(Clone, Debug, Default)]
pub struct PropertiesChange {
    /// New headers and MD5, all together: what they do not name is cleared.
    pub headers: Option<(HttpHeaders, Option<[u8; 16]>)>,
    /// Page blobs: the new size, a multiple of 512.
    pub size: Option<u64>,
    /// Page blobs: the sequence number.
    pub sequence: Option<SequenceUpdate>,
}

/// A blob or snapshot of this store that content is taken from.
#[derive(Clone, Debug)]
pub struct CopySource {
    /// The blob.
    pub at: BlobPath,
    /// One of its snapshots.
    pub snapshot: Option<SnapshotId>,
    /// Conditions on it. A lease on it does not count.
    pub conditions: Preconditions,
}

impl CopySource {
    /// The blob as it is, whatever it is.
    pub fn of(at: &BlobPath) -> Self {
        Self { at: at.clone(), snapshot: None, conditions: Preconditions::default() }
    }
}

/// How a copy is made.
#[derive(Clone, Debug, Default)]
pub struct CopyRequest {
    /// The copy's id, and its source as the client gave it; remembered with the blob.
    pub record: Option<(String, String)>,
    /// Metadata; absent: the source's.
    pub metadata: Option<Metadata>,
    /// Headers; absent: the source's.
    pub headers: Option<HttpHeaders>,
    /// Tags; absent: none. Tags of the source are copied by giving them.
    pub tags: Tags,
    /// The tier; absent: the account's.
    pub tier: Option<AccessTier>,
    /// Append blobs: seal the copy.
    pub seal: bool,
    /// Whether a lease on the target must be an infinite one, as the service asks of copies that may go on after the
    /// answer.
    pub infinite_lease: bool,
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

/// A part of a version on its way.
pub struct BlobStream {
    /// Properties of the version.
    pub properties: Arc<BlobProperties>,
    /// Where the first piece begins.
    pub offset: u64,
    /// The bytes, in order.
    pub pieces: Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>,
}

impl std::fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobStream").field("offset", &self.offset).finish_non_exhaustive()
    }
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
