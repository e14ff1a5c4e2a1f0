//! Deleting containers: the name goes at once, the blobs follow in the background.

use crate::store::{ContainerName, DeleteSnapshots, Preconditions, Result, StoreError};

use super::blocks::{is_staging_key, staging_prefix};
use super::containers::judge_container;
use super::kv::Space;
use super::names::end_key;
use super::record::{ContainerRecord, Entry, Prefix, StagedBlock, decode};
use super::tx::{Tx, points};
use super::{EmbeddedStore, Growth};

/// First byte of the keys.
pub(super) const TRASH_TAG: u8 = b't';

/// Records removed in one batch.
const PURGE_STEP: usize = 512;

pub(super) fn trash_key(number: u64) -> Vec<u8> {
    let mut key = vec![TRASH_TAG];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

impl EmbeddedStore {
    /// Deletes a container; `snapshots` says what becomes of its snapshots.
    pub(super) fn container_delete(
        &self,
        name: &ContainerName,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.write(Growth::Frees, points!("delete_container"), |tx| {
            let record = tx.changeable(name)?;
            record.lease.check_container_delete(tx.now, conditions.lease)?;
            judge_container(conditions, tx.now, name, &record)?;
            let taken = self.share_snapshots(name)?;
            match snapshots {
                DeleteSnapshots::Refuse if !taken.is_empty() => {
                    return Err(StoreError::SnapshotsPresent(name.to_string()));
                }
                DeleteSnapshots::Refuse => {}
                DeleteSnapshots::Include | DeleteSnapshots::Only => {
                    taken.iter().try_for_each(|(snapshot, record)| {
                        tx.discard_container(&name.at_snapshot(*snapshot), record)
                    })?;
                }
            }
            if snapshots == DeleteSnapshots::Only { Ok(()) } else { tx.discard_container(name, &record) }
        })?;
        self.files.wake();
        Ok(())
    }

    /// Removes some of what deleted containers left; `false` if there is nothing left.
    pub(super) fn purge_some(&self) -> Result<bool> {
        if self.kv.view()?.prefix(Space::Misc, &[TRASH_TAG]).next().is_none() {
            return Ok(false);
        }
        self.write(Growth::Frees, points!("purge"), |tx| {
            // Looked at under the writer: a tree that is being made counts as trash until it is finished.
            let view = self.kv.view()?;
            let Some(first) = view.prefix(Space::Misc, &[TRASH_TAG]).next() else { return Ok(()) };
            let trash = first?.0;
            let number = trash.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let number = number.ok_or_else(|| StoreError::Damaged("a trash key is too short".into()))?;
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

impl Tx<'_> {
    /// Takes a container, or a snapshot of one, out of the index and leaves what is in it to the keeper.
    pub(super) fn discard_container(&mut self, name: &ContainerName, record: &ContainerRecord) -> Result<()> {
        self.batch.put(Space::Misc, trash_key(record.root), Vec::new());
        self.set_container(name, None)
    }
}
