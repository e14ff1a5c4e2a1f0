//! A mirror of blobs that are elsewhere, against a real service in this process, over HTTP.
//!
//! The tests do what an engine does: they announce a change, make it in the mirror's store, and push it. The service
//! counts what it is asked, and answers some requests badly on demand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mirror/crashes.rs"]
mod crashes;
#[path = "mirror/early.rs"]
mod early;
#[path = "mirror/exchanges.rs"]
mod exchanges;
#[path = "mirror/faults.rs"]
mod faults;
#[path = "mirror/later.rs"]
mod later;
#[path = "mirror/names.rs"]
mod names;
#[path = "mirror/pushes.rs"]
mod pushes;
#[path = "mirror/renames.rs"]
mod renames;
#[path = "mirror/rig.rs"]
mod rig;
