//! Snapshots: versions that stay readable under the moment they were taken.
//!
//! They are stored under the blob's number, so a rename takes them along without touching them.

use std::sync::Arc;

use crate::share::Moment;
use crate::store::conditions::{Presence, WriteKind, judge_write};
use crate::store::{
    BlobPath, BlobProperties, CopySource, DeleteSnapshots, Metadata, Preconditions, Result, SnapshotId,
    StoreError,
};

use super::kv::{Space, View};
use super::record::Entry;
use super::tx::{Tx, changed, points};
use super::{EmbeddedStore, Growth};

/// First byte of the keys.
pub(super) const SNAPSHOT_TAG: u8 = b's';

/// Nanoseconds between two names of snapshots: the service writes seven digits after the second.
pub(super) const SNAPSHOT_STEP: i64 = 100;

fn snapshots_key(id: u64) -> Vec<u8> {
    let mut key = vec![SNAPSHOT_TAG];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

fn snapshot_key(id: u64, snapshot: SnapshotId) -> Vec<u8> {
    let mut key = snapshots_key(id);
    // The sign bit turned over, so that moments before 1970 sort first.
    key.extend_from_slice(&(snapshot.0.0 ^ i64::MIN).to_be_bytes());
    key
}

fn snapshot_of(key: &[u8]) -> Result<SnapshotId> {
    let bytes =
        key.last_chunk::<8>().ok_or_else(|| StoreError::Damaged("a snapshot key is too short".into()))?;
    Ok(SnapshotId(Moment(i64::from_be_bytes(*bytes) ^ i64::MIN)))
}

impl EmbeddedStore {
    pub(super) fn find_snapshot(&self, at: &BlobPath, snapshot: SnapshotId) -> Result<Option<Arc<Entry>>> {
        let Some(blob) = self.current(at)? else { return Ok(None) };
        let value = self.kv.get(Space::Misc, &snapshot_key(blob.properties.id, snapshot))?;
        value.map(|value| Entry::decode(&value).map(Arc::new)).transpose()
    }

    pub(super) fn blob_snapshot(
        &self,
        at: &BlobPath,
        metadata: Option<&Metadata>,
        conditions: &Preconditions,
    ) -> Result<(SnapshotId, Arc<BlobProperties>)> {
        let judge = |_: &Entry| Ok(());
        self.with_second(&CopySource::of(at), &judge, |entry, body| {
            self.write(Growth::Adds, points!("snapshot"), |tx| {
                let (spot, now) = tx.existing(at)?;
                let found = Presence::Present((&*now.properties).into());
                judge_write(conditions, tx.now, WriteKind::Keep, &found)
                    .map_err(|refusal| refusal.about(at))?;
                if now.content != entry.content {
                    return Ok(None);
                }
                let content = tx.place(body)?;
                let block_list = tx.second_block_list(&now)?;
                let id = now.properties.id;
                // As precise as it can be written in a URL, or nobody could name it.
                let mut snapshot = SnapshotId(Moment(tx.now.0 / SNAPSHOT_STEP * SNAPSHOT_STEP));
                while self.kv.get(Space::Misc, &snapshot_key(id, snapshot))?.is_some() {
                    snapshot = SnapshotId(Moment(snapshot.0.0 + SNAPSHOT_STEP));
                }
                let mut taken = changed(&now, |blob| {
                    blob.lease = Default::default();
                    if let Some(metadata) = metadata {
                        blob.metadata = metadata.clone();
                    }
                });
                (taken.content, taken.block_list, taken.snapshots) = (content, block_list, 0);
                tx.batch.put(Space::Misc, snapshot_key(id, snapshot), taken.encode()?);
                let mut base = Entry::clone(&now);
                base.snapshots += 1;
                tx.put_blob(&spot, Arc::new(base));
                Ok(Some((snapshot, taken.properties)))
            })
        })
    }

    /// Snapshots of the blob with this number from `from` on, oldest first.
    pub(super) fn snapshots_from<'v>(
        view: &'v View,
        id: u64,
        from: Option<SnapshotId>,
    ) -> impl Iterator<Item = Result<(SnapshotId, Arc<BlobProperties>)>> + use<'v> {
        let first = from.map_or_else(|| snapshots_key(id), |from| snapshot_key(id, from));
        view.range(Space::Misc, &first, Some(&snapshots_key(id + 1))).map(|pair| {
            let (key, value) = pair?;
            Ok((snapshot_of(&key)?, Entry::decode(&value)?.properties))
        })
    }

    pub(super) fn snapshot_list(&self, at: &BlobPath) -> Result<Vec<(SnapshotId, Arc<BlobProperties>)>> {
        let blob = self.current(at)?.ok_or_else(|| StoreError::BlobNotFound(at.to_string()))?;
        Self::snapshots_from(&self.kv.view()?, blob.properties.id, None).collect()
    }

    pub(super) fn snapshot_delete(
        &self,
        at: &BlobPath,
        snapshot: SnapshotId,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.write(Growth::Frees, points!("delete_snapshot"), |tx| {
            let (spot, entry) = tx.existing(at)?;
            let key = snapshot_key(entry.properties.id, snapshot);
            let value = self.kv.get(Space::Misc, &key)?;
            let value = value.ok_or_else(|| StoreError::BlobNotFound(format!("{at} (snapshot)")))?;
            let taken = Entry::decode(&value)?;
            let found = Presence::Present((&*taken.properties).into());
            judge_write(conditions, tx.now, WriteKind::Change, &found)
                .map_err(|refusal| refusal.about(at))?;
            tx.drop_entry(&taken)?;
            tx.batch.remove(Space::Misc, key);
            let mut base = Entry::clone(&entry);
            base.snapshots = base.snapshots.saturating_sub(1);
            tx.put_blob(&spot, Arc::new(base));
            Ok(())
        })
    }

    pub(super) fn blob_delete(
        &self,
        at: &BlobPath,
        snapshots: DeleteSnapshots,
        conditions: &Preconditions,
    ) -> Result<()> {
        self.write(Growth::Frees, points!("delete"), |tx| {
            let (spot, entry) = tx.existing(at)?;
            let found = Presence::Present((&*entry.properties).into());
            judge_write(conditions, tx.now, WriteKind::Change, &found)
                .map_err(|refusal| refusal.about(at))?;
            match snapshots {
                DeleteSnapshots::Refuse if entry.snapshots > 0 => {
                    return Err(StoreError::SnapshotsPresent(at.to_string()));
                }
                DeleteSnapshots::Refuse => {}
                DeleteSnapshots::Include | DeleteSnapshots::Only => tx.drop_snapshots(entry.properties.id)?,
            }
            if snapshots == DeleteSnapshots::Only {
                let mut base = Entry::clone(&entry);
                base.snapshots = 0;
                tx.put_blob(&spot, Arc::new(base));
                return Ok(());
            }
            let root = tx.changeable(&at.container)?.root;
            tx.take_blob(&spot);
            tx.drop_entry(&entry)?;
            tx.drop_staged(root, at)
        })
    }
}

impl Tx<'_> {
    /// Changes properties of a snapshot that its version tag does not cover.
    pub(super) fn change_snapshot(
        &mut self,
        at: &BlobPath,
        base: &Entry,
        snapshot: SnapshotId,
        change: impl FnOnce(&mut BlobProperties),
    ) -> Result<Arc<BlobProperties>> {
        let key = snapshot_key(base.properties.id, snapshot);
        let value = self.store.kv.get(Space::Misc, &key)?;
        let value = value.ok_or_else(|| StoreError::BlobNotFound(format!("{at} (snapshot)")))?;
        let taken = changed(&Entry::decode(&value)?, change);
        self.batch.put(Space::Misc, key, taken.encode()?);
        Ok(taken.properties)
    }

    /// Snapshots of a blob whose content is in this file, with their keys.
    pub(super) fn snapshots_on(&self, id: u64, file: u64) -> Result<Vec<(Vec<u8>, Entry)>> {
        let mut found = Vec::new();
        for pair in self.store.kv.view()?.prefix(Space::Misc, &snapshots_key(id)) {
            let (key, value) = pair?;
            let entry = Entry::decode(&value)?;
            if entry.content.files().contains(&file) {
                found.push((key.to_vec(), entry));
            }
        }
        Ok(found)
    }

    /// Removes all snapshots of a blob.
    pub(super) fn drop_snapshots(&mut self, id: u64) -> Result<()> {
        let view = self.store.kv.view()?;
        for pair in view.prefix(Space::Misc, &snapshots_key(id)) {
            let (key, value) = pair?;
            self.drop_entry(&Entry::decode(&value)?)?;
            self.batch.remove(Space::Misc, &*key);
        }
        Ok(())
    }

    /// Gives the snapshots of one blob to another.
    pub(super) fn move_snapshots(&mut self, from: u64, to: u64) -> Result<()> {
        let view = self.store.kv.view()?;
        for pair in view.prefix(Space::Misc, &snapshots_key(from)) {
            let (key, value) = pair?;
            let mut snapshot = snapshot_of(&key)?;
            while view.get(Space::Misc, &snapshot_key(to, snapshot))?.is_some() {
                snapshot = SnapshotId(Moment(snapshot.0.0 + 100));
            }
            self.batch.put(Space::Misc, snapshot_key(to, snapshot), &*value);
            self.batch.remove(Space::Misc, &*key);
        }
        Ok(())
    }
}
