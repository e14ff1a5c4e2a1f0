//! Calls by path and programs on a mount, on one engine: every verb against every share mode, delete pending, range
//! locks, leases and attributes. No kernel and no protocol here; both have tests of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "files_engine/basics.rs"]
mod basics;
#[path = "files_engine/conflicts.rs"]
mod conflicts;
#[path = "files_engine/shares.rs"]
mod shares;
#[path = "files_engine/speed.rs"]
mod speed;
#[path = "files_engine/world.rs"]
mod world;
