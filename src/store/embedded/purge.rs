//! Deleting containers: the name goes at once, the blobs follow in the background.

use crate::store::{ContainerName, DeleteSnapshots, Preconditions, Result, StoreError};

use super::blocks::{is_staging_key, staging_prefix};
use super::containers::judge_container;
use super::kv::{Space, View};
use super::names::end_key;
use super::record::{ContainerRecord, Entry, Prefix, StagedBlock, decode};
use super::tx::{Tx, points};
use super::{EmbeddedStore, Growth};

/// First byte of the keys.
pub(super) const TRASH_TAG: u8 = b't';

/// Behind all keys.
const TRASH_END: [u8; 1] = [TRASH_TAG + 1];

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

    /// Removes some of what deleted containers left, from where the last step got to; `false` if there is nothing left.
    pub(super) fn purge_some(&self, from: &mut Purged) -> Result<bool> {
        if self.kv.view()?.range(Space::Misc, &trash_key(from.tree), Some(&TRASH_END)).next().is_none() {
            // Trees with lower numbers may have come meanwhile.
            let all = from.tree == 0;
            *from = Purged::default();
            return Ok(!all);
        }
        *from = self.write(Growth::Frees, points!("purge"), |tx| tx.purge_step(from.clone()))?;
        Ok(true)
    }
}

/// How far the emptying of deleted containers has got.
///
/// What was removed is still in the way of whoever reads from the front, so each step goes on where the last one ended.
/// Nothing is ever put into a deleted tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Purged {
    /// The deleted tree that is being emptied; those with lower numbers have their turn after the highest.
    tree: u64,
    /// The last of its names that was removed.
    name: Option<Vec<u8>>,
    /// The last of its staged blocks that was removed.
    block: Option<Vec<u8>>,
}

impl Tx<'_> {
    /// Takes a container, or a snapshot of one, out of the index and leaves what is in it to the keeper.
    pub(super) fn discard_container(&mut self, name: &ContainerName, record: &ContainerRecord) -> Result<()> {
        self.batch.put(Space::Misc, trash_key(record.root), Vec::new());
        self.set_container(name, None)
    }

    /// One step: some records of one deleted tree, or of several small ones.
    fn purge_step(&mut self, mut at: Purged) -> Result<Purged> {
        // Looked at under the writer: a tree that is being made counts as trash until it is finished.
        let view = self.store.kv.view()?;
        let mut left = PURGE_STEP;
        for pair in view.range(Space::Misc, &trash_key(at.tree), Some(&TRASH_END)) {
            let trash = pair?.0;
            let number = trash.last_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let number = number.ok_or_else(|| StoreError::Damaged("a trash key is too short".into()))?;
            if number != at.tree {
                at = Purged { tree: number, ..Purged::default() };
            }
            self.purge_names(&view, &mut at, &mut left)?;
            self.purge_blocks(&view, &mut at, &mut left)?;
            if left == 0 {
                break;
            }
            left -= 1;
            self.batch.remove(Space::Misc, &*trash);
        }
        Ok(at)
    }

    fn purge_names(&mut self, view: &View, at: &mut Purged, left: &mut usize) -> Result<()> {
        let from = at.name.clone().map_or_else(|| at.tree.to_be_bytes().to_vec(), after);
        for pair in view.range(Space::Names, &from, Some(&end_key(at.tree))).take(*left) {
            let (key, value) = pair?;
            if key.last() == Some(&b'/') && key.len() > 8 {
                let prefix: Prefix = decode(&value, "a prefix node")?;
                self.batch.put(Space::Misc, trash_key(prefix.id), Vec::new());
            } else {
                let entry = Entry::decode(&value)?;
                self.drop_entry(&entry)?;
                if entry.snapshots > 0 {
                    self.drop_snapshots(entry.properties.id)?;
                }
            }
            self.batch.remove(Space::Names, &*key);
            at.name = Some(key.to_vec());
            *left -= 1;
        }
        Ok(())
    }

    fn purge_blocks(&mut self, view: &View, at: &mut Purged, left: &mut usize) -> Result<()> {
        let from = at.block.clone().map_or_else(|| staging_prefix(at.tree), after);
        for pair in view.range(Space::Misc, &from, Some(&staging_prefix(at.tree + 1))).take(*left) {
            let (key, value) = pair?;
            if !is_staging_key(&key) {
                let block: StagedBlock = decode(&value, "a staged block")?;
                self.drop_content(&block.content)?;
            }
            self.batch.remove(Space::Misc, &*key);
            at.block = Some(key.to_vec());
            *left -= 1;
        }
        Ok(())
    }
}

/// The key right behind another.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
