//! The blob service's lease: the write lock of a blob, the delete lock of a container.
//!
//! A [`Lease`] is stored beside the blob or container it guards and is only a record; what it means now is a
//! function of the time given. It follows the service as documented, not the emulators where they differ.
//!
//! ```text
//!                          renew, change, acquire by the holder
//!                                     +----+
//!               acquire               v    |      the duration ends
//!  AVAILABLE ---------------------->  LEASED  -------------------------> EXPIRED
//!    ^   ^                            |    |      <------------------------+ |
//!    |   |                      break |    | break 0;       renew, acquire   | break
//!    |   |                            v    | break of an                     |
//!    |   |                     BREAKING    | infinite lease                  |
//!    |   |     the period ends    |        v                                 |
//!    |   |     or a break 0       +----> BROKEN <----------------------------+
//!    |   |                                 |
//!    |   |                                 +--- acquire ---> LEASED
//!    |   +--- release, from every other state, with the lease's id
//!    +------- modified, from EXPIRED and BROKEN (blobs only)
//! ```
//!
//! LEASED and BREAKING are *locked*: a write needs the id. EXPIRED remembers its id, so that a holder who comes late
//! may renew and by that knows that nobody wrote in between: [`Lease::modified`] forgets the id.
//!
//! This module must never read a clock or make up an id; both are arguments.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Moment;

#[cfg(test)]
mod tests;

/// The longest period a break may ask for; longer ones count as this.
pub const MAX_BREAK_SECONDS: u8 = 60;

/// A lease's id: a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseId(pub u128);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        let (a, b, c, d) = (v >> 96, (v >> 80) & 0xffff, (v >> 64) & 0xffff, (v >> 48) & 0xffff);
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}", v & 0xffff_ffff_ffff)
    }
}

/// The text is not a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A lease id must be a GUID, such as 1f812371-a41d-49e6-b123-f4b542e851c5.")]
pub struct InvalidLeaseId;

impl FromStr for LeaseId {
    type Err = InvalidLeaseId;

    /// Reads 32 hex digits, bare or grouped 8-4-4-4-12; the grouped form may stand in braces or parentheses.
    fn from_str(text: &str) -> Result<Self, InvalidLeaseId> {
        let text = text.trim();
        let enclosed = |open, close| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        let digits = match enclosed('{', '}').or_else(|| enclosed('(', ')')) {
            Some(inside) => ungrouped(inside)?,
            None if text.contains('-') => ungrouped(text)?,
            None => text.to_owned(),
        };
        if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(InvalidLeaseId);
        }
        u128::from_str_radix(&digits, 16).map(Self).map_err(|_| InvalidLeaseId)
    }
}

/// The digits of a GUID written 8-4-4-4-12.
fn ungrouped(text: &str) -> Result<String, InvalidLeaseId> {
    let groups: Vec<&str> = text.split('-').collect();
    if groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
        Ok(groups.concat())
    } else {
        Err(InvalidLeaseId)
    }
}

/// How long a lease lasts unless it is renewed: 15 to 60 seconds, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Option<u8>", into = "Option<u8>")]
pub struct LeaseDuration(Option<u8>);

/// The number is not a lease duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A lease lasts 15 to 60 seconds, or for ever.")]
pub struct InvalidLeaseDuration;

impl LeaseDuration {
    /// Lasts until it is released or broken.
    pub const INFINITE: Self = Self(None);

    /// A finite duration: 15 to 60 seconds.
    pub fn seconds(seconds: u8) -> Option<Self> {
        (15..=60).contains(&seconds).then_some(Self(Some(seconds)))
    }

    /// Whether it never ends by itself.
    pub fn is_infinite(self) -> bool {
        self.0.is_none()
    }

    /// The seconds of a finite duration.
    pub fn as_seconds(self) -> Option<u8> {
        self.0
    }
}

impl TryFrom<Option<u8>> for LeaseDuration {
    type Error = InvalidLeaseDuration;

    fn try_from(seconds: Option<u8>) -> Result<Self, InvalidLeaseDuration> {
        seconds.map_or(Some(Self::INFINITE), Self::seconds).ok_or(InvalidLeaseDuration)
    }
}

impl From<LeaseDuration> for Option<u8> {
    fn from(duration: LeaseDuration) -> Self {
        duration.0
    }
}

/// What a lease means at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// Nobody holds it, and it knows no id.
    Available,
    /// Held, and renewable.
    Leased,
    /// Ran out; the last holder may still renew it.
    Expired,
    /// Still held, but will end and cannot be renewed.
    Breaking,
    /// Ended by a break.
    Broken,
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Available => "available",
            Self::Leased => "leased",
            Self::Expired => "expired",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
        })
    }
}

/// Why a lease refused an action or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LeaseRefusal {
    /// Acquire: somebody else holds the lease.
    #[error("There is already a lease present.")]
    AlreadyPresent,
    /// Acquire by the holder of a lease that is being broken.
    #[error("The lease is being broken and cannot be acquired until it is broken.")]
    IsBreakingAndCannotBeAcquired,
    /// Renew of a lease that was or is being broken.
    #[error("The lease has been broken explicitly and cannot be renewed.")]
    IsBrokenAndCannotBeRenewed,
    /// Change of a lease that is being broken.
    #[error("The lease is being broken and its id cannot be changed.")]
    IsBreakingAndCannotBeChanged,
    /// A lease action named another id than the lease has.
    #[error("The lease id given to the lease action is not the id of the lease.")]
    IdMismatchWithLeaseOperation,
    /// A lease action needs a lease and there is none.
    #[error("There is currently no lease to act on.")]
    NotPresentWithLeaseOperation,
    /// A write or delete gave no id though the lease is active.
    #[error("There is currently a lease and no lease id was given.")]
    IdMissing,
    /// An operation on a blob gave another id than the lease has.
    #[error("The lease id given is not the id of the lease on the blob.")]
    IdMismatchWithBlobOperation,
    /// An operation on a blob gave an id though no lease is active.
    #[error("A lease id was given but there is currently no lease on the blob.")]
    NotPresentWithBlobOperation,
    /// An operation on a container gave another id than the lease has.
    #[error("The lease id given is not the id of the lease on the container.")]
    IdMismatchWithContainerOperation,
    /// An operation on a container gave an id though no lease is active.
    #[error("A lease id was given but there is currently no lease on the container.")]
    NotPresentWithContainerOperation,
    /// A copy onto a leased blob needs a lease that cannot run out meanwhile.
    #[error("The lease on the destination of a copy must be infinite.")]
    InfiniteDurationRequired,
}

/// A lease as stored. What it means now is a function of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease(Inner);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Inner {
    #[default]
    Available,
    /// Leased until the duration ends, then expired.
    Leased {
        id: LeaseId,
        duration: LeaseDuration,
        since: Moment,
    },
    /// Breaking before `until`, then broken.
    Breaking {
        id: LeaseId,
        until: Moment,
    },
    Broken {
        id: LeaseId,
    },
}

/// The refusals of operations, which are named after what they act on.
struct Refusals {
    mismatch: LeaseRefusal,
    absent: LeaseRefusal,
}

const BLOB: Refusals = Refusals {
    mismatch: LeaseRefusal::IdMismatchWithBlobOperation,
    absent: LeaseRefusal::NotPresentWithBlobOperation,
};

const CONTAINER: Refusals = Refusals {
    mismatch: LeaseRefusal::IdMismatchWithContainerOperation,
    absent: LeaseRefusal::NotPresentWithContainerOperation,
};

/// What the lease says now.
impl Lease {
    /// A lease as somebody else's store shows it from outside: its state, but neither id nor the time left. The id is
    /// the nil GUID, which nobody holds; a finite lease counts as fresh.
    pub fn observed(state: LeaseState, infinite: bool, now: Moment) -> Self {
        let id = LeaseId(0);
        let longest = LeaseDuration(Some(60));
        Self(match state {
            LeaseState::Available => Inner::Available,
            LeaseState::Leased => {
                let duration = if infinite { LeaseDuration::INFINITE } else { longest };
                Inner::Leased { id, duration, since: now }
            }
            LeaseState::Expired => Inner::Leased { id, duration: longest, since: Moment(i64::MIN) },
            LeaseState::Breaking => Inner::Breaking { id, until: now.after(Duration::from_secs(60)) },
            LeaseState::Broken => Inner::Broken { id },
        })
    }

    /// The state at `now`.
    pub fn state(&self, now: Moment) -> LeaseState {
        let over = self.remaining(now) == Some(Duration::ZERO);
        match self.0 {
            Inner::Available => LeaseState::Available,
            Inner::Leased { .. } if over => LeaseState::Expired,
            Inner::Leased { .. } => LeaseState::Leased,
            Inner::Breaking { .. } if over => LeaseState::Broken,
            Inner::Breaking { .. } => LeaseState::Breaking,
            Inner::Broken { .. } => LeaseState::Broken,
        }
    }

    /// Whether writes need the lease's id.
    pub fn is_locked(&self, now: Moment) -> bool {
        match self.state(now) {
            LeaseState::Leased | LeaseState::Breaking => true,
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => false,
        }
    }

    /// The duration asked for, while leased.
    pub fn duration(&self, now: Moment) -> Option<LeaseDuration> {
        match self.0 {
            Inner::Leased { duration, .. } if self.is_locked(now) => Some(duration),
            Inner::Leased { .. } | Inner::Available | Inner::Breaking { .. } | Inner::Broken { .. } => None,
        }
    }

    /// Who holds it: the id that a write must give.
    pub fn holder(&self, now: Moment) -> Option<LeaseId> {
        self.id().filter(|_| self.is_locked(now))
    }

    /// Whether it ends by itself, or did, and was neither broken nor released.
    pub fn is_timed(&self) -> bool {
        match self.0 {
            Inner::Leased { duration, .. } => !duration.is_infinite(),
            Inner::Available | Inner::Breaking { .. } | Inner::Broken { .. } => false,
        }
    }

    /// The id it remembers, whether or not it still counts.
    fn id(&self) -> Option<LeaseId> {
        match self.0 {
            Inner::Available => None,
            Inner::Leased { id, .. } | Inner::Breaking { id, .. } | Inner::Broken { id } => Some(id),
        }
    }

    /// How long it stays locked by itself; `None` is for ever.
    fn remaining(&self, now: Moment) -> Option<Duration> {
        match self.0 {
            Inner::Available | Inner::Broken { .. } => Some(Duration::ZERO),
            Inner::Leased { duration, since, .. } => {
                let whole = Duration::from_secs(u64::from(duration.as_seconds()?));
                Some(whole.saturating_sub(now.since(since)))
            }
            Inner::Breaking { until, .. } => Some(until.since(now)),
        }
    }
}

/// The actions. A refused action changes nothing.
impl Lease {
    /// Takes the lease under `proposed`. The holder may take it again: that restarts the clock with the new
    /// duration, so an acquire whose answer was lost can be repeated.
    pub fn acquire(
        &mut self,
        now: Moment,
        proposed: LeaseId,
        duration: LeaseDuration,
    ) -> Result<LeaseId, LeaseRefusal> {
        let by_holder = self.id() == Some(proposed);
        match self.state(now) {
            LeaseState::Leased if !by_holder => Err(LeaseRefusal::AlreadyPresent),
            LeaseState::Breaking if by_holder => Err(LeaseRefusal::IsBreakingAndCannotBeAcquired),
            LeaseState::Breaking => Err(LeaseRefusal::AlreadyPresent),
            LeaseState::Leased | LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
                self.0 = Inner::Leased { id: proposed, duration, since: now };
                Ok(proposed)
            }
        }
    }

    /// Restarts the clock with the same duration, also when it ran out and nobody wrote since.
    pub fn renew(&mut self, now: Moment, id: LeaseId) -> Result<LeaseId, LeaseRefusal> {
        self.must_be(id)?;
        match &mut self.0 {
            Inner::Leased { since, .. } => {
                *since = now;
                Ok(id)
            }
            Inner::Breaking { .. } | Inner::Broken { .. } => Err(LeaseRefusal::IsBrokenAndCannotBeRenewed),
            Inner::Available => Err(LeaseRefusal::IdMismatchWithLeaseOperation),
        }
    }

    /// Gives the lease the id `proposed`; the clock runs on. Naming the new id a second time is fine, so a change
    /// whose answer was lost can be repeated.
    pub fn change(&mut self, now: Moment, id: LeaseId, proposed: LeaseId) -> Result<LeaseId, LeaseRefusal> {
        match self.state(now) {
            LeaseState::Available | LeaseState::Expired | LeaseState::Broken => {
                return Err(LeaseRefusal::NotPresentWithLeaseOperation);
            }
            LeaseState::Breaking => {
                self.must_be(id)?;
                return Err(LeaseRefusal::IsBreakingAndCannotBeChanged);
            }
            LeaseState::Leased => self.must_be(id).or_else(|_| self.must_be(proposed))?,
        }
        if let Inner::Leased { id, .. } = &mut self.0 {
            *id = proposed;
        }
        Ok(proposed)
    }

    /// Gives the lease up, in whatever state it is.
    pub fn release(&mut self, _now: Moment, id: LeaseId) -> Result<(), LeaseRefusal> {
        self.must_be(id)?;
        self.0 = Inner::Available;
        Ok(())
    }

    /// Ends somebody's lease after at most `period` seconds, or what is left if that is less. Without a period a
    /// finite lease runs to its end and an infinite one ends at once. Answers the seconds left, rounded up: after
    /// that many the lease is surely gone.
    pub fn break_(&mut self, now: Moment, period: Option<u8>) -> Result<u64, LeaseRefusal> {
        let id = self.id().ok_or(LeaseRefusal::NotPresentWithLeaseOperation)?;
        let asked = period.map(|seconds| Duration::from_secs(u64::from(seconds.min(MAX_BREAK_SECONDS))));
        let left = match self.remaining(now) {
            None => asked.unwrap_or(Duration::ZERO),
            Some(rest) => asked.map_or(rest, |asked| asked.min(rest)),
        };
        self.0 = if left.is_zero() {
            Inner::Broken { id }
        } else {
            Inner::Breaking { id, until: now.after(left) }
        };
        Ok(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// A write to the blob succeeded: a lease that is no longer active forgets its id, an active one stays. Never
    /// called for a container, which remembers until it is leased again.
    pub fn modified(&mut self, now: Moment) {
        if !self.is_locked(now) {
            self.0 = Inner::Available;
        }
    }

    /// A renewal of it may have been forgotten: a finite lease that is not known to have ended starts again, whether
    /// it ran out or not. Answers whether it did.
    pub fn count_anew(&mut self, now: Moment) -> bool {
        match &mut self.0 {
            Inner::Leased { duration, since, .. } if !duration.is_infinite() => {
                *since = now;
                true
            }
            Inner::Leased { .. } | Inner::Available | Inner::Breaking { .. } | Inner::Broken { .. } => false,
        }
    }

    fn must_be(&self, id: LeaseId) -> Result<(), LeaseRefusal> {
        if self.id() == Some(id) { Ok(()) } else { Err(LeaseRefusal::IdMismatchWithLeaseOperation) }
    }
}

/// Whether an operation on what the lease guards may go on.
impl Lease {
    /// Before a write or delete of a blob, with the id its caller gave.
    pub fn check_write(&self, now: Moment, id: Option<LeaseId>) -> Result<(), LeaseRefusal> {
        self.check_given(now, id, &BLOB)?;
        self.check_missing(now, id)
    }

    /// Before a read of a blob: needs no id, but one that is given must be the active one.
    pub fn check_read(&self, now: Moment, id: Option<LeaseId>) -> Result<(), LeaseRefusal> {
        self.check_given(now, id, &BLOB)
    }

    /// Before a copy that goes on in the background onto a blob: a write whose lease must not run out meanwhile.
    pub fn check_copy_target(&self, now: Moment, id: Option<LeaseId>) -> Result<(), LeaseRefusal> {
        self.check_write(now, id)?;
        if self.is_locked(now) && self.remaining(now).is_some() {
            return Err(LeaseRefusal::InfiniteDurationRequired);
        }
        Ok(())
    }

    /// Before the delete of a container, the only container operation that a lease guards.
    pub fn check_container_delete(&self, now: Moment, id: Option<LeaseId>) -> Result<(), LeaseRefusal> {
        self.check_given(now, id, &CONTAINER)?;
        self.check_missing(now, id)
    }

    /// Before any other operation on a container: needs no id, but one that is given must be the active one.
    pub fn check_container_use(&self, now: Moment, id: Option<LeaseId>) -> Result<(), LeaseRefusal> {
        self.check_given(now, id, &CONTAINER)
    }

    fn check_given(&self, now: Moment, id: Option<LeaseId>, refusals: &Refusals) -> Result<(), LeaseRefusal> {
        match (id, self.holder(now)) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(refusals.absent),
            (Some(given), Some(holder)) if given == holder => Ok(()),
            (Some(_), Some(_)) => Err(refusals.mismatch),
        }
    }

    fn check_missing(&self, now: Moment, id: Option<LeaseId>) -> Result<(), LeaseRefusal> {
        if id.is_none() && self.is_locked(now) { Err(LeaseRefusal::IdMissing) } else { Ok(()) }
    }
}
