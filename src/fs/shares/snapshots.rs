//! Snapshots of shares, and the list of shares with them.

use crate::share::lease::LeaseId;
use crate::store::{
    ContainerName, DeleteSnapshots, Limit, LocalStore, Metadata, Preconditions, SnapshotId, StoreError,
};

use super::super::error::{FsError, Result};
use super::super::requests::{Frozen, replace_callers_metadata};
use super::Shares;
use super::about::{ShareInfo, missing};

/// In a marker, before the snapshot with which a page begins. No share has it in its name.
const MARK: char = '@';

impl Shares {
    /// Keeps a share as it is now. Metadata that is given replaces the share's in the snapshot.
    pub async fn snapshot(
        &self,
        name: &ContainerName,
        metadata: Option<Metadata>,
    ) -> Result<(SnapshotId, ShareInfo)> {
        self.is_ours(name)?;
        let requests = self.open(name).await?;
        // What programs have written and not closed is in the snapshot, too.
        requests.engine().drain(&|_| {}).await?;
        let stored = match metadata {
            None => None,
            Some(given) => {
                let mut stored = self.store.container_properties(name, None).await.map_err(missing)?.metadata;
                replace_callers_metadata(&mut stored, &given);
                Some(stored)
            }
        };
        let (id, container) = self.local()?.snapshot_container(name, stored).await.map_err(of_snapshot)?;
        self.durable().await?;
        Ok((id, ShareInfo { snapshot: Some(id), ..ShareInfo::of(container) }))
    }

    /// Calls that read a snapshot.
    pub async fn frozen(&self, name: &ContainerName, id: SnapshotId) -> Result<Frozen> {
        self.snapshot_properties(name, id).await?;
        Ok(Frozen::new(self.store.clone(), name.at_snapshot(id), self.config.owner))
    }

    /// What a snapshot of a share is. Policies and lease are those of the share.
    pub async fn snapshot_properties(&self, name: &ContainerName, id: SnapshotId) -> Result<ShareInfo> {
        if self.only_name() == Some(name) {
            return Err(FsError::NoSnapshot);
        }
        let share = self.store.container_properties(&self.container(name)?, None).await.map_err(missing)?;
        let kept = self.store.container_properties(&name.at_snapshot(id), None).await.map_err(of_snapshot)?;
        let info = ShareInfo { snapshot: Some(id), ..ShareInfo::of(kept) };
        Ok(ShareInfo { name: name.clone(), acl: share.acl, lease: share.lease, ..info })
    }

    /// Deletes one snapshot.
    pub async fn delete_snapshot(&self, name: &ContainerName, id: SnapshotId) -> Result<()> {
        self.snapshot_properties(name, id).await?;
        self.local()?.delete_container_snapshot(name, id).await.map_err(of_snapshot)?;
        self.durable().await
    }

    /// Deletes a share with everything in it, unless it is mounted. Snapshots of it go too, or keep it.
    pub async fn delete(
        &self,
        name: &ContainerName,
        snapshots: DeleteSnapshots,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.properties(name, None).await?;
        if self.only_name().is_some() {
            return Err(FsError::ShareInUse("it is mounted"));
        }
        if snapshots == DeleteSnapshots::Refuse && !self.snapshots_of(name)?.is_empty() {
            return Err(FsError::ShareHasSnapshots);
        }
        self.end(name).await?;
        self.rooms.lock().remove(name);
        let conditions = Preconditions { lease, ..Preconditions::default() };
        let deleted = match self.store.local() {
            Some(local) => local.delete_container_with(name, snapshots, &conditions).await,
            None => self.store.delete_container(name, &conditions).await,
        };
        deleted.map_err(|error| match error {
            StoreError::SnapshotsPresent(_) => FsError::ShareHasSnapshots,
            other => missing(other),
        })?;
        self.durable().await
    }

    /// Shares in the order of their names that begin with `prefix`, from `marker` on; and where to go on. Snapshots, if
    /// they are asked for, come before their share, oldest first, and count.
    pub async fn list(
        &self,
        prefix: &str,
        marker: Option<&str>,
        max: usize,
        snapshots: bool,
    ) -> Result<(Vec<ShareInfo>, Option<String>)> {
        if let Some(only) = self.only_name() {
            let shown =
                only.as_str().starts_with(prefix) && marker.is_none_or(|marker| only.as_str() >= marker);
            let line = if shown { Some(self.properties(only, None).await?) } else { None };
            return Ok((line.into_iter().collect(), None));
        }
        let (from, first) = match marker.and_then(|marker| marker.split_once(MARK)) {
            Some((name, id)) => (Some(name), id.parse().ok()),
            None => (marker, None),
        };
        let (containers, mut next) = self.store.list_containers(prefix, from, max).await?;
        let mut lines = Vec::new();
        'shares: for container in containers {
            let info = ShareInfo::of(container);
            // The blob service's own containers are no shares.
            if info.name.as_str().starts_with('$') {
                continue;
            }
            let kept = if snapshots { self.snapshots_of(&info.name)? } else { Vec::new() };
            // The page before may have ended among the snapshots of its last share.
            let begins_here = |id: &SnapshotId| {
                from != Some(info.name.as_str()) || first.is_none_or(|first| id.0.0 >= first)
            };
            let kept = kept.into_iter().filter(|(id, _)| begins_here(id));
            let lines_of_share = kept.map(|(_, info)| info).chain([info.clone()]);
            for line in lines_of_share {
                if lines.len() == max {
                    next = Some(marker_of(&line));
                    break 'shares;
                }
                lines.push(line);
            }
        }
        Ok((lines, next))
    }

    /// Snapshots of a share, oldest first.
    fn snapshots_of(&self, name: &ContainerName) -> Result<Vec<(SnapshotId, ShareInfo)>> {
        let Some(local) = self.store.local() else { return Ok(Vec::new()) };
        let kept = local.container_snapshots(name)?;
        Ok(kept
            .into_iter()
            .map(|(id, container)| {
                let info = ShareInfo::of(container);
                (id, ShareInfo { name: name.clone(), snapshot: Some(id), ..info })
            })
            .collect())
    }

    fn local(&self) -> Result<&dyn LocalStore> {
        self.store.local().ok_or(FsError::NotSupported("snapshots of shares need the embedded store"))
    }
}

/// Where a page begins that begins with this line.
fn marker_of(line: &ShareInfo) -> String {
    let after_all = i64::MAX.to_string();
    let id = line.snapshot.map_or(after_all, |id| id.0.0.to_string());
    format!("{}{MARK}{id}", line.name)
}

fn of_snapshot(error: StoreError) -> FsError {
    match error {
        StoreError::ContainerNotFound(_) => FsError::NoSnapshot,
        StoreError::LimitExceeded(Limit::ContainerSnapshots) => FsError::TooManySnapshots,
        other => missing(other),
    }
}
