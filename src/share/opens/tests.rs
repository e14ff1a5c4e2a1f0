//! The rule against the published matrix of all pairs, and the counters against the rule.

use super::*;

/// Existing open `access/share` against a new open; `X` is a conflict. The column groups are the new access in the order
/// of `NEW_ACCESS`; inside a group the new share modes are in the order of `NEW_SHARE`.
const MATRIX: &str = "
R/-        XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
R/R        X.XX..X. XXXXXXXX XXXXXXXX XXXXXXXX
R/W        XXXXXXXX X.XX..X. XXXXXXXX XXXXXXXX
R/D        XXXXXXXX XXXXXXXX XXXXXXXX X.XX..X.
R/RW       X.XX..X. X.XX..X. X.XX..X. XXXXXXXX
R/RD       X.XX..X. XXXXXXXX XXXXXXXX X.XX..X.
R/WD       XXXXXXXX X.XX..X. XXXXXXXX X.XX..X.
R/RWD      X.XX..X. X.XX..X. X.XX..X. X.XX..X.
W/-        XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
W/R        XX.X.X.. XXXXXXXX XXXXXXXX XXXXXXXX
W/W        XXXXXXXX XX.X.X.. XXXXXXXX XXXXXXXX
W/D        XXXXXXXX XXXXXXXX XXXXXXXX XX.X.X..
W/RW       XX.X.X.. XX.X.X.. XX.X.X.. XXXXXXXX
W/RD       XX.X.X.. XXXXXXXX XXXXXXXX XX.X.X..
W/WD       XXXXXXXX XX.X.X.. XXXXXXXX XX.X.X..
W/RWD      XX.X.X.. XX.X.X.. XX.X.X.. XX.X.X..
RW/-       XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
RW/R       XXXX.XX. XXXXXXXX XXXXXXXX XXXXXXXX
RW/W       XXXXXXXX XXXX.XX. XXXXXXXX XXXXXXXX
RW/D       XXXXXXXX XXXXXXXX XXXXXXXX XXXX.XX.
RW/RW      XXXX.XX. XXXX.XX. XXXX.XX. XXXXXXXX
RW/RD      XXXX.XX. XXXXXXXX XXXXXXXX XXXX.XX.
RW/WD      XXXXXXXX XXXX.XX. XXXXXXXX XXXX.XX.
RW/RWD     XXXX.XX. XXXX.XX. XXXX.XX. XXXX.XX.
D/-        XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
D/R        XXX.X... XXXXXXXX XXXXXXXX XXXXXXXX
D/W        XXXXXXXX XXX.X... XXXXXXXX XXXXXXXX
D/D        XXXXXXXX XXXXXXXX XXXXXXXX XXX.X...
D/RW       XXX.X... XXX.X... XXX.X... XXXXXXXX
D/RD       XXX.X... XXXXXXXX XXXXXXXX XXX.X...
D/WD       XXXXXXXX XXX.X... XXXXXXXX XXX.X...
D/RWD      XXX.X... XXX.X... XXX.X... XXX.X...
";
const NEW_ACCESS: [&str; 4] = ["R", "W", "RW", "D"];
const NEW_SHARE: [&str; 8] = ["-", "R", "W", "D", "RW", "RD", "WD", "RWD"];

/// Existing share mode, and what it admits of a new open that shares everything: R, W, RW, D, RWD, attributes only.
const ONE_SIDED: &str = "
none | SV | SV | SV | SV | SV | ok
R    | ok | SV | SV | SV | SV | ok
W    | SV | ok | SV | SV | SV | ok
RW   | ok | ok | ok | SV | SV | ok
D    | SV | SV | SV | ok | SV | ok
RD   | ok | SV | SV | ok | SV | ok
WD   | SV | ok | SV | ok | SV | ok
RWD  | ok | ok | ok | ok | ok | ok
";
const ONE_SIDED_ACCESS: [&str; 6] = ["R", "W", "RW", "D", "RWD", "none"];

/// What an open asks for.
type Asked = (Access, ShareMode);

fn access(text: &str) -> Access {
    text.to_lowercase().parse().unwrap()
}

fn share(text: &str) -> ShareMode {
    text.replace('-', "none").to_lowercase().parse().unwrap()
}

fn all() -> impl Iterator<Item = Asked> {
    (0..64).map(|n| (Access::from_bits(n), ShareMode::from_bits(n >> 3)))
}

fn with(access: Access, share: ShareMode) -> OpenSet {
    let mut set = OpenSet::default();
    assert!(set.insert(OpenId(1), OpenClaim { access, share, delete_on_close: false }));
    set
}

/// Every cell: existing open, new open, whether they conflict.
fn cells() -> Vec<(Asked, Asked, bool)> {
    let mut cells = Vec::new();
    for row in MATRIX.trim().lines() {
        let mut words = row.split_whitespace();
        let (a, s) = words.next().unwrap().split_once('/').unwrap();
        for (new_access, group) in NEW_ACCESS.into_iter().zip(words) {
            assert_eq!(group.len(), 8);
            for (new_share, cell) in NEW_SHARE.into_iter().zip(group.chars()) {
                assert!(matches!(cell, 'X' | '.'));
                cells.push(((access(a), share(s)), (access(new_access), share(new_share)), cell == 'X'));
            }
        }
    }
    cells
}

#[test]
fn all_pairs_of_the_matrix_in_both_directions() {
    let cells = cells();
    assert_eq!(cells.len(), 1024);
    assert_eq!(cells.iter().filter(|(.., conflicts)| !conflicts).count(), 196);
    for (old, new, expected) in cells {
        assert_eq!(conflict(old.0, old.1, new.0, new.1), expected, "{new:?} after {old:?}");
        assert_eq!(conflict(new.0, new.1, old.0, old.1), expected, "{old:?} after {new:?}");
        assert_eq!(with(old.0, old.1).conflicts(new.0, new.1), expected, "{new:?} after {old:?}");
        assert_eq!(with(new.0, new.1).conflicts(old.0, old.1), expected, "{old:?} after {new:?}");
    }
}

#[test]
fn what_each_share_mode_admits() {
    let mut cells = 0;
    for row in ONE_SIDED.trim().lines() {
        let mut words = row.split('|').map(str::trim);
        let existing = share(words.next().unwrap());
        for (new, cell) in ONE_SIDED_ACCESS.into_iter().zip(words) {
            for old in all().map(|(access, _)| access).filter(|access| !access.is_empty()) {
                let refused = with(old, existing).conflicts(access(new), ShareMode::ALL);
                assert_eq!(refused, cell == "SV", "{new} beside {old} shared {existing}");
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 48);
}

#[test]
fn opens_for_attributes_only_meet_nobody() {
    for own in all().map(|(_, share)| share) {
        let attributes = with(Access::NONE, own);
        assert!(!attributes.denies_delete());
        for (access, share) in all() {
            assert!(!attributes.conflicts(access, share), "{access} shared {share}");
            assert!(!with(access, share).conflicts(Access::NONE, own), "{access} shared {share}");
            assert!(attributes.blockers(access, share).is_empty());
        }
    }
}

/// The aggregate over several opens is the pairwise rule over each of them, also after opens have gone.
#[test]
fn counters_equal_the_rule_for_sets_of_two() {
    for first in all() {
        for second in all().filter(|second| !conflict(first.0, first.1, second.0, second.1)) {
            let mut set = with(first.0, first.1);
            let claim = OpenClaim { access: second.0, share: second.1, delete_on_close: false };
            assert!(set.insert(OpenId(2), claim));
            set.invariants().unwrap();
            for new in all() {
                let one = conflict(first.0, first.1, new.0, new.1);
                let two = conflict(second.0, second.1, new.0, new.1);
                assert_eq!(set.conflicts(new.0, new.1), one || two);
                let blockers = [(1, one), (2, two)].into_iter().filter(|(_, blocks)| *blocks);
                let expected: Vec<OpenId> = blockers.map(|(id, _)| OpenId(id)).collect();
                assert_eq!(set.blockers(new.0, new.1), expected);
            }
            assert!(set.remove(OpenId(1)).is_some());
            for new in all() {
                assert_eq!(set.conflicts(new.0, new.1), conflict(second.0, second.1, new.0, new.1));
            }
        }
    }
}

#[test]
fn ids_are_unique_and_sorted() {
    let claim = OpenClaim { access: Access::READ, share: ShareMode::ALL, delete_on_close: false };
    let mut set = OpenSet::default();
    for id in [5, 1, 9, 3] {
        assert!(set.insert(OpenId(id), claim));
    }
    assert!(!set.insert(OpenId(3), claim));
    assert_eq!(set.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 3, 5, 9]);
    assert_eq!((set.remove(OpenId(4)), set.get(OpenId(4)), set.len()), (None, None, 4));
    set.invariants().unwrap();
}

#[test]
fn invariants_notice_damage() {
    let claim = |access, share| OpenClaim { access, share, delete_on_close: false };
    let mut conflicting = with(Access::READ, ShareMode::NONE);
    conflicting.insert(OpenId(2), claim(Access::READ, ShareMode::ALL));
    assert_eq!(conflicting.invariants(), Err("the opens 1 and 2 conflict".to_owned()));
    let mut miscounted = with(Access::READ, ShareMode::ALL);
    miscounted.granted[0] = 2;
    assert!(miscounted.invariants().unwrap_err().contains("counters"));
    let mut unsorted = with(Access::READ, ShareMode::ALL);
    unsorted.claims.push((OpenId(0), Some(claim(Access::NONE, ShareMode::ALL))));
    unsorted.living += 1;
    assert!(unsorted.invariants().unwrap_err().contains("sorted"));
}

#[test]
fn an_open_is_small() {
    assert_eq!(size_of::<(OpenId, Option<OpenClaim>)>(), 16);
    assert!(size_of::<OpenSet>() <= 56);
    let mut set = with(Access::READ, ShareMode::ALL);
    assert_eq!(set.claims.capacity(), 1);
    let claim = OpenClaim { access: Access::READ, share: ShareMode::ALL, delete_on_close: false };
    for id in 2..1000 {
        set.insert(OpenId(id), claim);
    }
    for id in 2..1000 {
        set.remove(OpenId(id));
    }
    assert!(set.claims.capacity() <= 8, "what many opens needed is given back when they have gone");
}
