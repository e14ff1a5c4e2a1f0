//! Where a file's blob is, for as long as it has to stay there.

use crate::share::lease::LeaseId;
use crate::store::{BlobPath, Changed, Changing};

use super::attributes::Attributes;
use super::commit::Committing;
use super::error::{FsError, Result};
use super::file::{OpenFile, Place};
use super::guards::NameGuard;
use super::names::Segment;
use super::nodes::Ino;
use super::{Engine, now};

/// The guarded name of a file: it is the file's as long as this is held.
#[derive(Debug)]
pub(super) struct Guarded<'a> {
    pub(super) at: BlobPath,
    pub(super) parent: Ino,
    pub(super) segment: Segment,
    _name: NameGuard<'a>,
}

impl Engine {
    /// Guards the name that `ino` has; nothing if it has none. For holders of the tree guard.
    ///
    /// The name may change while the guard is waited for, so it is looked at again afterwards. Whoever acts on a
    /// file's name without this may act on another file.
    pub(super) async fn guard_name(&self, ino: Ino) -> Result<Option<Guarded<'_>>> {
        loop {
            let Some((parent, segment)) = self.nodes.place(ino) else {
                return Ok(None);
            };
            let name = self.guards.name(parent, &segment).await;
            if self.nodes.place(ino).is_some_and(|now| now == (parent, segment.clone())) {
                let at = self.at(self.nodes.child_name(parent, &segment)?);
                return Ok(Some(Guarded { at, parent, segment, _name: name }));
            }
        }
    }

    /// Runs `action` with what a change of `file` may need, while its name stays where it is. Bytes that it needs and
    /// that are not here are brought first.
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
        let _tree = self.guards.tree().await;
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
