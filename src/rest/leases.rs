//! Leases as all services show and ask for them.

use http::StatusCode;

use super::reply::Reply;
use super::server::Answer;
use crate::share::Moment;
use crate::share::lease::{Lease, LeaseId};
use crate::store::{LeaseReport, LeaseRequest};
use crate::wire::headers;
use crate::wire::lease::LeaseCommand;

/// The store's request; an acquire that proposes no id gets one here.
pub(super) fn request(command: LeaseCommand) -> LeaseRequest {
    match command {
        LeaseCommand::Acquire { proposed, duration } => {
            let proposed = proposed.unwrap_or_else(|| LeaseId(uuid::Uuid::new_v4().as_u128()));
            LeaseRequest::Acquire { proposed, duration }
        }
        LeaseCommand::Renew { id } => LeaseRequest::Renew { id },
        LeaseCommand::Change { id, proposed } => LeaseRequest::Change { id, proposed },
        LeaseCommand::Release { id } => LeaseRequest::Release { id },
        LeaseCommand::Break { period } => LeaseRequest::Break { period },
    }
}

/// The answer to a lease action.
pub(super) fn reply(command: LeaseCommand, report: &LeaseReport) -> Answer {
    let status = StatusCode::from_u16(command.success_status()).unwrap_or(StatusCode::OK);
    let mut reply = Reply::new(status).version(report.etag, report.modified);
    if let Some(id) = report.id {
        reply = reply.header(headers::LEASE_ID, &id.to_string());
    }
    if let Some(seconds) = report.seconds_left {
        reply = reply.number(headers::LEASE_TIME, seconds);
    }
    reply.empty()
}

/// The state of a lease, as it is now.
pub(super) fn lease_headers(reply: Reply, lease: &Lease, now: Moment) -> Reply {
    let status = if lease.is_locked(now) { "locked" } else { "unlocked" };
    let reply = reply
        .fixed(headers::LEASE_STATUS, status)
        .header(headers::LEASE_STATE, &lease.state(now).to_string());
    reply.maybe(headers::LEASE_DURATION, duration_name(lease, now))
}

/// `infinite` or `fixed`, while leased.
fn duration_name(lease: &Lease, now: Moment) -> Option<&'static str> {
    lease.duration(now).map(|duration| if duration.is_infinite() { "infinite" } else { "fixed" })
}
