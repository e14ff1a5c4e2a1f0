//! Conditions of a request, and the only judge of them for local data.
//!
//! The judge is pure: it sees the conditions, the time and what they are about, and answers. The order is the
//! service's: first the lease, then the conditions. Dates count in whole seconds, as the protocol carries them.

use crate::share::Moment;
use crate::share::lease::{Lease, LeaseId, LeaseRefusal};

use super::blob::{BlobProperties, ETag};
use super::error::StoreError;
use super::tags::Tags;

mod tag_expression;
#[cfg(test)]
mod tests;

pub use tag_expression::{InvalidTagExpression, TagExpression};

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
    /// Only if the tags are like this.
    pub if_tags: Option<std::sync::Arc<TagExpression>>,
}

/// What an ETag is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: any version, that is, the blob exists.
    Any,
    /// One of these versions.
    List(Vec<ETag>),
}

impl Preconditions {
    /// Only if nothing is there yet (`If-None-Match: *`).
    pub fn if_absent() -> Self {
        Self { if_none_match: Some(EtagMatch::Any), ..Self::default() }
    }

    /// Only if the version is this one (`If-Match`).
    pub fn if_version(etag: ETag) -> Self {
        Self { if_match: Some(EtagMatch::List(vec![etag])), ..Self::default() }
    }

    /// The same conditions, with the lease the caller holds.
    #[must_use]
    pub fn with_lease(mut self, lease: LeaseId) -> Self {
        self.lease = Some(lease);
        self
    }

    /// These conditions without the lease.
    #[must_use]
    pub fn without_lease(&self) -> Self {
        Self { lease: None, ..self.clone() }
    }
}

impl EtagMatch {
    fn includes(&self, etag: ETag) -> bool {
        match self {
            EtagMatch::Any => true,
            EtagMatch::List(list) => list.contains(&etag),
        }
    }

    fn is_single(&self) -> bool {
        match self {
            EtagMatch::Any => true,
            EtagMatch::List(list) => list.len() <= 1,
        }
    }
}

/// What conditions are judged against: a version that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its version tag.
    pub etag: ETag,
    /// When it was made.
    pub modified: Moment,
    /// The lease on it.
    pub lease: Lease,
    /// Its tags.
    pub tags: Tags,
}

impl From<&BlobProperties> for Subject {
    fn from(blob: &BlobProperties) -> Self {
        Self { etag: blob.etag, modified: blob.modified, lease: blob.lease, tags: blob.tags.clone() }
    }
}

/// What a write finds under the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing.
    Missing,
    /// Staged blocks but no version yet; such a name can be leased.
    Reserved(Lease),
    /// A version.
    Present(Subject),
}

impl Presence {
    /// The lease on it.
    pub fn lease(&self) -> Lease {
        match self {
            Presence::Missing => Lease::default(),
            Presence::Reserved(lease) => *lease,
            Presence::Present(subject) => subject.lease,
        }
    }
}

/// What a write does if the blob is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Creates it: Put Blob, Put Block List, Copy.
    Create,
    /// Needs it: metadata, headers, delete.
    Change,
    /// Needs it and does not change it, so that a lease id is not required: snapshot, lease actions.
    Keep,
}

/// Why the judge said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not there.
    Missing,
    /// It is there and the request wanted it not to be.
    Exists,
    /// A condition does not hold.
    NotMet,
    /// A read wanted something newer.
    NotModified,
    /// This combination is not allowed.
    NotSupported,
    /// A read asked for "if it is not there".
    Unsatisfiable,
    /// The lease says no.
    Lease(LeaseRefusal),
}

impl Refusal {
    /// The store's error for a blob of this name.
    pub fn about(self, name: &dyn std::fmt::Display) -> StoreError {
        match self {
            Refusal::Missing => StoreError::BlobNotFound(name.to_string()),
            Refusal::Exists => StoreError::BlobExists(name.to_string()),
            Refusal::NotMet => StoreError::ConditionNotMet,
            Refusal::NotModified => StoreError::NotModified,
            Refusal::NotSupported => StoreError::ConditionsNotSupported,
            Refusal::Unsatisfiable => StoreError::UnsatisfiableCondition,
            Refusal::Lease(refusal) => StoreError::Lease(refusal),
        }
    }
}

/// Judges a read: any combination, all must hold, but of "none match" and "modified since" one is enough.
pub fn judge_read(conditions: &Preconditions, now: Moment, subject: Option<&Subject>) -> Result<(), Refusal> {
    if conditions.if_none_match == Some(EtagMatch::Any) {
        return Err(Refusal::Unsatisfiable);
    }
    let subject = subject.ok_or(Refusal::Missing)?;
    subject.lease.check_read(now, conditions.lease).map_err(Refusal::Lease)?;
    judge_tags(conditions, &subject.tags)?;
    let matches = conditions.if_match.as_ref().is_none_or(|list| list.includes(subject.etag));
    let unmodified = conditions.if_unmodified_since.is_none_or(|date| !changed_since(subject, date));
    if !matches || !unmodified {
        return Err(Refusal::NotMet);
    }
    let none_match = conditions.if_none_match.as_ref().map(|list| !list.includes(subject.etag));
    let modified = conditions.if_modified_since.map(|date| changed_since(subject, date));
    match (none_match, modified) {
        (None, None) => Ok(()),
        (one, other) if one == Some(true) || other == Some(true) => Ok(()),
        _ => Err(Refusal::NotModified),
    }
}

/// Judges a write or delete: one condition, or one of the two pairs the service knows.
pub fn judge_write(
    conditions: &Preconditions,
    now: Moment,
    kind: WriteKind,
    found: &Presence,
) -> Result<(), Refusal> {
    let condition = write_condition(conditions)?;
    let lease = match (found, kind) {
        (Presence::Present(subject), _) => subject.lease,
        (Presence::Reserved(lease), WriteKind::Create | WriteKind::Keep) => *lease,
        (Presence::Missing, WriteKind::Create) => Lease::default(),
        (Presence::Reserved(_), WriteKind::Change) => return Err(Refusal::Missing),
        (Presence::Missing, WriteKind::Change | WriteKind::Keep) => return Err(Refusal::Missing),
    };
    match kind {
        WriteKind::Create | WriteKind::Change => lease.check_write(now, conditions.lease),
        WriteKind::Keep => lease.check_read(now, conditions.lease),
    }
    .map_err(Refusal::Lease)?;
    match found {
        Presence::Present(subject) => {
            judge_tags(conditions, &subject.tags)?;
            judge_present(condition, kind, subject)
        }
        Presence::Missing | Presence::Reserved(_) if conditions.if_tags.is_some() => Err(Refusal::NotMet),
        Presence::Missing | Presence::Reserved(_) => match condition {
            WriteCondition::Match(_) => Err(Refusal::NotMet),
            WriteCondition::None
            | WriteCondition::NoneMatch(_)
            | WriteCondition::ModifiedSince(_)
            | WriteCondition::UnmodifiedSince(_) => Ok(()),
        },
    }
}

fn judge_present(condition: WriteCondition<'_>, kind: WriteKind, subject: &Subject) -> Result<(), Refusal> {
    match condition {
        WriteCondition::None => Ok(()),
        WriteCondition::Match(list) => met(list.includes(subject.etag)),
        // On anything but a create the service ignores the star.
        WriteCondition::NoneMatch(EtagMatch::Any) => match kind {
            WriteKind::Create => Err(Refusal::Exists),
            WriteKind::Change | WriteKind::Keep => Ok(()),
        },
        WriteCondition::NoneMatch(list) => met(!list.includes(subject.etag)),
        WriteCondition::ModifiedSince(date) => met(changed_since(subject, date)),
        WriteCondition::UnmodifiedSince(date) => met(!changed_since(subject, date)),
    }
}

/// The one condition of a write that counts.
#[derive(Clone, Copy)]
enum WriteCondition<'a> {
    None,
    Match(&'a EtagMatch),
    NoneMatch(&'a EtagMatch),
    ModifiedSince(Moment),
    UnmodifiedSince(Moment),
}

/// Of the two allowed pairs, the date is ignored; everything else together is refused.
fn write_condition(conditions: &Preconditions) -> Result<WriteCondition<'_>, Refusal> {
    let Preconditions {
        if_match,
        if_none_match,
        if_modified_since,
        if_unmodified_since,
        lease: _,
        if_tags: _,
    } = conditions;
    let single = |list: &EtagMatch| list.is_single();
    if !if_match.as_ref().is_none_or(single) || !if_none_match.as_ref().is_none_or(single) {
        return Err(Refusal::NotSupported);
    }
    match (if_match, if_none_match, if_modified_since, if_unmodified_since) {
        (None, None, None, None) => Ok(WriteCondition::None),
        (Some(list), None, None, _) => Ok(WriteCondition::Match(list)),
        (None, Some(list), _, None) => Ok(WriteCondition::NoneMatch(list)),
        (None, None, Some(date), None) => Ok(WriteCondition::ModifiedSince(*date)),
        (None, None, None, Some(date)) => Ok(WriteCondition::UnmodifiedSince(*date)),
        _ => Err(Refusal::NotSupported),
    }
}

/// Conditions on tags do not know containers.
fn judge_tags(conditions: &Preconditions, tags: &Tags) -> Result<(), Refusal> {
    met(conditions.if_tags.as_ref().is_none_or(|expression| expression.holds("", tags)))
}

fn met(holds: bool) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::NotMet) }
}

fn changed_since(subject: &Subject, date: Moment) -> bool {
    const SECOND: i64 = 1_000_000_000;
    subject.modified.0.div_euclid(SECOND) > date.0.div_euclid(SECOND)
}
