//! By what right requests are sent.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::wire::signing::AccountKey;

/// Where bearer tokens come from.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// A token for the service; a new one if the last one was refused. The error is a text for people.
    async fn token(&self, refused: bool) -> Result<String, String>;
}

/// The right that requests claim. Prints without secrets.
#[derive(Clone)]
pub enum Credential {
    /// An account's key.
    Key {
        /// The account.
        account: String,
        /// Its key.
        key: AccountKey,
    },
    /// A signed query, as it is appended to URLs.
    Sas(String),
    /// Tokens of an identity.
    Bearer(Arc<dyn TokenSource>),
    /// None: public containers only.
    Anonymous,
}

impl Credential {
    /// Whether using `other` instead makes no difference. Identities get new tokens by themselves.
    pub(super) fn is_same(&self, other: &Credential) -> bool {
        match (self, other) {
            (
                Credential::Key { account, key },
                Credential::Key { account: their_account, key: their_key },
            ) => account == their_account && key == their_key,
            (Credential::Sas(token), Credential::Sas(theirs)) => token == theirs,
            (Credential::Bearer(_), Credential::Bearer(_))
            | (Credential::Anonymous, Credential::Anonymous) => true,
            (
                Credential::Key { .. } | Credential::Sas(_) | Credential::Bearer(_) | Credential::Anonymous,
                _,
            ) => false,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credential::Key { account, .. } => write!(f, "Key({account})"),
            Credential::Sas(_) => f.write_str("Sas(***)"),
            Credential::Bearer(_) => f.write_str("Bearer(***)"),
            Credential::Anonymous => f.write_str("Anonymous"),
        }
    }
}
