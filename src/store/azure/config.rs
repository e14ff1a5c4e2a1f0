//! Where the service is and by what right it is used: from a URL, and from the variables Azure's own tools read.

use super::credential::Credential;
use super::retry::RetryPolicy;
use crate::wire::signing::{AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

/// Where an emulator listens.
const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10000/devstoreaccount1";

/// Everything a store behind HTTP needs to know.
#[derive(Clone, Debug)]
pub struct AzureConfig {
    /// Scheme, host and port: `http://127.0.0.1:10000`.
    pub(super) origin: String,
    /// What comes before the container in every path: empty, or `/ACCOUNT`.
    pub(super) base: String,
    /// The account.
    pub(super) account: String,
    pub(super) credential: Credential,
    pub(super) retry: RetryPolicy,
}

/// The place or the right cannot be used. Never holds a secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not a URL of a blob service.
    #[error(
        "{0} is not the URL of a blob service: use https://ACCOUNT.blob.core.windows.net/CONTAINER or http://HOST:PORT/ACCOUNT/CONTAINER"
    )]
    Url(String),
    /// The variable has a value that makes no sense.
    #[error("{0} cannot be understood")]
    Variable(&'static str),
    /// The key is for another account.
    #[error("the credentials are for the account {given}, and the URL is of {wanted}")]
    OtherAccount {
        /// Of the credentials.
        given: String,
        /// Of the URL.
        wanted: String,
    },
}

impl AzureConfig {
    /// The service at the URL of an account or container, and what the URL names in it: container and prefix.
    pub fn from_url(url: &str, credential: Credential) -> Result<(Self, String), ConfigError> {
        let wrong = || ConfigError::Url(url.split('?').next().unwrap_or_default().to_owned());
        let bare = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let (scheme, rest) = bare.split_once("://").ok_or_else(wrong)?;
        if !matches!(scheme, "http" | "https") || rest.contains('@') {
            return Err(wrong());
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return Err(wrong());
        }
        let (account, base, inside) = match account_of_host(authority) {
            Some(account) => (account.to_owned(), String::new(), path),
            None => {
                let (account, inside) = path.split_once('/').unwrap_or((path, ""));
                if account.is_empty() {
                    return Err(wrong());
                }
                (account.to_owned(), format!("/{account}"), inside)
            }
        };
        if let Credential::Key { account: given, .. } = &credential
            && *given != account
        {
            return Err(ConfigError::OtherAccount { given: given.clone(), wanted: account });
        }
        let origin = format!("{scheme}://{authority}");
        let retry = RetryPolicy::default();
        Ok((Self { origin, base, account, credential, retry }, inside.to_owned()))
    }

    /// The service that the `AZURE_STORAGE_*` variables name, if they name one.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, ConfigError> {
        let first =
            |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
        if let Some(text) = first(&["AZURE_STORAGE_CONNECTION_STRING"]) {
            return Self::from_connection_string(&text).map(Some);
        }
        let Some(account) = first(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]) else {
            return Ok(None);
        };
        let credential = Self::credential(&account, &variable)?;
        let url = first(&["AZURE_STORAGE_BLOB_ENDPOINT", "AZURE_STORAGE_ENDPOINT"])
            .unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
        Self::from_url(&url, credential).map(|(config, _)| Some(config))
    }

    /// The right to `account` that the `AZURE_STORAGE_*` variables give: a key, a SAS, or none.
    pub fn credential(
        account: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Credential, ConfigError> {
        let first =
            |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
        if let Some(text) =
            first(&["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"])
        {
            let key = AccountKey::parse(&text).map_err(|_| ConfigError::Variable("AZURE_STORAGE_KEY"))?;
            return Ok(Credential::Key { account: account.to_owned(), key });
        }
        if let Some(text) = first(&["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"]) {
            return Ok(Credential::Sas(text.trim_start_matches('?').to_owned()));
        }
        Ok(Credential::Anonymous)
    }

    /// The service that a connection string names.
    pub fn from_connection_string(text: &str) -> Result<Self, ConfigError> {
        const NAME: &str = "AZURE_STORAGE_CONNECTION_STRING";
        let pairs: Vec<(&str, &str)> =
            text.split(';').filter_map(|pair| pair.trim().split_once('=')).collect();
        let get = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value).filter(|value| !value.is_empty())
        };
        if get("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            let key = AccountKey::parse(DEVELOPMENT_KEY).map_err(|_| ConfigError::Variable(NAME))?;
            let credential = Credential::Key { account: DEVELOPMENT_ACCOUNT.to_owned(), key };
            return Self::from_url(DEVELOPMENT_ENDPOINT, credential).map(|(config, _)| config);
        }
        let credential = match (get("AccountName"), get("AccountKey"), get("SharedAccessSignature")) {
            (Some(account), Some(key), _) => {
                let key = AccountKey::parse(key).map_err(|_| ConfigError::Variable(NAME))?;
                Credential::Key { account: account.to_owned(), key }
            }
            (_, _, Some(sas)) => Credential::Sas(sas.trim_start_matches('?').to_owned()),
            _ => Credential::Anonymous,
        };
        let url = match (get("BlobEndpoint"), get("AccountName")) {
            (Some(url), _) => url.to_owned(),
            (None, Some(account)) => {
                let scheme = get("DefaultEndpointsProtocol").unwrap_or("https");
                let suffix = get("EndpointSuffix").unwrap_or("core.windows.net");
                format!("{scheme}://{account}.blob.{suffix}")
            }
            (None, None) => return Err(ConfigError::Variable(NAME)),
        };
        Self::from_url(&url, credential).map(|(config, _)| config)
    }

    /// The account.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// With other patience.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
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

    fn key(account: &str) -> Credential {
        Credential::Key { account: account.to_owned(), key: AccountKey::parse(DEVELOPMENT_KEY).unwrap() }
    }

    #[test]
    fn urls_name_account_and_container() {
        let read = |url: &str| {
            let (config, inside) = AzureConfig::from_url(url, Credential::Anonymous).unwrap();
            (config.origin, config.base, config.account, inside)
        };
        let own =
            |a: &str, b: &str, c: &str, d: &str| (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned());
        assert_eq!(
            read("https://acct.blob.core.windows.net/share/a/b/"),
            own("https://acct.blob.core.windows.net", "", "acct", "share/a/b")
        );
        assert_eq!(
            read("http://127.0.0.1:10000/devstoreaccount1/share"),
            own("http://127.0.0.1:10000", "/devstoreaccount1", "devstoreaccount1", "share")
        );
        for bad in ["", "share", "ftp://h/a", "http://", "http://127.0.0.1:1", "http://user:secret@host/a"] {
            assert!(AzureConfig::from_url(bad, Credential::Anonymous).is_err(), "{bad}");
        }
        let other = AzureConfig::from_url("http://127.0.0.1:1/one/share", key("two"));
        assert!(matches!(other, Err(ConfigError::OtherAccount { .. })));
    }

    #[test]
    fn variables_of_other_tools_are_understood() {
        let from = |pairs: &[(&str, &str)]| {
            let find =
                |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            AzureConfig::from_environment(find).unwrap()
        };
        assert!(from(&[]).is_none());
        let plain =
            from(&[("AZURE_STORAGE_ACCOUNT", "acct"), ("AZURE_STORAGE_KEY", DEVELOPMENT_KEY)]).unwrap();
        assert_eq!(plain.origin, "https://acct.blob.core.windows.net");
        assert!(matches!(plain.credential, Credential::Key { .. }));
        let sas =
            from(&[("AZURE_STORAGE_ACCOUNT_NAME", "acct"), ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=s3cret")]);
        assert!(!format!("{:?}", sas.unwrap()).contains("s3cret"));
        let emulator = from(&[("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")]).unwrap();
        assert_eq!(
            (emulator.account.as_str(), emulator.base.as_str()),
            (DEVELOPMENT_ACCOUNT, "/devstoreaccount1")
        );
        let text = format!(
            "DefaultEndpointsProtocol=https;AccountName=a1;AccountKey={DEVELOPMENT_KEY};EndpointSuffix=x.net"
        );
        let named = from(&[("AZURE_STORAGE_CONNECTION_STRING", &text)]).unwrap();
        assert_eq!(named.origin, "https://a1.blob.x.net");
        assert!(!format!("{named:?}").contains("Eby8"));
        assert!(AzureConfig::from_connection_string("AccountKey=x").is_err());
    }
}
