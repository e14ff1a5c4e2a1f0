//! Which parts of a big file were changed, and where their new bytes are in the file that collects them.
//!
//! New bytes are appended to that file in the order they come, so that many small changes all over a big file are
//! written to the disk one after another. What is changed twice is overwritten where it is. Pure: nothing here reads
//! or writes a file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Where the bytes of a part of the content are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// Not changed.
    Base,
    /// In the collecting file, from this offset on.
    At(u64),
    /// Nowhere: zeros.
    Zeros,
}

/// Changed ranges of a file, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeMap {
    /// Start to end and place; they do not overlap.
    changes: BTreeMap<u64, Change>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    end: u64,
    /// Where it is in the collecting file; nothing for zeros.
    at: Option<u64>,
}

impl Change {
    /// Where the byte `offset` behind the start is.
    fn behind(&self, offset: u64) -> Option<u64> {
        self.at.map(|at| at + offset)
    }
}

impl ChangeMap {
    /// Whether nothing was changed.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The bytes of `range` are at this place of the collecting file from now on; nowhere for zeros.
    pub(super) fn insert(&mut self, range: Range<u64>, at: Option<u64>) {
        if range.is_empty() {
            return;
        }
        self.cut_out(range.clone());
        let Range { mut start, mut end } = range;
        let mut first = at;
        // Neighbours that continue each other become one.
        if let Some((&before, change)) = self.changes.range(..start).next_back()
            && change.end == start
            && continues(change.behind(start - before), at)
        {
            (start, first) = (before, change.at);
        }
        if let Some(next) = self.changes.get(&end)
            && continues(first.map(|at| at + (end - start)), next.at)
        {
            let behind = next.end;
            self.changes.remove(&end);
            end = behind;
        }
        self.changes.insert(start, Change { end, at: first });
    }

    /// Forgets what is known about `range`.
    fn cut_out(&mut self, range: Range<u64>) {
        let first = self.changes.range(..range.start).next_back().map(|(&start, _)| start);
        let touched: Vec<u64> =
            first.into_iter().chain(self.changes.range(range.clone()).map(|(&start, _)| start)).collect();
        for start in touched {
            let Some(change) = self.changes.get(&start).copied().filter(|change| change.end > range.start)
            else {
                continue;
            };
            self.changes.remove(&start);
            if start < range.start {
                self.changes.insert(start, Change { end: range.start, at: change.at });
            }
            if change.end > range.end {
                let rest = Change { end: change.end, at: change.behind(range.end - start) };
                self.changes.insert(range.end, rest);
            }
        }
    }

    /// Drops everything at and behind `limit`.
    pub(super) fn truncate(&mut self, limit: u64) {
        self.changes.split_off(&limit);
        if let Some((_, change)) = self.changes.iter_mut().next_back() {
            change.end = change.end.min(limit);
        }
    }

    /// The changes in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Range<u64>, Option<u64>)> + '_ {
        self.changes.iter().map(|(&start, change)| (start..change.end, change.at))
    }

    /// Splits `range` into parts that are in one place each.
    pub(super) fn split(&self, range: Range<u64>) -> Vec<(Range<u64>, Whereabouts)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        let first = self.changes.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        for (&start, change) in self.changes.range(first..range.end.max(first)) {
            let (from, to) = (start.max(at), change.end.min(range.end));
            if from >= to {
                continue;
            }
            if at < from {
                parts.push((at..from, Whereabouts::Base));
            }
            parts.push((from..to, change.behind(from - start).map_or(Whereabouts::Zeros, Whereabouts::At)));
            at = to;
        }
        if at < range.end {
            parts.push((at..range.end, Whereabouts::Base));
        }
        parts
    }
}

/// Whether what ends before `end` in the collecting file goes on at `next`.
fn continues(end: Option<u64>, next: Option<u64>) -> bool {
    match (end, next) {
        (Some(end), Some(next)) => end == next,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Append(u64, u64),
        Zero(u64, u64),
        Cut(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u64..60, 0u64..20).prop_map(|(start, length)| Step::Append(start, length)),
            1 => (0u64..60, 0u64..20).prop_map(|(start, length)| Step::Zero(start, length)),
            1 => (0u64..60).prop_map(Step::Cut),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_table_of_bytes(steps in prop::collection::vec(step(), 1..20)) {
            let mut map = ChangeMap::default();
            let mut model = [Whereabouts::Base; 100];
            let mut end = 0;
            for step in steps {
                match step {
                    Step::Append(start, length) => {
                        map.insert(start..start + length, Some(end));
                        for byte in 0..length {
                            model[(start + byte) as usize] = Whereabouts::At(end + byte);
                        }
                        end += length;
                    }
                    Step::Zero(start, length) => {
                        map.insert(start..start + length, None);
                        model[start as usize..(start + length) as usize].fill(Whereabouts::Zeros);
                    }
                    Step::Cut(limit) => {
                        map.truncate(limit);
                        model[limit as usize..].fill(Whereabouts::Base);
                    }
                }
                let mut seen = Vec::new();
                for (part, place) in map.split(0..100) {
                    prop_assert!(!part.is_empty());
                    for byte in part.clone() {
                        seen.push(match place {
                            Whereabouts::At(at) => Whereabouts::At(at + (byte - part.start)),
                            other => other,
                        });
                    }
                }
                prop_assert_eq!(&seen[..], &model[..]);
                let changes: Vec<_> = map.iter().collect();
                for pair in changes.windows(2) {
                    let ((a, at_a), (b, at_b)) = (&pair[0], &pair[1]);
                    let joined = a.end == b.start && continues(at_a.map(|at| at + (a.end - a.start)), *at_b);
                    prop_assert!(a.end <= b.start && !joined, "neighbours that continue each other are one");
                }
                prop_assert_eq!(changes.is_empty(), map.is_empty());
            }
            let all: u64 = map.split(5..70).iter().map(|(part, _)| part.end - part.start).sum();
            prop_assert_eq!(all, 65);
        }
    }
}
