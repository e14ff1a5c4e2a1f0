//! Who may use a container, and the settings of the whole service.

use bytes::Bytes;

use crate::store::{
    ContainerAcl, ContainerName, ContainerProperties, Limit, POLICIES_MAX, Preconditions, Result, StoreError,
};

use super::containers::{judge_container, properties};
use super::kv::Space;
use super::record::ContainerRecord;
use super::tx::points;
use super::{EmbeddedStore, Growth};

/// Where the document of the service's settings is.
pub(super) const SERVICE_KEY: &[u8] = b"m.service";

/// Where the document of the settings of all shares is.
const SHARES_KEY: &[u8] = b"m.shares";

const SERVICE_BYTES_MAX: usize = 64 << 10;

impl EmbeddedStore {
    pub(super) fn container_set_acl(
        &self,
        name: &ContainerName,
        acl: ContainerAcl,
        conditions: &Preconditions,
    ) -> Result<ContainerProperties> {
        if acl.policies.len() > POLICIES_MAX {
            return Err(StoreError::LimitExceeded(Limit::Policies));
        }
        self.write(Growth::Adds, points!("set_acl"), |tx| {
            let mut record = ContainerRecord::clone(&*tx.changeable(name)?);
            record.lease.check_container_use(tx.now, conditions.lease)?;
            judge_container(conditions, tx.now, name, &record)?;
            record.etag = tx.etag()?;
            record.modified = tx.now;
            record.acl = acl;
            let answer = properties(name, &record);
            tx.set_container(name, Some(record))?;
            Ok(answer)
        })
    }

    pub(super) fn service_read(&self) -> Result<Option<Bytes>> {
        Ok(self.kv.get(Space::Misc, SERVICE_KEY)?.map(Bytes::from))
    }

    pub(super) fn service_set(&self, document: &Bytes) -> Result<()> {
        self.document_set(SERVICE_KEY, document)
    }

    pub(super) fn shares_read(&self) -> Result<Option<Bytes>> {
        Ok(self.kv.get(Space::Misc, SHARES_KEY)?.map(Bytes::from))
    }

    pub(super) fn shares_set(&self, document: &Bytes) -> Result<()> {
        self.document_set(SHARES_KEY, document)
    }

    fn document_set(&self, key: &'static [u8], document: &Bytes) -> Result<()> {
        if document.len() > SERVICE_BYTES_MAX {
            return Err(StoreError::LimitExceeded(Limit::ServiceProperties));
        }
        self.write(Growth::Adds, points!("set_service"), |tx| {
            tx.batch.put(Space::Misc, key, document.to_vec());
            Ok(())
        })
    }
}
