//! The rules of sharing: pure values and decisions.
//!
//! Nothing here does I/O, reads a clock, takes a mutex or knows errno or HTTP. Time is an argument. The engine's
//! gate is the only caller of [`FileShareState`]; stores are the only callers of [`lease`].

pub mod lease;
mod time;

pub use time::Moment;
