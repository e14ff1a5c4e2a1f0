//! Points in time, passed in by whoever has a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time: nanoseconds since 1970. Negative before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Moment(pub i64);

impl Moment {
    /// This moment and `duration` more; stops at the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long it is from `earlier` to this moment; zero if it is not earlier.
    pub fn since(self, earlier: Moment) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0)).map_or(Duration::ZERO, Duration::from_nanos)
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX)),
            Err(before) => Self(i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos)),
        }
    }
}

impl From<Moment> for SystemTime {
    fn from(moment: Moment) -> Self {
        let distance = Duration::from_nanos(moment.0.unsigned_abs());
        if moment.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }
}
