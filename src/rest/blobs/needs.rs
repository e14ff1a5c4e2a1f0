//! What each operation needs of a caller without the account's key: the service's table, as one total match.

use http::HeaderMap;

use super::operation::{AccountOp, BlobOp, ContainerOp, Operation};
use crate::wire::headers;
use crate::wire::query::Query;
use crate::wire::signing::Permission::{Add, Create, Delete, Filter, List, Read, Tags, Write};
use crate::wire::signing::{Level, Need, Public};

/// What the operation of this request needs.
pub(super) fn need(operation: &Operation, headers: &HeaderMap, query: &Query) -> Need {
    let need = match operation {
        Operation::Account(op) => of_account(*op),
        Operation::Container(_, op) => of_container(*op, headers, query),
        Operation::Blob(_, op) => of_blob(*op, headers),
    };
    let asks_about_tags = headers.contains_key(headers::TAGS) || headers.contains_key(headers::IF_TAGS);
    if asks_about_tags { need.and(&[Tags]) } else { need }
}

fn of_account(op: AccountOp) -> Need {
    match op {
        AccountOp::GetServiceProperties | AccountOp::GetServiceStats => Need::service(&[Read]),
        AccountOp::SetServiceProperties => Need::service(&[Write]),
        AccountOp::ListContainers => Need::service(&[List]),
        AccountOp::FindBlobsByTags => Need::blob(&[Filter]),
        // Every request in a batch is judged by itself.
        AccountOp::Batch | AccountOp::GetAccountInfo | AccountOp::Unsupported(_) => anything(),
    }
}

fn of_container(op: ContainerOp, headers: &HeaderMap, query: &Query) -> Need {
    match op {
        ContainerOp::Create => Need::container(&[Create, Write]),
        ContainerOp::GetProperties | ContainerOp::GetMetadata => {
            Need::container(&[Read]).or_public(Public::Container)
        }
        ContainerOp::SetMetadata => Need::container(&[Write]),
        ContainerOp::GetAcl | ContainerOp::SetAcl => Need::key_only(Level::Container),
        ContainerOp::Delete => Need::container(&[Delete]),
        ContainerOp::Lease => of_lease(Need::container, headers),
        ContainerOp::ListBlobs => {
            let list = Need::container(&[List]).or_by_service_sas().or_public(Public::Container);
            let with_tags =
                query.get("include").is_some_and(|list| list.split(',').any(|part| part == "tags"));
            if with_tags { list.and(&[Tags]) } else { list }
        }
        ContainerOp::FindBlobsByTags => Need::container(&[Filter]).or_by_service_sas(),
        ContainerOp::Batch | ContainerOp::GetAccountInfo | ContainerOp::Unsupported(_) => anything(),
    }
}

fn of_blob(op: BlobOp, headers: &HeaderMap) -> Need {
    match op {
        BlobOp::Get
        | BlobOp::GetProperties
        | BlobOp::GetMetadata
        | BlobOp::GetBlockList
        | BlobOp::GetPageRanges => Need::blob(&[Read]).or_public(Public::Blob),
        BlobOp::GetTags | BlobOp::SetTags => Need::blob(&[Tags]),
        // To replace what exists needs the right to write; whoever may only create is stopped by the handler.
        BlobOp::Put | BlobOp::PutFromUrl | BlobOp::Copy | BlobOp::CopyFromUrl | BlobOp::Snapshot => {
            Need::blob(&[Create, Write])
        }
        BlobOp::SetMetadata
        | BlobOp::SetProperties
        | BlobOp::SetTier
        | BlobOp::AbortCopy
        | BlobOp::PutBlock
        | BlobOp::PutBlockFromUrl
        | BlobOp::PutBlockList
        | BlobOp::PutPage
        | BlobOp::PutPageFromUrl => Need::blob(&[Write]),
        BlobOp::AppendBlock | BlobOp::AppendBlockFromUrl | BlobOp::Seal => Need::blob(&[Add, Write]),
        BlobOp::Delete => Need::blob(&[Delete]),
        BlobOp::Lease => of_lease(Need::blob, headers),
        BlobOp::GetAccountInfo | BlobOp::Unsupported(_) => anything(),
    }
}

/// Whoever may delete may also end somebody's lease.
fn of_lease(need: impl FnOnce(&[crate::wire::signing::Permission]) -> Need, headers: &HeaderMap) -> Need {
    let is_break = headers
        .get(headers::LEASE_ACTION)
        .is_some_and(|action| action.as_bytes().eq_ignore_ascii_case(b"break"));
    if is_break { need(&[Write, Delete]) } else { need(&[Write]) }
}

/// Any right at all.
fn anything() -> Need {
    Need { permissions: Vec::new(), ..Need::blob(&[]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{BlobName, BlobPath, ContainerName};
    use crate::wire::signing::Permissions;

    fn on_blob(op: BlobOp, pairs: &[(&'static str, &'static str)]) -> Need {
        let at = BlobPath::new(ContainerName::new("share").unwrap(), BlobName::new("f").unwrap());
        let headers =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        need(&Operation::Blob(at, op), &headers, &Query::default())
    }

    #[test]
    fn a_break_needs_less_than_a_lease() {
        let lease = |action| on_blob(BlobOp::Lease, &[("x-ms-lease-action", action)]).permissions;
        assert_eq!(lease("acquire"), [Permissions::of(&[Write])]);
        assert_eq!(lease("Break"), [Permissions::of(&[Write, Delete])]);
    }

    #[test]
    fn tags_need_their_own_permission() {
        let plain = on_blob(BlobOp::Put, &[]).permissions;
        assert_eq!(plain, [Permissions::of(&[Create, Write])]);
        let tagged = on_blob(BlobOp::Put, &[("x-ms-tags", "a=b")]).permissions;
        assert_eq!(tagged, [Permissions::of(&[Create, Write]), Permissions::of(&[Tags])]);
    }

    #[test]
    fn reads_of_blobs_can_be_public_and_writes_never() {
        assert_eq!(on_blob(BlobOp::Get, &[]).public, Public::Blob);
        assert_eq!(on_blob(BlobOp::Put, &[]).public, Public::Never);
        let name = ContainerName::new("share").unwrap();
        let list = |query: &str| {
            let query = Query::parse(query).unwrap();
            need(&Operation::Container(name.clone(), ContainerOp::ListBlobs), &HeaderMap::new(), &query)
        };
        assert_eq!(list("").public, Public::Container);
        assert_eq!(list("include=metadata,tags").permissions.len(), 2);
    }
}
