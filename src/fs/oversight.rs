//! Seeing who has what open, and acting on it: for status, messages and the person in charge.

use crate::share::OpenId;
use crate::store::{DeleteSnapshots, Preconditions, StoreError, crash_point};

use super::Engine;
use super::error::{FsError, Result};
use super::gate::{Claim, OpenInfo};
use super::handles::HandleId;
use super::names::Segment;
use super::namespace::Caller;
use super::nodes::Ino;

impl Engine {
    /// The opens of one file, oldest first.
    pub fn holders(&self, ino: Ino) -> Vec<OpenInfo> {
        self.gate.opens_of(ino)
    }

    /// All opens, sorted by file and age.
    pub fn open_list(&self) -> Vec<OpenInfo> {
        self.gate.opens()
    }

    /// The opens that stand in the way of such an open of `ino`.
    pub fn blockers(&self, ino: Ino, claim: Claim) -> Vec<OpenInfo> {
        self.gate.blockers(ino, claim)
    }

    /// The files that are delete pending.
    pub fn pending_files(&self) -> Vec<Ino> {
        self.gate.pending_files()
    }

    /// Where a file is, as a path inside the share with the names that programs see, for people. Nothing if it has no
    /// name any more; `/` is the root.
    pub fn path_of(&self, ino: Ino) -> Option<String> {
        match self.nodes.blob_name(ino).ok()? {
            Some(name) => Some(shown(name.as_str())),
            None => Some("/".to_owned()),
        }
    }

    /// The path that `segment` in the directory `parent` has, for people and for patterns.
    pub(super) fn child_path(&self, parent: Ino, segment: &Segment) -> Result<String> {
        Ok(shown(self.nodes.child_name(parent, segment)?.as_str()))
    }

    /// The delete-pending file that has this name.
    pub fn find_pending(&self, parent: Ino, segment: &Segment) -> Option<Ino> {
        self.pending.get(parent, segment)
    }

    /// Closes an open from outside: what was written through it is committed, its claims are free at once, and its
    /// program gets errors from then on.
    ///
    /// Where the kernel moves the bytes itself, reads and writes of the program go on to reach the local file until it
    /// closes; but its fsync and close fail, and nothing is committed for it any more.
    pub async fn close_handle(&self, open: OpenId) -> Result<()> {
        let handle = self.handles.peek(HandleId(open.0))?;
        if !handle.revoke() {
            return Err(FsError::Revoked);
        }
        let committed = if handle.commits() { self.commit(&handle.file).await } else { Ok(()) };
        let ino = handle.file.ino();
        handle.file.cut_off();
        let closing = handle.permit.close();
        self.ranges_closed(ino, open).await;
        self.after_close(ino, closing).await;
        handle.set_lease(None);
        self.settle_lease(ino).await;
        // Its program must not go on reading what the kernel remembers.
        self.forget_content(ino);
        tracing::info!(ino = ino.0, open = open.0, "a handle was closed from outside");
        committed
    }

    /// Takes delete pending back: for the owner of the file and for root.
    pub async fn undelete(&self, parent: Ino, segment: &Segment, caller: Caller) -> Result<()> {
        let _entry = self.guard_entry(parent, segment).await;
        let ino = self.pending.get(parent, segment).ok_or(FsError::NotFound)?;
        let owner = self.stat_now(ino).await?.attributes.uid;
        if caller.uid != 0 && caller.uid != owner {
            return Err(FsError::NotPermitted("only the owner of a file takes its removal back"));
        }
        self.unmark(parent, segment, ino).await
    }

    /// Takes delete pending back. For holders of the guards.
    pub(super) async fn unmark(&self, parent: Ino, segment: &Segment, ino: Ino) -> Result<()> {
        if self.gate.open_count(ino) == 0 {
            // It is being removed, or is as soon as that is possible.
            return Err(FsError::NotFound);
        }
        // First the mark in the store: a living file must never be removed at the next start.
        let always = Preconditions::default();
        match self.store.delete_blob(&self.mark(ino)?, DeleteSnapshots::Include, &always).await {
            Ok(()) | Err(StoreError::BlobNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        crash_point("undelete_after_unmark");
        if !self.gate.undelete(ino) {
            // Its last open is closed, and whoever closed it waits for the guard to take it away. If that fails, or the
            // process dies first, the mark is needed again.
            self.write_mark(ino, &[self.nodes.child_name(parent, segment)?])?;
            return Err(FsError::NotFound);
        }
        self.pending.remove(&self.nodes, parent, segment);
        Ok(())
    }
}

/// A blob's name with the names that programs see.
fn shown(blob: &str) -> String {
    blob.split('/')
        .fold(String::new(), |path, segment| path + "/" + &Segment::from_stored(segment).file_name())
}
