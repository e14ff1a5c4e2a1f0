//! Moving bytes that the kernel does not move by itself.

use std::ops::Range;
use std::sync::Arc;

use crate::share::Access;
use crate::store::Space;

use super::content::COPY_CHUNK;
use super::error::{FsError, Result};
use super::handles::{Handle, HandleId};
use super::{Engine, now};

/// What `fallocate` is asked to do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroing {
    /// Reserve room; bytes that are there stay.
    Allocate,
    /// Make it read as zeros and free the room. Never extends the file.
    PunchHole,
    /// Make it read as zeros.
    ZeroRange,
}

/// Through which handle bytes are moved, and the key of the range locks that are the mover's own, if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Mover {
    /// The handle.
    pub handle: HandleId,
    /// The key.
    pub key: Option<u64>,
}

impl From<HandleId> for Mover {
    fn from(handle: HandleId) -> Self {
        Self { handle, key: None }
    }
}

impl Engine {
    fn handle_for(&self, handle: HandleId, access: Access) -> Result<Arc<Handle>> {
        let handle = self.handles.get(handle)?;
        if handle.permit.access().contains(access) { Ok(handle) } else { Err(FsError::BadAccess) }
    }

    /// Reads into `buffer`; returns how much there was.
    pub fn read(&self, mover: impl Into<Mover>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Mover { handle, key } = mover.into();
        let handle = self.handles.get(handle)?;
        self.may_move(&handle, key, (offset, buffer.len() as u64), false)?;
        let access = handle.permit.access();
        // The kernel reads before it writes parts of a page, also through handles that may only write. An open for
        // attributes that is read after all (see the front end) must fit the others like any reader.
        if !access.contains(Access::READ) && !access.contains(Access::WRITE) {
            handle.permit.claim_more(Access::READ)?;
        }
        handle.file.read(buffer, offset)
    }

    /// Writes `data`, if that needs no preparation; says whether it did. The way for data that is only borrowed.
    pub fn write_now(&self, mover: impl Into<Mover>, offset: u64, data: &[u8]) -> Result<bool> {
        let Mover { handle, key } = mover.into();
        let handle = self.handle_for(handle, Access::WRITE)?;
        self.may_move(&handle, key, (offset, data.len() as u64), true)?;
        handle.file.write(data, offset, now())
    }

    fn may_move(&self, handle: &Handle, key: Option<u64>, bytes: (u64, u64), write: bool) -> Result<()> {
        self.may_touch(handle.file.ino(), Some(handle.permit.id()), key, bytes, write)
    }

    /// Writes `data`.
    pub async fn write(&self, mover: impl Into<Mover>, offset: u64, data: &[u8]) -> Result<()> {
        let Mover { handle, key } = mover.into();
        let handle = self.handle_for(handle, Access::WRITE)?;
        self.may_move(&handle, key, (offset, data.len() as u64), true)?;
        // A commit in between makes the content clean again, so preparing may be needed more than once.
        while !handle.file.write(data, offset, now())? {
            self.with_place(handle.file.ino(), |place| handle.file.prepare(place)).await?;
        }
        Ok(())
    }

    /// A write by somebody without the privilege to keep set-id bits.
    pub async fn write_dropped_privileges(&self, handle: HandleId) -> Result<()> {
        let ino = self.handles.get(handle)?.file.ino();
        self.change_attributes(ino, |attributes, _| attributes.drop_set_id()).await
    }

    /// `fallocate`.
    pub async fn allocate(
        &self,
        handle: HandleId,
        range: Range<u64>,
        what: Zeroing,
        keep_size: bool,
    ) -> Result<()> {
        if range.end > i64::MAX as u64 {
            return Err(FsError::TooLarge);
        }
        let handle = self.handle_for(handle, Access::WRITE)?;
        self.may_move(&handle, None, (range.start, range.end - range.start), true)?;
        let file = &handle.file;
        self.with_place(file.ino(), |place| match what {
            Zeroing::Allocate => file.allocate(range, keep_size, place),
            Zeroing::PunchHole => file.zero(range, true, place),
            Zeroing::ZeroRange => file.zero(range, keep_size, place),
        })
        .await
    }

    /// First data at or behind `from`.
    pub fn seek_data(&self, handle: HandleId, from: u64) -> Result<u64> {
        self.handles.get(handle)?.file.next_data(from)
    }

    /// First hole at or behind `from`.
    pub fn seek_hole(&self, handle: HandleId, from: u64) -> Result<u64> {
        self.handles.get(handle)?.file.next_hole(from)
    }

    /// Copies up to `length` bytes from one open file to another (or the same); returns how many.
    pub async fn copy(
        &self,
        from: HandleId,
        from_offset: u64,
        to: HandleId,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let source = self.handle_for(from, Access::READ)?;
        self.may_move(&source, None, (from_offset, length), false)?;
        let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPY_CHUNK).min(COPY_CHUNK)];
        let mut done = 0;
        while done < length {
            let wanted = usize::try_from(length - done).unwrap_or(COPY_CHUNK).min(buffer.len());
            let got = source.file.read(&mut buffer[..wanted], from_offset + done)?;
            if got == 0 {
                break;
            }
            self.write(to, to_offset + done, &buffer[..got]).await?;
            done += got as u64;
        }
        Ok(done)
    }

    /// Room in the store.
    pub fn space(&self) -> Result<Space> {
        Ok(self.local()?.space()?)
    }
}
