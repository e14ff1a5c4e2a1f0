//! Compaction of the key spaces: the keeper looks here whether one is due.
//!
//! A rewrite runs in a thread of its own, because the keeper's other work cannot wait for minutes. One runs at a time,
//! and all together take at most one part in [`COMPACTION_PART`] of the time. A store that is closed does not wait
//! for one to end: the library finds the old tables in place at the next start.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::store::Result;

use super::kv::{Kv, KvError, Space};
use super::parts::Parts;
use super::reclaim::{Room, Upkeep, judge};

/// Removed keys slow listing down, each a little: past this many a key space is rewritten.
const REMOVED_KEYS: u64 = 50_000;

/// Compaction takes at most one part in so many of the time.
const COMPACTION_PART: u32 = 10;

/// Does away with removed keys where there are many.
pub(super) struct Compactor {
    kv: Arc<Kv>,
    store: Weak<Parts>,
    next: Instant,
    rewrite: Option<Rewrite>,
    /// The last rewrite of a space failed, perhaps for want of room.
    distrusted: bool,
}

struct Rewrite {
    space: Space,
    since: Instant,
    thread: JoinHandle<std::result::Result<(), KvError>>,
}

impl Compactor {
    pub(super) fn new(kv: Arc<Kv>, store: Weak<Parts>) -> Self {
        Self { kv, store, next: Instant::now(), rewrite: None, distrusted: false }
    }

    /// Does what is due, but for a rewrite, which is only begun.
    pub(super) fn look(&mut self) {
        if let Some(rewrite) = self.rewrite.take_if(|rewrite| rewrite.thread.is_finished()) {
            self.end(rewrite);
        }
        if self.rewrite.is_some() || Instant::now() < self.next {
            return;
        }
        for space in Space::ALL {
            match self.upkeep(space) {
                Ok(Upkeep::Nothing) => {}
                Ok(Upkeep::WriteOut) => {
                    if let Err(error) = self.kv.write_removed(space) {
                        tracing::warn!(%error, ?space, "removed keys could not be written out");
                    }
                }
                Ok(Upkeep::Rewrite) => return self.begin(space),
                Err(error) => tracing::warn!(%error, ?space, "whether to compact could not be told"),
            }
        }
    }

    /// What is due in a space. Where names are listed it is the removed keys that matter, elsewhere their room.
    fn upkeep(&self, space: Space) -> Result<Upkeep> {
        let Some(store) = self.store.upgrade() else { return Ok(Upkeep::Nothing) };
        match space {
            Space::Names | Space::Misc => {
                // A second copy has to fit on the disk: a compaction that fills it would make every write fail.
                let due = self.kv.removed(space) >= REMOVED_KEYS
                    && self.kv.table_bytes(space)? <= store.space.left()?;
                Ok(if due { Upkeep::Rewrite } else { Upkeep::Nothing })
            }
            Space::Inline | Space::Contents => {
                let tables = self.kv.tables(space)?;
                let room = Room { left: store.space.left()?, for_upkeep: store.space.left_for_upkeep()? };
                Ok(judge(&tables, room, self.distrusted))
            }
        }
    }

    fn begin(&mut self, space: Space) {
        let kv = Arc::clone(&self.kv);
        let since = Instant::now();
        let thread = std::thread::Builder::new().name("store-compact".into());
        match thread.spawn(move || kv.compact(space)) {
            Ok(thread) => self.rewrite = Some(Rewrite { space, since, thread }),
            Err(error) => tracing::warn!(%error, ?space, "a compaction could not be started"),
        }
    }

    fn end(&mut self, rewrite: Rewrite) {
        let Rewrite { space, since, thread } = rewrite;
        let took = since.elapsed();
        self.next = Instant::now() + took * COMPACTION_PART;
        let failed = match thread.join() {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it panicked".into()),
        };
        self.distrusted = failed.is_some();
        match failed {
            None => tracing::debug!(?space, ?took, "a key space was rewritten"),
            Some(error) => tracing::warn!(error, ?space, "a compaction failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::kv::{Batch, KvOptions};
    use super::super::reclaim::REMOVED_VALUES;
    use super::super::{EmbeddedOptions, EmbeddedStore};
    use super::*;

    fn without_keeper(folder: &Path) -> Arc<EmbeddedStore> {
        let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
        store.keeper.stop(&store.files);
        store
    }

    fn remove(kv: &Kv, space: Space, keys: std::ops::Range<u64>) {
        let mut batch = Batch::default();
        keys.for_each(|key| batch.remove(space, key.to_be_bytes()));
        kv.commit(batch).unwrap();
    }

    fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_space_is_rewritten_only_with_room_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = without_keeper(folder.path());
        let mut compactor = Compactor::new(Arc::clone(&store.kv), Arc::downgrade(&store.parts));
        // Something to rewrite.
        remove(&store.kv, Space::Names, 0..1);
        store.kv.write_removed(Space::Names).unwrap();
        remove(&store.kv, Space::Names, 0..REMOVED_KEYS);
        remove(&store.kv, Space::Inline, 0..REMOVED_VALUES);
        store.space.pretend_tight();
        wait_for("nothing is written out", || store.kv.table_bytes(Space::Names).unwrap() > 0);
        compactor.look();
        assert!(compactor.rewrite.is_none());
        assert!(store.kv.removed(Space::Names) >= REMOVED_KEYS);
        assert_eq!(store.kv.tables(Space::Inline).unwrap().unwritten, 0, "there is room for a small table");
    }

    const VALUES: u64 = 1000;

    /// A database with tables that are small enough for a few values to need several levels.
    fn small_tables(folder: &Path) -> Arc<Kv> {
        let options = KvOptions { cache: 1 << 20, memtable: 64 << 10, table: 64 << 10, after_crash: false };
        Arc::new(Kv::open(folder, options).unwrap())
    }

    fn noise(number: u64) -> Vec<u8> {
        let words = (0..512).map(|word| xxhash_rust::xxh3::xxh3_64_with_seed(&[], number << 16 | word));
        words.flat_map(u64::to_be_bytes).collect()
    }

    fn fill(kv: &Kv) {
        for number in 0..VALUES {
            let mut batch = Batch::default();
            batch.put(Space::Inline, number.to_be_bytes(), noise(number));
            kv.commit(batch).unwrap();
        }
        wait_for("nothing is written out", || kv.table_bytes(Space::Inline).unwrap() > VALUES * 4000);
    }

    #[test]
    fn values_removed_from_a_space_of_several_levels_give_their_room_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = without_keeper(folder.path());
        let kv = small_tables(&folder.path().join("small"));
        fill(&kv);
        // All but a few, in parts that are written out one by one: the library merges them, and drops no value.
        for part in 0..4 {
            remove(&kv, Space::Inline, part * VALUES / 4..(part + 1) * VALUES / 4 - 10);
            kv.write_removed(Space::Inline).unwrap();
            wait_for("written", || kv.tables(Space::Inline).unwrap().removed > part * (VALUES / 4 - 10));
        }
        // What was removed before a restart counts.
        kv.close();
        let kv = small_tables(&folder.path().join("small"));
        let mut compactor = Compactor::new(Arc::clone(&kv), Arc::downgrade(&store.parts));
        let mut last = Batch::default();
        last.put(Space::Misc, b"any".to_vec(), b"thing".to_vec());
        kv.commit(last).unwrap();
        wait_for("the room of removed values is kept", || {
            compactor.look();
            kv.table_bytes(Space::Inline).unwrap() < VALUES * 4096 / 8
        });
        assert_eq!(kv.tables(Space::Inline).unwrap().removed, 0);
        let view = kv.view().unwrap();
        assert_eq!(view.range(Space::Inline, &[], None).count() as u64, 40);
    }
}
