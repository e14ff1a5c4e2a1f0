//! The Azure Files protocol over the engine: the same files, and the same open table, that a mount has.
//!
//! A request goes through: `route` (which account, share, path) → `operation` (what is asked) → authorization (who
//! asks, and may they) → a handler, which reads the parameters, makes one call to the engine and shapes the answer.
//! Every call of the engine is a short open, so a mounted program that stands in the way is found by the same lines
//! that would refuse another program. `failure` has the one match from the engine's errors to status and code.
//!
//! Handlers must never judge share modes, leases, or the state of a file themselves.

mod access;
mod call;
mod copy;
mod directories;
mod failure;
mod file;
mod handles;
mod leases;
mod needs;
mod neighbours;
mod operation;
mod permissions;
mod place;
mod properties;
mod ranges;
mod read;
mod rename;
mod route;
mod service;
mod shares;
mod source;
mod view;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use tokio::sync::Semaphore;

use super::auth::Accounts;
use super::cors::Settings;
use super::face::{self, Caller, Face, Service};
use super::failure as common;
use super::neighbours::Neighbours;
use super::server::{Answer, Protocol, Request, RequestBody, ToItsEnd};
use super::sources::CopySources;
use crate::fs::shares::Shares;
use crate::share::Moment;
use crate::store::ContainerName;
use crate::wire::query::Query;
use crate::wire::version::ServiceVersion;
use crate::wire::xml::ServiceProperties;
use crate::wire::{ErrorCode, headers};

use access::refuse_writes;
use call::Call;
use failure::Result;
use operation::{DirectoryOp, FileOp, HandlesOp, Operation, ServiceOp, ShareOp};
use place::Place;
use route::Target;

pub use neighbours::{FilesAccounts, SharesOf};

/// What the `Server` header says.
const SERVER_NAME: &str = concat!("leasefs-file/", env!("CARGO_PKG_VERSION"));
/// KiB of bodies that are in memory at once, of all requests together.
const BODIES_KIB_MAX: usize = 512 * 1024;

/// An operation being made: on the heap, so that no request pays for the largest.
type Performing<'a> = Pin<Box<dyn Future<Output = Result<Answer>> + Send + 'a>>;

/// The Files protocol over the shares of one store, for one account.
pub struct FilesService {
    shares: Arc<Shares>,
    accounts: Accounts,
    copy_sources: CopySources,
    settings: Settings,
    neighbours: Neighbours<FilesService>,
    /// Room for bodies, in KiB.
    bodies: Semaphore,
    face: Face,
}

impl std::fmt::Debug for FilesService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilesService").finish_non_exhaustive()
    }
}

impl FilesService {
    /// Serves all shares.
    pub fn new(shares: Arc<Shares>, accounts: Accounts, copy_sources: CopySources) -> Self {
        Self {
            shares,
            accounts,
            copy_sources,
            settings: Settings::default(),
            neighbours: Neighbours::default(),
            bodies: Semaphore::new(BODIES_KIB_MAX),
            face: Face::new(SERVER_NAME),
        }
    }

    /// Everything from a request's head to an answer: what is asked, whether the caller may, and the operation.
    async fn admit_and_perform(
        &self,
        head: &Parts,
        body: &mut RequestBody,
        caller: Caller,
    ) -> Result<Answer> {
        let version =
            ServiceVersion::from_headers(&head.headers)?.unwrap_or(ServiceVersion::NEWEST).effective();
        let query = Query::parse(head.uri.query().unwrap_or_default())?;
        let host = headers::text(&head.headers, headers::HOST)?.unwrap_or_default();
        let target = Target::parse(host, head.uri.path()).map_err(|_| ErrorCode::InvalidUri)?;
        let operation = Operation::parse(&head.method, &target.resource, &query, &head.headers)?;
        let (claim, allowed) = self.authorize(head, &query, &target, &operation, caller).await?;
        refuse_writes(&target, &query, &operation)?;
        let mut call = Call {
            head,
            query,
            target,
            version,
            body,
            now: self.now(),
            caller,
            claim,
            create_only: allowed.create_only,
            overrides: allowed.overrides,
        };
        call.refuse_unsupported()?;
        self.perform(&mut call, &operation).await
    }

    /// Makes the operation.
    async fn perform(&self, call: &mut Call<'_>, operation: &Operation) -> Result<Answer> {
        let create_only = call.create_only;
        let answer = self.perform_any(call, operation).await;
        match (&answer, operation) {
            // Who only may create found something to replace.
            (Err(failure), Operation::File(..))
                if create_only && failure.code() == Some(ErrorCode::ResourceAlreadyExists) =>
            {
                Err(ErrorCode::AuthorizationPermissionMismatch.into())
            }
            _ => answer,
        }
    }

    async fn perform_any(&self, call: &mut Call<'_>, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Service(op) => self.perform_on_service(call, *op).await,
            Operation::Share(name, op) => self.perform_on_share(call, name, *op).await,
            Operation::Directory(place, op) => {
                named(place, self.perform_on_directory(call, place, *op).await)
            }
            Operation::File(place, op) => named(place, self.perform_on_file(call, place, *op).await),
            Operation::Handles(place, op) => {
                let answer = match op {
                    HandlesOp::List => self.list_handles(call, place).await,
                    HandlesOp::Close => self.close_handles(call, place).await,
                };
                named(place, answer)
            }
            Operation::Unsupported(what) => Err(common::unsupported(what).into()),
        }
    }

    fn perform_on_service<'a>(&'a self, call: &'a mut Call<'_>, op: ServiceOp) -> Performing<'a> {
        match op {
            ServiceOp::GetProperties => Box::pin(self.get_service_properties()),
            ServiceOp::SetProperties => Box::pin(self.set_service_properties(call)),
            ServiceOp::ListShares => Box::pin(self.list_shares(call)),
        }
    }

    fn perform_on_share<'a>(
        &'a self,
        call: &'a mut Call<'_>,
        name: &'a ContainerName,
        op: ShareOp,
    ) -> Performing<'a> {
        match op {
            ShareOp::Create => Box::pin(self.create_share(call, name)),
            ShareOp::GetProperties => Box::pin(self.get_share_properties(call, name)),
            ShareOp::SetProperties => Box::pin(self.set_share_properties(call, name)),
            ShareOp::GetMetadata => Box::pin(self.get_share_metadata(call, name)),
            ShareOp::SetMetadata => Box::pin(self.set_share_metadata(call, name)),
            ShareOp::GetAcl => Box::pin(self.get_share_acl(call, name)),
            ShareOp::SetAcl => Box::pin(self.set_share_acl(call, name)),
            ShareOp::GetStats => Box::pin(self.get_share_stats(call, name)),
            ShareOp::Snapshot => Box::pin(self.snapshot_share(call, name)),
            ShareOp::Delete => Box::pin(self.delete_share(call, name)),
            ShareOp::Lease => Box::pin(self.lease_share(call, name)),
            ShareOp::CreatePermission => Box::pin(self.create_permission(call, name)),
            ShareOp::GetPermission => Box::pin(self.get_permission(call, name)),
        }
    }

    fn perform_on_directory<'a>(
        &'a self,
        call: &'a mut Call<'_>,
        at: &'a Place,
        op: DirectoryOp,
    ) -> Performing<'a> {
        match op {
            DirectoryOp::Create => Box::pin(self.create_directory(call, at)),
            DirectoryOp::GetProperties => Box::pin(self.get_directory_properties(call, at)),
            DirectoryOp::SetProperties => Box::pin(self.set_directory_properties(call, at)),
            DirectoryOp::GetMetadata => Box::pin(self.get_directory_metadata(call, at)),
            DirectoryOp::SetMetadata => Box::pin(self.set_directory_metadata(call, at)),
            DirectoryOp::List => Box::pin(self.list_directory(call, at)),
            DirectoryOp::Rename => Box::pin(self.rename(call, at, true)),
            DirectoryOp::Delete => Box::pin(self.delete_directory(call, at)),
        }
    }

    fn perform_on_file<'a>(&'a self, call: &'a mut Call<'_>, at: &'a Place, op: FileOp) -> Performing<'a> {
        match op {
            FileOp::Create => Box::pin(self.create_file(call, at)),
            FileOp::Get => Box::pin(self.get_file(call, at)),
            FileOp::GetProperties => Box::pin(self.get_file_properties(call, at)),
            FileOp::SetProperties => Box::pin(self.set_file_properties(call, at)),
            FileOp::GetMetadata => Box::pin(self.get_file_metadata(call, at)),
            FileOp::SetMetadata => Box::pin(self.set_file_metadata(call, at)),
            FileOp::PutRange => Box::pin(self.put_range(call, at)),
            FileOp::PutRangeFromUrl => Box::pin(self.put_range_from_url(call, at)),
            FileOp::ListRanges => Box::pin(self.list_ranges(call, at)),
            FileOp::Copy => Box::pin(self.copy_file(call, at)),
            FileOp::AbortCopy => Box::pin(self.abort_copy(call, at)),
            FileOp::Rename => Box::pin(self.rename(call, at, false)),
            FileOp::Delete => Box::pin(self.delete_file(call, at)),
            FileOp::Lease => Box::pin(self.lease_file(call, at)),
        }
    }
}

/// A name that the service could not have and that is not there is refused for the name.
fn named(place: &Place, answer: Result<Answer>) -> Result<Answer> {
    answer.map_err(|failure| match failure.code() {
        Some(ErrorCode::ResourceNotFound | ErrorCode::ParentNotFound) if !place.is_legal() => {
            ErrorCode::InvalidResourceName.into()
        }
        _ => failure,
    })
}

impl Service for FilesService {
    fn face(&self) -> &Face {
        &self.face
    }

    fn now(&self) -> Moment {
        face::now()
    }

    async fn settings(&self) -> std::result::Result<Arc<ServiceProperties>, common::Failure> {
        Ok(self.stored_settings().await?)
    }

    async fn handle(
        &self,
        head: &Parts,
        body: &mut RequestBody,
        caller: Caller,
    ) -> std::result::Result<Answer, common::Failure> {
        Ok(self.admit_and_perform(head, body, caller).await?)
    }
}

impl Protocol for FilesService {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        ToItsEnd::new(async move { face::answer(&*self, request).await }).await
    }
}
