//! What an operation needs from a signed URL or from a public container.

use super::permissions::{Permission, Permissions};

/// What an operation is about; the letters of `srt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The service: `s`.
    Service,
    /// A container: `c`.
    Container,
    /// A blob: `o`.
    Object,
}

impl Level {
    /// Its letter in `srt`.
    pub(super) fn letter(self) -> char {
        match self {
            Level::Service => 's',
            Level::Container => 'c',
            Level::Object => 'o',
        }
    }
}

/// Which public access lets anybody do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Public {
    /// None.
    Never,
    /// Access to blobs whose names are known.
    Blob,
    /// Access to the container.
    Container,
}

/// What an operation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it is about.
    pub level: Level,
    /// One permission of each of these sets.
    pub permissions: Vec<Permissions>,
    /// Whether a SAS of a container or blob can permit it at all.
    pub by_service_sas: bool,
    /// Which public access permits it.
    pub public: Public,
}

impl Need {
    /// One of these permissions, for an operation on a blob. SAS of all kinds can give it.
    pub fn blob(any_of: &[Permission]) -> Self {
        Self {
            level: Level::Object,
            permissions: vec![Permissions::of(any_of)],
            by_service_sas: true,
            public: Public::Never,
        }
    }

    /// One of these permissions, for an operation on a container. Only an account SAS can give it.
    pub fn container(any_of: &[Permission]) -> Self {
        Self { level: Level::Container, by_service_sas: false, ..Self::blob(any_of) }
    }

    /// One of these permissions, for an operation on the service. Only an account SAS can give it.
    pub fn service(any_of: &[Permission]) -> Self {
        Self { level: Level::Service, ..Self::container(any_of) }
    }

    /// Nothing but a key will do.
    pub fn key_only(level: Level) -> Self {
        Self { level, permissions: vec![Permissions::NONE], by_service_sas: false, public: Public::Never }
    }

    /// And one of these too.
    #[must_use]
    pub fn and(mut self, any_of: &[Permission]) -> Self {
        self.permissions.push(Permissions::of(any_of));
        self
    }

    /// A SAS of the container can give it too.
    #[must_use]
    pub fn or_by_service_sas(mut self) -> Self {
        self.by_service_sas = true;
        self
    }

    /// This public access permits it too.
    #[must_use]
    pub fn or_public(mut self, public: Public) -> Self {
        self.public = public;
        self
    }
}
