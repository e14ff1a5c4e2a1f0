//! The one place where errors of the engine and of the store get the Files service's status and code.

use crate::fs::FsError;
use crate::fs::requests;
use crate::rest::failure::{self as common, sentence};
use crate::rest::server::BodyError;
use crate::share::lease::LeaseRefusal;
use crate::wire::{ErrorCode, Fault};

/// The result of an operation.
pub(super) type Result<T> = std::result::Result<T, Failure>;

/// Why an operation was not done. A type of its own, so that no error of a store gets the Blob service's code.
#[derive(Debug)]
pub(super) struct Failure(pub(super) common::Failure);

impl Failure {
    /// The code it is told with, if it is a refusal.
    pub(super) fn code(&self) -> Option<ErrorCode> {
        match &self.0 {
            common::Failure::Refused(fault) => Some(fault.code),
            common::Failure::NotModified | common::Failure::Source(..) => None,
        }
    }
}

impl From<Failure> for common::Failure {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl From<common::Failure> for Failure {
    fn from(failure: common::Failure) -> Self {
        Self(failure)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self(fault.into())
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self(code.into())
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        Self(error.into())
    }
}

/// What a refused operation was about; the same error has another code for a share than for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Path,
    Share,
}

impl From<requests::Failure> for Failure {
    fn from(failure: requests::Failure) -> Self {
        of_engine(&failure, About::Path).into()
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        requests::Failure::from(error).into()
    }
}

/// A refused operation on a share as a whole.
pub(super) fn of_share(error: FsError) -> Failure {
    of_engine(&error.into(), About::Share).into()
}

fn of_engine(failure: &requests::Failure, about: About) -> Fault {
    let code = code_of(&failure.error, about);
    match &failure.error {
        // Who is in the way, or what is wrong, says more than the code's own message.
        FsError::SharingViolation
        | FsError::DeletePending
        | FsError::RangeLocked
        | FsError::Leased(_)
        | FsError::ShareInUse(_)
        | FsError::NotPermitted(_)
        | FsError::NotSupported(_) => {
            let message = sentence(failure);
            Fault::new(code).saying(format!("{} {message}", code.message()))
        }
        FsError::Invalid(_) => Fault::new(code).saying(sentence(&failure.error)),
        error => {
            if code == ErrorCode::InternalError {
                // The text may name paths on this machine; it is for the log.
                tracing::error!(%error, "the engine failed a request");
            }
            code.into()
        }
    }
}

/// Status and code of every error there is.
fn code_of(error: &FsError, about: About) -> ErrorCode {
    match (error, about) {
        (FsError::NotFound, About::Share) | (FsError::NoShare, _) => ErrorCode::ShareNotFound,
        (FsError::NotFound, About::Path) => ErrorCode::ResourceNotFound,
        (FsError::NoParent, _) => ErrorCode::ParentNotFound,
        (FsError::NoSnapshot, _) => ErrorCode::ShareSnapshotNotFound,
        (FsError::Exists, About::Share) => ErrorCode::ShareAlreadyExists,
        (FsError::Exists, About::Path) => ErrorCode::ResourceAlreadyExists,
        (FsError::ShareInUse(_), _) => ErrorCode::SharingViolation,
        (FsError::ShareHasSnapshots, _) => ErrorCode::ShareHasSnapshots,
        (FsError::TooManySnapshots, _) => ErrorCode::ShareSnapshotCountExceeded,
        (FsError::NotADirectory | FsError::IsADirectory, _) => ErrorCode::ResourceTypeMismatch,
        (FsError::NotEmpty, _) => ErrorCode::DirectoryNotEmpty,
        (FsError::NameTooLong, _) => ErrorCode::InvalidFileOrDirectoryPathName,
        (FsError::NotUtf8 | FsError::Reserved, _) => ErrorCode::InvalidResourceName,
        (FsError::NotPermitted(_), _) => ErrorCode::CannotDeleteFileOrDirectory,
        (FsError::SharingViolation | FsError::Leased(_), _) => ErrorCode::SharingViolation,
        (FsError::DeletePending, _) => ErrorCode::SMBDeletePending,
        (FsError::RangeLocked, _) => ErrorCode::FileLockConflict,
        (FsError::ReadOnly, _) => ErrorCode::ReadOnlyAttribute,
        (FsError::OutOfRange { .. } | FsError::NoSuchOffset, _) => ErrorCode::InvalidRange,
        (FsError::TooLarge, _) => ErrorCode::OutOfRangeInput,
        (FsError::NoAttribute, _) => ErrorCode::FileInvalidPermissionKey,
        (FsError::AttributesTooLarge, _) => ErrorCode::MetadataTooLarge,
        (FsError::NoSpace, _) => ErrorCode::InsufficientStorage,
        (FsError::Invalid(_), _) => ErrorCode::InvalidInput,
        (FsError::NotSupported(_), _) => ErrorCode::APINotImplemented,
        (FsError::Lease(refusal), about) => lease_code(*refusal, about),
        // Whoever meets these tries again.
        (
            FsError::Stale
            | FsError::LeaseLost
            | FsError::Interrupted
            | FsError::Deadlock
            | FsError::NotHere(_)
            | FsError::TimedOut(_),
            _,
        ) => ErrorCode::ServerBusy,
        (
            FsError::BadAccess | FsError::BadHandle | FsError::Revoked | FsError::Denied(_) | FsError::Io(_),
            _,
        ) => ErrorCode::InternalError,
    }
}

fn lease_code(refusal: LeaseRefusal, about: About) -> ErrorCode {
    match (refusal, about) {
        (
            LeaseRefusal::IdMismatchWithBlobOperation | LeaseRefusal::IdMismatchWithContainerOperation,
            About::Path,
        ) => ErrorCode::LeaseIdMismatchWithFileOperation,
        (
            LeaseRefusal::NotPresentWithBlobOperation | LeaseRefusal::NotPresentWithContainerOperation,
            About::Path,
        ) => ErrorCode::LeaseNotPresentWithFileOperation,
        (
            LeaseRefusal::IdMismatchWithBlobOperation | LeaseRefusal::IdMismatchWithContainerOperation,
            About::Share,
        ) => ErrorCode::LeaseIdMismatchWithShareOperation,
        (
            LeaseRefusal::NotPresentWithBlobOperation | LeaseRefusal::NotPresentWithContainerOperation,
            About::Share,
        ) => ErrorCode::LeaseNotPresentWithShareOperation,
        (
            LeaseRefusal::AlreadyPresent
            | LeaseRefusal::IsBreakingAndCannotBeAcquired
            | LeaseRefusal::IsBrokenAndCannotBeRenewed
            | LeaseRefusal::IsBreakingAndCannotBeChanged
            | LeaseRefusal::IdMismatchWithLeaseOperation
            | LeaseRefusal::NotPresentWithLeaseOperation
            | LeaseRefusal::IdMissing
            | LeaseRefusal::InfiniteDurationRequired,
            About::Path | About::Share,
        ) => common::lease_code(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &FsError, about: About) -> (u16, &'static str) {
        let code = code_of(error, about);
        (code.status(), code.as_str())
    }

    #[test]
    fn what_a_mounted_program_causes_is_told_as_the_service_tells_it() {
        assert_eq!(told(&FsError::SharingViolation, About::Path), (409, "SharingViolation"));
        assert_eq!(told(&FsError::DeletePending, About::Path), (409, "SMBDeletePending"));
        assert_eq!(told(&FsError::RangeLocked, About::Path), (409, "FileLockConflict"));
        assert_eq!(told(&FsError::Leased("x".into()), About::Path), (409, "SharingViolation"));
        assert_eq!(told(&FsError::ReadOnly, About::Path), (409, "ReadOnlyAttribute"));
    }

    #[test]
    fn one_error_has_two_codes() {
        assert_eq!(told(&FsError::NotFound, About::Path), (404, "ResourceNotFound"));
        assert_eq!(told(&FsError::NotFound, About::Share), (404, "ShareNotFound"));
        let mismatch = || FsError::Lease(LeaseRefusal::IdMismatchWithBlobOperation);
        assert_eq!(told(&mismatch(), About::Path), (412, "LeaseIdMismatchWithFileOperation"));
        assert_eq!(told(&mismatch(), About::Share), (412, "LeaseIdMismatchWithShareOperation"));
        let absent = FsError::Lease(LeaseRefusal::NotPresentWithLeaseOperation);
        assert_eq!(told(&absent, About::Path), (409, "LeaseNotPresentWithLeaseOperation"));
    }
}
