//! Times of directories whose entries changed lately.
//!
//! Every create, remove and rename changes its directory's times. Writing the directory's marker blob each time
//! would double the cost of a create, so the times are kept here and written a little later: when enough have
//! gathered, every few seconds, at fsync of the directory and at unmount.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::share::Moment;

use super::nodes::Ino;

/// So many directories may wait to be written.
const WAITING_MAX: usize = 1024;

/// Times that are not written yet.
#[derive(Debug, Default)]
pub(super) struct DirectoryTimes {
    changed: Mutex<HashMap<Ino, Moment>>,
}

impl DirectoryTimes {
    /// Notes a change; says whether it is time to write.
    pub(super) fn touch(&self, directory: Ino, now: Moment) -> bool {
        let mut changed = self.changed.lock();
        changed.insert(directory, now);
        changed.len() > WAITING_MAX
    }

    /// The last change of `directory`, if it is not written yet.
    pub(super) fn get(&self, directory: Ino) -> Option<Moment> {
        self.changed.lock().get(&directory).copied()
    }

    /// Takes one directory's time to write it, or to drop it because the directory is gone.
    pub(super) fn take(&self, directory: Ino) -> Option<Moment> {
        self.changed.lock().remove(&directory)
    }

    /// Forgets all of them if they are too many.
    pub(super) fn forget_some(&self) {
        let mut changed = self.changed.lock();
        if changed.len() > WAITING_MAX {
            changed.clear();
        }
    }

    /// Takes all of them.
    pub(super) fn take_all(&self) -> Vec<(Ino, Moment)> {
        self.changed.lock().drain().collect()
    }
}
