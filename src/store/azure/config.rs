//! Everything a store behind HTTP needs to know: where the service is, by what right it is used, how patient we are.

use std::sync::Arc;

use super::credential::Credential;
use super::environment::Environment;
use super::retry::RetryPolicy;
use super::source::ServiceUrl;

/// Asks for the right once more, because the old one is refused.
pub type Reread = Arc<dyn Fn() -> Result<Credential, ConfigError> + Send + Sync>;

/// Everything a store behind HTTP needs to know.
#[derive(Clone)]
pub struct AzureConfig {
    pub(super) service: ServiceUrl,
    pub(super) credential: Credential,
    pub(super) reread: Option<Reread>,
    pub(super) retry: RetryPolicy,
}

impl std::fmt::Debug for AzureConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { service, credential, reread: _, retry } = self;
        let mut shown = f.debug_struct("AzureConfig");
        shown.field("service", service).field("credential", credential).field("retry", retry).finish()
    }
}

/// The place or the right cannot be used. Never holds a secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not a URL of a blob service.
    #[error(
        "{0} is not the URL of a container: use https://ACCOUNT.blob.core.windows.net/CONTAINER or http://HOST:PORT/ACCOUNT/CONTAINER"
    )]
    Url(String),
    /// It has a query, which may be a signature.
    #[error(
        "{0} is followed by a query; a signature (SAS) belongs into AZURE_STORAGE_SAS_TOKEN, because everybody can see arguments"
    )]
    Query(String),
    /// Not a name of a container.
    #[error("{0:?} is not the name of a container: {1}")]
    Container(String, String),
    /// The variable has a value that makes no sense.
    #[error("{0} cannot be understood")]
    Variable(String),
    /// The key is for another account.
    #[error("the credentials are for the account {given}, and the URL is of {wanted}")]
    OtherAccount {
        /// Of the credentials.
        given: String,
        /// Of the URL.
        wanted: String,
    },
    /// There is no right that could be used here.
    #[error(
        "there are no credentials for the account {0}: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN (tokens of an identity are sent over https only)"
    )]
    NoRight(String),
    /// A file with credentials cannot be read.
    #[error("the file {0} cannot be read: {1}")]
    File(String, String),
}

impl AzureConfig {
    /// The service with a right that stays as it is.
    pub fn new(service: ServiceUrl, credential: Credential) -> Result<Self, ConfigError> {
        if let Credential::Key { account: given, .. } = &credential
            && *given != service.account
        {
            let wanted = service.account.clone();
            return Err(ConfigError::OtherAccount { given: given.clone(), wanted });
        }
        Ok(Self { service, credential, reread: None, retry: RetryPolicy::default() })
    }

    /// The service at the URL of an account or container, and what the URL names in it: container and prefix.
    pub fn from_url(url: &str, credential: Credential) -> Result<(Self, String), ConfigError> {
        let (service, inside) = ServiceUrl::split(url)?;
        Ok((Self::new(service, credential)?, inside.to_owned()))
    }

    /// The service with the right that the environment gives, which is asked again when the right is refused.
    pub fn from_environment(service: &ServiceUrl, environment: &Environment) -> Result<Self, ConfigError> {
        let credential = environment.credential(service)?;
        let (place, environment) = (service.clone(), environment.clone());
        let reread: Reread = Arc::new(move || environment.credential(&place));
        Ok(Self { reread: Some(reread), ..Self::new(service.clone(), credential)? })
    }

    /// The account.
    pub fn account(&self) -> &str {
        &self.service.account
    }

    /// With other patience.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Asking for the right in this way when it is refused.
    #[must_use]
    pub fn with_reread(mut self, reread: Reread) -> Self {
        self.reread = Some(reread);
        self
    }
}
