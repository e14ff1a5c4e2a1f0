//! A close that has returned is a close: loops that would meet the ghost of their own last round.
//!
//! `LEASEFS_ROUNDS` says how many rounds (the promise is 100,000); fewer in an ordinary run.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;

use crate::common::on_both_paths;

/// `LEASEFS_IOC_SET_SHARE`
const SET_SHARE: libc::c_ulong = 0x4008_E901;

fn rounds(usual: usize) -> usize {
    std::env::var("LEASEFS_ROUNDS").map_or(usual, |rounds| rounds.parse().expect("a number of rounds"))
}

fn claim_alone(file: &File) -> std::io::Result<()> {
    let alone: [u32; 2] = [3, 0];
    // SAFETY: the command reads eight bytes, as many as there are.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), SET_SHARE, alone.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn exclusive_handles_are_opened_and_closed_in_a_loop() {
    on_both_paths(&["--share-rule", "*.alone=exclusive"], |mount| {
        let (by_rule, by_ioctl) = (mount.path("x.alone"), mount.path("y"));
        fs::write(&by_rule, "x").unwrap();
        fs::write(&by_ioctl, "y").unwrap();
        for round in 0..rounds(20_000) {
            let file = File::options().read(true).write(true).open(&by_rule);
            drop(file.unwrap_or_else(|error| panic!("by rule, round {round}: {error}")));
            let file = File::options().read(true).write(true).open(&by_ioctl);
            let file = file.unwrap_or_else(|error| panic!("by ioctl, round {round}: {error}"));
            claim_alone(&file).unwrap_or_else(|error| panic!("claim, round {round}: {error}"));
        }
    });
}

#[test]
fn names_are_removed_closed_and_made_again_in_a_loop() {
    on_both_paths(&[], |mount| {
        let path = mount.path("loop");
        for round in 0..rounds(5_000) {
            let file = File::options().write(true).create_new(true).open(&path);
            let mut file = file.unwrap_or_else(|error| panic!("create, round {round}: {error}"));
            file.write_all(b"x").unwrap();
            fs::remove_file(&path).unwrap_or_else(|error| panic!("remove, round {round}: {error}"));
            drop(file);
        }
    });
}
