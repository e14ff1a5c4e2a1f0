//! Leases on files: the blob's lease, endless. Who has it keeps everybody else from writing and removing.

use std::sync::Arc;

use crate::share::lease::{LeaseDuration, LeaseId, LeaseRefusal};
use crate::share::{Access, ShareMode};
use crate::store::{LeaseRequest, Preconditions, StoreError};

use super::super::error::{FsError, Result};
use super::super::gate::Claim;
use super::super::now;
use super::Requests;
use super::brief::{LeaseRule, Target, Wanted};
use super::entry::Entry;
use super::failure::Answer;
use super::path::FilePath;

/// To take a lease, nobody may have the file open to write or to remove it, and nobody may keep others from anything.
const TAKE: Claim = Claim { access: Access::ALL, share: ShareMode::READ };
const LOOK: Claim = Claim { access: Access::NONE, share: ShareMode::ALL };

/// What to do with the lease on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Take it under this id.
    Acquire {
        /// The id it will have.
        proposed: LeaseId,
    },
    /// Give it another id.
    Change {
        /// The id it has.
        id: LeaseId,
        /// The id it will have.
        proposed: LeaseId,
    },
    /// Give it up.
    Release {
        /// The id it has.
        id: LeaseId,
    },
    /// End somebody's.
    Break,
}

impl From<LeaseAction> for LeaseRequest {
    fn from(action: LeaseAction) -> Self {
        match action {
            LeaseAction::Acquire { proposed } => {
                LeaseRequest::Acquire { proposed, duration: LeaseDuration::INFINITE }
            }
            LeaseAction::Change { id, proposed } => LeaseRequest::Change { id, proposed },
            LeaseAction::Release { id } => LeaseRequest::Release { id },
            LeaseAction::Break => LeaseRequest::Break { period: Some(0) },
        }
    }
}

impl Requests {
    /// One lease action on a file. Answers what the file is then. Durable when it answers.
    pub async fn lease(&self, path: &FilePath, action: LeaseAction) -> Answer<Entry> {
        let claim = match action {
            LeaseAction::Acquire { proposed } => {
                self.must_be_free(path, proposed)?;
                TAKE
            }
            LeaseAction::Change { .. } | LeaseAction::Release { .. } | LeaseAction::Break => LOOK,
        };
        let (target, permit) = self.pass(path, Wanted::File, claim, LeaseRule::Read(None)).await?;
        let done = self.act(&target, action).await;
        self.engine.leave(target.ino, &permit).await;
        done?;
        self.engine.local()?.sync().await?;
        let now_there = self.look(path, None).await?;
        Ok(self.engine.entry(now_there.ino, now_there.parent, &now_there.found)?)
    }

    /// Refuses at once who wants a lease that another caller has, without a claim: those who try would be in the way of
    /// the holder's own calls.
    fn must_be_free(&self, path: &FilePath, proposed: LeaseId) -> Result<()> {
        // What is not there, or cannot be leased, is said below.
        let Ok(target) = self.look_here(path) else { return Ok(()) };
        let Some(id) = target.found.blob.as_ref().and_then(|blob| blob.lease.holder(now())) else {
            return Ok(());
        };
        if id == proposed || self.engine.is_own_lease(target.ino, id) {
            return Ok(());
        }
        Err(FsError::Lease(LeaseRefusal::AlreadyPresent))
    }

    async fn act(&self, target: &Target, action: LeaseAction) -> Result<()> {
        let engine = &self.engine;
        let held = target.found.blob.as_ref().and_then(|blob| blob.lease.holder(now()));
        let is_own = |id| match target.asked {
            Some(_) => engine.leases.id(target.ino).is_some(),
            None => engine.is_own_lease(target.ino, id),
        };
        if action == LeaseAction::Break && held.is_some_and(is_own) {
            // A program's: it is not there for callers.
            return Err(FsError::Lease(LeaseRefusal::NotPresentWithLeaseOperation));
        }
        let store = engine.upstream().map_or_else(|| Arc::clone(&engine.store), |there| there.service());
        let place = engine.lease_place(&target.at)?;
        match store.lease_blob(&place, action.into(), &Preconditions::default()).await {
            Ok(_) => Ok(()),
            // What the service has not got yet cannot be leased there.
            Err(StoreError::BlobNotFound(_)) if target.asked.is_some() => Err(FsError::Stale),
            Err(StoreError::Lease(refusal)) => Err(FsError::Lease(refusal)),
            Err(error) => Err(error.into()),
        }
    }
}
