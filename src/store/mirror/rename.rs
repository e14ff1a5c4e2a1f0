//! Renames at the service, which knows none: everything is copied and deleted, under a note in the journal.
//!
//! ```text
//!   note ─▶ for every blob: copy (if it is still that version, if the target is as expected) ─▶ delete (if still that
//!   version) ─▶ note deleted ─▶ what is known here moves along
//! ```
//!
//! A file that the service never had is renamed here only. A rename that is refused in the middle is renamed back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};

use super::journal::{Note, Over, TOUCH};
use super::moving::{Move, Moved, is_marked, marked_version};
use super::refresh::{IS_FOLDER, is_away};
use super::state::{Unpushed, new_token};
use super::turns::Scope;
use super::{Mirror, OWN_FOLDER};
use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::upstream::{Fence, Settling, Upstream};
use crate::store::{
    BlobName, BlobPage, BlobPath, BlobProperties, DeleteSnapshots, ListItem, ListQuery, LocalStore,
    Preconditions, RenameMode, Result, StoreError, crash_point,
};

/// Blobs that are moved at a time.
const PARALLEL: usize = 32;
/// Blobs that are listed at a time.
const PAGE: usize = 1000;

/// What was moved, by the old name in the container.
type Done = HashMap<String, Moved>;
/// What an exchange moved from each of its names, as far as it is known.
#[derive(Debug, Default)]
struct Exchanged {
    from: Option<Moved>,
    to: Option<Moved>,
}

/// One of them as it ends: nothing was moved if it was not there any more.
type MovedName = Result<(String, Option<Moved>)>;

impl Mirror {
    /// [`Upstream::rename`].
    pub(super) async fn rename_there(
        &self,
        from: &BlobName,
        to: &BlobName,
        mode: RenameMode,
        fence: Fence,
    ) -> Result<Settling> {
        let scopes = [from, to].map(|name| Scope::Tree(name.as_str().to_owned()));
        let turn = self.turns.take(scopes.into()).await;
        let tree = self.is_tree(from)?;
        match mode {
            RenameMode::Exchange if tree || self.is_tree(to)? => {
                return Err(StoreError::NotSupported("exchanging directories"));
            }
            RenameMode::Exchange => self.exchange(from, to, fence).await?,
            RenameMode::Replace | RenameMode::NoReplace if !tree && self.was_never_there(from)? => {
                self.keep_parent(from).await?;
                self.rename_state(from, to, tree, &Done::new())?;
            }
            RenameMode::Replace | RenameMode::NoReplace => {
                self.push_below(from, fence).await?;
                self.keep_parent(from).await?;
                let done = self.rename_noted(from, to, mode, tree, fence).await?;
                crash_point("rename_there_after_move");
                self.rename_state(from, to, tree, &done)?;
            }
        }
        crash_point("rename_there_after_state");
        Ok(Settling::until_dropped(turn))
    }

    fn is_tree(&self, name: &BlobName) -> Result<bool> {
        let found = self.store.find(&self.here(name))?;
        let is_folder = found.blob.is_some_and(|blob| blob.metadata.contains_key(IS_FOLDER));
        Ok(found.prefix.is_some() || is_folder)
    }

    /// Whether the service never had a blob, and nothing is on its way there.
    fn was_never_there(&self, name: &BlobName) -> Result<bool> {
        let has_version = self.sidecars.get(name)?.is_some_and(|sidecar| sidecar.there.is_some());
        Ok(!has_version && self.sidecars.is_unpushed(name) && !self.queue.holds(name))
    }

    /// Pushes what is not pushed of a tree, so that it can be moved there.
    async fn push_below(&self, top: &BlobName, fence: Fence) -> Result<()> {
        for name in self.sidecars.unpushed_names(Some(top.as_str())) {
            if !self.was_never_there(&name)? {
                self.push_in_turn(&name, Fence { lease: fence.lease.filter(|_| name == *top), ..fence })
                    .await?;
            }
        }
        Ok(())
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
        let over = self.target_condition(to, mode, tree, fence)?;
        let fresh = Note { version, tree, over, ..self.new_note(&at, &target)? };
        let mut note = self.left.lock().again(fresh);
        let token = note.token.clone();
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
            let mut done = Done::new();
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
            }
            self.leftovers.notify_one();
        }
        done
    }

    fn new_note(&self, from: &BlobPath, to: &BlobPath) -> Result<Note> {
        Ok(Note {
            from: from.name.as_str().to_owned(),
            to: to.name.as_str().to_owned(),
            tree: false,
            version: None,
            begun: None,
            over: Over::Anything,
            exchange: false,
            token: new_token(),
            owner: self.sidecars.owner()?,
        })
    }

    /// What the top of a rename may go over.
    fn target_condition(&self, to: &BlobName, mode: RenameMode, tree: bool, fence: Fence) -> Result<Over> {
        let there = self.sidecars.get(to)?.and_then(|sidecar| sidecar.there);
        Ok(match (mode, there) {
            (RenameMode::NoReplace, _) => Over::Nothing,
            // An empty directory gives way whatever its attributes are.
            (RenameMode::Replace | RenameMode::Exchange, _) if tree || !fence.check_version => Over::Anything,
            (RenameMode::Replace | RenameMode::Exchange, Some(etag)) => Over::Version(etag),
            (RenameMode::Replace | RenameMode::Exchange, None) => Over::Nothing,
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
        let at = |name: &str| {
            Ok::<_, StoreError>(BlobPath::new(self.place.container.clone(), BlobName::new(name)?))
        };
        let (from, to) = (at(&note.from)?, at(&note.to)?);
        let one = Move { from: &from, to: &to, target: note.over.condition(), lease, token: &note.token };
        // The top comes last: as long as it is there, the directory is.
        if note.tree {
            self.move_below(note, newest, done).await?;
        }
        if let Some(moved) = self.move_blob(&one, known).await? {
            done.insert(note.from.clone(), moved);
        } else if !note.tree {
            // Not there any more: perhaps because an earlier attempt moved it.
            let ours = self.version(&to).await?.filter(|found| is_marked(found, &note.token));
            let missing = || StoreError::BlobNotFound(note.from.clone());
            let is = ours.ok_or_else(missing)?.etag;
            if let Some(was) = note.version {
                done.insert(note.from.clone(), Moved { was, is });
            }
        }
        Ok(())
    }

    /// Moves everything below the name of a note, a page at a time.
    async fn move_below(&self, note: &Note, newest: Option<Moment>, done: &mut Done) -> Result<()> {
        let prefix = format!("{}/", note.from);
        let mut query = ListQuery { prefix, max: PAGE, ..ListQuery::default() };
        let mut touched = Instant::now();
        let mut seen = 0;
        loop {
            let page = self.service.list_blobs(&self.place.container, &query).await?;
            seen += page.items.len() as u64;
            query.marker.clone_from(&page.next);
            let mut moves = stream::iter(self.moves(note, page, newest)?).buffer_unordered(PARALLEL);
            let mut failed = Ok(());
            while let Some(moved) = moves.next().await {
                match moved {
                    Ok((name, Some(moved))) => {
                        done.insert(name, moved);
                        *self.moving.lock() = Some((done.len() as u64, seen));
                    }
                    Ok((_, None)) => {}
                    // Those under way are waited for, so that all that was done can be undone.
                    Err(error) => failed = failed.and(Err(error)),
                }
                if touched.elapsed() >= TOUCH {
                    self.note_rename(note).await?;
                    touched = Instant::now();
                }
            }
            failed?;
            if query.marker.is_none() {
                return Ok(());
            }
        }
    }

    /// The moves of one page, not begun yet.
    fn moves<'m>(
        &'m self,
        note: &'m Note,
        page: BlobPage,
        newest: Option<Moment>,
    ) -> Result<Vec<impl Future<Output = MovedName> + Send + 'm>> {
        let mut moves = Vec::with_capacity(page.items.len());
        for item in page.items {
            let ListItem::Blob { name, properties } = item else { continue };
            let Some(rest) = name.strip_prefix(&*note.from) else { continue };
            if newest.is_some_and(|newest| properties.modified > newest) {
                continue;
            }
            let place = |name: String| {
                Ok::<_, StoreError>(BlobPath::new(self.place.container.clone(), BlobName::new(name)?))
            };
            let (from, to) = (place(name.clone())?, place(format!("{}{rest}", note.to))?);
            moves.push(async move {
                let target = Preconditions::if_absent();
                let one = Move { from: &from, to: &to, target, lease: None, token: &note.token };
                Ok((name, self.move_blob(&one, Some(properties)).await?))
            });
        }
        Ok(moves)
    }

    /// Renames back what was renamed, as far as that goes.
    async fn undo(&self, note: &Note, done: &Done) -> Result<()> {
        if done.is_empty() {
            return self.end_rename(note).await;
        }
        let (from, to) = (note.to.clone(), note.from.clone());
        let over = if note.tree { Over::Anything } else { Over::Nothing };
        let back = Note { from, to, over, version: None, begun: None, token: new_token(), ..note.clone() };
        self.note_rename(&back).await?;
        self.end_rename(note).await?;
        self.finish(&back).await
    }

    /// Does everything that a note asks for (again), and deletes it.
    pub(super) async fn finish(&self, note: &Note) -> Result<()> {
        let from = BlobPath::new(self.place.container.clone(), BlobName::new(note.from.as_str())?);
        let now = self.version(&from).await?.map(|found| found.etag);
        if note.exchange {
            self.finish_exchange(note).await?;
        } else if note.version.is_none() || note.version == now {
            match self.move_all(note, None, None, note.begun, &mut Done::new()).await {
                // What somebody made meanwhile stays where it is.
                Ok(())
                | Err(
                    StoreError::BlobExists(_) | StoreError::BlobNotFound(_) | StoreError::ConditionNotMet,
                ) => {}
                Err(error) => return Err(error),
            }
        }
        self.end_rename(note).await
    }

    /// What is known here moves along.
    fn rename_state(&self, from: &BlobName, to: &BlobName, tree: bool, done: &Done) -> Result<()> {
        self.sidecars.drop_unpushed(to)?;
        self.queue.forget(to);
        let below = self.mirrored_below(from)?.into_iter().map(|(name, _)| name);
        for name in std::iter::once(from.clone()).chain(below) {
            let rest = name.as_str().strip_prefix(from.as_str()).unwrap_or_default();
            let new = BlobName::new(format!("{to}{rest}"))?;
            let moved = done.get(&format!("{}{name}", self.place.prefix)).map(|moved| (moved.was, moved.is));
            let entry = self.sidecars.drop_unpushed(&name)?;
            match (entry, moved) {
                // Never pushed: it will go over what is at the new name, if that is still the same.
                (Some(entry), None)
                    if self.sidecars.get(&name)?.is_none_or(|sidecar| sidecar.there.is_none()) =>
                {
                    self.sidecars.forget(&name)?;
                    // What it changed has nothing to do with the version it will replace.
                    let entry = Unpushed { ranges: None, ..entry };
                    self.sidecars.restore_unpushed(&new, entry)?;
                    self.queue.rename(&name, &new);
                }
                (entry, moved) => {
                    self.sidecars.rename(&name, &new, moved)?;
                    if let Some(entry) = entry {
                        self.sidecars.restore_unpushed(&new, entry)?;
                        self.queue.rename(&name, &new);
                    }
                }
            }
        }
        self.contents.moved(from, to);
        let mut known = self.known.lock();
        for name in [from, to] {
            known.forget(name.as_str());
            if tree {
                known.forget_below(name.as_str());
            }
        }
        Ok(())
    }

    /// Two blobs change places, by way of a third.
    async fn exchange(&self, one: &BlobName, other: &BlobName, fence: Fence) -> Result<()> {
        for name in [one, other] {
            self.push_in_turn(name, Fence { lease: fence.lease.filter(|_| name == one), ..fence }).await?;
        }
        let (from, to) = (self.there(one)?, self.there(other)?);
        let note = Note { exchange: true, ..self.new_note(&from, &to)? };
        self.renaming.lock().insert(note.token.clone());
        let done = async {
            self.note_rename(&note).await?;
            let aside = self.aside(&note)?;
            let found = self.version(&to).await?.ok_or_else(|| StoreError::BlobNotFound(to.to_string()))?;
            let step = Move {
                from: &to,
                to: &aside,
                target: Preconditions::default(),
                lease: None,
                token: &note.token,
            };
            self.copy_marked(&found, &step).await?;
            crash_point("exchange_after_aside");
            let moved = self.finish_exchange(&note).await?;
            self.end_rename(&note).await?;
            Ok(moved)
        };
        let done: Result<Exchanged> = done.await;
        self.renaming.lock().remove(&note.token);
        if done.is_err() {
            self.leftovers.notify_one();
        }
        let Exchanged { from, to } = done?;
        let moved = |moved: Option<Moved>| moved.map(|moved| (moved.was, moved.is));
        self.sidecars.exchange((one, moved(from)), (other, moved(to)))?;
        self.contents.exchanged(one, other);
        for name in [one, other] {
            self.known.lock().forget(name.as_str());
        }
        Ok(())
    }

    fn aside(&self, note: &Note) -> Result<BlobPath> {
        let name = BlobName::new(format!("{OWN_FOLDER}/aside/{}", note.token))?;
        Ok(BlobPath::new(self.place.container.clone(), name))
    }

    /// The rest of an exchange whose second blob may have been put aside. Can be repeated.
    async fn finish_exchange(&self, note: &Note) -> Result<Exchanged> {
        let at = |name: &str| {
            Ok::<_, StoreError>(BlobPath::new(self.place.container.clone(), BlobName::new(name)?))
        };
        let (from, to, aside) = (at(&note.from)?, at(&note.to)?, self.aside(note)?);
        let mut done = Exchanged::default();
        let Some(kept) = self.version(&aside).await? else { return Ok(done) };
        let always = Preconditions::default();
        let marked = async |at: &BlobPath| {
            Ok::<_, StoreError>(self.version(at).await?.is_some_and(|found| is_marked(&found, &note.token)))
        };
        if !marked(&to).await? {
            let found =
                self.version(&from).await?.ok_or_else(|| StoreError::BlobNotFound(from.to_string()))?;
            let step = Move { from: &from, to: &to, target: always.clone(), lease: None, token: &note.token };
            let is = self.copy_marked(&found, &step).await?;
            done.from = Some(Moved { was: found.etag, is });
            crash_point("exchange_after_copy");
        }
        if !marked(&from).await? {
            let step =
                Move { from: &aside, to: &from, target: always.clone(), lease: None, token: &note.token };
            let is = self.copy_marked(&kept, &step).await?;
            done.to = marked_version(&kept, &note.token).map(|was| Moved { was, is });
        }
        match self.service.delete_blob(&aside, DeleteSnapshots::Include, &always).await {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => Ok(done),
            Err(error) => Err(error),
        }
    }
}
