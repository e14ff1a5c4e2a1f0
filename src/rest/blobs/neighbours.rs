//! Several accounts behind one address. Each has a service of its own, over a store of its own, that knows the keys of
//! no other: what a request may reach is decided by where it goes, before anything is read of it.
//!
//! Only the source of a copy crosses from one account to another, and the source's own service judges whether it may
//! be read.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use http::request::Parts;
use parking_lot::RwLock;

use super::route::account_of;
use super::{BlobService, CopySources, ServedStore};
use crate::rest::auth::Accounts;
use crate::rest::server::{Answer, Protocol, Request};
use crate::wire::headers;

/// The stores of a server's accounts, by name.
pub type Stores = BTreeMap<String, Arc<dyn ServedStore>>;

/// The Blob protocol for several accounts.
#[derive(Debug)]
pub struct BlobAccounts {
    services: RwLock<BTreeMap<String, Arc<BlobService>>>,
    /// Answers whoever names an account that there is not: by refusals.
    nobody: Arc<BlobService>,
    copy_sources: CopySources,
}

/// The services beside one, for copies between accounts. A service alone has none.
#[derive(Debug, Default)]
pub(super) struct Neighbours(Weak<BlobAccounts>);

impl Neighbours {
    pub(super) fn find(&self, account: &str) -> Option<Arc<BlobService>> {
        self.0.upgrade()?.services.read().get(account).cloned()
    }
}

impl BlobAccounts {
    /// Serves no account yet. `any` is one of the stores; nothing of it is shown to anybody before [`Self::serve`].
    pub fn new(any: Arc<dyn ServedStore>, copy_sources: CopySources) -> Arc<Self> {
        let nobody = Arc::new(BlobService::new(any, Accounts::none(), copy_sources));
        Arc::new(Self { services: RwLock::default(), nobody, copy_sources })
    }

    /// From now on serves these accounts, each from its store, and no others. An account without a store is left out.
    /// Requests that are running go on.
    pub fn serve(self: &Arc<Self>, accounts: &Accounts, stores: &Stores) {
        let service = |name: &str| {
            let mut service =
                BlobService::new(Arc::clone(stores.get(name)?), accounts.only(name), self.copy_sources);
            service.neighbours = Neighbours(Arc::downgrade(self));
            Some((name.to_owned(), Arc::new(service)))
        };
        *self.services.write() = accounts.names().filter_map(service).collect();
    }

    fn service_for(&self, head: &Parts) -> Arc<BlobService> {
        let host = headers::text(&head.headers, headers::HOST).ok().flatten().unwrap_or_default();
        let named = account_of(host, head.uri.path()).ok();
        let found = named.and_then(|account| self.services.read().get(&account).cloned());
        found.unwrap_or_else(|| Arc::clone(&self.nobody))
    }
}

impl Protocol for BlobAccounts {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        self.service_for(&request.head).answer(request).await
    }
}
