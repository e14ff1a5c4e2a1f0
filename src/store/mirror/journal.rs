//! The journal of renames: notes in the container of what is being moved, so that any mount can finish it.
//!
//! A note is written before the first blob is copied and deleted after the last one is gone from its old name. Every step
//! between is conditional and can be repeated, so whoever finds a note that nobody works on any more does all of it again.
//! Undoing a rename is renaming back, under a note of its own.
//!
//! What this mount itself had to leave in the middle is remembered: whoever was told that a rename failed asks for it
//! again, and it goes on; an exchange of trees would then be made twice, so it is undone first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::legs::{Leg, Trip};
use super::moving::is_copy_of;
use super::refresh::{is_away, now};
use super::turns::{Scope, Turn};
use super::{Mirror, OWN_FOLDER, PUSH_TOKEN};
use crate::share::Moment;
use crate::store::upstream::Upstream;
use crate::store::{
    BlobName, BlobPath, BlobProperties, BlobStore, DeleteSnapshots, ETag, ListItem, ListQuery, LocalStore,
    NewContent, Preconditions, Result, StoreError,
};

/// The folder of the notes.
const FOLDER: &str = "renames";
/// A note that was not touched for so long is nobody's any more.
const QUIET: Duration = Duration::from_secs(60);
/// A note of a rename under way is touched this often.
pub(super) const TOUCH: Duration = Duration::from_secs(15);

/// What is being moved. Names are those of the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) from: String,
    pub(super) to: String,
    /// Whether everything below goes along.
    pub(super) tree: bool,
    /// Without: the version that is moved. Whatever somebody makes at the old name later is not.
    pub(super) version: Option<ETag>,
    /// With: when it began, by the service's clock. Whatever somebody makes below the old name later is not moved.
    pub(super) begun: Option<Moment>,
    /// What the top may go over. Whatever somebody makes at the new name later is not replaced.
    #[serde(default)]
    pub(super) over: Over,
    /// Whether the two change places.
    pub(super) exchange: bool,
    /// If they do, and are trees: on which leg that is.
    #[serde(default)]
    pub(super) leg: Option<Leg>,
    /// The mark of the copies.
    pub(super) token: String,
    /// The mirror that works on it.
    pub(super) owner: String,
}

/// What a rename may go over at the new name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Over {
    #[default]
    Anything,
    Nothing,
}

impl Over {
    pub(super) fn condition(self) -> Preconditions {
        match self {
            Self::Anything => Preconditions::default(),
            Self::Nothing => Preconditions::if_absent(),
        }
    }
}

/// Renames of this mount that the service stopped answering in the middle of.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Whoever asks for one again goes on with it under its old token, by which copies that were made are known.
    renames: VecDeque<Note>,
    /// Exchanges of trees that are to be undone. Their names count as worked on until then.
    exchanges: Vec<LeftExchange>,
}

/// An exchange of trees that is to be undone.
#[derive(Debug)]
pub(super) struct LeftExchange {
    pub(super) trip: Trip,
    /// The two trees.
    pub(super) names: [BlobName; 2],
    pub(super) turn: Turn,
}

impl LeftExchange {
    fn scopes(&self) -> Vec<Scope> {
        self.names.iter().map(|name| Scope::Tree(name.as_str().to_owned())).collect()
    }
}

impl Left {
    pub(super) fn add(&mut self, note: Note) {
        if self.renames.len() == LEFT_MAX {
            // The background finds its note at the service.
            self.renames.pop_front();
        }
        self.renames.push_back(note);
    }

    /// The note to work with: the one that was left, if `fresh` asks for the same again.
    pub(super) fn again(&mut self, mut fresh: Note) -> Note {
        let same = |left: &Note| {
            (&left.from, &left.to, left.tree, left.version)
                == (&fresh.from, &fresh.to, fresh.tree, fresh.version)
        };
        let found = self.renames.iter().position(same).and_then(|index| self.renames.remove(index));
        if let Some(left) = found {
            fresh.token = left.token;
        }
        fresh
    }

    /// Others may work on its names as soon as it is known here.
    pub(super) fn add_exchange(&mut self, left: LeftExchange) {
        self.exchanges.push(left);
        self.exchanges.iter().for_each(|left| left.turn.let_pass());
    }

    /// Whether an exchange is to be undone.
    fn holds(&self, token: &str) -> bool {
        self.exchanges.iter().any(|left| left.trip.note.token == token)
    }

    /// The exchange with this token, if nobody else has undone it.
    pub(super) fn take_exchange(&mut self, token: &str) -> Option<LeftExchange> {
        let index = self.exchanges.iter().position(|left| left.trip.note.token == token)?;
        Some(self.exchanges.swap_remove(index))
    }

    /// Exchanges that touch one of these names, or all: their tokens and names.
    pub(super) fn touching(&self, names: Option<&[Scope]>) -> Vec<(String, Vec<Scope>)> {
        let touches = |left: &&LeftExchange| {
            names.is_none_or(|names| {
                let scopes = left.scopes();
                names.iter().any(|name| scopes.iter().any(|own| own.meets(name)))
            })
        };
        let found = self.exchanges.iter().filter(touches);
        found.map(|left| (left.trip.note.token.clone(), left.scopes())).collect()
    }
}

/// Renames that are remembered to be asked for again.
const LEFT_MAX: usize = 1000;
/// How long to wait before notes of others are looked at again, and at most after a failure; at first it is less.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// How often the deletion of a note is tried in the background.
const DELETE_ATTEMPTS: usize = 1000;

async fn delete_note(service: &dyn BlobStore, at: &BlobPath) -> Result<()> {
    match service.delete_blob(at, DeleteSnapshots::Include, &Preconditions::default()).await {
        Ok(()) | Err(StoreError::BlobNotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Finishes what was left, in the background: what earlier mounts left, and whenever this one had to leave something.
pub(super) fn start(mirror: &Arc<Mirror>) {
    let (leftovers, mirror) = (Arc::clone(&mirror.leftovers), Arc::downgrade(mirror));
    let mut wait = FIRST_WAIT;
    tokio::spawn(async move {
        while let Some(strong) = mirror.upgrade() {
            let finished = strong.finish_leftovers().await;
            if !finished.as_ref().is_err_and(is_away) {
                strong.old_changes.settle();
            }
            drop(strong);
            match finished {
                Ok(false) => leftovers.notified().await,
                Ok(true) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(error) => {
                    tracing::debug!(%error, "what was left is finished later");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LOOK_AGAIN);
                }
            }
        }
    });
}

impl Mirror {
    /// Writes a note, or touches it. Answers when that was, by the service's clock.
    pub(super) async fn note_rename(&self, note: &Note) -> Result<Moment> {
        let text = serde_json::to_vec(note)
            .map_err(|error| StoreError::Damaged(format!("a rename cannot be noted: {error}")))?;
        let at = self.note_at(&note.token)?;
        let always = Preconditions::default();
        Ok(self.service.put_blob(&at, text.into(), NewContent::default(), &always).await?.modified)
    }

    /// The rename is over. A note that cannot be deleted now is deleted later: what it asks for is done.
    pub(super) async fn end_rename(&self, note: &Note) -> Result<()> {
        let (service, at) = (Arc::clone(&self.service), self.note_at(&note.token)?);
        if delete_note(&*service, &at).await.is_err() {
            tokio::spawn(async move {
                for _ in 0..DELETE_ATTEMPTS {
                    tokio::time::sleep(LOOK_AGAIN).await;
                    if delete_note(&*service, &at).await.is_ok() {
                        return;
                    }
                }
            });
        }
        Ok(())
    }

    fn note_at(&self, token: &str) -> Result<BlobPath> {
        let name = BlobName::new(format!("{OWN_FOLDER}/{FOLDER}/{token}"))?;
        Ok(BlobPath::new(self.place.container.clone(), name))
    }

    /// Finishes the renames that were left, and then decides about changes of blobs that were on their way elsewhere.
    async fn finish_leftovers(&self) -> Result<bool> {
        let others = self.finish_renames().await?;
        for name in self.sidecars.leaving_names() {
            self.settle_leaving(&name).await?;
        }
        Ok(others)
    }

    /// A mount died, or heard nothing more, while it removed, moved or replaced a blob with changes that are not pushed.
    /// If the service has the version that was changed, they count; else it had got that far, and they are void.
    async fn settle_leaving(&self, name: &BlobName) -> Result<()> {
        let _turn = self.turn_on_name(name).await?;
        let (Some((entry, _)), Some(here)) =
            (self.sidecars.unpushed(name)?, self.store.find(&self.here(name))?.blob)
        else {
            return Ok(());
        };
        let base = self.sidecars.get(name)?.and_then(|sidecar| sidecar.there);
        let there = self.version(&self.there(name)?).await?;
        let is_ours = |found: &BlobProperties| {
            Some(found.etag) == base || found.metadata.get(PUSH_TOKEN) == Some(&*entry.token)
        };
        // An exchange that was undone has brought it back, as another version.
        let back = base.zip(there.as_ref()).filter(|(base, found)| is_copy_of(found, *base));
        let back = back.map(|(base, found)| (base, found.etag));
        let counts = back.is_some() || there.map_or_else(|| base.is_none(), |found| is_ours(&found));
        if let Some(back) = back {
            self.sidecars.follow(name, back)?;
        }
        match entry.leaving {
            true if counts => self.sidecars.note_leaving(name, false).map(drop),
            true => self.let_go(name, here.etag).await,
            // Somebody changed it meanwhile.
            false => Ok(()),
        }
    }

    /// Finishes renames that this mirror did not finish, and those of others that nobody works on any more. Answers
    /// whether there are some that may still be worked on.
    pub async fn finish_renames(&self) -> Result<bool> {
        let owner = self.sidecars.owner()?;
        let mut others = false;
        let mut finished = self.undo_left(None).await;
        for (note, touched) in self.notes().await? {
            let age = now().0.saturating_sub(touched.0);
            let quiet = i64::try_from(QUIET.as_nanos()).is_ok_and(|quiet| age >= quiet);
            if note.owner != owner && !quiet {
                others = true;
                continue;
            }
            if note.owner == owner && self.renaming.lock().contains(&note.token) {
                continue;
            }
            let scope =
                |name: &str| Scope::Tree(name.strip_prefix(&*self.place.prefix).unwrap_or(name).to_owned());
            let turn = self.turns.take(vec![scope(&note.from), scope(&note.to)]).await;
            // Whoever had the turn before may have finished it, or left it to be undone.
            if self.left.lock().holds(&note.token)
                || self.version(&self.note_at(&note.token)?).await?.is_none()
            {
                continue;
            }
            tracing::info!(from = note.from, to = note.to, "finishing a rename");
            let redone = self.redo(&note).await;
            // Nobody moves anything here. Listings that left the names alone meanwhile are not believed, so that the
            // new names show as soon as the note is gone.
            turn.rest();
            self.known.lock().doubt_all(Instant::now());
            // One that cannot be finished yet is in no other's way.
            finished = match redone {
                Ok(()) => finished.and(self.end_rename(&note).await),
                Err(error) => finished.and(Err(error)),
            };
        }
        finished.map(|()| others)
    }

    /// Whether a note is still there, and this mirror's to work on.
    pub(super) async fn is_ours(&self, note: &Note) -> Result<bool> {
        let found = self.read_note(&self.note_at(&note.token)?).await?;
        Ok(found.is_some_and(|found| found.owner == note.owner))
    }

    async fn read_note(&self, at: &BlobPath) -> Result<Option<Note>> {
        let body = match self.service.get_blob(at, None, None, &Preconditions::default()).await {
            Ok(download) => download.body,
            Err(StoreError::BlobNotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let note = serde_json::from_slice(&body);
        Ok(note
            .inspect_err(|error| tracing::warn!(%at, %error, "a note of a rename that cannot be read"))
            .ok())
    }

    async fn notes(&self) -> Result<Vec<(Note, Moment)>> {
        let prefix = format!("{OWN_FOLDER}/{FOLDER}/");
        let mut query = ListQuery { prefix, max: 1000, ..ListQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = self.service.list_blobs(&self.place.container, &query).await?;
            for item in page.items {
                let ListItem::Blob { name, properties } = item else { continue };
                let note = self.read_note(&self.in_container(&name)?).await?;
                found.extend(note.map(|note| (note, properties.modified)));
            }
            query.marker = page.next;
            if query.marker.is_none() {
                return Ok(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_earlier_versions_are_read() {
        let text = r#"{"from":"a","to":"b","tree":true,"version":null,"begun":5,"exchange":false,"token":"t","owner":"o"}"#;
        let note: Note = serde_json::from_str(text).unwrap();
        assert_eq!((note.leg, note.over, note.begun), (None, Over::Anything, Some(Moment(5))));
        let exchange = Note { exchange: true, leg: Some(Leg::FIRST), ..note };
        let again: Note = serde_json::from_slice(&serde_json::to_vec(&exchange).unwrap()).unwrap();
        assert_eq!(again, exchange);
    }
}
