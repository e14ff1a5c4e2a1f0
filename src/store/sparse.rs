//! File operations that std does not offer: holes, allocation, times, who else has the file. The store's OS edge.
//!
//! Free functions over an open file, so that scratch files and content files are handled alike.

use std::fs::{File, FileTimes};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Whence, lseek64};

use crate::share::Moment;

fn signed(value: u64) -> io::Result<i64> {
    i64::try_from(value).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

/// Makes `range` read as zeros and frees its space. Never changes the file's length.
pub fn punch_hole(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match fallocate(file, flags, signed(range.start)?, signed(range.end - range.start)?) {
        Ok(()) => Ok(()),
        Err(Errno::EOPNOTSUPP) => write_zeros(file, range),
        Err(errno) => Err(errno.into()),
    }
}

fn write_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let end = range.end.min(file.metadata()?.len());
    let mut at = range.start;
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write_all_at(&ZEROS[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// Reserves space for `range`; the length stays as it is.
pub fn allocate(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let flags = FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match fallocate(file, flags, signed(range.start)?, signed(range.end - range.start)?) {
        // A file system that cannot reserve still has the space, or says ENOSPC at the write.
        Ok(()) | Err(Errno::EOPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The first offset at or behind `from` that holds data, if there is one.
pub fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    seek(file, from, Whence::SeekData)
}

/// The first offset at or behind `from` that is in a hole or at the end; nothing if `from` is behind the end.
pub fn next_hole(file: &File, from: u64) -> io::Result<Option<u64>> {
    seek(file, from, Whence::SeekHole)
}

/// The first range of data at or behind `from`, as far as it is before `end`.
pub fn next_run(file: &File, from: u64, end: u64) -> io::Result<Option<Range<u64>>> {
    let Some(start) = next_data(file, from)?.filter(|start| *start < end) else { return Ok(None) };
    Ok(Some(start..next_hole(file, start)?.unwrap_or(end).min(end)))
}

fn seek(file: &File, from: u64, whence: Whence) -> io::Result<Option<u64>> {
    match lseek64(file, signed(from)?, whence) {
        Ok(offset) => Ok(u64::try_from(offset).ok()),
        Err(Errno::ENXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Sets the time of last change of the file's content.
pub fn set_modified(file: &File, mtime: Moment) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(mtime.into()))
}

/// Whether no other descriptor or mapping can write to the file, ours (open for writing) being the only one.
///
/// Asks for a write lease on the file and gives it back at once; the kernel refuses it while there is another writer.
/// An error where that cannot be told, as on a file system without leases: what it means then is the caller's to say.
pub fn is_sole_writer(file: &File) -> io::Result<bool> {
    /// From the kernel's `fcntl.h`: which signal tells the holder of a lease that somebody wants the file.
    const F_SETSIG: libc::c_int = 10;
    // Somebody who opens the file in that moment makes the kernel send us a signal. The usual one, SIGIO, would end
    // the process; this one is ignored unless asked for.
    // SAFETY: F_SETSIG takes a descriptor, which is open as long as `file` is, and an integer.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: F_SETLEASE takes a descriptor, which is open as long as `file` is, and an integer.
    let taken = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    if taken == 0 {
        // SAFETY: as above.
        let given = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        return if given == 0 { Ok(true) } else { Err(io::Error::last_os_error()) };
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(false),
        _ => Err(error),
    }
}

/// Closes a second descriptor of a file that was just cut to nothing.
///
/// ext4 writes a file out when a descriptor is closed after such a cut, because it takes that for a program that
/// replaces the content. Closing one now, with nothing to write, spares the next user that wait.
pub fn settle_emptied(file: &File) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::OpenOptions::new().write(true).open(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_writer_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let ours = file.reopen().unwrap();
        let writable = File::options().read(true).write(true).open(file.path()).unwrap();
        assert!(!is_sole_writer(&writable).unwrap(), "the temporary file's own descriptors");
        drop(ours);
        let path = file.into_temp_path();
        assert!(is_sole_writer(&writable).unwrap());
        let other = File::options().read(true).write(true).open(&path).unwrap();
        assert!(!is_sole_writer(&writable).unwrap());
        drop(other);
        assert!(is_sole_writer(&writable).unwrap());
    }

    #[test]
    fn without_leases_it_cannot_be_told() {
        // The kernel gives no lease on a device, as on no file of a file system without leases.
        let device = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert!(is_sole_writer(&device).is_err());
    }

    #[test]
    fn asking_does_not_end_the_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.into_temp_path();
        let ours = File::options().read(true).write(true).open(&path).unwrap();
        let opener = std::thread::spawn({
            let path = path.to_path_buf();
            move || (0..20_000).for_each(|_| drop(File::options().write(true).open(&path).unwrap()))
        });
        while !opener.is_finished() {
            is_sole_writer(&ours).unwrap();
        }
        opener.join().unwrap();
    }
}
