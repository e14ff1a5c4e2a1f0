//! What a request asks for: one typed value from method, resource, `restype`, `comp` and the headers that decide.
//!
//! Total: every request becomes an [`Operation`] or a refusal with the service's own code. What the operation's
//! parameters are is for its handler to read.

use http::{HeaderMap, Method};

use super::place::Place;
use super::route::Resource;
use crate::store::ContainerName;
use crate::wire::query::Query;
use crate::wire::{ErrorCode, Fault, headers};

/// A request's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// About the account.
    Service(ServiceOp),
    /// About a share.
    Share(ContainerName, ShareOp),
    /// About a directory; the root is one.
    Directory(Place, DirectoryOp),
    /// About a file.
    File(Place, FileOp),
    /// About who has a file or directory open.
    Handles(Place, HandlesOp),
    /// Known to the service, not offered here.
    Unsupported(&'static str),
}

/// Operations on the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceOp {
    GetProperties,
    SetProperties,
    ListShares,
}

/// Operations on a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareOp {
    Create,
    GetProperties,
    SetProperties,
    GetMetadata,
    SetMetadata,
    GetAcl,
    SetAcl,
    GetStats,
    Snapshot,
    Delete,
    Lease,
    CreatePermission,
    GetPermission,
}

/// Operations on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryOp {
    Create,
    GetProperties,
    SetProperties,
    GetMetadata,
    SetMetadata,
    List,
    Rename,
    Delete,
}

/// Operations on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOp {
    Create,
    Get,
    GetProperties,
    SetProperties,
    GetMetadata,
    SetMetadata,
    PutRange,
    PutRangeFromUrl,
    ListRanges,
    Copy,
    AbortCopy,
    Rename,
    Delete,
    Lease,
}

/// Operations on whatever has the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandlesOp {
    List,
    Close,
}

impl Operation {
    /// The operation a request names.
    pub(super) fn parse(
        method: &Method,
        resource: &Resource,
        query: &Query,
        headers: &HeaderMap,
    ) -> Result<Self, Fault> {
        let restype = query.get("restype").unwrap_or("").to_ascii_lowercase();
        let comp = query.get("comp").unwrap_or("").to_ascii_lowercase();
        let (restype, comp) = (restype.as_str(), comp.as_str());
        match resource {
            Resource::Account => service_op(method, restype, comp),
            Resource::Share(name) if restype == "directory" || is_about_handles(comp) => {
                path_op(method, restype, comp, headers, Place::parse(name, "", headers)?)
            }
            Resource::Share(name) => share_op(method, restype, comp, name),
            Resource::Path(share, path) => {
                path_op(method, restype, comp, headers, Place::parse(share, path, headers)?)
            }
        }
    }

    /// Whether it only reads, which is all that the secondary endpoint and snapshots do.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Operation::Service(op) => match op {
                ServiceOp::GetProperties | ServiceOp::ListShares => true,
                ServiceOp::SetProperties => false,
            },
            Operation::Share(_, op) => match op {
                ShareOp::GetProperties
                | ShareOp::GetMetadata
                | ShareOp::GetAcl
                | ShareOp::GetStats
                | ShareOp::GetPermission => true,
                ShareOp::Create
                | ShareOp::SetProperties
                | ShareOp::SetMetadata
                | ShareOp::SetAcl
                | ShareOp::Snapshot
                | ShareOp::Delete
                | ShareOp::Lease
                | ShareOp::CreatePermission => false,
            },
            Operation::Directory(_, op) => match op {
                DirectoryOp::GetProperties | DirectoryOp::GetMetadata | DirectoryOp::List => true,
                DirectoryOp::Create
                | DirectoryOp::SetProperties
                | DirectoryOp::SetMetadata
                | DirectoryOp::Rename
                | DirectoryOp::Delete => false,
            },
            Operation::File(_, op) => match op {
                FileOp::Get | FileOp::GetProperties | FileOp::GetMetadata | FileOp::ListRanges => true,
                FileOp::Create
                | FileOp::SetProperties
                | FileOp::SetMetadata
                | FileOp::PutRange
                | FileOp::PutRangeFromUrl
                | FileOp::Copy
                | FileOp::AbortCopy
                | FileOp::Rename
                | FileOp::Delete
                | FileOp::Lease => false,
            },
            Operation::Handles(_, op) => match op {
                HandlesOp::List => true,
                HandlesOp::Close => false,
            },
            Operation::Unsupported(_) => false,
        }
    }
}

fn is_about_handles(comp: &str) -> bool {
    matches!(comp, "listhandles" | "forceclosehandles")
}

fn service_op(method: &Method, restype: &str, comp: &str) -> Result<Operation, Fault> {
    use ServiceOp as Op;
    let op = match (restype, comp) {
        ("service", "properties") => by_verb(method, Some(Op::GetProperties), Some(Op::SetProperties)),
        ("", "list") => by_verb(method, Some(Op::ListShares), None),
        ("service", "userdelegationkey") => return Ok(Operation::Unsupported("Get User Delegation Key")),
        ("", "") => Err(Fault::missing_query("comp")),
        _ => Err(unknown(restype, comp)),
    };
    op.map(Operation::Service)
}

fn share_op(method: &Method, restype: &str, comp: &str, name: &str) -> Result<Operation, Fault> {
    use ShareOp as Op;
    let op = match (restype, comp) {
        ("share", "") if *method == Method::DELETE => Ok(Op::Delete),
        ("share", "") => by_verb(method, Some(Op::GetProperties), Some(Op::Create)),
        ("share", "properties") => by_verb(method, None, Some(Op::SetProperties)),
        ("share", "metadata") => by_verb(method, Some(Op::GetMetadata), Some(Op::SetMetadata)),
        ("share", "acl") => by_verb(method, Some(Op::GetAcl), Some(Op::SetAcl)),
        ("share", "stats") => by_verb(method, Some(Op::GetStats), None),
        ("share", "snapshot") => by_verb(method, None, Some(Op::Snapshot)),
        ("share", "lease") => by_verb(method, None, Some(Op::Lease)),
        ("share", "filepermission") => by_verb(method, Some(Op::GetPermission), Some(Op::CreatePermission)),
        ("share", "undelete") => return Ok(Operation::Unsupported("Restore Share")),
        ("", _) => Err(Fault::missing_query("restype")),
        _ => Err(unknown(restype, comp)),
    }?;
    Ok(Operation::Share(super::place::share_name(name)?, op))
}

fn path_op(
    method: &Method,
    restype: &str,
    comp: &str,
    headers: &HeaderMap,
    place: Place,
) -> Result<Operation, Fault> {
    match (restype, comp) {
        (_, "listhandles") => {
            by_verb(method, Some(HandlesOp::List), None).map(|op| Operation::Handles(place, op))
        }
        (_, "forceclosehandles") => {
            by_verb(method, None, Some(HandlesOp::Close)).map(|op| Operation::Handles(place, op))
        }
        ("directory", _) => directory_op(method, comp).map(|op| Operation::Directory(place, op)),
        ("", _) => file_op(method, comp, headers).map(|op| Operation::File(place, op)),
        ("hardlink", _) => Ok(Operation::Unsupported("Create Hard Link, which NFS shares have,")),
        ("symboliclink", _) => Ok(Operation::Unsupported("The symbolic link of an NFS share")),
        _ => Err(unknown(restype, comp)),
    }
}

fn directory_op(method: &Method, comp: &str) -> Result<DirectoryOp, Fault> {
    use DirectoryOp as Op;
    match comp {
        "" if *method == Method::DELETE => Ok(Op::Delete),
        "" => by_verb(method, Some(Op::GetProperties), Some(Op::Create)),
        "properties" => by_verb(method, None, Some(Op::SetProperties)),
        "metadata" => by_verb(method, Some(Op::GetMetadata), Some(Op::SetMetadata)),
        "list" => by_verb(method, Some(Op::List), None),
        "rename" => by_verb(method, None, Some(Op::Rename)),
        _ => Err(unknown("directory", comp)),
    }
}

fn file_op(method: &Method, comp: &str, headers: &HeaderMap) -> Result<FileOp, Fault> {
    use FileOp as Op;
    let from_url = headers.contains_key(headers::COPY_SOURCE);
    match comp {
        "" => match *method {
            Method::GET => Ok(Op::Get),
            Method::HEAD => Ok(Op::GetProperties),
            Method::DELETE => Ok(Op::Delete),
            Method::PUT if from_url => Ok(Op::Copy),
            Method::PUT => Ok(Op::Create),
            _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
        },
        "properties" => by_verb(method, None, Some(Op::SetProperties)),
        "metadata" => by_verb(method, Some(Op::GetMetadata), Some(Op::SetMetadata)),
        "range" if from_url => by_verb(method, None, Some(Op::PutRangeFromUrl)),
        "range" => by_verb(method, None, Some(Op::PutRange)),
        "rangelist" => by_verb(method, Some(Op::ListRanges), None),
        "copy" => by_verb(method, None, Some(Op::AbortCopy)),
        "rename" => by_verb(method, None, Some(Op::Rename)),
        "lease" => by_verb(method, None, Some(Op::Lease)),
        _ => Err(unknown("", comp)),
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

fn unknown(restype: &str, comp: &str) -> Fault {
    if comp.is_empty() {
        Fault::invalid_query("restype", restype)
    } else {
        Fault::invalid_query("comp", comp)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(method: &str, resource: &Resource, query: &str, copies: bool) -> Result<Operation, ErrorCode> {
        let method: Method = method.parse().unwrap();
        let mut headers = HeaderMap::new();
        if copies {
            headers.insert(headers::COPY_SOURCE, "http://x".parse().unwrap());
        }
        Operation::parse(&method, resource, &Query::parse(query).unwrap(), &headers)
            .map_err(|fault| fault.code)
    }

    fn on_file(method: &str, query: &str, copies: bool) -> Result<FileOp, ErrorCode> {
        match parse(method, &Resource::Path("docs".into(), "d/f".into()), query, copies)? {
            Operation::File(_, op) => Ok(op),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_put_means_many_things() {
        assert_eq!(on_file("PUT", "", false), Ok(FileOp::Create));
        assert_eq!(on_file("PUT", "", true), Ok(FileOp::Copy));
        assert_eq!(on_file("PUT", "comp=range", false), Ok(FileOp::PutRange));
        assert_eq!(on_file("PUT", "comp=range", true), Ok(FileOp::PutRangeFromUrl));
        assert_eq!(on_file("PUT", "comp=Rename", false), Ok(FileOp::Rename));
    }

    #[test]
    fn the_root_directory_is_the_share_with_another_word() {
        let share = Resource::Share("docs".into());
        let list = parse("GET", &share, "restype=directory&comp=list", false).unwrap();
        assert!(matches!(list, Operation::Directory(place, DirectoryOp::List) if place.path.is_root()));
        let handles = parse("GET", &share, "comp=listhandles", false).unwrap();
        assert!(matches!(handles, Operation::Handles(place, HandlesOp::List) if place.path.is_root()));
        assert!(matches!(parse("GET", &share, "restype=share", false), Ok(Operation::Share(..))));
    }

    #[test]
    fn what_is_not_known_has_a_code() {
        let share = |name: &str| Resource::Share(name.into());
        let path = Resource::Path("docs".into(), "f".into());
        for (method, resource, query, code) in [
            ("PUT", &path, "comp=nonsense", ErrorCode::InvalidQueryParameterValue),
            ("PATCH", &path, "", ErrorCode::UnsupportedHttpVerb),
            ("POST", &path, "comp=range", ErrorCode::UnsupportedHttpVerb),
            ("DELETE", &path, "comp=lease", ErrorCode::UnsupportedHttpVerb),
            ("PUT", &path, "restype=blob", ErrorCode::InvalidQueryParameterValue),
            ("PUT", &share("Bad_Name"), "restype=share", ErrorCode::InvalidResourceName),
            ("PUT", &share("docs"), "", ErrorCode::MissingRequiredQueryParameter),
            ("GET", &Resource::Account, "", ErrorCode::MissingRequiredQueryParameter),
        ] {
            assert_eq!(parse(method, resource, query, false), Err(code), "{method} {query}");
        }
        for query in ["restype=hardlink", "restype=symboliclink"] {
            assert!(matches!(parse("PUT", &path, query, false), Ok(Operation::Unsupported(_))), "{query}");
        }
    }

    proptest! {
        #[test]
        fn any_request_is_an_operation_or_refused(
            method in "(GET|PUT|HEAD|DELETE|POST|OPTIONS)",
            restype in "(|service|share|directory|symboliclink|[a-z]{0,9})",
            comp in "(|list|range|lease|copy|acl|properties|rename|[a-z]{0,9})",
            path in ".{0,30}",
            copies in any::<bool>(),
        ) {
            let query = format!("restype={restype}&comp={comp}");
            for resource in [Resource::Account, Resource::Share("docs".into()), Resource::Path("docs".into(), path.clone())] {
                let _ = parse(&method, &resource, &query, copies);
            }
        }
    }
}
