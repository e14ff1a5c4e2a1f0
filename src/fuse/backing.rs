//! Files handed to the kernel for passthrough.
//!
//! All opens of one inode must use the same backing id, and the id must live until the last of them is released.
//! An id can outlive its opens by a moment (whoever sent the reply still has it), so an id is used again only for the
//! very file it was made for.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};

use fuser::BackingId;
use parking_lot::Mutex;

use crate::fs::HandleId;
use crate::fs::file::is_same_file;
use crate::fs::nodes::Ino;

/// So many dead ids may wait to be forgotten.
const DEAD_MAX: usize = 1024;

/// The backing ids in use.
#[derive(Debug, Default)]
pub(super) struct Backings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_inode: HashMap<Ino, Registered>,
    by_handle: HashMap<HandleId, (Ino, Arc<BackingId>)>,
}

#[derive(Debug)]
struct Registered {
    id: Weak<BackingId>,
    file: Arc<File>,
}

impl State {
    /// Forgets ids that outlived their opens and died later.
    fn drop_dead(&mut self) {
        if self.by_inode.len() > 2 * self.by_handle.len() + DEAD_MAX {
            self.by_inode.retain(|_, known| known.id.strong_count() > 0);
        }
    }
}

impl Backings {
    /// The id for `file`, registered with the kernel by `register` unless the inode has one already.
    pub(super) fn acquire(
        &self,
        ino: Ino,
        handle: HandleId,
        file: &Arc<File>,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> io::Result<Arc<BackingId>> {
        let mut state = self.state.lock();
        let known = state.by_inode.get(&ino).and_then(|known| Some((known.id.upgrade()?, known)));
        let id = match known {
            Some((id, known)) if is_same_file(&known.file, file)? => id,
            _ => {
                let id = Arc::new(register(file)?);
                let registered = Registered { id: Arc::downgrade(&id), file: Arc::clone(file) };
                state.by_inode.insert(ino, registered);
                state.drop_dead();
                id
            }
        };
        state.by_handle.insert(handle, (ino, Arc::clone(&id)));
        Ok(id)
    }

    /// The open is released; the last one of an inode closes the id.
    pub(super) fn release(&self, handle: HandleId) {
        let mut state = self.state.lock();
        let Some((ino, id)) = state.by_handle.remove(&handle) else {
            return;
        };
        drop(id);
        if state.by_inode.get(&ino).is_some_and(|known| known.id.strong_count() == 0) {
            state.by_inode.remove(&ino);
        }
    }
}
