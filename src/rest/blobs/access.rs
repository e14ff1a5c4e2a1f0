//! Who may do what: where operations meet authorization.
//!
//! Judges nothing itself: [`needs`](super::needs) says what an operation needs, [`auth`](crate::rest::auth) whether
//! the caller has it.

use http::request::Parts;
use http::{HeaderMap, Uri};

use super::BlobService;
use super::call::{Call, Rights};
use super::failure::Result;
use super::needs::need;
use super::operation::{BlobOp, Operation};
use super::route::{Resource, Target};
use super::source::SourceRight;
use crate::rest::access::{Guarded, Named, about_other, judge, signed_parts};
use crate::rest::auth::{Accounts, Claim};
use crate::rest::face::Caller;
use crate::store::{BlobPath, ContainerAcl, ContainerName, StoreError};
use crate::wire::Fault;
use crate::wire::query::Query;
use crate::wire::signing::shared_key::SignedParts;
use crate::wire::signing::{Need, Service};

impl BlobService {
    /// What the caller of a request may do, if it may make the request at all.
    pub(super) async fn authorize(
        &self,
        head: &Parts,
        query: &Query,
        target: &Target,
        operation: &Operation,
        caller: Caller,
    ) -> Result<Rights> {
        let claim = Claim::of(&head.headers, query)?;
        let need = need(operation, &head.headers, query);
        let parts = signed_parts(head, query);
        self.judge(&claim, parts, target, caller, &need).await
    }

    /// Whether the caller may read a blob of ours as the source of a copy: by its own key, if that is enough, else by
    /// what the source's URL says, else because everybody may.
    pub(super) async fn authorize_source(
        &self,
        call: &Call<'_>,
        url: &Uri,
        target: &Target,
        query: &Query,
        at: &BlobPath,
        right: SourceRight,
    ) -> Result<()> {
        let headers = HeaderMap::new();
        let claim = Claim::of(&headers, query)?;
        let own = target.account.name == call.target.account.name;
        match (&claim, right) {
            (Claim::Anonymous, SourceRight::BySignature) if call.rights.by_key && own => return Ok(()),
            _ => {}
        }
        let read = Operation::Blob(at.clone(), BlobOp::Get);
        let parts = SignedParts { method: "GET", path: url.path(), query, headers: &headers };
        let need = need(&read, &headers, query);
        match self.judge(&claim, parts, target, call.caller, &need).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(about_other(failure, "The source of the copy may not be read")),
        }
    }

    async fn judge(
        &self,
        claim: &Claim,
        parts: SignedParts<'_>,
        target: &Target,
        caller: Caller,
        need: &Need,
    ) -> Result<Rights> {
        let (container, name) = match &target.resource {
            Resource::Account => (None, None),
            Resource::Container(container) => (Some(container.as_str()), None),
            Resource::Blob(container, name) => (Some(container.as_str()), Some(name.as_str())),
        };
        let named = Named { account: &target.account.name, container, name };
        let allowed = judge(self, claim, parts, named, caller, need).await?;
        Ok(Rights {
            by_key: matches!(claim, Claim::Key(_)),
            create_only: allowed.create_only,
            overrides: allowed.overrides,
        })
    }
}

impl Guarded for BlobService {
    const KIND: Service = Service::Blob;
    const SNAPSHOT: &'static str = "snapshot";

    fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    async fn acl_of(&self, container: &str) -> Result<Option<ContainerAcl>> {
        let Ok(name) = ContainerName::new(container) else { return Ok(None) };
        match self.store.container_properties(&name, None).await {
            Ok(container) => Ok(Some(container.acl)),
            Err(StoreError::ContainerNotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Refuses writes through the endpoint that only reads.
pub(super) fn refuse_secondary_writes(
    target: &Target,
    operation: &Operation,
) -> std::result::Result<(), Fault> {
    if target.account.secondary && !operation.is_read() {
        let code = crate::wire::ErrorCode::InsufficientAccountPermissions;
        return Err(Fault::new(code).saying("The secondary endpoint only reads."));
    }
    Ok(())
}
