//! Which programs make small files, one after another.
//!
//! Who moves a new file's bytes must be said when it is made, before anybody knows how big it gets. For a big file the
//! kernel should (passthrough); for a small one that costs more than it saves: a local file to empty, to register, to
//! read and to check. So a program starts with the kernel, and once it has made a few small files in a row the engine
//! moves the bytes of its next ones, until one of them gets big. Either way the file is the same; only time differs.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;

/// So many small files in a row make a habit.
const HABIT: u8 = 3;

/// Programs (threads, to be exact) that are remembered.
const PROGRAMS_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("is not zero");

/// What programs did lately: how many small files each made in a row.
#[derive(Debug)]
pub(super) struct Habits {
    small_files: Mutex<LruCache<u32, u8>>,
}

impl Default for Habits {
    fn default() -> Self {
        Self { small_files: Mutex::new(LruCache::new(PROGRAMS_MAX)) }
    }
}

impl Habits {
    /// Whether the next file that thread `pid` makes is probably small.
    pub(super) fn makes_small_files(&self, pid: u32) -> bool {
        self.small_files.lock().get(&pid).is_some_and(|count| *count >= HABIT)
    }

    /// A file that thread `pid` made was committed for the first time.
    pub(super) fn note(&self, pid: u32, small: bool) {
        let mut known = self.small_files.lock();
        if small {
            let count = known.get_or_insert_mut(pid, || 0);
            *count = (*count + 1).min(HABIT);
        } else {
            known.pop(&pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_small_files_make_a_habit_and_one_big_file_breaks_it() {
        let habits = Habits::default();
        for _ in 0..HABIT {
            assert!(!habits.makes_small_files(7));
            habits.note(7, true);
        }
        assert!(habits.makes_small_files(7) && !habits.makes_small_files(8));
        habits.note(7, false);
        assert!(!habits.makes_small_files(7));
    }
}
