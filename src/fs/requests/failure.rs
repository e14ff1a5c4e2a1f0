//! Why a call failed, and who was in the way.

use std::fmt;

use super::super::error::FsError;
use super::super::gate::OpenInfo;
use super::super::status::HolderLine;

/// What a call answers.
pub type Answer<T> = Result<T, Failure>;

/// So many holders are named in a message.
const NAMED_MAX: usize = 3;

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// What was wrong.
    pub error: FsError,
    /// The opens that stood in the way, if that was it.
    pub holders: Vec<OpenInfo>,
}

impl Failure {
    /// One line per open that stood in the way. Reads /proc.
    pub fn held_by(&self) -> Vec<HolderLine> {
        self.holders.iter().take(NAMED_MAX).map(HolderLine::of).collect()
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self { error, holders: Vec::new() }
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        FsError::from(error).into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        for line in self.held_by() {
            write!(f, "; held by {line}")?;
        }
        match self.holders.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Failure {}
