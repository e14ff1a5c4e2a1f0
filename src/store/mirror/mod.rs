//! The mirror: what a remote mount has of a container (or of a prefix in it) on this machine.
//!
//! The engine works on an embedded store in the cache directory as if it were the share. [`Mirror`] keeps that store
//! and the blob service alike:
//!
//! ```text
//!   service ── refresh (listings, HEAD) ──▶ names and properties, content still elsewhere ┐
//!           ── content, fetch (ranged GET) ──▶ bytes of what is opened                   ├─▶ embedded store ◀─▶ engine
//!           ◀── push (Put Blob, blocks) ── what the engine committed, fenced             ┘
//!           ◀── remove, rename ── first there, then here
//! ```
//!
//! What ties a blob here to its version there is its [`Sidecar`]; what is not pushed yet has an [`Unpushed`] entry.
//! Both are small blobs in containers of their own of the same store ([`state`]), so they survive what the store
//! survives.
//!
//! The mirror must never replace or remove what is not pushed, and never take an own change for somebody else's.

mod content;
mod options;
mod push;
mod refresh;
mod remove;
mod rename;
mod state;

use std::sync::Arc;

use async_trait::async_trait;

use super::upstream::{Changed, Fence, Fetch, Settling, Standing, Upstream};
use super::{
    BlobName, BlobPath, BlobStore, ContainerName, Metadata, NameError, Progress, PublicAccess, RenameMode,
    Result, StoreError,
};
use crate::store::embedded::EmbeddedStore;

pub use options::MirrorOptions;
pub use state::{Block, Layout, Presence, Sidecar, Sidecars, Unpushed};

/// What a remote mount mirrors: a container, or the blobs of it whose names begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The container at the service.
    pub container: ContainerName,
    /// What every name begins with there: nothing, or a path that ends with a slash.
    pub prefix: String,
}

impl Place {
    /// The blobs of `container` below the path `prefix`, which may be empty.
    pub fn new(container: ContainerName, prefix: &str) -> std::result::Result<Self, NameError> {
        let path = prefix.trim_matches('/');
        if !path.is_empty() {
            BlobName::new(path)?;
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        Ok(Self { container, prefix })
    }
}

/// A mirror of blobs that are elsewhere.
pub struct Mirror {
    /// The blobs elsewhere.
    service: Arc<dyn BlobStore>,
    place: Place,
    /// The store here, as a user of it other than the engine, so that the engine hears of what the mirror changes.
    store: Arc<EmbeddedStore>,
    /// The container here that the engine works on.
    home: ContainerName,
    options: MirrorOptions,
    sidecars: Sidecars,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("place", &self.place).field("home", &self.home).finish_non_exhaustive()
    }
}

impl Mirror {
    /// A mirror of `place` in the container `home` of `store`, which is made if it is not there. Sends nothing yet.
    pub async fn open(
        store: &EmbeddedStore,
        home: ContainerName,
        service: Arc<dyn BlobStore>,
        place: Place,
        options: MirrorOptions,
    ) -> Result<Arc<Self>> {
        let store = store.user();
        match store.create_container(&home, Metadata::new(), PublicAccess::None).await {
            Ok(_) | Err(StoreError::ContainerExists(_)) => {}
            Err(error) => return Err(error),
        }
        let sidecars = Sidecars::open(Arc::clone(&store)).await?;
        Ok(Arc::new(Self { service, place, store, home, options, sidecars }))
    }

    /// Where the blob of that name is here.
    fn here(&self, name: &BlobName) -> BlobPath {
        BlobPath::new(self.home.clone(), name.clone())
    }
}

#[async_trait]
impl Upstream for Mirror {
    async fn refresh_directory(&self, directory: Option<&BlobName>) -> Result<()> {
        self.refresh_names_in(directory).await
    }

    async fn refresh_name(&self, name: &BlobName) -> Result<()> {
        self.refresh_one(name).await
    }

    async fn revalidate(&self, name: &BlobName) -> Result<Standing> {
        self.ask_for(name).await
    }

    async fn content(&self, name: &BlobName) -> Result<Option<Arc<dyn Fetch>>> {
        self.open_content(name).await
    }

    fn will_change(&self, name: &BlobName, what: Changed<'_>) -> Result<()> {
        self.note_change(name, what)
    }

    async fn push(&self, name: &BlobName, fence: Fence) -> Result<()> {
        self.push_one(name, fence).await
    }

    async fn give_up(&self, name: &BlobName) -> Result<()> {
        self.forget_changes(name).await
    }

    async fn remove(&self, name: &BlobName, fence: Fence) -> Result<Settling> {
        self.remove_there(name, fence).await
    }

    async fn rename(
        &self,
        from: &BlobName,
        to: &BlobName,
        mode: RenameMode,
        fence: Fence,
    ) -> Result<Settling> {
        self.rename_there(from, to, mode, fence).await
    }

    async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        self.push_all(progress).await
    }

    fn service(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.service)
    }

    fn there(&self, name: &BlobName) -> Result<BlobPath> {
        let full = BlobName::new(format!("{}{}", self.place.prefix, name))?;
        Ok(BlobPath::new(self.place.container.clone(), full))
    }
}
