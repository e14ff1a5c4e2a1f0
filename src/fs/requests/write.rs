//! Changing bytes of a file that exists.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::share::Access;
use crate::share::lease::LeaseId;

use super::super::error::{FsError, Result};
use super::super::now;
use super::Requests;
use super::brief::Brief;
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
        let end = offset.checked_add(data.len() as u64).ok_or(FsError::TooLarge)?;
        let open = self.open_to_write(path, lease).await?;
        let done = async {
            within(&open, end)?;
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
        let open = self.open_to_write(path, lease).await?;
        let done = async {
            within(&open, range.end)?;
            let (engine, file) = (&self.engine, &open.file);
            engine.with_place_for(file, open.shown, |place| file.zero(range.clone(), true, place)).await?;
            self.finish_write(&open, last_write).await
        };
        let done = done.await;
        self.close(open).await;
        Ok(done?)
    }

    /// Opens a file whose bytes are going to be changed. Any range lock on it is in the way, wherever it is.
    async fn open_to_write(&self, path: &FilePath, lease: Option<LeaseId>) -> Answer<Brief<'_>> {
        let open = self.open_to_change(path, Access::WRITE, lease).await?;
        match self.may_write(&open) {
            Ok(()) => Ok(open),
            Err(failure) => {
                self.close_unchanged(open).await;
                Err(failure)
            }
        }
    }

    pub(super) fn may_write(&self, open: &Brief<'_>) -> Answer<()> {
        let ino = open.target.ino;
        let locks = self.engine.gate.ranges_of(ino);
        if !locks.is_empty() {
            let mut holders = self.engine.gate.opens_of(ino);
            holders.retain(|open| locks.iter().any(|lock| lock.owner.open == open.id));
            return Err(Failure { error: FsError::RangeLocked, holders });
        }
        Ok(self.must_be_writable(open)?)
    }

    pub(super) fn must_be_writable(&self, open: &Brief<'_>) -> Result<()> {
        let entry = self.now_entry(open)?;
        if entry.attributes.contains(SmbAttributes::READ_ONLY) { Err(FsError::ReadOnly) } else { Ok(()) }
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

fn within(open: &Brief<'_>, end: u64) -> Result<()> {
    let size = open.file.stat()?.size;
    if end > size { Err(FsError::OutOfRange { size }) } else { Ok(()) }
}
