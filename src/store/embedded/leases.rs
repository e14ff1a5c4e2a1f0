//! Lease actions. They change the lease in the record and nothing else.
//!
//! What a durable user waits for depends on the action: see [`Promise`] and `laxity`.

use std::sync::Arc;

use crate::share::Moment;
use crate::share::lease::{Lease, LeaseId};
use crate::store::conditions::{Presence, WriteKind, judge_write};
use crate::store::{
    BlobPath, ContainerName, ETag, LeaseReport, LeaseRequest, Preconditions, Result, StoreError,
};

use super::containers::judge_container;
use super::record::ContainerRecord;
use super::tx::{Tx, changed, points};
use super::{EmbeddedStore, Growth};

/// What the answer of a lease action promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// It survives a power loss.
    Disk,
    /// It survives the death of the process. After a power loss it is as if the holder had renewed.
    System,
}

impl Promise {
    fn of(before: &Lease, request: LeaseRequest) -> Self {
        match request {
            LeaseRequest::Renew { .. } | LeaseRequest::Release { .. } if before.is_timed() => Promise::System,
            // Nothing ends an endless lease but this, and what others were told of a lease must stay so.
            LeaseRequest::Renew { .. }
            | LeaseRequest::Release { .. }
            | LeaseRequest::Acquire { .. }
            | LeaseRequest::Change { .. }
            | LeaseRequest::Break { .. } => Promise::Disk,
        }
    }
}

/// Applies one action; answers the id and the seconds left.
fn apply(lease: &mut Lease, now: Moment, request: LeaseRequest) -> Result<(Option<LeaseId>, Option<u64>)> {
    Ok(match request {
        LeaseRequest::Acquire { proposed, duration } => (Some(lease.acquire(now, proposed, duration)?), None),
        LeaseRequest::Renew { id } => (Some(lease.renew(now, id)?), None),
        LeaseRequest::Change { id, proposed } => (Some(lease.change(now, id, proposed)?), None),
        LeaseRequest::Release { id } => {
            lease.release(now, id)?;
            (None, None)
        }
        LeaseRequest::Break { period } => (None, Some(lease.break_(now, period)?)),
    })
}

impl EmbeddedStore {
    pub(super) fn blob_lease(
        &self,
        at: &BlobPath,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<(LeaseReport, Promise)> {
        self.write(Growth::Frees, points!("lease"), |tx| {
            let root = tx.changeable(&at.container)?.root;
            let missing = || StoreError::BlobNotFound(at.to_string());
            let spot = tx.locate(root, at.name.as_str())?;
            let found = match &spot {
                Some(spot) => tx.presence(spot, root, at)?,
                None => self.staged_presence(root, at)?,
            };
            let judged = judge_write(&conditions.without_lease(), tx.now, WriteKind::Keep, &found);
            judged.map_err(|refusal| refusal.about(at))?;
            let (mut lease, etag, modified) = match &found {
                Presence::Missing => return Err(missing()),
                Presence::Reserved(lease) => (*lease, ETag(0), tx.now),
                Presence::Present(subject) => (subject.lease, subject.etag, subject.modified),
            };
            let promise = self.promise(&lease, request, tx)?;
            let (id, seconds_left) = apply(&mut lease, tx.now, request)?;
            match (spot, found) {
                (Some(spot), Presence::Present(_)) => {
                    let entry = tx.slot(&spot).blob.clone().ok_or_else(missing)?;
                    tx.put_blob(&spot, Arc::new(changed(&entry, |blob| blob.lease = lease)));
                }
                _ => tx.set_staged_lease(root, at, lease)?,
            }
            Ok((LeaseReport { etag, modified, id, seconds_left }, promise))
        })
    }

    pub(super) fn container_lease(
        &self,
        name: &ContainerName,
        request: LeaseRequest,
        conditions: &Preconditions,
    ) -> Result<(LeaseReport, Promise)> {
        self.write(Growth::Frees, points!("lease_container"), |tx| {
            let mut record = ContainerRecord::clone(&*tx.changeable(name)?);
            judge_container(conditions, tx.now, name, &record)?;
            let promise = self.promise(&record.lease, request, tx)?;
            let (id, seconds_left) = apply(&mut record.lease, tx.now, request)?;
            let report = LeaseReport { etag: record.etag, modified: record.modified, id, seconds_left };
            tx.set_container(name, Some(record))?;
            Ok((report, promise))
        })
    }

    /// What the answer will promise; what that needs goes with the change.
    fn promise(&self, before: &Lease, request: LeaseRequest, tx: &mut Tx<'_>) -> Result<Promise> {
        let promise = Promise::of(before, request);
        if self.durable && promise == Promise::System {
            self.laxity.note(&mut tx.batch)?;
        }
        Ok(promise)
    }

    /// The answer of a lease action, once it is as durable as this user wants it.
    pub(super) async fn answer_lease(&self, done: Result<(LeaseReport, Promise)>) -> Result<LeaseReport> {
        let (report, promise) = done?;
        match promise {
            Promise::System if self.laxity.allowed() => {}
            Promise::System => {
                self.make_durable().await?;
                if self.durable {
                    self.laxity.is_noted();
                }
            }
            Promise::Disk => self.make_durable().await?,
        }
        Ok(report)
    }
}
