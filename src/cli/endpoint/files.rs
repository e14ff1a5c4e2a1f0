//! The Files endpoint: of `leasefs serve --files-addr` and, over a mount's own engine, of `leasefs mount --files-addr`.

use std::sync::Arc;

use super::super::accounts::{AccountStores, StoresOf};
use super::super::error::CliError;
use super::EndpointPlan;
use crate::fs::shares::Shares;
use crate::rest::files::{FilesAccounts, SharesOf};
use crate::rest::server::Server;
use crate::store::embedded::EmbeddedStore;

/// The shares of the data directory, and how those of another account's store are served.
pub(in crate::cli) struct ShareMaker {
    pub(in crate::cli) own: Arc<Shares>,
    pub(in crate::cli) other: Box<MakeShares>,
}

type MakeShares = dyn Fn(&Arc<EmbeddedStore>) -> Arc<Shares> + Send + Sync;

/// A running Files endpoint.
pub(in crate::cli) struct FilesEndpoint {
    server: Server,
    /// The account's URL.
    pub(in crate::cli) url: String,
    /// For clients.
    pub(in crate::cli) connection: String,
    plan: EndpointPlan,
    service: Arc<FilesAccounts>,
    maker: ShareMaker,
    /// Every account's that was ever served: a store has one engine per share, however often accounts are read.
    shares: SharesOf,
}

impl EndpointPlan {
    /// Starts the Files service on these stores. Must be called on the runtime.
    pub(in crate::cli) async fn start_files(
        &self,
        stores: &mut AccountStores,
        maker: ShareMaker,
    ) -> Result<FilesEndpoint, CliError> {
        let (accounts, served) = self.accounts(stores).await?;
        let service = FilesAccounts::new(Arc::clone(&maker.own), self.copy_sources());
        let mut shares = SharesOf::new();
        maker.add(&mut shares, &served, stores);
        service.serve(&accounts, &shares);
        let server = self.listen("--files-addr", Arc::clone(&service))?;
        Ok(FilesEndpoint {
            connection: self.connection_string("FileEndpoint", server.addr()),
            url: self.url(server.addr()),
            server,
            plan: self.clone(),
            service,
            maker,
            shares,
        })
    }
}

impl ShareMaker {
    /// Adds the shares of accounts that have none yet.
    fn add(&self, shares: &mut SharesOf, served: &StoresOf, stores: &AccountStores) {
        for (name, store) in served {
            let make = || match Arc::ptr_eq(store, stores.own()) {
                true => Arc::clone(&self.own),
                false => (self.other)(store),
            };
            shares.entry(name.clone()).or_insert_with(make);
        }
    }
}

impl FilesEndpoint {
    /// Reads the accounts again, if they come from a file; says whether they do.
    pub(super) async fn read_again(&mut self, stores: &mut AccountStores) -> bool {
        if !self.plan.is_listed() {
            return false;
        }
        match self.plan.accounts(stores).await {
            Ok((accounts, served)) => {
                self.maker.add(&mut self.shares, &served, stores);
                self.service.serve(&accounts, &self.shares);
            }
            Err(problem) => tracing::error!("the accounts of the shares stay as they were: {problem}"),
        }
        true
    }

    /// Finishes running requests, then ends the engines that were started for them.
    pub(in crate::cli) async fn stop(self) {
        self.server.stop().await;
        for shares in self.shares.values() {
            shares.close().await;
        }
    }
}
