//! Lease File: four actions. A lease on a file has no end but its release or break.

use http::StatusCode;

use super::FilesService;
use super::call::Call;
use super::failure::Result;
use super::place::Place;
use crate::fs::requests::LeaseAction;
use crate::rest::reply::Reply;
use crate::rest::server::Answer;
use crate::share::lease::LeaseId;
use crate::wire::lease::LeaseCommand;
use crate::wire::{Fault, headers};

impl FilesService {
    /// Lease File.
    pub(super) async fn lease_file(&self, call: &Call<'_>, at: &Place) -> Result<Answer> {
        let command = LeaseCommand::from_headers(call.headers())?;
        let share = self.share(call, &at.share).await?;
        let action = action(command)?;
        let entry = share.lease(&at.path, action).await?;
        let status = StatusCode::from_u16(command.success_status()).unwrap_or(StatusCode::OK);
        let mut reply = Reply::new(status).version(entry.etag, entry.modified);
        if let LeaseAction::Acquire { proposed: id } | LeaseAction::Change { proposed: id, .. } = action {
            reply = reply.header(headers::LEASE_ID, &id.to_string());
        }
        if matches!(command, LeaseCommand::Break { .. }) {
            reply = reply.number(headers::LEASE_TIME, 0);
        }
        Ok(reply.empty())
    }
}

/// The action on a file; an acquire that proposes no id gets one here.
fn action(command: LeaseCommand) -> Result<LeaseAction> {
    match command {
        LeaseCommand::Acquire { duration, .. } if !duration.is_infinite() => {
            Err(Fault::invalid_header(headers::LEASE_DURATION, "a lease on a file lasts for ever: -1").into())
        }
        LeaseCommand::Acquire { proposed, .. } => {
            let proposed = proposed.unwrap_or_else(|| LeaseId(uuid::Uuid::new_v4().as_u128()));
            Ok(LeaseAction::Acquire { proposed })
        }
        LeaseCommand::Renew { .. } => Err(Fault::invalid_header(headers::LEASE_ACTION, "renew").into()),
        LeaseCommand::Change { id, proposed } => Ok(LeaseAction::Change { id, proposed }),
        LeaseCommand::Release { id } => Ok(LeaseAction::Release { id }),
        // There is nothing to wait for.
        LeaseCommand::Break { .. } => Ok(LeaseAction::Break),
    }
}
