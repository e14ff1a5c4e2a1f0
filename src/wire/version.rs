//! `x-ms-version`: a date that says which rules the caller expects.

use std::fmt;
use std::str::FromStr;

use http::HeaderMap;

use super::fault::{Fault, Result};
use super::headers;

/// A service version; later ones compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceVersion {
    year: u16,
    month: u8,
    day: u8,
}

impl ServiceVersion {
    /// The newest version whose rules are known here.
    pub const NEWEST: Self = Self::of(2026, 6, 6);
    /// The oldest version whose SAS is understood.
    pub const FIRST_SAS: Self = Self::of(2015, 4, 5);
    /// What anonymous requests mean that name no version.
    pub const ANONYMOUS: Self = Self::of(2009, 9, 19);

    /// The version of that date.
    pub const fn of(year: u16, month: u8, day: u8) -> Self {
        Self { year, month, day }
    }

    /// The version whose rules apply: a version newer than all known ones gets the newest rules.
    #[must_use]
    pub fn effective(self) -> Self {
        self.min(Self::NEWEST)
    }

    /// The version a request names. Nonsense is refused.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>> {
        headers::text(headers, headers::VERSION)?
            .map(|text| text.parse().map_err(|InvalidVersion| Fault::invalid_header(headers::VERSION, text)))
            .transpose()
    }
}

/// The text is not a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a service version is a date such as 2026-06-06")]
pub struct InvalidVersion;

impl FromStr for ServiceVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidVersion> {
        let bytes = text.as_bytes();
        let digits = |from: usize, to: usize| -> Option<u16> {
            bytes[from..to]
                .iter()
                .try_fold(0_u16, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u16::from(byte - b'0')))
        };
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return Err(InvalidVersion);
        }
        let (Some(year), Some(month), Some(day)) = (digits(0, 4), digits(5, 7), digits(8, 10)) else {
            return Err(InvalidVersion);
        };
        if !(2008..).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(InvalidVersion);
        }
        Ok(Self::of(year, month as u8, day as u8))
    }
}

impl fmt::Display for ServiceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_dates_in_order() {
        let parse = |text: &str| text.parse::<ServiceVersion>();
        assert_eq!(parse("2026-06-06"), Ok(ServiceVersion::NEWEST));
        assert!(parse("2018-11-09").unwrap() < parse("2020-02-10").unwrap());
        for bad in
            ["", "2026", "2026-6-06", "2026-13-01", "2026-06-32", "1999-01-01", "20é-01-01", "2026-06-06 "]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("2027-03-07").unwrap().effective(), ServiceVersion::NEWEST);
        assert_eq!(parse("2019-02-02").unwrap().effective().to_string(), "2019-02-02");
    }
}
