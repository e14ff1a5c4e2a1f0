//! What the Files service says about a file as Windows sees it: attributes and times.
//!
//! ```text
//!   x-ms-file-attributes: ReadOnly|Archive      x-ms-file-creation-time: 2026-11-17T11:07:13.1234567Z
//! ```
//!
//! Headers may say a value, or a word instead of one: `now`, `preserve`, and for copies `source`.

use http::HeaderMap;

use super::date;
use super::fault::{Fault, Result};
use super::headers;
use crate::share::Moment;

/// The attributes that files of a share can have, with Windows' own bits.
const WORDS: [(&str, u32); 9] = [
    ("ReadOnly", 0x1),
    ("Hidden", 0x2),
    ("System", 0x4),
    ("Directory", 0x10),
    ("Archive", 0x20),
    ("Temporary", 0x100),
    ("Offline", 0x1000),
    ("NotContentIndexed", 0x2000),
    ("NoScrubData", 0x2_0000),
];
/// No attribute at all.
const NONE: &str = "None";
/// A directory.
pub const DIRECTORY: u32 = 0x10;
/// A file that programs may not change.
pub const READ_ONLY: u32 = 0x1;
/// A file that was changed since its last backup.
pub const ARCHIVE: u32 = 0x20;

/// The words for a set of attributes. A set with none of them is `None`.
pub fn attributes_text(bits: u32) -> String {
    let words: Vec<_> = WORDS.iter().filter(|(_, bit)| bits & bit != 0).map(|(word, _)| *word).collect();
    if words.is_empty() { NONE.to_owned() } else { words.join("|") }
}

/// Reads such words, separated by `|`, in any case.
pub fn parse_attributes(text: &str) -> Option<u32> {
    text.split('|').map(str::trim).try_fold(0, |bits, word| {
        if word.eq_ignore_ascii_case(NONE) {
            return Some(bits);
        }
        let (_, bit) = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))?;
        Some(bits | bit)
    })
}

/// A value in a header, or a word that stands for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting<T> {
    /// This.
    To(T),
    /// What the moment of the request gives.
    Now,
    /// What is there.
    Preserve,
    /// What the source of the copy has.
    Source,
}

impl<T> Setting<T> {
    /// The setting a header names: a word, else what `read` makes of it.
    fn of(headers: &HeaderMap, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<Self>> {
        let Some(text) = headers::text(headers, name)? else { return Ok(None) };
        let setting = match text.to_ascii_lowercase().as_str() {
            "now" => Some(Self::Now),
            "preserve" => Some(Self::Preserve),
            "source" => Some(Self::Source),
            _ => read(text).map(Self::To),
        };
        setting.map(Some).ok_or_else(|| Fault::invalid_header(name, text))
    }
}

/// What a request says about a file's attributes and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmbSettings {
    /// `x-ms-file-attributes`
    pub attributes: Option<Setting<u32>>,
    /// `x-ms-file-creation-time`
    pub created: Option<Setting<Moment>>,
    /// `x-ms-file-last-write-time`
    pub written: Option<Setting<Moment>>,
    /// `x-ms-file-change-time`
    pub changed: Option<Setting<Moment>>,
}

impl SmbSettings {
    /// Reads the four headers. `source` may stand in those of a copy only.
    pub fn from_headers(headers: &HeaderMap, of_copy: bool) -> Result<Self> {
        let time = |name| Setting::of(headers, name, parse_time);
        let settings = Self {
            attributes: Setting::of(headers, headers::FILE_ATTRIBUTES, parse_attributes)?,
            created: time(headers::FILE_CREATION_TIME)?,
            written: time(headers::FILE_LAST_WRITE_TIME)?,
            changed: time(headers::FILE_CHANGE_TIME)?,
        };
        if settings.attributes == Some(Setting::Now) {
            return Err(Fault::invalid_header(headers::FILE_ATTRIBUTES, "now"));
        }
        let from_source = settings.attributes == Some(Setting::Source)
            || [settings.created, settings.written, settings.changed].contains(&Some(Setting::Source));
        if from_source && !of_copy {
            return Err(Fault::invalid_header(headers::FILE_ATTRIBUTES, "source"));
        }
        Ok(settings)
    }
}

/// A time with 100 ns, as ISO 8601 has it. The year must have four digits.
fn parse_time(text: &str) -> Option<Moment> {
    date::parse_iso(text).map(date::to_ticks)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn read(pairs: &[(&'static str, &str)], of_copy: bool) -> Result<SmbSettings> {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        SmbSettings::from_headers(&pairs.iter().map(pair).collect(), of_copy)
    }

    #[test]
    fn words_stand_for_values() {
        let given = [
            ("x-ms-file-attributes", "readonly|Archive"),
            ("x-ms-file-creation-time", "now"),
            ("x-ms-file-last-write-time", "2026-11-17T11:07:13.1234567Z"),
            ("x-ms-file-change-time", "preserve"),
        ];
        let settings = read(&given, false).unwrap();
        assert_eq!(settings.attributes, Some(Setting::To(READ_ONLY | ARCHIVE)));
        assert_eq!(settings.created, Some(Setting::Now));
        assert_eq!(settings.written, Some(Setting::To(Moment(1_794_913_633_123_456_700))));
        assert_eq!(settings.changed, Some(Setting::Preserve));
        assert_eq!(read(&[], false).unwrap(), SmbSettings::default());
    }

    #[test]
    fn nonsense_is_refused() {
        for (name, value) in [
            ("x-ms-file-attributes", "Shiny"),
            ("x-ms-file-attributes", "now"),
            ("x-ms-file-creation-time", "yesterday"),
            ("x-ms-file-creation-time", "source"),
        ] {
            assert!(read(&[(name, value)], false).is_err(), "{name}: {value}");
        }
        assert!(read(&[("x-ms-file-creation-time", "source")], true).is_ok());
    }

    proptest! {
        #[test]
        fn attributes_come_back(bits in 0_u32..0x4_0000) {
            let known = WORDS.iter().fold(0, |all, (_, bit)| all | bit);
            prop_assert_eq!(parse_attributes(&attributes_text(bits)), Some(bits & known));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = (parse_attributes(&text), parse_time(&text));
        }
    }
}
