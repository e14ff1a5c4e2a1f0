//! Where a request goes: which account, share and path its URL names.
//!
//! `/ACCOUNT/SHARE/PATH`, and `/SHARE/PATH` on a host called `ACCOUNT.file.…`. Names are only taken apart here.

use crate::rest::url::{AccountPart, BadUrl, decoded};

/// Hosts of the product style have this as their second label.
pub(super) const FILE_LABEL: &str = "file";

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
    /// A share, or its root directory.
    Share(String),
    /// A path in a share, without slashes at its ends.
    Path(String, String),
}

impl Target {
    /// Reads the host and the path as they came.
    pub(super) fn parse(host: &str, path: &str) -> Result<Self, BadUrl> {
        let (account, rest) = AccountPart::split(host, path, FILE_LABEL)?;
        Ok(Self { account, resource: resource(rest)? })
    }
}

fn resource(path: &str) -> Result<Resource, BadUrl> {
    let (share, rest) = path.split_once('/').unwrap_or((path, ""));
    // One slash behind the name of a directory says nothing.
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    match (share.is_empty(), rest.is_empty()) {
        (true, true) => Ok(Resource::Account),
        (true, false) => Err(BadUrl),
        (false, true) => Ok(Resource::Share(decoded(share)?)),
        (false, false) => Ok(Resource::Path(decoded(share)?, decoded(rest)?)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resource_of(host: &str, path: &str) -> Resource {
        Target::parse(host, path).unwrap().resource
    }

    #[test]
    fn both_url_styles_name_the_same_things() {
        for (host, start) in [("127.0.0.1:10004", "/acct"), ("acct.file.localhost:10004", "")] {
            let of = |path: &str| resource_of(host, &format!("{start}{path}"));
            assert_eq!(of("/"), Resource::Account);
            for share in ["/docs", "/docs/"] {
                assert_eq!(of(share), Resource::Share("docs".into()));
            }
            for path in ["/docs/a/b%20c", "/docs/a/b c/", "/docs/a%2Fb%20c"] {
                assert_eq!(of(path), Resource::Path("docs".into(), "a/b c".into()), "{path}");
            }
        }
        assert_eq!(resource_of("h", "/acct"), Resource::Account);
        assert!(Target::parse("h", "/acct-secondary/docs").unwrap().account.secondary);
    }

    #[test]
    fn broken_urls_are_refused() {
        for path in ["/", "/a/s/%FF", "/-secondary/s", "/a//b"] {
            assert_eq!(Target::parse("h", path), Err(BadUrl), "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_url_is_read_or_refused(host in ".{0,20}", path in "/?[a-z%0-9/.-]{0,30}") {
            let _ = Target::parse(&host, &path);
        }
    }
}
