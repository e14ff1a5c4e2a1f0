//! The engine's errors as errno values: one total match.

use fuser::Errno;

use crate::fs::FsError;

/// The errno that tells a program what the engine said.
pub(super) fn errno(error: &FsError) -> Errno {
    match error {
        FsError::NotFound | FsError::NoParent | FsError::NoShare | FsError::NoSnapshot => Errno::ENOENT,
        FsError::Exists => Errno::EEXIST,
        FsError::NotADirectory => Errno::ENOTDIR,
        FsError::IsADirectory => Errno::EISDIR,
        FsError::NotEmpty => Errno::ENOTEMPTY,
        FsError::NameTooLong => Errno::ENAMETOOLONG,
        FsError::NotUtf8 => Errno::EILSEQ,
        FsError::Reserved | FsError::NotPermitted(_) => Errno::EPERM,
        FsError::BadAccess | FsError::BadHandle => Errno::EBADF,
        // As the Linux SMB client reports both of them.
        FsError::SharingViolation
        | FsError::DeletePending
        | FsError::Leased(_)
        | FsError::Lease(_)
        | FsError::ShareInUse(_)
        | FsError::ShareHasSnapshots => Errno::EBUSY,
        // As it reports a read-only file on a server, to root too.
        FsError::ReadOnly => Errno::EACCES,
        FsError::RangeLocked => Errno::EAGAIN,
        FsError::Deadlock => Errno::EDEADLK,
        FsError::Interrupted => Errno::EINTR,
        FsError::Invalid(_) | FsError::OutOfRange { .. } => Errno::EINVAL,
        FsError::NoSuchOffset => Errno::ENXIO,
        FsError::TooLarge => Errno::EFBIG,
        FsError::NoAttribute => Errno::ENODATA,
        FsError::AttributesTooLarge | FsError::NoSpace | FsError::TooManySnapshots => Errno::ENOSPC,
        FsError::NotSupported(_) => Errno::EOPNOTSUPP,
        FsError::Stale => Errno::ESTALE,
        FsError::Denied(_) => Errno::EACCES,
        FsError::TimedOut(_) => Errno::ETIMEDOUT,
        FsError::Revoked | FsError::LeaseLost | FsError::NotHere(_) | FsError::Io(_) => Errno::EIO,
    }
}
