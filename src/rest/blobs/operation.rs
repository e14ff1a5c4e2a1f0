//! What a request asks for: one typed value from method, resource, `restype`, `comp` and the headers that decide.
//!
//! Total: every request becomes an [`Operation`] or a refusal with the service's own code. What the operation's
//! parameters are is for its handler to read.

use http::{HeaderMap, Method};

use super::route::{ROOT_CONTAINER, Resource};
use crate::store::{BlobName, BlobPath, ContainerName};
use crate::wire::query::Query;
use crate::wire::{ErrorCode, Fault, headers};

/// A request's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// About the account.
    Account(AccountOp),
    /// About a container.
    Container(ContainerName, ContainerOp),
    /// About a blob.
    Blob(BlobPath, BlobOp),
}

/// Operations on the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountOp {
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    GetAccountInfo,
    ListContainers,
    FindBlobsByTags,
    Batch,
    /// Known to the service, not offered here.
    Unsupported(&'static str),
}

/// Operations on a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerOp {
    Create,
    GetProperties,
    GetMetadata,
    SetMetadata,
    GetAcl,
    SetAcl,
    Delete,
    Lease,
    ListBlobs,
    FindBlobsByTags,
    Batch,
    GetAccountInfo,
    /// Known to the service, not offered here.
    Unsupported(&'static str),
}

/// Operations on a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobOp {
    Get,
    GetProperties,
    GetMetadata,
    SetMetadata,
    SetProperties,
    SetTier,
    GetTags,
    SetTags,
    Put,
    PutFromUrl,
    Delete,
    Snapshot,
    Copy,
    CopyFromUrl,
    AbortCopy,
    Lease,
    PutBlock,
    PutBlockFromUrl,
    PutBlockList,
    GetBlockList,
    AppendBlock,
    AppendBlockFromUrl,
    Seal,
    PutPage,
    PutPageFromUrl,
    GetPageRanges,
    GetAccountInfo,
    /// Known to the service, not offered here.
    Unsupported(&'static str),
}

impl Operation {
    /// The operation a request names.
    pub(super) fn parse(
        method: &Method,
        resource: &Resource,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<Self, Fault> {
        let (restype, comp) = (query.get("restype").unwrap_or(""), query.get("comp").unwrap_or(""));
        match resource {
            Resource::Account => account_op(method, restype, comp).map(Operation::Account),
            Resource::Container(name) => {
                let op = container_op(method, restype, comp)?;
                Ok(Operation::Container(container_name(name)?, op))
            }
            Resource::Blob(container, name) => {
                let op = blob_op(method, restype, comp, headers)?;
                let name = BlobName::new(name.as_str()).map_err(|error| bad_name(&error))?;
                Ok(Operation::Blob(BlobPath::new(container_name(container)?, name), op))
            }
        }
    }

    /// Whether it only reads, which is all that the secondary endpoint does.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Operation::Account(op) => match op {
                AccountOp::GetServiceProperties
                | AccountOp::GetServiceStats
                | AccountOp::GetAccountInfo
                | AccountOp::ListContainers
                | AccountOp::FindBlobsByTags => true,
                AccountOp::SetServiceProperties | AccountOp::Batch | AccountOp::Unsupported(_) => false,
            },
            Operation::Container(_, op) => match op {
                ContainerOp::GetProperties
                | ContainerOp::GetMetadata
                | ContainerOp::GetAcl
                | ContainerOp::ListBlobs
                | ContainerOp::FindBlobsByTags
                | ContainerOp::GetAccountInfo => true,
                ContainerOp::Create
                | ContainerOp::SetMetadata
                | ContainerOp::SetAcl
                | ContainerOp::Delete
                | ContainerOp::Lease
                | ContainerOp::Batch
                | ContainerOp::Unsupported(_) => false,
            },
            Operation::Blob(_, op) => op.is_read(),
        }
    }
}

impl BlobOp {
    fn is_read(self) -> bool {
        match self {
            BlobOp::Get
            | BlobOp::GetProperties
            | BlobOp::GetMetadata
            | BlobOp::GetTags
            | BlobOp::GetBlockList
            | BlobOp::GetPageRanges
            | BlobOp::GetAccountInfo => true,
            BlobOp::SetMetadata
            | BlobOp::SetProperties
            | BlobOp::SetTier
            | BlobOp::SetTags
            | BlobOp::Put
            | BlobOp::PutFromUrl
            | BlobOp::Delete
            | BlobOp::Snapshot
            | BlobOp::Copy
            | BlobOp::CopyFromUrl
            | BlobOp::AbortCopy
            | BlobOp::Lease
            | BlobOp::PutBlock
            | BlobOp::PutBlockFromUrl
            | BlobOp::PutBlockList
            | BlobOp::AppendBlock
            | BlobOp::AppendBlockFromUrl
            | BlobOp::Seal
            | BlobOp::PutPage
            | BlobOp::PutPageFromUrl
            | BlobOp::Unsupported(_) => false,
        }
    }
}

fn account_op(method: &Method, restype: &str, comp: &str) -> Result<AccountOp, Fault> {
    use AccountOp as Op;
    match (restype, comp) {
        ("service", "properties") => {
            by_verb(method, Some(Op::GetServiceProperties), Some(Op::SetServiceProperties))
        }
        ("service", "stats") => by_verb(method, Some(Op::GetServiceStats), None),
        ("service", "userdelegationkey") => Ok(Op::Unsupported("Get User Delegation Key")),
        ("account", "properties") => by_verb(method, Some(Op::GetAccountInfo), None),
        ("", "list") => by_verb(method, Some(Op::ListContainers), None),
        ("", "blobs") => by_verb(method, Some(Op::FindBlobsByTags), None),
        ("", "batch") => only_post(method, Op::Batch),
        ("", "") => Err(Fault::missing_query("comp")),
        _ => Err(unknown(restype, comp)),
    }
}

fn container_op(method: &Method, restype: &str, comp: &str) -> Result<ContainerOp, Fault> {
    use ContainerOp as Op;
    match (restype, comp) {
        ("container", "") if *method == Method::DELETE => Ok(Op::Delete),
        ("container", "") => by_verb(method, Some(Op::GetProperties), Some(Op::Create)),
        ("container", "metadata") => by_verb(method, Some(Op::GetMetadata), Some(Op::SetMetadata)),
        ("container", "acl") => by_verb(method, Some(Op::GetAcl), Some(Op::SetAcl)),
        ("container", "lease") => by_verb(method, None, Some(Op::Lease)),
        ("container", "list") => by_verb(method, Some(Op::ListBlobs), None),
        ("container", "blobs") => by_verb(method, Some(Op::FindBlobsByTags), None),
        ("container", "batch") => only_post(method, Op::Batch),
        ("container", "undelete") => Ok(Op::Unsupported("Restore Container")),
        ("container", "rename") => Ok(Op::Unsupported("Rename Container")),
        ("account", "properties") => by_verb(method, Some(Op::GetAccountInfo), None),
        ("", _) => Err(Fault::missing_query("restype")),
        _ => Err(unknown(restype, comp)),
    }
}

fn blob_op(method: &Method, restype: &str, comp: &str, headers: &HeaderMap) -> Result<BlobOp, Fault> {
    use BlobOp as Op;
    let from_url = headers.contains_key(headers::COPY_SOURCE);
    match (restype, comp) {
        ("account", "properties") => by_verb(method, Some(Op::GetAccountInfo), None),
        ("", "") => plain_blob_op(method, headers, from_url),
        ("", "metadata") => by_verb(method, Some(Op::GetMetadata), Some(Op::SetMetadata)),
        ("", "properties") => by_verb(method, None, Some(Op::SetProperties)),
        ("", "tier") => by_verb(method, None, Some(Op::SetTier)),
        ("", "tags") => by_verb(method, Some(Op::GetTags), Some(Op::SetTags)),
        ("", "snapshot") => by_verb(method, None, Some(Op::Snapshot)),
        ("", "copy") => by_verb(method, None, Some(Op::AbortCopy)),
        ("", "lease") => by_verb(method, None, Some(Op::Lease)),
        ("", "block") if from_url => by_verb(method, None, Some(Op::PutBlockFromUrl)),
        ("", "block") => by_verb(method, None, Some(Op::PutBlock)),
        ("", "blocklist") => by_verb(method, Some(Op::GetBlockList), Some(Op::PutBlockList)),
        ("", "appendblock") if from_url => by_verb(method, None, Some(Op::AppendBlockFromUrl)),
        ("", "appendblock") => by_verb(method, None, Some(Op::AppendBlock)),
        ("", "seal") => by_verb(method, None, Some(Op::Seal)),
        ("", "page") if from_url => by_verb(method, None, Some(Op::PutPageFromUrl)),
        ("", "page") => by_verb(method, None, Some(Op::PutPage)),
        ("", "pagelist") => by_verb(method, Some(Op::GetPageRanges), None),
        ("", "undelete") => Ok(Op::Unsupported("Undelete Blob")),
        ("", "query") => Ok(Op::Unsupported("Query Blob Contents")),
        ("", "incrementalcopy") => Ok(Op::Unsupported("Incremental Copy Blob")),
        ("", "expiry") => Ok(Op::Unsupported("Set Blob Expiry")),
        ("", "legalhold") => Ok(Op::Unsupported("Set Blob Legal Hold")),
        ("", "immutabilitypolicies" | "immutabilityPolicies") => {
            Ok(Op::Unsupported("Blob Immutability Policy"))
        }
        _ => Err(unknown(restype, comp)),
    }
}

/// The operations whose URL is the blob's alone.
fn plain_blob_op(method: &Method, headers: &HeaderMap, from_url: bool) -> Result<BlobOp, Fault> {
    match *method {
        Method::GET => Ok(BlobOp::Get),
        Method::HEAD => Ok(BlobOp::GetProperties),
        Method::DELETE => Ok(BlobOp::Delete),
        Method::PUT if !from_url => Ok(BlobOp::Put),
        Method::PUT if headers::flag(headers, headers::REQUIRES_SYNC)? => Ok(BlobOp::CopyFromUrl),
        Method::PUT if headers.contains_key(headers::BLOB_TYPE) => Ok(BlobOp::PutFromUrl),
        Method::PUT => Ok(BlobOp::Copy),
        _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
    }
}

/// The operation for GET and HEAD, and the one for PUT.
fn by_verb<Op>(method: &Method, get: Option<Op>, put: Option<Op>) -> Result<Op, Fault> {
    let found = match *method {
        Method::GET | Method::HEAD => get,
        Method::PUT => put,
        _ => None,
    };
    found.ok_or_else(|| ErrorCode::UnsupportedHttpVerb.into())
}

fn only_post<Op>(method: &Method, op: Op) -> Result<Op, Fault> {
    if *method == Method::POST { Ok(op) } else { Err(ErrorCode::UnsupportedHttpVerb.into()) }
}

fn unknown(restype: &str, comp: &str) -> Fault {
    if comp.is_empty() {
        Fault::invalid_query("restype", restype)
    } else {
        Fault::invalid_query("comp", comp)
    }
}

fn container_name(name: &str) -> Result<ContainerName, Fault> {
    debug_assert!(ROOT_CONTAINER.starts_with('$'));
    ContainerName::new(name).map_err(|error| bad_name(&error))
}

fn bad_name(error: &crate::store::NameError) -> Fault {
    Fault::new(ErrorCode::InvalidResourceName).saying(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(
        method: &str,
        resource: &Resource,
        query: &str,
        extra: &[(&'static str, &'static str)],
    ) -> Result<Operation, ErrorCode> {
        let method: Method = method.parse().unwrap();
        let headers =
            extra.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Operation::parse(&method, resource, &Query::parse(query).unwrap(), &headers)
            .map_err(|fault| fault.code)
    }

    fn on_blob(
        method: &str,
        query: &str,
        extra: &[(&'static str, &'static str)],
    ) -> Result<BlobOp, ErrorCode> {
        match parse(method, &Resource::Blob("pics".into(), "a".into()), query, extra)? {
            Operation::Blob(_, op) => Ok(op),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_put_means_many_things() {
        let source = ("x-ms-copy-source", "http://x");
        assert_eq!(on_blob("PUT", "", &[]), Ok(BlobOp::Put));
        assert_eq!(on_blob("PUT", "", &[source]), Ok(BlobOp::Copy));
        assert_eq!(on_blob("PUT", "", &[source, ("x-ms-requires-sync", "true")]), Ok(BlobOp::CopyFromUrl));
        assert_eq!(on_blob("PUT", "", &[source, ("x-ms-blob-type", "BlockBlob")]), Ok(BlobOp::PutFromUrl));
        assert_eq!(on_blob("PUT", "comp=block", &[source]), Ok(BlobOp::PutBlockFromUrl));
        assert_eq!(on_blob("PUT", "comp=page", &[]), Ok(BlobOp::PutPage));
    }

    #[test]
    fn what_is_not_known_has_a_code() {
        assert_eq!(on_blob("PUT", "comp=nonsense", &[]), Err(ErrorCode::InvalidQueryParameterValue));
        assert_eq!(on_blob("PATCH", "", &[]), Err(ErrorCode::UnsupportedHttpVerb));
        assert_eq!(on_blob("DELETE", "comp=lease", &[]), Err(ErrorCode::UnsupportedHttpVerb));
        assert_eq!(on_blob("PUT", "comp=undelete", &[]), Ok(BlobOp::Unsupported("Undelete Blob")));
        let container = Resource::Container("Bad_Name".into());
        assert_eq!(parse("PUT", &container, "restype=container", &[]), Err(ErrorCode::InvalidResourceName));
        assert_eq!(parse("GET", &Resource::Account, "", &[]), Err(ErrorCode::MissingRequiredQueryParameter));
    }

    #[test]
    fn reads_and_writes_are_told_apart() {
        for (method, query, read) in [("GET", "", true), ("HEAD", "", true), ("PUT", "comp=tags", false)] {
            let op = parse(method, &Resource::Blob("pics".into(), "a".into()), query, &[]).unwrap();
            assert_eq!(op.is_read(), read, "{method} {query}");
        }
    }
}
