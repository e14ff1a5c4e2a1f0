//! Each rule of range locks by an example. Random sequences are in the tests of the file's state.

use super::*;

const WHOLE: Span = Span::ALL;
use RangeKind::{Exclusive, Shared};

/// An owner with an open and a process of its own.
fn owner(key: u64) -> RangeOwner {
    RangeOwner { key, open: OpenId(key), process: key as u32 }
}

fn span(start: u64, last: u64) -> Span {
    Span::new(start, last).unwrap()
}

fn of(locks: &RangeLocks, key: u64) -> Vec<(u64, u64, RangeKind)> {
    locks.of_key(key).map(|lock| (lock.span.start(), lock.span.last(), lock.kind)).collect()
}

#[test]
fn shared_claims_stand_side_by_side_and_exclusive_ones_alone() {
    for (first, second, refused) in [
        (Shared, Shared, false),
        (Shared, Exclusive, true),
        (Exclusive, Shared, true),
        (Exclusive, Exclusive, true),
    ] {
        for (bytes, overlap) in [(span(0, 9), true), (span(9, 9), true), (span(10, 19), false), (WHOLE, true)]
        {
            let mut locks = RangeLocks::default();
            locks.set(owner(1), first, span(0, 9)).unwrap();
            let expected =
                (refused && overlap).then_some(RangeLock { span: span(0, 9), kind: first, owner: owner(1) });
            assert_eq!(locks.test(owner(2), second, bytes), expected, "{first:?} {second:?} {bytes:?}");
            assert_eq!(locks.set(owner(2), second, bytes).err(), expected);
            locks.drop_key(2);
            assert_eq!(locks.set(owner(1), second, bytes), Ok(()), "nobody blocks himself");
            locks.invariants().unwrap();
        }
    }
}

#[test]
fn the_same_key_or_the_same_open_and_process_is_the_same_owner() {
    let fcntl = RangeOwner { key: 1, open: OpenId(5), process: 9 };
    let mut locks = RangeLocks::default();
    locks.set(fcntl, Exclusive, WHOLE).unwrap();
    for (other, same) in [
        (RangeOwner { key: 2, ..fcntl }, true),
        (RangeOwner { open: OpenId(6), ..fcntl }, true),
        (RangeOwner { key: 2, open: OpenId(6), ..fcntl }, false),
        (RangeOwner { key: 2, process: 8, ..fcntl }, false),
    ] {
        assert_eq!(locks.test(other, Exclusive, WHOLE).is_none(), same, "{other:?}");
    }
}

/// A program uses flock and fcntl through one descriptor; each goes when it is told to.
#[test]
fn two_keys_of_one_program_are_kept_apart() {
    let (fcntl, flock) = (owner(1), RangeOwner { key: 2, ..owner(1) });
    let mut locks = RangeLocks::default();
    locks.set(fcntl, Exclusive, span(0, 9)).unwrap();
    locks.set(flock, Exclusive, WHOLE).unwrap();
    assert_eq!(locks.len(), 2);
    assert!(locks.drop_key(fcntl.key));
    assert_eq!(locks.test(owner(3), Shared, span(5, 5)).map(|lock| lock.owner), Some(flock));
    assert!(locks.clear(flock.key, WHOLE));
    assert!(locks.is_empty());
    assert_eq!(locks, RangeLocks::EMPTY, "nothing is left in the indexes");
}

#[test]
fn clearing_the_middle_leaves_two() {
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Exclusive, WHOLE).unwrap();
    assert!(locks.clear(1, span(10, 19)));
    assert_eq!(of(&locks, 1), [(0, 9, Exclusive), (20, u64::MAX, Exclusive)]);
    assert_eq!(locks.set(owner(2), Exclusive, span(10, 19)), Ok(()));
    assert!(!locks.clear(1, span(10, 19)), "that is another's");
    assert!(locks.clear(1, WHOLE));
    assert_eq!(of(&locks, 2), [(10, 19, Exclusive)]);
}

#[test]
fn claims_of_one_key_melt_together_and_convert() {
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Shared, span(0, 9)).unwrap();
    locks.set(owner(1), Shared, span(20, 29)).unwrap();
    locks.set(owner(1), Shared, span(10, 19)).unwrap();
    assert_eq!(of(&locks, 1), [(0, 29, Shared)]);
    locks.set(owner(1), Exclusive, span(5, 6)).unwrap();
    assert_eq!(of(&locks, 1), [(0, 4, Shared), (5, 6, Exclusive), (7, 29, Shared)]);
    assert!(locks.any_exclusive());
    locks.set(owner(1), Shared, span(5, 6)).unwrap();
    assert_eq!(of(&locks, 1), [(0, 29, Shared)]);
    assert!(!locks.any_exclusive() && locks.any_lock());
}

#[test]
fn a_conversion_that_is_refused_changes_nothing() {
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Shared, WHOLE).unwrap();
    locks.set(owner(2), Shared, WHOLE).unwrap();
    let before = locks.clone();
    assert!(locks.set(owner(1), Exclusive, WHOLE).is_err());
    assert_eq!(locks, before);
}

#[test]
fn claims_through_two_opens_of_one_key_stay_apart() {
    let other_open = RangeOwner { open: OpenId(7), ..owner(1) };
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Shared, span(0, 9)).unwrap();
    locks.set(other_open, Shared, span(10, 19)).unwrap();
    assert_eq!(locks.len(), 2);
    assert!(locks.drop_open(OpenId(7)) && !locks.drop_open(OpenId(7)));
    assert_eq!(of(&locks, 1), [(0, 9, Shared)]);
    locks.set(other_open, Exclusive, WHOLE).unwrap();
    assert_eq!(of(&locks, 1), [(0, u64::MAX, Exclusive)], "the newer claim replaces the older");
    locks.invariants().unwrap();
}

#[test]
fn the_first_conflict_by_offset_is_told_and_all_blockers() {
    let mut locks = RangeLocks::default();
    locks.set(owner(9), Exclusive, span(1000, 5000)).unwrap();
    locks.set(owner(1), Shared, span(70, 79)).unwrap();
    locks.set(owner(2), Exclusive, span(50, 51)).unwrap();
    locks.set(owner(2), Exclusive, span(90, 91)).unwrap();
    let first = locks.test(owner(3), Exclusive, WHOLE).unwrap();
    assert_eq!((first.span.start(), first.owner), (50, owner(2)));
    assert_eq!(locks.test(owner(3), Shared, span(60, WHOLE.last())).unwrap().span, span(90, 91));
    assert_eq!(locks.blockers(owner(3), Exclusive, WHOLE), [1, 2, 9]);
    assert_eq!(locks.blockers(owner(3), Shared, span(60, 2000)), [2, 9]);
}

/// Rows of SMB's table, but for the writes of a shared claim's own open: existing claim, whose, and whether a read and a write pass.
#[test]
fn reads_and_writes_meet_the_claims_of_others() {
    for (existing, open, read, write) in [
        (Shared, 1, true, true),
        (Shared, 2, true, false),
        (Exclusive, 1, true, true),
        (Exclusive, 2, false, false),
    ] {
        let mut locks = RangeLocks::default();
        locks.set(owner(1), existing, span(10, 19)).unwrap();
        let passes = |bytes| {
            let (read, write) =
                (locks.blocks_read(OpenId(open), None, bytes), locks.blocks_write(OpenId(open), None, bytes));
            (read.is_none(), write.is_none())
        };
        assert_eq!(passes(span(15, 15)), (read, write), "{existing:?} claim, open {open}");
        assert_eq!(passes(span(0, 9)), (true, true));
        assert_eq!(passes(Span::of_length(15, 0).unwrap()), (true, true), "no bytes meet nothing");
    }
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Exclusive, WHOLE).unwrap();
    assert!(locks.blocks_write(OpenId(2), Some(1), WHOLE).is_none(), "the kernel says whose request it is");
}

#[test]
fn claims_of_no_bytes_follow_smb() {
    let point = Span::of_length(10, 0).unwrap();
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Exclusive, point).unwrap();
    assert!(locks.test(owner(2), Exclusive, span(9, 10)).is_some());
    assert!(locks.test(owner(2), Exclusive, span(10, 20)).is_none());
    assert!(locks.test(owner(2), Exclusive, point).is_none());
    locks.set(owner(1), Exclusive, span(10, 12)).unwrap();
    locks.invariants().unwrap();
    assert_eq!(of(&locks, 1), [(10, 12, Exclusive)], "bytes replace the points among them");
    locks.set(owner(1), Shared, point).unwrap();
    assert_eq!(locks.len(), 2, "a point cuts nothing");
    assert!(locks.clear(1, point) && !locks.clear(1, point));
    locks.invariants().unwrap();
}

#[test]
fn invariants_notice_damage() {
    let mut locks = RangeLocks::default();
    locks.insert(RangeLock { span: span(0, 9), kind: Exclusive, owner: owner(1) });
    locks.insert(RangeLock { span: span(5, 9), kind: Shared, owner: owner(2) });
    assert!(locks.invariants().unwrap_err().contains("conflicts"));
    let mut locks = RangeLocks::default();
    locks.insert(RangeLock { span: span(0, 9), kind: Shared, owner: owner(1) });
    locks.insert(RangeLock { span: span(10, 19), kind: Shared, owner: owner(1) });
    assert!(locks.invariants().unwrap_err().contains("should be one"));
    let mut locks = RangeLocks::default();
    locks.set(owner(1), Shared, WHOLE).unwrap();
    locks.shared = SpanIndex::default();
    assert!(locks.invariants().unwrap_err().contains("index"));
}
