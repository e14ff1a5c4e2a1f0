//! The blob service over real sockets: framing, limits, authorization, crowds, its life and end, and beside a mount.
//!
//! What the operations answer to a well-behaved client is tested with the official SDK (`tests/sdk`).

// A test that cannot go on stops.
#![allow(unreachable_pub, clippy::unwrap_used)]

#[allow(dead_code)] // Other tests use the rest.
mod common;
#[path = "common/ports.rs"]
mod ports;

#[path = "blob_service/access.rs"]
mod access;
#[path = "blob_service/accounts.rs"]
mod accounts;
#[path = "blob_service/crowd.rs"]
mod crowd;
#[path = "blob_service/framing.rs"]
mod framing;
#[path = "blob_service/fuzz.rs"]
mod fuzz;
#[path = "blob_service/hammer.rs"]
mod hammer;
#[path = "blob_service/life.rs"]
mod life;
#[path = "blob_service/limits.rs"]
mod limits;
#[path = "blob_service/mounted.rs"]
mod mounted;
#[path = "blob_service/operations.rs"]
mod operations;
#[path = "blob_service/rig.rs"]
mod rig;
#[path = "blob_service/strategies.rs"]
mod strategies;
#[path = "blob_service/tls.rs"]
mod tls;
