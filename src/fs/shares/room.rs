//! How much room a share has left below a limit that a front end sets.
//!
//! Counting looks at every file, so the count is remembered, and what was granted since is added: at once, under one
//! mutex, and taken back should the call fail. So calls together never go over the limit. Whoever seems to have no room
//! waits until no granted call is under way, and has everything counted anew.
//!
//! ```text
//!   grant:   shared turn ── the whole file fits the remembered count? ── yes ─▶ counted; the turn is held until
//!                                   | no, or it is old                          the call is done
//!            whole turn (others are done) ── count anew ── what the file grows by fits? ── no ─▶ refused
//! ```
//!
//! Programs on a mount are not limited, only counted: with what they have closed, when it is counted the next time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::{Instant, timeout};

use crate::store::ContainerName;

use super::super::error::{FsError, Result};
use super::super::requests::{FilePath, Requests};
use super::Shares;

/// A count is good for so long.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// Nobody is refused by a count older than this.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long a call that seems to have no room waits for others to be done.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is known of a share.
#[derive(Debug, Default)]
pub(super) struct Room {
    known: Mutex<Known>,
    /// Shared by granted calls under way; whole for whoever counts.
    turn: Arc<RwLock<()>>,
}

#[derive(Debug, Default)]
struct Known {
    bytes: u64,
    /// When it was counted; nothing if it never was.
    at: Option<Instant>,
    /// Something was granted, moved or removed since: there may be more room than this says.
    loose: bool,
}

/// Room for a call. It counts from the moment it is granted; dropped, it is given back unless it was [used](Self::used).
#[derive(Debug)]
pub struct Grant {
    room: Arc<Room>,
    bytes: u64,
    used: bool,
    _turn: OwnedRwLockReadGuard<()>,
}

impl Grant {
    /// The call was done: the room is taken.
    pub fn used(mut self) {
        self.used = true;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.used {
            let mut known = self.room.known.lock();
            known.bytes = known.bytes.saturating_sub(self.bytes);
        }
    }
}

impl Room {
    /// Takes room, if the count is not older than `good_for` and leaves some.
    fn take(&self, limit: u64, growth: u64, good_for: Duration) -> bool {
        let mut known = self.known.lock();
        let fits = known.bytes.checked_add(growth).filter(|bytes| *bytes <= limit);
        match (known.at, fits) {
            (Some(at), Some(bytes)) if at.elapsed() < good_for => {
                (known.bytes, known.loose) = (bytes, true);
                true
            }
            _ => false,
        }
    }

    /// Whether somebody may be refused by what is known.
    fn is_exact(&self) -> bool {
        let known = self.known.lock();
        !known.loose && known.at.is_some_and(|at| at.elapsed() < FRESH_FOR)
    }
}

impl Shares {
    /// Room for a call that is going to give the file at `path` a size, in a share that may have `limit` bytes; nothing if
    /// there is none.
    pub async fn make_room(
        &self,
        name: &ContainerName,
        limit: u64,
        (share, path): (&Requests, &FilePath),
        size: u64,
    ) -> Result<Option<Grant>> {
        let room = Arc::clone(self.rooms.lock().entry(name.clone()).or_default());
        let grant = |bytes, turn| Grant { room: Arc::clone(&room), bytes, used: false, _turn: turn };
        let turn = Arc::clone(&room.turn).read_owned().await;
        if room.take(limit, size, GOOD_FOR) {
            return Ok(Some(grant(size, turn)));
        }
        drop(turn);
        let whole = timeout(PATIENCE, Arc::clone(&room.turn).write_owned()).await;
        let whole = whole.map_err(|_| FsError::TimedOut("other calls of the share".to_owned()))?;
        if !room.is_exact() {
            let bytes = self.usage(name).await?;
            *room.known.lock() = Known { bytes, at: Some(Instant::now()), loose: false };
        }
        // What it has already is counted, and stays so while nobody else has a turn.
        let growth = size.saturating_sub(share.file_properties(path, None).await.map_or(0, |file| file.size));
        if room.take(limit, growth, GOOD_FOR) {
            return Ok(Some(grant(growth, OwnedRwLockWriteGuard::downgrade(whole))));
        }
        Ok(None)
    }

    /// The turn of a call that moves or removes files of a share, if anybody counts them: not while somebody is counting.
    pub async fn moving_turn(&self, name: &ContainerName) -> Option<OwnedRwLockReadGuard<()>> {
        let room = self.rooms.lock().get(name).cloned()?;
        let turn = Arc::clone(&room.turn).read_owned().await;
        room.known.lock().loose = true;
        Some(turn)
    }
}
