//! ETags on the wire: opaque texts that, if they are ours or Azure's, hold a number.

use std::fmt;

use super::fault::{Fault, Result};

/// An ETag of the form the service makes: `"0x8DC…"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag(pub u64);

impl Etag {
    /// Reads an ETag, in quotes or bare, weak or not. `None`: it was made by somebody else.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix("W/").unwrap_or(text);
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        let digits = bare.strip_prefix("0x").or_else(|| bare.strip_prefix("0X"))?;
        if digits.starts_with('+') {
            return None;
        }
        u64::from_str_radix(digits, 16).ok().map(Self)
    }

    /// Without quotes, as listings have it.
    pub fn bare(self) -> String {
        format!("0x{:X}", self.0)
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"0x{:X}\"", self.0)
    }
}

/// What `If-Match` or `If-None-Match` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagList {
    /// `*`.
    Any,
    /// These; `None` stands for one that no blob of ours can have.
    These(Vec<Option<Etag>>),
}

impl EtagList {
    /// Reads the value of the header `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let invalid = || Fault::invalid_header(name, text);
        if matches!(text, "*" | "\"*\"") {
            return Ok(Self::Any);
        }
        let tags: Vec<_> = text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
        if tags.is_empty() || tags.contains(&"*") {
            return Err(invalid());
        }
        Ok(Self::These(tags.into_iter().map(Etag::parse).collect()))
    }

    /// Whether it names one thing only; a write may not name more.
    pub fn is_single(&self) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => tags.len() == 1,
        }
    }

    /// The tags that can match at all; `None` for `*`.
    pub fn known(&self) -> Option<Vec<Etag>> {
        match self {
            Self::Any => None,
            Self::These(tags) => Some(tags.iter().flatten().copied().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_bare_and_weak() {
        for text in ["\"0x8DC1\"", "0x8DC1", "W/\"0x8dc1\"", " \"0X8DC1\" "] {
            assert_eq!(Etag::parse(text), Some(Etag(0x8dc1)), "{text}");
        }
        for foreign in ["", "\"\"", "abc", "\"0x\"", "0x+1", "0x1ffffffffffffffff", "W/"] {
            assert_eq!(Etag::parse(foreign), None, "{foreign}");
        }
        assert_eq!(Etag::parse(&Etag(u64::MAX).to_string()), Some(Etag(u64::MAX)));
    }

    #[test]
    fn lists() {
        assert_eq!(EtagList::parse("if-match", "*"), Ok(EtagList::Any));
        let list = EtagList::parse("if-match", "\"0x1\", \"else\",0x2").unwrap();
        assert!(!list.is_single());
        assert_eq!(list.known(), Some(vec![Etag(1), Etag(2)]));
        assert!(EtagList::parse("if-match", "*, 0x1").is_err());
        assert!(EtagList::parse("if-match", ",").is_err());
    }
}
