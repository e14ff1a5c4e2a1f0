//! Blobs: what a blob store promises, and the stores that keep the promise.
//!
//! [`BlobStore`] is the contract, written after the Azure Blob service: containers, blobs with metadata and ETags,
//! conditional requests, staged blocks, snapshots and leases. [`LocalStore`] is what a store on this machine can do
//! on top of it: hand out its content as local files and rename atomically.
//!
//! A store knows names and bytes. It must never know files, directories, programs or errno.

mod api;
pub mod azure;
mod blob;
mod body;
mod changes;
pub mod conditions;
mod container;
mod crash;
pub mod embedded;
mod error;
mod kinds;
mod listing;
mod local;
pub mod mirror;
mod names;
mod ranges;
pub mod sparse;
mod tags;
mod upstream;

pub use api::{
    BlobDownload, BlobStore, BlobStream, BlockId, BlockKind, BlockListEntry, BlockReport, ByteRange,
    CopyRequest, CopySource, DeleteSnapshots, LeaseReport, LeaseRequest, NewContent, PropertiesChange,
    SnapshotId,
};
pub use blob::{AccessTier, BlobKind, BlobProperties, BlobTier, CopyState, ETag, HttpHeaders, Metadata};
pub use body::{BlobBody, Upload};
pub use changes::{ChangeEvent, ChangeFeed, Lag};
pub use conditions::{EtagMatch, Preconditions, TagExpression};
pub use container::{ContainerAcl, ContainerProperties, POLICIES_MAX, PublicAccess, StoredPolicy};
pub use crash::crash_point;
pub use error::{Limit, Result, StoreError};
pub use kinds::{
    AppendConditions, Appended, PAGE_BYTES, PageRange, PageRanges, SequenceConditions, SequenceUpdate,
};
pub use listing::{BlobPage, ListItem, ListQuery, TaggedBlob, TaggedPage};
pub use local::{
    CONTAINER_SNAPSHOTS_MAX, Change, ContentReader, Exposure, Found, LocalStore, Piece, Pin, Progress,
    RenameMode, Scratch, ScratchHome, Space,
};
pub use names::{BlobName, BlobPath, ContainerName, NameError};
pub use tags::{TAGS_MAX, Tags};
pub use upstream::{
    Changed, Changing, Fence, Fetch, Ready, Refused, Settling, Standing, Upstream, UpstreamStatus,
};
