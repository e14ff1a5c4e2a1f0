//! What others changed in the store: which of the things that front ends remember are outdated.
//!
//! The store tells of every change that another of its users made (a REST front end in the same process); the engine's
//! own changes are not told. Open files keep the version they have; the next open takes the new one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::store::{ChangeEvent, ChangeFeed, Found};

use super::Engine;
use super::error::Result;
use super::names::Segment;
use super::nodes::{Ino, ROOT};

/// Something that must not be remembered any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// What a name leads to.
    Name {
        /// The directory.
        parent: Ino,
        /// The name in it.
        segment: Segment,
    },
    /// The bytes and attributes of a file.
    File(Ino),
}

/// Has whoever remembers these things forget them; done when they have.
pub(super) type Announcer = Box<dyn Fn(Vec<Outdated>) -> BoxFuture<'static, ()> + Send + Sync>;

/// Tells what is outdated, until the engine or the store ends.
pub struct Watch {
    engine: Weak<Engine>,
    feed: Box<dyn ChangeFeed>,
    /// The store's number of the share's root.
    root: u64,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts to watch the store: what others change from now on is told.
    pub fn watch(&self) -> Result<Watch> {
        let feed = self.local()?.changes();
        // A second watcher of the same engine would not be waited for; there is one mount.
        let _ = self.lag.set(feed.lag());
        Ok(Watch { engine: Weak::clone(&self.this), feed, root: self.root })
    }

    /// Says whom to tell what calls by path have made outdated. The first one to say so is told.
    pub fn announce_with(
        &self,
        announcer: impl Fn(Vec<Outdated>) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        // A share is mounted once.
        let _ = self.announcer.set(Box::new(announcer));
    }

    /// Returns when nobody remembers these things any more. For callers that hold no guard and no open: whoever is
    /// told may have to finish first what waits for them.
    pub(super) async fn announce(&self, outdated: Vec<Outdated>) {
        self.guards.changed_by_others();
        if let Some(announcer) = self.announcer.get() {
            announcer(outdated).await;
        }
    }

    /// Waits until the watcher has dealt with everything that others have changed so far, if somebody watches.
    pub(super) async fn catch_up(&self) {
        if let Some(lag) = self.lag.get() {
            lag.caught_up().await;
        }
    }
}

impl Watch {
    /// Waits at most so long for something to become outdated. `None` if nothing ever will again.
    pub fn next(&mut self, wait: Duration) -> Option<Vec<Outdated>> {
        let events = self.feed.next(wait)?;
        let engine = self.engine.upgrade()?;
        let mut outdated = Vec::new();
        for event in events {
            self.judge(&engine, event, &mut outdated);
        }
        if !outdated.is_empty() {
            engine.guards.changed_by_others();
        }
        Some(outdated)
    }

    /// What was answered last is no longer remembered by anybody.
    pub fn done(&mut self) {
        self.feed.handled();
    }

    fn judge(&self, engine: &Arc<Engine>, event: ChangeEvent, outdated: &mut Vec<Outdated>) {
        match event {
            ChangeEvent::Everything => {
                for (ino, place) in engine.nodes.all() {
                    engine.nodes.set_cached(ino, None);
                    outdated.extend(place.map(|(parent, segment)| Outdated::Name { parent, segment }));
                    outdated.push(Outdated::File(ino));
                }
                for file in engine.files.lock().values() {
                    file.doubt_attributes();
                }
            }
            ChangeEvent::Name { parent, name, before, after } => {
                let parent = if parent == self.root { ROOT } else { Ino::of(parent) };
                let (old, new) = (number(&before), number(&after));
                let version = |found: &Found| found.blob.as_ref().map(|blob| blob.etag);
                if old != new || before.prefix.is_some() != after.prefix.is_some() {
                    outdated.push(Outdated::Name { parent, segment: Segment::from_stored(&name) });
                    // The times of the directory.
                    outdated.push(Outdated::File(parent));
                }
                if let Some(ino) = old
                    && version(&before) != version(&after)
                {
                    engine.nodes.set_cached(ino, None);
                    outdated.push(Outdated::File(ino));
                    if let Some(file) = engine.open_file(ino) {
                        file.doubt_attributes();
                    }
                }
            }
        }
    }
}

fn number(found: &Found) -> Option<Ino> {
    found.id().map(Ino::of)
}
