//! Blobs: what a blob store promises, and the stores that keep the promise.
//!
//! [`BlobStore`] is the contract, written after the Azure Blob service: containers, blobs with metadata and ETags,
//! conditional requests, staged blocks, snapshots and leases. [`LocalStore`] is what a store on this machine can do
//! on top of it: hand out its content as local files and rename atomically.
//!
//! A store knows names and bytes. It must never know files, directories, programs or errno.

mod api;
mod blob;
pub mod conditions;
mod crash;
pub mod embedded;
mod error;
mod local;
mod names;
pub mod sparse;

pub use api::{
    BlobDownload, BlobPage, BlobStore, BlockId, BlockKind, BlockListEntry, BlockReport, ByteRange,
    ContainerProperties, DeleteSnapshots, LeaseReport, LeaseRequest, ListItem, ListQuery, SnapshotId,
};
pub use blob::{BlobProperties, ETag, HttpHeaders, Metadata};
pub use conditions::{EtagMatch, Preconditions};
pub use crash::crash_point;
pub use error::{Result, StoreError};
pub use local::{
    ContentReader, Exposure, Found, LocalStore, NewContent, Piece, Pin, Progress, RenameMode, Scratch,
    ScratchHome, Space,
};
pub use names::{BlobName, BlobPath, ContainerName, NameError};
