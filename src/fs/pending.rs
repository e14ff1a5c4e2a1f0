//! Names of delete-pending files.
//!
//! The name of a pending file is hidden and taken until the last close. Each one also has a small blob below
//! `.leasefs/pending/`, so that the removal is finished at the next start should this process die.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::{
    BlobName, BlobPath, DeleteSnapshots, ListItem, ListQuery, NewContent, Preconditions, StoreError,
    crash_point,
};

use super::error::{FsError, Result};
use super::gate::{DeleteRule, Removal};
use super::guards::paths::Name;
use super::names::{RESERVED, Segment};
use super::nodes::{Ino, Nodes, PathHold, ROOT};
use super::place::Guarded;
use super::{Engine, now};

const PAGE: usize = 1000;

/// Between the names in a mark. No blob name contains it.
const NAME_END: &str = "\0";

/// The pending names of a share.
#[derive(Debug, Default)]
pub(super) struct PendingNames {
    names: Mutex<HashMap<(Ino, Segment), Pending>>,
    /// How many there are, to answer the usual "none" without the mutex.
    count: AtomicUsize,
}

/// A file that has such a name.
#[derive(Debug)]
struct Pending {
    ino: Ino,
    /// The numbers that lead to it: whoever takes it away has to find it, also when the kernel forgot it.
    way: PathHold,
    /// Names that it may have at a service that was just moving it when the last engine died.
    perhaps_at: Vec<BlobName>,
}

impl PendingNames {
    fn insert(&self, nodes: &Nodes, (parent, segment): Name<'_>, ino: Ino, perhaps_at: Vec<BlobName>) {
        let mut names = self.names.lock();
        let pending = Pending { ino, way: nodes.hold_path(ino), perhaps_at };
        if let Some(before) = names.insert((parent, segment.clone()), pending) {
            nodes.unhold_path(before.way);
        }
        self.count.store(names.len(), Ordering::Release);
    }

    pub(super) fn remove(&self, nodes: &Nodes, parent: Ino, segment: &Segment) {
        let mut names = self.names.lock();
        if let Some(pending) = names.remove(&(parent, segment.clone())) {
            nodes.unhold_path(pending.way);
        }
        self.count.store(names.len(), Ordering::Release);
    }

    /// `moved` is elsewhere by now: what is pending below it has another way.
    fn follow_move(&self, nodes: &Nodes, moved: Ino) {
        for pending in self.names.lock().values_mut() {
            if nodes.is_within(pending.ino, moved) {
                let way = nodes.hold_path(pending.ino);
                nodes.unhold_path(std::mem::replace(&mut pending.way, way));
            }
        }
    }

    pub(super) fn get(&self, parent: Ino, segment: &Segment) -> Option<Ino> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.names.lock().get(&(parent, segment.clone())).map(|pending| pending.ino)
    }

    /// Pending files in the directory `parent`.
    pub(super) fn in_directory(&self, parent: Ino) -> Vec<(Segment, Ino)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let names = self.names.lock();
        names
            .iter()
            .filter(|((at, _), _)| *at == parent)
            .map(|((_, name), pending)| (name.clone(), pending.ino))
            .collect()
    }

    /// The names that `ino` may have at a service, if that is in doubt.
    fn perhaps_at(&self, ino: Ino) -> Vec<BlobName> {
        let names = self.names.lock();
        let pending = names.values().find(|pending| pending.ino == ino);
        pending.map(|pending| pending.perhaps_at.clone()).unwrap_or_default()
    }

    fn all(&self) -> Vec<Ino> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.names.lock().values().map(|pending| pending.ino).collect()
    }
}

/// What an engine that died left to remove.
struct OldRemove {
    mark: BlobPath,
    ino: Option<Ino>,
    names: Vec<BlobName>,
}

impl Engine {
    /// Refuses a name that a delete-pending file still has, after waiting for one that is really closed already.
    pub(super) async fn not_pending(&self, parent: Ino, segment: &Segment) -> Result<()> {
        if let Some(ino) = self.pending.get(parent, segment) {
            self.remove_again(ino).await;
        }
        match self.pending.get(parent, segment) {
            Some(ino) if self.gate.settle(ino).await => Err(FsError::DeletePending),
            // Settled: whoever closed it last is removing it, or has. Its name guard tells when that is done.
            Some(_) => {
                drop(self.guards.name(parent, segment).await);
                match self.pending.get(parent, segment) {
                    Some(_) => Err(FsError::DeletePending),
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    /// Tries again to take away what could not be taken away at its last close.
    async fn remove_again(&self, ino: Ino) {
        let Some(permit) = self.gate.remove_again(ino) else { return };
        let perhaps_at = self.pending.perhaps_at(ino);
        let removed = if perhaps_at.is_empty() {
            self.finish_remove(ino, permit).await
        } else {
            self.remove_wherever(ino, perhaps_at).await.map(|()| permit.confirm())
        };
        if let Err(error) = removed {
            tracing::debug!(ino = ino.0, %error, "a removed file still cannot be taken away");
        }
    }

    /// Takes away a file whose name at the service is in doubt: what has its name there may be another's.
    async fn remove_wherever(&self, ino: Ino, mut names: Vec<BlobName>) -> Result<()> {
        let Some(Guarded { at, parent, segment, .. }) = &self.guard_name(ino).await? else { return Ok(()) };
        if !names.contains(&at.name) {
            names.push(at.name.clone());
        }
        let found = self.local()?.find(at)?;
        self.finish_old_remove(&OldRemove { mark: self.mark(ino)?, ino: Some(ino), names }).await?;
        self.pending.remove(&self.nodes, *parent, segment);
        self.lose_name(ino, &found);
        Ok(())
    }

    /// The same for all of them.
    pub async fn finish_removes(&self) {
        for ino in self.pending.all() {
            self.remove_again(ino).await;
        }
    }

    pub(super) fn mark(&self, ino: Ino) -> Result<BlobPath> {
        let name = format!("{RESERVED}/pending/{:016x}", ino.0);
        Ok(self.at(BlobName::new(name).map_err(|_| FsError::NameTooLong)?))
    }

    /// Hides the name and notes in the store that it must go.
    pub(super) async fn note_pending(&self, parent: Ino, segment: &Segment, ino: Ino) -> Result<()> {
        let name = self.nodes.child_name(parent, segment)?;
        self.write_mark(ino, &[name])?;
        crash_point("unlink_after_mark");
        self.pending.insert(&self.nodes, (parent, segment), ino, Vec::new());
        Ok(())
    }

    /// More than one name for a file that is just being moved with its directory: it has one of them.
    pub(super) fn write_mark(&self, ino: Ino, names: &[BlobName]) -> Result<()> {
        let names: Vec<&str> = names.iter().map(BlobName::as_str).collect();
        let body = Bytes::from(names.join(NAME_END));
        let always = Preconditions::default();
        self.local()?.put_before_removal(&self.mark(ino)?, body, NewContent::default(), &always)?;
        Ok(())
    }

    /// The pending file is gone: forget its mark.
    pub(super) async fn forget_pending(&self, parent: Ino, segment: &Segment, ino: Ino) -> Result<()> {
        self.pending.remove(&self.nodes, parent, segment);
        let always = Preconditions::default();
        match self.store.delete_blob(&self.mark(ino)?, DeleteSnapshots::Include, &always).await {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes in the marks that `from` and all below it is going to be at `to`, so that a crash right after the move
    /// does not bring back what was removed. For whoever moves it.
    pub(super) async fn announce_move(&self, from: &BlobPath, to: &BlobPath) -> Result<()> {
        for ino in self.pending.all() {
            // What is elsewhere may lose its name at any moment.
            let Ok(Some(name)) = self.nodes.blob_name(ino) else { continue };
            let below = name.as_str().strip_prefix(from.name.as_str()).filter(|rest| rest.starts_with('/'));
            if let Some(below) = below {
                let moved = BlobName::new(format!("{}{below}", to.name)).map_err(|_| FsError::NameTooLong)?;
                self.write_mark(ino, &[name, moved])?;
            }
        }
        Ok(())
    }

    /// Writes the marks again after a directory above some of them was renamed. For whoever moved it.
    pub(super) async fn rewrite_marks(&self, directory: Ino) -> Result<()> {
        self.pending.follow_move(&self.nodes, directory);
        for ino in self.pending.all() {
            if self.nodes.is_within(ino, directory)
                && let Some(name) = self.nodes.blob_name(ino)?
            {
                self.write_mark(ino, &[name])?;
            }
        }
        Ok(())
    }

    /// Finishes what was pending when the last engine died: a dead engine has closed everything. What cannot be taken
    /// away now (somebody leased it) stays pending, and is in nobody's way.
    pub(super) async fn finish_old_removes(&self) -> Result<()> {
        let mut query =
            ListQuery { prefix: format!("{RESERVED}/pending/"), max: PAGE, ..ListQuery::default() };
        loop {
            let page = self.store.list_blobs(&self.share, &query).await?;
            for item in page.items {
                if let ListItem::Blob { name, .. } = item {
                    let old = self.old_remove(&name).await?;
                    if let Err(error) = self.finish_old_remove(&old).await {
                        tracing::warn!(mark = %old.mark, %error, "a removed file could not be taken away yet");
                        self.stay_pending(&old).await?;
                    }
                }
            }
            match page.next {
                Some(next) => query.marker = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Reads a mark.
    async fn old_remove(&self, mark: &str) -> Result<OldRemove> {
        let always = Preconditions::default();
        let mark_at = self.at(BlobName::new(mark).map_err(|_| FsError::NameTooLong)?);
        let body = self.store.get_blob(&mark_at, None, None, &always).await?.body;
        let ino = mark.rsplit('/').next().and_then(|hex| u64::from_str_radix(hex, 16).ok()).map(Ino);
        let names = std::str::from_utf8(&body).unwrap_or_default().split(NAME_END);
        let names = names.filter_map(|name| BlobName::new(name).ok()).collect();
        Ok(OldRemove { mark: mark_at, ino, names })
    }

    /// Makes a file of an earlier engine one that this engine could not take away.
    async fn stay_pending(&self, OldRemove { ino, names, .. }: &OldRemove) -> Result<()> {
        let Some(ino) = *ino else { return Ok(()) };
        // A crash while it was moved left two names, of which it has one.
        for name in names {
            let found = self.local()?.find(&self.at(name.clone()))?;
            if found.blob.is_some_and(|blob| Ino::of(blob.id) == ino) {
                let in_doubt = self.upstream().is_some() && names.len() > 1;
                let perhaps_at = if in_doubt { names.clone() } else { Vec::new() };
                return self.stay_pending_at(ino, name, perhaps_at).await;
            }
        }
        Ok(())
    }

    async fn stay_pending_at(&self, ino: Ino, name: &BlobName, perhaps_at: Vec<BlobName>) -> Result<()> {
        let (mut at, mut way) = (String::new(), vec![ROOT]);
        let mut last = (ROOT, Segment::from_stored(""));
        for segment in name.as_str().split('/') {
            at.push_str(segment);
            let found =
                self.local()?.find(&self.at(BlobName::new(&*at).map_err(|_| FsError::NameTooLong)?))?;
            let Some(id) = found.id() else { break };
            last = (*way.last().unwrap_or(&ROOT), Segment::from_stored(segment));
            self.nodes.remember(Ino::of(id), last.0, &last.1);
            way.push(Ino::of(id));
            at.push('/');
        }
        if way.last() == Some(&ino)
            && let Removal::Now(permit) = self.gate.remove(ino, DeleteRule::Smb).await?
        {
            self.pending.insert(&self.nodes, (last.0, &last.1), ino, perhaps_at);
            permit.keep();
        }
        way.iter().skip(1).for_each(|ino| self.nodes.forget(*ino, 1));
        Ok(())
    }

    async fn finish_old_remove(&self, OldRemove { mark, ino, names }: &OldRemove) -> Result<()> {
        let always = Preconditions::default();
        for name in names {
            let at = self.at(name.clone());
            let found = self.local()?.find(&at)?;
            if found.blob.as_ref().is_some_and(|blob| Some(Ino::of(blob.id)) == *ino) {
                let deleted = match self.upstream() {
                    // A rename that died with the engine may have moved it there, and not here: what is there under
                    // its name is another's then.
                    Some(upstream) => {
                        let _settling = upstream.remove_moved(name, names).await?;
                        let deleted = self.store.delete_blob(&at, DeleteSnapshots::Include, &always).await;
                        deleted.map_err(FsError::from)
                    }
                    None => self.delete_blob(&at, &found).await,
                };
                match deleted {
                    // The mirror, which finishes what it had begun at the same time, was faster.
                    Ok(()) | Err(FsError::NotFound) => {}
                    Err(error) => return Err(error),
                }
                crash_point("finish_old_remove_after_delete");
                tracing::info!(blob = %at, started = now().0, "finished a pending remove");
            }
        }
        self.store.delete_blob(mark, DeleteSnapshots::Include, &always).await?;
        Ok(())
    }
}
