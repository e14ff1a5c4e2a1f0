//! Changing what is beside the bytes: headers, metadata, SMB's attributes and times; and the size.

use crate::share::lease::LeaseId;
use crate::share::{Access, ShareMode};
use crate::store::{
    BlobName, Changed, ETag, HttpHeaders, Metadata, NewContent, Preconditions, PropertiesChange,
};

use super::super::Engine;
use super::super::attributes::Attributes;
use super::super::error::{FsError, Result};
use super::super::gate::Claim;
use super::super::nodes::Ino;
use super::super::now;
use super::super::watch::Outdated;
use super::Requests;
use super::brief::{LeaseRule, Target, Wanted};
use super::entry::{Entry, SmbAttributes, SmbChange, replace_callers_metadata};
use super::failure::Answer;
use super::path::FilePath;

const WRITE: Claim = Claim { access: Access::WRITE, share: ShareMode::ALL };

/// Stored headers and MD5, all together.
pub(super) type Headers = (HttpHeaders, Option<[u8; 16]>);

/// A change of a file's properties. What is absent stays as it is.
#[derive(Clone, Debug, Default)]
pub struct FileChange {
    /// Headers and MD5, all together: what they do not name is cleared.
    pub headers: Option<(HttpHeaders, Option<[u8; 16]>)>,
    /// The size. A change of it is a change of the content, now.
    pub size: Option<u64>,
    /// What SMB knows.
    pub smb: SmbChange,
}

impl Requests {
    /// Changes properties of a file. Durable when it answers.
    pub async fn set_file_properties(
        &self,
        path: &FilePath,
        change: FileChange,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        if let Some(size) = change.size {
            self.resize(path, size, lease).await?;
        }
        let FileChange { headers, smb, .. } = change;
        // Taking the attribute away is how a file becomes writable again.
        let makes_writable = smb.attributes.is_some_and(|wanted| !wanted.contains(SmbAttributes::READ_ONLY));
        self.change(path, Wanted::NoDirectory, makes_writable, lease, headers, |attributes, metadata| {
            smb.apply(attributes, metadata, now());
        })
        .await
    }

    /// Replaces the caller's metadata of a file. Durable when it answers.
    pub async fn set_file_metadata(
        &self,
        path: &FilePath,
        given: Metadata,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        self.change(path, Wanted::NoDirectory, false, lease, None, |attributes, metadata| {
            attributes.ctime = now();
            replace_callers_metadata(metadata, &given);
        })
        .await
    }

    /// Changes properties of a directory. Durable when it answers.
    pub async fn set_directory_properties(&self, path: &FilePath, smb: SmbChange) -> Answer<Entry> {
        self.change(path, Wanted::Directory, true, None, None, |attributes, metadata| {
            smb.apply(attributes, metadata, now());
        })
        .await
    }

    /// Replaces the caller's metadata of a directory. Durable when it answers.
    pub async fn set_directory_metadata(&self, path: &FilePath, given: Metadata) -> Answer<Entry> {
        self.change(path, Wanted::Directory, true, None, None, |attributes, metadata| {
            attributes.ctime = now();
            replace_callers_metadata(metadata, &given);
        })
        .await
    }

    async fn resize(&self, path: &FilePath, size: u64, lease: Option<LeaseId>) -> Answer<()> {
        self.again(|| self.resize_once(path, size, lease)).await
    }

    async fn resize_once(&self, path: &FilePath, size: u64, lease: Option<LeaseId>) -> Answer<()> {
        let open = self.open_to_write(path, lease).await?;
        let done = async {
            let (engine, file) = (&self.engine, &open.file);
            engine.with_place_for(file, open.shown, |place| file.truncate(size, place)).await?;
            self.commit_content(&open).await
        };
        let done = done.await;
        self.close(open).await;
        Ok(done?)
    }

    async fn change(
        &self,
        path: &FilePath,
        wanted: Wanted,
        read_only_too: bool,
        lease: Option<LeaseId>,
        headers: Option<Headers>,
        change: impl Fn(&mut Attributes, &mut Metadata),
    ) -> Answer<Entry> {
        if path.is_root() {
            return Ok(self.change_root(change).await?);
        }
        self.again(|| self.change_once(path, wanted, read_only_too, lease, headers.clone(), &change)).await
    }

    async fn change_once(
        &self,
        path: &FilePath,
        wanted: Wanted,
        read_only_too: bool,
        lease: Option<LeaseId>,
        headers: Option<Headers>,
        change: impl Fn(&mut Attributes, &mut Metadata),
    ) -> Answer<Entry> {
        let (target, permit) = self.pass(path, wanted, WRITE, LeaseRule::Write(lease)).await?;
        let done = async {
            let way = self.go(path).await?;
            let before = self.engine.entry(target.ino, target.parent, &target.found)?;
            if !read_only_too && before.attributes.contains(SmbAttributes::READ_ONLY) {
                return Err(FsError::ReadOnly);
            }
            let _turn = self.turn(target.ino).await;
            self.change_beside(&target, lease, headers, change).await?;
            drop(way);
            self.engine.local()?.sync().await?;
            let found = self.engine.local()?.find(&target.at)?;
            self.engine.entry(target.ino, target.parent, &found)
        };
        let done = done.await;
        self.engine.leave(target.ino, &permit).await;
        self.engine.announce(vec![Outdated::File(target.ino)]).await;
        Ok(done?)
    }

    async fn change_root(&self, change: impl FnOnce(&mut Attributes, &mut Metadata)) -> Result<Entry> {
        self.engine
            .change_root(|metadata, mut attributes| {
                change(&mut attributes, metadata);
                attributes.write_to(metadata);
                Ok(())
            })
            .await?;
        self.engine.local()?.sync().await?;
        self.engine.root_entry().await
    }

    /// Changes what is stored beside the bytes. For callers that hold an open and know the way, and have the turn.
    pub(super) async fn change_beside(
        &self,
        target: &Target,
        shown: Option<LeaseId>,
        headers: Option<Headers>,
        change: impl FnOnce(&mut Attributes, &mut Metadata),
    ) -> Result<()> {
        let (name, version) = self.change_beside_here(target.ino, shown, headers, change).await?;
        self.push_version(target.ino, &name, version, shown).await
    }

    async fn change_beside_here(
        &self,
        ino: Ino,
        shown: Option<LeaseId>,
        headers: Option<Headers>,
        change: impl FnOnce(&mut Attributes, &mut Metadata),
    ) -> Result<(BlobName, ETag)> {
        let engine = &self.engine;
        let guarded = engine.guard_name(ino).await?.ok_or(FsError::NotFound)?;
        let at = &guarded.at;
        // A directory's waiting times are in these attributes and are written with them.
        let waiting = engine.directory_times.get(ino);
        let found = engine.find_same(ino, at)?;
        let before = engine.stat_found(ino, &found)?.attributes;
        let mut attributes = before;
        let mut metadata = found.blob.as_ref().map(|blob| blob.metadata.clone()).unwrap_or_default();
        change(&mut attributes, &mut metadata);
        engine.to_store(found.blob.as_deref(), attributes).write_to(&mut metadata);
        let _changing = engine.will_change(&at.name, Changed::Properties)?;
        let Some(mut blob) = found.blob else {
            // A directory without a marker gets one now.
            let new = NewContent { metadata, ..NewContent::default() };
            let made = engine.local()?.put_small(at, bytes::Bytes::new(), new, &Preconditions::default())?;
            engine.directory_times.written(&engine.nodes, ino, waiting);
            return Ok((at.name.clone(), made.etag));
        };
        let lease = self.lease_here(ino, shown);
        if let Some(headers) = headers {
            let change = PropertiesChange { headers: Some(headers), ..PropertiesChange::default() };
            let conditions = Preconditions { lease, ..Preconditions::if_version(blob.etag) };
            let changed = engine.store.set_blob_properties(at, change, &conditions).await?;
            engine.note_version(ino, &blob, &changed);
            blob = changed;
        }
        let conditions = Preconditions { lease, ..Preconditions::if_version(blob.etag) };
        let changed = engine.local()?.set_metadata(at, metadata, &conditions)?;
        engine.directory_times.written(&engine.nodes, ino, waiting);
        engine.note_version(ino, &blob, &changed);
        if attributes.mtime != before.mtime
            && let Some(file) = engine.open_file(ino)
        {
            file.set_mtime(attributes.mtime)?;
        }
        Ok((at.name.clone(), changed.etag))
    }
}

impl Engine {
    /// Changes the stored metadata of the share itself, one change at a time.
    pub(in crate::fs) async fn change_share(&self, change: impl FnOnce(&mut Metadata)) -> Result<()> {
        self.change_root(|metadata, attributes| {
            change(metadata);
            attributes.write_to(metadata);
            Ok(())
        })
        .await
    }
}
