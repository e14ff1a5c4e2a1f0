//! The end of the database's journal after a power loss.
//!
//! Part of what `kv` knows about the library. The journal is a file that is filled from the front, and until it is
//! synced the system may write its blocks in any order. After a power loss some of them can be missing, and read as
//! zeros, before others that are there. Where a missing block hides the beginning of an entry, the library drops the
//! journal from there on. A block inside a value hides nothing from it but makes the checksum wrong, and the library refuses
//! to open the database, as it must if the disk is damaged. What tells the two apart is the missing block: a batch that is
//! wrong and has a sector of zeros was not synced, and neither was anything behind it.
//!
//! ```text
//! batch:  01 number of items, sequence number | items | 03 checksum of the items, "FJL" 03
//! item:   02 kind, compression, space, length of key, of value, of the value as it is stored | key | value
//! ```
//!
//! Numbers are little-endian. Only the newest journal is looked at: the others were synced whole.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::journal;

/// What a disk writes at once, at least.
const SECTOR: usize = 512;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const MAGIC: [u8; 4] = *b"FJL\x03";

/// Drops the end of the newest journal from the first batch on that a power loss tore, if there is one.
pub(super) fn cut(folder: &Path) -> io::Result<()> {
    let path = journal::newest(folder)?;
    let bytes = std::fs::read(&path)?;
    let Some(start) = torn_batch(&bytes) else { return Ok(()) };
    let file = File::options().write(true).open(&path)?;
    file.set_len(start as u64)?;
    file.sync_all()?;
    tracing::warn!(path = %path.display(), start, "dropped changes that were not synced when the power was lost");
    Ok(())
}

/// Where the first batch starts that a power loss tore.
fn torn_batch(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader { bytes, at: 0 };
    loop {
        let start = reader.at;
        let (items, checksum) = reader.batch()?;
        if xxh3_64(&bytes[items.clone()]) != checksum {
            return lacks_a_sector(bytes, items).then_some(start);
        }
    }
}

fn lacks_a_sector(bytes: &[u8], range: Range<usize>) -> bool {
    let first = range.start.next_multiple_of(SECTOR)..range.end;
    let whole = bytes.get(first).unwrap_or_default();
    whole.chunks_exact(SECTOR).any(|sector| sector.iter().all(|byte| *byte == 0))
}

/// Takes a journal apart; nothing where it does not go on as it should.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Where the items of the next batch are, and the checksum they should have.
    fn batch(&mut self) -> Option<(Range<usize>, u64)> {
        self.tag(START)?;
        let count = u32::from_le_bytes(self.take()?);
        let _sequence_number: [u8; 8] = self.take()?;
        let start = self.at;
        for _ in 0..count {
            self.item()?;
        }
        let items = start..self.at;
        self.tag(END)?;
        let checksum = u64::from_le_bytes(self.take()?);
        (self.take()? == MAGIC).then_some((items, checksum))
    }

    fn item(&mut self) -> Option<()> {
        self.tag(ITEM)?;
        let [_kind, _compression, _space @ ..]: [u8; 10] = self.take()?;
        let key = u16::from_le_bytes(self.take()?);
        let _value: [u8; 4] = self.take()?;
        let stored = u32::from_le_bytes(self.take()?);
        self.at = self.at.checked_add(usize::from(key))?.checked_add(usize::try_from(stored).ok()?)?;
        Some(())
    }

    fn tag(&mut self, expected: u8) -> Option<()> {
        let [tag] = self.take()?;
        (tag == expected).then_some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::kv::{Batch, Kv, KvError, KvOptions, Space};
    use super::*;

    const OPTIONS: KvOptions =
        KvOptions { cache: 1 << 20, memtable: 8 << 20, table: 64 << 20, after_crash: true };
    const BATCHES: u8 = 20;
    const VALUE: usize = 16_000;

    /// A database with some batches that nobody wrote out, and its journal.
    fn database() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let kv = Kv::open(folder.path(), OPTIONS).unwrap();
        for number in 0..BATCHES {
            let mut batch = Batch::default();
            batch.put(Space::Names, [number], [number + 1; 100]);
            batch.put(Space::Inline, [number], vec![number + 1; VALUE]);
            batch.remove(Space::Misc, [number]);
            kv.commit(batch).unwrap();
        }
        kv.close();
        let journal = journal::newest(folder.path()).unwrap();
        (folder, journal)
    }

    /// Opens the database; answers how many batches are there, each of them whole.
    fn batches(folder: &Path, options: KvOptions) -> Result<u8, KvError> {
        let kv = Kv::open(folder, options)?;
        let has = |space, number| kv.get(space, &[number]).unwrap().is_some();
        let there = (0..BATCHES).take_while(|number| has(Space::Inline, *number)).count() as u8;
        for number in 0..BATCHES {
            let expected = number < there;
            assert_eq!((has(Space::Names, number), has(Space::Inline, number)), (expected, expected));
        }
        kv.close();
        Ok(there)
    }

    fn batch_bytes(journal: &Path) -> usize {
        let bytes = std::fs::read(journal).unwrap();
        let mut reader = Reader { bytes: &bytes, at: 0 };
        let mut ends = Vec::new();
        while let Some((items, checksum)) = reader.batch() {
            assert_eq!(xxh3_64(&bytes[items]), checksum, "the library writes journals otherwise");
            ends.push(reader.at);
        }
        assert_eq!(ends.len(), usize::from(BATCHES), "the library writes journals otherwise");
        ends[0]
    }

    #[test]
    fn missing_blocks_take_away_what_was_not_synced() {
        for size in [512, 4096] {
            let (folder, journal) = database();
            let one = batch_bytes(&journal);
            // Wherever in a batch the missing block is, what comes before it stays.
            for (batch, within) in [(15, 300), (13, 5000), (11, one - 5000), (9, one - 20), (7, 0)] {
                let at = (batch * one + within) / size * size;
                let file = File::options().write(true).open(&journal).unwrap();
                file.write_all_at(&vec![0; size], at as u64).unwrap();
                let there = batches(folder.path(), OPTIONS).unwrap();
                assert_eq!(usize::from(there), at / one, "a block of {size} at {at}");
            }
        }
    }

    #[test]
    fn damage_is_told_from_a_missing_block() {
        let (folder, journal) = database();
        let at = 15 * batch_bytes(&journal) + 5000;
        File::options().write(true).open(&journal).unwrap().write_all_at(&[0; 100], at as u64).unwrap();
        assert!(matches!(batches(folder.path(), OPTIONS), Err(KvError::Damaged(_))));
    }

    #[test]
    fn a_database_that_was_closed_cannot_be_torn() {
        let (folder, journal) = database();
        let at = (15 * batch_bytes(&journal) + 5000).next_multiple_of(SECTOR);
        File::options().write(true).open(&journal).unwrap().write_all_at(&[0; SECTOR], at as u64).unwrap();
        let closed = KvOptions { after_crash: false, ..OPTIONS };
        assert!(matches!(batches(folder.path(), closed), Err(KvError::Damaged(_))));
        assert_eq!(batches(folder.path(), OPTIONS).unwrap(), 15);
    }
}
