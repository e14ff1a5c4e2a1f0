//! Moving bytes that the kernel does not move by itself.

use std::ops::Range;
use std::sync::Arc;

use crate::share::Access;
use crate::store::Space;

use super::content::COPY_CHUNK;
use super::error::{FsError, Result};
use super::file::OpenFile;
use super::handles::{Handle, HandleId};
use super::namespace::Caller;
use super::place::blocking;
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

    /// Reads into `buffer`; returns how much there was. [`FsError::NotHere`] if some of it must be brought first:
    /// then [`read_elsewhere`](Self::read_elsewhere) does it.
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

    /// [`read`](Self::read), bringing what is not here.
    pub async fn read_elsewhere(
        &self,
        mover: impl Into<Mover>,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        let mover = mover.into();
        let file = Arc::clone(&self.handles.get(mover.handle)?.file);
        let mut buffer = vec![0; length];
        let got = self.with_bytes(&file, || self.read(mover, offset, &mut buffer)).await?;
        buffer.truncate(got);
        Ok(buffer)
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
        self.make_room(data.len() as u64).await?;
        let file = &handle.file;
        // A commit in between makes the content clean again, so preparing may be needed more than once.
        while !file.write(data, offset, now())? {
            self.with_place(file, |place| blocking(|| file.prepare(place))).await?;
        }
        Ok(())
    }

    /// Makes room in the cache directory for bytes that are going to be written. What the store keeps for itself stays
    /// free: without it nothing could be evicted, and nothing noted as pushed, any more.
    async fn make_room(&self, bytes: u64) -> Result<()> {
        match self.upstream() {
            Some(upstream) if !upstream.make_room(bytes).await => Err(FsError::NoSpace),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a write by somebody without the privilege to keep set-id bits may have to drop some: then
    /// [`drop_privileges`](Self::drop_privileges) comes first.
    pub fn may_drop_privileges(&self, handle: HandleId) -> bool {
        self.handles.get(handle).is_ok_and(|handle| handle.file.may_have_set_id())
    }

    /// What a write by such a program does to set-id bits, if there are any.
    pub async fn drop_privileges(&self, handle: HandleId) -> Result<()> {
        let ino = self.handles.get(handle)?.file.ino();
        self.drop_set_id_bits(ino).await
    }

    /// The same for changes of which the kernel tells who makes them and nothing more.
    async fn drop_set_id_of(&self, file: &OpenFile, caller: Caller) -> Result<()> {
        if file.may_have_set_id() { self.drop_set_id(file.ino(), caller).await } else { Ok(()) }
    }

    /// `fallocate`.
    pub async fn allocate(
        &self,
        handle: HandleId,
        range: Range<u64>,
        what: Zeroing,
        keep_size: bool,
        caller: Caller,
    ) -> Result<()> {
        if range.end > i64::MAX as u64 {
            return Err(FsError::TooLarge);
        }
        let handle = self.handle_for(handle, Access::WRITE)?;
        self.may_move(&handle, None, (range.start, range.end - range.start), true)?;
        let file = &handle.file;
        self.drop_set_id_of(file, caller).await?;
        self.with_place(file, |place| match what {
            Zeroing::Allocate => file.allocate(range.clone(), keep_size, place),
            Zeroing::PunchHole => file.zero(range.clone(), true, place),
            Zeroing::ZeroRange => file.zero(range.clone(), keep_size, place),
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
        (from, from_offset): (HandleId, u64),
        (to, to_offset): (HandleId, u64),
        length: u64,
        caller: Caller,
    ) -> Result<u64> {
        let source = self.handle_for(from, Access::READ)?;
        self.may_move(&source, None, (from_offset, length), false)?;
        let target = self.handle_for(to, Access::WRITE)?;
        self.drop_set_id_of(&target.file, caller).await?;
        let mut buffer = vec![0; usize::try_from(length).unwrap_or(COPY_CHUNK).min(COPY_CHUNK)];
        let mut done = 0;
        while done < length {
            let wanted = usize::try_from(length - done).unwrap_or(COPY_CHUNK).min(buffer.len());
            let part = &mut buffer[..wanted];
            let got = self.with_bytes(&source.file, || source.file.read(part, from_offset + done)).await?;
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
