//! The rules of delete, share modes that change, range locks and opens together, and the encoding.

use proptest::prelude::*;

use super::*;

mod model;

const ONE: OpenId = OpenId(1);
const TWO: OpenId = OpenId(2);
const THREE: OpenId = OpenId(3);

/// A file with these opens.
fn file(opens: &[(OpenId, Access, ShareMode)]) -> FileShareState {
    let mut state = FileShareState::default();
    for (id, access, share) in opens {
        state.try_open(*id, *access, *share).unwrap();
    }
    state
}

#[test]
fn delete_pending_refuses_every_open_before_sharing_is_judged() {
    let mut state = file(&[(ONE, Access::DELETE, ShareMode::NONE)]);
    assert_eq!(state.try_open(TWO, Access::READ, ShareMode::ALL), Err(Refusal::SharingViolation));
    state.mark_delete(ONE).unwrap();
    for access in [Access::NONE, Access::READ, Access::WRITE, Access::DELETE, Access::ALL] {
        assert_eq!(state.try_open(TWO, access, ShareMode::ALL), Err(Refusal::DeletePending));
        assert_eq!(state.try_open(TWO, access, ShareMode::NONE), Err(Refusal::DeletePending));
    }
    assert!(state.is_delete_pending());
    assert_eq!(state.close(ONE), Closed::Last { delete: true });
}

#[test]
fn marking_needs_delete_access_and_an_open() {
    let mut state = file(&[(ONE, Access::READ_WRITE, ShareMode::ALL), (TWO, Access::DELETE, ShareMode::ALL)]);
    assert_eq!(state.mark_delete(ONE), Err(Refusal::AccessDenied));
    assert_eq!(state.mark_delete(THREE), Err(Refusal::NotOpen));
    assert!(!state.is_delete_pending());
    assert_eq!(state.mark_delete(TWO), Ok(()));
    assert_eq!(state.mark_delete(TWO), Ok(()));
    assert!(state.is_delete_pending());
}

#[test]
fn an_open_may_delete_whatever_it_shares_itself() {
    let mut state = file(&[(ONE, Access::ALL, ShareMode::NONE)]);
    assert_eq!(state.mark_delete(ONE), Ok(()));
}

#[test]
fn the_file_goes_with_the_last_of_all_opens() {
    let mut state = file(&[
        (ONE, Access::ALL, ShareMode::ALL),
        (TWO, Access::READ, ShareMode::ALL),
        (THREE, Access::NONE, ShareMode::NONE),
    ]);
    state.mark_delete(ONE).unwrap();
    assert_eq!(state.close(ONE), Closed::Remaining);
    assert!(state.is_delete_pending(), "the mark stays when its maker has gone");
    assert_eq!(state.close(TWO), Closed::Remaining);
    assert_eq!(state.close(THREE), Closed::Last { delete: true });
    assert_eq!(state.try_open(ONE, Access::READ, ShareMode::ALL), Err(Refusal::DeletePending));
    assert_eq!(state.close(THREE), Closed::Unknown);
}

#[test]
fn pending_can_be_taken_back() {
    let mut state = file(&[(ONE, Access::DELETE, ShareMode::ALL), (TWO, Access::DELETE, ShareMode::ALL)]);
    state.mark_delete(ONE).unwrap();
    state.clear_delete();
    assert_eq!(state.try_open(THREE, Access::READ, ShareMode::ALL), Ok(()));
    assert_eq!(state.close(ONE), Closed::Remaining);
    assert_eq!(state.close(TWO), Closed::Remaining);
    assert_eq!(state.close(THREE), Closed::Last { delete: false });
}

#[test]
fn delete_on_close_is_silent_until_the_close() {
    let mut state = file(&[(ONE, Access::ALL, ShareMode::ALL)]);
    state.set_delete_on_close(ONE, true).unwrap();
    assert!(!state.is_delete_pending());
    assert_eq!(state.try_open(TWO, Access::READ, ShareMode::ALL), Ok(()));
    assert_eq!(state.close(ONE), Closed::Remaining);
    assert!(state.is_delete_pending());
    assert_eq!(state.try_open(THREE, Access::READ, ShareMode::ALL), Err(Refusal::DeletePending));
    assert_eq!(state.close(TWO), Closed::Last { delete: true });
}

/// Also when the other open goes first: the file is removed, as the protocol's text says.
#[test]
fn delete_on_close_holds_when_its_open_is_the_last() {
    let mut state = file(&[(ONE, Access::ALL, ShareMode::ALL), (TWO, Access::READ, ShareMode::ALL)]);
    state.set_delete_on_close(ONE, true).unwrap();
    assert_eq!(state.close(TWO), Closed::Remaining);
    assert_eq!(state.close(ONE), Closed::Last { delete: true });
}

#[test]
fn clearing_the_pending_delete_leaves_delete_on_close() {
    let mut state = file(&[(ONE, Access::ALL, ShareMode::ALL), (TWO, Access::ALL, ShareMode::ALL)]);
    state.set_delete_on_close(ONE, true).unwrap();
    state.mark_delete(TWO).unwrap();
    state.clear_delete();
    assert_eq!(state.close(ONE), Closed::Remaining);
    assert!(state.is_delete_pending());
    state.clear_delete();
    assert_eq!(state.close(TWO), Closed::Last { delete: false });
}

#[test]
fn delete_on_close_needs_delete_access_and_can_be_taken_back() {
    let mut state = file(&[(ONE, Access::READ, ShareMode::ALL), (TWO, Access::DELETE, ShareMode::ALL)]);
    assert_eq!(state.set_delete_on_close(ONE, true), Err(Refusal::AccessDenied));
    assert_eq!(state.set_delete_on_close(ONE, false), Ok(()));
    assert_eq!(state.set_delete_on_close(THREE, false), Err(Refusal::NotOpen));
    state.set_delete_on_close(TWO, true).unwrap();
    assert!(state.get(TWO).unwrap().delete_on_close);
    state.set_delete_on_close(TWO, false).unwrap();
    assert_eq!(state.close(TWO), Closed::Remaining);
    assert_eq!(state.close(ONE), Closed::Last { delete: false });
}

#[test]
fn delete_access_and_share_delete_must_meet() {
    let mut state = file(&[(ONE, Access::DELETE, ShareMode::ALL)]);
    assert_eq!(
        state.try_open(TWO, Access::READ, ShareMode::READ_WRITE),
        Err(Refusal::SharingViolation),
        "a reader must share delete beside a deleter"
    );
    let mut state = file(&[(ONE, Access::READ, ShareMode::READ_WRITE)]);
    assert_eq!(state.try_open(TWO, Access::DELETE, ShareMode::ALL), Err(Refusal::SharingViolation));
    assert_eq!(state.blockers(Access::DELETE, ShareMode::ALL), [ONE]);
}

#[test]
fn a_file_is_replaced_only_if_every_open_shares_delete() {
    assert!(FileShareState::default().can_be_replaced());
    let mut state = file(&[(ONE, Access::ALL, ShareMode::ALL), (TWO, Access::NONE, ShareMode::NONE)]);
    assert!(state.can_be_replaced(), "opens for attributes only have no say");
    state.mark_delete(ONE).unwrap();
    assert!(!state.can_be_replaced(), "its name is taken until the last close");
    assert!(!file(&[(ONE, Access::READ, ShareMode::READ_WRITE)]).can_be_replaced());
    assert!(file(&[(ONE, Access::WRITE, ShareMode::DELETE)]).can_be_replaced());
}

#[test]
fn a_share_mode_changes_only_if_it_fits() {
    let mut state = file(&[(ONE, Access::READ_WRITE, ShareMode::ALL), (TWO, Access::READ, ShareMode::ALL)]);
    assert_eq!(state.set_share(ONE, ShareMode::NONE), Err(Refusal::SharingViolation));
    assert_eq!(state.get(ONE).unwrap().share, ShareMode::ALL, "a refusal changes nothing");
    assert_eq!(state.set_share(ONE, ShareMode::READ), Ok(()));
    assert_eq!(state.try_open(THREE, Access::WRITE, ShareMode::ALL), Err(Refusal::SharingViolation));
    assert_eq!(state.set_share(TWO, ShareMode::READ), Err(Refusal::SharingViolation));
    assert_eq!(state.close(TWO), Closed::Remaining);
    assert_eq!(state.set_share(ONE, ShareMode::NONE), Ok(()), "an open never conflicts with itself");
    assert_eq!(state.set_share(ONE, ShareMode::ALL), Ok(()));
    assert_eq!(state.try_open(THREE, Access::WRITE, ShareMode::ALL), Ok(()));
    assert_eq!(state.set_share(TWO, ShareMode::ALL), Err(Refusal::NotOpen));
}

#[test]
fn an_id_in_use_is_refused_and_its_open_kept() {
    let mut state = file(&[(ONE, Access::READ, ShareMode::ALL)]);
    assert_eq!(state.try_open(ONE, Access::WRITE, ShareMode::ALL), Err(Refusal::IdInUse));
    assert_eq!(state.get(ONE).unwrap().access, Access::READ);
    assert_eq!(state.open_count(), 1);
}

#[test]
fn the_encoding_is_stable() {
    let mut state =
        file(&[(OpenId(0x0102), Access::ALL, ShareMode::ALL), (ONE, Access::READ, ShareMode::ALL)]);
    state.set_delete_on_close(OpenId(0x0102), true).unwrap();
    state.mark_delete(OpenId(0x0102)).unwrap();
    let owner = RangeOwner { key: 3, open: ONE, process: 0x0506 };
    state.set_range(owner, RangeKind::Exclusive, Span::new(4, 0x0203).unwrap()).unwrap();
    let opens = [1, 0, 0, 0, 0, 0, 0, 0, 0o71, 2, 1, 0, 0, 0, 0, 0, 0, 0o177];
    let range = [4, 0, 0, 0, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
    let owner = [1, 0, 0, 0, 0, 0, 0, 0, 6, 5, 0, 0, 1];
    let bytes = [&[2, 1, 2, 0, 0, 0][..], &opens, &range, &owner].concat();
    assert_eq!(state.encode(), bytes);
    assert_eq!(FileShareState::decode(&bytes), Ok(state));
    assert_eq!(FileShareState::decode(&[2, 0, 0, 0, 0, 0]), Ok(FileShareState::default()));
}

#[test]
fn damaged_bytes_are_refused() {
    let head = |count: u8| [2, 0, count, 0, 0, 0];
    let open = |id: u8, claim: u8| [id, 0, 0, 0, 0, 0, 0, 0, claim];
    let range = |start: u8, last: u8, key: u8, flags: u8| {
        let mut bytes = [0; 37];
        (bytes[0], bytes[8], bytes[16], bytes[24], bytes[36]) = (start, last, key, 1, flags);
        bytes
    };
    let one = [&head(1)[..], &open(1, 0o71)].concat();
    let damaged: [(&str, Vec<u8>); 18] = [
        ("nothing", vec![]),
        ("no flags", vec![2]),
        ("no count", vec![2, 0, 0]),
        ("unknown flag", vec![2, 2, 0, 0, 0, 0]),
        ("cut off", [&head(1)[..], &open(1, 0o71)[..8]].concat()),
        ("fewer opens than counted", [&head(2)[..], &open(1, 0o71)].concat()),
        ("unknown claim bit", [&head(1)[..], &open(1, 0o271)].concat()),
        ("delete-on-close without delete access", [&head(1)[..], &open(1, 0o171)].concat()),
        ("the same id twice", [&head(2)[..], &open(1, 0o71), &open(1, 0o71)].concat()),
        ("two opens that conflict", [&head(2)[..], &open(1, 0o01), &open(2, 0o71)].concat()),
        ("unsorted opens", [&head(2)[..], &open(2, 0o71), &open(1, 0o71)].concat()),
        ("a range lock cut off", [&one[..], &range(0, 9, 1, 0)[..36]].concat()),
        ("a range lock without an open", [&head(0)[..], &range(0, 9, 1, 0)].concat()),
        ("a range lock that ends before it begins", [&one[..], &range(9, 0, 1, 0)].concat()),
        ("an unknown bit of a range lock", [&one[..], &range(0, 9, 1, 4)].concat()),
        ("a point with an end", [&one[..], &range(0, 9, 1, 2)].concat()),
        ("unsorted range locks", [&one[..], &range(5, 9, 1, 0), &range(0, 3, 1, 0)].concat()),
        ("range locks that should be one", [&one[..], &range(0, 4, 1, 0), &range(5, 9, 1, 0)].concat()),
    ];
    for (what, bytes) in damaged {
        assert_eq!(FileShareState::decode(&bytes), Err(DecodeError::Damaged), "{what}");
    }
    assert!(FileShareState::decode(&[&one[..], &range(0, 9, 1, 1)].concat()).is_ok());
    assert_eq!(FileShareState::decode(&[1, 0]), Err(DecodeError::Version(1)));
    assert_eq!(FileShareState::decode(&[3, 0]), Err(DecodeError::Version(3)));
}

#[test]
fn pending_is_taken_back_only_through_delete_access() {
    let mut state = file(&[(ONE, Access::DELETE, ShareMode::ALL), (TWO, Access::READ, ShareMode::ALL)]);
    state.mark_delete(ONE).unwrap();
    assert_eq!(state.unmark_delete(TWO), Err(Refusal::AccessDenied));
    assert_eq!(state.unmark_delete(THREE), Err(Refusal::NotOpen));
    assert!(state.is_delete_pending());
    assert_eq!(state.unmark_delete(ONE), Ok(()));
    assert!(!state.is_delete_pending());
}

#[test]
fn range_locks_need_an_open_and_go_with_it() {
    let mut state = file(&[(ONE, Access::READ, ShareMode::ALL), (TWO, Access::READ, ShareMode::ALL)]);
    let owner = |key, open| RangeOwner { key, open, process: 1 };
    let set = |state: &mut FileShareState, by| state.set_range(by, RangeKind::Exclusive, Span::ALL);
    assert_eq!(set(&mut state, owner(5, THREE)), Err(RangeRefusal::NotOpen));
    assert_eq!(set(&mut state, owner(5, ONE)), Ok(()));
    let held = RangeLock { span: Span::ALL, kind: RangeKind::Exclusive, owner: owner(5, ONE) };
    assert_eq!(set(&mut state, owner(6, TWO)), Err(RangeRefusal::Held(held)));
    assert_eq!(state.close(ONE), Closed::Remaining);
    assert!(!state.ranges().any_lock());
    assert_eq!(set(&mut state, owner(6, TWO)), Ok(()));
    assert!(state.drop_ranges_of_open(TWO) && !state.drop_ranges_of_open(TWO));
    assert_eq!(set(&mut state, owner(6, TWO)), Ok(()));
    assert!(state.drop_ranges_of_key(6) && !state.clear_range(6, Span::ALL));
    state.invariants().unwrap();
}

/// Range locks and share modes do not know each other, and a pending file can still be locked through its opens.
#[test]
fn a_pending_file_keeps_its_range_locks() {
    let mut state = file(&[(ONE, Access::ALL, ShareMode::ALL)]);
    let owner = RangeOwner { key: 5, open: ONE, process: 1 };
    state.mark_delete(ONE).unwrap();
    assert_eq!(state.set_range(owner, RangeKind::Shared, Span::ALL), Ok(()));
    assert_eq!(state.close(ONE), Closed::Last { delete: true });
    assert!(state.ranges().is_empty());
}

#[test]
fn a_file_with_one_open_is_small() {
    assert!(size_of::<FileShareState>() <= 72);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_decode_to_a_sound_state_or_to_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let versioned = [&[encoding::ENCODING], &bytes[..]].concat();
        for bytes in [bytes, versioned] {
            if let Ok(state) = FileShareState::decode(&bytes) {
                state.invariants().unwrap();
                prop_assert_eq!(state.encode(), bytes);
            }
        }
    }
}
