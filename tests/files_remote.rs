//! The Files protocol in front of a share that is elsewhere: a `leasefs serve` process is the service, and calls by path
//! come to an engine on a mirror of it, or through `leasefs mount URL DIR --files-addr`.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[allow(dead_code)] // Other tests use the rest.
#[path = "files/client.rs"]
mod client;
#[allow(dead_code)] // Other tests use the rest.
#[path = "remote/machine.rs"]
mod machine;
#[path = "files_remote/world.rs"]
mod world;

#[path = "files_remote/engine.rs"]
mod engine;
#[path = "files_remote/leases.rs"]
mod leases;
#[path = "files_remote/mounted.rs"]
mod mounted;
