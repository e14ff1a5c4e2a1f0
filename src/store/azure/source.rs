//! URLs of blob services and of what is in them, taken apart.
//!
//! Two shapes: `https://ACCOUNT.blob.core.windows.net/CONTAINER/…`, and `http://HOST:PORT/ACCOUNT/CONTAINER/…` as
//! emulators and `leasefs serve` have it. A URL with a signature in it is refused, and never repeated in an error.

use std::fmt;
use std::net::IpAddr;

use super::config::ConfigError;
use crate::store::{BlobName, BlobPath, ContainerName};
use crate::wire::query;

/// A blob service: where its requests go, and whose account it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    /// Scheme, host and port: `http://127.0.0.1:10000`.
    pub(super) origin: String,
    /// What comes before the container in every path: empty, or `/ACCOUNT`.
    pub(super) base: String,
    /// The account.
    pub(super) account: String,
}

/// A container, and perhaps something in it: a prefix to mount, or a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The service.
    pub service: ServiceUrl,
    /// The container.
    pub container: ContainerName,
    /// The names below the container, decoded, without slashes at the ends.
    pub inside: Option<String>,
}

impl ServiceUrl {
    /// The service that a URL is of, and what the URL names in it, as it is written there.
    pub fn split(url: &str) -> Result<(Self, &str), ConfigError> {
        let bare = url.split(['?', '#']).next().unwrap_or_default();
        let wrong = || ConfigError::Url(without_user(bare));
        if url.contains(['?', '#']) {
            return Err(ConfigError::Query(without_user(bare)));
        }
        let (scheme, rest) = bare.trim_end_matches('/').split_once("://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if !matches!(scheme, "http" | "https") || authority.is_empty() || !authority.bytes().all(plain) {
            return Err(wrong());
        }
        let (account, base, inside) = match account_of_host(authority) {
            Some(account) => (account, String::new(), path),
            None => {
                let (account, inside) = path.split_once('/').unwrap_or((path, ""));
                (account, format!("/{account}"), inside)
            }
        };
        if account.is_empty() || !account.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(wrong());
        }
        let origin = format!("{scheme}://{authority}");
        Ok((Self { origin, base, account: account.to_owned() }, inside))
    }

    /// The account.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let authority = self.origin.split_once("://").map_or("", |(_, rest)| rest);
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Whether others on the way can read what is sent.
    pub fn is_encrypted(&self) -> bool {
        self.origin.starts_with("https://")
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.base)
    }
}

impl Source {
    /// Whether a word is meant as a URL, as opposed to a path.
    pub fn is_url(word: &str) -> bool {
        word.starts_with("http://") || word.starts_with("https://")
    }

    /// Reads the URL of a container or of something in it.
    pub fn parse(url: &str) -> Result<Self, ConfigError> {
        let (service, inside) = ServiceUrl::split(url)?;
        let wrong = || ConfigError::Url(url.to_owned());
        let decoded = query::decode(inside).map_err(|_| wrong())?;
        let (container, inside) = decoded.split_once('/').unwrap_or((&decoded, ""));
        if container.is_empty() {
            return Err(wrong());
        }
        let container = ContainerName::new(container)
            .map_err(|problem| ConfigError::Container(container.to_owned(), problem.to_string()))?;
        let inside = inside.trim_matches('/');
        Ok(Self { service, container, inside: (!inside.is_empty()).then(|| inside.to_owned()) })
    }

    /// The blob, if it names one.
    pub fn blob(&self) -> Option<BlobPath> {
        let name = BlobName::new(self.inside.clone()?).ok()?;
        Some(BlobPath::new(self.container.clone(), name))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.container)?;
        match &self.inside {
            Some(inside) => write!(f, "/{}", query::encode_path(inside)),
            None => Ok(()),
        }
    }
}

/// A URL for an error: who put a password before the host does not want to read it again.
fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}

/// The account in a host such as `ACCOUNT.blob.core.windows.net`.
fn account_of_host(authority: &str) -> Option<&str> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let (account, rest) = host.split_once('.')?;
    let named = account.bytes().any(|byte| byte.is_ascii_alphabetic());
    (named && rest.split('.').next() == Some("blob")).then(|| account.trim_end_matches("-secondary"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> (String, String, String, Option<String>) {
        let source = Source::parse(url).unwrap();
        let ServiceUrl { origin, base, account } = source.service;
        (format!("{origin}|{base}"), account, source.container.to_string(), source.inside)
    }

    #[test]
    fn urls_name_account_container_and_what_is_inside() {
        let own = |a: &str, b: &str, c: &str, d: Option<&str>| {
            (a.to_owned(), b.to_owned(), c.to_owned(), d.map(str::to_owned))
        };
        assert_eq!(
            read("https://acct.blob.core.windows.net/share/a/b%20c/"),
            own("https://acct.blob.core.windows.net|", "acct", "share", Some("a/b c"))
        );
        assert_eq!(
            read("http://127.0.0.1:10000/devstoreaccount1/share"),
            own("http://127.0.0.1:10000|/devstoreaccount1", "devstoreaccount1", "share", None)
        );
        assert_eq!(read("http://[::1]:1/a1/share//x").3.as_deref(), Some("x"));
        let url = "http://127.0.0.1:1/a1/share/b%20c";
        assert_eq!(Source::parse(url).unwrap().to_string(), url);
    }

    #[test]
    fn what_is_no_url_of_a_container_is_refused_without_its_secrets() {
        for bad in [
            "",
            "share",
            "ftp://h/a/share",
            "http://",
            "http://127.0.0.1:1",
            "http://127.0.0.1:1/acct",
            "https://acct.blob.core.windows.net/",
            "https://acct.blob.core.windows.net/Not_Valid",
            "http://user:secret@host/a/share",
            "http://127.0.0.1:1/acct/share?sv=1&sig=secret",
            "http://127.0.0.1:1/acct/share#secret",
            "http://127.0.0.1:1/acct/share/%ff",
        ] {
            let error = Source::parse(bad).unwrap_err();
            let told = format!("{error} {error:?}");
            assert!(!told.contains("secret"), "{told}");
        }
        let signed = Source::parse("http://127.0.0.1:1/acct/share?sig=x").unwrap_err().to_string();
        assert!(signed.contains("AZURE_STORAGE_SAS_TOKEN"), "{signed}");
    }

    #[test]
    fn the_own_machine_is_known() {
        let loopback = |url: &str| ServiceUrl::split(url).unwrap().0.is_loopback();
        for near in ["http://127.0.0.1:1/a", "http://localhost/a", "http://[::1]:1/a", "https://127.9.9.9/a"]
        {
            assert!(loopback(near), "{near}");
        }
        for far in ["http://10.0.0.1/a", "https://acct.blob.core.windows.net", "http://localhost.example/a"] {
            assert!(!loopback(far), "{far}");
        }
    }
}
