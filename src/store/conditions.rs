//! Conditions of a request, and the only judge of them for local data.

use crate::share::Moment;
use crate::share::lease::LeaseId;

use super::blob::ETag;

/// The conditions a request carries. Empty means unconditional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Only if the ETag is one of these.
    pub if_match: Option<EtagMatch>,
    /// Only if the ETag is none of these.
    pub if_none_match: Option<EtagMatch>,
    /// Only if changed since.
    pub if_modified_since: Option<Moment>,
    /// Only if not changed since.
    pub if_unmodified_since: Option<Moment>,
    /// The lease the caller holds.
    pub lease: Option<LeaseId>,
}

/// What an ETag is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: any version, that is, the blob exists.
    Any,
    /// One of these versions.
    List(Vec<ETag>),
}
