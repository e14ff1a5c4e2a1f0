//! Changing what is known of a blob: headers, size and sequence number, tier, tags.

use std::sync::Arc;

use crate::store::conditions::{Presence, WriteKind, judge_write};
use crate::store::{
    AccessTier, BlobKind, BlobPath, BlobProperties, BlobTier, Preconditions, PropertiesChange, Result,
    SnapshotId, StoreError, Tags,
};

use super::record::Entry;
use super::tx::{Spot, Tx, changed, points};
use super::{EmbeddedStore, Growth};

impl EmbeddedStore {
    pub(super) fn blob_set_properties(
        &self,
        at: &BlobPath,
        change: PropertiesChange,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let PropertiesChange { headers, size, sequence } = change;
        let set_headers = |blob: &mut BlobProperties| {
            if let Some((headers, content_md5)) = headers {
                (blob.headers, blob.content_md5) = (headers, content_md5);
            }
        };
        self.write(Growth::Adds, points!("set_headers"), |tx| {
            let (spot, entry) = tx.judged(at, conditions)?;
            if size.is_some() || sequence.is_some() {
                tx.change_pages(at, &spot, &entry, size, sequence, set_headers)
            } else {
                tx.put_changed(&spot, &entry, set_headers)
            }
        })
    }

    pub(super) fn blob_set_tier(
        &self,
        at: &BlobPath,
        snapshot: Option<SnapshotId>,
        tier: AccessTier,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.write(Growth::Adds, points!("set_tier"), |tx| {
            let now = tx.now;
            let set = |blob: &mut BlobProperties| {
                if blob.tier.is_none_or(|old| old.tier != tier) {
                    blob.tier = Some(BlobTier { tier, changed: Some(now) });
                }
            };
            let (spot, entry) = tx.judged(at, conditions)?;
            if entry.properties.kind != BlobKind::Block {
                return Err(StoreError::InvalidBlobType(at.to_string()));
            }
            match snapshot {
                None => Ok(tx.put_beside(&spot, &entry, set)),
                Some(snapshot) => tx.change_snapshot(at, &entry, snapshot, set),
            }
        })
    }

    pub(super) fn blob_set_tags(
        &self,
        at: &BlobPath,
        tags: Tags,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        self.write(Growth::Adds, points!("set_tags"), |tx| {
            let (spot, entry) = tx.judged(at, conditions)?;
            Ok(tx.put_beside(&spot, &entry, |blob| blob.tags = tags))
        })
    }
}

impl Tx<'_> {
    /// An existing blob, after the conditions of a change.
    pub(super) fn judged(&mut self, at: &BlobPath, conditions: &Preconditions) -> Result<(Spot, Arc<Entry>)> {
        let (spot, entry) = self.existing(at)?;
        let found = Presence::Present((&*entry.properties).into());
        judge_write(conditions, self.now, WriteKind::Change, &found).map_err(|refusal| refusal.about(at))?;
        Ok((spot, entry))
    }

    /// A new version with other properties.
    pub(super) fn put_changed(
        &mut self,
        spot: &Spot,
        entry: &Entry,
        change: impl FnOnce(&mut BlobProperties),
    ) -> Result<Arc<BlobProperties>> {
        let (etag, now) = (self.etag()?, self.now);
        let entry = changed(entry, |blob| {
            change(blob);
            blob.etag = etag;
            blob.modified = now;
            blob.lease.modified(now);
        });
        let answer = Arc::clone(&entry.properties);
        self.put_blob(spot, Arc::new(entry));
        Ok(answer)
    }

    /// The same version with other properties that the version tag does not cover.
    fn put_beside(
        &mut self,
        spot: &Spot,
        entry: &Entry,
        change: impl FnOnce(&mut BlobProperties),
    ) -> Arc<BlobProperties> {
        let now = self.now;
        let entry = changed(entry, |blob| {
            change(blob);
            blob.lease.modified(now);
        });
        let answer = Arc::clone(&entry.properties);
        self.put_blob(spot, Arc::new(entry));
        answer
    }
}
