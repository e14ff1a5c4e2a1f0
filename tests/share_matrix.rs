//! Every pair of opens: access {R, W, RW, D} × the 8 share modes, for the open that exists and the one that is new, with
//! two real processes on a real mount that ask by ioctl.
//!
//! The expectations are the published outcomes of SMB servers, typed in as a table; nothing of leasefs computes them.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

mod common;
#[path = "share/holder.rs"]
mod holder;

use common::{Mount, on_both_paths};
use holder::Holder;

const ACCESSES: [&str; 4] = ["r", "w", "rw", "d"];
const SHARES: [&str; 8] = ["none", "r", "w", "d", "rw", "rd", "wd", "rwd"];

/// Row: the open that exists, in the order access × share mode. Column: the new open, in the same order.
/// `.` both may exist, `X` sharing violation.
const TABLE: &str = "
XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
X.XX..X. XXXXXXXX XXXXXXXX XXXXXXXX
XXXXXXXX X.XX..X. XXXXXXXX XXXXXXXX
XXXXXXXX XXXXXXXX XXXXXXXX X.XX..X.
X.XX..X. X.XX..X. X.XX..X. XXXXXXXX
X.XX..X. XXXXXXXX XXXXXXXX X.XX..X.
XXXXXXXX X.XX..X. XXXXXXXX X.XX..X.
X.XX..X. X.XX..X. X.XX..X. X.XX..X.

XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
XX.X.X.. XXXXXXXX XXXXXXXX XXXXXXXX
XXXXXXXX XX.X.X.. XXXXXXXX XXXXXXXX
XXXXXXXX XXXXXXXX XXXXXXXX XX.X.X..
XX.X.X.. XX.X.X.. XX.X.X.. XXXXXXXX
XX.X.X.. XXXXXXXX XXXXXXXX XX.X.X..
XXXXXXXX XX.X.X.. XXXXXXXX XX.X.X..
XX.X.X.. XX.X.X.. XX.X.X.. XX.X.X..

XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
XXXX.XX. XXXXXXXX XXXXXXXX XXXXXXXX
XXXXXXXX XXXX.XX. XXXXXXXX XXXXXXXX
XXXXXXXX XXXXXXXX XXXXXXXX XXXX.XX.
XXXX.XX. XXXX.XX. XXXX.XX. XXXXXXXX
XXXX.XX. XXXXXXXX XXXXXXXX XXXX.XX.
XXXXXXXX XXXX.XX. XXXXXXXX XXXX.XX.
XXXX.XX. XXXX.XX. XXXX.XX. XXXX.XX.

XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
XXX.X... XXXXXXXX XXXXXXXX XXXXXXXX
XXXXXXXX XXX.X... XXXXXXXX XXXXXXXX
XXXXXXXX XXXXXXXX XXXXXXXX XXX.X...
XXX.X... XXX.X... XXX.X... XXXXXXXX
XXX.X... XXXXXXXX XXXXXXXX XXX.X...
XXXXXXXX XXX.X... XXXXXXXX XXX.X...
XXX.X... XXX.X... XXX.X... XXX.X...
";

/// The opens in the order of the table.
fn opens() -> Vec<(&'static str, &'static str)> {
    ACCESSES.iter().flat_map(|access| SHARES.map(|share| (*access, share))).collect()
}

#[test]
fn all_1024_pairs_of_opens_come_out_as_on_an_smb_server() {
    let cells: Vec<char> = TABLE.chars().filter(|c| !c.is_whitespace()).collect();
    assert_eq!(cells.len(), 1024);
    assert_eq!(cells.iter().filter(|cell| **cell == '.').count(), 196, "the table was typed wrong");
    on_both_paths(&[], |mount| try_all(mount, &cells));
}

fn try_all(mount: &Mount, cells: &[char]) {
    let (mut first, mut second) = (Holder::start(), Holder::start());
    let mut wrong = Vec::new();
    for (row, existing) in opens().into_iter().enumerate() {
        for (column, new) in opens().into_iter().enumerate() {
            // A file for each pair, so that no late close of the pair before is in the way.
            let path = mount.path(&format!("{row}-{column}"));
            std::fs::write(&path, "content").unwrap();
            let held = first.open_shared(&path, existing.0, existing.1).expect("nobody else has it open");
            let outcome = match second.open_shared(&path, new.0, new.1) {
                Ok(descriptor) => {
                    second.close(&descriptor);
                    '.'
                }
                Err(libc::EBUSY) => 'X',
                Err(errno) => panic!("{existing:?} then {new:?}: errno {errno}"),
            };
            first.close(&held);
            if outcome != cells[row * 32 + column] {
                wrong.push(format!("{existing:?} then {new:?}: {outcome}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of 1024 are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
