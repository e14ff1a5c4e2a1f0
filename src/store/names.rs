//! Container and blob names, checked once so that nothing behind them has to.

use std::fmt;
use std::sync::Arc;

use crate::share::Moment;

use super::api::SnapshotId;

/// Longest blob name, in characters, as the Blob service counts.
pub(super) const BLOB_NAME_CHARS_MAX: usize = 1024;

/// Container names that break the rules because they mean something: the container of blobs whose URL names none, and
/// the one of web sites.
const SPECIAL: [&str; 2] = ["$root", "$web"];

/// Stands between a container's name and the moment of a snapshot of it. No request can name such a container, because
/// [`ContainerName::new`] refuses the mark.
const SNAPSHOT_MARK: char = '@';

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Container names: 3 to 63 of `a-z 0-9 -`, starting and ending with a letter or digit, no `--`.
    #[error(
        "{0:?} is not a container name: use 3 to 63 lower-case letters, digits and single dashes, \
         starting and ending with a letter or digit"
    )]
    Container(String),
    /// Blob names: 1 to 1,024 characters.
    #[error("a blob name has 1 to {BLOB_NAME_CHARS_MAX} characters, this one has {0}")]
    BlobLength(usize),
    /// Blob names hold no NUL, no empty or dot-only path segments.
    #[error("{0:?} is not a blob name: it has a NUL or a segment that is empty, \".\" or \"..\"")]
    BlobSegments(String),
}

/// A valid container name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerName(Arc<str>);

impl ContainerName {
    /// Checks `name` against the service's rules.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let bytes = name.as_bytes();
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let regular = (3..=63).contains(&bytes.len())
            && bytes.iter().all(|b| plain(b) || *b == b'-')
            && bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && !name.contains("--");
        if regular || SPECIAL.contains(&name) {
            Ok(Self(name.into()))
        } else {
            Err(NameError::Container(name.to_owned()))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hidden container that a snapshot of this one is: it can be read like any other, and never changed.
    pub fn at_snapshot(&self, snapshot: SnapshotId) -> Self {
        // The sign bit turned over, so that names sort like moments.
        Self(format!("{}{SNAPSHOT_MARK}{:016x}", self.0, snapshot.0.0 ^ i64::MIN).into())
    }

    /// The container and the snapshot of it that this is, if it is one.
    pub fn as_snapshot(&self) -> Option<(ContainerName, SnapshotId)> {
        let (container, moment) = self.0.split_once(SNAPSHOT_MARK)?;
        let moment = u64::from_str_radix(moment, 16).ok()?.cast_signed() ^ i64::MIN;
        Some((Self(container.into()), SnapshotId(Moment(moment))))
    }

    /// Whether this is a snapshot of a container.
    pub fn is_snapshot(&self) -> bool {
        self.0.contains(SNAPSHOT_MARK)
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A valid blob name: segments separated by `/`, none of them empty, `.` or `..`.
///
/// One trailing `/` is allowed, because other tools mark directories that way.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobName(Box<str>);

impl BlobName {
    /// Checks `name` against the rules above.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        // Characters are at most as many as bytes, so most names need no count.
        if name.is_empty() || name.len() > BLOB_NAME_CHARS_MAX {
            let chars = name.chars().count();
            if chars == 0 || chars > BLOB_NAME_CHARS_MAX {
                return Err(NameError::BlobLength(chars));
            }
        }
        let inner = name.strip_suffix('/').unwrap_or(&name);
        let bad = |segment: &str| matches!(segment, "" | "." | "..");
        if name.contains('\0') || inner.split('/').any(bad) {
            return Err(NameError::BlobSegments(name));
        }
        Ok(Self(name.into_boxed_str()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Where a blob is: its container and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlobPath {
    /// The container.
    pub container: ContainerName,
    /// The name inside it.
    pub name: BlobName,
}

impl BlobPath {
    /// A path of two names that are valid already.
    pub fn new(container: ContainerName, name: BlobName) -> Self {
        Self { container, name }
    }
}

impl fmt::Display for BlobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.container, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names_follow_the_service() {
        for good in ["abc", "share", "a-b-c", "0az", &"x".repeat(63), "$root", "$web"] {
            assert!(ContainerName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "$", "$any", "ab", "Abc", "a--b", "-ab", "ab-", "a_b", "a.b", &"x".repeat(64)] {
            assert!(ContainerName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_snapshot_is_a_container_that_nobody_can_name() {
        let share = ContainerName::new("share").unwrap();
        for moment in [i64::MIN, -100, 0, 1_763_388_000_000_000_100, i64::MAX] {
            let snapshot = SnapshotId(Moment(moment));
            let hidden = share.at_snapshot(snapshot);
            assert!(hidden.is_snapshot() && !share.is_snapshot());
            assert_eq!(hidden.as_snapshot(), Some((share.clone(), snapshot)));
            assert!(ContainerName::new(hidden.as_str()).is_err());
        }
        let names = [-100, 0, 100].map(|moment| share.at_snapshot(SnapshotId(Moment(moment))));
        assert!(names.is_sorted());
    }

    #[test]
    fn blob_names_have_no_empty_or_dot_segments() {
        for good in ["a", "a/b", "a/b/", "...", "a b", "ä/ö", &"ä".repeat(1024)] {
            assert!(BlobName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "/", "/a", "a//b", ".", "a/../b", "a/.", "a\0b", &"ä".repeat(1025)] {
            assert!(BlobName::new(bad).is_err(), "{bad}");
        }
    }
}
