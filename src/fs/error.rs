//! What can go wrong in the engine, in the words of files. Front ends map it in one total match each.

use std::io;
use std::ops::Range;

use crate::share::lease::LeaseRefusal;
use crate::store::StoreError;

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, FsError>;

/// Why an operation on a file or directory was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The directory that the path goes through does not exist.
    #[error("the directory above does not exist")]
    NoParent,
    /// No such share.
    #[error("no such share")]
    NoShare,
    /// No such snapshot of the share.
    #[error("no such snapshot of the share")]
    NoSnapshot,
    /// The share has snapshots, which keep it.
    #[error("the share has snapshots")]
    ShareHasSnapshots,
    /// The share has as many snapshots as it may have.
    #[error("the share has too many snapshots")]
    TooManySnapshots,
    /// The share is in use.
    #[error("the share is in use: {0}")]
    ShareInUse(&'static str),
    /// The file has the read-only attribute.
    #[error("the file is read-only")]
    ReadOnly,
    /// Bytes behind the end of the file.
    #[error("the range is behind the end of the file, which has {size} bytes")]
    OutOfRange {
        /// How long the file is.
        size: u64,
    },
    /// The lease on the file, or the lack of one, stands in the way of a call or of a lease action.
    #[error("{0}")]
    Lease(LeaseRefusal),
    /// The name is taken.
    #[error("the name exists already")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotADirectory,
    /// Anything but a directory was needed.
    #[error("is a directory")]
    IsADirectory,
    /// The directory still has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name has more than 255 bytes, or the path more than 1,024 characters.
    #[error("the name or path is too long")]
    NameTooLong,
    /// Names are UTF-8 here, because blob names are.
    #[error("the name is not valid UTF-8")]
    NotUtf8,
    /// Names below `.leasefs` belong to leasefs itself.
    #[error("the name is reserved for leasefs")]
    Reserved,
    /// What a share does not have: hard links, device nodes.
    #[error("{0}")]
    NotPermitted(&'static str),
    /// The open does not include the access that the operation needs.
    #[error("the file is not open for that")]
    BadAccess,
    /// Another open's share mode, or an open that this one's share mode forbids, stands in the way.
    #[error("another open of the file does not share this access")]
    SharingViolation,
    /// Another owner's range lock stands in the way.
    #[error("another range lock is in the way")]
    RangeLocked,
    /// Waiting for the range lock would never end: its holder waits, in the end, for this owner.
    #[error("waiting for this range lock would be a deadlock")]
    Deadlock,
    /// A signal came for whoever waits.
    #[error("a signal ended the wait")]
    Interrupted,
    /// The file was removed and waits for its last close.
    #[error("the file is delete pending: it goes away when its last user closes it")]
    DeletePending,
    /// The handle is not, or no longer, open.
    #[error("no such handle")]
    BadHandle,
    /// Somebody in charge closed the handle while its program still had it.
    #[error("the handle was closed from outside")]
    Revoked,
    /// An argument makes no sense; the text says which.
    #[error("{0}")]
    Invalid(&'static str),
    /// Seeking behind the last data.
    #[error("no data or hole behind this offset")]
    NoSuchOffset,
    /// The file would become larger than can be stored.
    #[error("the file would be too large")]
    TooLarge,
    /// No such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The extended attributes would not fit.
    #[error("the attributes of this file take more room than there is")]
    AttributesTooLarge,
    /// The share cannot do this; the text says what.
    #[error("{0}")]
    NotSupported(&'static str),
    /// The store is full.
    #[error("the store is full")]
    NoSpace,
    /// Somebody else changed or replaced the blob under this writer.
    #[error("the file was changed by somebody else")]
    Stale,
    /// Somebody else holds the lease on the blob; the text says what is known about it.
    #[error("somebody else holds the lease on the blob: {0}")]
    Leased(String),
    /// We held the lease on the blob and hold it no longer.
    #[error("the lease on the blob was lost")]
    LeaseLost,
    /// These bytes are at the service and not here yet: to be brought, and then asked for again. No front end tells
    /// its clients.
    #[error("bytes {} to {} are not here yet", .0.start, .0.end)]
    NotHere(Range<u64>),
    /// The service does not let this mount do that.
    #[error("the service denies access: {0}")]
    Denied(String),
    /// The service did not answer in time.
    #[error("the service did not answer in time: {0}")]
    TimedOut(String),
    /// The store or the disk failed.
    #[error("{0}")]
    Io(String),
}

impl From<StoreError> for FsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::BlobNotFound(_) | StoreError::ContainerNotFound(_) => FsError::NotFound,
            StoreError::BlobExists(_) | StoreError::ContainerExists(_) => FsError::Exists,
            StoreError::ConditionNotMet | StoreError::NotModified => FsError::Stale,
            StoreError::Lease(refusal) => refusal.into(),
            StoreError::Name(_) => FsError::NameTooLong,
            StoreError::Full => FsError::NoSpace,
            StoreError::NotSupported(what) => FsError::NotSupported(what),
            StoreError::LimitExceeded(_) => FsError::AttributesTooLarge,
            StoreError::InvalidRename { .. } => FsError::Invalid("a directory cannot be moved into itself"),
            StoreError::Io { ref source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                FsError::Denied(error.to_string())
            }
            StoreError::Io { ref source, .. } if source.kind() == io::ErrorKind::TimedOut => {
                FsError::TimedOut(error.to_string())
            }
            StoreError::ConditionsNotSupported
            | StoreError::UnsatisfiableCondition
            | StoreError::SourceConditionNotMet
            | StoreError::SnapshotsPresent(_)
            | StoreError::InvalidBlockList
            | StoreError::InvalidBlockId
            | StoreError::InvalidRange { .. }
            | StoreError::InvalidBlobType(_)
            | StoreError::BlobArchived(_)
            | StoreError::AppendPositionNotMet
            | StoreError::MaxSizeNotMet
            | StoreError::BlobSealed(_)
            | StoreError::SequenceNumberNotMet
            | StoreError::InvalidPageRange
            | StoreError::PreviousSnapshotNotFound
            | StoreError::PreviousSnapshotNewer
            | StoreError::InvalidTags(_)
            | StoreError::NoPendingCopy
            | StoreError::CopyIdMismatch
            | StoreError::Damaged(_)
            | StoreError::Io { .. } => FsError::Io(error.to_string()),
        }
    }
}

impl From<io::Error> for FsError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FsError::NoSpace,
            io::ErrorKind::FileTooLarge => FsError::TooLarge,
            _ => FsError::Io(error.to_string()),
        }
    }
}
