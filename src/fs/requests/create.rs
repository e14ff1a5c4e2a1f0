//! Making files and directories.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use crate::share::lease::LeaseId;
use crate::share::{Access, Moment};
use crate::store::{BlobProperties, Found, HttpHeaders, Metadata, NewContent, Scratch};

use super::super::attributes::{Attributes, Kind, is_own_key};
use super::super::error::{FsError, Result};
use super::super::namespace::{Spot, must_be_new};
use super::super::nodes::Ino;
use super::super::now;
use super::super::watch::Outdated;
use super::Requests;
use super::entry::{Entry, SmbChange, replace_callers_metadata};
use super::failure::Answer;
use super::path::FilePath;

/// The longest file, as the service has it.
const SIZE_MAX: u64 = 4 << 40;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A file to be made.
#[derive(Clone, Debug, Default)]
pub struct NewFile {
    /// How long it is. Behind the body it has zeros that take no room.
    pub size: u64,
    /// Its first bytes.
    pub body: Bytes,
    /// What SMB knows about it.
    pub smb: SmbChange,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// Stored headers.
    pub headers: HttpHeaders,
    /// MD5 of the content.
    pub content_md5: Option<[u8; 16]>,
}

/// Where the bytes of a new file are.
enum NewBytes {
    Small(Bytes),
    File(Scratch),
}

impl NewFile {
    /// What is stored beside the bytes of a file that these attributes belong to.
    pub(super) fn stored(&self, mut attributes: Attributes, now: Moment) -> NewContent {
        let mut metadata = Metadata::new();
        self.smb.apply(&mut attributes, &mut metadata, now);
        replace_callers_metadata(&mut metadata, &self.metadata);
        attributes.write_to(&mut metadata);
        NewContent {
            metadata,
            headers: self.headers.clone(),
            content_md5: self.content_md5,
            ..NewContent::default()
        }
    }
}

impl Requests {
    /// Makes a file, in place of one that is there. Durable when it answers.
    pub async fn create_file(&self, path: &FilePath, new: NewFile, lease: Option<LeaseId>) -> Answer<Entry> {
        if new.size > SIZE_MAX || new.body.len() as u64 > new.size {
            return Err(FsError::TooLarge.into());
        }
        loop {
            match self.look(path) {
                Ok(target) if target.attributes.kind == Kind::Directory => {
                    return Err(FsError::IsADirectory.into());
                }
                Ok(_) => match self.overwrite(path, &new, lease).await {
                    Err(failure) if matches!(failure.error, FsError::NotFound) => {}
                    other => return other,
                },
                Err(FsError::NotFound) => match self.make_file(path, &new).await {
                    Err(failure) if matches!(failure.error, FsError::Exists) => {}
                    other => return other,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn make_file(&self, path: &FilePath, new: &NewFile) -> Answer<Entry> {
        let engine = &self.engine;
        let (local, owner, now) = (engine.local()?, engine.config.owner, now());
        let bytes = self.new_bytes(new).await?;
        let attributes = Attributes::new(Kind::File, FILE_MODE, owner.uid, owner.gid, now);
        self.make(path, |Spot { at, inherit }| {
            let stored = new.stored(inherit.apply(attributes), now);
            Ok(match &bytes {
                NewBytes::Small(bytes) => local.put_small(at, bytes.clone(), stored, &must_be_new())?,
                NewBytes::File(scratch) => local.publish(at, scratch, new.size, stored, &must_be_new())?,
            })
        })
        .await
    }

    /// The bytes of a new file, ready to be named by a version: what is big is durable already.
    async fn new_bytes(&self, new: &NewFile) -> Result<NewBytes> {
        let local = self.engine.local()?;
        if let Some(size) = usize::try_from(new.size).ok().filter(|_| new.size <= local.inline_max()) {
            let mut bytes = new.body.to_vec();
            bytes.resize(size, 0);
            return Ok(NewBytes::Small(bytes.into()));
        }
        let scratch = local.scratch()?;
        scratch.file().write_all_at(&new.body, 0)?;
        scratch.file().set_len(new.size)?;
        local.sync_data(vec![Arc::clone(scratch.file())]).await?;
        Ok(NewBytes::File(scratch))
    }

    /// Makes something under a name that is free, and durable.
    async fn make(
        &self,
        path: &FilePath,
        put: impl FnOnce(&Spot) -> Result<Arc<BlobProperties>>,
    ) -> Answer<Entry> {
        if path.is_reserved() {
            return Err(FsError::Reserved.into());
        }
        let (above, segment) = path.split().ok_or(FsError::Exists)?;
        let engine = &self.engine;
        let (parent, way) = {
            let _tree = engine.guards.tree().await;
            self.go(&FilePath::from_segments(above)).map_err(no_parent)?
        };
        engine.may_create(parent, segment).await?;
        let entry = {
            let _tree = engine.guards.tree().await;
            let _name = engine.guards.name(parent, segment).await;
            let spot = engine.free_name(parent, segment).await.map_err(no_parent)?;
            let there = engine.local()?.find(&spot.at)?;
            if there.blob.is_some() || there.prefix.is_some() {
                return Err(FsError::Exists.into());
            }
            let blob = put(&spot)?;
            engine.entry(Ino::of(blob.id), parent, &Found { blob: Some(blob), prefix: None })?
        };
        engine.touch_directory(parent).await;
        drop(way);
        engine.local()?.sync().await?;
        let name = Outdated::Name { parent, segment: segment.clone() };
        engine.announce(vec![name, Outdated::File(parent)]).await;
        Ok(entry)
    }

    /// Makes the file that is there a new one: its bytes, and everything beside them. It keeps its number, its owner
    /// and its lease, and the programs that have it open see the new bytes.
    async fn overwrite(&self, path: &FilePath, new: &NewFile, lease: Option<LeaseId>) -> Answer<Entry> {
        let access = Access::WRITE.union(Access::DELETE);
        let open = self.open_to_change(path, access, lease).await?;
        if let Err(failure) = self.may_write(&open) {
            self.close_unchanged(open).await;
            return Err(failure);
        }
        let done = async {
            let engine = &self.engine;
            engine
                .with_place_for(&open.file, open.shown, |place| {
                    open.file.truncate(0, place)?;
                    open.file.truncate(new.size, place)
                })
                .await?;
            if !new.body.is_empty() {
                self.write(&open, 0, new.body.clone()).await?;
            }
            self.commit_content(&open).await?;
            let headers = Some((new.headers.clone(), new.content_md5));
            self.change_beside(&open.target, open.shown, headers, |attributes, metadata| {
                let now = now();
                attributes.btime = now;
                metadata.retain(|key, _| is_own_key(key));
                new.smb.apply(attributes, metadata, now);
                replace_callers_metadata(metadata, &new.metadata);
            })
            .await?;
            engine.local()?.sync().await?;
            self.now_entry(&open)
        };
        let done = done.await;
        self.close(open).await;
        Ok(done?)
    }

    /// Makes a directory.
    pub async fn create_directory(
        &self,
        path: &FilePath,
        smb: SmbChange,
        metadata: Metadata,
    ) -> Answer<Entry> {
        if path.is_root() {
            return Err(FsError::Exists.into());
        }
        let owner = self.engine.config.owner;
        let now = now();
        let attributes = Attributes::new(Kind::Directory, DIRECTORY_MODE, owner.uid, owner.gid, now);
        let new = NewFile { smb, metadata, ..NewFile::default() };
        self.make(path, |spot| {
            let stored = new.stored(spot.inherit.apply(attributes), now);
            Ok(self.engine.local()?.put_small(&spot.at, Bytes::new(), stored, &must_be_new())?)
        })
        .await
    }
}

/// Whoever makes something misses the directory, not the thing.
fn no_parent(error: FsError) -> FsError {
    match error {
        FsError::NotFound | FsError::NotADirectory => FsError::NoParent,
        other => other,
    }
}
