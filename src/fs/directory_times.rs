//! Times of directories whose entries changed lately.
//!
//! Every create, remove and rename changes its directory's times. Writing the directory's marker blob each time
//! would double the cost of a create, so the times are kept here and written a little later: when enough have
//! gathered, every few seconds, at fsync of the directory and at unmount.
//!
//! A time stays here until it is written, and is what `stat` answers until then. It never overwrites one that was set
//! meanwhile: it is written as part of the attributes of that moment. Its directory is not forgotten before.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::share::Moment;

use super::error::FsError;
use super::nodes::{Ino, Nodes, PathHold, ROOT};
use super::{Engine, now};

/// When more directories than this wait, they are written without delay.
const WAITING_MANY: usize = 1024;

/// Whoever would let more than this wait, waits himself until they are written.
const WAITING_MAX: usize = 4 * WAITING_MANY;

/// Times that are not written yet.
#[derive(Debug, Default)]
pub(super) struct DirectoryTimes {
    waiting: Mutex<HashMap<Ino, Waiting>>,
    /// Somebody writes them already because they are many.
    writing: AtomicBool,
}

#[derive(Debug)]
struct Waiting {
    changed: Moment,
    /// The numbers that lead to the directory.
    way: PathHold,
    /// It was said that it could not be written.
    told: bool,
}

/// How many directories wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowd {
    Few,
    Many,
    TooMany,
}

impl DirectoryTimes {
    /// Notes a change; `way` keeps the directory from being forgotten. Says how many wait.
    fn touch(&self, directory: Ino, now: Moment, way: impl FnOnce() -> PathHold) -> Crowd {
        let mut waiting = self.waiting.lock();
        match waiting.entry(directory) {
            Entry::Occupied(mut entry) => entry.get_mut().changed = now.max(entry.get().changed),
            Entry::Vacant(entry) => drop(entry.insert(Waiting { changed: now, way: way(), told: false })),
        }
        match waiting.len() {
            waiting if waiting > WAITING_MAX => Crowd::TooMany,
            waiting if waiting > WAITING_MANY => Crowd::Many,
            _ => Crowd::Few,
        }
    }

    /// The last change of `directory`, if it is not written yet.
    pub(super) fn get(&self, directory: Ino) -> Option<Moment> {
        self.waiting.lock().get(&directory).map(|waiting| waiting.changed)
    }

    /// Notes that `changed` is written, if it was waiting. A later change goes on waiting.
    pub(super) fn written(&self, nodes: &Nodes, directory: Ino, changed: Option<Moment>) {
        let mut waiting = self.waiting.lock();
        if let Entry::Occupied(entry) = waiting.entry(directory)
            && Some(entry.get().changed) == changed
        {
            nodes.unhold_path(entry.remove().way);
        }
    }

    /// `moved` is elsewhere by now: what waits below it has another way.
    pub(super) fn follow_move(&self, nodes: &Nodes, moved: Ino) {
        for (directory, waiting) in self.waiting.lock().iter_mut() {
            // What is never written had no way before, either.
            if !waiting.way.is_empty() && nodes.is_within(*directory, moved) {
                let way = nodes.hold_path(*directory);
                nodes.unhold_path(std::mem::replace(&mut waiting.way, way));
            }
        }
    }

    /// Drops a directory's time because the directory is gone.
    pub(super) fn forget(&self, nodes: &Nodes, directory: Ino) {
        if let Some(waiting) = self.waiting.lock().remove(&directory) {
            nodes.unhold_path(waiting.way);
        }
    }

    /// Forgets all of them if they are too many.
    fn forget_some(&self, nodes: &Nodes) {
        let mut waiting = self.waiting.lock();
        if waiting.len() > WAITING_MANY {
            waiting.drain().for_each(|(_, waiting)| nodes.unhold_path(waiting.way));
        }
    }

    /// A time could not be written: it waits for the next try, unless there are many. Says whether that is news.
    fn not_written(&self, nodes: &Nodes, directory: Ino) -> bool {
        let mut waiting = self.waiting.lock();
        let crowded = waiting.len() > WAITING_MANY;
        let Entry::Occupied(mut entry) = waiting.entry(directory) else { return false };
        let news = !std::mem::replace(&mut entry.get_mut().told, true);
        if crowded {
            nodes.unhold_path(entry.remove().way);
        }
        news
    }

    /// The directories that wait now.
    fn all(&self) -> Vec<Ino> {
        self.waiting.lock().keys().copied().collect()
    }
}

impl Engine {
    /// Notes that the entries of `directory` changed.
    pub(super) async fn touch_directory(&self, directory: Ino) {
        match self.note_touched(directory) {
            Crowd::Few => {}
            Crowd::Many | Crowd::TooMany if self.upstream().is_some() => self.write_directory_times().await,
            Crowd::Many => self.write_directory_times_soon(),
            Crowd::TooMany => {
                // Not on a thread that serves the kernel: whoever waits goes on elsewhere.
                tokio::task::yield_now().await;
                self.write_directory_times().await;
            }
        }
    }

    /// The same for the holder of a guard, who cannot write now.
    pub(super) fn note_touched(&self, directory: Ino) -> Crowd {
        // What is never written needs no name.
        let way = || match self.upstream() {
            Some(_) => PathHold::default(),
            None => self.nodes.hold_path(directory),
        };
        self.directory_times.touch(directory, now(), way)
    }

    /// Has the waiting times written by the runtime, once for all who ask meanwhile.
    fn write_directory_times_soon(&self) {
        let (Ok(runtime), Some(engine)) = (tokio::runtime::Handle::try_current(), self.this.upgrade()) else {
            return;
        };
        if self.directory_times.writing.swap(true, Ordering::AcqRel) {
            return;
        }
        runtime.spawn(async move {
            engine.write_directory_times().await;
            engine.directory_times.writing.store(false, Ordering::Release);
        });
    }

    /// Writes the times of directories that changed lately.
    ///
    /// On a share elsewhere they are remembered only, as far as there is room: a request for each would cost more than
    /// they are worth.
    pub async fn write_directory_times(&self) {
        if self.upstream().is_some() {
            return self.directory_times.forget_some(&self.nodes);
        }
        for directory in self.directory_times.all() {
            self.write_directory_time(directory).await;
        }
    }

    /// Writes one directory's times, if they wait.
    pub(super) async fn write_directory_time(&self, directory: Ino) {
        if self.directory_times.get(directory).is_none() {
            // Somebody changed its attributes, and wrote them together.
            return;
        }
        // The waiting time is among the attributes already.
        let written = self.change_attributes(directory, |_, _| {}).await;
        let Err(error) = written else { return };
        let gone = directory != ROOT && self.nodes.place(directory).is_none();
        if gone || matches!(error, FsError::NotFound | FsError::Stale) {
            self.directory_times.forget(&self.nodes, directory);
        } else if self.directory_times.not_written(&self.nodes, directory) {
            tracing::warn!(directory = directory.0, %error, "a directory's times could not be written");
        }
    }
}
