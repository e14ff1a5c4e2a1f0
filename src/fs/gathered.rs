//! The file that gathers the changed bytes of a big file, with the last of them still in memory.
//!
//! A program that changes a big file here and there sends its changes one by one, and a write(2) for each would cost
//! half as much again as the request itself. Nothing that is gathered was acknowledged by a close or fsync, and a crash
//! leaves the version before; so bytes may wait in memory until there are enough of them for one write, or until
//! somebody needs the file itself ([`Gathered::settled`]). Knows nothing of what the bytes are: that is the
//! `ChangeMap`'s.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::Scratch;

use super::content::index;

/// So many bytes wait in memory; longer ones are written at once.
const TAIL_MAX: usize = 256 << 10;

/// So many files of this process may have bytes waiting; the others write theirs at once.
const TAILS_MAX: usize = 64;

static TAILS: AtomicUsize = AtomicUsize::new(0);

/// Bytes one behind the other, in the order they came.
#[derive(Debug)]
pub(super) struct Gathered {
    scratch: Scratch,
    /// How many of them are in the file.
    written: u64,
    /// Those behind, no more than `room`.
    tail: Vec<u8>,
    room: usize,
    _counted: Option<Counted>,
}

impl Gathered {
    /// Nothing yet; `scratch` is empty.
    pub(super) fn new(scratch: Scratch) -> Self {
        let counted = Counted::take();
        let room = if counted.is_some() { TAIL_MAX } else { 0 };
        Self { scratch, written: 0, tail: Vec::new(), room, _counted: counted }
    }

    /// Adds `bytes` behind all others and says where that is.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if self.tail.len() + bytes.len() > self.room {
            self.settled()?;
        }
        let at = self.written + self.tail.len() as u64;
        if bytes.len() <= self.room {
            self.tail.extend_from_slice(bytes);
        } else {
            self.scratch.file().write_all_at(bytes, at)?;
            self.written = at + bytes.len() as u64;
        }
        Ok(at)
    }

    /// Puts `bytes` in the place of those that are there from `at` on.
    pub(super) fn replace(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let (first, rest) = bytes.split_at(self.in_file(bytes.len(), at));
        self.scratch.file().write_all_at(first, at)?;
        let start = index(at.saturating_sub(self.written));
        self.tail[start..start + rest.len()].copy_from_slice(rest);
        Ok(())
    }

    /// Fills `target` with what is there from `at` on.
    pub(super) fn read(&self, target: &mut [u8], at: u64) -> io::Result<()> {
        let (first, rest) = target.split_at_mut(self.in_file(target.len(), at));
        self.scratch.file().read_exact_at(first, at)?;
        let start = index(at.saturating_sub(self.written));
        rest.copy_from_slice(&self.tail[start..start + rest.len()]);
        Ok(())
    }

    /// The file, with all bytes in it.
    pub(super) fn settled(&mut self) -> io::Result<&Scratch> {
        self.scratch.file().write_all_at(&self.tail, self.written)?;
        self.written += self.tail.len() as u64;
        self.tail.clear();
        Ok(&self.scratch)
    }

    /// Forgets all bytes.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.scratch.file().set_len(0)?;
        self.written = 0;
        self.tail.clear();
        Ok(())
    }

    /// How many of the `length` bytes from `at` on are in the file.
    fn in_file(&self, length: usize, at: u64) -> usize {
        index(self.written.saturating_sub(at)).min(length)
    }
}

/// One of the files that may have bytes waiting.
#[derive(Debug)]
struct Counted;

impl Counted {
    /// One more, unless there are too many.
    fn take() -> Option<Self> {
        let taken = TAILS.fetch_add(1, Ordering::Relaxed) < TAILS_MAX;
        // Dropped at once if it was one too many.
        let counted = Self;
        taken.then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TAILS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::loose_scratch;
    use super::*;

    fn gathered(room: usize) -> Gathered {
        Gathered { room, ..Gathered::new(loose_scratch()) }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(Vec<u8>),
        Replace(Vec<u8>, usize),
        Settle,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            6 => bytes().prop_map(Step::Append),
            3 => (bytes(), 0..200usize).prop_map(|(bytes, at)| Step::Replace(bytes, at)),
            1 => Just(Step::Settle),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        /// With no room at all, with some, and with so much that nothing is written before it must be.
        #[test]
        fn whatever_waits_it_reads_like_a_row_of_bytes(
            room in prop_oneof![Just(0), Just(10), Just(30), Just(TAIL_MAX)],
            steps in prop::collection::vec(step(), 1..40),
        ) {
            let mut gathered = gathered(room);
            let mut model = Vec::new();
            for step in steps {
                match step {
                    Step::Append(bytes) => {
                        prop_assert_eq!(gathered.append(&bytes).unwrap(), model.len() as u64);
                        model.extend(bytes);
                    }
                    Step::Replace(bytes, at) if at + bytes.len() <= model.len() => {
                        gathered.replace(&bytes, at as u64).unwrap();
                        model[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                    Step::Replace(..) => {}
                    Step::Settle => {
                        let file = gathered.settled().unwrap().file();
                        let mut all = vec![0; model.len()];
                        file.read_exact_at(&mut all, 0).unwrap();
                        prop_assert_eq!(&all, &model);
                        prop_assert_eq!(file.metadata().unwrap().len(), model.len() as u64);
                    }
                    Step::Clear => {
                        gathered.clear().unwrap();
                        model.clear();
                    }
                }
                let start = model.len() / 3;
                let mut found = vec![0; model.len() - start];
                gathered.read(&mut found, start as u64).unwrap();
                prop_assert_eq!(&found[..], &model[start..]);
                prop_assert!(gathered.tail.len() <= room);
            }
        }
    }

    #[test]
    fn so_many_files_have_bytes_waiting_and_no_more() {
        let many: Vec<_> = (0..TAILS_MAX + 5).map(|_| gathered(TAIL_MAX)).collect();
        assert!(many.iter().filter(|one| one._counted.is_some()).count() <= TAILS_MAX);
        assert!(many.iter().any(|one| one._counted.is_none()));
        drop(many);
        assert!(TAILS.load(Ordering::Relaxed) < TAILS_MAX);
    }
}
