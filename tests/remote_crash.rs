//! Death of a daemon whose share is elsewhere: killed at any moment, and at every named point between the mount, its
//! cache directory and the service. Whatever was acknowledged is on the next mount and, once that has pushed what was
//! left, at the service; what was under way has happened or not, as a whole; and nobody waits for the dead one's leases.
//!
//! A failing seed is a bug report: `LEASEFS_SEED=n cargo test --test remote_crash`. Needs root and /dev/fuse; says so and
//! passes without them.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "crash/daemon.rs"]
mod daemon;
#[path = "crash/dice.rs"]
mod dice;
#[path = "common/fault_proxy/mod.rs"]
#[allow(unused_imports, reason = "others use the rest")]
mod fault_proxy;
#[path = "share/holder.rs"]
mod holder;
#[path = "remote_crash/in_place.rs"]
mod in_place;
#[path = "remote_crash/leases.rs"]
mod leases;
#[path = "remote/machine.rs"]
mod machine;
#[path = "remote_crash/named.rs"]
mod named;
#[path = "crash/random.rs"]
mod random;
#[path = "remote_crash/rig.rs"]
mod rig;
#[path = "crash/tree.rs"]
mod tree;
#[path = "crash/writer.rs"]
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dice::{Dice, seed};
use rig::Rig;
use writer::{Writer, burst};

/// Kills for each way of writing.
const KILLS: usize = 40;

/// The daemon lives at most so long after the writers have begun.
const LIFE: Duration = Duration::from_millis(300);

/// How long a request takes on a slow line, the kills there, and how long the daemon lives at most.
const DELAY: Duration = Duration::from_millis(5);
const FAR_KILLS: usize = 30;
const FAR_LIFE: Duration = Duration::from_millis(1000);

/// The mirror is checked after so many kills.
const CHECK_EVERY: usize = 10;

fn random_kills(rig: Option<Rig>, longest: Duration, kills: usize) {
    let seed = seed();
    println!("LEASEFS_SEED={seed}");
    let Some(mut rig) = rig else { return };
    let mut dice = Dice::new(seed);
    rig.start();
    let dying = Arc::new(AtomicBool::new(false));
    let mut writers = ["one", "two"].map(|name| {
        let mut writer = Writer::new(&rig.dir(), name, dice.number(), &dying);
        writer.far = true;
        writer
    });
    for round in 1..=kills {
        let life = longest.mul_f64(dice.roll(1000) as f64 / 1000.0);
        burst(&mut rig, &mut writers, life, &dying);
        rig.start();
        rig.finish_renames();
        for writer in &mut writers {
            writer.settle().unwrap_or_else(|wrong| {
                panic!("seed {seed}, kill {round}: {wrong}\nlog:\n{}", rig.log());
            });
        }
        if round % CHECK_EVERY == 0 {
            rig.stop();
            rig.check();
            rig.start();
        }
        rig.same_at_the_service(&format!("seed {seed}, kill {round}"));
    }
    rig.stop();
    rig.check();
}

#[test]
fn random_kills_of_a_remote_mount_lose_nothing_acknowledged() {
    random_kills(Rig::new(&[]), LIFE, KILLS);
}

#[test]
fn random_kills_with_write_back_lose_nothing_acknowledged() {
    random_kills(Rig::new(&["--write-back"]), LIFE, KILLS);
}

#[test]
fn random_kills_over_a_slow_line_lose_nothing_acknowledged() {
    random_kills(Rig::over_a_line(&[], DELAY), FAR_LIFE, FAR_KILLS);
}

#[test]
fn random_kills_over_a_slow_line_with_write_back_lose_nothing_acknowledged() {
    random_kills(Rig::over_a_line(&["--write-back"], DELAY), FAR_LIFE, FAR_KILLS);
}
