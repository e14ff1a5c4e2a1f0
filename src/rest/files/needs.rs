//! What each operation needs of a caller without the account's key: the service's table, as one total match.

use http::HeaderMap;

use super::operation::{DirectoryOp, FileOp, HandlesOp, Operation, ServiceOp, ShareOp};
use crate::wire::headers;
use crate::wire::signing::Permission::{Create, Delete, List, Read, Write};
use crate::wire::signing::{Level, Need};

/// What the operation of this request needs. Nothing of the Files service is public.
pub(super) fn need(operation: &Operation, headers: &HeaderMap) -> Need {
    match operation {
        Operation::Service(op) => match op {
            ServiceOp::GetProperties => Need::service(&[Read]),
            ServiceOp::SetProperties => Need::service(&[Write]),
            ServiceOp::ListShares => Need::service(&[List]),
        },
        Operation::Share(_, op) => of_share(*op, headers),
        Operation::Directory(_, op) => of_directory(*op),
        Operation::File(_, op) => of_file(*op, headers),
        Operation::Handles(_, op) => match op {
            HandlesOp::List => Need::blob(&[List]),
            HandlesOp::Close => Need::blob(&[Write]),
        },
        Operation::Unsupported(_) => Need { permissions: Vec::new(), ..Need::blob(&[]) },
    }
}

fn of_share(op: ShareOp, headers: &HeaderMap) -> Need {
    match op {
        ShareOp::Create => Need::container(&[Create, Write]),
        ShareOp::GetProperties | ShareOp::GetMetadata | ShareOp::GetStats => Need::container(&[Read]),
        ShareOp::SetProperties | ShareOp::SetMetadata => Need::container(&[Write]),
        ShareOp::Snapshot => Need::container(&[Create, Write]),
        ShareOp::GetAcl | ShareOp::SetAcl => Need::key_only(Level::Container),
        ShareOp::Delete => Need::container(&[Delete]),
        ShareOp::Lease if is_break(headers) => Need::container(&[Write, Delete]),
        ShareOp::Lease => Need::container(&[Write]),
        ShareOp::CreatePermission => Need::container(&[Create, Write]).or_by_service_sas(),
        ShareOp::GetPermission => Need::container(&[Read]).or_by_service_sas(),
    }
}

fn of_directory(op: DirectoryOp) -> Need {
    match op {
        DirectoryOp::Create => Need::blob(&[Create, Write]),
        DirectoryOp::GetProperties | DirectoryOp::GetMetadata => Need::blob(&[Read]),
        DirectoryOp::SetProperties | DirectoryOp::SetMetadata | DirectoryOp::Rename => Need::blob(&[Write]),
        DirectoryOp::List => Need::blob(&[List]),
        DirectoryOp::Delete => Need::blob(&[Delete]),
    }
}

fn of_file(op: FileOp, headers: &HeaderMap) -> Need {
    match op {
        FileOp::Get | FileOp::GetProperties | FileOp::GetMetadata | FileOp::ListRanges => Need::blob(&[Read]),
        // To replace what exists needs the right to write; whoever may only create is stopped by the handler.
        FileOp::Create | FileOp::Copy => Need::blob(&[Create, Write]),
        FileOp::SetProperties
        | FileOp::SetMetadata
        | FileOp::PutRange
        | FileOp::PutRangeFromUrl
        | FileOp::AbortCopy
        | FileOp::Rename => Need::blob(&[Write]),
        FileOp::Delete => Need::blob(&[Delete]),
        FileOp::Lease if is_break(headers) => Need::blob(&[Write, Delete]),
        FileOp::Lease => Need::blob(&[Write]),
    }
}

/// Whoever may delete may also end somebody's lease.
fn is_break(headers: &HeaderMap) -> bool {
    let action = headers.get(headers::LEASE_ACTION);
    action.is_some_and(|action| action.as_bytes().eq_ignore_ascii_case(b"break"))
}

#[cfg(test)]
mod tests {
    use super::super::place::Place;
    use super::*;
    use crate::wire::signing::{Permissions, Public};

    fn on_file(op: FileOp, action: &'static str) -> Need {
        let mut headers = HeaderMap::new();
        headers.insert(headers::LEASE_ACTION, action.parse().unwrap());
        need(&Operation::File(Place::named("docs", "f", false).unwrap(), op), &headers)
    }

    #[test]
    fn a_break_needs_less_than_a_lease() {
        assert_eq!(on_file(FileOp::Lease, "acquire").permissions, [Permissions::of(&[Write])]);
        assert_eq!(on_file(FileOp::Lease, "Break").permissions, [Permissions::of(&[Write, Delete])]);
    }

    #[test]
    fn nothing_is_public_and_shares_are_not_for_service_sas() {
        assert_eq!(on_file(FileOp::Get, "").public, Public::Never);
        let share = crate::store::ContainerName::new("docs").unwrap();
        let delete = need(&Operation::Share(share, ShareOp::Delete), &HeaderMap::new());
        assert!(!delete.by_service_sas && on_file(FileOp::Delete, "").by_service_sas);
    }
}
