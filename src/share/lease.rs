//! The blob service's lease (types; the state machine follows).

use std::time::Duration;

use super::Moment;

/// A lease's id: a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct LeaseId(pub u128);

/// How long a lease lasts unless it is renewed: 15 to 60 seconds, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeaseDuration(Option<u8>);

/// A lease as stored. What it means now is a function of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lease(Inner);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Inner {
    #[default]
    Available,
    Leased {
        id: LeaseId,
        duration: LeaseDuration,
        since: Moment,
    },
    Breaking {
        id: LeaseId,
        until: Moment,
    },
}

/// Why a lease refused an action or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused by a lease")]
pub enum LeaseRefusal {}

const _: Duration = Duration::ZERO;
