//! `Range` and `x-ms-range`.

use http::HeaderMap;

use super::codes::ErrorCode;
use super::fault::{Fault, Result};
use super::headers;

/// A range as asked for: first byte, and last byte unless it goes to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedRange {
    /// First byte.
    pub first: u64,
    /// Last byte, included.
    pub last: Option<u64>,
}

impl RequestedRange {
    /// Reads `bytes=a-b` or `bytes=a-`. The service knows no other form; `None` is one of those.
    ///
    /// A range whose end is before its start is refused.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let Some((first, last)) = text.trim().strip_prefix("bytes=").and_then(|both| both.split_once('-'))
        else {
            return Ok(None);
        };
        let (Some(first), Some(last)) =
            (digits(first), if last.is_empty() { Some(None) } else { digits(last).map(Some) })
        else {
            return Ok(None);
        };
        if last.is_some_and(|last| last < first) {
            return Err(Fault::new(ErrorCode::InvalidRange));
        }
        Ok(Some(Self { first, last }))
    }

    /// How many bytes it names; `None`: to the end.
    pub fn length(self) -> Option<u64> {
        self.last.map(|last| (last - self.first).saturating_add(1))
    }

    /// The range a read asks for: `x-ms-range`, else `Range`. HTTP says that a `Range` nobody understands is
    /// ignored; `x-ms-range` is the service's own and refused instead.
    pub fn of_read(headers: &HeaderMap) -> Result<Option<Self>> {
        if let Some(text) = headers::text(headers, headers::X_MS_RANGE)? {
            return Self::parse(text)?
                .map(Some)
                .ok_or_else(|| Fault::invalid_header(headers::X_MS_RANGE, text));
        }
        headers::text(headers, headers::RANGE)?.map_or(Ok(None), Self::parse)
    }

    /// The range a write names: needed, and with both ends.
    pub fn of_write(headers: &HeaderMap) -> Result<Self> {
        let name =
            if headers.contains_key(headers::X_MS_RANGE) { headers::X_MS_RANGE } else { headers::RANGE };
        let text = headers::required(headers, name)?;
        Self::parse(text)?
            .filter(|range| range.last.is_some())
            .ok_or_else(|| Fault::invalid_header(name, text))
    }

    /// The text of the header.
    pub fn to_text(self) -> String {
        match self.last {
            Some(last) => format!("bytes={}-{last}", self.first),
            None => format!("bytes={}-", self.first),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The answer's `Content-Range`: `bytes 0-9/100`.
pub fn content_range(first: u64, length: u64, size: u64) -> String {
    format!("bytes {first}-{}/{size}", first.saturating_add(length).saturating_sub(1))
}

/// First byte, and the whole size, from a `Content-Range`.
pub fn parse_content_range(text: &str) -> Option<(u64, u64)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((digits(first)?, digits(size)?))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), HeaderValue::from_static(value))])
    }

    #[test]
    fn reads_ignore_what_they_do_not_know_in_range_only() {
        let read = RequestedRange::of_read;
        assert_eq!(read(&with("range", "bytes=0-9")), Ok(Some(RequestedRange { first: 0, last: Some(9) })));
        assert_eq!(read(&with("range", "bytes=7-")), Ok(Some(RequestedRange { first: 7, last: None })));
        for other in ["bytes=-5", "bytes=0-1,4-5", "lines=1-2", "bytes=a-b", "bytes=1 - 2", "bytes=+1-2"] {
            assert_eq!(read(&with("range", other)), Ok(None), "{other}");
            assert_eq!(read(&with("x-ms-range", other)).unwrap_err().code, ErrorCode::InvalidHeaderValue);
        }
        assert_eq!(read(&with("range", "bytes=5-4")).unwrap_err().code, ErrorCode::InvalidRange);
        let mut both = with("range", "bytes=0-9");
        both.insert("x-ms-range", HeaderValue::from_static("bytes=1-2"));
        assert_eq!(read(&both), Ok(Some(RequestedRange { first: 1, last: Some(2) })));
        assert_eq!(RequestedRange { first: 0, last: Some(u64::MAX) }.length(), Some(u64::MAX));
    }

    #[test]
    fn writes_need_both_ends() {
        assert!(RequestedRange::of_write(&with("range", "bytes=0-511")).is_ok());
        assert!(RequestedRange::of_write(&with("range", "bytes=0-")).is_err());
        assert_eq!(
            RequestedRange::of_write(&HeaderMap::new()).unwrap_err().code,
            ErrorCode::MissingRequiredHeader
        );
    }

    proptest! {
        #[test]
        fn ranges_come_back(first in 0..=u64::MAX, more in proptest::option::of(0..1000_u64)) {
            let range = RequestedRange { first, last: more.map(|more| first.saturating_add(more)) };
            prop_assert_eq!(RequestedRange::parse(&range.to_text()), Ok(Some(range)));
        }

        #[test]
        fn any_range_is_read_or_refused(text in "(bytes=)?[0-9,=-]{0,30}") {
            let _ = (RequestedRange::parse(&text), parse_content_range(&text));
        }

        #[test]
        fn content_ranges_come_back(first in 0..1_u64 << 40, length in 1..1_u64 << 40, size in 0..=u64::MAX) {
            prop_assert_eq!(parse_content_range(&content_range(first, length, size)), Some((first, size)));
        }
    }
}
