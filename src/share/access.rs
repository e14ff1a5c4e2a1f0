//! What an open may do, and what it lets others do: two sets over the same three classes.
//!
//! They are two types because mixing them up is the one mistake this part of the program must not make.

use std::fmt;
use std::str::FromStr;

/// The number of classes: read, write, delete.
pub(super) const CLASSES: usize = 3;

const LETTERS: [char; CLASSES] = ['r', 'w', 'd'];
const EMPTY: &str = "none";

/// The classes of access an open was granted. None at all: an open for attributes only.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Access(u8);

/// The classes of access an open lets others have beside it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ShareMode(u8);

/// The text names no set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"none\" or some of the letters r (read), w (write) and d (delete), each once")]
pub struct InvalidClasses;

impl Access {
    /// Attributes only.
    pub const NONE: Self = Self(0);
    /// Read the content.
    pub const READ: Self = Self(1);
    /// Change the content.
    pub const WRITE: Self = Self(2);
    /// Remove or rename the file.
    pub const DELETE: Self = Self(4);
    /// Read and change the content.
    pub const READ_WRITE: Self = Self(3);
    /// Every class.
    pub const ALL: Self = Self(7);

    /// Whether it has every class of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The classes of either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has no class, so that sharing does not concern it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, class: usize) -> bool {
        self.0 >> class & 1 == 1
    }

    /// The set as bits: read 1, write 2, delete 4.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The set of the three lowest bits.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }
}

impl ShareMode {
    /// Nobody else may do anything.
    pub const NONE: Self = Self(0);
    /// Others may read.
    pub const READ: Self = Self(1);
    /// Others may write.
    pub const WRITE: Self = Self(2);
    /// Others may remove or rename.
    pub const DELETE: Self = Self(4);
    /// Others may read and write.
    pub const READ_WRITE: Self = Self(3);
    /// Others may do everything.
    pub const ALL: Self = Self(7);

    /// Whether it shares every class of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The classes of either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether others may have all of `access`.
    pub fn admits(self, access: Access) -> bool {
        self.0 & access.0 == access.0
    }

    pub(super) fn has(self, class: usize) -> bool {
        self.0 >> class & 1 == 1
    }

    /// The set as bits: read 1, write 2, delete 4.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The set of the three lowest bits.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }
}

/// Reads "none" or letters in any order, each once.
fn parse(text: &str) -> Result<u8, InvalidClasses> {
    if text == EMPTY {
        return Ok(0);
    }
    let mut bits = 0;
    for letter in text.chars() {
        let class = LETTERS.iter().position(|known| *known == letter).ok_or(InvalidClasses)?;
        if bits >> class & 1 == 1 {
            return Err(InvalidClasses);
        }
        bits |= 1 << class;
    }
    if bits == 0 { Err(InvalidClasses) } else { Ok(bits) }
}

/// Writes what [`parse`] reads.
fn write(bits: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if bits == 0 {
        return f.pad(EMPTY);
    }
    let letters = LETTERS.iter().enumerate().filter(|(class, _)| bits >> class & 1 == 1);
    f.pad(&letters.map(|(_, letter)| letter).collect::<String>())
}

impl FromStr for Access {
    type Err = InvalidClasses;

    fn from_str(text: &str) -> Result<Self, InvalidClasses> {
        parse(text).map(Self)
    }
}

impl FromStr for ShareMode {
    type Err = InvalidClasses;

    fn from_str(text: &str) -> Result<Self, InvalidClasses> {
        parse(text).map(Self)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

impl fmt::Display for ShareMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({self})")
    }
}

impl fmt::Debug for ShareMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShareMode({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_sets_are_the_same_thing() {
        let all = [
            ("none", Access::NONE, ShareMode::NONE),
            ("r", Access::READ, ShareMode::READ),
            ("w", Access::WRITE, ShareMode::WRITE),
            ("rw", Access::READ_WRITE, ShareMode::READ_WRITE),
            ("d", Access::DELETE, ShareMode::DELETE),
            ("rd", Access::READ.union(Access::DELETE), ShareMode::READ.union(ShareMode::DELETE)),
            ("wd", Access::WRITE.union(Access::DELETE), ShareMode::WRITE.union(ShareMode::DELETE)),
            ("rwd", Access::ALL, ShareMode::ALL),
        ];
        for (text, access, share) in all {
            assert_eq!(text.parse(), Ok(access));
            assert_eq!(text.parse(), Ok(share));
            assert_eq!((access.to_string(), share.to_string()), (text.to_owned(), text.to_owned()));
        }
        assert_eq!("dwr".parse(), Ok(Access::ALL));
        assert_eq!(format!("{:4}|", ShareMode::READ), "r   |");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "x", "rx", "rr", "R", "all", "none r", "r,w", "rnone"] {
            assert_eq!(text.parse::<Access>(), Err(InvalidClasses), "{text}");
            assert_eq!(text.parse::<ShareMode>(), Err(InvalidClasses), "{text}");
        }
    }

    #[test]
    fn sets_compare_by_class() {
        assert!(Access::READ_WRITE.contains(Access::WRITE) && Access::READ.contains(Access::NONE));
        assert!(!Access::READ_WRITE.contains(Access::DELETE) && !Access::READ.contains(Access::READ_WRITE));
        assert!(ShareMode::ALL.contains(ShareMode::READ) && !ShareMode::READ.contains(ShareMode::ALL));
        assert!(ShareMode::NONE.admits(Access::NONE) && ShareMode::READ.admits(Access::READ));
        assert!(!ShareMode::READ.admits(Access::READ_WRITE) && !ShareMode::WRITE.admits(Access::READ));
        assert!(Access::NONE.is_empty() && !Access::DELETE.is_empty());
    }
}
