//! When a request is sent again, and how long to wait before. Pure: time and dice are arguments.

use std::time::{Duration, Instant};

use crate::wire::ErrorCode;

/// How patient the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent at most.
    pub attempts: u32,
    /// The first wait; every further one is twice as long.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// No attempt starts later than this after the first.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 6,
            base: Duration::from_millis(250),
            cap: Duration::from_secs(20),
            deadline: Duration::from_secs(120),
        }
    }
}

/// Whether a request may be sent again when it is not known whether the first one was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It may: twice has the effect of once, or the caller can tell.
    Safe,
    /// It must not.
    Never,
}

/// How an attempt ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It cannot be sent as it is, or there is no right to send it by.
    Unsendable,
    /// It was never sent: nobody answers there.
    NotSent,
    /// It was sent, and there is no answer.
    Lost,
    /// The service answered.
    Answered {
        status: u16,
        code: Option<ErrorCode>,
        /// How long the service asks to wait.
        after: Option<Duration>,
    },
}

impl Outcome {
    /// Whether the request may have been carried out all the same.
    pub(super) fn may_have_happened(self) -> bool {
        match self {
            Outcome::Unsendable | Outcome::NotSent => false,
            Outcome::Lost => true,
            Outcome::Answered { status, .. } => matches!(status, 408 | 500 | 502 | 504),
        }
    }

    /// Whether the service answered with this status.
    pub(super) fn is_status(self, wanted: u16) -> bool {
        match self {
            Outcome::Unsendable | Outcome::NotSent | Outcome::Lost => false,
            Outcome::Answered { status, .. } => status == wanted,
        }
    }

    /// Whether the service asks us to be slower. Then we are, and do not give up for it.
    pub(super) fn is_throttled(self) -> bool {
        self.is_status(503) || self.is_status(429)
    }

    fn is_transient(self) -> bool {
        match self {
            Outcome::Unsendable => false,
            Outcome::NotSent | Outcome::Lost => true,
            Outcome::Answered { status, code, .. } => match status {
                408 | 429 | 500 | 502 | 503 | 504 => true,
                409 => matches!(code, Some(ErrorCode::ContainerBeingDeleted | ErrorCode::SystemInUse)),
                // It was changed on its way.
                400 => matches!(code, Some(ErrorCode::Md5Mismatch | ErrorCode::Crc64Mismatch)),
                _ => false,
            },
        }
    }
}

impl RetryPolicy {
    /// How long to wait before attempt number `next` (the first is 0); `None`: give up. `dice` is random, from 0
    /// to 1, so that many clients do not come back at the same moment.
    pub(super) fn wait(
        &self,
        next: u32,
        elapsed: Duration,
        outcome: Outcome,
        repeat: Repeat,
        dice: f64,
    ) -> Option<Duration> {
        let harmless = !outcome.may_have_happened() || repeat == Repeat::Safe;
        if next >= self.attempts || !harmless || !outcome.is_transient() {
            return None;
        }
        let doubled = self.base.saturating_mul(1_u32.checked_shl(next.saturating_sub(1)).unwrap_or(u32::MAX));
        let own = doubled.min(self.cap).mul_f64(0.5 + 0.5 * dice.clamp(0.0, 1.0));
        let wait = match outcome {
            Outcome::Answered { after: Some(after), .. } => own.max(after),
            Outcome::Answered { .. } | Outcome::Unsendable | Outcome::NotSent | Outcome::Lost => own,
        };
        (elapsed + wait <= self.deadline).then_some(wait)
    }
}

/// How many retries all requests together may make: a service that is away is not asked by everybody all the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryBudget {
    left: f64,
    at: Instant,
}

impl RetryBudget {
    /// The most that is saved up.
    const MOST: f64 = 200.0;
    /// What a second and what a success give back.
    const PER_SECOND: f64 = 10.0;
    const PER_SUCCESS: f64 = 0.5;

    /// With nothing spent yet.
    pub(super) fn full(now: Instant) -> Self {
        Self { left: Self::MOST, at: now }
    }

    /// A request succeeded.
    pub(super) fn gains(&mut self) {
        self.left = (self.left + Self::PER_SUCCESS).min(Self::MOST);
    }

    /// Whether there may be another retry now.
    pub(super) fn takes(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * Self::PER_SECOND).min(Self::MOST);
        self.at = now;
        let enough = self.left >= 1.0;
        self.left -= if enough { 1.0 } else { 0.0 };
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 4,
        base: Duration::from_secs(1),
        cap: Duration::from_secs(3),
        deadline: Duration::from_secs(10),
    };

    fn answered(status: u16) -> Outcome {
        Outcome::Answered { status, code: None, after: None }
    }

    fn wait(next: u32, outcome: Outcome, repeat: Repeat) -> Option<u64> {
        POLICY.wait(next, Duration::ZERO, outcome, repeat, 1.0).map(|wait| wait.as_secs())
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let waits: Vec<_> = (1..=4).map(|next| wait(next, Outcome::NotSent, Repeat::Never)).collect();
        assert_eq!(waits, [Some(1), Some(2), Some(3), None]);
        let low = POLICY.wait(1, Duration::ZERO, Outcome::NotSent, Repeat::Never, 0.0);
        assert_eq!(low, Some(Duration::from_millis(500)));
    }

    #[test]
    fn only_what_is_harmless_is_repeated() {
        for (outcome, safe, never) in [
            (Outcome::Unsendable, false, false),
            (Outcome::NotSent, true, true),
            (Outcome::Lost, true, false),
            (answered(500), true, false),
            (answered(503), true, true),
            (answered(429), true, true),
            (answered(404), false, false),
            (answered(409), false, false),
            (answered(412), false, false),
            (answered(403), false, false),
        ] {
            assert_eq!(wait(1, outcome, Repeat::Safe).is_some(), safe, "{outcome:?}");
            assert_eq!(wait(1, outcome, Repeat::Never).is_some(), never, "{outcome:?}");
        }
        let busy =
            Outcome::Answered { status: 409, code: Some(ErrorCode::ContainerBeingDeleted), after: None };
        assert!(wait(1, busy, Repeat::Never).is_some());
    }

    #[test]
    fn all_requests_together_have_a_budget() {
        let start = Instant::now();
        let mut budget = RetryBudget::full(start);
        assert!((0..200).all(|_| budget.takes(start)));
        assert!(!budget.takes(start), "spent");
        budget.gains();
        assert!(!budget.takes(start), "one success is half a retry");
        budget.gains();
        assert!(budget.takes(start) && !budget.takes(start));
        let later = start + Duration::from_secs(1);
        assert_eq!((0..20).filter(|_| budget.takes(later)).count(), 10);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..300).filter(|_| budget.takes(much_later)).count(), 200, "not saved up for ever");
    }

    #[test]
    fn the_service_is_obeyed_within_the_deadline() {
        let after = |seconds| Outcome::Answered {
            status: 503,
            code: None,
            after: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(wait(1, after(7), Repeat::Never), Some(7));
        assert_eq!(wait(1, after(11), Repeat::Never), None);
        let late = POLICY.wait(1, Duration::from_secs(10), Outcome::NotSent, Repeat::Never, 1.0);
        assert_eq!(late, None);
    }
}
