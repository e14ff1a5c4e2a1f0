//! Why an operation was not done, and the one place where the store's errors get their status and code.

use http::{Method, StatusCode};

use super::reply::{self, Reply};
use crate::rest::server::{Answer, BodyError, Unfit};
use crate::share::lease::LeaseRefusal;
use crate::store::{Limit, StoreError};
use crate::wire::{ErrorCode, Fault, headers, xml};

/// The result of an operation.
pub(super) type Result<T> = std::result::Result<T, Failure>;

/// Why there is no success to answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Refused, with the service's code.
    Refused(Fault),
    /// A read that only wanted something newer. Not an error, but told with one's code.
    NotModified,
    /// The source of a copy cannot be used; the status says why.
    Source(StatusCode, String),
}

impl Failure {
    /// The status, the code and the message.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Failure::Refused(fault) => reply::status_of(fault.code),
            Failure::NotModified => StatusCode::NOT_MODIFIED,
            Failure::Source(status, _) => *status,
        }
    }

    /// The answer that tells it. HEAD and 304 have no body, so the code stands in a header too.
    pub(super) fn into_answer(self, method: &Method, request_id: &str, time: &str) -> Answer {
        let reply = Reply::new(self.status());
        let told = match self {
            Failure::Source(_, why) => {
                Failure::Refused(Fault::new(ErrorCode::CannotVerifyCopySource).saying(why))
            }
            other => other,
        };
        match told {
            Failure::Source(..) => reply.empty(),
            Failure::NotModified => {
                reply.header(headers::ERROR_CODE, ErrorCode::ConditionNotMet.as_str()).empty()
            }
            Failure::Refused(fault) => {
                let reply = reply.header(headers::ERROR_CODE, fault.code.as_str());
                if *method == Method::HEAD {
                    return reply.empty();
                }
                reply.xml(xml::error_body(&fault, request_id, time))
            }
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Refused(fault)
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Failure::Refused(code.into())
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let code = match error {
            BodyError::Incomplete => ErrorCode::InvalidInput,
            BodyError::TooSlow => ErrorCode::OperationTimedOut,
            BodyError::TooLong { .. } => ErrorCode::RequestBodyTooLarge,
        };
        Failure::Refused(Fault::new(code).saying(sentence(&error)))
    }
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Failure::Refused(match unfit {
            Unfit::NoLength => ErrorCode::MissingContentLengthHeader.into(),
            Unfit::Host => Fault::invalid_header(headers::HOST, "exactly one is needed"),
            Unfit::Target => ErrorCode::InvalidUri.into(),
            Unfit::Method => ErrorCode::UnsupportedHttpVerb.into(),
            Unfit::Expect => Fault::invalid_header("expect", "only 100-continue is known"),
            Unfit::Repeated(name) => Fault::invalid_header(name.as_str(), "given more than once"),
        })
    }
}

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

fn lease_code(refusal: LeaseRefusal) -> ErrorCode {
    match refusal {
        LeaseRefusal::AlreadyPresent => ErrorCode::LeaseAlreadyPresent,
        LeaseRefusal::IsBreakingAndCannotBeAcquired => ErrorCode::LeaseIsBreakingAndCannotBeAcquired,
        LeaseRefusal::IsBrokenAndCannotBeRenewed => ErrorCode::LeaseIsBrokenAndCannotBeRenewed,
        LeaseRefusal::IsBreakingAndCannotBeChanged => ErrorCode::LeaseIsBreakingAndCannotBeChanged,
        LeaseRefusal::IdMismatchWithLeaseOperation => ErrorCode::LeaseIdMismatchWithLeaseOperation,
        LeaseRefusal::NotPresentWithLeaseOperation => ErrorCode::LeaseNotPresentWithLeaseOperation,
        LeaseRefusal::IdMissing => ErrorCode::LeaseIdMissing,
        LeaseRefusal::IdMismatchWithBlobOperation => ErrorCode::LeaseIdMismatchWithBlobOperation,
        LeaseRefusal::NotPresentWithBlobOperation => ErrorCode::LeaseNotPresentWithBlobOperation,
        LeaseRefusal::IdMismatchWithContainerOperation => ErrorCode::LeaseIdMismatchWithContainerOperation,
        LeaseRefusal::NotPresentWithContainerOperation => ErrorCode::LeaseNotPresentWithContainerOperation,
        LeaseRefusal::InfiniteDurationRequired => ErrorCode::InfiniteLeaseDurationRequired,
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

/// An error's text as a sentence.
fn sentence(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str().trim_end_matches('.')),
        None => text,
    }
}
