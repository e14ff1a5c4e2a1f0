//! Which stretches of a version's content hold data, and how two versions differ.
//!
//! Answers may say more than is strictly true (zeros that were written count as data, blocks are compared whole) and
//! never less. Reads bytes only where two versions do not already share the place.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::kinds::PageRange;
use super::local::{ContentReader, Piece};
use super::sparse::{next_data, next_hole};

/// Differences are told in blocks of this size.
const BLOCK: u64 = 512;

/// Bytes compared at a time.
const CHUNK: u64 = 1 << 20;

impl ContentReader {
    /// The stretches that hold data, in order, each as long as it can be.
    pub fn data_ranges(&self) -> io::Result<Vec<Range<u64>>> {
        let mut found = Vec::new();
        if let Some(bytes) = self.as_bytes() {
            add(&mut found, 0..bytes.len() as u64);
        }
        for piece in self.pieces() {
            piece_data(piece, &mut found)?;
        }
        Ok(found)
    }

    /// Where this version differs from an earlier one: written, or cleared so that it has no data any more. What one
    /// of them does not reach counts as zeros; nothing behind the end of this one is told.
    pub fn changes_since(&self, before: &ContentReader) -> io::Result<Vec<PageRange>> {
        let data = self.data_ranges()?;
        let mut looks: Vec<Range<u64>> = data.iter().cloned().chain(before.data_ranges()?).collect();
        looks.sort_unstable_by_key(|range| range.start);
        let mut found = Vec::new();
        let mut at = 0;
        for range in looks {
            at = at.max(range.start / BLOCK * BLOCK);
            let end = range.end.next_multiple_of(BLOCK).min(self.size());
            while at < end {
                let same = same_place(self, before, at) / BLOCK * BLOCK;
                if same > 0 {
                    at += same;
                    continue;
                }
                let next = end.min(at + CHUNK);
                compare(self, before, at..next, &data, &mut found)?;
                at = next;
            }
        }
        Ok(found)
    }
}

/// Adds a stretch, joined with the last one where they meet.
fn add(found: &mut Vec<Range<u64>>, next: Range<u64>) {
    match found.last_mut() {
        _ if next.is_empty() => {}
        Some(last) if last.end == next.start => last.end = next.end,
        _ => found.push(next),
    }
}

fn piece_data(piece: &Piece, found: &mut Vec<Range<u64>>) -> io::Result<()> {
    let Some((file, offset)) = &piece.source else { return Ok(()) };
    let end = offset + piece.len;
    let mut from = *offset;
    while let Some(data) = next_data(file, from)?.filter(|data| *data < end) {
        let hole = next_hole(file, data)?.unwrap_or(end).min(end);
        add(found, piece.start + data - offset..piece.start + hole - offset);
        from = hole;
    }
    Ok(())
}

/// For how many bytes from `at` on both versions have their content at the same place.
fn same_place(a: &ContentReader, b: &ContentReader, at: u64) -> u64 {
    let piece = |reader: &ContentReader| -> Option<Piece> {
        let pieces = reader.pieces();
        pieces.get(pieces.partition_point(|piece| piece.start + piece.len <= at)).cloned()
    };
    let (Some(a), Some(b)) = (piece(a), piece(b)) else { return 0 };
    let same = match (&a.source, &b.source) {
        (Some((file_a, offset_a)), Some((file_b, offset_b))) => {
            Arc::ptr_eq(file_a, file_b) && offset_a + (at - a.start) == offset_b + (at - b.start)
        }
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if same { (a.start + a.len).min(b.start + b.len) - at } else { 0 }
}

fn compare(
    now: &ContentReader,
    before: &ContentReader,
    range: Range<u64>,
    data: &[Range<u64>],
    found: &mut Vec<PageRange>,
) -> io::Result<()> {
    let read = |reader: &ContentReader| {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        reader.read_at(&mut buffer, range.start).map(|_| buffer)
    };
    let (new, old) = (read(now)?, read(before)?);
    let block = usize::try_from(BLOCK).unwrap_or(usize::MAX);
    let mut at = range.start;
    for (new, old) in new.chunks(block).zip(old.chunks(block)) {
        let end = at + new.len() as u64;
        if new != old {
            let index = data.partition_point(|range| range.end <= at);
            let cleared = data.get(index).is_none_or(|range| range.start >= end);
            match found.last_mut() {
                Some(last) if last.range.end == at && last.cleared == cleared => last.range.end = end,
                _ => found.push(PageRange { range: at..end, cleared }),
            }
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;

    use super::*;
    use crate::store::embedded::{EmbeddedOptions, EmbeddedStore};
    use crate::store::{
        BlobName, BlobPath, BlobStore, Change, ContainerName, LocalStore, NewContent, Preconditions,
    };

    /// One patch: a range and whether it is written or cleared.
    fn patches() -> impl Strategy<Value = Vec<(u64, u64, bool, u64)>> {
        prop::collection::vec((0u64..60_000, 1u64..9_000, any::<bool>(), 20_000u64..70_000), 1..6)
    }

    async fn patch(
        store: &EmbeddedStore,
        at: &BlobPath,
        (start, length, write, size): (u64, u64, bool, u64),
    ) {
        let base = store.reader(at).unwrap();
        let scratch = store.scratch().unwrap();
        let range = start.min(size)..(start + length).min(size);
        scratch.file().write_all_at(&vec![7; (range.end - range.start) as usize], 0).unwrap();
        let change = Change { range: range.clone(), from: write.then_some(0) };
        let changes: Vec<Change> = Some(change).filter(|_| !range.is_empty()).into_iter().collect();
        let (new, none) = (NewContent::default(), Preconditions::default());
        store.patch(at, &base, &scratch, &changes, size, new, &none).unwrap();
    }

    fn bytes(reader: &ContentReader) -> Vec<u8> {
        let mut buffer = vec![0; reader.size() as usize];
        reader.read_at(&mut buffer, 0).unwrap();
        buffer
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn what_is_not_told_is_the_same(earlier in patches(), later in patches(), tidy in any::<bool>()) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let folder = tempfile::tempdir().unwrap();
                let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
                let share = ContainerName::new("share").unwrap();
                store.create_container(&share, Default::default(), Default::default()).await.unwrap();
                let at = BlobPath::new(share, BlobName::new("a").unwrap());
                let none = Preconditions::default();
                store.put_blob(&at, vec![1; 30_000].into(), NewContent::default(), &none).await.unwrap();
                for one in earlier {
                    patch(&store, &at, one).await;
                }
                let before = store.reader(&at).unwrap();
                for one in later {
                    patch(&store, &at, one).await;
                }
                if tidy {
                    store.tidy(&at).unwrap();
                }
                let now = store.reader(&at).unwrap();
                let (old, new) = (bytes(&before), bytes(&now));
                let mut expected = old.clone();
                expected.resize(new.len(), 0);
                let changes = now.changes_since(&before).unwrap();
                for PageRange { range, cleared } in &changes {
                    let range = range.start as usize..range.end as usize;
                    if *cleared {
                        expected[range].fill(0);
                    } else {
                        expected[range.clone()].copy_from_slice(&new[range]);
                    }
                }
                assert!(expected == new, "the changes lead from one to the other");
                assert!(now.changes_since(&now).unwrap().is_empty());
                let mut data = vec![0; new.len()];
                for range in now.data_ranges().unwrap() {
                    let range = range.start as usize..range.end as usize;
                    data[range.clone()].copy_from_slice(&new[range]);
                }
                assert!(data == new, "what is outside the data is zeros");
            });
        }
    }
}
