//! Attributes: `stat`, and the changes `chmod`, `chown`, `utimes` and `truncate` make.

use std::sync::Arc;

use crate::share::{Access, Moment, ShareMode};
use crate::store::{BlobPath, BlobProperties, Found, Metadata, Preconditions};

use super::attributes::{Attributes, Kind};
use super::error::{FsError, Result};
use super::file::OpenFile;
use super::gate::Claim;
use super::handles::HandleId;
use super::holders::Holder;
use super::names::Segment;
use super::namespace::Caller;
use super::nodes::{Ino, ROOT};
use super::open::{Attached, TakeLease};
use super::place::Guarded;
use super::{Engine, now};

/// The block size that `stat` and `statfs` report.
pub(super) const BLOCK_SIZE: u32 = 4096;

/// What `stat` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Number.
    pub ino: Ino,
    /// Length in bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Links: 1 for a file, 2 for a directory, 0 for what has no name or is about to lose it.
    pub links: u32,
    /// The rest.
    pub attributes: Attributes,
    /// Whether the answer may change without the kernel being told, because a program is writing.
    pub volatile: bool,
}

/// A change of attributes; absent fields stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttributeChange {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Moment>,
    /// Last change.
    pub mtime: Option<Moment>,
}

impl AttributeChange {
    fn apply(&self, attributes: &mut Attributes, now: Moment) {
        if self.uid.is_some() || self.gid.is_some() {
            attributes.drop_set_id();
        }
        attributes.mode = self.mode.map_or(attributes.mode, |mode| mode & 0o7777);
        attributes.uid = self.uid.unwrap_or(attributes.uid);
        attributes.gid = self.gid.unwrap_or(attributes.gid);
        attributes.atime = self.atime.unwrap_or(attributes.atime);
        attributes.mtime = self.mtime.unwrap_or(attributes.mtime);
        attributes.ctime = now;
    }

    fn only_size(&self) -> bool {
        matches!(
            self,
            AttributeChange { mode: None, uid: None, gid: None, size: Some(_), atime: None, mtime: None }
        )
    }
}

impl Engine {
    /// Attributes of `ino`.
    pub async fn stat(&self, ino: Ino) -> Result<Stat> {
        self.refresh_node(ino).await?;
        let _path = self.path_stays(ino).await;
        self.stat_now(ino).await
    }

    /// [`stat`](Self::stat) for callers that hold a guard of its path already.
    pub(super) async fn stat_now(&self, ino: Ino) -> Result<Stat> {
        if ino == ROOT {
            return self.stat_root().await;
        }
        if self.nodes.is_nameless(ino) {
            return self.stat_nameless(ino);
        }
        let name = self.nodes.blob_name(ino)?.ok_or(FsError::NotFound)?;
        let found = self.local()?.find(&self.at(name))?;
        let there = found.id().map(Ino::of);
        match self.open_file(ino) {
            // Others removed or replaced it; whoever has it open still has it.
            Some(file) if there != Some(ino) => self.stat_replaced(ino, &file),
            None if there.is_some_and(|there| there != ino) => Err(FsError::Stale),
            Some(_) | None => self.stat_found(ino, &found),
        }
    }

    fn stat_replaced(&self, ino: Ino, file: &OpenFile) -> Result<Stat> {
        let base = file.base();
        let stat = self.file_stat(ino, &base, Attributes::of_blob(&base, self.config.owner))?;
        Ok(Stat { links: 0, ..stat })
    }

    pub(super) async fn stat_root(&self) -> Result<Stat> {
        let container = self.store.container_properties(&self.share, None).await?;
        let (metadata, modified) = (&container.metadata, container.modified);
        let mut attributes = Attributes::of_metadata(metadata, modified, modified, self.config.owner);
        if metadata.is_empty() {
            attributes.mode = 0o755;
        }
        attributes.kind = Kind::Directory;
        Ok(self.directory_stat(ROOT, attributes))
    }

    fn stat_nameless(&self, ino: Ino) -> Result<Stat> {
        let Some(file) = self.open_file(ino) else {
            // A file that is not open and has no name: whoever asks by path must look the path up again.
            let attributes = self.nodes.last(ino).ok_or(FsError::Stale)?;
            return Ok(Stat { ino, size: 0, blocks: 0, links: 0, attributes, volatile: true });
        };
        let live = file.stat()?;
        let mut attributes = live.nameless.ok_or(FsError::Stale)?;
        if let Some((mtime, ctime)) = live.times {
            attributes.mtime = mtime.max(attributes.mtime);
            attributes.ctime = ctime.max(attributes.ctime);
        }
        let blocks = live.blocks.unwrap_or(live.size.div_ceil(512));
        Ok(Stat { ino, size: live.size, blocks, links: 0, attributes, volatile: true })
    }

    /// The answer for what a look-up found.
    pub(super) fn stat_found(&self, ino: Ino, found: &Found) -> Result<Stat> {
        match (&found.blob, found.prefix) {
            (Some(blob), prefix) => {
                let attributes = Attributes::of_blob(blob, self.config.owner);
                match (attributes.kind, prefix) {
                    (Kind::Directory, _) => Ok(self.directory_stat(ino, attributes)),
                    // A plain blob with others below its name: the directory wins, or they could not be reached.
                    (_, Some(_)) => {
                        let attributes = Attributes { kind: Kind::Directory, mode: 0o755, ..attributes };
                        Ok(self.directory_stat(ino, attributes))
                    }
                    (_, None) => self.file_stat(ino, blob, attributes),
                }
            }
            (None, Some(_)) => {
                let owner = self.config.owner;
                let attributes = Attributes::new(Kind::Directory, 0o755, owner.uid, owner.gid, self.started);
                Ok(self.directory_stat(ino, attributes))
            }
            (None, None) => Err(FsError::NotFound),
        }
    }

    fn directory_stat(&self, ino: Ino, mut attributes: Attributes) -> Stat {
        if let Some(changed) = self.directory_times.get(ino) {
            attributes.mtime = changed;
            attributes.ctime = changed.max(attributes.ctime);
        }
        let size = u64::from(BLOCK_SIZE);
        Stat { ino, size, blocks: size / 512, links: 2, attributes, volatile: false }
    }

    fn file_stat(&self, ino: Ino, blob: &BlobProperties, mut attributes: Attributes) -> Result<Stat> {
        let mut stat = Stat {
            ino,
            size: blob.size,
            blocks: blob.size.div_ceil(512),
            links: 1,
            attributes,
            volatile: false,
        };
        if let Some(file) = self.open_file(ino) {
            let live = file.stat()?;
            if let Some((mtime, ctime)) = live.times {
                attributes.mtime = mtime;
                attributes.ctime = ctime.max(attributes.ctime);
            }
            stat.attributes = attributes;
            stat.size = live.size;
            stat.blocks = live.blocks.unwrap_or(live.size.div_ceil(512));
            stat.volatile = true;
            stat.links = u32::from(!self.gate.is_delete_pending(ino));
        }
        Ok(stat)
    }

    /// Changes attributes. A change of size is an open for writing, through `handle` or of its own.
    pub async fn change(
        &self,
        ino: Ino,
        handle: Option<HandleId>,
        change: AttributeChange,
        caller: Caller,
    ) -> Result<Stat> {
        if let Some(size) = change.size {
            match handle {
                Some(handle) => self.truncate_open(handle, size, caller).await?,
                None => self.truncate_path(ino, size, caller).await?,
            }
        }
        if !change.only_size() {
            self.change_attributes(ino, |attributes, now| change.apply(attributes, now)).await?;
            if let (Some(mtime), Some(file)) = (change.mtime, self.open_file(ino)) {
                file.set_mtime(mtime)?;
            }
        }
        self.stat(ino).await
    }

    async fn truncate_open(&self, handle: HandleId, size: u64, caller: Caller) -> Result<()> {
        let handle = self.handles.get(handle)?;
        if !handle.permit.access().contains(Access::WRITE) {
            return Err(FsError::BadAccess);
        }
        let (ino, cut) = (handle.file.ino(), truncated(handle.file.stat()?.size, size));
        self.may_touch(ino, Some(handle.permit.id()), None, cut, true)?;
        self.drop_set_id(ino, caller).await?;
        self.with_place(&handle.file, |place| handle.file.truncate(size, place)).await
    }

    /// `truncate(path)`: open for writing, truncate, commit, close.
    async fn truncate_path(&self, ino: Ino, size: u64, caller: Caller) -> Result<()> {
        let claim = Claim { access: Access::WRITE, share: ShareMode::ALL };
        let permit = self.gate.open(ino, claim, Holder::new(caller, now())).await?;
        let attached = self.attach(ino, None, &permit, TakeLease::No).await;
        let Attached { file, .. } = match attached {
            Ok(attached) => attached,
            Err(error) => {
                self.leave(ino, &permit).await;
                return Err(error);
            }
        };
        let done = async {
            self.may_touch(ino, None, None, truncated(file.stat()?.size, size), true)?;
            self.drop_set_id(ino, caller).await?;
            self.with_place(&file, |place| file.truncate(size, place)).await?;
            self.commit(&file).await
        }
        .await;
        self.detach(file, &permit).await;
        done
    }

    /// What a write by somebody who is not root does to set-id bits.
    pub(super) async fn drop_set_id(&self, ino: Ino, caller: Caller) -> Result<()> {
        if caller.uid == 0 { Ok(()) } else { self.drop_set_id_bits(ino).await }
    }

    /// Drops set-id bits, if there are any.
    pub(super) async fn drop_set_id_bits(&self, ino: Ino) -> Result<()> {
        if ino == ROOT || !self.stat(ino).await?.attributes.has_set_id() {
            return Ok(());
        }
        match self.change_attributes(ino, |attributes, _| attributes.drop_set_id()).await {
            // Somebody else's file has the name: the bits that are to go went with the file.
            Err(FsError::Stale) => Ok(()),
            done => done,
        }
    }

    /// Reads, changes and writes the root's metadata, where its attributes are, one change at a time.
    pub(super) async fn change_root(
        &self,
        change: impl FnOnce(&mut Metadata, Attributes) -> Result<()>,
    ) -> Result<()> {
        // The root has no name of its own; this one is nobody's.
        let _name = self.guards.name(ROOT, &Segment::from_stored("")).await;
        let waiting = self.directory_times.get(ROOT);
        let attributes = self.stat_root().await?.attributes;
        let mut metadata = self.store.container_properties(&self.share, None).await?.metadata;
        change(&mut metadata, attributes)?;
        let always = Preconditions::default();
        self.store.set_container_metadata(&self.share, metadata, &always).await?;
        self.directory_times.written(&self.nodes, ROOT, waiting);
        Ok(())
    }

    /// Reads, changes and writes the attributes of `ino`.
    pub(super) async fn change_attributes(
        &self,
        ino: Ino,
        change: impl FnOnce(&mut Attributes, Moment),
    ) -> Result<()> {
        let now = now();
        if ino == ROOT {
            return self
                .change_root(|metadata, mut attributes| {
                    change(&mut attributes, now);
                    attributes.write_to(metadata);
                    Ok(())
                })
                .await;
        }
        let name = {
            let Some(Guarded { at, .. }) = &self.guard_name(ino).await? else {
                let file = self.open_file(ino).ok_or(FsError::Stale)?;
                return file.change_nameless(|attributes| change(attributes, now));
            };
            // A directory's waiting times are in these attributes and are written with them.
            let waiting = self.directory_times.get(ino);
            let found = self.find_same(ino, at)?;
            let mut attributes = self.stat_found(ino, &found)?.attributes;
            change(&mut attributes, now);
            let metadata = found.blob.as_ref().map(|blob| blob.metadata.clone()).unwrap_or_default();
            self.write_metadata(ino, at, found.blob.as_deref(), metadata, &attributes).await?;
            self.directory_times.written(&self.nodes, ino, waiting);
            at.name.clone()
        };
        self.push_name(ino, &name).await
    }

    /// What has the name of `ino`, for somebody who is going to change its attributes: not those of another file that
    /// was put there past the mount.
    pub(super) fn find_same(&self, ino: Ino, at: &BlobPath) -> Result<Found> {
        let found = self.local()?.find(at)?;
        match found.id() {
            Some(there) if Ino::of(there) != ino => Err(FsError::Stale),
            Some(_) | None => Ok(found),
        }
    }

    /// The attributes that are stored with `blob` when it is shown with these: a plain blob that is shown as a directory,
    /// because others are below its name, stays a plain blob, or its bytes were lost with the directory.
    pub(super) fn to_store(&self, blob: Option<&BlobProperties>, shown: Attributes) -> Attributes {
        match blob.map(|blob| Attributes::of_blob(blob, self.config.owner)) {
            Some(own) if shown.kind == Kind::Directory && own.kind != Kind::Directory => {
                Attributes { kind: own.kind, mode: own.mode, ..shown }
            }
            Some(_) | None => shown,
        }
    }

    /// The content did not change with the version: what the kernel cached of it is still right.
    pub(super) fn note_version(&self, ino: Ino, old: &BlobProperties, new: &Arc<BlobProperties>) {
        if self.nodes.cached(ino) == Some(old.etag) {
            self.nodes.set_cached(ino, Some(new.etag));
        }
        if let Some(file) = self.open_file(ino) {
            file.rebase(old.etag, new);
        }
    }
}

/// The bytes that a truncation takes away or adds: where they start and how many.
fn truncated(old: u64, new: u64) -> (u64, u64) {
    (old.min(new), old.abs_diff(new))
}
