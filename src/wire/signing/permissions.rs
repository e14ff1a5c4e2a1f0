//! The letters of `sp`: what a SAS or a stored policy permits.

use std::fmt;

/// One permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// `r`
    Read,
    /// `a`
    Add,
    /// `c`
    Create,
    /// `w`
    Write,
    /// `d`
    Delete,
    /// `x`
    DeleteVersion,
    /// `y`
    PermanentDelete,
    /// `l`
    List,
    /// `t`
    Tags,
    /// `f`
    Filter,
    /// `m`
    Move,
    /// `e`
    Execute,
    /// `o`
    Ownership,
    /// `p`
    ModifyPermissions,
    /// `i`
    Immutability,
    /// `u`
    Update,
}

use Permission as P;

/// All letters, in the order in which the service writes them.
const LETTERS: [(char, Permission); 16] = [
    ('r', P::Read),
    ('a', P::Add),
    ('c', P::Create),
    ('w', P::Write),
    ('d', P::Delete),
    ('x', P::DeleteVersion),
    ('y', P::PermanentDelete),
    ('l', P::List),
    ('t', P::Tags),
    ('f', P::Filter),
    ('m', P::Move),
    ('e', P::Execute),
    ('o', P::Ownership),
    ('p', P::ModifyPermissions),
    ('i', P::Immutability),
    ('u', P::Update),
];

/// A set of permissions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Permissions(u32);

impl Permissions {
    /// None at all.
    pub const NONE: Self = Self(0);

    /// These.
    pub const fn of(list: &[Permission]) -> Self {
        let mut set = 0;
        let mut index = 0;
        while index < list.len() {
            set |= 1 << list[index] as u32;
            index += 1;
        }
        Self(set)
    }

    /// Reads letters in any order. `None`: one of them means nothing.
    pub fn parse(text: &str) -> Option<Self> {
        text.chars().try_fold(Self::NONE, |set, letter| {
            let (_, permission) = LETTERS.iter().find(|(known, _)| *known == letter)?;
            Some(Self(set.0 | Self::of(&[*permission]).0))
        })
    }

    /// Whether it has at least one of these.
    pub fn has_any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    /// Whether it has this one.
    pub fn has(self, permission: Permission) -> bool {
        self.has_any(Self::of(&[permission]))
    }
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LETTERS
            .iter()
            .filter(|(_, permission)| self.has(*permission))
            .try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({self})")
    }
}
