//! How a share protects its commits from writers elsewhere.
//!
//! | strategy | an ordinary open for writing | its commits |
//! |---|---|---|
//! | optimistic | takes nothing | only onto the version it began with |
//! | pessimistic | takes the blob's lease | with the lease, onto the version it began with |
//! | last-writer-wins | takes nothing | always |
//!
//! In all three an exclusive open takes the lease: one that writes and lets nobody else write.
//!
//! Only decides; `leases` and `commit` act.

use std::fmt;
use std::str::FromStr;

use crate::share::lease::LeaseDuration;
use crate::share::{Access, ShareMode};

use super::gate::Claim;

/// Longest part of a conflict copy's name that names the host.
const HOST_CHARS_MAX: usize = 32;

/// How long a lease lasts unless somebody asked for something else.
const DEFAULT_LEASE_SECONDS: u8 = 60;

/// Who wins when two writers meet at the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// The first to commit; the other one is told, and keeps its content beside.
    #[default]
    Optimistic,
    /// The first to open; the other one is refused.
    Pessimistic,
    /// The last to commit, and nobody is told.
    LastWriterWins,
}

/// The text names no strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of optimistic, pessimistic, last-writer-wins")]
pub struct InvalidConcurrency;

impl Concurrency {
    /// All strategies, for help and messages.
    pub const ALL: [Self; 3] = [Self::Optimistic, Self::Pessimistic, Self::LastWriterWins];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Optimistic => "optimistic",
            Self::Pessimistic => "pessimistic",
            Self::LastWriterWins => "last-writer-wins",
        }
    }

    /// Whether an open with this claim takes the blob's lease.
    pub fn takes_lease(self, claim: Claim) -> bool {
        let exclusive = !claim.share.contains(ShareMode::WRITE);
        claim.access.contains(Access::WRITE) && (exclusive || self == Self::Pessimistic)
    }

    /// Whether a commit goes only onto the version that its content began with.
    pub fn checks_version(self) -> bool {
        match self {
            Self::Optimistic | Self::Pessimistic => true,
            Self::LastWriterWins => false,
        }
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Concurrency {
    type Err = InvalidConcurrency;

    fn from_str(text: &str) -> Result<Self, InvalidConcurrency> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text).ok_or(InvalidConcurrency)
    }
}

/// What an engine needs to know about other writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fencing {
    /// Who wins.
    pub concurrency: Concurrency,
    /// How long a lease lasts unless it is renewed.
    pub lease: LeaseDuration,
    /// The name of this machine, for the names of conflict copies.
    pub host: String,
}

impl Default for Fencing {
    fn default() -> Self {
        let lease = LeaseDuration::seconds(DEFAULT_LEASE_SECONDS).unwrap_or(LeaseDuration::INFINITE);
        Self { concurrency: Concurrency::default(), lease, host: this_host() }
    }
}

/// The machine's name as far as it is good for a file name.
fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let good = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // Without the domain, as people name their machines.
    let short: String =
        name.trim().split('.').next().unwrap_or_default().chars().filter(good).take(HOST_CHARS_MAX).collect();
    if short.is_empty() { "localhost".to_owned() } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_strategies_are_the_same_thing() {
        for strategy in Concurrency::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        assert_eq!("first-wins".parse::<Concurrency>(), Err(InvalidConcurrency));
        assert_eq!(Fencing::default().lease.as_seconds(), Some(60));
    }

    #[test]
    fn exclusive_opens_take_the_lease_whatever_the_strategy() {
        let claim = |access, share| Claim { access, share };
        for (access, share, lease) in [
            (Access::WRITE, ShareMode::NONE, [true, true, true]),
            (Access::READ_WRITE, ShareMode::READ, [true, true, true]),
            (Access::WRITE, ShareMode::ALL, [false, true, false]),
            (Access::READ, ShareMode::NONE, [false, false, false]),
            (Access::NONE, ShareMode::NONE, [false, false, false]),
            (Access::DELETE, ShareMode::NONE, [false, false, false]),
        ] {
            let taken = Concurrency::ALL.map(|strategy| strategy.takes_lease(claim(access, share)));
            assert_eq!(taken, lease, "{access:?} {share:?}");
        }
    }

    #[test]
    fn the_host_is_good_for_a_file_name() {
        let host = this_host();
        assert!(!host.is_empty() && host.len() <= HOST_CHARS_MAX && !host.contains(['/', '.']));
    }
}
