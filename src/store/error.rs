//! What can go wrong in a store, in the store's own words.

use std::io;

use crate::share::lease::LeaseRefusal;

use super::names::NameError;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why a store refused or failed. Front ends map it in one total match each.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The container does not exist.
    #[error("container {0} does not exist")]
    ContainerNotFound(String),
    /// A container of that name exists already.
    #[error("container {0} exists already")]
    ContainerExists(String),
    /// The blob does not exist.
    #[error("blob {0} does not exist")]
    BlobNotFound(String),
    /// The blob exists and the request asked for it not to.
    #[error("blob {0} exists already")]
    BlobExists(String),
    /// An ETag or date condition did not hold.
    #[error("a condition of the request was not met")]
    ConditionNotMet,
    /// A read condition said "only if changed", and it has not.
    #[error("not modified")]
    NotModified,
    /// The combination of condition headers is not allowed.
    #[error("these conditions cannot be combined")]
    ConditionsNotSupported,
    /// A read that asks for something not to be there.
    #[error("a read cannot ask for the blob not to exist")]
    UnsatisfiableCondition,
    /// A condition on the source of a copy did not hold.
    #[error("a condition on the source of the copy was not met")]
    SourceConditionNotMet,
    /// A rename that would put something below itself, or onto a prefix that has blobs below it.
    #[error("{from} cannot be moved to {to}")]
    InvalidRename {
        /// What was to be moved.
        from: String,
        /// Where.
        to: String,
    },
    /// A lease stands in the way, or a lease action did not fit the lease's state.
    #[error(transparent)]
    Lease(#[from] LeaseRefusal),
    /// The blob still has snapshots and the delete did not say what to do with them.
    #[error("blob {0} has snapshots")]
    SnapshotsPresent(String),
    /// A block list names a block that is not there.
    #[error("the block list names an unknown block")]
    InvalidBlockList,
    /// A block id's length differs from those already staged, or is too long.
    #[error("the block id is not valid for this blob")]
    InvalidBlockId,
    /// A range that starts behind the end of the blob.
    #[error("the range starts behind the end of the blob, which has {size} bytes")]
    InvalidRange {
        /// Size of the blob.
        size: u64,
    },
    /// A limit of the service was exceeded.
    #[error("limit exceeded: {0}")]
    LimitExceeded(Limit),
    /// The operation is not for this kind of blob.
    #[error("blob {0} is of another kind")]
    InvalidBlobType(String),
    /// The content is in the archive tier.
    #[error("blob {0} is archived; set another tier first")]
    BlobArchived(String),
    /// The append blob does not end where the append expected.
    #[error("the append blob does not end at the position given")]
    AppendPositionNotMet,
    /// The append would make the blob longer than allowed by its caller.
    #[error("the append blob would become longer than the size given")]
    MaxSizeNotMet,
    /// The append blob takes no more blocks.
    #[error("blob {0} is sealed")]
    BlobSealed(String),
    /// The sequence number is not what the request expected.
    #[error("the sequence number condition was not met")]
    SequenceNumberNotMet,
    /// A page range that is not made of whole pages or leaves the blob.
    #[error("a page range is made of whole pages of 512 bytes inside the blob")]
    InvalidPageRange,
    /// The snapshot that a difference starts from is not there.
    #[error("the earlier snapshot does not exist")]
    PreviousSnapshotNotFound,
    /// The snapshot that a difference starts from was taken after the other.
    #[error("the earlier snapshot is the newer one")]
    PreviousSnapshotNewer,
    /// The tags break a rule; the text says which.
    #[error("invalid tags: {0}")]
    InvalidTags(&'static str),
    /// There is no copy under way.
    #[error("no copy is under way")]
    NoPendingCopy,
    /// The copy to be ended is another one.
    #[error("the copy id is not that of the blob's copy")]
    CopyIdMismatch,
    /// This store cannot do that; the text says what.
    #[error("not supported by this store: {0}")]
    NotSupported(&'static str),
    /// Not a valid container or blob name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No room left where the store keeps its data.
    #[error("the store is full")]
    Full,
    /// The store's own files are damaged; the text says which and how.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The operating system failed an operation.
    #[error("{context}: {source}")]
    Io {
        /// What was being done.
        context: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Limits of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// Blocks staged under one name.
    #[error("a blob has at most 100,000 staged blocks")]
    StagedBlocks,
    /// Entries of a block list.
    #[error("a blob has at most 50,000 blocks")]
    BlockList,
    /// Blocks of an append blob.
    #[error("an append blob has at most 50,000 blocks")]
    AppendedBlocks,
    /// Size of a page blob.
    #[error("a page blob has at most 8 TiB")]
    PageBlobSize,
    /// Stored access policies.
    #[error("a container has at most 5 stored access policies")]
    Policies,
    /// Snapshots of one container.
    #[error("a container has at most 200 snapshots")]
    ContainerSnapshots,
    /// Size of the service's settings.
    #[error("the settings of the service have at most 64 KiB")]
    ServiceProperties,
}

impl StoreError {
    /// Wraps an I/O error; out of space becomes [`StoreError::Full`] so that nobody has to look inside.
    pub fn io(context: impl Into<String>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StoreError::Full
            }
            _ => StoreError::Io { context: context.into(), source },
        }
    }
}
