//! Blob index tags: `x-ms-tags` and the rules of names and values.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::codes::ErrorCode;
use super::fault::{Fault, Result};
use super::query;

/// The most tags a blob has.
pub const MAX_TAGS: usize = 10;
/// The longest tag name, in characters.
pub const MAX_NAME: usize = 128;
/// The longest tag value, in characters.
pub const MAX_VALUE: usize = 256;

/// Reads `name=value&name=value`, percent-encoded, with `+` for a blank.
pub fn parse_header(text: &str) -> Result<BTreeMap<String, String>> {
    let decode = |part: &str| {
        percent_decode_str(&part.replace('+', " "))
            .decode_utf8()
            .map(std::borrow::Cow::into_owned)
            .map_err(|_| Fault::new(ErrorCode::InvalidTag))
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    });
    collect(pairs)
}

/// The text of the header.
pub fn to_header(tags: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = tags
        .iter()
        .map(|(name, value)| format!("{}={}", query::encode(name), query::encode(value)))
        .collect();
    pairs.join("&")
}

/// Gathers tags and checks every rule: number, names, values, no name twice.
pub(super) fn collect(
    pairs: impl Iterator<Item = Result<(String, String)>>,
) -> Result<BTreeMap<String, String>> {
    let mut tags = BTreeMap::new();
    for pair in pairs {
        let (name, value) = pair?;
        if tags.len() == MAX_TAGS {
            return Err(Fault::new(ErrorCode::TagsTooLarge));
        }
        if tags.insert(name, value).is_some() {
            return Err(Fault::new(ErrorCode::DuplicateTagNames));
        }
    }
    check(&tags)?;
    Ok(tags)
}

/// Whether these tags can be stored.
pub fn check(tags: &BTreeMap<String, String>) -> Result<()> {
    if tags.len() > MAX_TAGS {
        return Err(Fault::new(ErrorCode::TagsTooLarge));
    }
    for (name, value) in tags {
        if name.is_empty() {
            return Err(Fault::new(ErrorCode::EmptyTagName));
        }
        if name.len() > MAX_NAME || value.len() > MAX_VALUE {
            return Err(Fault::new(ErrorCode::TagsTooLarge));
        }
        if !name.bytes().chain(value.bytes()).all(is_allowed) {
            return Err(Fault::new(ErrorCode::InvalidTag));
        }
    }
    Ok(())
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" +-./:=_".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_of_tags() {
        let many = |n: usize| (0..n).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join("&");
        assert_eq!(parse_header(&many(10)).unwrap().len(), 10);
        for (text, code) in [
            (many(11), ErrorCode::TagsTooLarge),
            ("=v".to_owned(), ErrorCode::EmptyTagName),
            ("a=1&a=2".to_owned(), ErrorCode::DuplicateTagNames),
            ("a=%26".to_owned(), ErrorCode::InvalidTag),
            ("a=%ff".to_owned(), ErrorCode::InvalidTag),
            (format!("{}=", "k".repeat(129)), ErrorCode::TagsTooLarge),
            (format!("k={}", "v".repeat(257)), ErrorCode::TagsTooLarge),
        ] {
            assert_eq!(parse_header(&text).unwrap_err().code, code, "{text}");
        }
        assert_eq!(parse_header("a+b=%2B%3D").unwrap()["a b"], "+=");
        assert!(parse_header("").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn tags_come_back(tags in proptest::collection::btree_map("[a-zA-Z0-9 +./:=_-]{1,8}", "[a-zA-Z0-9 +./:=_-]{0,8}", 0..10)) {
            prop_assert_eq!(parse_header(&to_header(&tags)).unwrap(), tags);
        }

        #[test]
        fn any_tags_are_read_or_refused(text in ".{0,60}") {
            let _ = parse_header(&text);
        }
    }
}
