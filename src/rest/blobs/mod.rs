//! The Azure Blob protocol over a store on this machine.
//!
//! A request goes through: `route` (which account, container, blob) → `operation` (what is asked) → authorization
//! (who asks, and may they) → a handler, which reads the parameters, makes one call to the store and shapes the
//! answer. The store is a *durable* user of its data: a change is answered only when it would survive a power loss.
//! `failure` has the one match from the store's errors to status and code.
//!
//! Handlers must never judge a condition or a lease themselves.

mod access;
mod account;
mod append;
mod batch;
mod blocks;
mod call;
mod changes;
mod containers;
mod copy;
mod failure;
#[cfg(test)]
mod fuzz;
mod leases;
mod listing;
mod needs;
mod neighbours;
mod operation;
mod pages;
mod properties;
mod put;
mod read;
mod receive;
mod route;
mod source;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;

use super::auth::Accounts;
use super::cors::Settings;
use super::face::{self, Caller, Face, Service};
use super::neighbours::Neighbours;
use super::server::{Answer, Protocol, Request, RequestBody};
use crate::share::Moment;
use crate::store::{BlobPath, BlobStore, ContainerName, EtagMatch, LocalStore, Preconditions};
use crate::wire::query::Query;
use crate::wire::version::ServiceVersion;
use crate::wire::xml::{self, ServiceProperties};
use crate::wire::{ErrorCode, headers};

use access::refuse_secondary_writes;
use call::Call;
use failure::{Failure, Result};
use operation::{AccountOp, BlobOp, ContainerOp, Operation};
use route::Target;

pub use super::sources::CopySources;
pub use neighbours::{BlobAccounts, Stores};

/// What the `Server` header says.
const SERVER_NAME: &str = concat!("leasefs-blob/", env!("CARGO_PKG_VERSION"));
/// An operation being made: on the heap, so that no request pays for the largest.
type Performing<'a> = Pin<Box<dyn Future<Output = Result<Answer>> + Send + 'a>>;

/// A store that can be served: its contract, and its content on this machine.
pub trait ServedStore: BlobStore + LocalStore {}
impl<S: BlobStore + LocalStore> ServedStore for S {}

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The Blob protocol over one store: one account.
pub struct BlobService {
    store: Arc<dyn ServedStore>,
    accounts: Accounts,
    copy_sources: CopySources,
    neighbours: Neighbours<BlobService>,
    settings: Settings,
    /// The time: of this machine, unless a test moves it together with the store's.
    clock: Clock,
    face: Face,
}

impl std::fmt::Debug for BlobService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobService").finish_non_exhaustive()
    }
}

impl BlobService {
    /// Serves `store`, which should answer a change only when it is durable: clients take an answer for a promise.
    pub fn new(store: Arc<dyn ServedStore>, accounts: Accounts, copy_sources: CopySources) -> Self {
        Self {
            store,
            accounts,
            copy_sources,
            neighbours: Neighbours::default(),
            settings: Settings::default(),
            clock: Arc::new(face::now),
            face: Face::new(SERVER_NAME),
        }
    }

    /// With another clock, which must be the store's too.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// What a request asks for, if its caller may. `path` is where it goes; what was signed is the path in the head.
    async fn admit<'a>(
        &self,
        head: &'a Parts,
        body: &'a mut RequestBody,
        caller: Caller,
        host: &str,
        path: &str,
    ) -> Result<(Call<'a>, Operation)> {
        let version =
            ServiceVersion::from_headers(&head.headers)?.unwrap_or(ServiceVersion::NEWEST).effective();
        let query = Query::parse(head.uri.query().unwrap_or_default())?;
        // What the account is can be asked of a container too.
        let of_container = query
            .get("restype")
            .is_some_and(|kind| ["container", "account"].iter().any(|name| kind.eq_ignore_ascii_case(name)));
        let target = Target::parse(host, path, of_container).map_err(|_| ErrorCode::InvalidUri)?;
        let operation = Operation::parse(&head.method, &target.resource, &query, &head.headers)?;
        let rights = self.authorize(head, &query, &target, &operation, caller).await?;
        refuse_secondary_writes(&target, &operation)?;
        let call = Call { head, query, target, version, body, now: self.now(), caller, rights };
        Ok((call, operation))
    }

    /// Makes the operation.
    async fn perform(&self, call: &mut Call<'_>, operation: &Operation) -> Result<Answer> {
        let create_only = call.rights.create_only;
        let answer = match operation {
            Operation::Account(op) => self.perform_on_account(call, *op).await,
            Operation::Container(name, op) => self.perform_on_container(call, name, *op).await,
            Operation::Blob(at, op) => self.perform_on_blob(call, at, *op).await,
        };
        match answer {
            // Who only may create found something to replace.
            Err(Failure::Refused(fault)) if create_only && fault.code == ErrorCode::BlobAlreadyExists => {
                Err(ErrorCode::UnauthorizedBlobOverwrite.into())
            }
            other => other,
        }
    }

    fn perform_on_account<'a>(&'a self, call: &'a mut Call<'_>, op: AccountOp) -> Performing<'a> {
        match op {
            AccountOp::GetServiceProperties => Box::pin(self.get_service_properties()),
            AccountOp::SetServiceProperties => Box::pin(self.set_service_properties(call)),
            AccountOp::GetServiceStats => Box::pin(self.get_service_stats(call)),
            AccountOp::GetAccountInfo => Box::pin(self.get_account_info()),
            AccountOp::ListContainers => Box::pin(self.list_containers(call)),
            AccountOp::FindBlobsByTags => Box::pin(self.find_by_tags(call, None)),
            AccountOp::Batch => Box::pin(self.batch(call, None)),
            AccountOp::Unsupported(what) => Box::pin(unsupported(what)),
        }
    }

    fn perform_on_container<'a>(
        &'a self,
        call: &'a mut Call<'_>,
        name: &'a ContainerName,
        op: ContainerOp,
    ) -> Performing<'a> {
        match op {
            ContainerOp::Create => Box::pin(self.create_container(call, name)),
            ContainerOp::GetProperties => Box::pin(self.get_container_properties(call, name)),
            ContainerOp::GetMetadata => Box::pin(self.get_container_metadata(call, name)),
            ContainerOp::SetMetadata => Box::pin(self.set_container_metadata(call, name)),
            ContainerOp::GetAcl => Box::pin(self.get_container_acl(call, name)),
            ContainerOp::SetAcl => Box::pin(self.set_container_acl(call, name)),
            ContainerOp::Delete => Box::pin(self.delete_container(call, name)),
            ContainerOp::Lease => Box::pin(self.lease_container(call, name)),
            ContainerOp::ListBlobs => Box::pin(self.list_blobs(call, name)),
            ContainerOp::FindBlobsByTags => Box::pin(self.find_by_tags(call, Some(name))),
            ContainerOp::Batch => Box::pin(self.batch(call, Some(name))),
            ContainerOp::GetAccountInfo => Box::pin(self.get_account_info()),
            ContainerOp::Unsupported(what) => Box::pin(unsupported(what)),
        }
    }

    fn perform_on_blob<'a>(&'a self, call: &'a mut Call<'_>, at: &'a BlobPath, op: BlobOp) -> Performing<'a> {
        match op {
            BlobOp::Get => Box::pin(self.get_blob(call, at)),
            BlobOp::GetProperties => Box::pin(self.get_blob_properties(call, at)),
            BlobOp::GetMetadata => Box::pin(self.get_blob_metadata(call, at)),
            BlobOp::SetMetadata => Box::pin(self.set_blob_metadata(call, at)),
            BlobOp::SetProperties => Box::pin(self.set_blob_properties(call, at)),
            BlobOp::SetTier => Box::pin(self.set_blob_tier(call, at)),
            BlobOp::GetTags => Box::pin(self.get_blob_tags(call, at)),
            BlobOp::SetTags => Box::pin(self.set_blob_tags(call, at)),
            BlobOp::Put => Box::pin(self.put_blob(call, at)),
            BlobOp::PutFromUrl => Box::pin(self.put_blob_from_url(call, at)),
            BlobOp::Delete => Box::pin(self.delete_blob(call, at)),
            BlobOp::Snapshot => Box::pin(self.snapshot_blob(call, at)),
            BlobOp::Copy => Box::pin(self.copy_blob(call, at)),
            BlobOp::CopyFromUrl => Box::pin(self.copy_blob_from_url(call, at)),
            BlobOp::AbortCopy => Box::pin(self.abort_copy(call, at)),
            BlobOp::Lease => Box::pin(self.lease_blob(call, at)),
            BlobOp::PutBlock => Box::pin(self.put_block(call, at)),
            BlobOp::PutBlockFromUrl => Box::pin(self.put_block_from_url(call, at)),
            BlobOp::PutBlockList => Box::pin(self.put_block_list(call, at)),
            BlobOp::GetBlockList => Box::pin(self.get_block_list(call, at)),
            BlobOp::AppendBlock => Box::pin(self.append_block(call, at)),
            BlobOp::AppendBlockFromUrl => Box::pin(self.append_block_from_url(call, at)),
            BlobOp::Seal => Box::pin(self.seal_blob(call, at)),
            BlobOp::PutPage => Box::pin(self.put_page(call, at)),
            BlobOp::PutPageFromUrl => Box::pin(self.put_page_from_url(call, at)),
            BlobOp::GetPageRanges => Box::pin(self.get_page_ranges(call, at)),
            BlobOp::GetAccountInfo => Box::pin(self.get_account_info()),
            BlobOp::Unsupported(what) => Box::pin(unsupported(what)),
        }
    }

    /// Conditions of a write that may replace a blob: a caller who may only create must find nothing there.
    fn overwrite_conditions(&self, call: &Call<'_>, mut conditions: Preconditions) -> Result<Preconditions> {
        if call.rights.create_only {
            if conditions.if_match.is_some() {
                return Err(ErrorCode::UnauthorizedBlobOverwrite.into());
            }
            conditions.if_none_match = Some(EtagMatch::Any);
        }
        Ok(conditions)
    }
}

impl Service for BlobService {
    fn face(&self) -> &Face {
        &self.face
    }

    fn now(&self) -> Moment {
        (self.clock)()
    }

    async fn settings(&self) -> Result<Arc<ServiceProperties>> {
        if let Some(known) = self.settings.known() {
            return Ok(known);
        }
        let read = match self.store.service_properties().await? {
            Some(document) => xml::parse_service_properties(&document)?,
            None => ServiceProperties::default(),
        };
        Ok(self.settings.learn(read))
    }

    async fn handle(&self, head: &Parts, body: &mut RequestBody, caller: Caller) -> Result<Answer> {
        let host = headers::text(&head.headers, headers::HOST)?.unwrap_or_default();
        let (mut call, operation) = self.admit(head, body, caller, host, head.uri.path()).await?;
        self.perform(&mut call, &operation).await
    }
}

impl Protocol for BlobService {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        face::answer(&*self, request).await
    }
}

/// What the service knows and this one does not offer.
async fn unsupported(what: &'static str) -> Result<Answer> {
    Err(super::failure::unsupported(what).into())
}
