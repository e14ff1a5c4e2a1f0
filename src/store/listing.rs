//! What is asked of a listing, and what it answers.

use std::sync::Arc;

use crate::share::Moment;
use crate::share::lease::Lease;

use super::api::SnapshotId;
use super::blob::BlobProperties;
use super::names::ContainerName;
use super::tags::Tags;

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only names that start with this.
    pub prefix: String,
    /// Fold names that contain this behind the prefix.
    pub delimiter: Option<String>,
    /// Only names at or behind this one. A name, or what an earlier page gave as `next`, which may hold a NUL.
    pub marker: Option<String>,
    /// At most so many items.
    pub max: usize,
    /// Snapshots too, oldest first, each before its blob. Not together with a delimiter.
    pub snapshots: bool,
    /// Names that have staged blocks and no blob too.
    pub uncommitted: bool,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// A blob.
    Blob {
        /// Its full name.
        name: String,
        /// Its properties.
        properties: Arc<BlobProperties>,
    },
    /// A snapshot of a blob.
    Snapshot {
        /// The blob's full name.
        name: String,
        /// Which snapshot.
        snapshot: SnapshotId,
        /// Properties of the snapshot.
        properties: Arc<BlobProperties>,
    },
    /// A name with staged blocks and nothing else.
    Uncommitted {
        /// The full name.
        name: String,
        /// When a block was last staged.
        touched: Moment,
        /// The lease on the name.
        lease: Lease,
    },
    /// Names folded at the delimiter; `name` ends with it.
    Prefix {
        /// The folded prefix.
        name: String,
        /// The number the prefix shares with the blob of the same name without the delimiter; 0 if the delimiter
        /// is not `/`.
        id: u64,
    },
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPage {
    /// The items in order.
    pub items: Vec<ListItem>,
    /// Where to go on, if there is more.
    pub next: Option<String>,
}

/// A blob found by its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedBlob {
    /// Its container.
    pub container: ContainerName,
    /// Its name.
    pub name: String,
    /// All its tags.
    pub tags: Tags,
}

/// One page of blobs found by tags. May be empty although there is more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedPage {
    /// By container, then by name.
    pub blobs: Vec<TaggedBlob>,
    /// Where to go on, if there may be more. Opaque; may hold a NUL.
    pub next: Option<String>,
}
