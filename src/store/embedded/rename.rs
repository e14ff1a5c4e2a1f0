//! Renaming blobs and whole prefixes in one step.

use crate::store::{BlobPath, RenameMode, Result, StoreError};

use super::tx::{Spot, Tx, changed, points};
use super::{EmbeddedStore, Growth};

impl EmbeddedStore {
    pub(super) fn blob_rename(&self, from: &BlobPath, to: &BlobPath, mode: RenameMode) -> Result<()> {
        let inside = |outer: &BlobPath, inner: &BlobPath| {
            let rest = inner.name.as_str().strip_prefix(outer.name.as_str());
            outer.container == inner.container && rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if inside(from, to) || (mode == RenameMode::Exchange && inside(to, from)) {
            return Err(invalid(from, to));
        }
        self.write(Growth::Adds, points!("rename"), |tx| {
            let from_root = tx.changeable(&from.container)?.root;
            let to_root = tx.changeable(&to.container)?.root;
            let missing = |path: &BlobPath| StoreError::BlobNotFound(path.to_string());
            let source = tx.locate(from_root, from.name.as_str())?.ok_or_else(|| missing(from))?;
            if tx.slot(&source).is_empty() {
                return Err(missing(from));
            }
            if from == to {
                return if mode == RenameMode::NoReplace {
                    Err(StoreError::BlobExists(to.to_string()))
                } else {
                    Ok(())
                };
            }
            if mode == RenameMode::Exchange {
                let target = tx.locate(to_root, to.name.as_str())?.ok_or_else(|| missing(to))?;
                if tx.slot(&target).is_empty() {
                    return Err(missing(to));
                }
                tx.swap_slots(&source, &target);
                return Ok(());
            }
            let target = tx.locate_or_make(to_root, to.name.as_str())?;
            if mode == RenameMode::NoReplace && !tx.slot(&target).is_empty() {
                return Err(StoreError::BlobExists(to.to_string()));
            }
            if tx.slot(&target).prefix.is_some() {
                return Err(invalid(from, to));
            }
            tx.swap_slots(&source, &target);
            tx.drop_replaced(&source, &target)?;
            tx.drop_staged(to_root, to)
        })
    }
}

impl Tx<'_> {
    /// After the swap: what was at the target goes, except its snapshots, which belong to the name.
    fn drop_replaced(&mut self, source: &Spot, target: &Spot) -> Result<()> {
        let Some(replaced) = self.take_slot(source).blob else { return Ok(()) };
        self.drop_entry(&replaced)?;
        if replaced.snapshots == 0 {
            return Ok(());
        }
        match self.slot(target).blob.clone() {
            Some(blob) => {
                self.move_snapshots(replaced.properties.id, blob.properties.id)?;
                let mut entry = changed(&blob, |_| {});
                entry.snapshots += replaced.snapshots;
                self.put_blob(target, std::sync::Arc::new(entry));
                Ok(())
            }
            None => self.drop_snapshots(replaced.properties.id),
        }
    }
}

fn invalid(from: &BlobPath, to: &BlobPath) -> StoreError {
    StoreError::InvalidRename { from: from.to_string(), to: to.to_string() }
}
