//! Where a file's blob is, for as long as it has to stay there: the guards of paths and names, in their order.

use tokio::runtime::{self, RuntimeFlavor};

use crate::share::lease::LeaseId;
use crate::store::{BlobPath, Changed, Changing};

use super::attributes::Attributes;
use super::commit::Committing;
use super::error::{FsError, Result};
use super::file::{OpenFile, Place};
use super::guards::paths::{Name, PathGuard, Reliance};
use super::guards::{MoveGuard, NameGuard};
use super::names::Segment;
use super::nodes::Ino;
use super::{Engine, now};

/// Copying more than this before the first change of a file is not done on a thread that serves requests.
const COPY_AT_ONCE: u64 = 1 << 20;

/// Does something that blocks: the other tasks of this thread of the runtime, if it is one, go on elsewhere.
pub(super) fn blocking<T>(action: impl FnOnce() -> T) -> T {
    match runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(action),
        Ok(_) | Err(_) => action(),
    }
}

/// The guarded name of a file: it is the file's as long as this is held.
#[derive(Debug)]
pub(super) struct Guarded<'a> {
    pub(super) at: BlobPath,
    pub(super) parent: Ino,
    pub(super) segment: Segment,
    _name: NameGuard<'a>,
    _path: PathGuard<'a>,
}

/// One or two names, whatever they lead to, that only the holder changes.
#[derive(Debug)]
pub(super) struct EntryGuard<'a> {
    _name: NameGuard<'a>,
    _path: PathGuard<'a>,
}

impl Engine {
    /// No directory above `ino`, nor itself if it is one, is moved while this is held. Like all guards here, it is for
    /// callers that have none of a path or name yet.
    pub(super) async fn path_stays(&self, ino: Ino) -> PathGuard<'_> {
        self.guards.paths.rely(&self.nodes, Reliance::path(ino)).await
    }

    /// The same for the directory `parent`; nor is a directory of that name in it.
    pub(super) async fn entry_stays(&self, parent: Ino, segment: &Segment) -> PathGuard<'_> {
        self.guards.paths.rely(&self.nodes, Reliance::entry((parent, segment))).await
    }

    /// The same for two names.
    pub(super) async fn entries_stay(&self, one: Name<'_>, other: Name<'_>) -> PathGuard<'_> {
        self.guards.paths.rely(&self.nodes, Reliance::entries(one, other)).await
    }

    /// Guards a name in a directory.
    pub(super) async fn guard_entry(&self, parent: Ino, segment: &Segment) -> EntryGuard<'_> {
        let path = self.entry_stays(parent, segment).await;
        EntryGuard { _name: self.guards.name(parent, segment).await, _path: path }
    }

    /// Guards two names.
    pub(super) async fn guard_entries(&self, one: Name<'_>, other: Name<'_>) -> EntryGuard<'_> {
        let path = self.entries_stay(one, other).await;
        EntryGuard { _name: self.guards.names(one, other).await, _path: path }
    }

    /// Nobody else uses a path inside `subjects`, or one of `names`, while this is held.
    pub(super) async fn guard_move(&self, subjects: &[Ino], names: &[Name<'_>]) -> MoveGuard<'_> {
        self.guards.moving(&self.nodes, subjects, names).await
    }

    /// Guards the name that `ino` has; nothing if it has none.
    pub(super) async fn guard_name(&self, ino: Ino) -> Result<Option<Guarded<'_>>> {
        let path = self.path_stays(ino).await;
        self.guard_name_on(path, ino).await
    }

    /// The same for somebody who does not wait while a directory above is moved.
    pub(super) async fn try_guard_name(&self, ino: Ino) -> Option<Result<Option<Guarded<'_>>>> {
        let path = self.guards.paths.try_rely(&self.nodes, Reliance::path(ino))?;
        Some(self.guard_name_on(path, ino).await)
    }

    /// The name may change while the guard is waited for, so it is looked at again afterwards. Whoever acts on a
    /// file's name without this may act on another file.
    async fn guard_name_on<'a>(&'a self, path: PathGuard<'a>, ino: Ino) -> Result<Option<Guarded<'a>>> {
        loop {
            let Some((parent, segment)) = self.nodes.place(ino) else {
                return Ok(None);
            };
            let name = self.guards.name(parent, &segment).await;
            if self.nodes.place(ino).is_some_and(|now| now == (parent, segment.clone())) {
                let at = self.at(self.nodes.child_name(parent, &segment)?);
                return Ok(Some(Guarded { at, parent, segment, _name: name, _path: path }));
            }
        }
    }

    /// Runs `action` with what a change of `file` may need, while its name stays where it is. Bytes that it needs and
    /// that are not here are brought first, and what takes long to make ready is not done on the thread that asks.
    pub(super) async fn with_place<T>(
        &self,
        file: &OpenFile,
        action: impl FnMut(Place<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_place_for(file, None, action).await
    }

    /// The same for somebody who showed the id of the lease on the blob.
    pub(super) async fn with_place_for<T>(
        &self,
        file: &OpenFile,
        shown: Option<LeaseId>,
        action: impl FnMut(Place<'_>) -> Result<T>,
    ) -> Result<T> {
        self.copy_first(file, shown).await?;
        self.bringing(file, shown, action).await
    }

    /// Makes the copy that the first change of a file needs whose version the kernel serves, if it is a long one.
    pub(super) async fn copy_first(&self, file: &OpenFile, shown: Option<LeaseId>) -> Result<()> {
        if file.bytes_to_copy().is_none_or(|bytes| bytes <= COPY_AT_ONCE) {
            return Ok(());
        }
        // Leaves the thread that serves the kernel: the runtime goes on with it.
        tokio::task::yield_now().await;
        self.bringing(file, shown, |place: Place<'_>| blocking(|| file.prepare(place))).await
    }

    async fn bringing<T>(
        &self,
        file: &OpenFile,
        shown: Option<LeaseId>,
        mut action: impl FnMut(Place<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            match self.try_with_place(file, shown, &mut action).await {
                Err(FsError::NotHere(range)) => self.bring(file, range).await?,
                other => return other,
            }
        }
    }

    async fn try_with_place<T>(
        &self,
        file: &OpenFile,
        shown: Option<LeaseId>,
        action: &mut impl FnMut(Place<'_>) -> Result<T>,
    ) -> Result<T> {
        let ino = file.ino();
        let store = self.local()?;
        let Some(Guarded { at, .. }) = &self.guard_name(ino).await? else {
            return action(Place { store, at: None, info: None, mtime: now(), now: now() });
        };
        let _changing = if file.is_in_place() {
            // Cutting off what the blob refers to changes it at once.
            self.will_change(&at.name, Changed::Everything)?
        } else {
            Changing::nothing()
        };
        let blob = store.find(at)?.blob.ok_or(FsError::Stale)?;
        let mtime = Attributes::of_blob(&blob, self.config.owner).mtime;
        let info = Committing { engine: self, ino, blob, shown };
        action(Place { store, at: Some(at), info: Some(&info), mtime, now: now() })
    }
}
