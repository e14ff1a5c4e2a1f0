//! Content files kept open and empty for the next writers: making one takes longer than writing a small blob.
//!
//! A file that comes back has the last writer's bytes in it. Emptying it takes as long as everything else a small
//! blob needs, so that is left to the keeper unless the empty ones run out. A file that a program still has mapped
//! (the kernel says so) is never used again.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::{Exposure, sparse};

/// Empty files kept.
const EMPTY_FILES: usize = 64;

/// Files kept that are still to be emptied.
const USED_FILES: usize = 64;

/// So many used files are worth waking the keeper for.
const WORTH_WAKING: usize = 24;

/// A file that grew beyond this is removed rather than emptied: freeing its blocks takes time.
const FILE_BYTES: u64 = 1 << 20;

/// A file and its number.
pub(super) type Numbered = (u64, Arc<File>);

#[derive(Default)]
pub(super) struct Pool {
    files: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    empty: Vec<Numbered>,
    used: Vec<(u64, Arc<File>, Exposure)>,
    /// Not to be used again; the keeper removes them.
    rejected: Vec<u64>,
}

/// What became of a file that came back.
pub(super) enum Given {
    /// Kept.
    Kept,
    /// Kept, and there is enough to do for the keeper.
    KeptAndMany,
    /// Not kept: the caller removes it.
    Refused,
}

impl Pool {
    /// An empty file, if there is one.
    pub(super) fn take(&self) -> Option<Numbered> {
        loop {
            let (number, file, exposure) = {
                let mut kept = self.files.lock();
                if let Some(empty) = kept.empty.pop() {
                    return Some(empty);
                }
                kept.used.pop()?
            };
            match empty(&file, exposure) {
                Ok(()) => return Some((number, file)),
                Err(_) => self.files.lock().rejected.push(number),
            }
        }
    }

    /// Keeps a file that nobody uses any more.
    pub(super) fn give(&self, number: u64, file: Arc<File>, exposure: Exposure) -> Given {
        let small =
            file.metadata().is_ok_and(|now| now.len() <= FILE_BYTES && now.blocks() * 512 <= FILE_BYTES);
        let mut kept = self.files.lock();
        if !small || kept.used.len() >= USED_FILES {
            return Given::Refused;
        }
        kept.used.push((number, file, exposure));
        if kept.used.len() == WORTH_WAKING { Given::KeptAndMany } else { Given::Kept }
    }

    /// Empties what came back. Answers the files there is no room for.
    pub(super) fn tidy_up(&self) -> Vec<u64> {
        let mut surplus = std::mem::take(&mut self.files.lock().rejected);
        loop {
            let Some((number, file, exposure)) = self.files.lock().used.pop() else { return surplus };
            let emptied = empty(&file, exposure).is_ok();
            let mut kept = self.files.lock();
            if emptied && kept.empty.len() < EMPTY_FILES {
                kept.empty.push((number, file));
            } else {
                surplus.push(number);
            }
        }
    }

    /// Takes everything out.
    pub(super) fn drain(&self) -> Vec<u64> {
        let mut kept = self.files.lock();
        let Kept { empty, used, rejected } = std::mem::take(&mut *kept);
        let numbers = empty.into_iter().map(|(number, _)| number);
        numbers.chain(used.into_iter().map(|(number, ..)| number)).chain(rejected).collect()
    }

    /// Whether the file is here.
    pub(super) fn contains(&self, number: u64) -> bool {
        let kept = self.files.lock();
        kept.empty.iter().any(|(other, _)| *other == number)
            || kept.used.iter().any(|(other, ..)| *other == number)
            || kept.rejected.contains(&number)
    }
}

fn empty(file: &File, exposure: Exposure) -> io::Result<()> {
    // Where that cannot be told the file counts as used.
    if exposure >= Exposure::Writable && !sparse::is_sole_writer(file)? {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    file.set_len(0)?;
    if exposure > Exposure::Private { sparse::settle_emptied(file) } else { Ok(()) }
}
