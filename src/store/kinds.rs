//! Requests that only append blobs or only page blobs know, and their answers.

use std::ops::Range;
use std::sync::Arc;

use super::blob::BlobProperties;

/// Pages are this long, and everything about page blobs is a multiple of it.
pub const PAGE_BYTES: u64 = 512;

/// Conditions that only appends know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendConditions {
    /// Only if the blob ends here.
    pub position: Option<u64>,
    /// Only if the blob is not longer than this afterwards.
    pub max_size: Option<u64>,
}

/// The answer to an append.
#[derive(Clone, Debug)]
pub struct Appended {
    /// Where the new bytes begin.
    pub offset: u64,
    /// The blob as it is now.
    pub properties: Arc<BlobProperties>,
}

/// Conditions that only page writes know; all that are given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceConditions {
    /// The sequence number is at most this.
    pub at_most: Option<u64>,
    /// The sequence number is below this.
    pub below: Option<u64>,
    /// The sequence number is this.
    pub equal: Option<u64>,
}

/// What to do with a page blob's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceUpdate {
    /// The greater of the stored and the given one.
    Max(u64),
    /// The given one.
    Update(u64),
    /// One more.
    Increment,
}

/// One stretch of a page blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The bytes, in whole pages.
    pub range: Range<u64>,
    /// In a difference: cleared since, instead of written.
    pub cleared: bool,
}

/// The answer to a question for page ranges.
#[derive(Clone, Debug)]
pub struct PageRanges {
    /// The blob or snapshot asked about.
    pub properties: Arc<BlobProperties>,
    /// Its stretches in order.
    pub ranges: Vec<PageRange>,
}
