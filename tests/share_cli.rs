//! Seeing and acting: `leasefs open`, `status`, `close-handle` and `undelete`, with real programs on real mounts.

// A test that cannot go on stops. Helper modules of several tests.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "share/acting.rs"]
mod acting;
mod common;
#[path = "share/holder.rs"]
mod holder;
#[path = "share/opening.rs"]
mod opening;
#[path = "share/rig.rs"]
mod rig;
#[path = "share/seeing.rs"]
mod seeing;
