//! Telling the kernel that a name leads elsewhere now.
//!
//! The kernel holds a directory for as long as a program's rename, remove or create in it takes, and takes no news of its
//! names before that is over: at a slow service, minutes. So each directory has a line of its own, and news of others
//! go on beside it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::fs::names::Segment;
use crate::fs::nodes::Ino;

/// Dropped by all who have one when everything is told.
pub(super) type Told = Arc<oneshot::Sender<()>>;

/// Has the kernel forget a name. May wait for the kernel.
type Tell = Box<dyn Fn(Ino, &Segment) + Send + Sync>;

/// Names in one directory that are to be told, and who waits for that.
type Line = VecDeque<(Segment, Option<Told>)>;

/// Names that the kernel has to forget, by directory.
pub(super) struct NameTeller {
    tell: Tell,
    runtime: Handle,
    /// A directory is here as long as somebody works through its line.
    lines: Mutex<HashMap<Ino, Line>>,
}

impl NameTeller {
    pub(super) fn new(runtime: Handle, tell: impl Fn(Ino, &Segment) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { tell: Box::new(tell), runtime, lines: Mutex::default() })
    }

    /// Has the kernel forget a name, soon; `told` is dropped then. Never waits.
    pub(super) fn forget(self: &Arc<Self>, parent: Ino, name: &Segment, told: Option<Told>) {
        let news = (name.clone(), told);
        match self.lines.lock().entry(parent) {
            Entry::Occupied(mut line) => return line.get_mut().push_back(news),
            Entry::Vacant(line) => drop(line.insert(VecDeque::from([news]))),
        }
        let this = Arc::clone(self);
        // On a thread of its own, for as long as there is anything.
        self.runtime.spawn_blocking(move || while this.tell_next(parent) {});
    }

    /// Tells the next one in the line of a directory; ends the line if there is none.
    fn tell_next(&self, parent: Ino) -> bool {
        let next = {
            let mut lines = self.lines.lock();
            let next = lines.get_mut(&parent).and_then(VecDeque::pop_front);
            if next.is_none() {
                lines.remove(&parent);
            }
            next
        };
        let Some((name, told)) = next else { return false };
        (self.tell)(parent, &name);
        drop(told);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_directory_that_takes_no_news_keeps_only_its_own_waiting() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (let_go, gate) = mpsc::channel::<()>();
        let (said, heard) = mpsc::channel();
        let (gate, said) = (Mutex::new(gate), Mutex::new(said));
        let teller = NameTeller::new(runtime.handle().clone(), move |parent, name| {
            if parent == Ino(7) {
                gate.lock().recv().unwrap();
            }
            said.lock().send((parent, name.file_name())).unwrap();
        });
        let name = Segment::from_stored;
        let (told, mut all_told) = oneshot::channel();
        let told = Arc::new(told);
        teller.forget(Ino(7), &name("a"), Some(Arc::clone(&told)));
        teller.forget(Ino(7), &name("b"), None);
        let soon = || heard.recv_timeout(Duration::from_secs(10)).unwrap();
        for round in ["x", "y"] {
            teller.forget(Ino(8), &name(round), None);
            assert_eq!(soon(), (Ino(8), round.to_owned()));
        }
        drop(told);
        assert_eq!(all_told.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        let_go.send(()).unwrap();
        assert_eq!(soon(), (Ino(7), "a".to_owned()));
        assert!(runtime.block_on(all_told).is_err(), "all who had it dropped it");
        let_go.send(()).unwrap();
        assert_eq!(soon(), (Ino(7), "b".to_owned()));
        while !teller.lines.lock().is_empty() {
            std::thread::yield_now();
        }
    }
}
