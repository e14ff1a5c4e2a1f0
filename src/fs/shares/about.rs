//! What is told and changed about a share itself.

use std::collections::BTreeMap;

use crate::share::Moment;
use crate::share::lease::{Lease, LeaseId};
use crate::store::{
    ContainerAcl, ContainerName, ContainerProperties, ETag, LeaseReport, LeaseRequest, ListItem, ListQuery,
    Metadata, Preconditions, PublicAccess, SnapshotId, StoreError,
};

use super::super::error::{FsError, Result};
use super::super::names::RESERVED;
use super::super::requests::{callers_metadata, replace_callers_metadata};
use super::Shares;

/// The keys of a front end's own settings begin like this.
const SETTING: &str = "smbshare";

/// Blobs looked at between two chances for others to run.
pub(super) const PAGE: usize = 5000;

/// What a front end keeps about a share under names of its own: quota, tier and the like.
pub type ShareSettings = BTreeMap<String, String>;

/// A share.
#[derive(Clone, Debug)]
pub struct ShareInfo {
    /// Its name.
    pub name: ContainerName,
    /// Which snapshot of it this is, if it is one.
    pub snapshot: Option<SnapshotId>,
    /// Version tag of what is told here.
    pub etag: ETag,
    /// When that was last changed.
    pub modified: Moment,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// The front end's settings.
    pub settings: ShareSettings,
    /// Stored access policies.
    pub acl: ContainerAcl,
    /// The lease as stored; `lease.state(now)` tells what it means.
    pub lease: Lease,
}

impl ShareInfo {
    pub(super) fn of(container: ContainerProperties) -> Self {
        let setting = |(key, value): (&str, &str)| {
            key.strip_prefix(SETTING).map(|name| (name.to_owned(), value.to_owned()))
        };
        Self {
            settings: container.metadata.iter().filter_map(setting).collect(),
            metadata: callers_metadata(&container.metadata),
            name: container.name,
            snapshot: None,
            etag: container.etag,
            modified: container.modified,
            acl: container.acl,
            lease: container.lease,
        }
    }
}

fn set_settings(stored: &mut Metadata, settings: &ShareSettings) {
    stored.retain(|key| !key.starts_with(SETTING));
    stored.extend(settings.iter().map(|(name, value)| (format!("{SETTING}{name}"), value)));
}

pub(super) fn missing(error: StoreError) -> FsError {
    match error {
        StoreError::ContainerNotFound(_) => FsError::NoShare,
        StoreError::Lease(refusal) => FsError::Lease(refusal),
        other => other.into(),
    }
}

impl Shares {
    /// Makes a share. It can be mounted at once.
    pub async fn create(
        &self,
        name: &ContainerName,
        metadata: &Metadata,
        settings: &ShareSettings,
    ) -> Result<ShareInfo> {
        self.may_make(name)?;
        let mut stored = Metadata::new();
        replace_callers_metadata(&mut stored, metadata);
        set_settings(&mut stored, settings);
        let made = self.store.create_container(name, stored, PublicAccess::None).await.map_err(missing)?;
        self.durable().await?;
        Ok(ShareInfo::of(made))
    }

    /// What a share is. A lease id that is given must be right.
    pub async fn properties(&self, name: &ContainerName, lease: Option<LeaseId>) -> Result<ShareInfo> {
        let container = self.container(name)?;
        let info = ShareInfo::of(self.store.container_properties(&container, lease).await.map_err(missing)?);
        Ok(ShareInfo { name: name.clone(), ..info })
    }

    /// Replaces the caller's metadata.
    pub async fn set_metadata(
        &self,
        name: &ContainerName,
        metadata: &Metadata,
        lease: Option<LeaseId>,
    ) -> Result<ShareInfo> {
        self.change(name, lease, |stored| replace_callers_metadata(stored, metadata)).await
    }

    /// Replaces the front end's settings.
    pub async fn set_settings(
        &self,
        name: &ContainerName,
        settings: &ShareSettings,
        lease: Option<LeaseId>,
    ) -> Result<ShareInfo> {
        self.change(name, lease, |stored| set_settings(stored, settings)).await
    }

    /// Changes the stored metadata of a share, where the attributes of its directory are, too.
    async fn change(
        &self,
        name: &ContainerName,
        lease: Option<LeaseId>,
        change: impl FnOnce(&mut Metadata),
    ) -> Result<ShareInfo> {
        self.is_ours(name)?;
        // Before anything is changed: the lease.
        self.properties(name, lease).await?;
        let requests = self.open(name).await?;
        requests.engine().change_share(change).await?;
        self.durable().await?;
        self.properties(name, None).await
    }

    /// Replaces the stored access policies.
    pub async fn set_acl(
        &self,
        name: &ContainerName,
        acl: ContainerAcl,
        lease: Option<LeaseId>,
    ) -> Result<ShareInfo> {
        self.is_ours(name)?;
        let conditions = Preconditions { lease, ..Preconditions::default() };
        let done = self.store.set_container_acl(name, acl, &conditions).await.map_err(missing)?;
        self.durable().await?;
        Ok(ShareInfo::of(done))
    }

    /// One lease action on a share.
    pub async fn lease(&self, name: &ContainerName, request: LeaseRequest) -> Result<LeaseReport> {
        self.is_ours(name)?;
        let always = Preconditions::default();
        let done = self.store.lease_container(name, request, &always).await.map_err(missing)?;
        self.durable().await?;
        Ok(done)
    }

    /// How many bytes the files of a share have. Looks at every one of them.
    pub async fn usage(&self, name: &ContainerName) -> Result<u64> {
        if let Some(bytes) = self.usage_there(name).await? {
            return Ok(bytes);
        }
        let (mut query, mut bytes) = (ListQuery { max: PAGE, ..ListQuery::default() }, 0);
        loop {
            let page = self.store.list_blobs(name, &query).await.map_err(missing)?;
            for item in page.items {
                if let ListItem::Blob { name, properties } = item
                    && !name.starts_with(RESERVED)
                {
                    bytes += properties.size;
                }
            }
            match page.next {
                Some(next) => query.marker = Some(next),
                None => return Ok(bytes),
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn durable(&self) -> Result<()> {
        match self.store.local() {
            Some(local) => Ok(local.sync().await?),
            None => Ok(()),
        }
    }
}
