//! Conditions of a request as headers.

use super::client::Call;
use crate::share::Moment;
use crate::share::lease::LeaseId;
use crate::store::{AppendConditions, EtagMatch, Preconditions, Result, SequenceConditions, StoreError};
use crate::wire::{date, headers};

impl Call {
    /// With these conditions on what the request is about.
    pub(super) fn conditions(self, conditions: &Preconditions) -> Result<Self> {
        let Preconditions { if_match, if_none_match, if_modified_since, if_unmodified_since, lease, if_tags } =
            conditions;
        self.maybe_header(headers::IF_MATCH, etags(if_match.as_ref()))?
            .maybe_header(headers::IF_NONE_MATCH, etags(if_none_match.as_ref()))?
            .dates(*if_modified_since, *if_unmodified_since)?
            .maybe_header(headers::IF_TAGS, if_tags.as_ref().map(ToString::to_string))?
            .lease(*lease)
    }

    /// Of the conditions only the lease and the tags, for operations that know no others.
    pub(super) fn lease_and_tags(self, conditions: &Preconditions) -> Result<Self> {
        self.maybe_header(headers::IF_TAGS, conditions.if_tags.as_ref().map(ToString::to_string))?
            .lease(conditions.lease)
    }

    /// Of the conditions only the lease and the dates, which is all that containers know. One on an ETag is refused
    /// here, because the service would ignore it.
    pub(super) fn container_conditions(self, conditions: &Preconditions) -> Result<Self> {
        if conditions.if_match.is_some() || conditions.if_none_match.is_some() {
            return Err(StoreError::ConditionsNotSupported);
        }
        self.dates(conditions.if_modified_since, conditions.if_unmodified_since)?.lease(conditions.lease)
    }

    fn dates(self, modified: Option<Moment>, unmodified: Option<Moment>) -> Result<Self> {
        self.maybe_header(headers::IF_MODIFIED_SINCE, modified.map(date::http))?
            .maybe_header(headers::IF_UNMODIFIED_SINCE, unmodified.map(date::http))
    }

    /// With the lease the caller holds.
    pub(super) fn lease(self, lease: Option<LeaseId>) -> Result<Self> {
        self.maybe_header(headers::LEASE_ID, lease.map(|id| id.to_string()))
    }

    /// With conditions on the source of a copy.
    pub(super) fn source_conditions(self, conditions: &Preconditions) -> Result<Self> {
        let tags = conditions.if_tags.as_ref().map(ToString::to_string);
        self.maybe_header(headers::SOURCE_IF_MATCH, etags(conditions.if_match.as_ref()))?
            .maybe_header(headers::SOURCE_IF_NONE_MATCH, etags(conditions.if_none_match.as_ref()))?
            .maybe_header(headers::SOURCE_IF_MODIFIED_SINCE, conditions.if_modified_since.map(date::http))?
            .maybe_header(
                headers::SOURCE_IF_UNMODIFIED_SINCE,
                conditions.if_unmodified_since.map(date::http),
            )?
            .maybe_header(headers::SOURCE_IF_TAGS, tags)
    }

    /// With conditions that only appends know.
    pub(super) fn append_conditions(self, conditions: AppendConditions) -> Result<Self> {
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        self.maybe_header(headers::BLOB_CONDITION_APPENDPOS, text(conditions.position))?
            .maybe_header(headers::BLOB_CONDITION_MAXSIZE, text(conditions.max_size))
    }

    /// With conditions that only page writes know.
    pub(super) fn sequence_conditions(self, conditions: SequenceConditions) -> Result<Self> {
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        self.maybe_header(headers::IF_SEQUENCE_NUMBER_LE, text(conditions.at_most))?
            .maybe_header(headers::IF_SEQUENCE_NUMBER_LT, text(conditions.below))?
            .maybe_header(headers::IF_SEQUENCE_NUMBER_EQ, text(conditions.equal))
    }
}

/// Whether a write with these conditions, repeated, could be refused because of its own success.
pub(super) fn is_conditional(conditions: &Preconditions) -> bool {
    conditions.if_match.is_some()
        || conditions.if_none_match.is_some()
        || conditions.if_unmodified_since.is_some()
        || conditions.if_tags.is_some()
}

/// An empty list matches nothing and cannot be said; no version tag has the value 0.
fn etags(list: Option<&EtagMatch>) -> Option<String> {
    list.map(|list| match list {
        EtagMatch::Any => "*".to_owned(),
        EtagMatch::List(tags) if tags.is_empty() => "\"0x0\"".to_owned(),
        EtagMatch::List(tags) => tags.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    })
}
