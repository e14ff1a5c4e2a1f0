//! The query of a request: decoded pairs in order, and their percent encoding.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::codes::ErrorCode;
use super::fault::{Fault, Result};

/// Everything that RFC 3986 does not call unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same, but a path keeps its slashes.
const PATH: &AsciiSet = &RESERVED.remove(b'/');

/// The most parameters a query may have.
pub const MAX_PARAMETERS: usize = 100;

/// A query as decoded pairs, in the order of the URL. Names are compared without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what follows the `?` of a URL. `+` is a plus, as the service has it.
    pub fn parse(raw: &str) -> Result<Self> {
        let mut pairs = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == MAX_PARAMETERS {
                return Err(Fault::new(ErrorCode::InvalidUri));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Ok(Self(pairs))
    }

    /// The value of the first parameter of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The same; an empty value counts as absent.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// All pairs in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The text behind a percent encoding.
pub fn decode(text: &str) -> Result<String> {
    percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Fault::new(ErrorCode::InvalidUri))
}

/// A value for a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A blob name for a path: slashes stay.
pub fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_no_case_and_values_are_decoded() {
        let query = Query::parse("ResType=container&comp=list&prefix=a%2Fb+c&flag&&empty=").unwrap();
        assert_eq!(query.get("restype"), Some("container"));
        assert_eq!(query.get("prefix"), Some("a/b+c"));
        assert_eq!(
            (query.get("flag"), query.get("empty"), query.filled("empty")),
            (Some(""), Some(""), None)
        );
        assert_eq!(query.get("marker"), None);
        assert_eq!(Query::parse("a=%ff").unwrap_err().code, ErrorCode::InvalidUri);
        assert!(Query::parse(&"a&".repeat(MAX_PARAMETERS + 1)).is_err());
    }

    proptest! {
        #[test]
        fn queries_come_back(value in ".{0,40}") {
            let query = Query::parse(&format!("a={}", encode(&value))).unwrap();
            prop_assert_eq!(query.get("a"), Some(value.as_str()));
        }

        #[test]
        fn any_query_is_read_or_refused(raw in ".{0,60}") {
            let _ = Query::parse(&raw);
        }
    }
}
