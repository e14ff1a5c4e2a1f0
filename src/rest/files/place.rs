//! A path in a share, by the service's rules for names.
//!
//! A mount can make names that the service has no word for (`a:b`, `CON`). What exists can be used over REST
//! whatever it is called; what is to be made must have a name that the service allows
//! ([`Place::check_new_name`]), and a strange name that does not exist is refused for its name ([`Place::is_legal`]).

use http::HeaderMap;

use crate::fs::FsError;
use crate::fs::names::RESERVED;
use crate::fs::requests::FilePath;
use crate::store::ContainerName;
use crate::wire::{ErrorCode, Fault, headers};

/// The longest name of a file or directory, in characters.
const NAME_MAX: usize = 255;
/// Characters that no name has, besides control characters.
const FORBIDDEN: [char; 9] = ['"', '\\', '/', ':', '|', '<', '>', '*', '?'];
/// Names that belong to devices on Windows, in any case. Followed by a digit from 1 to 9: `LPT`, `COM`.
const DEVICES: [&str; 5] = ["PRN", "AUX", "NUL", "CON", "CLOCK$"];

/// A file or directory in a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) share: ContainerName,
    pub(super) path: FilePath,
    legal: bool,
}

impl Place {
    /// Reads decoded names. Dots at the end of names are taken away unless a header says that they are meant.
    pub(super) fn parse(share: &str, path: &str, headers: &HeaderMap) -> Result<Self, Fault> {
        Self::named(share, path, headers::flag(headers, headers::ALLOW_TRAILING_DOT)?)
    }

    /// The same, with dots at the end of names meant or not.
    pub(super) fn named(share: &str, path: &str, dots: bool) -> Result<Self, Fault> {
        let share = share_name(share)?;
        // A directory may be written with a slash behind it.
        let path = path.strip_suffix('/').unwrap_or(path);
        let trimmed: Vec<&str> =
            path.split('/').map(|name| if dots { name } else { name.trim_end_matches('.') }).collect();
        // Left out, they would lead to another file than the one that was meant.
        if !path.is_empty() && trimmed.contains(&"") {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        // What belongs to leasefs itself is not there for anybody.
        let reserved = trimmed.first() == Some(&RESERVED);
        let legal = path.is_empty() || (!reserved && trimmed.iter().all(|name| is_legal(name)));
        let path = FilePath::parse(&trimmed.join("/")).map_err(|error| match error {
            FsError::NameTooLong => Fault::new(ErrorCode::InvalidFileOrDirectoryPathName),
            _ => Fault::new(ErrorCode::InvalidResourceName),
        })?;
        Ok(Self { share, path, legal })
    }

    /// Whether the service could have such names.
    pub(super) fn is_legal(&self) -> bool {
        self.legal
    }

    /// Refuses to make something with a name that the service could not have.
    pub(super) fn check_new_name(&self) -> Result<(), Fault> {
        if self.legal { Ok(()) } else { Err(ErrorCode::InvalidResourceName.into()) }
    }
}

/// The name of a share.
pub(super) fn share_name(name: &str) -> Result<ContainerName, Fault> {
    ContainerName::new(name)
        .map_err(|error| Fault::new(ErrorCode::InvalidResourceName).saying(error.to_string()))
}

fn is_legal(name: &str) -> bool {
    let device = |name: &str| {
        let stem = name.strip_suffix(|last: char| ('1'..='9').contains(&last));
        DEVICES.iter().any(|device| device.eq_ignore_ascii_case(name))
            || stem.is_some_and(|stem| ["LPT", "COM"].iter().any(|port| port.eq_ignore_ascii_case(stem)))
    };
    !name.is_empty()
        && name.chars().count() <= NAME_MAX
        && !name.chars().any(|c| c.is_control() || FORBIDDEN.contains(&c))
        && !device(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dots_at_the_end_are_trimmed_unless_they_are_meant() {
        assert_eq!(Place::named("docs", "a./b..", false), Place::named("docs", "a/b", true));
        assert_ne!(Place::named("docs", "a.", true), Place::named("docs", "a", true));
        assert_eq!(Place::named("docs", "a/...", false).unwrap_err().code, ErrorCode::InvalidResourceName);
    }

    #[test]
    fn names_of_the_service() {
        for good in ["a", "a.b", "com", "com10", "COM0", "lpt", "ä", ".hidden", "$x"] {
            assert!(is_legal(good), "{good}");
        }
        for bad in ["", "a:b", "a*", "?", "a|b", "a\\b", "\"", "<", "a\u{1}", "con", "Com1", "LPT9", "clock$"]
        {
            assert!(!is_legal(bad), "{bad}");
        }
        for strange in ["a:b", ".leasefs", ".leasefs/x"] {
            let strange = Place::named("docs", strange, false).unwrap();
            assert!(!strange.is_legal());
            assert_eq!(strange.check_new_name().unwrap_err().code, ErrorCode::InvalidResourceName);
        }
    }

    #[test]
    fn long_paths_have_their_own_code() {
        let code = |path: &str| Place::named("docs", path, false).unwrap_err().code;
        assert_eq!(code(&"x".repeat(256)), ErrorCode::InvalidFileOrDirectoryPathName);
        assert_eq!(code(&vec!["x"; 300].join("/")), ErrorCode::InvalidFileOrDirectoryPathName);
        for bad in ["a//b", "..", "a/../b"] {
            assert_eq!(code(bad), ErrorCode::InvalidResourceName, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_or_refused(path in ".{0,60}", dots in any::<bool>()) {
            let _ = Place::named("docs", &path, dots);
        }
    }
}
