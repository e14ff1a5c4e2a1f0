//! The rules of sharing: pure values and decisions.
//!
//! Nothing here does I/O, reads a clock, takes a mutex or knows errno or HTTP. Time is an argument. The engine's
//! gate is the only caller of [`FileShareState`]; stores are the only callers of [`lease`].

mod access;
pub mod lease;
mod opens;
mod ranges;
mod spans;
mod state;
mod time;
mod waits;

pub use access::{Access, InvalidClasses, ShareMode};
pub use opens::{OpenClaim, OpenId, conflict};
pub use ranges::{RangeKind, RangeLock, RangeLocks, RangeOwner};
pub use spans::{InvalidSpan, Span};
pub use state::{Closed, DecodeError, FileShareState, RangeRefusal, Refusal};
pub use time::Moment;
pub use waits::{WaitGraph, WaitId};
