//! The Blob protocol for several accounts, each over a store of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::route::BLOB_LABEL;
use super::{BlobService, CopySources, ServedStore};
use crate::rest::auth::Accounts;
use crate::rest::neighbours::{Neighbourhood, OfAccount};
use crate::rest::server::{Answer, Protocol, Request};

/// The stores of a server's accounts, by name.
pub type Stores = BTreeMap<String, Arc<dyn ServedStore>>;

/// The Blob protocol for several accounts.
#[derive(Debug)]
pub struct BlobAccounts {
    services: Arc<Neighbourhood<BlobService>>,
    copy_sources: CopySources,
}

impl OfAccount for BlobService {
    const LABEL: &'static str = BLOB_LABEL;
}

impl BlobAccounts {
    /// Serves no account yet. `any` is one of the stores; nothing of it is shown to anybody before [`Self::serve`].
    pub fn new(any: Arc<dyn ServedStore>, copy_sources: CopySources) -> Arc<Self> {
        let nobody = BlobService::new(any, Accounts::none(), copy_sources);
        Arc::new(Self { services: Neighbourhood::new(nobody), copy_sources })
    }

    /// From now on serves these accounts, each from its store, and no others. An account without a store is left out.
    /// Requests that are running go on.
    pub fn serve(&self, accounts: &Accounts, stores: &Stores) {
        let service = |name: &str| {
            let store = Arc::clone(stores.get(name)?);
            let mut service = BlobService::new(store, accounts.only(name), self.copy_sources);
            service.neighbours = self.services.neighbours();
            Some((name.to_owned(), Arc::new(service)))
        };
        self.services.settle(accounts.names().filter_map(service).collect());
    }
}

impl Protocol for BlobAccounts {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        Arc::clone(&self.services).answer(request).await
    }
}
