//! What went wrong, in the store's words.

use std::io;

use crate::share::lease::LeaseRefusal;
use crate::store::{Limit, StoreError};
use crate::wire::ErrorCode;

/// A refusal of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The code, if it is one we know.
    pub(super) code: Option<ErrorCode>,
    /// Code and message for people.
    pub(super) text: String,
    /// The service's id of the request.
    pub(super) request_id: String,
}

/// A request that did not succeed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// Some attempt may have been carried out although its success was not answered.
    pub(super) lost: bool,
    /// What was asked, without secrets: method, place and our id of the request.
    pub(super) what: String,
}

#[derive(Debug)]
pub(super) enum FailureKind {
    /// The service said no.
    Refused(Refusal),
    /// The service could not be reached, or its answer made no sense.
    Broken(io::ErrorKind, String),
}

impl std::fmt::Display for FailureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FailureKind::Refused(refusal) => {
                write!(f, "{} ({}), request {}", refusal.text, refusal.status, refusal.request_id)
            }
            FailureKind::Broken(_, text) => f.write_str(text),
        }
    }
}

impl Failure {
    /// The code of the refusal, if it is one.
    pub(super) fn code(&self) -> Option<ErrorCode> {
        match &self.kind {
            FailureKind::Refused(refusal) => refusal.code,
            FailureKind::Broken(..) => None,
        }
    }

    /// The store's error for something about `name`, a blob or a container.
    pub(super) fn about(self, name: &dyn std::fmt::Display) -> StoreError {
        let Failure { kind, what, .. } = self;
        match kind {
            FailureKind::Broken(kind, text) => {
                StoreError::Io { context: what, source: io::Error::new(kind, text) }
            }
            FailureKind::Refused(refusal) => {
                let known = match refusal.status {
                    304 => Some(StoreError::NotModified),
                    _ => refusal.code.and_then(|code| known(code, name)),
                };
                known.unwrap_or_else(|| unknown(what, &refusal))
            }
        }
    }
}

/// Errors that the store's contract has a word for.
fn known(code: ErrorCode, name: &dyn std::fmt::Display) -> Option<StoreError> {
    let name = || name.to_string();
    Some(match code {
        ErrorCode::ContainerNotFound => StoreError::ContainerNotFound(name()),
        ErrorCode::ContainerAlreadyExists => StoreError::ContainerExists(name()),
        ErrorCode::BlobNotFound | ErrorCode::ResourceNotFound => StoreError::BlobNotFound(name()),
        ErrorCode::BlobAlreadyExists => StoreError::BlobExists(name()),
        ErrorCode::ConditionNotMet | ErrorCode::TargetConditionNotMet => StoreError::ConditionNotMet,
        ErrorCode::SourceConditionNotMet => StoreError::SourceConditionNotMet,
        ErrorCode::MultipleConditionHeadersNotSupported | ErrorCode::ConditionHeadersNotSupported => {
            StoreError::ConditionsNotSupported
        }
        ErrorCode::UnsatisfiableCondition => StoreError::UnsatisfiableCondition,
        ErrorCode::SnapshotsPresent => StoreError::SnapshotsPresent(name()),
        ErrorCode::InvalidBlockList => StoreError::InvalidBlockList,
        ErrorCode::InvalidBlobOrBlock | ErrorCode::InvalidBlockId => StoreError::InvalidBlockId,
        ErrorCode::InvalidBlobType => StoreError::InvalidBlobType(name()),
        ErrorCode::BlobArchived => StoreError::BlobArchived(name()),
        ErrorCode::AppendPositionConditionNotMet => StoreError::AppendPositionNotMet,
        ErrorCode::MaxBlobSizeConditionNotMet => StoreError::MaxSizeNotMet,
        ErrorCode::BlobIsSealed => StoreError::BlobSealed(name()),
        ErrorCode::SequenceNumberConditionNotMet => StoreError::SequenceNumberNotMet,
        ErrorCode::InvalidPageRange => StoreError::InvalidPageRange,
        ErrorCode::PreviousSnapshotNotFound => StoreError::PreviousSnapshotNotFound,
        ErrorCode::PreviousSnapshotCannotBeNewer => StoreError::PreviousSnapshotNewer,
        ErrorCode::InvalidTag | ErrorCode::TagsTooLarge | ErrorCode::EmptyTagName => {
            StoreError::InvalidTags("the service refused them")
        }
        ErrorCode::NoPendingCopyOperation => StoreError::NoPendingCopy,
        ErrorCode::CopyIdMismatch => StoreError::CopyIdMismatch,
        ErrorCode::BlockListTooLong => StoreError::LimitExceeded(Limit::BlockList),
        ErrorCode::BlockCountExceedsLimit => StoreError::LimitExceeded(Limit::StagedBlocks),
        ErrorCode::InsufficientStorage => StoreError::Full,
        other => StoreError::Lease(lease_refusal(other)?),
    })
}

/// The lease's own word for a code.
fn lease_refusal(code: ErrorCode) -> Option<LeaseRefusal> {
    Some(match code {
        ErrorCode::LeaseAlreadyPresent => LeaseRefusal::AlreadyPresent,
        ErrorCode::LeaseIsBreakingAndCannotBeAcquired => LeaseRefusal::IsBreakingAndCannotBeAcquired,
        ErrorCode::LeaseIsBrokenAndCannotBeRenewed => LeaseRefusal::IsBrokenAndCannotBeRenewed,
        ErrorCode::LeaseIsBreakingAndCannotBeChanged => LeaseRefusal::IsBreakingAndCannotBeChanged,
        ErrorCode::LeaseIdMismatchWithLeaseOperation => LeaseRefusal::IdMismatchWithLeaseOperation,
        ErrorCode::LeaseNotPresentWithLeaseOperation => LeaseRefusal::NotPresentWithLeaseOperation,
        ErrorCode::LeaseIdMissing => LeaseRefusal::IdMissing,
        ErrorCode::LeaseIdMismatchWithBlobOperation => LeaseRefusal::IdMismatchWithBlobOperation,
        ErrorCode::LeaseNotPresentWithBlobOperation | ErrorCode::LeaseLost => {
            LeaseRefusal::NotPresentWithBlobOperation
        }
        ErrorCode::LeaseIdMismatchWithContainerOperation => LeaseRefusal::IdMismatchWithContainerOperation,
        ErrorCode::LeaseNotPresentWithContainerOperation => LeaseRefusal::NotPresentWithContainerOperation,
        ErrorCode::InfiniteLeaseDurationRequired => LeaseRefusal::InfiniteDurationRequired,
        _ => return None,
    })
}

fn unknown(what: String, refusal: &Refusal) -> StoreError {
    let kind = match refusal.status {
        401 | 403 => io::ErrorKind::PermissionDenied,
        408 | 504 => io::ErrorKind::TimedOut,
        400 | 405 | 411 | 413 | 501 => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    let text = format!("{} ({}), request {}", refusal.text, refusal.status, refusal.request_id);
    StoreError::Io { context: what, source: io::Error::new(kind, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(status: u16, code: Option<ErrorCode>) -> StoreError {
        let refusal = Refusal { status, code, text: "Code: text".to_owned(), request_id: "r1".to_owned() };
        let what = "PUT share/f (c1)".to_owned();
        Failure { kind: FailureKind::Refused(refusal), lost: false, what }.about(&"f")
    }

    #[test]
    fn refusals_become_the_stores_words() {
        assert!(
            matches!(about(404, Some(ErrorCode::BlobNotFound)), StoreError::BlobNotFound(name) if name == "f")
        );
        assert!(matches!(about(304, Some(ErrorCode::ConditionNotMet)), StoreError::NotModified));
        assert!(matches!(about(412, Some(ErrorCode::ConditionNotMet)), StoreError::ConditionNotMet));
        let lease = about(412, Some(ErrorCode::LeaseIdMissing));
        assert!(matches!(lease, StoreError::Lease(LeaseRefusal::IdMissing)));
        let denied = about(403, Some(ErrorCode::AuthenticationFailed)).to_string();
        assert_eq!(denied, "PUT share/f (c1): Code: text (403), request r1");
        assert!(matches!(about(599, None), StoreError::Io { .. }));
    }

    #[test]
    fn every_lease_refusal_has_its_code() {
        let refusals = ErrorCode::ALL.iter().filter_map(|code| lease_refusal(*code));
        let known: std::collections::HashSet<_> = refusals.collect();
        assert_eq!(known.len(), 12);
    }
}
