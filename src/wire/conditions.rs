//! The conditions of a request as its headers say them. What they mean for a blob is the store's business.

use http::HeaderMap;

use crate::share::Moment;
use crate::share::lease::LeaseId;

use super::codes::ErrorCode;
use super::date;
use super::etag::EtagList;
use super::fault::{Fault, Result};
use super::headers;
use super::lease;

/// Conditions on the blob or container a request is about. Empty means unconditional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<EtagList>,
    /// `If-None-Match`.
    pub if_none_match: Option<EtagList>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<Moment>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<Moment>,
    /// `x-ms-if-tags`, as given.
    pub if_tags: Option<String>,
    /// `x-ms-lease-id`.
    pub lease: Option<LeaseId>,
}

/// Where one set of conditions stands in the headers.
struct Names {
    if_match: &'static str,
    if_none_match: &'static str,
    if_modified_since: &'static str,
    if_unmodified_since: &'static str,
    if_tags: &'static str,
    lease: &'static str,
}

const TARGET: Names = Names {
    if_match: headers::IF_MATCH,
    if_none_match: headers::IF_NONE_MATCH,
    if_modified_since: headers::IF_MODIFIED_SINCE,
    if_unmodified_since: headers::IF_UNMODIFIED_SINCE,
    if_tags: headers::IF_TAGS,
    lease: headers::LEASE_ID,
};

const SOURCE: Names = Names {
    if_match: headers::SOURCE_IF_MATCH,
    if_none_match: headers::SOURCE_IF_NONE_MATCH,
    if_modified_since: headers::SOURCE_IF_MODIFIED_SINCE,
    if_unmodified_since: headers::SOURCE_IF_UNMODIFIED_SINCE,
    if_tags: headers::SOURCE_IF_TAGS,
    lease: headers::SOURCE_LEASE_ID,
};

impl Conditions {
    /// The conditions on what the request is about, for a read.
    pub fn of_read(headers: &HeaderMap) -> Result<Self> {
        Self::read(headers, &TARGET)
    }

    /// The conditions on what the request is about, for a write or delete: one, or a pair the service knows.
    pub fn of_write(headers: &HeaderMap) -> Result<Self> {
        let conditions = Self::read(headers, &TARGET)?;
        conditions.check_pairs()?;
        Ok(conditions)
    }

    /// The conditions on the source of a copy.
    pub fn of_source(headers: &HeaderMap) -> Result<Self> {
        Self::read(headers, &SOURCE)
    }

    fn read(headers: &HeaderMap, names: &Names) -> Result<Self> {
        let etags = |name| headers::text(headers, name)?.map(|text| EtagList::parse(name, text)).transpose();
        let moment = |name| {
            headers::text(headers, name)?
                .map(|text| date::parse_http(text).ok_or_else(|| Fault::invalid_header(name, text)))
                .transpose()
        };
        Ok(Self {
            if_match: etags(names.if_match)?,
            if_none_match: etags(names.if_none_match)?,
            if_modified_since: moment(names.if_modified_since)?,
            if_unmodified_since: moment(names.if_unmodified_since)?,
            if_tags: headers::text(headers, names.if_tags)?.map(str::to_owned),
            lease: lease::id_header(headers, names.lease)?,
        })
    }

    /// A write takes one condition, or If-Match with If-Unmodified-Since, or If-None-Match with
    /// If-Modified-Since; and one ETag.
    fn check_pairs(&self) -> Result<()> {
        let single = |list: &Option<EtagList>| list.as_ref().is_none_or(EtagList::is_single);
        let matching = self.if_match.is_some() || self.if_unmodified_since.is_some();
        let differing = self.if_none_match.is_some() || self.if_modified_since.is_some();
        if (matching && differing) || !single(&self.if_match) || !single(&self.if_none_match) {
            return Err(Fault::new(ErrorCode::MultipleConditionHeadersNotSupported));
        }
        Ok(())
    }

    /// Whether there is any condition besides the lease.
    pub fn any(&self) -> bool {
        let Self { if_match, if_none_match, if_modified_since, if_unmodified_since, if_tags, lease: _ } =
            self;
        if_match.is_some()
            || if_none_match.is_some()
            || if_modified_since.is_some()
            || if_unmodified_since.is_some()
            || if_tags.is_some()
    }
}

/// Conditions of Append Block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendConditions {
    /// `x-ms-blob-condition-appendpos`: only if the blob is this long.
    pub position: Option<u64>,
    /// `x-ms-blob-condition-maxsize`: only if the blob will not be longer.
    pub max_size: Option<u64>,
}

impl AppendConditions {
    /// Reads both headers.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self> {
        Ok(Self {
            position: headers::number(headers, headers::BLOB_CONDITION_APPENDPOS)?,
            max_size: headers::number(headers, headers::BLOB_CONDITION_MAXSIZE)?,
        })
    }
}

/// Conditions of Put Page and Clear Page on the blob's sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceConditions {
    /// At most this.
    pub at_most: Option<u64>,
    /// Less than this.
    pub less_than: Option<u64>,
    /// Exactly this.
    pub equal: Option<u64>,
}

impl SequenceConditions {
    /// Reads the three headers.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self> {
        Ok(Self {
            at_most: headers::number(headers, headers::IF_SEQUENCE_NUMBER_LE)?,
            less_than: headers::number(headers, headers::IF_SEQUENCE_NUMBER_LT)?,
            equal: headers::number(headers, headers::IF_SEQUENCE_NUMBER_EQ)?,
        })
    }

    /// Whether `number` fulfils all of them.
    pub fn hold(self, number: u64) -> bool {
        self.at_most.is_none_or(|limit| number <= limit)
            && self.less_than.is_none_or(|limit| number < limit)
            && self.equal.is_none_or(|wanted| number == wanted)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::etag::Etag;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    const DAY: &str = "Tue, 17 Nov 2026 11:53:53 GMT";

    #[test]
    fn every_header_is_read() {
        let headers = map(&[
            ("if-match", "\"0x1\""),
            ("if-none-match", "*"),
            ("if-modified-since", DAY),
            ("if-unmodified-since", DAY),
            ("x-ms-if-tags", "\"a\" = 'b'"),
            ("x-ms-lease-id", "00000000-0000-0000-0000-00000000000a"),
            ("x-ms-source-if-match", "0x2"),
        ]);
        let read = Conditions::of_read(&headers).unwrap();
        assert_eq!(read.if_match, Some(EtagList::These(vec![Some(Etag(1))])));
        assert_eq!(read.if_none_match, Some(EtagList::Any));
        assert_eq!(read.if_modified_since, date::parse_http(DAY));
        assert!(read.if_tags.is_some() && read.any());
        assert_eq!(read.lease, Some(LeaseId(10)));
        let source = Conditions::of_source(&headers).unwrap();
        assert_eq!(source.if_match, Some(EtagList::These(vec![Some(Etag(2))])));
        assert_eq!(source.lease, None);
    }

    #[test]
    fn writes_take_one_condition_or_a_known_pair() {
        let both = |one, other| Conditions::of_write(&map(&[one, other]));
        assert!(both(("if-match", "0x1"), ("if-unmodified-since", DAY)).is_ok());
        assert!(both(("if-none-match", "0x1"), ("if-modified-since", DAY)).is_ok());
        for (one, other) in [
            (("if-match", "0x1"), ("if-none-match", "*")),
            (("if-match", "0x1"), ("if-modified-since", DAY)),
            (("if-none-match", "0x1"), ("if-unmodified-since", DAY)),
            (("if-modified-since", DAY), ("if-unmodified-since", DAY)),
            (("if-match", "0x1,0x2"), ("x-ms-lease-id", "")),
        ] {
            let code = both(one, other).unwrap_err().code;
            assert_eq!(code, ErrorCode::MultipleConditionHeadersNotSupported, "{one:?} {other:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_header_named() {
        for (name, value) in [("if-modified-since", "today"), ("x-ms-lease-id", "mine")] {
            let fault = Conditions::of_read(&map(&[(name, value)])).unwrap_err();
            assert_eq!(fault.code, ErrorCode::InvalidHeaderValue);
            assert_eq!(fault.details[0], ("HeaderName", name.to_owned()));
        }
    }

    #[test]
    fn sequence_numbers() {
        let headers = map(&[("x-ms-if-sequence-number-le", "7"), ("x-ms-if-sequence-number-lt", "7")]);
        let conditions = SequenceConditions::from_headers(&headers).unwrap();
        assert!(conditions.hold(6) && !conditions.hold(7));
        assert!(SequenceConditions::from_headers(&map(&[("x-ms-if-sequence-number-eq", "-1")])).is_err());
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_refused(value in "[ -~]{0,60}") {
            for name in ["if-match", "if-none-match", "if-modified-since", "x-ms-if-tags", "x-ms-lease-id",
                "x-ms-blob-condition-appendpos"] {
                let headers = map(&[(name, &value)]);
                let _ = (Conditions::of_write(&headers), AppendConditions::from_headers(&headers));
            }
        }
    }
}
