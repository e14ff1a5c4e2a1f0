//! Lease actions. Every acquire proposes its own id, so all of them can be repeated.

use std::fmt::Display;

use http::Method;

use super::AzureStore;
use super::answers::Reader;
use super::client::Call;
use crate::store::{BlobPath, ContainerName, LeaseReport, LeaseRequest, Preconditions, Result};
use crate::wire::lease::LeaseCommand;
use crate::wire::{ErrorCode, headers};

impl AzureStore {
    pub(super) async fn lease_of_blob(
        &self,
        at: &BlobPath,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport> {
        let call =
            Call::new(Method::PUT, at).query("comp", "lease").conditions(&conditions.without_lease())?;
        self.act(call, at, request).await
    }

    pub(super) async fn lease_of_container(
        &self,
        name: &ContainerName,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<LeaseReport> {
        let call = Call::on_container(Method::PUT, name)
            .query("comp", "lease")
            .container_conditions(&conditions.without_lease())?;
        self.act(call, name, request).await
    }

    async fn act(
        &self,
        call: Call,
        name: &(dyn Display + Sync),
        request: LeaseRequest,
    ) -> Result<LeaseReport> {
        let mut call = call;
        for (header, value) in command(request).to_headers() {
            call = call.header(header, value)?;
        }
        let answer = match self.client.send(&call).await {
            Ok(answer) => answer,
            Err(failure) if failure.lost && is_released(request, failure.code()) => {
                return Ok(LeaseReport {
                    etag: crate::store::ETag(0),
                    modified: super::client::now(),
                    id: None,
                    seconds_left: None,
                });
            }
            Err(failure) => return Err(failure.about(&name)),
        };
        let reader = Reader(&answer.headers);
        Ok(LeaseReport {
            etag: reader.etag()?,
            modified: reader.modified()?,
            id: reader.text(headers::LEASE_ID).and_then(|text| text.parse().ok()),
            seconds_left: reader.number(headers::LEASE_TIME),
        })
    }
}

/// A release that finds no such lease, after an attempt whose answer was lost, has done its work.
fn is_released(request: LeaseRequest, code: Option<ErrorCode>) -> bool {
    matches!(request, LeaseRequest::Release { .. })
        && code == Some(ErrorCode::LeaseIdMismatchWithLeaseOperation)
}

fn command(request: LeaseRequest) -> LeaseCommand {
    match request {
        LeaseRequest::Acquire { proposed, duration } => {
            LeaseCommand::Acquire { proposed: Some(proposed), duration }
        }
        LeaseRequest::Renew { id } => LeaseCommand::Renew { id },
        LeaseRequest::Change { id, proposed } => LeaseCommand::Change { id, proposed },
        LeaseRequest::Release { id } => LeaseCommand::Release { id },
        LeaseRequest::Break { period } => LeaseCommand::Break { period },
    }
}
