//! The Files service over real sockets: what each family of operations answers, bad input, authorization, and beside a
//! mount.
//!
//! The whole surface is driven by the official SDK (`tests/sdk`), every cell of the conflict tables by
//! `tests/files_matrix.rs`.

// A test that cannot go on stops.
#![allow(unreachable_pub, clippy::unwrap_used)]

#[allow(dead_code)] // Other tests use the rest.
mod common;
#[path = "common/ports.rs"]
mod ports;

#[path = "files_service/access.rs"]
mod access;
#[path = "files_service/accounts.rs"]
mod accounts;
#[path = "files_service/bad_input.rs"]
mod bad_input;
#[path = "files_service/files.rs"]
mod files;
#[allow(dead_code)] // The blob service's tests use the rest.
#[path = "blob_service/rig.rs"]
mod http_rig;
#[path = "files_service/mounted.rs"]
mod mounted;
#[path = "files_service/rig.rs"]
mod rig;
#[path = "files_service/shares.rs"]
mod shares;
