//! Who may do what: where operations meet authorization.
//!
//! Judges nothing itself: [`needs`](super::needs) says what an operation needs, [`auth`](crate::rest::auth) whether
//! the caller has it.

use http::request::Parts;
use http::{HeaderMap, Uri};

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::needs::need;
use super::operation::Operation;
use super::route::{Resource, Target};
use crate::rest::access::{Guarded, Named, about_other, judge, signed_parts};
use crate::rest::auth::{Accounts, Allowed, Claim};
use crate::rest::face::Caller;
use crate::rest::failure as common;
use crate::store::{ContainerAcl, ContainerName};
use crate::wire::query::Query;
use crate::wire::signing::shared_key::SignedParts;
use crate::wire::signing::{Need, Service};
use crate::wire::{ErrorCode, Fault};

impl FilesService {
    /// What the caller of a request may do, if it may make the request at all.
    pub(super) async fn authorize(
        &self,
        head: &Parts,
        query: &Query,
        target: &Target,
        operation: &Operation,
        caller: Caller,
    ) -> Result<(Claim, Allowed)> {
        let claim = Claim::of(&head.headers, query)?;
        let need = need(operation, &head.headers);
        let parts = signed_parts(head, query);
        let allowed = self.judge(&claim, parts, target, caller, &need).await?;
        Ok((claim, allowed))
    }

    /// Whether the caller may do something with another file of ours that its request names by URL: by what that URL
    /// says, else by the right that the request itself came with.
    pub(super) async fn authorize_other(
        &self,
        call: &Call<'_>,
        url: &Uri,
        target: &Target,
        query: &Query,
        need: &Need,
    ) -> Result<()> {
        let headers = HeaderMap::new();
        let claim = match (Claim::of(&headers, query)?, &call.claim) {
            // The key opens everything in its account.
            (Claim::Anonymous, Claim::Key(_)) if target.account.name == call.target.account.name => {
                return Ok(());
            }
            (Claim::Anonymous, Claim::Sas(token)) => Claim::Sas(token.clone()),
            (claim, _) => claim,
        };
        let parts = SignedParts { method: "GET", path: url.path(), query, headers: &headers };
        match self.judge(&claim, parts, target, call.caller, need).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(about_other(failure.into(), "The source may not be used").into()),
        }
    }

    async fn judge(
        &self,
        claim: &Claim,
        parts: SignedParts<'_>,
        target: &Target,
        caller: Caller,
        need: &Need,
    ) -> Result<Allowed> {
        let (share, name) = match &target.resource {
            Resource::Account => (None, None),
            Resource::Share(share) => (Some(share.as_str()), None),
            Resource::Path(share, path) => (Some(share.as_str()), Some(path.as_str())),
        };
        let named = Named { account: &target.account.name, container: share, name };
        Ok(judge(self, claim, parts, named, caller, need).await?)
    }
}

impl Guarded for FilesService {
    const KIND: Service = Service::File;
    const SNAPSHOT: &'static str = "sharesnapshot";

    fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Public access, which the blob service may have given the container, is no business of shares.
    async fn acl_of(&self, share: &str) -> std::result::Result<Option<ContainerAcl>, common::Failure> {
        let Ok(name) = ContainerName::new(share) else { return Ok(None) };
        match self.shares.properties(&name, None).await {
            Ok(share) => Ok(Some(ContainerAcl { policies: share.acl.policies, ..ContainerAcl::default() })),
            Err(failure) => match super::failure::of_share(failure) {
                absent if absent.code() == Some(ErrorCode::ShareNotFound) => Ok(None),
                other => Err(other.into()),
            },
        }
    }
}

/// Refuses writes where only reading is possible: through the secondary endpoint, and to snapshots.
pub(super) fn refuse_writes(
    target: &Target,
    query: &Query,
    operation: &Operation,
) -> std::result::Result<(), Fault> {
    if operation.is_read() {
        return Ok(());
    }
    if target.account.secondary {
        let code = ErrorCode::InsufficientAccountPermissions;
        return Err(Fault::new(code).saying("The secondary endpoint only reads."));
    }
    // Only a share's own operations name a snapshot to do something with it.
    match (query.filled("sharesnapshot"), operation) {
        (None, _) | (Some(_), Operation::Share(..)) => Ok(()),
        (Some(text), _) => {
            Err(Fault::invalid_query("sharesnapshot", text).saying("A snapshot cannot be changed."))
        }
    }
}
