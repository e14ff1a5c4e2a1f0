//! Deleting containers: the name goes at once, the blobs follow in the background.

use crate::store::{ContainerName, Preconditions, Result, StoreError};

use super::blocks::{is_staging_key, staging_prefix};
use super::containers::judge_container;
use super::kv::Space;
use super::names::end_key;
use super::record::{Entry, Prefix, StagedBlock, decode};
use super::tx::points;
use super::{EmbeddedStore, Growth};

/// First byte of the keys.
pub(super) const TRASH_TAG: u8 = b't';

/// Records removed in one batch.
const PURGE_STEP: usize = 512;

fn trash_key(number: u64) -> Vec<u8> {
    let mut key = vec![TRASH_TAG];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

impl EmbeddedStore {
    pub(super) fn container_delete(&self, name: &ContainerName, conditions: &Preconditions) -> Result<()> {
        self.write(Growth::Frees, points!("delete_container"), |tx| {
            let record = self.container(name)?;
            record.lease.check_container_delete(tx.now, conditions.lease)?;
            judge_container(conditions, tx.now, name, &record)?;
            tx.batch.put(Space::Misc, trash_key(record.root), Vec::new());
            tx.set_container(name, None)
        })?;
        self.files.wake();
        Ok(())
    }

    /// Removes some of what deleted containers left; `false` if there is nothing left.
    pub(super) fn purge_some(&self) -> Result<bool> {
        let view = self.kv.view()?;
        let Some(first) = view.prefix(Space::Misc, &[TRASH_TAG]).next() else { return Ok(false) };
        let trash = first?.0;
        let number = trash.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let number = number.ok_or_else(|| StoreError::Damaged("a trash key is too short".into()))?;
        self.write(Growth::Frees, points!("purge"), |tx| {
            let mut done = 0;
            for pair in view.range(Space::Names, &number.to_be_bytes(), Some(&end_key(number))) {
                let (key, value) = pair?;
                if key.last() == Some(&b'/') && key.len() > 8 {
                    let prefix: Prefix = decode(&value, "a prefix node")?;
                    tx.batch.put(Space::Misc, trash_key(prefix.id), Vec::new());
                } else {
                    let entry = Entry::decode(&value)?;
                    tx.drop_entry(&entry)?;
                    if entry.snapshots > 0 {
                        tx.drop_snapshots(entry.properties.id)?;
                    }
                }
                tx.batch.remove(Space::Names, &*key);
                done += 1;
                if done == PURGE_STEP {
                    return Ok(());
                }
            }
            for pair in view.prefix(Space::Misc, &staging_prefix(number)) {
                let (key, value) = pair?;
                if !is_staging_key(&key) {
                    let block: StagedBlock = decode(&value, "a staged block")?;
                    tx.drop_content(&block.content)?;
                }
                tx.batch.remove(Space::Misc, &*key);
                done += 1;
                if done == PURGE_STEP {
                    return Ok(());
                }
            }
            tx.batch.remove(Space::Misc, &*trash);
            Ok(())
        })?;
        Ok(true)
    }
}
