//! Blobs that are elsewhere: the Azure Blob service, an emulator of it, or another `leasefs serve`.
//!
//! ```text
//!  BlobStore (contract.rs) ──▶ containers, blobs, blocks, kinds, copies, leases, listing
//!                                     │  one function per operation: what to send, what the answer means
//!                                     ▼
//!                                 client.rs   signs, sends, tries again (retry.rs), tells what went wrong (failure.rs)
//! ```
//!
//! A request whose answer was lost is repeated only where that is harmless, or where the second answer can be told
//! from the first one's success: leases propose their own id, conditional writes carry a token in their metadata.
//! Keys, signatures and tokens never reach a log, an error or `Debug`.

mod answers;
mod blobs;
mod blocks;
mod client;
mod conditions;
mod config;
mod containers;
mod contract;
mod copies;
mod credential;
mod environment;
mod failure;
mod identity;
mod kinds;
mod leases;
mod listing;
mod retry;
mod rights;
mod source;

pub use config::{AzureConfig, ConfigError, Reread};
pub use credential::{Credential, TokenSource};
pub use environment::Environment;
pub use retry::RetryPolicy;
pub use source::{ServiceUrl, Source};

use client::Client;

/// A blob store behind HTTP.
pub struct AzureStore {
    client: Client,
}

impl std::fmt::Debug for AzureStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AzureStore").field("client", &self.client).finish()
    }
}

impl AzureStore {
    /// A store at the place and with the rights that `config` names. Sends nothing yet.
    pub fn new(config: AzureConfig) -> super::Result<Self> {
        Ok(Self { client: Client::new(config)? })
    }
}
