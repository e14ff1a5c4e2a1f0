//! leasefs mounts a share on Linux, stores every file as one blob, and enforces SMB-style sharing on it.
//!
//! # Layout
//!
//! * [`share`]: the rules. Who may open what beside whom, when a file is really gone, what a lease allows. Pure.
//! * [`store`]: blobs. The [`store::BlobStore`] contract and the embedded store that keeps it.
//! * [`fs`]: the engine. Turns blobs into files and directories; asks the rules before every open and remove.
//! * [`fuse`]: the kernel's front end. Translates requests and errors, decides nothing.
//! * [`rest`]: the HTTP front ends. The Blob protocol over a store; translates and decides nothing, too.
//! * [`wire`]: what client and server of the Blob protocol say to each other, as pure text.
//! * [`cli`]: arguments, the life of a mount, what a person sees.
//!
//! Dependencies point downwards only: `cli → {fuse, rest} → fs → {share, store}` and `store → {share, wire}`. A test
//! (`tests/tidy.rs`) reads the sources and holds that direction.

pub mod cli;
pub mod fs;
pub mod fuse;
pub mod rest;
pub mod share;
pub mod store;
pub mod wire;
