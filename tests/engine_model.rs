//! The engine against a naive in-memory tree: seeded random operations from several owners, compared after every
//! step, with the process "dying" in between. A failing seed is a bug report: run it again with
//! `LEASEFS_SEED=n cargo test --test engine_model`.
//!
//! With a share elsewhere the engine works on a mirror of a service, and the same must hold: of one in this process, and of
//! one over HTTP, which is `leasefs serve` or what `LEASEFS_MODEL_URL` says (`http://HOST:PORT/ACCOUNT`, an emulator's).
//!
//! The test plays the kernel: where an open is routed to the kernel, it reads and writes the file itself.

#![allow(unreachable_pub, clippy::unwrap_used, dead_code)] // Helper modules, also of other tests.

#[path = "engine_model/driver.rs"]
mod driver;
#[path = "engine_model/model.rs"]
mod model;
#[path = "common/server.rs"]
mod server;

use std::sync::Arc;

use driver::{Blobs, World};
use leasefs::fs::DeleteRule;
use leasefs::store::BlobStore;
use leasefs::store::embedded::{EmbeddedOptions, EmbeddedStore};

const SEEDS: u64 = 6;
/// Over HTTP everything takes longer.
const SEEDS_OVER_HTTP: u64 = 2;
const STEPS: usize = 300;

fn run(delete: DeleteRule, passthrough: bool) {
    run_on(SEEDS, delete, passthrough, || Blobs::Here);
}

/// With a mirror of a service in this process.
fn run_mirror(delete: DeleteRule, passthrough: bool) {
    let folder = tempfile::tempdir().unwrap();
    let service = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    run_on(SEEDS, delete, passthrough, || Blobs::Elsewhere(Arc::clone(&service) as Arc<dyn BlobStore>));
}

/// With a mirror of a service that is asked over HTTP.
fn run_over_http(delete: DeleteRule, passthrough: bool) {
    let given = std::env::var("LEASEFS_MODEL_URL").ok();
    let own = given.is_none().then(server::Server::start);
    let url = own.as_ref().map(server::Server::account_url).or(given).unwrap();
    run_on(SEEDS_OVER_HTTP, delete, passthrough, || Blobs::Elsewhere(Arc::new(server::client_at(&url))));
}

fn run_on(count: u64, delete: DeleteRule, passthrough: bool, blobs: impl Fn() -> Blobs) {
    let seeds: Vec<u64> = match std::env::var("LEASEFS_SEED") {
        Ok(seed) => vec![seed.parse().expect("LEASEFS_SEED is a number")],
        Err(_) => (1..=count).collect(),
    };
    for seed in seeds {
        println!("seed {seed}, {delete:?}, passthrough {passthrough}");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed, delete, passthrough, blobs()).await;
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
    run_mirror(DeleteRule::Smb, true);
}

#[test]
fn a_mirror_with_smb_delete_through_the_engine() {
    run_mirror(DeleteRule::Smb, false);
}

#[test]
fn a_mirror_with_posix_delete_through_the_kernel() {
    run_mirror(DeleteRule::Posix, true);
}

#[test]
fn over_http_with_smb_delete_through_the_kernel() {
    run_over_http(DeleteRule::Smb, true);
}

#[test]
fn over_http_with_posix_delete_through_the_engine() {
    run_over_http(DeleteRule::Posix, false);
}
