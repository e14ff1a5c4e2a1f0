//! The contract: one test for each promise in `docs/SEMANTICS.md`, through real mounts, on both data paths.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

mod common;

#[path = "semantics/content.rs"]
mod content;
#[path = "semantics/deletes.rs"]
mod deletes;
#[path = "common/disk.rs"]
mod disk;
#[path = "semantics/durability.rs"]
mod durability;
#[path = "semantics/joining.rs"]
mod joining;
#[path = "semantics/names.rs"]
mod names;
#[path = "semantics/power.rs"]
mod power;
#[path = "semantics/set_id.rs"]
mod set_id;
