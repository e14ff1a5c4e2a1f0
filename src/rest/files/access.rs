//! Who may do what: where operations meet authorization.
//!
//! Judges nothing itself: [`needs`](super::needs) says what an operation needs, [`auth`](crate::rest::auth) whether
//! the caller has it.

use http::request::Parts;
use http::{HeaderMap, Uri};

use super::FilesService;
use super::call::Call;
use super::failure::{Failure, Result};
use super::needs::need;
use super::operation::Operation;
use super::route::{Resource, Target};
use crate::rest::auth::{Allowed, Asked, Claim};
use crate::rest::face::{Caller, Service as _};
use crate::rest::failure as common;
use crate::rest::reply::status_of;
use crate::store::{ContainerAcl, ContainerName};
use crate::wire::query::Query;
use crate::wire::signing::sas::{Circumstances, Place};
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
        let parts = SignedParts {
            method: head.method.as_str(),
            path: head.uri.path(),
            query,
            headers: &head.headers,
        };
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
            Err(Failure(common::Failure::Refused(fault))) => {
                let why = format!("The source may not be used: {}", fault.text());
                Err(common::Failure::Source(status_of(fault.code), why).into())
            }
            Err(other) => Err(other),
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
        let acl = match share {
            Some(share) if claim.asks_for_acl() => self.acl_of(share).await?,
            _ => None,
        };
        let snapshot = parts.query.filled("sharesnapshot");
        let place =
            Place { service: Service::File, account: &target.account.name, container: share, name, snapshot };
        let circumstances = Circumstances {
            now: self.now(),
            client: Some(caller.peer.ip().to_canonical()),
            secure: caller.secure,
        };
        let asked = Asked { parts, place, circumstances };
        Ok(claim.judge(&self.accounts, &asked, acl.as_ref(), need)?)
    }

    /// The policies of a share; none if it does not exist, so that nobody learns that. Public access, which the blob
    /// service may have given the container, is no business of shares.
    async fn acl_of(&self, share: &str) -> Result<Option<ContainerAcl>> {
        let Ok(name) = ContainerName::new(share) else { return Ok(None) };
        match self.shares.properties(&name, None).await {
            Ok(share) => Ok(Some(ContainerAcl { policies: share.acl.policies, ..ContainerAcl::default() })),
            Err(failure) => match super::failure::of_share(failure) {
                absent if absent.code() == Some(ErrorCode::ShareNotFound) => Ok(None),
                other => Err(other),
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
