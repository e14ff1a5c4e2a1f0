//! Several accounts behind one address. Each has a service of its own, over a store of its own, that knows the keys of
//! no other: what a request may reach is decided by where it goes, before anything is read of it.
//!
//! Only the source of a copy crosses from one account to another, and the source's own service judges whether it may
//! be read.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use http::request::Parts;
use parking_lot::RwLock;

use super::server::{Answer, Protocol, Request};
use super::url::AccountPart;
use crate::wire::headers;

/// A service of one account.
pub(super) trait OfAccount: Protocol {
    /// The service's name in hosts.
    const LABEL: &'static str;
}

/// The services of several accounts.
#[derive(Debug)]
pub(super) struct Neighbourhood<S> {
    services: RwLock<BTreeMap<String, Arc<S>>>,
    /// Answers whoever names an account that there is not: by refusals.
    nobody: Arc<S>,
}

/// The services beside one, for copies between accounts. A service alone has none.
#[derive(Debug)]
pub(super) struct Neighbours<S>(Weak<Neighbourhood<S>>);

impl<S> Default for Neighbours<S> {
    fn default() -> Self {
        Self(Weak::new())
    }
}

impl<S> Neighbours<S> {
    /// The service of an account beside this one.
    pub(super) fn find(&self, account: &str) -> Option<Arc<S>> {
        self.0.upgrade()?.services.read().get(account).cloned()
    }
}

impl<S: OfAccount> Neighbourhood<S> {
    /// Serves no account yet: `nobody` answers everybody.
    pub(super) fn new(nobody: S) -> Arc<Self> {
        Arc::new(Self { services: RwLock::default(), nobody: Arc::new(nobody) })
    }

    /// What a service is told of its neighbours.
    pub(super) fn neighbours(self: &Arc<Self>) -> Neighbours<S> {
        Neighbours(Arc::downgrade(self))
    }

    /// From now on these services answer, by the names of their accounts, and no others. Requests that are running go
    /// on.
    pub(super) fn settle(&self, services: BTreeMap<String, Arc<S>>) {
        *self.services.write() = services;
    }

    fn service_for(&self, head: &Parts) -> Arc<S> {
        let host = headers::text(&head.headers, headers::HOST).ok().flatten().unwrap_or_default();
        let named = AccountPart::split(host, head.uri.path(), S::LABEL).ok();
        let found = named.and_then(|(account, _)| self.services.read().get(&account.name).cloned());
        found.unwrap_or_else(|| Arc::clone(&self.nobody))
    }
}

impl<S: OfAccount> Protocol for Neighbourhood<S> {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        self.service_for(&request.head).answer(request).await
    }
}
