//! Files handed to the kernel for passthrough.
//!
//! All opens of one inode must use the same backing id, and the id must live until the last of them is released.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};

use fuser::BackingId;
use parking_lot::Mutex;

use crate::fs::HandleId;
use crate::fs::nodes::Ino;

/// The backing ids in use.
#[derive(Debug, Default)]
pub(super) struct Backings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_inode: HashMap<Ino, Weak<BackingId>>,
    by_handle: HashMap<HandleId, (Ino, Arc<BackingId>)>,
}

impl Backings {
    /// The id for `file`, registered with the kernel by `register` unless the inode has one already.
    pub(super) fn acquire(
        &self,
        ino: Ino,
        handle: HandleId,
        file: &File,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
    ) -> io::Result<Arc<BackingId>> {
        let mut state = self.state.lock();
        let id = match state.by_inode.get(&ino).and_then(Weak::upgrade) {
            Some(id) => id,
            None => {
                let id = Arc::new(register(file)?);
                state.by_inode.insert(ino, Arc::downgrade(&id));
                id
            }
        };
        state.by_handle.insert(handle, (ino, Arc::clone(&id)));
        Ok(id)
    }

    /// The open is released; the last one of an inode closes the id.
    pub(super) fn release(&self, handle: HandleId) {
        let mut state = self.state.lock();
        if let Some((ino, id)) = state.by_handle.remove(&handle)
            && Arc::strong_count(&id) == 1
        {
            state.by_inode.remove(&ino);
        }
    }
}
