//! Random sequences against a naive model: one truth value per class, one entry per locked byte.
//!
//! `LEASEFS_SEED=n` runs that one sequence; a failure prints the number.

use std::collections::BTreeMap;

use super::super::*;

const SEQUENCES: u64 = 10_000;
const MAX_STEPS: u64 = 60;

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
    /// Byte by byte: who claims it with which key.
    bytes: BTreeMap<(u64, u64), ModelClaim>,
}

/// Whether it is exclusive, through which open, by which process.
type ModelClaim = (bool, u64, u32);

/// How many bytes the model's file has; the last one stands for everything behind it.
const BYTES: u64 = 24;

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
        self.bytes.retain(|_, claim| claim.1 != id);
        self.pending = self.pending || gone.on_close;
        if self.opens.is_empty() { Closed::Last { delete: self.pending } } else { Closed::Remaining }
    }

    fn set_share(&mut self, id: u64, share: [bool; 3]) -> Result<(), Refusal> {
        let access = self.opens.iter().find(|open| open.id == id).ok_or(Refusal::NotOpen)?.access;
        self.set_claim(id, access, share)
    }

    fn set_claim(&mut self, id: u64, access: [bool; 3], share: [bool; 3]) -> Result<(), Refusal> {
        if !self.opens.iter().any(|open| open.id == id) {
            return Err(Refusal::NotOpen);
        }
        if !self.blockers(access, share, Some(id)).is_empty() {
            return Err(Refusal::SharingViolation);
        }
        for open in self.opens.iter_mut().filter(|open| open.id == id) {
            (open.access, open.share) = (access, share);
            open.on_close &= access[2];
        }
        Ok(())
    }

    /// The lowest byte somebody else claims in a way that does not fit.
    fn refusing_byte(&self, key: u64, claim: ModelClaim, span: (u64, u64)) -> Option<u64> {
        let clash = |other_key: u64, other: &ModelClaim| {
            other_key != key && (other.1, other.2) != (claim.1, claim.2) && (claim.0 || other.0)
        };
        let met = self
            .bytes
            .iter()
            .filter(|((other, byte), held)| (span.0..=span.1).contains(byte) && clash(*other, held));
        met.map(|((_, byte), _)| *byte).min()
    }

    fn set_range(&mut self, key: u64, claim: ModelClaim, span: (u64, u64)) -> Result<(), Option<u64>> {
        if !self.opens.iter().any(|open| open.id == claim.1) {
            return Err(None);
        }
        if let Some(byte) = self.refusing_byte(key, claim, span) {
            return Err(Some(byte));
        }
        self.bytes.extend((span.0..=span.1).map(|byte| ((key, byte), claim)));
        Ok(())
    }

    fn clear_range(&mut self, key: u64, span: (u64, u64)) -> bool {
        let before = self.bytes.len();
        self.bytes.retain(|(by, byte), _| *by != key || !(span.0..=span.1).contains(byte));
        self.bytes.len() != before
    }

    /// The claims as longest runs: key, first byte, last byte, claim.
    fn runs(&self) -> Vec<(u64, u64, u64, ModelClaim)> {
        let mut runs: Vec<(u64, u64, u64, ModelClaim)> = Vec::new();
        for ((key, byte), claim) in &self.bytes {
            match runs.last_mut() {
                Some(run) if (run.0, run.2 + 1, run.3) == (*key, *byte, *claim) => run.2 = *byte,
                _ => runs.push((*key, *byte, *byte, *claim)),
            }
        }
        runs
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
    SetClaim(u64, [bool; 3], [bool; 3]),
    Mark(u64),
    Unmark(u64),
    Clear,
    OnClose(u64, bool),
    SetRange(u64, ModelClaim, (u64, u64)),
    ClearRange(u64, (u64, u64)),
    DropKey(u64),
    DropOpen(u64),
}

/// SplitMix64: enough chance for a test, and one number brings it all back.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn classes(&mut self, percent: u64) -> [bool; 3] {
        [(); 3].map(|()| self.below(100) < percent)
    }

    fn span(&mut self) -> (u64, u64) {
        let (a, b) = (self.below(BYTES), self.below(BYTES));
        (a.min(b), a.max(b))
    }

    fn step(&mut self) -> Step {
        let id = self.below(8);
        // Few keys, opens and processes, so that the same owner comes in every disguise.
        let key = self.below(4);
        match self.below(32) {
            // Mostly generous share modes, or hardly two opens would ever meet.
            0..8 => Step::Open(id, self.classes(40), self.classes(85)),
            8..12 => Step::Close(id),
            12..14 => Step::SetShare(id, self.classes(85)),
            14 => Step::SetClaim(id, self.classes(40), self.classes(85)),
            15 => Step::Mark(id),
            16 => Step::Unmark(id),
            17 => Step::Clear,
            18 => Step::OnClose(id, self.below(2) == 0),
            19..26 => {
                let claim = (self.below(3) == 0, self.below(4), self.below(2) as u32);
                Step::SetRange(key, claim, self.span())
            }
            26..30 => Step::ClearRange(key, self.span()),
            30 => Step::DropKey(key),
            _ => Step::DropOpen(id),
        }
    }
}

/// The model's bytes as a span: its last byte is everything to the end.
fn span((first, last): (u64, u64)) -> Span {
    Span::new(first, if last == BYTES - 1 { i64::MAX as u64 } else { last }).unwrap()
}

fn owner(key: u64, claim: ModelClaim) -> RangeOwner {
    RangeOwner { key, open: OpenId(claim.1), process: claim.2 }
}

fn kind(claim: ModelClaim) -> RangeKind {
    if claim.0 { RangeKind::Exclusive } else { RangeKind::Shared }
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
        Step::SetClaim(id, access, share) => {
            let (a, s) = (letters(access).parse().unwrap(), letters(share).parse().unwrap());
            assert_eq!(state.set_claim(OpenId(id), a, s), model.set_claim(id, access, share));
        }
        Step::Mark(id) => {
            let expected = model.deleter(id).map(|_| ());
            model.pending |= expected.is_ok();
            assert_eq!(state.mark_delete(OpenId(id)), expected);
        }
        Step::Unmark(id) => {
            let expected = model.deleter(id).map(|_| ());
            model.pending &= expected.is_err();
            assert_eq!(state.unmark_delete(OpenId(id)), expected);
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
        Step::SetRange(key, claim, bytes) => set_range(key, claim, bytes, state, model),
        Step::ClearRange(key, bytes) => {
            assert_eq!(state.clear_range(key, span(bytes)), model.clear_range(key, bytes));
        }
        Step::DropKey(key) => {
            assert_eq!(state.drop_ranges_of_key(key), model.clear_range(key, (0, BYTES)));
        }
        Step::DropOpen(id) => {
            let before = model.bytes.len();
            model.bytes.retain(|_, claim| claim.1 != id);
            assert_eq!(state.drop_ranges_of_open(OpenId(id)), model.bytes.len() != before);
        }
    }
}

fn set_range(key: u64, claim: ModelClaim, bytes: (u64, u64), state: &mut FileShareState, model: &mut Model) {
    let (by, kind, span) = (owner(key, claim), kind(claim), span(bytes));
    let tested = state.ranges().test(by, kind, span);
    assert_eq!(state.ranges().blockers(by, kind, span).is_empty(), tested.is_none());
    let expected = model.set_range(key, claim, bytes);
    match state.set_range(by, kind, span) {
        Ok(()) => assert_eq!((expected, tested), (Ok(()), None)),
        Err(RangeRefusal::NotOpen) => assert_eq!(expected, Err(None)),
        Err(RangeRefusal::Held(first)) => {
            assert_eq!(Some(first), tested);
            let byte = first.span.start().max(bytes.0);
            assert_eq!(expected, Err(Some(byte)), "the first in the order of offsets");
        }
    }
}

/// Reads and writes of every open against every byte: SMB's table, but a shared claim allows its own open to write.
fn same_io(state: &FileShareState, model: &Model) {
    for open in 0..8 {
        for byte in 0..BYTES {
            let held = model.bytes.iter().filter(|((_, at), _)| *at == byte);
            let (mut read, mut write) = (true, true);
            for (_, claim) in held {
                let own = claim.1 == open;
                read &= own || !claim.0;
                write &= own;
            }
            let at = Span::of_length(byte, 1).unwrap();
            assert_eq!(state.ranges().blocks_read(OpenId(open), None, at).is_none(), read);
            assert_eq!(state.ranges().blocks_write(OpenId(open), None, at).is_none(), write);
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
    let runs = state.ranges().iter().map(|lock| {
        let RangeOwner { key, open, process } = lock.owner;
        let exclusive = lock.kind == RangeKind::Exclusive;
        (key, lock.span.start(), lock.span.last().min(BYTES - 1), (exclusive, open.0, process))
    });
    assert_eq!(runs.collect::<Vec<_>>(), model.runs());
    assert_eq!(state.ranges().any_exclusive(), model.bytes.values().any(|claim| claim.0));
    assert_eq!(state.ranges().any_lock(), !model.bytes.is_empty());
    let all_share_delete = model.opens.iter().all(|open| open.share[2] || open.access == [false; 3]);
    assert_eq!(state.can_be_replaced(), all_share_delete && !model.pending);
    assert_eq!(FileShareState::decode(&state.encode()).as_ref(), Ok(state));
}

/// Says on the way out which sequence it was.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the sequence again: LEASEFS_SEED={} cargo test --lib share::state::tests::model",
                self.0
            );
        }
    }
}

fn run(seed: u64) {
    let printed = Seed(seed);
    let mut dice = Dice(seed);
    let (mut state, mut model) = (FileShareState::default(), Model::default());
    for _ in 0..=dice.below(MAX_STEPS) {
        take(dice.step(), &mut state, &mut model);
        same(&state, &model);
    }
    same_io(&state, &model);
    drop(printed);
}

#[test]
fn random_sequences_equal_the_naive_model() {
    let only = std::env::var("LEASEFS_SEED").ok().and_then(|seed| seed.parse().ok());
    match only {
        Some(seed) => run(seed),
        None => (0..SEQUENCES).for_each(run),
    }
}
