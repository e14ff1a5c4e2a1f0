//! The rules of delete, share modes that change, the encoding, and random sequences against a naive model.

use proptest::prelude::*;

use super::*;

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
    let bytes = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0o71, 2, 1, 0, 0, 0, 0, 0, 0, 0o177];
    assert_eq!(state.encode(), bytes);
    assert_eq!(FileShareState::decode(&bytes), Ok(state));
    assert_eq!(FileShareState::decode(&[1, 0]), Ok(FileShareState::default()));
}

#[test]
fn damaged_bytes_are_refused() {
    let open = |id: u8, claim: u8| [id, 0, 0, 0, 0, 0, 0, 0, claim];
    let damaged: [(&str, Vec<u8>); 8] = [
        ("nothing", vec![]),
        ("no flags", vec![1]),
        ("unknown flag", vec![1, 2]),
        ("cut off", [&[1, 0][..], &open(1, 0o71)[..8]].concat()),
        ("unknown claim bit", [&[1, 0][..], &open(1, 0o271)].concat()),
        ("delete-on-close without delete access", [&[1, 0][..], &open(1, 0o171)].concat()),
        ("the same id twice", [&[1, 0][..], &open(1, 0o71), &open(1, 0o71)].concat()),
        ("two opens that conflict", [&[1, 0][..], &open(1, 0o01), &open(2, 0o71)].concat()),
    ];
    for (what, bytes) in damaged {
        assert_eq!(FileShareState::decode(&bytes), Err(DecodeError::Damaged), "{what}");
    }
    let unsorted = [&[1, 0][..], &open(2, 0o71), &open(1, 0o71)].concat();
    assert_eq!(FileShareState::decode(&unsorted), Err(DecodeError::Damaged));
    assert_eq!(FileShareState::decode(&[2, 0]), Err(DecodeError::Version(2)));
}

#[test]
fn a_file_with_one_open_is_small() {
    assert!(size_of::<FileShareState>() <= 64);
}

/// An open as the naive model keeps it: one truth value per class.
#[derive(Clone, Debug)]
struct ModelOpen {
    id: u64,
    access: [bool; 3],
    share: [bool; 3],
    on_close: bool,
}

#[derive(Clone, Debug, Default)]
struct Model {
    opens: Vec<ModelOpen>,
    pending: bool,
}

impl Model {
    fn blockers(&self, access: [bool; 3], share: [bool; 3], except: Option<u64>) -> Vec<u64> {
        let mut ids = Vec::new();
        for open in &self.opens {
            let concerned = access != [false; 3] && open.access != [false; 3] && Some(open.id) != except;
            let clash = (0..3).any(|c| (access[c] && !open.share[c]) || (open.access[c] && !share[c]));
            if concerned && clash {
                ids.push(open.id);
            }
        }
        ids.sort_unstable();
        ids
    }

    fn open(&mut self, id: u64, access: [bool; 3], share: [bool; 3]) -> Result<(), Refusal> {
        if self.pending {
            return Err(Refusal::DeletePending);
        }
        if !self.blockers(access, share, None).is_empty() {
            return Err(Refusal::SharingViolation);
        }
        if self.opens.iter().any(|open| open.id == id) {
            return Err(Refusal::IdInUse);
        }
        self.opens.push(ModelOpen { id, access, share, on_close: false });
        Ok(())
    }

    fn close(&mut self, id: u64) -> Closed {
        let Some(place) = self.opens.iter().position(|open| open.id == id) else { return Closed::Unknown };
        let gone = self.opens.remove(place);
        self.pending = self.pending || gone.on_close;
        if self.opens.is_empty() { Closed::Last { delete: self.pending } } else { Closed::Remaining }
    }

    fn set_share(&mut self, id: u64, share: [bool; 3]) -> Result<(), Refusal> {
        let open = self.opens.iter().find(|open| open.id == id).cloned().ok_or(Refusal::NotOpen)?;
        if !self.blockers(open.access, share, Some(id)).is_empty() {
            return Err(Refusal::SharingViolation);
        }
        self.opens.iter_mut().filter(|open| open.id == id).for_each(|open| open.share = share);
        Ok(())
    }

    fn deleter(&mut self, id: u64) -> Result<&mut ModelOpen, Refusal> {
        let open = self.opens.iter_mut().find(|open| open.id == id).ok_or(Refusal::NotOpen)?;
        if open.access[2] { Ok(open) } else { Err(Refusal::AccessDenied) }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u64, [bool; 3], [bool; 3]),
    Close(u64),
    SetShare(u64, [bool; 3]),
    Mark(u64),
    Clear,
    OnClose(u64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..8_u64;
    // Mostly generous share modes, or hardly two opens would ever meet.
    let share = prop::array::uniform3(prop::bool::weighted(0.85));
    let access = prop::array::uniform3(prop::bool::weighted(0.4));
    prop_oneof![
        8 => (id.clone(), access, share).prop_map(|(id, access, share)| Step::Open(id, access, share)),
        4 => id.clone().prop_map(Step::Close),
        3 => (id.clone(), share).prop_map(|(id, share)| Step::SetShare(id, share)),
        1 => id.clone().prop_map(Step::Mark),
        2 => Just(Step::Clear),
        1 => (id, any::<bool>()).prop_map(|(id, on)| Step::OnClose(id, on)),
    ]
}

fn letters(classes: [bool; 3]) -> String {
    let letters: String =
        ['r', 'w', 'd'].iter().zip(classes).filter(|(_, on)| *on).map(|(letter, _)| letter).collect();
    if letters.is_empty() { "none".to_owned() } else { letters }
}

/// Takes the step on both, and compares the answers.
fn take(step: Step, state: &mut FileShareState, model: &mut Model) {
    match step {
        Step::Open(id, access, share) => {
            let (a, s) = (letters(access).parse().unwrap(), letters(share).parse().unwrap());
            let blockers: Vec<u64> = state.blockers(a, s).into_iter().map(|id| id.0).collect();
            assert_eq!(blockers, model.blockers(access, share, None));
            assert_eq!(state.try_open(OpenId(id), a, s), model.open(id, access, share));
        }
        Step::Close(id) => assert_eq!(state.close(OpenId(id)), model.close(id)),
        Step::SetShare(id, share) => {
            let mode = letters(share).parse().unwrap();
            assert_eq!(state.set_share(OpenId(id), mode), model.set_share(id, share));
        }
        Step::Mark(id) => {
            let expected = model.deleter(id).map(|_| ());
            model.pending |= expected.is_ok();
            assert_eq!(state.mark_delete(OpenId(id)), expected);
        }
        Step::Clear => {
            state.clear_delete();
            model.pending = false;
        }
        Step::OnClose(id, true) => {
            let expected = model.deleter(id).map(|open| open.on_close = true);
            assert_eq!(state.set_delete_on_close(OpenId(id), true), expected);
        }
        Step::OnClose(id, false) => {
            let open = model.opens.iter_mut().find(|open| open.id == id);
            let expected = open.map(|open| open.on_close = false).ok_or(Refusal::NotOpen);
            assert_eq!(state.set_delete_on_close(OpenId(id), false), expected);
        }
    }
}

fn same(state: &FileShareState, model: &Model) {
    state.invariants().unwrap();
    assert_eq!((state.open_count(), state.is_delete_pending()), (model.opens.len(), model.pending));
    for open in &model.opens {
        let claim = state.get(OpenId(open.id)).unwrap();
        assert_eq!(
            (claim.access.to_string(), claim.share.to_string(), claim.delete_on_close),
            (letters(open.access), letters(open.share), open.on_close)
        );
    }
    let all_share_delete = model.opens.iter().all(|open| open.share[2] || open.access == [false; 3]);
    assert_eq!(state.can_be_replaced(), all_share_delete && !model.pending);
    assert_eq!(FileShareState::decode(&state.encode()).as_ref(), Ok(state));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences_equal_the_naive_model(steps in prop::collection::vec(step(), 1..120)) {
        let (mut state, mut model) = (FileShareState::default(), Model::default());
        for step in steps {
            take(step, &mut state, &mut model);
            same(&state, &model);
        }
    }

    #[test]
    fn any_bytes_decode_to_a_sound_state_or_to_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let versioned = [&[ENCODING], &bytes[..]].concat();
        for bytes in [bytes, versioned] {
            if let Ok(state) = FileShareState::decode(&bytes) {
                state.invariants().unwrap();
                prop_assert_eq!(state.encode(), bytes);
            }
        }
    }
}
