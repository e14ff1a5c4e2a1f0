//! Containers.

use std::sync::Arc;

use crate::share::lease::LeaseId;
use crate::store::conditions::{Presence, Subject, WriteKind, judge_write};
use crate::store::{
    ContainerAcl, ContainerName, ContainerProperties, Metadata, Preconditions, PublicAccess, Result,
    StoreError,
};

use super::cache::Look;
use super::kv::Space;
use super::record::{ContainerRecord, decode};
use super::share_snapshots::SHARE_SNAPSHOT_TAG;
use super::tx::points;
use super::{EmbeddedStore, Growth};

/// First byte of the keys.
pub(super) const CONTAINER_TAG: u8 = b'c';

/// Where a container's record is. Snapshots are kept apart, so that no listing of containers meets them.
pub(super) fn container_key(name: &ContainerName) -> Vec<u8> {
    let tag = if name.is_snapshot() { SHARE_SNAPSHOT_TAG } else { CONTAINER_TAG };
    tagged_key(tag, name.as_str())
}

pub(super) fn tagged_key(tag: u8, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(tag);
    key.extend_from_slice(name.as_bytes());
    key
}

pub(super) fn properties(name: &ContainerName, record: &ContainerRecord) -> ContainerProperties {
    ContainerProperties {
        name: name.clone(),
        id: record.root,
        etag: record.etag,
        modified: record.modified,
        metadata: record.metadata.clone(),
        acl: record.acl.clone(),
        lease: record.lease,
    }
}

impl EmbeddedStore {
    /// The container's record, if there is one.
    pub(super) fn find_container(&self, name: &ContainerName) -> Result<Option<Arc<ContainerRecord>>> {
        let key = name.as_str().as_bytes();
        let ticket = match self.containers.look(key) {
            Look::Known(record) => return Ok(record),
            Look::Unknown(ticket) => ticket,
        };
        let value = self.kv.get(Space::Misc, &container_key(name))?;
        let record = value.map(|value| decode(&value, "a container record").map(Arc::new)).transpose()?;
        self.containers.fill(key, record.clone(), ticket);
        Ok(record)
    }

    /// The container's record.
    pub(super) fn container(&self, name: &ContainerName) -> Result<Arc<ContainerRecord>> {
        self.find_container(name)?.ok_or_else(|| StoreError::ContainerNotFound(name.to_string()))
    }

    pub(super) fn container_create(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        access: PublicAccess,
    ) -> Result<ContainerProperties> {
        self.write(Growth::Adds, points!("create_container"), |tx| {
            if self.find_container(name)?.is_some() {
                return Err(StoreError::ContainerExists(name.to_string()));
            }
            let record = ContainerRecord {
                root: tx.number()?,
                etag: tx.etag()?,
                modified: tx.now,
                metadata,
                acl: ContainerAcl { access, policies: Vec::new() },
                lease: Default::default(),
            };
            let answer = properties(name, &record);
            tx.set_container(name, Some(record))?;
            Ok(answer)
        })
    }

    pub(super) fn container_read(
        &self,
        name: &ContainerName,
        lease: Option<LeaseId>,
    ) -> Result<ContainerProperties> {
        let record = self.container(name)?;
        record.lease.check_container_use((self.clock)(), lease)?;
        Ok(properties(name, &record))
    }

    pub(super) fn container_set_metadata(
        &self,
        name: &ContainerName,
        metadata: Metadata,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        self.write(Growth::Adds, points!("set_container_metadata"), |tx| {
            let mut record = ContainerRecord::clone(&*tx.changeable(name)?);
            record.lease.check_container_use(tx.now, conditions.lease)?;
            judge_container(conditions, tx.now, name, &record)?;
            record.etag = tx.etag()?;
            record.modified = tx.now;
            record.metadata = metadata;
            let answer = properties(name, &record);
            tx.set_container(name, Some(record))?;
            Ok(answer)
        })
    }

    pub(super) fn container_list(
        &self,
        prefix: &str,
        marker: Option<&str>,
        max: usize,
    ) -> Result<(Vec<ContainerProperties>, Option<String>)> {
        let view = self.kv.view()?;
        let from = tagged_key(CONTAINER_TAG, marker.map_or(prefix, |marker| marker.max(prefix)));
        let mut found = Vec::new();
        for pair in view.range(Space::Misc, &from, Some(&[CONTAINER_TAG + 1])) {
            let (key, value) = pair?;
            let name = std::str::from_utf8(&key[1..]).unwrap_or_default();
            if !name.starts_with(prefix) {
                break;
            }
            if found.len() == max {
                return Ok((found, Some(name.to_owned())));
            }
            let name = ContainerName::new(name)?;
            found.push(properties(&name, &decode(&value, "a container record")?));
        }
        Ok((found, None))
    }
}

/// Date and ETag conditions on a container; its lease is judged before, with the container's own words.
pub(super) fn judge_container(
    conditions: &Preconditions,
    now: crate::share::Moment,
    name: &ContainerName,
    record: &ContainerRecord,
) -> Result<()> {
    let subject = Subject {
        etag: record.etag,
        modified: record.modified,
        lease: Default::default(),
        tags: Default::default(),
    };
    judge_write(&conditions.without_lease(), now, WriteKind::Change, &Presence::Present(subject))
        .map_err(|refusal| refusal.about(name))
}
