//! What a container is made of besides its blobs.

use serde::{Deserialize, Serialize};

use crate::share::Moment;
use crate::share::lease::Lease;

use super::blob::{ETag, Metadata};
use super::names::ContainerName;

/// Stored access policies a container has at most.
pub const POLICIES_MAX: usize = 5;

/// What anybody may do with a container without being asked who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublicAccess {
    /// Nothing.
    #[default]
    None,
    /// Read blobs whose names they know.
    Blob,
    /// Read and list blobs.
    Container,
}

/// A stored access policy. The store keeps the texts; whoever judges a signature reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// Its name, unique in the container.
    pub id: String,
    /// From when it counts.
    pub start: Option<String>,
    /// Until when.
    pub expiry: Option<String>,
    /// What it allows.
    pub permissions: Option<String>,
}

/// Who may use a container: what the service calls its ACL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerAcl {
    /// For anybody.
    pub access: PublicAccess,
    /// For signatures that name a policy; at most [`POLICIES_MAX`].
    pub policies: Vec<StoredPolicy>,
}

/// Properties of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProperties {
    /// Its name.
    pub name: ContainerName,
    /// The number of its root, as prefixes have one.
    pub id: u64,
    /// Version tag; changes with the container's own metadata, not with its blobs.
    pub etag: ETag,
    /// When the container itself was last changed.
    pub modified: Moment,
    /// User metadata.
    pub metadata: Metadata,
    /// Who may use it.
    pub acl: ContainerAcl,
    /// The lease as stored.
    pub lease: Lease,
}
