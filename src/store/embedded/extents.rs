//! Arithmetic on pieces of content. Pure.

use std::ops::Range;

use crate::store::Change;

use super::record::{Extent, Source};

/// The pieces of `extents` in `range`; zeros behind the end.
pub(super) fn slice(extents: &[Extent], range: Range<u64>) -> Vec<Extent> {
    let mut out = Vec::new();
    append_slice(&mut out, extents, range);
    out
}

/// `base` with `changes` (sorted, not overlapping, within `size`) taken from `file`, cut or extended with zeros to
/// `size`.
pub(super) fn replace(base: &[Extent], changes: &[Change], file: u64, size: u64) -> Vec<Extent> {
    let mut out = Vec::with_capacity(base.len() + 2 * changes.len());
    let mut done = 0;
    for Change { range, from } in changes {
        append_slice(&mut out, base, done..range.start);
        let source = from.map(|offset| Source { file, offset });
        append(&mut out, Extent { len: range.end - range.start, source });
        done = range.end;
    }
    append_slice(&mut out, base, done..size);
    out
}

/// Adds a piece, joined with the last one where they continue each other.
pub(super) fn append(out: &mut Vec<Extent>, next: Extent) {
    if next.len == 0 {
        return;
    }
    if let Some(last) = out.last_mut() {
        let continues = match (last.source, next.source) {
            (Some(a), Some(b)) => a.file == b.file && a.offset + last.len == b.offset,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if continues {
            last.len += next.len;
            return;
        }
    }
    out.push(next);
}

/// Adds the pieces of `extents` in `range`, then zeros up to its end.
pub(super) fn append_slice(out: &mut Vec<Extent>, extents: &[Extent], range: Range<u64>) {
    let mut start = 0;
    for extent in extents {
        let end = start + extent.len;
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from < to {
            let source = extent.source.map(|s| Source { file: s.file, offset: s.offset + (from - start) });
            append(out, Extent { len: to - from, source });
        }
        start = end;
        if start >= range.end {
            return;
        }
    }
    append(out, Extent { len: range.end.saturating_sub(range.start.max(start)), source: None });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every byte as (file, offset), zeros as nothing.
    fn bytes(extents: &[Extent]) -> Vec<Option<(u64, u64)>> {
        let one = |e: &Extent| {
            let source = e.source;
            (0..e.len).map(move |i| source.map(|s| (s.file, s.offset + i))).collect::<Vec<_>>()
        };
        extents.iter().flat_map(one).collect()
    }

    fn base() -> impl Strategy<Value = Vec<Extent>> {
        let source = prop::option::of((1u64..4, 0u64..50).prop_map(|(file, offset)| Source { file, offset }));
        prop::collection::vec((1u64..20, source).prop_map(|(len, source)| Extent { len, source }), 0..8)
    }

    fn ranges(cuts: &[u64], size: u64) -> Vec<Range<u64>> {
        let mut cuts: Vec<u64> = cuts.iter().map(|c| c % (size + 1)).collect();
        cuts.sort_unstable();
        cuts.chunks_exact(2).map(|c| c[0]..c[1]).filter(|r| !r.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn replace_is_what_it_says(base in base(), size in 0u64..150, cuts in prop::collection::vec(0u64..150, 0..8)) {
            let ranges = ranges(&cuts, size);
            let mut expected = bytes(&base);
            expected.resize(size as usize, None);
            for range in &ranges {
                for at in range.clone() {
                    expected[at as usize] = Some((99, at));
                }
            }
            let changes: Vec<Change> = ranges.into_iter().map(Change::in_place).collect();
            let got = replace(&base, &changes, 99, size);
            prop_assert_eq!(bytes(&got), expected);
            let joined = got.windows(2).all(|w| {
                let mut both = vec![w[0]];
                append(&mut both, w[1]);
                both.len() == 2
            });
            prop_assert!(joined, "neighbours that continue each other are one piece");
        }

        #[test]
        fn slice_is_what_it_says(base in base(), from in 0u64..150, len in 0u64..150) {
            let all = bytes(&base);
            let expected: Vec<_> =
                (from..from + len).map(|at| all.get(at as usize).copied().flatten()).collect();
            prop_assert_eq!(bytes(&slice(&base, from..from + len)), expected);
        }
    }
}
