//! What an open claims, changed through its own handle: share mode, delete access, delete pending.

use std::sync::Arc;

use crate::share::{Access, OpenId, ShareMode};

use super::error::{FsError, Result};
use super::gate::{Claim, Closing};
use super::handles::{DirectoryHandle, HandleId};
use super::holders::Holder;
use super::names::Segment;
use super::namespace::Caller;
use super::nodes::Ino;
use super::place::Guarded;
use super::{Engine, now};

/// What a handle's open claims, and how its file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleState {
    /// The number of the open; 0 for a directory that claims nothing.
    pub open: OpenId,
    /// What the open may do.
    pub access: Access,
    /// What it lets others do.
    pub share: ShareMode,
    /// Whether the blob's lease is held for this file.
    pub lease: bool,
    /// Whether the file is delete pending.
    pub delete_pending: bool,
    /// How many opens the file has.
    pub opens: usize,
}

/// A name that is hidden now; what others remember of it is wrong.
#[derive(Clone, Debug)]
pub struct HiddenName {
    /// The directory.
    pub parent: Ino,
    /// The name in it.
    pub name: Segment,
}

impl Engine {
    /// Gives the open of `handle` another share mode, and delete access or not. What it may do with the content was
    /// decided when it was opened and stays.
    pub async fn set_share(&self, handle: HandleId, claim: Claim) -> Result<()> {
        let handle = self.handles.get(handle)?;
        must_keep_data_access(handle.permit.access(), claim.access)?;
        let before = handle.permit.claim().ok_or(FsError::BadHandle)?;
        handle.permit.reclaim(claim).await?;
        let fits = match self.fit_lease(&handle, claim).await {
            Ok(()) => self.may_claim_delete(handle.file.ino(), before, claim).await,
            Err(error) => Err(error),
        };
        if let Err(error) = fits {
            // It fitted a moment ago; if it does not any more, the open keeps what it asked for.
            handle.permit.reclaim(before).await.ok();
            return Err(error);
        }
        Ok(())
    }

    /// Somebody else's lease refuses whoever newly asks for delete access. Asked after the claim is made: from then on
    /// nobody can take a lease on the file over REST.
    async fn may_claim_delete(&self, ino: Ino, before: Claim, claim: Claim) -> Result<()> {
        if before.access.contains(Access::DELETE) || !claim.access.contains(Access::DELETE) {
            return Ok(());
        }
        match self.guard_name(ino).await? {
            Some(guarded) => self.beside_leases(&self.local()?.find(&guarded.at)?).map(drop),
            None => Ok(()),
        }
    }

    /// What the open of `handle` claims.
    pub fn handle_state(&self, handle: HandleId) -> Result<HandleState> {
        let handle = self.handles.get(handle)?;
        let ino = handle.file.ino();
        let Claim { access, share } = handle.permit.claim().ok_or(FsError::BadHandle)?;
        let (delete_pending, opens) = (self.gate.is_delete_pending(ino), self.gate.open_count(ino));
        let lease = self.leases.id(ino).is_some();
        Ok(HandleState { open: handle.permit.id(), access, share, lease, delete_pending, opens })
    }

    /// Makes the file of `handle` delete pending, or takes that back. The open needs delete access.
    /// Returns the name if it is hidden by this call.
    pub async fn set_delete(&self, handle: HandleId, pending: bool) -> Result<Option<HiddenName>> {
        let handle = self.handles.get(handle)?;
        let access = handle.permit.claim().ok_or(FsError::BadHandle)?.access;
        if !access.contains(Access::DELETE) {
            return Err(FsError::NotPermitted("the open has no delete access"));
        }
        let ino = handle.file.ino();
        let guarded = self.guard_name(ino).await?;
        let Some(Guarded { at, parent, segment, .. }) = &guarded else {
            return Err(FsError::Invalid("the file has no name any more"));
        };
        if pending {
            self.beside_leases(&self.local()?.find(at)?)?;
        }
        match (pending, self.gate.is_delete_pending(ino)) {
            (true, true) | (false, false) => Ok(None),
            (false, true) => self.unmark(*parent, segment, ino).await.map(|()| None),
            (true, false) => {
                let mark = handle.permit.mark_delete()?;
                self.note_pending(*parent, segment, ino).await?;
                mark.confirm();
                Ok(Some(HiddenName { parent: *parent, name: segment.clone() }))
            }
        }
    }

    /// Claims a share mode for an open directory: others then rename, remove or claim it only as far as it fits.
    /// A directory that is just being read claims nothing.
    pub async fn set_directory_share(&self, handle: HandleId, claim: Claim, caller: Caller) -> Result<()> {
        let directory = self.directories.get(handle)?;
        must_keep_data_access(Access::READ, claim.access)?;
        let earlier = directory.permit.lock().take();
        let (permit, done) = match earlier {
            Some(permit) => {
                let done = permit.reclaim(claim).await;
                (permit, done)
            }
            None => (self.gate.open(directory.ino, claim, Holder::new(caller, now())).await?, Ok(())),
        };
        // Nobody tells us when a program is about to close a directory, so it always looks as if it were.
        permit.flushed();
        *directory.permit.lock() = Some(permit);
        done
    }

    /// What an open directory claims.
    pub fn directory_state(&self, handle: HandleId) -> Result<HandleState> {
        let directory: Arc<DirectoryHandle> = self.directories.get(handle)?;
        let claimed =
            directory.permit.lock().as_ref().and_then(|permit| Some((permit.id(), permit.claim()?)));
        let nothing = (OpenId(0), Claim { access: Access::READ, share: ShareMode::ALL });
        let (open, Claim { access, share }) = claimed.unwrap_or(nothing);
        let opens = self.gate.open_count(directory.ino);
        Ok(HandleState { open, access, share, lease: false, delete_pending: false, opens })
    }

    /// Closes a directory.
    pub fn release_directory(&self, handle: HandleId) {
        if let Some(directory) = self.directories.remove(handle)
            && let Some(permit) = directory.permit.lock().take()
            && let Closing::Remove(permit) = permit.close()
        {
            // Directories are never delete pending.
            drop(permit);
        }
    }
}

fn must_keep_data_access(granted: Access, wanted: Access) -> Result<()> {
    let data = |access: Access, class: Access| access.contains(class);
    let same =
        [Access::READ, Access::WRITE].iter().all(|class| data(granted, *class) == data(wanted, *class));
    if same { Ok(()) } else { Err(FsError::Invalid("reading and writing are decided when a file is opened")) }
}
