//! The journal of renames: notes in the container of what is being moved, so that any mount can finish it.
//!
//! A note is written before the first blob is copied and deleted after the last one is gone from its old name. Every step
//! between is conditional and can be repeated, so whoever finds a note that nobody works on any more does all of it again.
//! Undoing a rename is renaming back, under a note of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::refresh::now;
use super::turns::Scope;
use super::{Mirror, OWN_FOLDER};
use crate::share::Moment;
use crate::store::{
    BlobName, BlobPath, BlobStore, DeleteSnapshots, ETag, ListItem, ListQuery, NewContent, Preconditions,
    Result, StoreError,
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
    Version(ETag),
}

impl Over {
    pub(super) fn condition(self) -> Preconditions {
        match self {
            Self::Anything => Preconditions::default(),
            Self::Nothing => Preconditions::if_absent(),
            Self::Version(etag) => Preconditions::if_version(etag),
        }
    }
}

/// Renames of this mount that the service stopped answering in the middle of. Whoever asks for one again goes on with it
/// under its old token, by which copies that were made are known.
#[derive(Debug, Default)]
pub(super) struct Left(VecDeque<Note>);

impl Left {
    pub(super) fn add(&mut self, note: Note) {
        if self.0.len() == LEFT_MAX {
            // The background finds its note at the service.
            self.0.pop_front();
        }
        self.0.push_back(note);
    }

    /// The note to work with: the one that was left, if `fresh` asks for the same again.
    pub(super) fn again(&mut self, mut fresh: Note) -> Note {
        let same = |left: &Note| {
            (&left.from, &left.to, left.tree, left.version)
                == (&fresh.from, &fresh.to, fresh.tree, fresh.version)
        };
        let found = self.0.iter().position(same).and_then(|index| self.0.remove(index));
        if let Some(left) = found {
            fresh.token = left.token;
        }
        fresh
    }
}

/// Renames that are remembered to be asked for again.
const LEFT_MAX: usize = 1000;
/// How long to wait before notes of others are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

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
    tokio::spawn(async move {
        while let Some(strong) = mirror.upgrade() {
            let finished = strong.finish_renames().await;
            drop(strong);
            match finished {
                Ok(false) => leftovers.notified().await,
                Ok(true) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(error) => {
                    tracing::debug!(%error, "renames that were left are finished later");
                    tokio::time::sleep(LOOK_AGAIN).await;
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

    /// Finishes renames that this mirror did not finish, and those of others that nobody works on any more. Answers
    /// whether there are some that may still be worked on.
    pub async fn finish_renames(&self) -> Result<bool> {
        let owner = self.sidecars.owner()?;
        let mut others = false;
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
            let _turn = self.turns.take(vec![scope(&note.from), scope(&note.to)]).await;
            // Whoever had the turn before may have finished it.
            if self.version(&self.note_at(&note.token)?).await?.is_some() {
                tracing::info!(from = note.from, to = note.to, "finishing a rename");
                self.finish(&note).await?;
            }
        }
        Ok(others)
    }

    async fn notes(&self) -> Result<Vec<(Note, Moment)>> {
        let prefix = format!("{OWN_FOLDER}/{FOLDER}/");
        let mut query = ListQuery { prefix, max: 1000, ..ListQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = self.service.list_blobs(&self.place.container, &query).await?;
            for item in page.items {
                let ListItem::Blob { name, properties } = item else { continue };
                let at = BlobPath::new(self.place.container.clone(), BlobName::new(name)?);
                let body = match self.service.get_blob(&at, None, None, &Preconditions::default()).await {
                    Ok(download) => download.body,
                    Err(StoreError::BlobNotFound(_)) => continue,
                    Err(error) => return Err(error),
                };
                match serde_json::from_slice(&body) {
                    Ok(note) => found.push((note, properties.modified)),
                    Err(error) => tracing::warn!(%at, %error, "a note of a rename that cannot be read"),
                }
            }
            query.marker = page.next;
            if query.marker.is_none() {
                return Ok(found);
            }
        }
    }
}
