//! Every action in every state, every operation in every state, and the passing of time. The expectations are
//! tables written by hand from the service's documentation; nothing in them is computed.

use super::*;

const A: LeaseId = LeaseId(0xa);
const B: LeaseId = LeaseId(0xb);
const C: LeaseId = LeaseId(0xc);

/// The time at which the tables are judged.
const NOW: Moment = at(1000);

const fn at(second: i64) -> Moment {
    Moment(second * 1_000_000_000)
}

fn seconds(seconds: u8) -> LeaseDuration {
    LeaseDuration::seconds(seconds).unwrap()
}

/// The columns of the tables, in order: stored values that are in that state at `NOW`.
fn columns() -> [(&'static str, Vec<Lease>); 6] {
    let leased = |duration, since| Lease(Inner::Leased { id: A, duration, since });
    [
        ("available", vec![Lease::default()]),
        ("leased, 20 s left", vec![leased(seconds(30), at(990))]),
        ("leased for ever", vec![leased(LeaseDuration::INFINITE, at(0))]),
        ("breaking, 7 s left", vec![Lease(Inner::Breaking { id: A, until: at(1007) })]),
        (
            "broken",
            vec![
                Lease(Inner::Broken { id: A }),
                Lease(Inner::Breaking { id: A, until: at(1000) }),
                Lease(Inner::Breaking { id: A, until: at(3) }),
            ],
        ),
        ("expired", vec![leased(seconds(15), at(985)), leased(seconds(60), at(1))]),
    ]
}

/// `ok` cells say the state, the id and the clock afterwards; the others name the refusal.
/// L30(A)+20 is leased(A) for 30 s with 20 s left, Linf leased for ever, K(A)+7 breaking with 7 s left, X(A) broken.
const ACTIONS: &str = "
action      | available         | leased 30 s, 20 left | leased for ever    | breaking, 7 left              | broken                     | expired
acquire A   | ok L45(A)+45      | ok L45(A)+45         | ok L45(A)+45       | IsBreakingAndCannotBeAcquired | ok L45(A)+45               | ok L45(A)+45
acquire B   | ok L45(B)+45      | AlreadyPresent       | AlreadyPresent     | AlreadyPresent                | ok L45(B)+45               | ok L45(B)+45
acquire A * | ok Linf(A)        | ok Linf(A)           | ok Linf(A)         | IsBreakingAndCannotBeAcquired | ok Linf(A)                 | ok Linf(A)
acquire B * | ok Linf(B)        | AlreadyPresent       | AlreadyPresent     | AlreadyPresent                | ok Linf(B)                 | ok Linf(B)
renew A     | IdMismatch        | ok L30(A)+30         | ok Linf(A)         | IsBrokenAndCannotBeRenewed    | IsBrokenAndCannotBeRenewed | ok renewed
renew B     | IdMismatch        | IdMismatch           | IdMismatch         | IdMismatch                    | IdMismatch                 | IdMismatch
change A B  | NotPresent        | ok L30(B)+20         | ok Linf(B)         | IsBreakingAndCannotBeChanged  | NotPresent                 | NotPresent
change B A  | NotPresent        | ok L30(A)+20         | ok Linf(A)         | IdMismatch                    | NotPresent                 | NotPresent
change B C  | NotPresent        | IdMismatch           | IdMismatch         | IdMismatch                    | NotPresent                 | NotPresent
change A A  | NotPresent        | ok L30(A)+20         | ok Linf(A)         | IsBreakingAndCannotBeChanged  | NotPresent                 | NotPresent
release A   | IdMismatch        | ok available         | ok available       | ok available                  | ok available               | ok available
release B   | IdMismatch        | IdMismatch           | IdMismatch         | IdMismatch                    | IdMismatch                 | IdMismatch
break 0     | NotPresent        | ok X(A) t=0          | ok X(A) t=0        | ok X(A) t=0                   | ok X(A) t=0                | ok X(A) t=0
break 5     | NotPresent        | ok K(A)+5 t=5        | ok K(A)+5 t=5      | ok K(A)+5 t=5                 | ok X(A) t=0                | ok X(A) t=0
break 60    | NotPresent        | ok K(A)+20 t=20      | ok K(A)+60 t=60    | ok K(A)+7 t=7                 | ok X(A) t=0                | ok X(A) t=0
break       | NotPresent        | ok K(A)+20 t=20      | ok X(A) t=0        | ok K(A)+7 t=7                 | ok X(A) t=0                | ok X(A) t=0
modified    | ok available      | ok L30(A)+20         | ok Linf(A)         | ok K(A)+7                     | ok available               | ok available
";

/// Runs the action of a row; what it answered, as the cells write it.
fn act(lease: &mut Lease, action: &str) -> Result<String, LeaseRefusal> {
    let words: Vec<&str> = action.split_whitespace().collect();
    let id = |n: usize| match words[n] {
        "A" => A,
        "B" => B,
        "C" => C,
        other => panic!("no id {other}"),
    };
    match words[0] {
        "acquire" => {
            let duration = if words.len() == 3 { LeaseDuration::INFINITE } else { seconds(45) };
            let got = lease.acquire(NOW, id(1), duration)?;
            assert_eq!(got, id(1));
        }
        "renew" => assert_eq!(lease.renew(NOW, id(1))?, id(1)),
        "change" => assert_eq!(lease.change(NOW, id(1), id(2))?, id(2)),
        "release" => lease.release(NOW, id(1))?,
        "break" => {
            let left = lease.break_(NOW, words.get(1).map(|word| word.parse().unwrap()))?;
            return Ok(format!(" t={left}"));
        }
        "modified" => lease.modified(NOW),
        other => panic!("no action {other}"),
    }
    Ok(String::new())
}

/// The lease after an action, as the cells write it, read from the stored value.
fn written(lease: &Lease) -> String {
    let name = |id: LeaseId| if id == A { "A" } else { "B" };
    let left = |end: i64| (end - NOW.0) / 1_000_000_000;
    match lease.0 {
        Inner::Available => "available".to_owned(),
        Inner::Leased { id, duration: LeaseDuration(None), .. } => format!("Linf({})", name(id)),
        Inner::Leased { id, duration: LeaseDuration(Some(d)), since } => {
            format!("L{d}({})+{}", name(id), left(since.0 + i64::from(d) * 1_000_000_000))
        }
        Inner::Breaking { id, until } => format!("K({})+{}", name(id), left(until.0)),
        Inner::Broken { id } => format!("X({})", name(id)),
    }
}

fn refusal(cell: &str) -> LeaseRefusal {
    match cell {
        "AlreadyPresent" => LeaseRefusal::AlreadyPresent,
        "IsBreakingAndCannotBeAcquired" => LeaseRefusal::IsBreakingAndCannotBeAcquired,
        "IsBrokenAndCannotBeRenewed" => LeaseRefusal::IsBrokenAndCannotBeRenewed,
        "IsBreakingAndCannotBeChanged" => LeaseRefusal::IsBreakingAndCannotBeChanged,
        "IdMismatch" => LeaseRefusal::IdMismatchWithLeaseOperation,
        "NotPresent" => LeaseRefusal::NotPresentWithLeaseOperation,
        "IdMissing" => LeaseRefusal::IdMissing,
        "blob mismatch" => LeaseRefusal::IdMismatchWithBlobOperation,
        "blob not leased" => LeaseRefusal::NotPresentWithBlobOperation,
        "container mismatch" => LeaseRefusal::IdMismatchWithContainerOperation,
        "container not leased" => LeaseRefusal::NotPresentWithContainerOperation,
        "must be infinite" => LeaseRefusal::InfiniteDurationRequired,
        other => panic!("no refusal {other}"),
    }
}

/// The cells of a table: what the row says, and for each column what is expected.
fn rows(table: &str) -> Vec<(&str, Vec<&str>)> {
    let lines = table.trim().lines().skip(1);
    lines
        .map(|line| {
            let mut cells = line.split('|').map(str::trim);
            (cells.next().unwrap(), cells.collect())
        })
        .collect()
}

#[test]
fn every_action_in_every_state() {
    let mut cells = 0;
    for (action, expected) in rows(ACTIONS) {
        assert_eq!(expected.len(), 6, "row {action}");
        for ((column, leases), cell) in columns().into_iter().zip(expected) {
            for before in leases {
                let mut after = before;
                let result = act(&mut after, action);
                let place = format!("{action} on {column} ({before:?})");
                match cell.strip_prefix("ok ") {
                    // The two expired leases of the column had different durations, and keep them.
                    Some("renewed") => {
                        assert_eq!(result, Ok(String::new()), "{place}");
                        let kept = if before == columns()[5].1[0] { "L15(A)+15" } else { "L60(A)+60" };
                        assert_eq!(written(&after), kept, "{place}");
                    }
                    Some(expected) => {
                        let answer = result.unwrap_or_else(|refusal| panic!("{place}: {refusal}"));
                        assert_eq!(format!("{}{answer}", written(&after)), expected, "{place}");
                    }
                    None => {
                        assert_eq!(result, Err(refusal(cell)), "{place}");
                        assert_eq!(after, before, "{place}: a refused action changes nothing");
                    }
                }
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 17 * 9);
}

const OPERATIONS: &str = "
operation, id    | available            | leased 30 s        | leased for ever    | breaking           | broken               | expired
write, none      | ok                   | IdMissing          | IdMissing          | IdMissing          | ok                   | ok
write, A         | blob not leased      | ok                 | ok                 | ok                 | blob not leased      | blob not leased
write, B         | blob not leased      | blob mismatch      | blob mismatch      | blob mismatch      | blob not leased      | blob not leased
read, none       | ok                   | ok                 | ok                 | ok                 | ok                   | ok
read, A          | blob not leased      | ok                 | ok                 | ok                 | blob not leased      | blob not leased
read, B          | blob not leased      | blob mismatch      | blob mismatch      | blob mismatch      | blob not leased      | blob not leased
copy, none       | ok                   | IdMissing          | IdMissing          | IdMissing          | ok                   | ok
copy, A          | blob not leased      | must be infinite   | ok                 | must be infinite   | blob not leased      | blob not leased
copy, B          | blob not leased      | blob mismatch      | blob mismatch      | blob mismatch      | blob not leased      | blob not leased
c delete, none   | ok                   | IdMissing          | IdMissing          | IdMissing          | ok                   | ok
c delete, A      | container not leased | ok                 | ok                 | ok                 | container not leased | container not leased
c delete, B      | container not leased | container mismatch | container mismatch | container mismatch | container not leased | container not leased
c use, none      | ok                   | ok                 | ok                 | ok                 | ok                   | ok
c use, A         | container not leased | ok                 | ok                 | ok                 | container not leased | container not leased
c use, B         | container not leased | container mismatch | container mismatch | container mismatch | container not leased | container not leased
";

#[test]
fn every_operation_in_every_state() {
    let mut cells = 0;
    for (row, expected) in rows(OPERATIONS) {
        assert_eq!(expected.len(), 6, "row {row}");
        let (operation, id) = row.split_once(", ").unwrap();
        let id = match id {
            "none" => None,
            "A" => Some(A),
            _ => Some(B),
        };
        for ((column, leases), cell) in columns().into_iter().zip(expected) {
            for lease in leases {
                let result = match operation {
                    "write" => lease.check_write(NOW, id),
                    "read" => lease.check_read(NOW, id),
                    "copy" => lease.check_copy_target(NOW, id),
                    "c delete" => lease.check_container_delete(NOW, id),
                    "c use" => lease.check_container_use(NOW, id),
                    other => panic!("no operation {other}"),
                };
                let expected = if cell == "ok" { Ok(()) } else { Err(refusal(cell)) };
                assert_eq!(result, expected, "{row} on {column}");
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 15 * 9);
}

#[test]
fn what_a_lease_shows_in_every_state() {
    let expected = [
        ("available", false, None, None),
        ("leased", true, Some(seconds(30)), Some(A)),
        ("leased", true, Some(LeaseDuration::INFINITE), Some(A)),
        ("breaking", true, None, Some(A)),
        ("broken", false, None, None),
        ("expired", false, None, None),
    ];
    for ((column, leases), (state, locked, duration, holder)) in columns().into_iter().zip(expected) {
        for lease in leases {
            assert_eq!(lease.state(NOW).to_string(), state, "{column}");
            assert_eq!(lease.is_locked(NOW), locked, "{column}");
            assert_eq!(lease.duration(NOW), duration, "{column}");
            assert_eq!(lease.holder(NOW), holder, "{column}");
        }
    }
}

#[test]
fn a_finite_lease_expires_at_the_very_instant() {
    let mut lease = Lease::default();
    lease.acquire(at(0), A, seconds(15)).unwrap();
    assert_eq!(lease.state(at(0)), LeaseState::Leased);
    assert_eq!(lease.state(Moment(at(15).0 - 1)), LeaseState::Leased);
    assert_eq!(lease.state(at(15)), LeaseState::Expired);
    lease.renew(at(14), A).unwrap();
    assert_eq!(lease.state(at(28)), LeaseState::Leased);
    assert_eq!(lease.state(at(29)), LeaseState::Expired);
}

#[test]
fn an_infinite_lease_never_ends_by_itself() {
    let mut lease = Lease::default();
    lease.acquire(at(0), A, LeaseDuration::INFINITE).unwrap();
    assert_eq!(lease.state(Moment(i64::MAX)), LeaseState::Leased);
    assert_eq!(lease.break_(at(5), None), Ok(0));
    assert_eq!(lease.state(at(5)), LeaseState::Broken);
}

#[test]
fn a_clock_that_went_back_does_not_stretch_a_break() {
    let mut lease = Lease::default();
    lease.acquire(at(1000), A, seconds(60)).unwrap();
    assert_eq!(lease.state(at(10)), LeaseState::Leased);
    assert_eq!(lease.break_(at(10), None), Ok(60));
    assert_eq!(lease.state(at(70)), LeaseState::Broken);
}

#[test]
fn a_break_can_only_be_shortened() {
    let mut lease = Lease::default();
    lease.acquire(at(0), A, LeaseDuration::INFINITE).unwrap();
    assert_eq!(lease.break_(at(0), Some(30)), Ok(30));
    assert_eq!(lease.break_(at(10), Some(60)), Ok(20));
    assert_eq!(lease.break_(at(10), None), Ok(20));
    assert_eq!(lease.break_(at(10), Some(5)), Ok(5));
    assert_eq!(lease.break_(at(12), Some(5)), Ok(3));
    assert_eq!(lease.state(Moment(at(15).0 - 1)), LeaseState::Breaking);
    assert_eq!(lease.state(at(15)), LeaseState::Broken);
    assert_eq!(lease.break_(at(20), Some(60)), Ok(0));
    assert_eq!(lease.state(at(20)), LeaseState::Broken);
}

#[test]
fn the_seconds_left_are_rounded_up_and_capped() {
    let mut lease = Lease::default();
    lease.acquire(at(0), A, seconds(15)).unwrap();
    assert_eq!(lease.break_(Moment(at(10).0 + 1), None), Ok(5));
    assert_eq!(lease.break_(Moment(at(15).0 - 1), None), Ok(1));
    lease.release(at(15), A).unwrap();
    lease.acquire(at(15), A, LeaseDuration::INFINITE).unwrap();
    assert_eq!(lease.break_(at(15), Some(255)), Ok(60));
}

#[test]
fn acquire_and_change_may_be_repeated() {
    let mut lease = Lease::default();
    assert_eq!(lease.acquire(at(0), A, seconds(15)), Ok(A));
    assert_eq!(lease.acquire(at(10), A, seconds(15)), Ok(A));
    assert_eq!(lease.state(at(24)), LeaseState::Leased, "the repeated acquire restarted the clock");
    assert_eq!(lease.acquire(at(20), A, LeaseDuration::INFINITE), Ok(A));
    assert_eq!(lease.duration(at(20)), Some(LeaseDuration::INFINITE));
    assert_eq!(lease.acquire(at(20), A, seconds(20)), Ok(A));
    assert_eq!(lease.change(at(30), A, B), Ok(B));
    assert_eq!(lease.change(at(30), A, B), Ok(B));
    assert_eq!(lease.change(at(30), A, C), Err(LeaseRefusal::IdMismatchWithLeaseOperation));
    assert_eq!(lease.state(at(40)), LeaseState::Expired, "a change does not restart the clock");
}

#[test]
fn a_late_renew_proves_that_nobody_wrote() {
    let mut lease = Lease::default();
    lease.acquire(at(0), A, seconds(15)).unwrap();
    assert_eq!(lease.renew(at(100), A), Ok(A));
    assert_eq!(lease.check_write(at(114), Some(A)), Ok(()));
    lease.modified(at(114));
    assert_eq!(lease.renew(at(200), A), Ok(A), "the holder's own write keeps the lease");
    lease.modified(at(300));
    assert_eq!(lease.renew(at(300), A), Err(LeaseRefusal::IdMismatchWithLeaseOperation));
    assert_eq!(lease.state(at(300)), LeaseState::Available);
}

#[test]
fn ids_are_read_in_every_usual_form() {
    let id = LeaseId(0x1f81_2371_a41d_49e6_b123_f4b5_42e8_51c5);
    for text in [
        "1f812371a41d49e6b123f4b542e851c5",
        "1f812371-a41d-49e6-b123-f4b542e851c5",
        "{1f812371-a41d-49e6-b123-f4b542e851c5}",
        "(1f812371-a41d-49e6-b123-f4b542e851c5)",
        "1F812371-A41D-49E6-B123-F4B542E851C5",
        " 1f812371-a41d-49E6-b123-f4b542e851c5 ",
    ] {
        assert_eq!(text.parse(), Ok(id), "{text}");
    }
    assert_eq!(id.to_string(), "1f812371-a41d-49e6-b123-f4b542e851c5");
    assert_eq!(LeaseId(0xb).to_string(), "00000000-0000-0000-0000-00000000000b");
    assert_eq!(LeaseId(u128::MAX).to_string().parse(), Ok(LeaseId(u128::MAX)));
}

#[test]
fn what_is_no_guid_is_no_id() {
    for text in [
        "",
        "lease",
        "1f812371a41d49e6b123f4b542e851c",
        "1f812371a41d49e6b123f4b542e851c55",
        "1f812371-a41d-49e6-b123f4b542e851c5",
        "1f81237-1a41d-49e6-b123-f4b542e851c5",
        "{1f812371-a41d-49e6-b123-f4b542e851c5",
        "{1f812371-a41d-49e6-b123-f4b542e851c5)",
        "{1f812371a41d49e6b123f4b542e851c5}",
        "+f812371-a41d-49e6-b123-f4b542e851c5",
        "+f812371a41d49e6b123f4b542e851c5",
        "gf812371-a41d-49e6-b123-f4b542e851c5",
        "éf81237-a41d-49e6-b123-f4b542e851c5",
    ] {
        assert_eq!(text.parse::<LeaseId>(), Err(InvalidLeaseId), "{text}");
    }
}

#[test]
fn durations_are_15_to_60_seconds_or_infinite() {
    for number in 0..=u8::MAX {
        let duration = LeaseDuration::seconds(number);
        assert_eq!(duration.is_some(), matches!(number, 15..=60), "{number}");
        assert_eq!(duration.and_then(LeaseDuration::as_seconds), duration.map(|_| number));
        assert!(duration.is_none_or(|duration| !duration.is_infinite()));
    }
    assert!(LeaseDuration::INFINITE.is_infinite());
    assert_eq!(LeaseDuration::INFINITE.as_seconds(), None);
}

#[test]
fn a_stored_lease_comes_back_and_a_wrong_one_does_not() {
    for (_, leases) in columns() {
        for lease in leases {
            let bytes = postcard::to_allocvec(&lease).unwrap();
            assert_eq!(postcard::from_bytes::<Lease>(&bytes), Ok(lease));
        }
    }
    let bytes = postcard::to_allocvec(&Some(14_u8)).unwrap();
    assert!(postcard::from_bytes::<LeaseDuration>(&bytes).is_err());
}

#[test]
fn observed_leases_have_the_state_that_was_seen() {
    let now = Moment(1_790_000_000_000_000_000);
    for state in [
        LeaseState::Available,
        LeaseState::Leased,
        LeaseState::Expired,
        LeaseState::Breaking,
        LeaseState::Broken,
    ] {
        for infinite in [false, true] {
            assert_eq!(Lease::observed(state, infinite, now).state(now), state);
        }
    }
    let infinite = Lease::observed(LeaseState::Leased, true, now);
    assert!(infinite.duration(now).is_some_and(LeaseDuration::is_infinite));
}
