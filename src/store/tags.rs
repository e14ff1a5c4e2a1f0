//! Tags of a blob: names and values it can be found by.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::StoreError;

/// Tags a blob has at most.
pub const TAGS_MAX: usize = 10;

const NAME_CHARS_MAX: usize = 128;
const VALUE_CHARS_MAX: usize = 256;

/// A blob's tags, checked. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags(Option<Arc<BTreeMap<String, String>>>);

impl Tags {
    /// No tags.
    pub const NONE: Self = Self(None);

    /// Checks tags against the service's rules: at most 10, names of 1 to 128 and values of up to 256 characters out
    /// of letters, digits, space and `+ - . / : = _`.
    pub fn new(tags: BTreeMap<String, String>) -> Result<Self, StoreError> {
        if tags.len() > TAGS_MAX {
            return Err(StoreError::InvalidTags("a blob has at most 10 tags"));
        }
        for (name, value) in &tags {
            if !(1..=NAME_CHARS_MAX).contains(&name.len()) {
                return Err(StoreError::InvalidTags("the name of a tag has 1 to 128 characters"));
            }
            if value.len() > VALUE_CHARS_MAX {
                return Err(StoreError::InvalidTags("the value of a tag has at most 256 characters"));
            }
            if !name.bytes().chain(value.bytes()).all(is_allowed) {
                return Err(StoreError::InvalidTags(
                    "tags are made of letters, digits, spaces and + - . / : = _",
                ));
            }
        }
        Ok(Self((!tags.is_empty()).then(|| Arc::new(tags))))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |tags| tags.len())
    }

    /// The value of a tag.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name).map(String::as_str)
    }

    /// Names and values in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|tags| tags.iter()).map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" +-./:=_".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Result<Tags, StoreError> {
        Tags::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn tags_are_checked() {
        assert!(tags(&[]).unwrap().is_empty());
        let good = tags(&[("k", "v"), ("project x", "a+b-c.d/e:f=g_h"), ("empty", "")]).unwrap();
        assert_eq!((good.len(), good.get("k"), good.get("x")), (3, Some("v"), None));
        for bad in [("", "v"), ("k", "ü"), ("k", "a,b"), (&*"k".repeat(129), ""), ("k", &*"v".repeat(257))] {
            assert!(matches!(tags(&[bad]), Err(StoreError::InvalidTags(_))), "{bad:?}");
        }
        let names: Vec<String> = (0..11).map(|number| format!("k{number}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        assert!(tags(&many[..10]).is_ok() && tags(&many).is_err());
    }
}
