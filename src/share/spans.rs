//! Stretches of a file's bytes, and an index that finds the stretches that meet a given one.
//!
//! [`SpanIndex`] sorts spans by size class, then by start. A span of class `n` has at most `2^n` bytes, so those that
//! can reach into a given span begin in a known window: one short walk per class that is in use, however many spans
//! there are.
//!
//! This module must never know who claims a span; that is [`super::RangeLocks`]' affair.

use std::collections::BTreeSet;
use std::ops::Bound;

/// Some bytes of a file: from `start` to `last`, both included. Or none: a point between two bytes, which only spans
/// that have bytes on both sides of it overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    start: u64,
    /// False for a point. Sorts points before the bytes that begin there.
    has_bytes: bool,
    /// Equals `start` for a point.
    last: u64,
}

/// The bytes would end before they begin, or behind the last offset there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a byte range must not end before it begins, nor behind the last offset there is")]
pub struct InvalidSpan;

impl Span {
    /// Every byte a file can have.
    pub const ALL: Self = Self { start: 0, has_bytes: true, last: u64::MAX };

    /// The bytes from `start` to `last`, as fcntl and FUSE name them. The highest signed offset means "to the end".
    pub fn new(start: u64, last: u64) -> Result<Self, InvalidSpan> {
        Self::exactly(start, if last == i64::MAX as u64 { u64::MAX } else { last })
    }

    /// The bytes from `start` to `last`, whatever these are.
    pub(super) fn exactly(start: u64, last: u64) -> Result<Self, InvalidSpan> {
        if start <= last { Ok(Self { start, has_bytes: true, last }) } else { Err(InvalidSpan) }
    }

    /// `length` bytes from `start`, as SMB names them: zero bytes are a point, not "to the end".
    pub fn of_length(start: u64, length: u64) -> Result<Self, InvalidSpan> {
        match length.checked_sub(1) {
            None => Ok(Self { start, has_bytes: false, last: start }),
            Some(more) => {
                start.checked_add(more).ok_or(InvalidSpan).and_then(|last| Self::exactly(start, last))
            }
        }
    }

    /// The first byte, or the place of a point.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The last byte; `u64::MAX` when it goes to the end. The place of a point.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Whether it is a point.
    pub fn is_empty(self) -> bool {
        !self.has_bytes
    }

    /// Whether the two have a byte in common, or one is a point inside the other.
    pub fn overlaps(self, other: Self) -> bool {
        let around = |span: Self, point: u64| span.start < point && point <= span.last;
        match (self.has_bytes, other.has_bytes) {
            (true, true) => self.start <= other.last && other.start <= self.last,
            (true, false) => around(self, other.start),
            (false, true) => around(other, self.start),
            (false, false) => false,
        }
    }

    /// Whether `other` lies in it wholly. A point lies in a span that has the byte behind it, and in itself.
    pub(super) fn covers(self, other: Self) -> bool {
        if self.is_empty() { self == other } else { self.start <= other.start && other.last <= self.last }
    }

    /// What of it lies before `other` begins.
    pub(super) fn before(self, other: Self) -> Option<Self> {
        let last = other.start.checked_sub(1)?;
        (self.has_bytes && self.start <= last).then(|| Self { last: self.last.min(last), ..self })
    }

    /// What of it lies behind the end of `other`.
    pub(super) fn behind(self, other: Self) -> Option<Self> {
        let start = other.last.checked_add(1)?;
        (self.has_bytes && start <= self.last).then(|| Self { start: self.start.max(start), ..self })
    }

    /// The span of both, if they overlap or touch. Points join nothing.
    pub(super) fn joined(self, other: Self) -> Option<Self> {
        let touch = self.start <= other.last.saturating_add(1) && other.start <= self.last.saturating_add(1);
        (self.has_bytes && other.has_bytes && touch).then(|| Self {
            start: self.start.min(other.start),
            has_bytes: true,
            last: self.last.max(other.last),
        })
    }

    /// The size class: `n` for spans of more than `2^(n-1)` and at most `2^n` bytes.
    fn class(self) -> u8 {
        let more = self.last - self.start;
        // At most 64.
        more.checked_ilog2().map_or(0, |log| log as u8 + 1)
    }
}

/// Spans, each with a number that tells spans of equal extent apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SpanIndex {
    /// Size class, span, number.
    entries: BTreeSet<(u8, Span, u64)>,
}

impl SpanIndex {
    pub(super) const EMPTY: Self = Self { entries: BTreeSet::new() };

    pub(super) fn insert(&mut self, span: Span, number: u64) {
        self.entries.insert((span.class(), span, number));
    }

    pub(super) fn remove(&mut self, span: Span, number: u64) {
        self.entries.remove(&(span.class(), span, number));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, span: Span, number: u64) -> bool {
        self.entries.contains(&(span.class(), span, number))
    }

    /// The spans that overlap `span`; of each size class in the order of their starts.
    pub(super) fn overlapping(&self, span: Span) -> impl Iterator<Item = (Span, u64)> + '_ {
        let mut next_class = Some(0);
        let classes = std::iter::from_fn(move || {
            let from = (next_class?, LOWEST, 0);
            let class = self.entries.range(from..).next()?.0;
            next_class = class.checked_add(1);
            Some(class)
        });
        classes.flat_map(move |class| {
            // Nothing that begins earlier is long enough to reach in.
            let reach = 1_u64.checked_shl(u32::from(class)).map_or(u64::MAX, |length| length - 1);
            let first = Span { start: span.start.saturating_sub(reach), ..LOWEST };
            let window =
                (Bound::Included((class, first, 0)), Bound::Included((class, highest(span.last), u64::MAX)));
            let met = self.entries.range(window).filter(move |(_, other, _)| other.overlaps(span));
            met.map(|(_, other, number)| (*other, *number))
        })
    }
}

/// Sorts before every span of its start.
const LOWEST: Span = Span { start: 0, has_bytes: false, last: 0 };

/// Sorts behind every span that begins at `start`.
fn highest(start: u64) -> Span {
    Span { start, has_bytes: true, last: u64::MAX }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn smb(start: u64, length: u64) -> Span {
        Span::of_length(start, length).unwrap()
    }

    #[test]
    fn ends_are_included_and_the_highest_offset_means_the_end() {
        assert_eq!((Span::new(3, 5).unwrap().start(), Span::new(3, 5).unwrap().last()), (3, 5));
        assert_eq!(Span::new(0, i64::MAX as u64), Ok(Span::ALL));
        assert_eq!(Span::new(5, 4), Err(InvalidSpan));
        assert_eq!(smb(3, 3), Span::new(3, 5).unwrap());
        assert_eq!(Span::of_length(2, u64::MAX), Err(InvalidSpan));
        assert_eq!(smb(1, u64::MAX).last(), u64::MAX);
    }

    /// The cases of smbtorture: a lock of no bytes at 10.
    #[test]
    fn a_point_meets_only_what_spans_it() {
        let point = smb(10, 0);
        for (other, meets) in [
            (smb(9, 2), true),
            (smb(9, 3), true),
            (smb(10, 0), false),
            (smb(9, 1), false),
            (smb(10, 5), false),
            (smb(11, 5), false),
        ] {
            assert_eq!(point.overlaps(other), meets, "{other:?}");
            assert_eq!(other.overlaps(point), meets, "{other:?}");
        }
        assert!(!smb(0, 0).overlaps(Span::ALL), "nothing is before the first byte");
    }

    #[test]
    fn spans_are_cut_and_joined() {
        let (low, high) = (Span::new(0, 9).unwrap(), Span::new(10, u64::MAX).unwrap());
        assert_eq!((Span::ALL.before(high), Span::ALL.behind(low)), (Some(low), Some(high)));
        assert_eq!((high.before(low), low.behind(high), Span::ALL.behind(Span::ALL)), (None, None, None));
        assert_eq!((low.joined(high), high.joined(low)), (Some(Span::ALL), Some(Span::ALL)));
        assert_eq!(low.joined(Span::new(11, 12).unwrap()), None);
        assert_eq!(low.joined(smb(10, 0)), None);
        assert!(low.covers(smb(0, 0)) && low.covers(smb(9, 0)) && !low.covers(smb(10, 0)));
    }

    fn any_span() -> impl Strategy<Value = Span> {
        let small = (0..50_u64, 0..20_u64).prop_map(|(start, length)| smb(start, length));
        let huge = (0..50_u64).prop_map(|start| Span::new(start, u64::MAX).unwrap());
        let far = (0..50_u64, 0..64_u32).prop_map(|(back, log)| {
            let start = (u64::MAX - back).saturating_sub(1 << log);
            Span::new(start, u64::MAX - back).unwrap()
        });
        prop_oneof![8 => small, 1 => huge, 1 => far]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_index_finds_what_a_walk_over_all_finds(spans in prop::collection::vec(any_span(), 0..40), asked in any_span()) {
            let mut index = SpanIndex::default();
            for (number, span) in spans.iter().enumerate() {
                index.insert(*span, number as u64);
            }
            let mut found: Vec<u64> = index.overlapping(asked).map(|(_, number)| number).collect();
            found.sort_unstable();
            let walked = spans.iter().enumerate().filter(|(_, span)| span.overlaps(asked));
            prop_assert_eq!(found, walked.map(|(number, _)| number as u64).collect::<Vec<_>>());
        }
    }
}
