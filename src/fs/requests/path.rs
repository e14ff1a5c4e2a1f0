//! Paths inside a share.

use crate::store::BlobName;

use super::super::error::{FsError, Result};
use super::super::names::{RESERVED, Segment};

/// Directories that a path may go down, as the service has it.
const DEPTH_MAX: usize = 250;

/// A path inside a share, with names that are known to be valid. Empty for the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilePath(Vec<Segment>);

impl FilePath {
    /// Reads a path: names as programs see them, with `/` between them. Slashes at both ends do not count.
    pub fn parse(path: &str) -> Result<Self> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Ok(Self::default());
        }
        let names: Vec<Segment> =
            path.split('/').map(|name| Segment::from_file_name(name.as_bytes())).collect::<Result<_>>()?;
        if names.len() > DEPTH_MAX {
            return Err(FsError::NameTooLong);
        }
        let path = Self(names);
        path.blob_name()?;
        Ok(path)
    }

    /// Whether it is the share's own directory.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path inside `self` to `name`.
    pub fn child(&self, name: &str) -> Result<Self> {
        let mut names = self.0.clone();
        names.push(Segment::from_file_name(name.as_bytes())?);
        Ok(Self(names))
    }

    /// The path of these names.
    pub(super) fn from_segments(names: &[Segment]) -> Self {
        Self(names.to_vec())
    }

    /// The names, as they are stored.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The directory it is in, and its name there; nothing for the root.
    pub(super) fn split(&self) -> Option<(&[Segment], &Segment)> {
        self.0.split_last().map(|(name, above)| (above, name))
    }

    /// Whether it belongs to leasefs itself.
    pub(super) fn is_reserved(&self) -> bool {
        self.0.first().is_some_and(|first| first.as_str() == RESERVED)
    }

    /// The name of its blob; nothing for the root.
    pub(super) fn blob_name(&self) -> Result<Option<BlobName>> {
        joined(&self.0)
    }
}

/// The name of the blob that these names lead to; nothing for the root.
pub(super) fn joined(names: &[Segment]) -> Result<Option<BlobName>> {
    if names.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = names.iter().map(Segment::as_str).collect();
    BlobName::new(names.join("/")).map(Some).map_err(|_| FsError::NameTooLong)
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(f, "{slash}{}", name.file_name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_shown() {
        for (text, shown) in [("", ""), ("/", ""), ("a", "a"), ("/a/b/", "a/b"), ("d\\x/e.", "d\\x/e.")] {
            assert_eq!(FilePath::parse(text).unwrap().to_string(), shown);
        }
        assert!(FilePath::parse("").unwrap().is_root());
        assert_eq!(FilePath::parse("a").unwrap().child("b").unwrap(), FilePath::parse("a/b").unwrap());
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in ["a//b", "a/../b", ".", "a\0"] {
            assert!(matches!(FilePath::parse(bad), Err(FsError::Invalid(_))), "{bad:?}");
        }
        let deep = vec!["x"; DEPTH_MAX + 1].join("/");
        for long in [&"x".repeat(256), &vec!["y".repeat(200); 6].join("/"), &deep] {
            assert!(matches!(FilePath::parse(long), Err(FsError::NameTooLong)));
        }
    }

    #[test]
    fn what_belongs_to_leasefs_is_known() {
        assert!(FilePath::parse(".leasefs/pending/1").unwrap().is_reserved());
        assert!(!FilePath::parse("a/.leasefs").unwrap().is_reserved());
    }
}
