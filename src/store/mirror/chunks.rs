//! Which chunks of a version are here. Pure.
//!
//! A chunk that is noted as here is here as a whole; the last one ends with the content. In doubt a chunk is not here:
//! bringing it again costs a request, reading it too early gives zeros for somebody's data.

use std::ops::Range;

/// The unit in which content is brought and noted. Part of the sidecar's form.
pub(super) const CHUNK: u64 = 64 << 10;

/// One bit for each chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkMap {
    bits: Vec<u8>,
    size: u64,
    /// How many chunks are here.
    here: u64,
}

impl ChunkMap {
    /// Nothing of `size` bytes is here.
    pub(super) fn empty(size: u64) -> Self {
        let bytes = usize::try_from(size.div_ceil(CHUNK).div_ceil(8)).unwrap_or(usize::MAX);
        Self { bits: vec![0; bytes], size, here: 0 }
    }

    /// All of `size` bytes is here.
    pub(super) fn full(size: u64) -> Self {
        let mut map = Self::empty(size);
        map.add(0..map.count());
        map
    }

    /// What was noted of `size` bytes. Bits behind the end say nothing, and missing ones say "not here".
    pub(super) fn from_bits(bits: &[u8], size: u64) -> Self {
        let mut map = Self::empty(size);
        let set = |chunk: u64| bits.get(byte_of(chunk)).is_some_and(|byte| byte & bit_of(chunk) != 0);
        for chunk in (0..map.count()).filter(|chunk| set(*chunk)) {
            map.add(chunk..chunk + 1);
        }
        map
    }

    /// To be noted.
    pub(super) fn to_bits(&self) -> Vec<u8> {
        let used = self.bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.bits[..used].to_vec()
    }

    /// Length of the content.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// How many chunks there are.
    fn count(&self) -> u64 {
        self.size.div_ceil(CHUNK)
    }

    /// The chunks that hold some of these bytes. What is behind the end needs none.
    pub(super) fn chunks(&self, range: &Range<u64>) -> Range<u64> {
        let (start, end) = (range.start.min(self.size), range.end.min(self.size));
        if start >= end { 0..0 } else { start / CHUNK..end.div_ceil(CHUNK) }
    }

    /// The bytes of these chunks.
    pub(super) fn bytes(&self, chunks: &Range<u64>) -> Range<u64> {
        chunks.start * CHUNK..(chunks.end * CHUNK).min(self.size)
    }

    fn has(&self, chunk: u64) -> bool {
        self.bits.get(byte_of(chunk)).is_some_and(|byte| byte & bit_of(chunk) != 0)
    }

    /// Whether all these bytes are here.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        self.is_full() || self.chunks(range).all(|chunk| self.has(chunk))
    }

    /// These chunks are here. Answers how many bytes are new.
    pub(super) fn add(&mut self, chunks: Range<u64>) -> u64 {
        let mut new = 0;
        for chunk in chunks.start..chunks.end.min(self.count()) {
            if !self.has(chunk) {
                self.bits[byte_of(chunk)] |= bit_of(chunk);
                self.here += 1;
                new += (self.size - chunk * CHUNK).min(CHUNK);
            }
        }
        new
    }

    /// Whether everything is here.
    pub(super) fn is_full(&self) -> bool {
        self.here == self.count()
    }

    /// How many bytes are here.
    pub(super) fn bytes_here(&self) -> u64 {
        let last = self.count().saturating_sub(1);
        let short = if self.count() > 0 && self.has(last) { (last + 1) * CHUNK - self.size } else { 0 };
        self.here * CHUNK - short
    }

    /// The runs of chunks within `chunks` that are not here.
    pub(super) fn missing(&self, chunks: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for chunk in (chunks.start..chunks.end.min(self.count())).filter(|chunk| !self.has(*chunk)) {
            match runs.last_mut() {
                Some(run) if run.end == chunk => run.end += 1,
                _ => runs.push(chunk..chunk + 1),
            }
        }
        runs
    }

    /// The first run of at most `most` chunks that are not here and not in `other`, which is sorted. Runs end where one of
    /// `most` chunks would end if the content were cut into such, so that later runs are not crumbs.
    pub(super) fn first_missing(&self, most: u64, other: &[Range<u64>]) -> Option<Range<u64>> {
        let is_free = |chunk: u64| !self.has(chunk) && !other.iter().any(|run| run.contains(&chunk));
        let start = (0..self.count()).find(|chunk| is_free(*chunk))?;
        let stop = ((start / most + 1) * most).min(self.count());
        let end = (start..stop).find(|chunk| !is_free(*chunk)).unwrap_or(stop);
        Some(start..end)
    }

    /// The content got shorter; what is behind the new end is not asked for any more.
    pub(super) fn cut(&mut self, size: u64) {
        if size < self.size {
            *self = Self::from_bits(&self.bits, size);
        }
    }
}

fn byte_of(chunk: u64) -> usize {
    usize::try_from(chunk / 8).unwrap_or(usize::MAX)
}

fn bit_of(chunk: u64) -> u8 {
    1 << (chunk % 8)
}

/// `ranges` without the bytes of `other`; both sorted and apart from each other.
pub(super) fn without(ranges: &[Range<u64>], other: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        for cut in other.iter().filter(|cut| cut.start < range.end && cut.end > range.start) {
            if start < cut.start {
                left.push(start..cut.start);
            }
            start = start.max(cut.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_chunk_ends_with_the_content() {
        let mut map = ChunkMap::empty(2 * CHUNK + 1);
        assert_eq!(map.add(2..3), 1);
        assert!(map.covers(&(2 * CHUNK..2 * CHUNK + 1)) && map.covers(&(2 * CHUNK..u64::MAX)));
        assert!(!map.covers(&(2 * CHUNK - 1..2 * CHUNK)));
        assert_eq!((map.bytes_here(), map.bytes(&(2..3))), (1, 2 * CHUNK..2 * CHUNK + 1));
        assert_eq!(map.add(0..9), 2 * CHUNK);
        assert!(map.is_full() && map.bytes_here() == map.size());
        assert!(ChunkMap::empty(0).is_full());
    }

    #[test]
    fn a_map_of_another_length_is_read_with_care() {
        let mut map = ChunkMap::empty(20 * CHUNK);
        map.add(0..20);
        let shorter = ChunkMap::from_bits(&map.to_bits(), 3 * CHUNK - 5);
        assert!(shorter.is_full() && shorter.bytes_here() == 3 * CHUNK - 5);
        let longer = ChunkMap::from_bits(&map.to_bits(), 21 * CHUNK);
        assert_eq!(longer.missing(0..30), vec![20..21; 1]);
        map.cut(CHUNK);
        assert_eq!(map, ChunkMap::from_bits(&[1], CHUNK));
    }

    #[test]
    fn the_next_run_is_neither_here_nor_on_its_way() {
        let mut map = ChunkMap::empty(20 * CHUNK);
        map.add(0..3);
        assert_eq!(map.first_missing(8, &[]), Some(3..8));
        assert_eq!(map.first_missing(8, &[3..5, 7..9]), Some(5..7));
        assert_eq!(map.first_missing(8, &[3..8, 8..16]), Some(16..20));
        assert_eq!(map.first_missing(8, &[3..10, 10..20]), None);
        assert_eq!(ChunkMap::full(20 * CHUNK).first_missing(8, &[]), None);
    }

    proptest! {
        #[test]
        fn a_map_is_a_set_of_chunks(size in 0_u64..40 * CHUNK, runs in prop::collection::vec((0_u64..45, 0_u64..9), 0..12)) {
            let mut map = ChunkMap::empty(size);
            let mut model = BTreeSet::new();
            let count = size.div_ceil(CHUNK);
            for (start, length) in runs {
                map.add(start..start + length);
                model.extend((start..start + length).filter(|chunk| *chunk < count));
            }
            let bytes: u64 = model.iter().map(|chunk| (size - chunk * CHUNK).min(CHUNK)).sum();
            prop_assert_eq!(map.bytes_here(), bytes);
            prop_assert_eq!(map.is_full(), model.len() as u64 == count);
            let missing: Vec<u64> = map.missing(0..50).into_iter().flatten().collect();
            let expected: Vec<u64> = (0..count).filter(|chunk| !model.contains(chunk)).collect();
            prop_assert_eq!(missing, expected);
            prop_assert_eq!(ChunkMap::from_bits(&map.to_bits(), size), map);
        }

        #[test]
        fn what_is_left_is_in_the_first_and_not_in_the_second(cuts in prop::collection::vec(0_u64..60, 0..12), more in prop::collection::vec(0_u64..60, 0..12)) {
            let ranges = |mut cuts: Vec<u64>| -> Vec<Range<u64>> {
                cuts.sort_unstable();
                cuts.dedup();
                cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
            };
            let (first, second) = (ranges(cuts), ranges(more));
            let inside = |ranges: &[Range<u64>], at: u64| ranges.iter().any(|range| range.contains(&at));
            let left = without(&first, &second);
            for at in 0..60 {
                prop_assert_eq!(inside(&left, at), inside(&first, at) && !inside(&second, at));
            }
        }
    }
}
