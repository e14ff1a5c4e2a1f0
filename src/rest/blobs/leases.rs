//! Lease Blob and Lease Container: five actions, one request shape.

use http::StatusCode;

use super::BlobService;
use super::call::Call;
use super::failure::Result;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::share::lease::LeaseId;
use crate::store::{BlobPath, ContainerName, LeaseReport, LeaseRequest};
use crate::wire::ErrorCode;
use crate::wire::headers;
use crate::wire::lease::LeaseCommand;

impl BlobService {
    /// Lease Blob.
    pub(super) async fn lease_blob(&self, call: &Call<'_>, at: &BlobPath) -> Result<Answer> {
        if call.snapshot()?.is_some() {
            return Err(ErrorCode::InvalidOperation.into());
        }
        let command = LeaseCommand::from_headers(call.headers())?;
        let conditions = call.write_conditions()?.without_lease();
        let report = self.store.lease_blob(at, request(command), &conditions).await?;
        Ok(reply(command, &report))
    }

    /// Lease Container.
    pub(super) async fn lease_container(&self, call: &Call<'_>, name: &ContainerName) -> Result<Answer> {
        let command = LeaseCommand::from_headers(call.headers())?;
        let conditions = call.container_conditions()?.without_lease();
        let report = self.store.lease_container(name, request(command), &conditions).await?;
        Ok(reply(command, &report))
    }
}

/// The store's request; an acquire that proposes no id gets one here.
fn request(command: LeaseCommand) -> LeaseRequest {
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

fn reply(command: LeaseCommand, report: &LeaseReport) -> Answer {
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
