//! Whether the caller of a request may make it: the part that is the same for every service.
//!
//! Judges nothing itself: [`auth`](super::auth) does.

use std::future::Future;

use http::request::Parts;

use super::auth::{Accounts, Allowed, Asked, Claim};
use super::face::{Caller, Service};
use super::failure::Failure;
use super::reply::status_of;
use crate::store::ContainerAcl;
use crate::wire::query::Query;
use crate::wire::signing::sas::{Circumstances, Place};
use crate::wire::signing::shared_key::SignedParts;
use crate::wire::signing::{self, Need};

/// What a URL names, as signatures see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    pub(super) account: &'a str,
    pub(super) container: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

/// A service whose callers are judged.
pub(super) trait Guarded: Service {
    /// Which service it is, for signatures.
    const KIND: signing::Service;
    /// The parameter of a query that names a snapshot.
    const SNAPSHOT: &'static str;

    /// The accounts it knows.
    fn accounts(&self) -> &Accounts;

    /// Who may use a container; nobody in particular if it does not exist, so that nobody learns that.
    fn acl_of(&self, container: &str) -> impl Future<Output = Result<Option<ContainerAcl>, Failure>> + Send;
}

/// What the caller of a request may do with what its URL names, if it may make the request at all.
pub(super) async fn judge<S: Guarded>(
    service: &S,
    claim: &Claim,
    parts: SignedParts<'_>,
    named: Named<'_>,
    caller: Caller,
    need: &Need,
) -> Result<Allowed, Failure> {
    let Named { account, container, name } = named;
    let acl = match container {
        // The containers are those of the accounts known here, whatever account the URL names.
        Some(container) if claim.asks_for_acl() && service.accounts().knows(account) => {
            service.acl_of(container).await?
        }
        _ => None,
    };
    let snapshot = parts.query.filled(S::SNAPSHOT);
    let place = Place { service: S::KIND, account, container, name, snapshot };
    let client = Some(caller.peer.ip().to_canonical());
    let circumstances = Circumstances { now: service.now(), client, secure: caller.secure };
    let asked = Asked { parts, place, circumstances };
    Ok(claim.judge(service.accounts(), &asked, acl.as_ref(), need)?)
}

/// What a request signs of itself.
pub(super) fn signed_parts<'a>(head: &'a Parts, query: &'a Query) -> SignedParts<'a> {
    SignedParts { method: head.method.as_str(), path: head.uri.path(), query, headers: &head.headers }
}

/// What a refusal means when it is about something else of ours that the request names by URL.
pub(super) fn about_other(failure: Failure, what: &str) -> Failure {
    match failure {
        Failure::Refused(fault) => {
            Failure::Source(status_of(fault.code), format!("{what}: {}", fault.text()))
        }
        other => other,
    }
}
