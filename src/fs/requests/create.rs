//! Making files and directories: new ones, and in place of files that are there.
//!
//! The bytes are made ready first, and durable. Then one change of the store names them, with everything beside them.
//! Only if programs have the file open that is replaced, the bytes go into the file that they have.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use crate::share::lease::LeaseId;
use crate::share::{Access, Moment, ShareMode};
use crate::store::{
    BlobPath, BlobProperties, Changed, CopyState, Found, HttpHeaders, Metadata, NewContent, Preconditions,
    Scratch,
};

use super::super::attributes::{Attributes, Kind, is_own_key};
use super::super::content::COPY_CHUNK;
use super::super::error::{FsError, Result};
use super::super::gate::{Claim, OpenPermit};
use super::super::namespace::{Spot, must_be_new};
use super::super::nodes::Ino;
use super::super::now;
use super::super::watch::Outdated;
use super::Requests;
use super::brief::{LOOKS_MAX, LeaseRule, Target, Wanted};
use super::entry::{Entry, SmbChange, replace_callers_metadata};
use super::failure::Answer;
use super::path::FilePath;
use super::read::Reading;

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
    /// Whoever asks may make files, but not replace them.
    pub create_only: bool,
}

/// A file to be made from another one.
#[derive(Clone, Debug, Default)]
pub struct CopyFile {
    /// The copy's id, and its source as the caller gave it; remembered with the file.
    pub record: Option<(String, String)>,
    /// A file that is there is replaced also if it is read-only.
    pub ignore_read_only: bool,
    /// What SMB knows about it. Its times and attributes are those of a new file where this says nothing.
    pub smb: SmbChange,
    /// The caller's metadata; absent: the source's.
    pub metadata: Option<Metadata>,
    /// Whoever asks may make files, but not replace them.
    pub create_only: bool,
}

/// Everything about a file to be made but its name.
struct Making {
    bytes: NewBytes,
    size: u64,
    smb: SmbChange,
    metadata: Metadata,
    headers: HttpHeaders,
    content_md5: Option<[u8; 16]>,
    copy: Option<CopyState>,
    ignore_read_only: bool,
    create_only: bool,
}

/// Where the bytes of a new file are: few in memory, many in a file, durable already.
enum NewBytes {
    Small(Bytes),
    File(Scratch),
}

impl Making {
    /// What is stored beside the bytes of a file that has these attributes and, of this metadata, what is ours.
    fn stored(&self, mut attributes: Attributes, mut metadata: Metadata, now: Moment) -> NewContent {
        metadata.retain(is_own_key);
        self.smb.apply(&mut attributes, &mut metadata, now);
        replace_callers_metadata(&mut metadata, &self.metadata);
        attributes.write_to(&mut metadata);
        NewContent {
            metadata,
            headers: self.headers.clone(),
            content_md5: self.content_md5,
            copy: self.copy.clone(),
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
        let NewFile { size, body, smb, metadata, headers, content_md5, create_only } = new;
        let bytes = self.given_bytes(size, &body).await?;
        let (copy, ignore_read_only) = (None, false);
        let making =
            Making { bytes, size, smb, metadata, headers, content_md5, copy, ignore_read_only, create_only };
        self.make_or_replace(path, &making, lease).await
    }

    /// Makes a file from another one, of this share or not, in place of one that is there. Durable when it answers.
    pub async fn copy(
        &self,
        source: &Reading,
        path: &FilePath,
        request: CopyFile,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        let size = source.size();
        let bytes = self.read_bytes(source).await?;
        let copied = |(id, from)| CopyState { id, source: from, bytes: size, completed: now() };
        let making = Making {
            bytes,
            size,
            smb: request.smb,
            metadata: request.metadata.unwrap_or_else(|| source.entry.metadata.clone()),
            headers: source.entry.headers.clone(),
            content_md5: source.entry.content_md5,
            copy: request.record.map(copied),
            ignore_read_only: request.ignore_read_only,
            create_only: request.create_only,
        };
        self.make_or_replace(path, &making, lease).await
    }

    async fn given_bytes(&self, size: u64, body: &Bytes) -> Result<NewBytes> {
        let local = self.engine.local()?;
        if let Some(length) = usize::try_from(size).ok().filter(|_| size <= local.inline_max()) {
            let mut bytes = body.to_vec();
            bytes.resize(length, 0);
            return Ok(NewBytes::Small(bytes.into()));
        }
        let scratch = local.scratch()?;
        let (file, body) = (Arc::clone(scratch.file()), body.clone());
        blocking(move || {
            file.write_all_at(&body, 0)?;
            Ok(file.set_len(size)?)
        })
        .await?;
        local.sync_data(vec![Arc::clone(scratch.file())]).await?;
        Ok(NewBytes::File(scratch))
    }

    async fn read_bytes(&self, source: &Reading) -> Result<NewBytes> {
        let (local, size) = (self.engine.local()?, source.size());
        source.bring(0..size).await?;
        if let Some(length) = usize::try_from(size).ok().filter(|_| size <= local.inline_max()) {
            let mut bytes = vec![0; length];
            source.read_at(&mut bytes, 0)?;
            return Ok(NewBytes::Small(bytes.into()));
        }
        let scratch = local.scratch()?;
        let (file, source) = (Arc::clone(scratch.file()), source.clone());
        blocking(move || {
            let mut buffer = vec![0; COPY_CHUNK];
            for range in source.ranges(None)? {
                let mut at = range.start;
                while at < range.end {
                    let wanted = usize::try_from(range.end - at).unwrap_or(COPY_CHUNK).min(COPY_CHUNK);
                    let got = source.read_at(&mut buffer[..wanted], at)?;
                    if got == 0 {
                        break;
                    }
                    file.write_all_at(&buffer[..got], at)?;
                    at += got as u64;
                }
            }
            Ok(file.set_len(size)?)
        })
        .await?;
        local.sync_data(vec![Arc::clone(scratch.file())]).await?;
        Ok(NewBytes::File(scratch))
    }

    async fn make_or_replace(
        &self,
        path: &FilePath,
        making: &Making,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        for _ in 0..LOOKS_MAX {
            match self.look(path, None).await {
                Ok(target) if target.is_directory() => return Err(FsError::IsADirectory.into()),
                Ok(_) if making.create_only => return Err(FsError::Exists.into()),
                Ok(_) => match self.replace(path, making, lease).await {
                    // Removed meanwhile, or, elsewhere, changed.
                    Err(failure) if matches!(failure.error, FsError::NotFound | FsError::Stale) => {}
                    other => return other,
                },
                Err(FsError::NotFound) => match self.make_file(path, making).await {
                    Err(failure) if matches!(failure.error, FsError::Exists) => {}
                    other => return other,
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(FsError::Stale.into())
    }

    async fn make_file(&self, path: &FilePath, making: &Making) -> Answer<Entry> {
        let (owner, now) = (self.engine.config.owner, now());
        let attributes = Attributes::new(Kind::File, FILE_MODE, owner.uid, owner.gid, now);
        self.make(path, |spot| {
            let stored = making.stored(spot.inherit.apply(attributes), Metadata::new(), now);
            self.name_bytes(&spot.at, making, stored, &must_be_new())
        })
        .await
    }

    /// Makes the bytes the content of a blob.
    fn name_bytes(
        &self,
        at: &BlobPath,
        making: &Making,
        stored: NewContent,
        conditions: &Preconditions,
    ) -> Result<Arc<BlobProperties>> {
        let local = self.engine.local()?;
        Ok(match &making.bytes {
            NewBytes::Small(bytes) => local.put_small(at, bytes.clone(), stored, conditions)?,
            NewBytes::File(scratch) => local.publish(at, scratch, making.size, stored, conditions)?,
        })
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
        let (parent, way) = self.go(&FilePath::from_segments(above)).await.map_err(no_parent)?;
        engine.may_create(parent, segment).await?;
        let (entry, name) = {
            let _entry = engine.guard_entry(parent, segment).await;
            let spot = engine.free_name(parent, segment).await.map_err(no_parent)?;
            let there = engine.local()?.find(&spot.at)?;
            if there.blob.is_some() || there.prefix.is_some() {
                return Err(FsError::Exists.into());
            }
            let _changing = engine.will_change(&spot.at.name, Changed::Everything)?;
            let blob = put(&spot)?;
            let entry = engine.entry(Ino::of(blob.id), parent, &Found { blob: Some(blob), prefix: None })?;
            (entry, spot.at.name)
        };
        engine.push_made(entry.ino, &name).await?;
        engine.touch_directory(parent).await;
        drop(way);
        engine.local()?.sync().await?;
        let name = Outdated::Name { parent, segment: segment.clone() };
        engine.announce(vec![name, Outdated::File(parent)]).await;
        Ok(entry)
    }

    /// Makes the file that is there a new one: its bytes, and everything beside them. It keeps its number, its owner
    /// and its lease, and the programs that have it open see the new bytes.
    async fn replace(&self, path: &FilePath, making: &Making, lease: Option<LeaseId>) -> Answer<Entry> {
        let access = Access::WRITE.union(Access::DELETE);
        let claim = Claim { access, share: ShareMode::ALL };
        let (target, permit) = self.pass(path, Wanted::File, claim, LeaseRule::Write(lease)).await?;
        let may = match self.may_write(&target) {
            Err(failure) if matches!(failure.error, FsError::ReadOnly) && making.ignore_read_only => Ok(()),
            other => other,
        };
        if let Err(failure) = may {
            self.engine.leave(target.ino, &permit).await;
            return Err(failure);
        }
        match self.replace_closed(path, &target, making, lease).await {
            Ok(true) => {
                self.engine.leave(target.ino, &permit).await;
                self.engine.announce(vec![Outdated::File(target.ino)]).await;
            }
            Ok(false) => self.replace_open(path, target, permit, making, lease).await?,
            Err(error) => {
                self.engine.leave(target.ino, &permit).await;
                return Err(error.into());
            }
        }
        let now_there = self.look(path, lease).await?;
        Ok(self.engine.entry(now_there.ino, now_there.parent, &now_there.found)?)
    }

    /// Replaces a file that nobody has open, in one step; says whether that was so.
    async fn replace_closed(
        &self,
        path: &FilePath,
        target: &Target,
        making: &Making,
        lease: Option<LeaseId>,
    ) -> Result<bool> {
        let engine = &self.engine;
        let _turn = self.turn(target.ino).await;
        let replaced = self
            .unless_open(path, target, |at, blob| {
                let _changing = engine.will_change(&at.name, Changed::Everything)?;
                let now = now();
                let mut attributes = Attributes::of_blob(blob, engine.config.owner);
                (attributes.btime, attributes.mtime, attributes.ctime) = (now, now, now);
                let stored = making.stored(attributes, blob.metadata.clone(), now);
                let lease = self.lease_here(target.ino, lease);
                let conditions = Preconditions { lease, ..Preconditions::default() };
                self.name_bytes(at, making, stored, &conditions)
            })
            .await?;
        let Some(made) = replaced else { return Ok(false) };
        engine.local()?.sync().await?;
        self.push_over(target, made.etag, lease).await?;
        Ok(true)
    }

    /// Replaces the bytes in the file that programs have open.
    async fn replace_open(
        &self,
        path: &FilePath,
        target: Target,
        permit: OpenPermit,
        making: &Making,
        lease: Option<LeaseId>,
    ) -> Result<()> {
        let open = self.attach(path, target, permit, lease).await?;
        let done = async {
            let engine = &self.engine;
            engine
                .with_place_for(&open.file, open.shown, |place| {
                    open.file.truncate(0, place)?;
                    open.file.truncate(making.size, place)
                })
                .await?;
            match &making.bytes {
                NewBytes::Small(bytes) => self.write(&open, 0, bytes.clone()).await?,
                NewBytes::File(scratch) => {
                    let mut at = 0;
                    while at < making.size {
                        let length = usize::try_from(making.size - at).unwrap_or(COPY_CHUNK).min(COPY_CHUNK);
                        let mut buffer = vec![0; length];
                        scratch.file().read_exact_at(&mut buffer, at)?;
                        self.write(&open, at, buffer.into()).await?;
                        at += length as u64;
                    }
                }
            }
            self.commit_content(&open).await?;
            let headers = Some((making.headers.clone(), making.content_md5));
            self.change_beside(&open.target, open.shown, headers, |attributes, metadata| {
                let now = now();
                attributes.btime = now;
                metadata.retain(is_own_key);
                making.smb.apply(attributes, metadata, now);
                replace_callers_metadata(metadata, &making.metadata);
            })
            .await?;
            Ok(engine.local()?.sync().await?)
        };
        let done = done.await;
        self.close(open).await;
        done
    }

    /// Makes a directory. Durable when it answers.
    pub async fn create_directory(
        &self,
        path: &FilePath,
        smb: SmbChange,
        metadata: Metadata,
    ) -> Answer<Entry> {
        let (owner, now) = (self.engine.config.owner, now());
        let attributes = Attributes::new(Kind::Directory, DIRECTORY_MODE, owner.uid, owner.gid, now);
        self.make(path, |spot| {
            let mut attributes = spot.inherit.apply(attributes);
            let mut stored = Metadata::new();
            smb.apply(&mut attributes, &mut stored, now);
            replace_callers_metadata(&mut stored, &metadata);
            attributes.write_to(&mut stored);
            let new = NewContent { metadata: stored, ..NewContent::default() };
            Ok(self.engine.local()?.put_small(&spot.at, Bytes::new(), new, &must_be_new())?)
        })
        .await
    }
}

/// Runs what may take long where it delays nobody.
async fn blocking(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(|error| FsError::Io(error.to_string()))?
}

/// Whoever makes something misses the directory, not the thing.
fn no_parent(error: FsError) -> FsError {
    match error {
        FsError::NotFound | FsError::NotADirectory => FsError::NoParent,
        other => other,
    }
}
