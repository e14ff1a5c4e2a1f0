//! Every combination of conditions against rules written down independently.

use super::*;
use crate::share::lease::LeaseDuration;

const SECOND: i64 = 1_000_000_000;
const NOW: Moment = Moment(1_000 * SECOND);
const MODIFIED: Moment = Moment(500 * SECOND + 7);
const HELD: LeaseId = LeaseId(0xA);
const OTHER: LeaseId = LeaseId(0xB);
const CURRENT: ETag = ETag(5);

fn subject(lease: Lease) -> Subject {
    Subject { etag: CURRENT, modified: MODIFIED, lease, tags: Tags::NONE }
}

fn etag_choices() -> Vec<Option<EtagMatch>> {
    let list = |tags: &[u64]| Some(EtagMatch::List(tags.iter().copied().map(ETag).collect()));
    vec![None, Some(EtagMatch::Any), list(&[5]), list(&[4]), list(&[4, 5]), list(&[3, 4])]
}

/// Before, in the same second as, and after the change.
fn date_choices() -> [Option<Moment>; 4] {
    [None, Some(Moment(499 * SECOND)), Some(Moment(500 * SECOND)), Some(Moment(501 * SECOND))]
}

fn all() -> Vec<Preconditions> {
    let mut all = Vec::new();
    for if_match in etag_choices() {
        for if_none_match in etag_choices() {
            for if_modified_since in date_choices() {
                for if_unmodified_since in date_choices() {
                    all.push(Preconditions {
                        if_match: if_match.clone(),
                        if_none_match: if_none_match.clone(),
                        if_modified_since,
                        if_unmodified_since,
                        lease: None,
                        if_tags: None,
                    });
                }
            }
        }
    }
    all
}

fn holds(tag: &Option<EtagMatch>) -> Option<bool> {
    tag.as_ref().map(|tag| match tag {
        EtagMatch::Any => true,
        EtagMatch::List(tags) => tags.contains(&CURRENT),
    })
}

#[test]
fn reads_allow_every_combination() {
    for conditions in all() {
        let judged = judge_read(&conditions, NOW, Some(&subject(Lease::default())));
        // Changed in second 500: newer than 499, not newer than 500.
        let newer = conditions.if_modified_since.map(|date| date.0 < 500 * SECOND);
        let unchanged = conditions.if_unmodified_since.is_none_or(|date| date.0 >= 500 * SECOND);
        let differs = holds(&conditions.if_none_match).map(|same| !same);
        let expected = if conditions.if_none_match == Some(EtagMatch::Any) {
            Err(Refusal::Unsatisfiable)
        } else if holds(&conditions.if_match) == Some(false) || !unchanged {
            Err(Refusal::NotMet)
        } else if (newer.is_none() && differs.is_none()) || newer == Some(true) || differs == Some(true) {
            Ok(())
        } else {
            Err(Refusal::NotModified)
        };
        assert_eq!(judged, expected, "{conditions:?}");
        let missing = judge_read(&conditions, NOW, None);
        let star = conditions.if_none_match == Some(EtagMatch::Any);
        assert_eq!(
            missing,
            Err(if star { Refusal::Unsatisfiable } else { Refusal::Missing }),
            "{conditions:?}"
        );
    }
}

/// The shapes a write may have; everything else is refused whatever the blob is.
fn is_supported(conditions: &Preconditions) -> bool {
    let given = (
        conditions.if_match.is_some(),
        conditions.if_none_match.is_some(),
        conditions.if_modified_since.is_some(),
        conditions.if_unmodified_since.is_some(),
    );
    let shapes = [
        (false, false, false, false),
        (true, false, false, false),
        (false, true, false, false),
        (false, false, true, false),
        (false, false, false, true),
        (false, true, true, false),
        (true, false, false, true),
    ];
    let many = |tag: &Option<EtagMatch>| matches!(tag, Some(EtagMatch::List(tags)) if tags.len() > 1);
    shapes.contains(&given) && !many(&conditions.if_match) && !many(&conditions.if_none_match)
}

fn expected_write(conditions: &Preconditions, kind: WriteKind, exists: bool) -> Result<(), Refusal> {
    if !is_supported(conditions) {
        return Err(Refusal::NotSupported);
    }
    if !exists {
        return match kind {
            WriteKind::Create if conditions.if_match.is_some() => Err(Refusal::NotMet),
            WriteKind::Create => Ok(()),
            WriteKind::Change | WriteKind::Keep => Err(Refusal::Missing),
        };
    }
    let met = |yes: bool| if yes { Ok(()) } else { Err(Refusal::NotMet) };
    match (&conditions.if_match, &conditions.if_none_match) {
        (Some(_), _) => met(holds(&conditions.if_match) == Some(true)),
        (None, Some(EtagMatch::Any)) => {
            if kind == WriteKind::Create {
                Err(Refusal::Exists)
            } else {
                Ok(())
            }
        }
        (None, Some(EtagMatch::List(_))) => met(holds(&conditions.if_none_match) == Some(false)),
        (None, None) => met(conditions.if_modified_since.is_none_or(|date| date.0 < 500 * SECOND)
            && conditions.if_unmodified_since.is_none_or(|date| date.0 >= 500 * SECOND)),
    }
}

#[test]
fn writes_allow_one_condition_or_a_known_pair() {
    for conditions in all() {
        for kind in [WriteKind::Create, WriteKind::Change, WriteKind::Keep] {
            let present = Presence::Present(subject(Lease::default()));
            let judged = judge_write(&conditions, NOW, kind, &present);
            assert_eq!(judged, expected_write(&conditions, kind, true), "{kind:?} {conditions:?}");
            let judged = judge_write(&conditions, NOW, kind, &Presence::Missing);
            assert_eq!(judged, expected_write(&conditions, kind, false), "{kind:?} {conditions:?} missing");
        }
    }
}

fn leased() -> Lease {
    let mut lease = Lease::default();
    lease.acquire(NOW, HELD, LeaseDuration::INFINITE).unwrap();
    lease
}

#[test]
fn the_lease_is_judged_before_the_conditions() {
    let failing = Preconditions::if_absent();
    let present = Presence::Present(subject(leased()));
    let judged = judge_write(&failing, NOW, WriteKind::Create, &present);
    assert_eq!(judged, Err(Refusal::Lease(LeaseRefusal::IdMissing)));
    let judged = judge_write(&failing.clone().with_lease(OTHER), NOW, WriteKind::Create, &present);
    assert_eq!(judged, Err(Refusal::Lease(LeaseRefusal::IdMismatchWithBlobOperation)));
    let judged = judge_write(&failing.with_lease(HELD), NOW, WriteKind::Create, &present);
    assert_eq!(judged, Err(Refusal::Exists));
}

#[test]
fn reads_and_snapshots_need_no_lease_id_but_a_given_one_must_fit() {
    let none = Preconditions::default();
    let (held, other) = (none.clone().with_lease(HELD), none.clone().with_lease(OTHER));
    let mismatch = Err(Refusal::Lease(LeaseRefusal::IdMismatchWithBlobOperation));
    let subject = subject(leased());
    assert_eq!(judge_read(&none, NOW, Some(&subject)), Ok(()));
    assert_eq!(judge_read(&held, NOW, Some(&subject)), Ok(()));
    assert_eq!(judge_read(&other, NOW, Some(&subject)), mismatch);
    let present = Presence::Present(subject);
    assert_eq!(judge_write(&none, NOW, WriteKind::Keep, &present), Ok(()));
    assert_eq!(judge_write(&other, NOW, WriteKind::Keep, &present), mismatch);
}

#[test]
fn a_lease_id_without_a_lease_is_refused() {
    let held = Preconditions::default().with_lease(HELD);
    let absent = Err(Refusal::Lease(LeaseRefusal::NotPresentWithBlobOperation));
    assert_eq!(judge_write(&held, NOW, WriteKind::Create, &Presence::Missing), absent);
    let present = Presence::Present(subject(Lease::default()));
    assert_eq!(judge_write(&held, NOW, WriteKind::Change, &present), absent);
}

#[test]
fn a_name_with_staged_blocks_can_be_leased_and_then_needs_the_id() {
    let none = Preconditions::default();
    let reserved = Presence::Reserved(leased());
    assert_eq!(judge_write(&none, NOW, WriteKind::Keep, &reserved), Ok(()));
    assert_eq!(
        judge_write(&none, NOW, WriteKind::Create, &reserved),
        Err(Refusal::Lease(LeaseRefusal::IdMissing))
    );
    assert_eq!(judge_write(&none.clone().with_lease(HELD), NOW, WriteKind::Create, &reserved), Ok(()));
    assert_eq!(
        judge_write(&Preconditions::if_absent().with_lease(HELD), NOW, WriteKind::Create, &reserved),
        Ok(())
    );
    assert_eq!(judge_write(&none, NOW, WriteKind::Change, &reserved), Err(Refusal::Missing));
}

#[test]
fn tags_are_judged_after_the_lease_and_before_the_rest() {
    let tagged = |lease| Subject {
        tags: Tags::new([("k".to_owned(), "v".to_owned())].into()).unwrap(),
        ..subject(lease)
    };
    let when = |text: &str| Preconditions {
        if_tags: Some(std::sync::Arc::new(TagExpression::condition(text).unwrap())),
        ..Preconditions::default()
    };
    let present = Presence::Present(tagged(Lease::default()));
    for kind in [WriteKind::Create, WriteKind::Change, WriteKind::Keep] {
        assert_eq!(judge_write(&when("k = 'v'"), NOW, kind, &present), Ok(()));
        assert_eq!(judge_write(&when("k = 'w'"), NOW, kind, &present), Err(Refusal::NotMet));
    }
    assert_eq!(judge_read(&when("k = 'w'"), NOW, Some(&tagged(Lease::default()))), Err(Refusal::NotMet));
    let held = Presence::Present(tagged(leased()));
    let judged = judge_write(&when("k = 'w'"), NOW, WriteKind::Change, &held);
    assert_eq!(judged, Err(Refusal::Lease(LeaseRefusal::IdMissing)));
    let judged = judge_write(&when("k = 'v'"), NOW, WriteKind::Create, &Presence::Missing);
    assert_eq!(judged, Err(Refusal::NotMet), "a blob that is not there has no tags");
}
