//! The rules of sharing: pure values and decisions.
//!
//! Nothing here does I/O, reads a clock, takes a mutex or knows errno or HTTP. Time is an argument. The engine's
//! gate is the only caller of [`FileShareState`]; stores are the only callers of [`lease`].

mod access;
pub mod lease;
mod opens;
mod state;
mod time;

pub use access::{Access, InvalidClasses, ShareMode};
pub use opens::{OpenClaim, OpenId, conflict};
pub use state::{Closed, DecodeError, FileShareState, Refusal};
pub use time::Moment;
