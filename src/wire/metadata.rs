//! `x-ms-meta-*`: user metadata of containers, blobs and files.

use http::HeaderMap;

use super::codes::ErrorCode;
use super::fault::{Fault, Result};
use super::headers::META_PREFIX;

mod pairs;

pub use pairs::Metadata;

/// Names and values of one blob or container together have at most so many bytes.
pub const MAX_BYTES: usize = 8 * 1024;

/// Reads all metadata headers.
///
/// Header names have no case on their way through HTTP/1.1 here, so names come out in lower case.
pub fn from_headers(headers: &HeaderMap) -> Result<Metadata> {
    let mut metadata = Metadata::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(META_PREFIX) else { continue };
        let value = value.to_str().map_err(|_| Fault::new(ErrorCode::InvalidMetadata))?;
        if metadata.set(name, value.trim_matches([' ', '\t'])) {
            return Err(Fault::new(ErrorCode::InvalidMetadata));
        }
    }
    check(&metadata)?;
    Ok(metadata)
}

/// Whether this metadata can be stored and sent: names are identifiers, values printable ASCII, all of it small.
pub fn check(metadata: &Metadata) -> Result<()> {
    let mut bytes = 0_usize;
    for (name, value) in metadata.iter() {
        if name.is_empty() {
            return Err(Fault::new(ErrorCode::EmptyMetadataKey));
        }
        if !is_name(name) || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte) || byte == b'\t') {
            return Err(Fault::new(ErrorCode::InvalidMetadata));
        }
        bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
    }
    if bytes > MAX_BYTES { Err(Fault::new(ErrorCode::MetadataTooLarge)) } else { Ok(()) }
}

/// An identifier, as C# has them: letters, digits and `_`, not starting with a digit.
fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The headers that say it, sorted by name.
pub fn to_headers(metadata: &Metadata) -> impl Iterator<Item = (String, &str)> {
    metadata.iter().map(|(name, value)| (format!("{META_PREFIX}{name}"), value))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Metadata> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(format!("x-ms-meta-{name}").as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        from_headers(&headers)
    }

    #[test]
    fn names_are_identifiers() {
        assert_eq!(read(&[("Hdi_isfolder", " true ")]).unwrap().get("hdi_isfolder"), Some("true"));
        assert_eq!(read(&[("", "x")]).unwrap_err().code, ErrorCode::EmptyMetadataKey);
        for bad in ["1a", "a-b", "a.b"] {
            assert_eq!(read(&[(bad, "x")]).unwrap_err().code, ErrorCode::InvalidMetadata, "{bad}");
        }
        assert_eq!(read(&[("a", "x"), ("A", "y")]).unwrap_err().code, ErrorCode::InvalidMetadata);
        assert_eq!(read(&[("a", "ä")]).unwrap_err().code, ErrorCode::InvalidMetadata);
    }

    #[test]
    fn size_is_limited() {
        assert!(read(&[("a", &"x".repeat(MAX_BYTES - 1))]).is_ok());
        assert_eq!(read(&[("a", &"x".repeat(MAX_BYTES))]).unwrap_err().code, ErrorCode::MetadataTooLarge);
    }

    proptest! {
        #[test]
        fn metadata_comes_back(pairs in proptest::collection::btree_map("[a-z_][a-z0-9_]{0,8}", "([!-~]([ -~]{0,8}[!-~])?)?", 0..6)) {
            let pairs: Metadata = pairs.into_iter().collect();
            let headers: HeaderMap = to_headers(&pairs)
                .map(|(name, value)| {
                    (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
                })
                .collect();
            prop_assert_eq!(from_headers(&headers).unwrap(), pairs);
        }
    }
}
