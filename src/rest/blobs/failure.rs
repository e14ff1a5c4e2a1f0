//! The one place where the store's errors get their status and code.

use crate::rest::failure::{lease_code, sentence};
use crate::store::{Limit, StoreError};
use crate::wire::{ErrorCode, Fault};

pub(super) use crate::rest::failure::Failure;

/// The result of an operation.
pub(super) type Result<T> = std::result::Result<T, Failure>;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NotModified => return Failure::NotModified,
            StoreError::ContainerNotFound(_) => ErrorCode::ContainerNotFound,
            StoreError::ContainerExists(_) => ErrorCode::ContainerAlreadyExists,
            StoreError::BlobNotFound(_) => ErrorCode::BlobNotFound,
            StoreError::BlobExists(_) => ErrorCode::BlobAlreadyExists,
            StoreError::ConditionNotMet => ErrorCode::ConditionNotMet,
            StoreError::ConditionsNotSupported => ErrorCode::MultipleConditionHeadersNotSupported,
            StoreError::UnsatisfiableCondition => ErrorCode::UnsatisfiableCondition,
            StoreError::SourceConditionNotMet => ErrorCode::SourceConditionNotMet,
            StoreError::Lease(refusal) => lease_code(*refusal),
            StoreError::SnapshotsPresent(_) => ErrorCode::SnapshotsPresent,
            StoreError::InvalidBlockList => ErrorCode::InvalidBlockList,
            StoreError::InvalidBlockId => ErrorCode::InvalidBlobOrBlock,
            StoreError::InvalidRange { .. } => ErrorCode::InvalidRange,
            StoreError::LimitExceeded(limit) => limit_code(*limit),
            StoreError::InvalidBlobType(_) => ErrorCode::InvalidBlobType,
            StoreError::BlobArchived(_) => ErrorCode::BlobArchived,
            StoreError::AppendPositionNotMet => ErrorCode::AppendPositionConditionNotMet,
            StoreError::MaxSizeNotMet => ErrorCode::MaxBlobSizeConditionNotMet,
            StoreError::BlobSealed(_) => ErrorCode::BlobIsSealed,
            StoreError::SequenceNumberNotMet => ErrorCode::SequenceNumberConditionNotMet,
            StoreError::InvalidPageRange => ErrorCode::InvalidPageRange,
            StoreError::PreviousSnapshotNotFound => ErrorCode::PreviousSnapshotNotFound,
            StoreError::PreviousSnapshotNewer => ErrorCode::PreviousSnapshotCannotBeNewer,
            StoreError::InvalidTags(_) => ErrorCode::InvalidTag,
            StoreError::NoPendingCopy => ErrorCode::NoPendingCopyOperation,
            StoreError::CopyIdMismatch => ErrorCode::CopyIdMismatch,
            StoreError::NotSupported(_) => ErrorCode::APINotImplemented,
            StoreError::Name(_) => ErrorCode::InvalidResourceName,
            StoreError::Full => ErrorCode::InsufficientStorage,
            StoreError::InvalidRename { .. } | StoreError::Damaged(_) | StoreError::Io { .. } => {
                // The text names paths on this machine; it is for the log.
                tracing::error!(%error, "the store failed a request");
                ErrorCode::InternalError
            }
        };
        Failure::Refused(match &error {
            // These say more than the code's own message.
            StoreError::InvalidTags(_)
            | StoreError::NotSupported(_)
            | StoreError::Name(_)
            | StoreError::LimitExceeded(_) => Fault::new(code).saying(sentence(&error)),
            _ => code.into(),
        })
    }
}

fn limit_code(limit: Limit) -> ErrorCode {
    match limit {
        Limit::StagedBlocks | Limit::AppendedBlocks => ErrorCode::BlockCountExceedsLimit,
        Limit::BlockList => ErrorCode::BlockListTooLong,
        Limit::PageBlobSize => ErrorCode::InvalidHeaderValue,
        Limit::Policies => ErrorCode::InvalidXmlDocument,
        Limit::ContainerSnapshots => ErrorCode::ShareSnapshotCountExceeded,
        Limit::ServiceProperties => ErrorCode::RequestBodyTooLarge,
    }
}
