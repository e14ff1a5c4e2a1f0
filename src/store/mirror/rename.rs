//! Renames at the service, which knows none: everything is copied and deleted, under a note in the journal.
//!
//! ```text
//!   note ─▶ for every blob: copy (if it is still that version, if the target is as expected) ─▶ delete (if still that
//!   version) ─▶ note deleted ─▶ the blobs here move ─▶ what is known of them moves along
//! ```
//!
//! A file that the service never had is renamed here only. A rename that is refused in the middle is renamed back.
//!
//! Changes that are not pushed (of files that are written in place there are always some) must not meet a rename that
//! died half way: pushed to the old name they would undo it, and to the new one replace what was moved. So before the
//! first blob is moved they are noted as [`leaving`](super::Unpushed::leaving), which makes them void once it is; they
//! are taken out before the blobs here move, and put back under the new names after that.

use std::sync::Arc;

use super::Mirror;
use super::journal::{Note, Over};
use super::moving::{Move, Moved, is_marked};
use super::refresh::{IS_FOLDER, is_away};
use super::state::{Taken, new_token};
use super::sweep::{Done, Met, Swept};
use super::turns::Scope;
use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::upstream::{Fence, Upstream};
use crate::store::{
    BlobName, BlobPath, BlobProperties, ETag, LocalStore, Preconditions, RenameMode, Result, StoreError,
    crash_point,
};

/// Moves the blobs here.
pub(super) type Here<'h> = dyn Fn() -> Result<()> + Send + Sync + 'h;

impl Mirror {
    /// [`Upstream::rename`].
    pub(super) async fn rename_everywhere(
        &self,
        from: &BlobName,
        to: &BlobName,
        mode: RenameMode,
        fence: Fence,
        here: &Here<'_>,
    ) -> Result<()> {
        let scopes = [from, to].map(|name| Scope::Tree(name.as_str().to_owned()));
        let turn = self.turn_on(scopes.into()).await?;
        let tree = self.is_tree(from)?;
        match mode {
            RenameMode::Exchange if tree || self.is_tree(to)? => {
                self.exchange_trees(from, to, fence, turn, here).await
            }
            RenameMode::Exchange => self.exchange_files(from, to, fence, here).await,
            RenameMode::Replace | RenameMode::NoReplace if !tree && self.was_never_there(from)? => {
                self.keep_parent(from).await?;
                self.rename_here(from, to, tree, &Done::default(), here)
            }
            RenameMode::Replace | RenameMode::NoReplace => {
                self.push_tree(from, fence).await?;
                self.keep_parent(from).await?;
                let done = self.rename_noted(from, to, mode, tree, fence).await?;
                crash_point("rename_there_after_move");
                self.rename_here(from, to, tree, &done, here)
            }
        }
    }

    fn is_tree(&self, name: &BlobName) -> Result<bool> {
        let found = self.store.find(&self.here(name))?;
        let is_folder = found.blob.is_some_and(|blob| blob.metadata.contains(IS_FOLDER));
        Ok(found.prefix.is_some() || is_folder)
    }

    /// Whether the service never had a blob, and nothing is on its way there.
    fn was_never_there(&self, name: &BlobName) -> Result<bool> {
        let has_version = self.sidecars.get(name)?.is_some_and(|sidecar| sidecar.there.is_some());
        Ok(!has_version && self.sidecars.is_unpushed(name) && !self.queue.holds(name))
    }

    async fn rename_noted(
        &self,
        from: &BlobName,
        to: &BlobName,
        mode: RenameMode,
        tree: bool,
        fence: Fence,
    ) -> Result<Done> {
        let (at, target) = (self.there(from)?, self.there(to)?);
        let version = self.sidecars.get(from)?.and_then(|sidecar| sidecar.there).filter(|_| !tree);
        let over = target_condition(mode);
        let fresh = Note { version, tree, over, ..self.new_note(&at, &target)? };
        let mut note = self.left.lock().again(fresh);
        let token = note.token.clone();
        self.note_all_leaving(from, to, true)?;
        self.renaming.lock().insert(token.clone());
        let done = async {
            // A tree's top is looked at when its turn comes.
            let look = async { if tree { Ok(None) } else { self.version(&at).await } };
            let (noted, found) = futures_util::join!(self.note_rename(&note), look);
            let begun = noted?;
            if tree {
                note.begun = Some(begun);
                self.note_rename(&note).await?;
            }
            crash_point("rename_after_note");
            let mut done = Done::default();
            match self.move_all(&note, fence.lease, found?, None, &mut done).await {
                Ok(()) => self.end_rename(&note).await?,
                // What was done is not known. The note stays: the caller or the background goes on with it.
                Err(error) if is_away(&error) => return Err(error),
                Err(error) => {
                    self.undo(&note, &done).await?;
                    return Err(error);
                }
            }
            Ok(done)
        };
        let done = done.await;
        self.renaming.lock().remove(&token);
        *self.moving.lock() = None;
        if let Err(error) = &done {
            if is_away(error) {
                self.left.lock().add(note);
            } else {
                self.note_all_leaving(from, to, false)?;
            }
            self.leftovers.notify_one();
        }
        done
    }

    /// Changes of what is renamed and of what it replaces, or changes places with, are void once it is, or count again.
    pub(super) fn note_all_leaving(&self, from: &BlobName, to: &BlobName, leaving: bool) -> Result<()> {
        let below = |top: &BlobName| self.sidecars.unpushed_names(Some(top.as_str()));
        for name in below(from).into_iter().chain(below(to)) {
            self.sidecars.note_leaving(&name, leaving)?;
        }
        Ok(())
    }

    pub(super) fn new_note(&self, from: &BlobPath, to: &BlobPath) -> Result<Note> {
        Ok(Note {
            from: from.name.as_str().to_owned(),
            to: to.name.as_str().to_owned(),
            tree: false,
            version: None,
            begun: None,
            over: Over::Anything,
            exchange: false,
            leg: None,
            token: new_token(),
            owner: self.sidecars.owner()?,
        })
    }

    /// Moves everything that a note names, below it only what is not newer than `newest`. Can be repeated.
    async fn move_all(
        &self,
        note: &Note,
        lease: Option<LeaseId>,
        known: Option<Arc<BlobProperties>>,
        newest: Option<Moment>,
        done: &mut Done,
    ) -> Result<()> {
        let (from, to) = (self.in_container(&note.from)?, self.in_container(&note.to)?);
        let (target, token) = (note.over.condition(), note.token.as_str());
        let one = Move { from: &from, to: &to, target, lease, token, leg: "" };
        // The top comes last: as long as it is there, the directory is.
        if note.tree {
            self.move_below(note, newest, done).await?;
        }
        if let Some(moved) = self.move_blob(&one, known).await? {
            done.moved.insert(note.from.clone(), moved);
        } else if !note.tree {
            // Not there any more: perhaps because an earlier attempt moved it.
            let ours = self.version(&to).await?.filter(|found| is_marked(found, token, ""));
            let missing = || StoreError::BlobNotFound(note.from.clone());
            let is = ours.ok_or_else(missing)?.etag;
            if let Some(was) = note.version {
                done.moved.insert(note.from.clone(), Moved { was, is });
            }
        }
        Ok(())
    }

    /// Moves everything below the name of a note.
    async fn move_below(&self, note: &Note, newest: Option<Moment>, done: &mut Done) -> Result<()> {
        self.sweep(note, &note.from, done, |met| self.moves(note, met, newest)).await
    }

    /// The moves of one page, not begun yet.
    fn moves<'m>(
        &'m self,
        note: &'m Note,
        met: Vec<Met>,
        newest: Option<Moment>,
    ) -> Result<Vec<impl Future<Output = Swept> + Send + 'm>> {
        let mut moves = Vec::with_capacity(met.len());
        for (rest, properties) in met {
            if newest.is_some_and(|newest| properties.modified > newest) {
                continue;
            }
            let name = format!("{}{rest}", note.from);
            let (from, to) = (self.in_container(&name)?, self.in_container(&format!("{}{rest}", note.to))?);
            moves.push(async move {
                let target = Preconditions::if_absent();
                let one = Move { from: &from, to: &to, target, lease: None, token: &note.token, leg: "" };
                Ok(self.move_blob(&one, Some(properties)).await?.map(|moved| (name, moved)))
            });
        }
        Ok(moves)
    }

    /// Renames back what was renamed, as far as that goes.
    async fn undo(&self, note: &Note, done: &Done) -> Result<()> {
        if done.moved.is_empty() {
            return self.end_rename(note).await;
        }
        let (from, to) = (note.to.clone(), note.from.clone());
        let over = if note.tree { Over::Anything } else { Over::Nothing };
        let back = Note { from, to, over, version: None, begun: None, token: new_token(), ..note.clone() };
        self.note_rename(&back).await?;
        self.end_rename(note).await?;
        self.redo(&back).await?;
        self.end_rename(&back).await
    }

    /// Does everything that a note asks for, again.
    pub(super) async fn redo(&self, note: &Note) -> Result<()> {
        if note.leg.is_some() {
            return self.finish_trees(note.clone()).await;
        }
        let now = self.version(&self.in_container(&note.from)?).await?.map(|found| found.etag);
        if note.exchange {
            self.finish_exchange(note).await?;
        } else if note.version.is_none() || note.version == now {
            match self.move_all(note, None, None, note.begun, &mut Done::default()).await {
                // What somebody made meanwhile stays where it is.
                Ok(())
                | Err(
                    StoreError::BlobExists(_) | StoreError::BlobNotFound(_) | StoreError::ConditionNotMet,
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What was renamed there is renamed here, and what is known of it moves along.
    fn rename_here(
        &self,
        from: &BlobName,
        to: &BlobName,
        tree: bool,
        done: &Done,
        here: &Here<'_>,
    ) -> Result<()> {
        self.sidecars.drop_unpushed(to)?;
        self.queue.forget(to);
        let mut names = vec![from.clone()];
        names.extend(self.mirrored_below(from)?.into_iter().map(|(name, _)| name));
        let mut moves = Vec::with_capacity(names.len());
        for name in names {
            let rest = name.as_str().strip_prefix(from.as_str()).unwrap_or_default();
            let new = BlobName::new(format!("{to}{rest}"))?;
            let taken = self.sidecars.take_unpushed(&name)?;
            moves.push((name, new, taken));
        }
        crash_point("rename_there_after_state");
        here()?;
        crash_point("rename_there_after_here");
        for (name, new, taken) in moves {
            let moved =
                done.moved.get(&format!("{}{name}", self.place.prefix)).map(|moved| (moved.was, moved.is));
            self.state_moves(&name, &new, taken, moved)?;
        }
        self.contents.moved(|name| {
            let rest = name.as_str().strip_prefix(from.as_str())?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            BlobName::new(format!("{to}{rest}")).ok().filter(|_| is_below)
        });
        let mut known = self.known.lock();
        for name in [from, to] {
            known.forget(name.as_str());
            if tree {
                known.forget_below(name.as_str());
            }
        }
        Ok(())
    }

    /// What is known of a blob, and not pushed of it, moves to its new name.
    fn state_moves(
        &self,
        name: &BlobName,
        new: &BlobName,
        taken: Option<Taken>,
        moved: Option<(ETag, ETag)>,
    ) -> Result<()> {
        let Some(taken) = taken else { return self.sidecars.rename(name, new, moved) };
        let was_there = self.sidecars.get(name)?.is_some_and(|sidecar| sidecar.there.is_some());
        if moved.is_none() && !was_there {
            // Never pushed: it will go over what is at the new name, if that is still the same.
            self.sidecars.forget(name)?;
            // What it changed has nothing to do with the version it will replace.
            self.sidecars.restore_unpushed(new, taken.of_anything())?;
        } else {
            // Void until the version it belongs to is known by its new name.
            self.sidecars.restore_unpushed(new, taken.leaving())?;
            self.sidecars.rename(name, new, moved)?;
            self.sidecars.note_leaving(new, false)?;
        }
        self.queue.rename(name, new);
        Ok(())
    }
}

/// What the top of a rename may go over.
fn target_condition(mode: RenameMode) -> Over {
    match mode {
        RenameMode::NoReplace => Over::Nothing,
        RenameMode::Replace | RenameMode::Exchange => Over::Anything,
    }
}
