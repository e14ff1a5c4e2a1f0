//! The one share of a mount whose blobs are elsewhere.
//!
//! Such a mount serves exactly the container that it mounts, under that container's name. Files are changed there; the
//! container itself (its settings, policies, lease and snapshots, and whether it exists at all) is the business of
//! whoever runs that service, so every change of it is refused here.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{BlobName, BlobPath, ContainerName, ListItem, ListQuery};

use super::super::Engine;
use super::super::error::{FsError, Result};
use super::super::names::RESERVED;
use super::{Running, Shares};

/// What is refused, and why.
const NOT_HERE: &str =
    "this endpoint belongs to a mount of a share that is elsewhere: the share itself is changed there";

/// The share that is served, and where its mirror is.
#[derive(Clone, Debug)]
pub(super) struct Only {
    name: ContainerName,
    mirror: ContainerName,
}

impl Shares {
    /// The share of a mount whose blobs are elsewhere, as `name`: the container there.
    pub fn of_remote(engine: Arc<Engine>, name: ContainerName) -> Arc<Self> {
        let only = Some(Only { name: name.clone(), mirror: engine.share().clone() });
        let (store, config) = (Arc::clone(&engine.store), engine.config.clone());
        let running = Running { engine, mounted: true, used: Instant::now() };
        let running = Mutex::new([(name, running)].into());
        Arc::new(Self { only, running, ..Self::empty(store, config) })
    }

    /// The container of the store here that a share is.
    pub(super) fn container(&self, name: &ContainerName) -> Result<ContainerName> {
        match &self.only {
            None => Ok(name.clone()),
            Some(only) if only.name == *name => Ok(only.mirror.clone()),
            Some(_) => Err(FsError::NoShare),
        }
    }

    /// Refuses what only the embedded store can do with a share that exists.
    pub(super) fn is_ours(&self, name: &ContainerName) -> Result<()> {
        match &self.only {
            None => Ok(()),
            Some(only) if only.name == *name => Err(FsError::NotSupported(NOT_HERE)),
            Some(_) => Err(FsError::NoShare),
        }
    }

    /// Refuses to make another share.
    pub(super) fn may_make(&self, name: &ContainerName) -> Result<()> {
        match &self.only {
            None => Ok(()),
            Some(only) if only.name == *name => Err(FsError::Exists),
            Some(_) => Err(FsError::NotSupported(NOT_HERE)),
        }
    }

    /// The name of the only share.
    pub(super) fn only_name(&self) -> Option<&ContainerName> {
        self.only.as_ref().map(|only| &only.name)
    }

    /// How many bytes the files of the share have at the service, if it is elsewhere.
    pub(super) async fn usage_there(&self, name: &ContainerName) -> Result<Option<u64>> {
        if self.only.is_none() {
            return Ok(None);
        }
        let requests = self.open(name).await?;
        let Some(upstream) = requests.engine().upstream() else { return Ok(None) };
        // What every name begins with there, which may be a path in the container.
        let probe = BlobName::new("x").map_err(|_| FsError::NameTooLong)?;
        let BlobPath { container, name: full } = upstream.there(&probe)?;
        let prefix = full.as_str().trim_end_matches(probe.as_str()).to_owned();
        let reserved = format!("{prefix}{RESERVED}/");
        let mut query = ListQuery { prefix, max: super::about::PAGE, ..ListQuery::default() };
        let (service, mut bytes) = (upstream.service(), 0);
        loop {
            let page = service.list_blobs(&container, &query).await?;
            for item in page.items {
                if let ListItem::Blob { name, properties } = item
                    && !name.starts_with(&reserved)
                {
                    bytes += properties.size;
                }
            }
            match page.next {
                Some(next) => query.marker = Some(next),
                None => return Ok(Some(bytes)),
            }
        }
    }
}
