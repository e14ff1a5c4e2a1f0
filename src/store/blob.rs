//! What a blob is made of besides its bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::share::Moment;
use crate::share::lease::Lease;
pub use crate::wire::metadata::Metadata;

use super::tags::Tags;

/// A version tag. Every change of a blob's content, metadata or properties gives it a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ETag(pub u64);

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"0x{:X}\"", self.0)
    }
}

/// The HTTP headers stored with a blob and returned with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpHeaders {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
}

/// The three kinds of blobs. A blob keeps its kind for as long as it lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlobKind {
    /// Written as a whole or from staged blocks.
    #[default]
    Block,
    /// Grows at its end.
    Append,
    /// Has a fixed size and is written in pages of 512 bytes.
    Page,
}

/// How soon a block blob's content is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessTier {
    /// At once.
    Hot,
    /// At once, seldom.
    Cool,
    /// At once, very seldom.
    Cold,
    /// Not before it was brought back to another tier.
    Archive,
}

/// The tier that was set on a blob. A blob without one is in the account's tier, hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobTier {
    /// Which.
    pub tier: AccessTier,
    /// When it was last changed; absent if it was given when the blob was made.
    pub changed: Option<Moment>,
}

/// How the content came here, if it was copied. A copy is complete when it is answered, so there is no state
/// besides success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyState {
    /// The copy's id.
    pub id: String,
    /// Where from, as the client gave it.
    pub source: String,
    /// How many bytes.
    pub bytes: u64,
    /// When it was done.
    pub completed: Moment,
}

/// Everything about one version of a blob except its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobProperties {
    /// A number no other blob has, kept through changes and renames for as long as the blob lives. A blob `d` and
    /// the prefix `d/` share one number.
    pub id: u64,
    /// Version tag.
    pub etag: ETag,
    /// Which kind of blob it is.
    pub kind: BlobKind,
    /// Content length in bytes.
    pub size: u64,
    /// When the blob was first created.
    pub created: Moment,
    /// When this version was made.
    pub modified: Moment,
    /// User metadata.
    pub metadata: Metadata,
    /// Stored HTTP headers.
    pub headers: HttpHeaders,
    /// MD5 of the content, where it was computed or given.
    pub content_md5: Option<[u8; 16]>,
    /// The lease as stored; its effective state depends on the time.
    pub lease: Lease,
    /// The tier, if one was set.
    pub tier: Option<BlobTier>,
    /// The tags it can be found by.
    pub tags: Tags,
    /// The copy that made the content, if one did.
    pub copy: Option<Box<CopyState>>,
    /// Page blobs: the sequence number.
    pub sequence_number: u64,
    /// Append blobs: how many blocks were appended.
    pub appended_blocks: u32,
    /// Append blobs: nothing can be appended any more.
    pub sealed: bool,
}
