//! Files that a rename has just replaced, for programs that looked them up before and open them a moment later.
//!
//! On a local disk such a program gets the file that it found. Here the kernel asks to open a number, and if that has lost
//! its name and nobody has it open, all we can say is that it is stale. The kernel then looks the path up once more, and
//! fails the open if that file is replaced in time, too: a reader beside a program that saves often would be told, now and
//! then, that a file is gone which is always there. So what was replaced stays open for a moment, as if by somebody else.
//!
//! Must never be relied on: it is bounded in time and number, and on a share elsewhere only what is all here is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{BlobPath, ContentReader};

use super::Engine;
use super::attributes::Kind;
use super::file::OpenFile;
use super::nodes::Ino;

/// How long a replaced file is kept: longer than a program that was interrupted between look-up and open mostly waits.
const KEPT: Duration = Duration::from_secs(1);
/// So many are kept at most; the oldest go first. Each may have a local file open.
const KEPT_MAX: usize = 128;

/// The files that are kept, oldest first.
#[derive(Debug, Default)]
pub(super) struct Farewells(Mutex<VecDeque<(Instant, Arc<OpenFile>)>>);

impl Farewells {
    /// Adds one; answers those that have to go for it, and whether it is the only one.
    fn add(&self, file: Arc<OpenFile>) -> (Option<Arc<OpenFile>>, bool) {
        let mut kept = self.0.lock();
        let first = kept.is_empty();
        let goes = if kept.len() == KEPT_MAX { kept.pop_front() } else { None };
        kept.push_back((Instant::now() + KEPT, file));
        (goes.map(|(_, file)| file), first)
    }

    /// Takes out those whose time is over; answers when the next one's is.
    fn over(&self, now: Instant) -> (Vec<Arc<OpenFile>>, Option<Instant>) {
        let mut kept = self.0.lock();
        let count = kept.iter().take_while(|(until, _)| *until <= now).count();
        let over = kept.drain(..count).map(|(_, file)| file).collect();
        (over, kept.front().map(|(until, _)| *until))
    }

    fn take_all(&self) -> Vec<Arc<OpenFile>> {
        self.0.lock().drain(..).map(|(_, file)| file).collect()
    }
}

impl Engine {
    /// What a file that is going to be replaced has, if somebody may have looked it up and nobody has it open.
    pub(super) fn farewell_to(&self, ino: Ino, kind: Kind, at: &BlobPath) -> Option<ContentReader> {
        if kind != Kind::File || self.open_file(ino).is_some() || self.nodes.place(ino).is_none() {
            return None;
        }
        if self.upstream().is_some_and(|upstream| !upstream.is_all_here(&at.name)) {
            return None;
        }
        let reader = self.local().ok()?.reader(at).ok()?;
        (Ino::of(reader.properties().id) == ino).then_some(reader)
    }

    /// Keeps a replaced file for a moment. For whoever has the guard of its name, before that is lost.
    pub(super) fn keep_a_moment(&self, ino: Ino, reader: ContentReader) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let file = self.load(ino, reader);
        // Nobody is closing it, so that nobody need wait for that.
        file.keep_open();
        self.nodes.hold_again(ino);
        let (goes, first) = self.farewells.add(file);
        self.let_farewells_go(goes);
        if first {
            runtime.spawn(let_go_in_time(Weak::clone(&self.this)));
        }
    }

    /// Keeps none of them any longer.
    pub(super) fn end_farewells(&self) {
        self.let_farewells_go(self.farewells.take_all());
    }

    /// Needs no guard and must not take one: without a name there is nothing to finish.
    fn let_farewells_go(&self, files: impl IntoIterator<Item = Arc<OpenFile>>) {
        for file in files {
            self.drop_file(&file);
            self.nodes.unhold(file.ino());
        }
    }
}

async fn let_go_in_time(engine: Weak<Engine>) {
    loop {
        let next = {
            let Some(engine) = engine.upgrade() else { return };
            let (over, next) = engine.farewells.over(Instant::now());
            engine.let_farewells_go(over);
            next
        };
        // Whoever adds one after this look starts anew.
        let Some(next) = next else { return };
        tokio::time::sleep_until(next).await;
    }
}
