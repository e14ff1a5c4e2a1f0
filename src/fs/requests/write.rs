//! Changing bytes of a file that exists.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::share::lease::LeaseId;
use crate::share::{Access, ShareMode};
use crate::store::{BlobPath, BlobProperties, Found, Preconditions};

use super::super::commit::Committing;
use super::super::error::{FsError, Result};
use super::super::file::CommitInfo;
use super::super::gate::{Claim, OpenPermit};
use super::super::nodes::Ino;
use super::super::now;
use super::super::watch::Outdated;
use super::Requests;
use super::brief::{Brief, LeaseRule, Target, Wanted};
use super::entry::{Entry, SmbAttributes};
use super::failure::{Answer, Failure};
use super::path::FilePath;

/// Writing more than this is not done on a thread that has others to serve.
const QUICK_BYTES: usize = 256 << 10;

/// What a change of bytes says about the time of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastWrite {
    /// It was now.
    #[default]
    Now,
    /// It stays what it was.
    Preserve,
}

impl Requests {
    /// Writes `data` at `offset`, inside the file. Durable when it answers.
    pub async fn put_range(
        &self,
        path: &FilePath,
        offset: u64,
        data: Bytes,
        last_write: LastWrite,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        self.again(|| self.put_range_once(path, offset, data.clone(), last_write, lease)).await
    }

    async fn put_range_once(
        &self,
        path: &FilePath,
        offset: u64,
        data: Bytes,
        last_write: LastWrite,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        let end = offset.checked_add(data.len() as u64).ok_or(FsError::TooLarge)?;
        let (target, permit) = self.pass_to_write(path, lease).await?;
        let in_place = |bytes: &mut [u8]| bytes.copy_from_slice(&data);
        let small = self.change_small(path, &target, offset..end, in_place, last_write, lease).await;
        if let Some(done) = self.finish_small(&target, &permit, small).await {
            return done;
        }
        let open = self.attach(path, target, permit, lease).await?;
        let done = async {
            within(open.file.stat()?.size, end)?;
            self.write(&open, offset, data).await?;
            self.finish_write(&open, last_write).await
        };
        let done = done.await;
        self.close(open).await;
        Ok(done?)
    }

    /// Makes bytes of the file read as zeros, and frees their room. Durable when it answers.
    pub async fn clear_range(
        &self,
        path: &FilePath,
        range: Range<u64>,
        last_write: LastWrite,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        if range.start > range.end {
            return Err(FsError::Invalid("the range ends before it begins").into());
        }
        self.again(|| self.clear_range_once(path, range.clone(), last_write, lease)).await
    }

    async fn clear_range_once(
        &self,
        path: &FilePath,
        range: Range<u64>,
        last_write: LastWrite,
        lease: Option<LeaseId>,
    ) -> Answer<Entry> {
        let (target, permit) = self.pass_to_write(path, lease).await?;
        let zeros = |bytes: &mut [u8]| bytes.fill(0);
        let small = self.change_small(path, &target, range.clone(), zeros, last_write, lease).await;
        if let Some(done) = self.finish_small(&target, &permit, small).await {
            return done;
        }
        let open = self.attach(path, target, permit, lease).await?;
        let done = async {
            within(open.file.stat()?.size, range.end)?;
            let (engine, file) = (&self.engine, &open.file);
            engine.with_place_for(file, open.shown, |place| file.zero(range.clone(), true, place)).await?;
            self.finish_write(&open, last_write).await
        };
        let done = done.await;
        self.close(open).await;
        Ok(done?)
    }

    /// Changes bytes of a small file that nobody has open: one change of the store, and no file of its own. Nothing if
    /// it is not such a file.
    async fn change_small(
        &self,
        path: &FilePath,
        target: &Target,
        range: Range<u64>,
        change: impl FnOnce(&mut [u8]),
        last_write: LastWrite,
        lease: Option<LeaseId>,
    ) -> Result<Option<Entry>> {
        let engine = &self.engine;
        if engine.upstream().is_some() {
            // Its bytes may have to be brought first, which opening it does.
            return Ok(None);
        }
        let local = engine.local()?;
        let done = self
            .unless_open(path, target, |at, blob| {
                let reader = local.reader(at)?;
                let Some(bytes) = reader.as_bytes() else { return Ok(None) };
                within(blob.size, range.end)?;
                // Both are inside the content, which is in memory.
                let part = range.start as usize..range.end as usize;
                let mut bytes = bytes.to_vec();
                change(&mut bytes[part]);
                let now = now();
                let committing = Committing { engine, ino: target.ino, blob: Arc::clone(blob), shown: lease };
                let mtime = match last_write {
                    LastWrite::Now => now,
                    LastWrite::Preserve => target.attributes.mtime,
                };
                let new = committing.new_content(mtime, now)?;
                let lease = lease.or(engine.leases.id(target.ino));
                let conditions = Preconditions { lease, ..Preconditions::if_version(blob.etag) };
                Ok(Some(local.put_small(at, bytes.into(), new, &conditions)?))
            })
            .await?;
        let Some(Some(blob)) = done else { return Ok(None) };
        local.sync().await?;
        let found = Found { blob: Some(blob), prefix: target.found.prefix };
        Ok(Some(engine.entry(target.ino, target.parent, &found)?))
    }

    /// Ends the call if it is over: with what it did, or with what went wrong.
    async fn finish_small(
        &self,
        target: &Target,
        permit: &OpenPermit,
        small: Result<Option<Entry>>,
    ) -> Option<Answer<Entry>> {
        let done = match small {
            Ok(None) => return None,
            // Somebody changed the blob past us between two looks; the other way copes with that.
            Err(FsError::Stale) => return None,
            Ok(Some(entry)) => Ok(entry),
            Err(error) => Err(error.into()),
        };
        self.engine.leave(target.ino, permit).await;
        if done.is_ok() {
            self.engine.announce(vec![Outdated::File(target.ino)]).await;
        }
        Some(done)
    }

    /// Acts on a file that nobody has open while nobody can open it; nothing if somebody has.
    pub(super) async fn unless_open<T>(
        &self,
        path: &FilePath,
        target: &Target,
        act: impl FnOnce(&BlobPath, &Arc<BlobProperties>) -> Result<T>,
    ) -> Result<Option<T>> {
        let engine = &self.engine;
        if engine.open_file(target.ino).is_some() {
            return Ok(None);
        }
        let _way = self.go(path).await?;
        let Some(guarded) = engine.guard_name(target.ino).await? else { return Err(FsError::NotFound) };
        let blob = engine.local()?.find(&guarded.at)?.blob.ok_or(FsError::NotFound)?;
        if Ino::of(blob.id) != target.ino {
            return Err(FsError::NotFound);
        }
        if engine.open_file(target.ino).is_some() {
            return Ok(None);
        }
        let done = act(&guarded.at, &blob)?;
        // What the kernel may hold of it is another version now.
        engine.nodes.set_cached(target.ino, None);
        Ok(Some(done))
    }

    /// Passes the gate for a file whose bytes are going to be changed.
    async fn pass_to_write(&self, path: &FilePath, lease: Option<LeaseId>) -> Answer<(Target, OpenPermit)> {
        let claim = Claim { access: Access::WRITE, share: ShareMode::ALL };
        let (target, permit) = self.pass(path, Wanted::File, claim, LeaseRule::Write(lease)).await?;
        match self.may_write(&target) {
            Ok(()) => Ok((target, permit)),
            Err(failure) => {
                self.engine.leave(target.ino, &permit).await;
                Err(failure)
            }
        }
    }

    /// Opens a file whose bytes are going to be changed.
    pub(super) async fn open_to_write(&self, path: &FilePath, lease: Option<LeaseId>) -> Answer<Brief<'_>> {
        let (target, permit) = self.pass_to_write(path, lease).await?;
        Ok(self.attach(path, target, permit, lease).await?)
    }

    /// Any range lock is in the way, wherever it is; and the attribute.
    pub(super) fn may_write(&self, target: &Target) -> Answer<()> {
        let locks = self.engine.gate.ranges_of(target.ino);
        if !locks.is_empty() {
            let mut holders = self.engine.gate.opens_of(target.ino);
            holders.retain(|open| locks.iter().any(|lock| lock.owner.open == open.id));
            return Err(Failure { error: FsError::RangeLocked, holders });
        }
        let entry = self.engine.entry(target.ino, target.parent, &target.found)?;
        if entry.attributes.contains(SmbAttributes::READ_ONLY) {
            return Err(FsError::ReadOnly.into());
        }
        Ok(())
    }

    /// Writes into the file that programs on the mount have, too.
    pub(super) async fn write(&self, open: &Brief<'_>, offset: u64, data: Bytes) -> Result<()> {
        let file = &open.file;
        loop {
            let written = if data.len() <= QUICK_BYTES {
                file.write(&data, offset, now())?
            } else {
                let (file, data) = (Arc::clone(file), data.clone());
                let written = tokio::task::spawn_blocking(move || file.write(&data, offset, now()));
                written.await.map_err(|error| FsError::Io(error.to_string()))??
            };
            if written {
                return Ok(());
            }
            // A commit in between makes the content clean again, so preparing may be needed more than once.
            self.engine.with_place_for(file, open.shown, |place| file.prepare(place)).await?;
        }
    }

    async fn finish_write(&self, open: &Brief<'_>, last_write: LastWrite) -> Result<Entry> {
        if last_write == LastWrite::Preserve {
            open.file.set_mtime(open.target.attributes.mtime)?;
        }
        self.commit(open).await?;
        self.now_entry(open)
    }
}

fn within(size: u64, end: u64) -> Result<()> {
    if end > size { Err(FsError::OutOfRange { size }) } else { Ok(()) }
}
