//! A set of byte ranges: which parts of a file have been changed.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint, non-adjacent byte ranges, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeSet {
    /// Start to end; neighbours that touch are merged.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Whatever begins at or before our end and ends at or after our start melts into us.
        while let Some((&other_start, &other_end)) = self.ranges.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.ranges.remove(&other_start);
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.ranges.insert(start, end);
    }

    /// Drops everything at and behind `limit`.
    pub(super) fn truncate(&mut self, limit: u64) {
        self.ranges.split_off(&limit);
        if let Some((_, end)) = self.ranges.iter_mut().next_back() {
            *end = (*end).min(limit);
        }
    }

    /// The ranges in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Splits `range` into parts that are inside the set (`true`) and outside.
    pub(super) fn split(&self, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        let first = self.ranges.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        for (&start, &end) in self.ranges.range(first..range.end.max(first)) {
            let (start, end) = (start.max(at), end.min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                parts.push((at..start, false));
            }
            parts.push((start..end, true));
            at = end;
        }
        if at < range.end {
            parts.push((at..range.end, false));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(steps in prop::collection::vec((0u64..60, 0u64..20, any::<bool>()), 1..20)) {
            let mut set = RangeSet::default();
            let mut model = [false; 100];
            for (start, length, cut) in steps {
                if cut {
                    set.truncate(start);
                    model[start as usize..].fill(false);
                } else {
                    set.insert(start..start + length);
                    model[start as usize..(start + length) as usize].fill(true);
                }
                let mut seen = [false; 100];
                let mut last_end = None;
                for range in set.iter() {
                    prop_assert!(last_end.is_none_or(|end| end < range.start), "touching ranges");
                    last_end = Some(range.end);
                    seen[range.start as usize..range.end as usize].fill(true);
                }
                prop_assert_eq!(seen, model);
            }
            for (part, inside) in set.split(5..70) {
                prop_assert!(!part.is_empty());
                for byte in part {
                    prop_assert_eq!(model[byte as usize], inside);
                }
            }
            prop_assert_eq!(set.split(5..70).iter().map(|(r, _)| r.end - r.start).sum::<u64>(), 65);
        }
    }
}
