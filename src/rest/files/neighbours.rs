//! The Files protocol for several accounts, each over the shares of a store of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::FilesService;
use super::route::FILE_LABEL;
use crate::fs::shares::Shares;
use crate::rest::auth::Accounts;
use crate::rest::neighbours::{Neighbourhood, OfAccount};
use crate::rest::server::{Answer, Protocol, Request};
use crate::rest::sources::CopySources;

/// The shares of a server's accounts, by the account's name.
pub type SharesOf = BTreeMap<String, Arc<Shares>>;

/// The Files protocol for several accounts.
#[derive(Debug)]
pub struct FilesAccounts {
    services: Arc<Neighbourhood<FilesService>>,
    copy_sources: CopySources,
}

impl OfAccount for FilesService {
    const LABEL: &'static str = FILE_LABEL;
}

impl FilesAccounts {
    /// Serves no account yet. `any` are the shares of one of them; nothing of them is shown to anybody before
    /// [`Self::serve`].
    pub fn new(any: Arc<Shares>, copy_sources: CopySources) -> Arc<Self> {
        let nobody = FilesService::new(any, Accounts::none(), copy_sources);
        Arc::new(Self { services: Neighbourhood::new(nobody), copy_sources })
    }

    /// From now on serves these accounts, each with its shares, and no others. An account without shares is left out.
    /// Requests that are running go on.
    pub fn serve(&self, accounts: &Accounts, shares: &SharesOf) {
        let service = |name: &str| {
            let shares = Arc::clone(shares.get(name)?);
            let mut service = FilesService::new(shares, accounts.only(name), self.copy_sources);
            service.neighbours = self.services.neighbours();
            Some((name.to_owned(), Arc::new(service)))
        };
        self.services.settle(accounts.names().filter_map(service).collect());
    }
}

impl Protocol for FilesAccounts {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        Arc::clone(&self.services).answer(request).await
    }
}
