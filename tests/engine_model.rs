//! The engine against a naive in-memory tree: seeded random operations from several owners, compared after every
//! step, with the process "dying" in between. A failing seed is a bug report: run it again with
//! `LEASEFS_SEED=n cargo test --test engine_model`.
//!
//! With a share elsewhere the engine works on a mirror of a service in this process, and the same must hold.
//!
//! The test plays the kernel: where an open is routed to the kernel, it reads and writes the file itself.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[path = "engine_model/driver.rs"]
mod driver;
#[path = "engine_model/model.rs"]
mod model;

use driver::World;
use leasefs::fs::DeleteRule;

const SEEDS: u64 = 6;
const STEPS: usize = 300;

fn run(delete: DeleteRule, passthrough: bool) {
    run_on(delete, passthrough, false);
}

fn run_on(delete: DeleteRule, passthrough: bool, elsewhere: bool) {
    let seeds: Vec<u64> = match std::env::var("LEASEFS_SEED") {
        Ok(seed) => vec![seed.parse().expect("LEASEFS_SEED is a number")],
        Err(_) => (1..=SEEDS).collect(),
    };
    for seed in seeds {
        println!("seed {seed}, {delete:?}, passthrough {passthrough}, elsewhere {elsewhere}");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed, delete, passthrough, elsewhere).await;
            for step in 0..STEPS {
                world.step(step).await;
            }
            world.finish().await;
        });
    }
}

#[test]
fn smb_delete_through_the_kernel() {
    run(DeleteRule::Smb, true);
}

#[test]
fn smb_delete_through_the_engine() {
    run(DeleteRule::Smb, false);
}

#[test]
fn posix_delete_through_the_kernel() {
    run(DeleteRule::Posix, true);
}

#[test]
fn posix_delete_through_the_engine() {
    run(DeleteRule::Posix, false);
}

#[test]
fn a_mirror_with_smb_delete_through_the_kernel() {
    run_on(DeleteRule::Smb, true, true);
}

#[test]
fn a_mirror_with_smb_delete_through_the_engine() {
    run_on(DeleteRule::Smb, false, true);
}

#[test]
fn a_mirror_with_posix_delete_through_the_kernel() {
    run_on(DeleteRule::Posix, true, true);
}
