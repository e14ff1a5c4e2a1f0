//! Names: look-up, make, remove.

use bytes::Bytes;

use crate::store::{
    BlobName, BlobPath, Changed, DeleteSnapshots, EtagMatch, Found, ListItem, ListQuery, NewContent,
    Preconditions, StoreError, crash_point,
};

use super::attributes::{Attributes, Kind};
use super::error::{FsError, Result};
use super::gate::{Removal, RemovePermit};
use super::holders::FrontEnd;
use super::names::{RESERVED, Segment};
use super::nodes::{Ino, ROOT};
use super::stat::Stat;
use super::{Engine, now};

/// Longest target of a symbolic link, as in Linux.
const SYMLINK_BYTES_MAX: usize = 4095;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// How the request came to us.
    pub front_end: FrontEnd,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The thread that asks, as this process sees it; 0 if that is not known.
    pub pid: u32,
}

const SET_GROUP: u32 = 0o2000;

/// A place where something new can be made.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) at: BlobPath,
    pub(super) inherit: Inherit,
}

/// What a new entry takes from its directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inherit {
    /// The directory's group, if it has the set-group-id bit.
    group: Option<u32>,
}

impl Inherit {
    pub(super) fn apply(self, mut attributes: Attributes) -> Attributes {
        if let Some(group) = self.group {
            attributes.gid = group;
            if attributes.kind == Kind::Directory {
                attributes.mode |= SET_GROUP;
            }
        }
        attributes
    }
}

/// The condition that the blob does not exist yet.
pub(super) fn must_be_new() -> Preconditions {
    Preconditions { if_none_match: Some(EtagMatch::Any), ..Preconditions::default() }
}

fn is_reserved(parent: Ino, segment: &Segment) -> bool {
    parent == ROOT && segment.as_str() == RESERVED
}

impl Engine {
    /// Finds `segment` in `parent`. The kernel knows its number from now on.
    pub async fn lookup(&self, parent: Ino, segment: &Segment) -> Result<Stat> {
        self.not_pending(parent, segment).await?;
        self.refresh_child(parent, segment).await?;
        let _entry = self.entry_stays(parent, segment).await;
        let (ino, found) = self.find_child(parent, segment)?;
        let stat = self.stat_found(ino, &found)?;
        self.nodes.remember(ino, parent, segment);
        Ok(stat)
    }

    /// The kernel forgot `count` of its references.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.nodes.forget(ino, count);
    }

    /// What is under that name; hidden names are not found. For holders of a guard of that name, if only that it stays:
    /// a directory that is being moved is in two places for a moment.
    pub(super) fn find_child(&self, parent: Ino, segment: &Segment) -> Result<(Ino, Found)> {
        if is_reserved(parent, segment) {
            return Err(FsError::NotFound);
        }
        let at = self.at(self.nodes.child_name(parent, segment)?);
        let found = self.local()?.find(&at)?;
        let id = found.id().ok_or(FsError::NotFound)?;
        Ok((Ino::of(id), found))
    }

    /// Refuses reserved names and names of pending files, and brings others up to date. To be asked before any guard
    /// is taken.
    pub(super) async fn may_create(&self, parent: Ino, segment: &Segment) -> Result<()> {
        if is_reserved(parent, segment) {
            return Err(FsError::Reserved);
        }
        self.not_pending(parent, segment).await?;
        self.refresh_child(parent, segment).await
    }

    /// The place for a new name in `parent`, which must still exist. For holders of the guards.
    pub(super) async fn free_name(&self, parent: Ino, segment: &Segment) -> Result<Spot> {
        if self.pending.get(parent, segment).is_some() {
            return Err(FsError::DeletePending);
        }
        let above = self.stat_now(parent).await?.attributes;
        if above.kind != Kind::Directory {
            return Err(FsError::NotADirectory);
        }
        let inherit = Inherit { group: (above.mode & SET_GROUP != 0).then_some(above.gid) };
        Ok(Spot { at: self.at(self.nodes.child_name(parent, segment)?), inherit })
    }

    /// Makes a directory.
    pub async fn make_directory(
        &self,
        parent: Ino,
        segment: &Segment,
        mode: u32,
        caller: Caller,
    ) -> Result<Stat> {
        let attributes = Attributes::new(Kind::Directory, mode, caller.uid, caller.gid, now());
        self.make(parent, segment, attributes, Bytes::new()).await
    }

    /// Makes a symbolic link to `target`.
    pub async fn make_symlink(
        &self,
        parent: Ino,
        segment: &Segment,
        target: &[u8],
        caller: Caller,
    ) -> Result<Stat> {
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(FsError::NameTooLong);
        }
        let attributes = Attributes::new(Kind::Symlink, 0o777, caller.uid, caller.gid, now());
        self.make(parent, segment, attributes, Bytes::copy_from_slice(target)).await
    }

    /// Makes an empty file, a named pipe or a socket.
    pub async fn make_node(
        &self,
        parent: Ino,
        segment: &Segment,
        kind: Kind,
        mode: u32,
        caller: Caller,
    ) -> Result<Stat> {
        let attributes = Attributes::new(kind, mode, caller.uid, caller.gid, now());
        self.make(parent, segment, attributes, Bytes::new()).await
    }

    async fn make(
        &self,
        parent: Ino,
        segment: &Segment,
        attributes: Attributes,
        body: Bytes,
    ) -> Result<Stat> {
        self.may_create(parent, segment).await?;
        let (stat, name) = {
            let _entry = self.guard_entry(parent, segment).await;
            let Spot { at, inherit } = self.free_name(parent, segment).await?;
            let attributes = inherit.apply(attributes);
            if self.local()?.find(&at)?.prefix.is_some() {
                return Err(FsError::Exists);
            }
            let new = NewContent { metadata: attributes.to_metadata(), ..NewContent::default() };
            let _changing = self.will_change(&at.name, Changed::Everything)?;
            let blob = self.store.put_blob(&at, body.into(), new, &must_be_new()).await?;
            crash_point("make_after_put");
            let found = Found { blob: Some(blob), prefix: None };
            let ino = found.blob.as_ref().map(|blob| Ino::of(blob.id)).ok_or(FsError::NotFound)?;
            self.nodes.remember(ino, parent, segment);
            (self.stat_found(ino, &found)?, at.name)
        };
        if let Err(error) = self.push_made(stat.ino, &name).await {
            self.nodes.forget(stat.ino, 1);
            return Err(error);
        }
        self.touch_directory(parent).await;
        Ok(stat)
    }

    /// The target of a symbolic link.
    pub async fn read_link(&self, ino: Ino) -> Result<Bytes> {
        self.bring_whole(ino).await?;
        let _path = self.path_stays(ino).await;
        let name = self.nodes.blob_name(ino)?.ok_or(FsError::Invalid("not a symbolic link"))?;
        let always = Preconditions::default();
        let blob = self.store.get_blob(&self.at(name), None, None, &always).await?;
        match Attributes::of_blob(&blob.properties, self.config.owner).kind {
            Kind::Symlink => Ok(blob.body),
            _ => Err(FsError::Invalid("not a symbolic link")),
        }
    }

    /// Removes a file: at once if nobody has it open, else as the share's delete rule says.
    pub async fn unlink(&self, parent: Ino, segment: &Segment) -> Result<()> {
        self.not_pending(parent, segment).await?;
        self.refresh_child(parent, segment).await?;
        let ino = {
            let _entry = self.entry_stays(parent, segment).await;
            let (ino, found) = self.find_child(parent, segment)?;
            if self.stat_found(ino, &found)?.attributes.kind == Kind::Directory {
                return Err(FsError::IsADirectory);
            }
            ino
        };
        // May wait for a late close, so no guard is held.
        let removal = self.gate.remove(ino, self.config.delete).await?;
        self.carry_out(parent, segment, ino, removal).await?;
        self.touch_directory(parent).await;
        Ok(())
    }

    async fn carry_out(&self, parent: Ino, segment: &Segment, ino: Ino, removal: Removal) -> Result<()> {
        let _entry = self.guard_entry(parent, segment).await;
        let found = match self.find_child(parent, segment) {
            Ok((now_there, found)) if now_there == ino => found,
            // The last close came first and took it away.
            Ok(_) | Err(FsError::NotFound) if matches!(removal, Removal::Pending(_)) => return Ok(()),
            Ok(_) => return Err(FsError::NotFound),
            Err(error) => return Err(error),
        };
        let at = self.at(self.nodes.child_name(parent, segment)?);
        // A file that a stranger has leased is not even marked.
        self.beside_leases(&found)?;
        match removal {
            Removal::Now(permit) => self.remove_now(ino, &at, &found, permit).await,
            Removal::Pending(permit) => {
                self.note_pending(parent, segment, ino).await?;
                permit.confirm();
                Ok(())
            }
            Removal::Detach => {
                self.delete_blob(&at, &found).await?;
                crash_point("unlink_after_detach");
                self.lose_name(ino, &found);
                Ok(())
            }
        }
    }

    async fn remove_now(&self, ino: Ino, at: &BlobPath, found: &Found, permit: RemovePermit) -> Result<()> {
        self.delete_blob(at, found).await?;
        crash_point("unlink_after_delete");
        self.lose_name(ino, found);
        permit.confirm();
        Ok(())
    }

    /// The opens of `ino` keep its content, but no name leads to it any more.
    pub(super) fn lose_name(&self, ino: Ino, found: &Found) {
        let mut attributes = self.stat_found(ino, found).ok().map(|stat| stat.attributes);
        if let Some(attributes) = &mut attributes {
            attributes.ctime = now();
            if let Some(file) = self.open_file(ino) {
                file.lost_name(*attributes);
            }
        }
        // A file that nobody has open is not there any more; everything else may still be asked for its attributes.
        self.nodes.unnamed(ino, attributes.filter(|attributes| attributes.kind != Kind::File));
    }

    /// Deletes the blob that was found; the directory it was in stays.
    pub(super) async fn delete_blob(&self, at: &BlobPath, found: &Found) -> Result<()> {
        let conditions = self.beside_leases(found)?;
        self.keep_parent(at).await?;
        let _settling = self.remove_there(found.blob.as_ref().map(|blob| Ino::of(blob.id)), at).await?;
        Ok(self.store.delete_blob(at, DeleteSnapshots::Include, &conditions).await?)
    }

    /// A directory without a marker exists only through what is below it. It gets one before that goes away.
    pub(super) async fn keep_parent(&self, at: &BlobPath) -> Result<()> {
        let Some((parent, _)) = at.name.as_str().rsplit_once('/') else {
            return Ok(());
        };
        let parent = self.at(BlobName::new(parent).map_err(|_| FsError::NameTooLong)?);
        if self.local()?.find(&parent)?.blob.is_some() {
            return Ok(());
        }
        let owner = self.config.owner;
        let attributes = Attributes::new(Kind::Directory, 0o755, owner.uid, owner.gid, now());
        let new = NewContent { metadata: attributes.to_metadata(), ..NewContent::default() };
        let changing = self.will_change(&parent.name, Changed::Everything)?;
        let made = self.local()?.put_before_removal(&parent, Bytes::new(), new, &must_be_new());
        drop(changing);
        match made {
            Ok(_) => self.push_marker(&parent.name).await,
            Err(StoreError::BlobExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// For a directory that is going to be removed or replaced: what is pending inside and really closed already goes away
    /// in a moment.
    pub(super) async fn empty_in_a_moment(&self, ino: Ino) -> Result<()> {
        self.refresh_entries(ino).await?;
        for (name, _) in self.pending.in_directory(ino) {
            self.not_pending(ino, &name).await.map_err(|_| FsError::NotEmpty)?;
        }
        Ok(())
    }

    /// For a directory that is going to be removed or replaced: a blob `NAME/`, with which some tools mark a directory, is
    /// no entry of it. If nothing else is below, a marker of our own takes its place. Answers what is found then.
    pub(super) async fn without_slash_marker(&self, at: &BlobPath, found: Found) -> Result<Found> {
        if found.prefix.is_none() {
            return Ok(found);
        }
        let query = ListQuery { prefix: format!("{}/", at.name), max: 2, ..ListQuery::default() };
        let page = self.store.list_blobs(&self.share, &query).await?;
        match <[ListItem; 1]>::try_from(page.items) {
            Ok([ListItem::Blob { name, properties }]) if name == query.prefix && page.next.is_none() => {
                let slash = self.at(BlobName::new(name).map_err(|_| FsError::NameTooLong)?);
                self.delete_blob(&slash, &Found { blob: Some(properties), prefix: None }).await?;
                Ok(self.local()?.find(at)?)
            }
            Ok(_) | Err(_) => Ok(found),
        }
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, parent: Ino, segment: &Segment) -> Result<()> {
        self.refresh_child(parent, segment).await?;
        let ino = {
            let _entry = self.entry_stays(parent, segment).await;
            self.find_child(parent, segment)?.0
        };
        self.empty_in_a_moment(ino).await?;
        // Whoever claimed the directory must share delete. Directories are never delete pending.
        let removal = self.gate.replace(ino).await?;
        {
            // A create below would race with the check, so nobody else uses a path inside now.
            let _move = self.guard_move(&[ino], &[(parent, segment)]).await;
            let (now_there, found) = self.find_child(parent, segment)?;
            if now_there != ino {
                return Err(FsError::Stale);
            }
            if self.stat_found(now_there, &found)?.attributes.kind != Kind::Directory {
                return Err(FsError::NotADirectory);
            }
            let at = self.at(self.nodes.child_name(parent, segment)?);
            let found = self.without_slash_marker(&at, found).await?;
            if found.prefix.is_some() {
                return Err(FsError::NotEmpty);
            }
            self.delete_blob(&at, &found).await?;
            crash_point("rmdir_after_delete");
            self.lose_name(now_there, &found);
            self.directory_times.forget(&self.nodes, now_there);
            if let Removal::Now(permit) = removal {
                permit.confirm();
            }
        }
        self.touch_directory(parent).await;
        Ok(())
    }
}
