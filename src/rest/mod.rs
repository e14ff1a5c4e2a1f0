//! HTTP front ends: they parse a request, make one call below, and turn the answer into a response.
//!
//! * [`server`]: sockets, TLS, limits, the life of a connection. Knows HTTP, not the protocols spoken over it.
//! * [`blobs`]: the Azure Blob protocol over a [`BlobStore`](crate::store::BlobStore).
//! * [`files`]: the Azure Files protocol over the engine, beside a mount.
//! * `access`, `face`, `failure`, `reply`, `cors`, `leases`, `neighbours`, `page`, `url`, `sources`: what both services
//!   share.
//!
//! Nothing here judges conditions, leases or share modes: the store and the engine do.

mod access;
pub mod auth;
pub mod blobs;
mod cors;
mod face;
mod failure;
pub mod files;
mod leases;
mod neighbours;
mod page;
mod reply;
pub mod server;
mod sources;
mod url;
