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
//! Both are small blobs in containers of their own of the same store (`state`), so they survive what the store
//! survives.
//!
//! The mirror must never replace or remove what is not pushed, and never take an own change for somebody else's.

mod ahead;
mod blocks;
mod cache;
mod chunks;
mod content;
mod early;
mod exchange;
mod fetch;
mod journal;
mod known;
mod leases;
mod legs;
mod moving;
mod options;
mod push;
mod queue;
mod refresh;
mod remove;
mod rename;
mod settled;
mod state;
mod sweep;
mod turns;
mod upload;
mod walk;

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::upstream::{
    Changed, Changing, Fence, Ready, Refused, Settling, Standing, Upstream, UpstreamStatus,
};
use super::{
    BlobName, BlobPath, BlobStore, ContainerName, ETag, Metadata, NameError, Progress, PublicAccess,
    RenameMode, Result, StoreError,
};
use crate::share::lease::LeaseId;
use crate::store::embedded::EmbeddedStore;

use content::Contents;
use early::Early;
use journal::Left;
use known::Known;
pub use options::MirrorOptions;
use queue::Queue;
use settled::Settled;
pub use state::{Block, Layout, Presence, Sidecar, Sidecars, Unpushed};
use turns::{Scope, Turn, Turns};
use walk::Walks;

/// The folder in the container that mounts keep for themselves.
const OWN_FOLDER: &str = ".leasefs";
/// The metadata that tells which push made a version. Only letters, so that it sorts alike everywhere; never shown.
const PUSH_TOKEN: &str = "leasefspush";

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
    sidecars: Arc<Sidecars>,
    contents: Arc<Contents>,
    known: Mutex<Known>,
    /// Who works on which names at the service.
    turns: Turns,
    /// Who lists which directory.
    listings: Turns,
    /// Who lists one directory after the other.
    walks: Mutex<Walks>,
    /// Directories to be listed before anybody asks for them.
    list_soon: mpsc::Sender<String>,
    /// What was sent before its commit.
    early: Early,
    /// How much may be on its way to the service.
    uploads: Semaphore,
    /// Whether the service can make a block of a part of a blob, as far as is known.
    copies_ranges: AtomicBool,
    queue: Arc<Queue>,
    /// Leases that an earlier mount left were given back.
    old_leases: Settled,
    /// Renames that an earlier mount left were finished, and changes of what it was removing or renaming are decided about.
    old_changes: Settled,
    /// Told when a rename could not be finished.
    leftovers: Arc<Notify>,
    /// Marks of the renames that this mirror works on.
    renaming: Mutex<HashSet<String>>,
    /// Renames that may be half done, in case they are asked for again.
    left: Mutex<Left>,
    /// A long rename under way: how many blobs are moved, and of how many.
    moving: Mutex<Option<(u64, u64)>>,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("place", &self.place).field("home", &self.home).finish_non_exhaustive()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.queue.close();
        self.leftovers.notify_one();
    }
}

impl Mirror {
    /// A mirror of `place` in the container `home` of `store`, which is made if it is not there. Does not wait for the
    /// service; what an earlier mount left to be given back, pushed or renamed is dealt with in the background from now on.
    pub async fn open(
        store: &Arc<EmbeddedStore>,
        home: ContainerName,
        service: Arc<dyn BlobStore>,
        place: Place,
        options: MirrorOptions,
    ) -> Result<Arc<Self>> {
        // Written as the engine's own user: nobody needs to hear of it.
        let sidecars = Arc::new(Sidecars::open(Arc::clone(store)).await?);
        let store = store.user();
        match store.create_container(&home, Metadata::new(), PublicAccess::None).await {
            Ok(_) | Err(StoreError::ContainerExists(_)) => {}
            Err(error) => return Err(error),
        }
        let contents = Contents::start(
            Arc::clone(&service),
            place.clone(),
            Arc::clone(&store),
            home.clone(),
            Arc::clone(&sidecars),
            options.clone(),
        );
        let contents = contents.await?;
        let (list_soon, orders) = walk::orders();
        let mirror = Arc::new(Self {
            uploads: Semaphore::new(upload::upload_room(options.parallel) as usize),
            early: Early::default(),
            copies_ranges: AtomicBool::new(true),
            queue: Arc::new(Queue::of(sidecars.unpushed_names(None))),
            old_leases: Settled::default(),
            old_changes: Settled::default(),
            leftovers: Arc::default(),
            renaming: Mutex::default(),
            left: Mutex::default(),
            moving: Mutex::default(),
            service,
            place,
            store,
            home,
            options,
            sidecars,
            contents,
            known: Mutex::default(),
            turns: Turns::default(),
            listings: Turns::default(),
            walks: Mutex::default(),
            list_soon,
        });
        walk::start(&mirror, orders);
        leases::start(&mirror).await?;
        queue::start(&mirror);
        journal::start(&mirror);
        Ok(mirror)
    }

    /// Where the blob of that name is here.
    fn here(&self, name: &BlobName) -> BlobPath {
        BlobPath::new(self.home.clone(), name.clone())
    }

    /// A turn on these names. An exchange that this mount had to leave in the middle of them is undone first.
    async fn turn_on(&self, scopes: Vec<Scope>) -> Result<Turn> {
        loop {
            self.undo_left(Some(&scopes)).await?;
            let turn = self.turns.take(scopes.clone()).await;
            // Whoever had the turn before may have failed to undo one.
            if self.left.lock().touching(Some(&scopes)).is_empty() {
                return Ok(turn);
            }
        }
    }

    /// A turn on one name.
    async fn turn_on_name(&self, name: &BlobName) -> Result<Turn> {
        self.turn_on(vec![Scope::Name(name.as_str().to_owned())]).await
    }

    /// Where the blob with this name of the container is there.
    fn in_container(&self, name: &str) -> Result<BlobPath> {
        Ok(BlobPath::new(self.place.container.clone(), BlobName::new(name)?))
    }

    /// Blobs that the mirror has below a name, with their versions.
    fn mirrored_below(&self, name: &BlobName) -> Result<Vec<(BlobName, ETag)>> {
        self.store.names_below(&self.here(name))
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

    async fn content(&self, name: &BlobName) -> Result<Ready> {
        self.open_content(name).await
    }

    fn is_all_here(&self, name: &BlobName) -> bool {
        self.contents.is_all_here(name)
    }

    fn will_change(&self, name: &BlobName, what: Changed<'_>) -> Result<Changing> {
        self.note_change(name, what)
    }

    fn in_place(&self, name: &BlobName) -> Result<()> {
        let _changing = self.note_change(name, Changed::Everything)?;
        self.sidecars.set_in_place(name, true);
        Ok(())
    }

    fn at_rest(&self, name: &BlobName) {
        self.sidecars.set_in_place(name, false);
    }

    async fn send_early(
        &self,
        name: &BlobName,
        content: &Arc<File>,
        written: u64,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        self.send_blocks_early(name, content, written, lease).await
    }

    async fn make_room(&self, bytes: u64) -> bool {
        self.contents.has_room(bytes)
            || (self.contents.make_room(bytes).await && self.contents.has_room(bytes))
    }

    fn is_roomy(&self) -> bool {
        self.contents.is_roomy()
    }

    async fn push(&self, name: &BlobName, fence: Fence) -> Result<()> {
        self.push_one(name, fence).await
    }

    async fn give_up(&self, name: &BlobName, version: ETag) -> Result<()> {
        self.forget_changes(name, version).await
    }

    async fn remove(&self, name: &BlobName, fence: Fence) -> Result<Settling> {
        self.remove_there(name, fence).await
    }

    async fn remove_moved(&self, name: &BlobName, perhaps_at: &[BlobName]) -> Result<Settling> {
        self.remove_wherever(name, perhaps_at).await
    }

    async fn rename(
        &self,
        from: &BlobName,
        to: &BlobName,
        mode: RenameMode,
        fence: Fence,
        here: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<()> {
        self.rename_everywhere(from, to, mode, fence, here).await
    }

    async fn drain(&self, progress: &(dyn Fn(Progress) + Send + Sync)) -> Result<()> {
        self.push_all(progress).await
    }

    async fn refused(&self) -> Refused {
        self.queue.next_refused().await
    }

    fn note_lease(&self, at: &BlobPath, id: LeaseId) -> Result<()> {
        self.sidecars.note_lease(&at.name, id)
    }

    fn strike_lease(&self, at: &BlobPath, id: LeaseId) -> Result<()> {
        self.sidecars.strike_lease(&at.name, id)
    }

    fn status(&self) -> UpstreamStatus {
        self.tell()
    }

    fn service(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.service)
    }

    fn there(&self, name: &BlobName) -> Result<BlobPath> {
        let full = BlobName::new(format!("{}{}", self.place.prefix, name))?;
        Ok(BlobPath::new(self.place.container.clone(), full))
    }
}
