//! Share modes and range locks through real mounts, with several processes, on both data paths.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[allow(dead_code)] // Other tests use more of it.
mod common;

#[path = "locks/children.rs"]
mod children;
#[path = "locks/loops.rs"]
mod loops;
#[path = "locks/policies.rs"]
mod policies;
#[path = "locks/range_locks.rs"]
mod range_locks;
#[path = "locks/sharing.rs"]
mod sharing;
