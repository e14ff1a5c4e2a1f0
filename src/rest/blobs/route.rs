//! Where a request goes: which account, container and blob its URL names.
//!
//! Both URL styles end in one [`Target`]: `/ACCOUNT/CONTAINER/BLOB`, and `/CONTAINER/BLOB` on a host called
//! `ACCOUNT.blob.…`. Names are only taken apart here; whether they are valid or exist is for others to say.

use crate::rest::url::{AccountPart, BadUrl, decoded};

/// The container of blobs whose URL names none.
pub(super) const ROOT_CONTAINER: &str = "$root";
/// Hosts of the product style have this as their second label.
pub(super) const BLOB_LABEL: &str = "blob";

/// What a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Whose it is.
    pub(super) account: AccountPart,
    /// What it is in the account.
    pub(super) resource: Resource,
}

/// A place in an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The account itself.
    Account,
    /// A container.
    Container(String),
    /// A blob in a container.
    Blob(String, String),
}

impl Target {
    /// Reads the host and the path as they came. `of_container` says that the request is about a container (its query
    /// says so), which decides what a single name means: without it, it is a blob of the root container.
    pub(super) fn parse(host: &str, path: &str, of_container: bool) -> Result<Self, BadUrl> {
        let (account, rest) = AccountPart::split(host, path, BLOB_LABEL)?;
        Ok(Self { account, resource: resource(rest, of_container)? })
    }
}

fn resource(path: &str, of_container: bool) -> Result<Resource, BadUrl> {
    if path.is_empty() {
        return Ok(Resource::Account);
    }
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let first = decoded(first)?;
    match (rest.is_empty(), of_container || first == ROOT_CONTAINER) {
        (true, true) => Ok(Resource::Container(first)),
        (true, false) => Ok(Resource::Blob(ROOT_CONTAINER.to_owned(), first)),
        (false, _) => Ok(Resource::Blob(first, decoded(rest)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, path: &str, of_container: bool) -> (String, bool, Resource) {
        let target = Target::parse(host, path, of_container).unwrap();
        (target.account.name, target.account.secondary, target.resource)
    }

    fn blob(container: &str, name: &str) -> Resource {
        Resource::Blob(container.into(), name.into())
    }

    #[test]
    fn both_url_styles_name_the_same_things() {
        let path_style = |path, of| target("127.0.0.1:10000", path, of);
        let host_style = |path, of| target("acct.blob.localhost:10000", path, of);
        assert_eq!(path_style("/acct", false).2, Resource::Account);
        assert_eq!(path_style("/acct/", false).2, Resource::Account);
        assert_eq!(host_style("/", false).2, Resource::Account);
        for (of, name) in [(path_style("/acct/pics", true), "pics"), (host_style("/pics", true), "pics")] {
            assert_eq!((of.0.as_str(), of.2), ("acct", Resource::Container(name.into())));
        }
        assert_eq!(path_style("/acct/pics/a/b%20c", false).2, blob("pics", "a/b c"));
        assert_eq!(host_style("/pics/a/b%2Fc", false).2, blob("pics", "a/b/c"));
    }

    #[test]
    fn one_name_alone_is_in_the_root_container_unless_the_query_says_container() {
        assert_eq!(target("h", "/acct/x.txt", false).2, blob("$root", "x.txt"));
        assert_eq!(target("h", "/acct/%24root", true).2, Resource::Container("$root".into()));
        assert_eq!(target("h", "/acct/$root/x", false).2, blob("$root", "x"));
    }

    #[test]
    fn the_secondary_endpoint_is_told_from_the_account() {
        assert_eq!(target("h", "/acct-secondary/c/b", false), ("acct".into(), true, blob("c", "b")));
        assert!(target("acct-secondary.blob.localhost", "/c/b", false).1);
    }

    #[test]
    fn broken_urls_are_refused() {
        assert_eq!(Target::parse("h", "/", false), Err(BadUrl));
        assert_eq!(Target::parse("h", "/a/c/%FF", false), Err(BadUrl));
        assert_eq!(Target::parse("h", "/-secondary/c", false), Err(BadUrl));
    }

    #[test]
    fn an_ip_address_is_no_account() {
        assert_eq!(target("127.blob.0.1", "/acct/c", true).0, "acct");
    }
}
