//! Death of the daemon: killed at any moment, and at every named point inside an operation. Whatever was acknowledged
//! before is there after the next start, and what was under way has happened or not, as a whole.
//!
//! A failing seed is a bug report: `LEASEFS_SEED=n cargo test --test crash`. Needs root and /dev/fuse; says so and
//! passes without them.

#![allow(unreachable_pub)] // Helper modules of one test.
// A test that cannot go on stops.
#![allow(clippy::unwrap_used)]

#[path = "crash/daemon.rs"]
mod daemon;
#[path = "crash/dice.rs"]
mod dice;
#[path = "crash/named.rs"]
mod named;
#[path = "crash/points.rs"]
mod points;
#[path = "crash/random.rs"]
mod random;
#[path = "crash/rig.rs"]
mod rig;
#[path = "crash/tree.rs"]
mod tree;
#[path = "crash/writer.rs"]
mod writer;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dice::{Dice, seed};
use rig::Rig;
use writer::{Writer, burst};

/// Kills for each data path.
const KILLS: usize = 150;

/// The daemon lives at most so long after the writers have begun.
const LIFE: Duration = Duration::from_millis(60);

/// The store is checked after so many kills.
const CHECK_EVERY: usize = 10;

fn settle(rig: &Rig, writers: &mut [Writer], round: usize, seed: u64) {
    for writer in writers {
        if let Err(wrong) = writer.settle() {
            panic!("seed {seed}, kill {round}: {wrong}\nlog:\n{}", rig.log());
        }
    }
}

fn random_kills(options: &[&str]) {
    let seed = seed();
    println!("LEASEFS_SEED={seed} {options:?}");
    let Some(mut rig) = Rig::new(options) else { return };
    let mut dice = Dice::new(seed);
    rig.start();
    let dying = Arc::new(AtomicBool::new(false));
    let mut writers = ["one", "two"].map(|name| Writer::new(&rig.dir(), name, dice.number(), &dying));
    for round in 1..=KILLS {
        let life = LIFE.mul_f64(dice.roll(1000) as f64 / 1000.0);
        burst(&mut rig, &mut writers, life, &dying);
        // The rule for removes belongs to the mount, not to the data.
        let delete = if dice.once_in(3) { "posix" } else { "smb" };
        rig.start_with(&["--delete", delete]);
        settle(&rig, &mut writers, round, seed);
        if round % CHECK_EVERY == 0 {
            rig.stop();
            rig.check();
            rig.start();
            settle(&rig, &mut writers, round, seed);
        }
    }
    rig.stop();
    rig.check();
}

/// Files that were just closed are opened again and half written when the daemon is killed.
fn closed_and_opened_again(options: &[&str]) {
    const FILES: usize = 100;
    const SIZE: usize = 200_000;
    let Some(mut rig) = Rig::new(options) else { return };
    rig.start();
    let dir = rig.dir();
    let path = |file: usize| dir.join(format!("f{file}"));
    let work = |first: usize| {
        let again = |file: usize| {
            fs::write(path(file), vec![1; SIZE]).unwrap();
            let open = File::options().write(true).truncate(file.is_multiple_of(3)).open(path(file)).unwrap();
            open.write_all_at(&[2; SIZE / 2], 0).unwrap();
            open
        };
        (first..FILES).step_by(4).map(again).collect::<Vec<File>>()
    };
    let open: Vec<Vec<File>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|first| scope.spawn(move || work(first))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    rig.kill();
    drop(open);
    rig.start();
    for file in 0..FILES {
        assert!(
            fs::read(path(file)).unwrap() == vec![1; SIZE],
            "{options:?}: file {file} has its old version"
        );
    }
    rig.stop();
    rig.check();
}

#[test]
fn what_was_closed_is_whole_although_it_is_opened_again_at_once() {
    for _ in 0..4 {
        closed_and_opened_again(&[]);
        closed_and_opened_again(&["--no-passthrough"]);
    }
}

#[test]
fn random_kills_lose_nothing_acknowledged_through_the_kernel() {
    random_kills(&[]);
}

#[test]
fn random_kills_lose_nothing_acknowledged_through_the_daemon() {
    random_kills(&["--no-passthrough"]);
}
