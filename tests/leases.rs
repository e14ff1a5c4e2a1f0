//! Leases, fenced commits and conflict copies: an engine and a writer that goes past it, on one store.
//!
//! The store's clock is the runtime's, which is paused: hours pass in no time, and nothing depends on how fast the
//! machine is.

#![allow(unreachable_pub, clippy::unwrap_used)] // Helper modules of one test.

#[path = "leases/closing.rs"]
mod closing;
#[path = "leases/conflicts.rs"]
mod conflicts;
#[path = "leases/holding.rs"]
mod holding;
#[path = "leases/passthrough.rs"]
mod passthrough;
#[path = "leases/rig.rs"]
mod rig;
#[path = "leases/shapes.rs"]
mod shapes;
#[path = "leases/taking_over.rs"]
mod taking_over;
