//! Small things written for people: ages, times, users, names that are safe on a terminal.

use std::time::SystemTime;

use nix::unistd::{Uid, User};

use crate::share::Moment;

/// The name of a user, or the number if there is none.
pub(super) fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => uid.to_string(),
    }
}

/// How long ago something was, in one unit: `0 s`, `59 s`, `3 min`, `2 h`, `5 d`.
pub(super) fn age(now_ms: i64, then_ms: i64) -> String {
    let seconds = now_ms.saturating_sub(then_ms).max(0) / 1000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{} min", seconds / 60),
        3_600..=86_399 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `2026-11-17T11:08:04Z`.
pub(super) fn utc(ms: i64) -> String {
    crate::fs::utc(Moment(ms.saturating_mul(1_000_000)))
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    Moment::from(SystemTime::now()).0 / 1_000_000
}

/// A file name may hold anything; what could steer a terminal is shown as an escape.
pub(super) fn printable(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit_and_are_never_negative() {
        let ages = [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (3_600_000, "1 h"), (86_400_000, "1 d")];
        for (ms, text) in ages {
            assert_eq!(age(ms + 5, 5), text);
        }
        assert_eq!(age(0, 10_000), "0 s");
        assert_eq!(age(i64::MAX, i64::MIN), "106751991167 d");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(1_794_913_684_999), "2026-11-17T11:08:04Z");
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[31m\nä"), "a\\u{1b}[31m\\nä");
    }

    #[test]
    fn root_has_a_name_and_others_a_number() {
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "4000000000");
    }
}
