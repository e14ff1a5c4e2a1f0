//! Two names change places at the service, by way of a third.
//!
//! ```text
//!   files   copy of the second aside ─▶ copy over the second ─▶ copy over the first: both are there all the time
//!   trees   everything is moved in three legs (legs.rs), and back if one is refused
//! ```
//!
//! What is not pushed of two trees is pushed before, so that everything goes along there. Then the blobs here change
//! places, and what is known of them. What is written in place is noted as in a rename (rename.rs): there is always
//! something not pushed of it. An exchange of trees that the service stops answering in the middle of is undone as soon
//! as it answers again; until then their names are left as they are here.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::journal::{LeftExchange, Note};
use super::legs::{Leg, Trip};
use super::moving::{Move, Moved, is_marked, marked_version};
use super::refresh::is_away;
use super::rename::Here;
use super::state::Taken;
use super::sweep::PARALLEL;
use super::turns::{Scope, Turn};
use super::{Mirror, OWN_FOLDER};
use crate::store::upstream::{Fence, Upstream};
use crate::store::{
    BlobName, BlobPath, DeleteSnapshots, ETag, Preconditions, Result, StoreError, crash_point,
};

/// What an exchange moved from each of its names, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Exchanged {
    from: Option<Moved>,
    to: Option<Moved>,
}

/// A blob here that gets another name.
struct Moving {
    old: BlobName,
    new: BlobName,
    /// What became of its version there.
    moved: Option<(ETag, ETag)>,
    /// What is not pushed of it.
    taken: Option<Taken>,
}

impl Mirror {
    /// Two trees change places, one of which may be a file. For whoever has the turn on both.
    pub(super) async fn exchange_trees(
        &self,
        from: &BlobName,
        to: &BlobName,
        fence: Fence,
        turn: Turn,
        here: &Here<'_>,
    ) -> Result<()> {
        let scopes = [from, to].map(|name| Scope::Tree(name.as_str().to_owned()));
        if scopes[0].meets(&scopes[1]) {
            return Err(StoreError::InvalidRename { from: from.to_string(), to: to.to_string() });
        }
        self.push_tree(from, fence).await?;
        self.push_tree(to, Fence { lease: None, ..fence }).await?;
        // What goes aside is moved twice: rather the smaller one, as far as is known.
        let smaller = self.mirrored_below(from)?.len() < self.mirrored_below(to)?.len();
        let (one, other) = if smaller { (to, from) } else { (from, to) };
        let note = self.new_note(&self.there(one)?, &self.there(other)?)?;
        let mut trip = Trip::new(Note { tree: true, exchange: true, leg: Some(Leg::FIRST), ..note });
        let token = trip.note.token.clone();
        self.note_all_leaving(one, other, true)?;
        self.renaming.lock().insert(token.clone());
        let gone = self.go_along(&mut trip).await;
        *self.moving.lock() = None;
        let refused = match gone {
            Ok(refused) => refused,
            Err(error) => {
                // What is not pushed counts again when it is undone.
                trip.leave();
                let names = [one.clone(), other.clone()];
                self.left.lock().add_exchange(LeftExchange { trip, names, turn });
                self.renaming.lock().remove(&token);
                self.leftovers.notify_one();
                return Err(error);
            }
        };
        let ended = self.end_rename(&trip.note).await;
        self.renaming.lock().remove(&token);
        if let Some(error) = refused {
            self.note_all_leaving(one, other, false)?;
            return Err(match error {
                // Somebody was faster: who asks again finds what is there now.
                StoreError::BlobExists(_) => StoreError::ConditionNotMet,
                error => error,
            });
        }
        ended?;
        crash_point("rename_there_after_move");
        self.exchange_here((one, other), &trip, here)
    }

    /// Pushes what is not pushed of a tree, also what was never there, so that it can be moved there.
    pub(super) async fn push_tree(&self, top: &BlobName, fence: Fence) -> Result<()> {
        let push = async |name: BlobName| {
            let lease = fence.lease.filter(|_| name == *top);
            self.push_in_turn(&name, Fence { lease, ..fence }).await
        };
        let waiting = self.sidecars.unpushed_names(Some(top.as_str()));
        stream::iter(waiting).map(push).buffer_unordered(PARALLEL).try_collect().await
    }

    /// What changed places there does so here, and what is known of it.
    fn exchange_here(
        &self,
        (one, other): (&BlobName, &BlobName),
        trip: &Trip,
        here: &Here<'_>,
    ) -> Result<()> {
        let mut moving = Vec::new();
        for (top, moved) in [(one, &trip.one), (other, &trip.other)] {
            let below = self.mirrored_below(top)?.into_iter().map(|(name, _)| name);
            for old in std::iter::once(top.clone()).chain(below) {
                let Some(new) = exchanged(&old, one, other) else { continue };
                let rest = old.as_str().strip_prefix(top.as_str()).unwrap_or_default();
                let moved = moved.get(rest).map(|moved| (moved.was, moved.is));
                let taken = self.sidecars.take_unpushed(&old)?;
                moving.push(Moving { old, new, moved, taken });
            }
        }
        crash_point("rename_there_after_state");
        here()?;
        crash_point("rename_there_after_here");
        self.exchange_state(moving)?;
        self.contents.moved(|name| exchanged(name, one, other));
        self.known.lock().exchange(one.as_str(), other.as_str());
        Ok(())
    }

    /// What is known of blobs, and not pushed of them, moves to their new names.
    fn exchange_state(&self, moving: Vec<Moving>) -> Result<()> {
        // A name can be an old and a new one: everything is looked at before anything is written.
        let (mut known, mut changed) = (Vec::with_capacity(moving.len()), Vec::new());
        for Moving { old, new, moved, taken } in moving {
            let was_there = self.sidecars.get(&old)?.is_some_and(|sidecar| sidecar.there.is_some());
            let was_never_there = moved.is_none() && !was_there;
            match taken {
                // As in a rename: void until the version it belongs to is known by its new name.
                Some(taken) => {
                    let taken = if was_never_there { taken.of_anything() } else { taken.leaving() };
                    changed.push((old.clone(), new.clone(), taken));
                }
                None => self.queue.forget(&old),
            }
            let state = self.sidecars.moved(&old, moved)?;
            known.push((old, new, state));
        }
        let renamed: Vec<_> = changed.iter().map(|(old, new, _)| (old, new)).collect();
        self.queue.rename_all(&renamed);
        let mut names = Vec::with_capacity(changed.len());
        for (_, new, taken) in changed {
            self.sidecars.restore_unpushed(&new, taken)?;
            names.push(new);
        }
        for (old, ..) in &known {
            self.sidecars.forget(old)?;
            self.early.forget(old);
        }
        for (_, new, (sidecar, layout)) in known {
            self.sidecars.replace(&new, sidecar, layout)?;
        }
        for name in names {
            self.sidecars.note_leaving(&name, false)?;
        }
        Ok(())
    }

    /// Two blobs change places, by way of a third.
    pub(super) async fn exchange_files(
        &self,
        one: &BlobName,
        other: &BlobName,
        fence: Fence,
        here: &Here<'_>,
    ) -> Result<()> {
        for name in [one, other] {
            self.push_in_turn(name, Fence { lease: fence.lease.filter(|_| name == one), ..fence }).await?;
        }
        self.note_all_leaving(one, other, true)?;
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
                leg: "",
            };
            self.copy_marked(&found, &step).await?;
            crash_point("exchange_after_aside");
            let moved = self.finish_exchange(&note).await?;
            self.end_rename(&note).await?;
            Ok(moved)
        };
        let done: Result<Exchanged> = done.await;
        self.renaming.lock().remove(&note.token);
        if let Err(error) = &done {
            if !is_away(error) {
                self.note_all_leaving(one, other, false)?;
            }
            self.leftovers.notify_one();
        }
        let Exchanged { from, to } = done?;
        let taken = [(other, self.sidecars.take_unpushed(one)?), (one, self.sidecars.take_unpushed(other)?)];
        crash_point("exchange_before_here");
        here()?;
        for (name, taken) in taken {
            // As in a rename.
            if let Some(taken) = taken {
                self.sidecars.restore_unpushed(name, taken.leaving())?;
            }
        }
        let moved = |moved: Option<Moved>| moved.map(|moved| (moved.was, moved.is));
        self.sidecars.exchange((one, moved(from)), (other, moved(to)))?;
        self.note_all_leaving(one, other, false)?;
        self.contents.moved(|name| exchanged(name, one, other).filter(|_| name == one || name == other));
        for name in [one, other] {
            self.known.lock().forget(name.as_str());
        }
        Ok(())
    }

    fn aside(&self, note: &Note) -> Result<BlobPath> {
        self.in_container(&format!("{OWN_FOLDER}/aside/{}", note.token))
    }

    /// The rest of an exchange whose second blob may have been put aside. Can be repeated.
    pub(super) async fn finish_exchange(&self, note: &Note) -> Result<Exchanged> {
        let (from, to) = (self.in_container(&note.from)?, self.in_container(&note.to)?);
        let aside = self.aside(note)?;
        let mut done = Exchanged::default();
        let Some(kept) = self.version(&aside).await? else { return Ok(done) };
        let always = Preconditions::default();
        let marked = async |at: &BlobPath| {
            Ok::<_, StoreError>(
                self.version(at).await?.is_some_and(|found| is_marked(&found, &note.token, "")),
            )
        };
        if !marked(&to).await? {
            let found =
                self.version(&from).await?.ok_or_else(|| StoreError::BlobNotFound(from.to_string()))?;
            let step = Move {
                from: &from,
                to: &to,
                target: always.clone(),
                lease: None,
                token: &note.token,
                leg: "",
            };
            let is = self.copy_marked(&found, &step).await?;
            done.from = Some(Moved { was: found.etag, is });
            crash_point("exchange_after_copy");
        }
        if !marked(&from).await? {
            let step = Move {
                from: &aside,
                to: &from,
                target: always.clone(),
                lease: None,
                token: &note.token,
                leg: "",
            };
            let is = self.copy_marked(&kept, &step).await?;
            done.to = marked_version(&kept, &note.token).map(|was| Moved { was, is });
        }
        match self.service.delete_blob(&aside, DeleteSnapshots::Include, &always).await {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => Ok(done),
            Err(error) => Err(error),
        }
    }
}

/// The name that a blob of two trees that change places gets; nothing if it is in neither.
fn exchanged(name: &BlobName, one: &BlobName, other: &BlobName) -> Option<BlobName> {
    let below = |top: &BlobName| {
        let rest = name.as_str().strip_prefix(top.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let to_other = below(one).map(|rest| format!("{other}{rest}"));
    let new = to_other.or_else(|| below(other).map(|rest| format!("{one}{rest}")))?;
    BlobName::new(new).ok()
}
