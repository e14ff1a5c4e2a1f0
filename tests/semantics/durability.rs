//! What survives.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;

use crate::common::{no_starts, on_both_paths};

const SIZES: [usize; 3] = [2000, 200_000, 3 << 20];

#[test]
fn what_close_acknowledged_survives_kill_9() {
    on_both_paths(&[], |mount| {
        for (round, size) in SIZES.into_iter().enumerate() {
            let path = mount.path(&format!("f{round}"));
            fs::write(&path, vec![round as u8 + 1; size]).unwrap();
            mount.kill();
            mount.start();
            assert!(fs::read(&path).unwrap() == vec![round as u8 + 1; size], "size {size}");
        }
    });
}

#[test]
fn what_fsync_acknowledged_survives_kill_9_of_an_open_file() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            let path = mount.path(&format!("f{size}"));
            let mut file = File::create(&path).unwrap();
            file.write_all(&vec![5; size]).unwrap();
            file.sync_all().unwrap();
            mount.kill();
            drop(file);
            mount.start();
            assert!(fs::read(&path).unwrap() == vec![5; size], "size {size}");
        }
    });
}

#[test]
fn a_change_that_was_not_committed_is_there_whole_or_not_at_all() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            let path = mount.path(&format!("f{size}"));
            let alone = no_starts();
            fs::write(&path, vec![1; size]).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&vec![2; size / 2], 0).unwrap();
            mount.kill();
            drop(file);
            drop(alone);
            mount.start();
            assert!(fs::read(&path).unwrap() == vec![1; size], "size {size}: the old version");
        }
    });
}

#[test]
fn a_truncating_save_that_died_leaves_the_old_version() {
    on_both_paths(&[], |mount| {
        for size in SIZES {
            let path = mount.path(&format!("f{size}"));
            let alone = no_starts();
            fs::write(&path, vec![1; size]).unwrap();
            let mut file = File::create(&path).unwrap();
            file.write_all(b"half a new ver").unwrap();
            mount.kill();
            drop(file);
            drop(alone);
            mount.start();
            assert!(fs::read(&path).unwrap() == vec![1; size], "size {size}: the old version");
        }
    });
}
