//! What a blob is made of besides its bytes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::share::Moment;
use crate::share::lease::Lease;

/// A version tag. Every change of a blob's content, metadata or properties gives it a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ETag(pub u64);

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"0x{:X}\"", self.0)
    }
}

/// User metadata: names are kept as given and compared byte for byte.
pub type Metadata = BTreeMap<String, String>;

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

/// Everything about one version of a blob except its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobProperties {
    /// A number no other blob has, kept through changes and renames for as long as the blob lives. A blob `d` and
    /// the prefix `d/` share one number.
    pub id: u64,
    /// Version tag.
    pub etag: ETag,
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
}
