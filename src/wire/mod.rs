//! What client and server say to each other: header names, error codes, dates, conditions, signatures, XML.
//!
//! Every rule of the Azure Blob (and Files) protocol that is about text is here, once, for both directions: the
//! server parses what the client writes. Values come out in the words of [`crate::share`] where it has them
//! ([`Moment`](crate::share::Moment), [`LeaseId`](crate::share::lease::LeaseId)), else in types of this module.
//!
//! Pure: bytes in, values or a [`Fault`] out. It must never open a socket, read a clock, know a store, or panic
//! whatever the bytes are.

pub mod checksum;
pub mod codes;
pub mod conditions;
pub mod date;
pub mod etag;
mod fault;
#[cfg(test)]
mod fuzz;
pub mod headers;
pub mod lease;
pub mod metadata;
pub mod permission;
pub mod query;
pub mod range;
pub mod signing;
pub mod smb;
pub mod tags;
pub mod version;
pub mod xml;

pub use codes::ErrorCode;
pub use fault::{Fault, Result};
