//! Which blocks a new version is made of, so that only what changed is sent. Pure.
//!
//! ```text
//!   blocks there   |--a--|--b--|-------c-------|-d-|           (c: somebody else's, bigger than ours)
//!   changed              xx         x               xxxxxx     (and the end moved)
//!   new version    keep a, send b', copy c1, send c2, copy c3, send d'+end
//! ```

use std::ops::Range;

/// The most blocks of a blob.
pub(super) const MAX_BLOCKS: usize = 50_000;
/// The usual length of a block: small enough to send little, big enough for throughput.
pub(super) const BLOCK: u64 = 4 << 20;
/// Content up to this length is put in one piece.
pub(super) const WHOLE: u64 = BLOCK;

/// One block of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its bytes in the new content.
    pub(super) range: Range<u64>,
    pub(super) source: Source,
}

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is this one of the old version.
    Keep(usize),
    /// Its bytes are those of the old version at the same place, in a bigger block.
    Copy,
    /// From here.
    Send,
}

/// How long the blocks of content of this length are, so that there are not too many.
pub(super) fn block_length(size: u64) -> u64 {
    // Half of the limit, so that blocks that are cut later still fit.
    let needed = size.div_ceil(MAX_BLOCKS as u64 / 2);
    needed.div_ceil(BLOCK).max(1) * BLOCK
}

/// The blocks of a version of length `size`, given the lengths of the old version's and what changed since (sorted, apart
/// from each other). `named` says whether the old blocks can be kept: content put in one piece is one block that cannot.
pub(super) fn plan(old: &[u64], named: bool, changed: &[Range<u64>], size: u64) -> Vec<Part> {
    let length = block_length(size);
    let mut parts = Vec::new();
    let mut start = 0;
    for (index, len) in old.iter().enumerate() {
        let range = start..start + len;
        if range.end > size {
            break;
        }
        if named && !touches(changed, &range) {
            parts.push(Part { range: range.clone(), source: Source::Keep(index) });
        } else {
            cut(&mut parts, range.clone(), length, changed);
        }
        start = range.end;
    }
    if start < size {
        // A short last block grows, instead of being followed by ever more short ones.
        if let Some(last) = parts.last()
            && last.range.end - last.range.start < length / 2
        {
            start = last.range.start;
            parts.pop();
        }
        cut(&mut parts, start..size, length, std::slice::from_ref(&(start..size)));
    }
    if parts.len() > MAX_BLOCKS {
        parts.clear();
        cut(&mut parts, 0..size, length, std::slice::from_ref(&(0..size)));
    }
    parts
}

/// Adds the blocks of a range: those that changed are sent, the others copied.
fn cut(parts: &mut Vec<Part>, range: Range<u64>, length: u64, changed: &[Range<u64>]) {
    let mut start = range.start;
    while start < range.end {
        let part = start..range.end.min(start + length);
        start = part.end;
        let source = if touches(changed, &part) { Source::Send } else { Source::Copy };
        parts.push(Part { range: part, source });
    }
}

/// Whether any of the sorted ranges has a byte in common with this one.
pub(super) fn touches(sorted: &[Range<u64>], range: &Range<u64>) -> bool {
    let first = sorted.partition_point(|other| other.end <= range.start);
    sorted.get(first).is_some_and(|other| other.start < range.end)
}

/// Sorted ranges apart from each other, of any ranges.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sources(parts: &[Part]) -> Vec<Source> {
        parts.iter().map(|part| part.source).collect()
    }

    #[test]
    fn only_touched_blocks_are_sent() {
        let old = [BLOCK; 64];
        let change = 5 * BLOCK + 10..5 * BLOCK + 4106;
        let parts = plan(&old, true, std::slice::from_ref(&change), 64 * BLOCK);
        let sent: Vec<_> = parts.iter().filter(|part| part.source == Source::Send).collect();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].range, 5 * BLOCK..6 * BLOCK);
        assert!(plan(&old, true, &[], 64 * BLOCK).iter().all(|part| matches!(part.source, Source::Keep(_))));
    }

    #[test]
    fn content_in_one_piece_is_cut_and_copied() {
        let parts = plan(&[4 * BLOCK], false, std::slice::from_ref(&(0..1)), 4 * BLOCK);
        assert_eq!(sources(&parts), [Source::Send, Source::Copy, Source::Copy, Source::Copy]);
    }

    #[test]
    fn the_end_moves() {
        let old = [BLOCK, BLOCK, 100];
        let longer = plan(&old, true, &[], 2 * BLOCK + 300);
        assert_eq!(sources(&longer), [Source::Keep(0), Source::Keep(1), Source::Send]);
        assert_eq!(longer[2].range, 2 * BLOCK..2 * BLOCK + 300);
        let shorter = plan(&old, true, &[], BLOCK + 50);
        assert_eq!(sources(&shorter), [Source::Keep(0), Source::Send]);
        assert_eq!(shorter[1].range, BLOCK..BLOCK + 50);
        assert!(plan(&old, true, &[], 0).is_empty());
    }

    #[test]
    fn many_small_appends_make_few_blocks() {
        let mut lens: Vec<u64> = Vec::new();
        let mut size = 0;
        for _ in 0..1000 {
            size += BLOCK / 20;
            lens =
                plan(&lens, true, &[], size).iter().map(|part| part.range.end - part.range.start).collect();
        }
        assert!(lens.len() as u64 <= 3 * size / BLOCK, "{} blocks for {size} bytes", lens.len());
    }

    #[test]
    fn there_are_never_too_many_blocks() {
        assert_eq!(block_length(0), BLOCK);
        let huge = 190 << 40;
        assert!(huge / block_length(huge) < MAX_BLOCKS as u64);
        let tiny = vec![1; MAX_BLOCKS];
        assert!(plan(&tiny, true, &[], MAX_BLOCKS as u64 + BLOCK).len() <= MAX_BLOCKS);
    }

    proptest! {
        #[test]
        fn parts_follow_each_other_and_keep_only_what_is_the_same(
            old in prop::collection::vec(1..3 * BLOCK, 0..6),
            named in any::<bool>(),
            changes in prop::collection::vec((0..12 * BLOCK, 1..BLOCK), 0..4),
            size in 0..14 * BLOCK,
        ) {
            let changed = merged(changes.iter().map(|(start, len)| *start..*start + *len).collect());
            let mut end = 0;
            let old_size: u64 = old.iter().sum();
            for part in plan(&old, named, &changed, size) {
                prop_assert_eq!(part.range.start, end);
                end = part.range.end;
                let same = !touches(&changed, &part.range) && part.range.end <= old_size;
                match part.source {
                    Source::Keep(index) => {
                        prop_assert!(named && same);
                        prop_assert_eq!(old[..index].iter().sum::<u64>(), part.range.start);
                        prop_assert_eq!(old[index], part.range.end - part.range.start);
                    }
                    Source::Copy => prop_assert!(same),
                    Source::Send => prop_assert!(part.range.end - part.range.start <= BLOCK),
                }
            }
            prop_assert_eq!(end, size);
        }
    }
}
