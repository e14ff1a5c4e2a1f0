//! Content that is written in place: it may show after a death although nobody committed it, and then the service gets it,
//! too.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::rig::{Rig, crashed, is_there};

/// More than a commit copies.
const SIZE: usize = 300_000;

/// A new file that was committed and stays open: what is written to it from now on is written in place.
fn committed(rig: &Rig, name: &str) -> File {
    let file = File::create_new(rig.path(name)).unwrap();
    file.write_all_at(&[1; SIZE], 0).unwrap();
    file.sync_all().unwrap();
    file
}

/// Something is written to an open file after `act`, and then the daemon dies.
fn written_behind(options: &[&str], what: &str, act: impl Fn(&Rig)) {
    let Some(mut rig) = Rig::new(options) else { return };
    rig.start();
    fs::create_dir(rig.path("d")).unwrap();
    fs::write(rig.path("other"), "other").unwrap();
    let open = committed(&rig, "d/f");
    rig.drained_but(1);
    act(&rig);
    open.write_all_at(&[2; SIZE / 2], 1000).unwrap();
    rig.kill();
    drop(open);
    rig.start();
    rig.finish_renames();
    rig.same_at_the_service(&format!("{what} {options:?}"));
    rig.stop();
    rig.check();
}

#[test]
fn what_is_written_in_place_behind_a_rename_is_not_only_here() {
    for options in [&[][..], &["--write-back"]] {
        written_behind(options, "no rename", |_| ());
        written_behind(options, "a file", |rig| fs::rename(rig.path("d/f"), rig.path("d/g")).unwrap());
        written_behind(options, "a directory", |rig| fs::rename(rig.path("d"), rig.path("e")).unwrap());
        written_behind(options, "an exchange", |rig| {
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &rig.path("d/f"), AT_FDCWD, &rig.path("other"), flags).unwrap();
        });
        written_behind(options, "an exchange, the other way", |rig| {
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &rig.path("other"), AT_FDCWD, &rig.path("d/f"), flags).unwrap();
        });
        written_behind(options, "an exchange of directories", |rig| {
            fs::create_dir(rig.path("e")).unwrap();
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &rig.path("e"), AT_FDCWD, &rig.path("d"), flags).unwrap();
        });
        written_behind(options, "an exchange of a file and a directory", |rig| {
            let flags = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &rig.path("other"), AT_FDCWD, &rig.path("d"), flags).unwrap();
        });
    }
}

#[test]
fn nothing_waits_any_more_once_a_file_is_closed() {
    for options in [&[][..], &["--write-back"]] {
        let Some(mut rig) = Rig::new(options) else { return };
        rig.start();
        fs::create_dir(rig.path("d")).unwrap();
        let open = committed(&rig, "d/f");
        fs::rename(rig.path("d"), rig.path("e")).unwrap();
        open.write_all_at(&[2; SIZE / 2], 1000).unwrap();
        drop(open);
        rig.drained();
        nix::unistd::truncate(&rig.path("e/f"), 200_000).unwrap();
        rig.drained();
        rig.same_at_the_service("after a truncate");
        rig.stop();
    }
}

/// What is renamed while `d/f` is open and written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renamed {
    /// The file, over another one.
    File,
    /// The directory it is in.
    Directory,
    /// Another one, over the file.
    Over,
    /// Two files change places.
    Exchange,
    /// The directory it is in changes places with another one.
    Directories,
}

/// Points of renames and exchanges, from the note to the end.
const RENAMES: &[&str] = &[
    "rename_after_note",
    "rename_after_copy",
    "rename_there_after_move",
    "rename_there_after_state",
    "rename_there_after_here",
    "rename_after_move",
];
const EXCHANGES: &[&str] = &["exchange_after_aside", "exchange_after_copy", "exchange_before_here"];
/// Of the six copies of two directories with a file each, some on every leg.
const EXCHANGES_OF_TREES: &[&str] = &[
    "exchange_before_leg:1",
    "exchange_before_leg:2",
    "exchange_before_leg:3",
    "rename_after_copy:1",
    "rename_after_copy:3",
    "rename_after_copy:4",
    "rename_after_copy:6",
    "exchange_after_legs",
    "rename_there_after_move",
    "rename_there_after_state",
    "rename_there_after_here",
    "rename_after_move",
];

impl Renamed {
    /// What it needs besides.
    fn prepare(self, rig: &Rig) {
        match self {
            Self::Directories => {
                fs::create_dir(rig.path("e")).unwrap();
                fs::write(rig.path("e/g"), "g").unwrap();
            }
            Self::File | Self::Directory | Self::Over | Self::Exchange => {}
        }
    }

    fn act(self, rig: &Rig) {
        let path = |name: &str| rig.path(name);
        let done = match self {
            Self::File => fs::rename(path("d/f"), path("other")),
            Self::Directory => fs::rename(path("d"), path("e")),
            Self::Over => fs::rename(path("other"), path("d/f")),
            Self::Exchange => {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &path("other"), AT_FDCWD, &path("d/f"), flags).map_err(Into::into)
            }
            Self::Directories => {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &path("d"), AT_FDCWD, &path("e"), flags).map_err(Into::into)
            }
        };
        done.expect_err("the daemon dies");
    }

    /// Where the file and the other one are afterwards.
    fn after(self) -> (Option<&'static str>, Option<&'static str>) {
        match self {
            Self::File => (Some("other"), None),
            Self::Directory | Self::Directories => (Some("e/f"), Some("other")),
            Self::Over => (None, Some("d/f")),
            Self::Exchange => (Some("other"), Some("d/f")),
        }
    }
}

/// The daemon dies at `point` of a rename. The next one finishes it: all of it, and nothing is kept beside.
fn dies_renaming(options: &[&str], renamed: Renamed, point: &str) {
    let when = format!("{renamed:?} {point} {options:?}");
    let Some(mut rig) = Rig::new(options) else { return };
    assert!(rig.start_doomed(point));
    fs::create_dir(rig.path("d")).unwrap();
    fs::write(rig.path("other"), "other").unwrap();
    renamed.prepare(&rig);
    let open = committed(&rig, "d/f");
    open.write_all_at(&[2; SIZE / 2], 1000).unwrap();
    renamed.act(&rig);
    drop(open);
    assert!(crashed(rig.ended()), "{when}: was not reached");
    rig.start();
    rig.finish_renames();
    let (file, other) = renamed.after();
    for look in ["at once", "later"] {
        let log = || format!("{when} {look}\n{}", rig.log());
        for name in ["d/f", "e/f", "other"] {
            assert_eq!(is_there(&rig.path(name)), [file, other].contains(&Some(name)), "{name}: {}", log());
        }
        if let Some(file) = file {
            let bytes = fs::read(rig.path(file)).unwrap();
            assert!(bytes.len() == SIZE && bytes.iter().all(|byte| [1, 2].contains(byte)), "{}", log());
        }
        if let Some(other) = other {
            assert_eq!(fs::read_to_string(rig.path(other)).unwrap(), "other", "{}", log());
        }
        rig.same_at_the_service(&when);
    }
    rig.stop();
    rig.check();
}

#[test]
fn a_death_while_a_file_written_in_place_is_renamed_is_survived() {
    for options in [&[][..], &["--write-back"]] {
        for renamed in [Renamed::Over, Renamed::File, Renamed::Directory] {
            RENAMES.iter().for_each(|point| dies_renaming(options, renamed, point));
        }
        EXCHANGES.iter().for_each(|point| dies_renaming(options, Renamed::Exchange, point));
        EXCHANGES_OF_TREES.iter().for_each(|point| dies_renaming(options, Renamed::Directories, point));
    }
}
