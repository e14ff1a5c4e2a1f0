//! File names, and how they are written as segments of a blob name.
//!
//! A file name is any UTF-8 of at most 255 bytes without `/` and NUL. Blob services discourage backslashes, control
//! characters and a trailing dot, so these are written as private-use characters, the way SMB clients do it
//! (`U+F000` + the character; `U+F029` for a trailing dot). A name that holds such a private-use character itself
//! gets `U+F0FF` before it, so that every name comes back unchanged.

use super::error::{FsError, Result};

/// Longest file name, in bytes, as on other Linux file systems.
pub const NAME_BYTES_MAX: usize = 255;

/// The folder in the root that belongs to leasefs.
pub const RESERVED: &str = ".leasefs";

const PRIVATE: u32 = 0xF000;
const TRAILING_DOT: char = '\u{F029}';
const QUOTE: char = '\u{F0FF}';

/// A file name that is known to be valid, as the segment of a blob name that it is stored under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment(Box<str>);

impl Segment {
    /// Checks a name that a program gave and encodes it.
    pub fn from_file_name(name: &[u8]) -> Result<Self> {
        if name.len() > NAME_BYTES_MAX {
            return Err(FsError::NameTooLong);
        }
        let name = std::str::from_utf8(name).map_err(|_| FsError::NotUtf8)?;
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(FsError::Invalid("not a file name"));
        }
        Ok(Self(encode(name).into()))
    }

    /// A segment taken from a blob name.
    pub fn from_stored(segment: &str) -> Self {
        Self(segment.into())
    }

    /// The segment as stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as programs see it.
    pub fn file_name(&self) -> String {
        decode(&self.0)
    }
}

fn must_hide(c: char) -> bool {
    c == '\\' || c.is_ascii_control()
}

fn is_ours(c: char) -> bool {
    c == QUOTE || c == TRAILING_DOT || unhide(c).is_some()
}

fn unhide(c: char) -> Option<char> {
    let plain = char::from_u32((c as u32).checked_sub(PRIVATE)?)?;
    (plain.is_ascii() && must_hide(plain)).then_some(plain)
}

fn encode(name: &str) -> String {
    // Nearly every name needs nothing; find out without allocating.
    if !name.chars().any(|c| must_hide(c) || is_ours(c)) && !name.ends_with('.') {
        return name.to_owned();
    }
    let mut out = String::with_capacity(name.len() + 8);
    let (body, trailing_dot) = match name.strip_suffix('.') {
        Some(body) => (body, true),
        None => (name, false),
    };
    for c in body.chars() {
        if is_ours(c) {
            out.extend([QUOTE, c]);
        } else if must_hide(c) {
            out.extend(char::from_u32(PRIVATE + c as u32));
        } else {
            out.push(c);
        }
    }
    if trailing_dot {
        out.push(TRAILING_DOT);
    }
    out
}

fn decode(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    let mut chars = segment.chars();
    while let Some(c) = chars.next() {
        match c {
            QUOTE => out.extend(chars.next()),
            TRAILING_DOT => out.push('.'),
            c => out.push(unhide(c).unwrap_or(c)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_are_stored_as_they_are() {
        for name in ["a", "x.txt", "ä ö", ".hidden", "a..b", "%41", "~"] {
            assert_eq!(Segment::from_file_name(name.as_bytes()).unwrap().as_str(), name);
        }
    }

    #[test]
    fn discouraged_names_are_hidden_and_come_back() {
        for name in ["a\\b", "line\nbreak", "dot.", "...", "\u{F029}", "\u{F0FF}x", "\u{7f}"] {
            let segment = Segment::from_file_name(name.as_bytes()).unwrap();
            assert!(!segment.as_str().contains(must_hide), "{name:?}");
            assert!(!segment.as_str().ends_with('.'), "{name:?}");
            assert_eq!(segment.file_name(), name);
        }
    }

    #[test]
    fn bad_names_are_refused() {
        let long = "x".repeat(256);
        assert!(matches!(Segment::from_file_name(long.as_bytes()), Err(FsError::NameTooLong)));
        assert!(matches!(Segment::from_file_name(b"\xff"), Err(FsError::NotUtf8)));
        for bad in ["", ".", "..", "a/b", "a\0"] {
            assert!(matches!(Segment::from_file_name(bad.as_bytes()), Err(FsError::Invalid(_))), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives(name in "[a.\\\\\n\u{F029}\u{F0FF}\u{F05C}\u{F00A}é]{1,12}") {
            prop_assume!(name != "." && name != "..");
            let segment = Segment::from_file_name(name.as_bytes()).unwrap();
            prop_assert_eq!(segment.file_name(), name);
        }

        #[test]
        fn different_names_are_stored_differently(
            a in "[a.\\\\\u{F029}\u{F0FF}\u{F05C}]{1,6}", b in "[a.\\\\\u{F029}\u{F0FF}\u{F05C}]{1,6}",
        ) {
            prop_assume!(a != b);
            prop_assert_ne!(encode(&a), encode(&b));
        }
    }
}
