//! Dates as the protocol writes them: RFC 1123 in headers, ISO 8601 in SAS, XML and snapshot ids.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::{Date, Month, PrimitiveDateTime, Time};

use crate::share::Moment;

/// The last second that four digits of a year can say.
const LAST_SECOND: i64 = 253_402_300_799;
const SECOND: i64 = 1_000_000_000;
/// A snapshot id counts in units of 100 ns.
const TICK: i64 = 100;

/// As in `Last-Modified`: `Tue, 17 Nov 2026 11:07:13 GMT`. Whole seconds, rounded down; before 1970 is 1970.
pub fn http(moment: Moment) -> String {
    let seconds = u64::try_from(moment.0.div_euclid(SECOND)).unwrap_or(0);
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Reads a date of a header, in any of the forms HTTP allows.
pub fn parse_http(text: &str) -> Option<Moment> {
    let time: SystemTime = httpdate::parse_http_date(text).ok()?;
    let seconds = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?;
    seconds.checked_mul(SECOND).map(Moment)
}

/// With seven digits behind the second, as snapshot ids and XML have it: `2026-11-17T11:07:13.1234567Z`.
pub fn iso_ticks(moment: Moment) -> String {
    let (date, nanos) = split(moment);
    format!("{date}.{:07}Z", nanos / TICK)
}

/// Whole seconds, as SAS has it: `2026-11-17T11:07:13Z`.
pub fn iso_seconds(moment: Moment) -> String {
    let (date, _) = split(moment);
    format!("{date}Z")
}

/// Date and time without a fraction, and the nanoseconds left.
fn split(moment: Moment) -> (String, i64) {
    let seconds = moment.0.div_euclid(SECOND).min(LAST_SECOND);
    let at = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    (text, moment.0.rem_euclid(SECOND))
}

/// Reads the ISO 8601 forms of SAS and access policies: a day, or with `Thh:mm`, `:ss` and up to seven digits of a
/// fraction, in UTC (`Z`) or with an offset (`+01:00`). A day alone is its first moment.
pub fn parse_iso(text: &str) -> Option<Moment> {
    let mut rest = Cursor(text.as_bytes());
    let year = rest.number(4)?;
    rest.byte(b'-')?;
    let month = Month::try_from(u8::try_from(rest.number(2)?).ok()?).ok()?;
    rest.byte(b'-')?;
    let day = u8::try_from(rest.number(2)?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, day).ok()?;
    if rest.0.is_empty() {
        return moment(date, Time::MIDNIGHT, 0, 0);
    }
    rest.byte(b'T')?;
    let hour = u8::try_from(rest.number(2)?).ok()?;
    rest.byte(b':')?;
    let minute = u8::try_from(rest.number(2)?).ok()?;
    let mut second = 0;
    let mut nanos = 0;
    if rest.byte(b':').is_some() {
        second = u8::try_from(rest.number(2)?).ok()?;
        if rest.byte(b'.').is_some() {
            nanos = rest.fraction()?;
        }
    }
    let offset = rest.offset()?;
    moment(date, Time::from_hms(hour, minute, second).ok()?, nanos, offset)
}

/// A snapshot id: exactly the form of [`iso_ticks`].
pub fn parse_ticks(text: &str) -> Option<Moment> {
    parse_iso(text).filter(|moment| iso_ticks(*moment) == text)
}

/// This moment, rounded down to what a snapshot id can say.
#[must_use]
pub fn to_ticks(moment: Moment) -> Moment {
    Moment(moment.0.div_euclid(TICK).saturating_mul(TICK))
}

fn moment(date: Date, time: Time, nanos: i64, offset_minutes: i64) -> Option<Moment> {
    let seconds = PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp() - offset_minutes * 60;
    seconds.checked_mul(SECOND)?.checked_add(nanos).map(Moment)
}

/// What is left of a text.
struct Cursor<'t>(&'t [u8]);

impl Cursor<'_> {
    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[wanted])?;
        Some(())
    }

    fn number(&mut self, digits: usize) -> Option<u32> {
        let (head, tail) = self.0.split_at_checked(digits)?;
        self.0 = tail;
        head.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
    }

    /// One to nine digits as nanoseconds.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let scale = 10_i64.pow(9_u32.checked_sub(u32::try_from(digits).ok()?)?);
        (digits > 0).then(|| self.number(digits))?.map(|value| i64::from(value) * scale)
    }

    /// `Z` or an offset, and then the end; the minutes ahead of UTC.
    fn offset(&mut self) -> Option<i64> {
        if self.0 == b"Z" {
            return Some(0);
        }
        let sign = match self.byte(b'+') {
            Some(()) => 1,
            None => self.byte(b'-').map(|()| -1)?,
        };
        let hours = i64::from(self.number(2)?);
        self.byte(b':')?;
        let minutes = i64::from(self.number(2)?);
        (self.0.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: Moment = Moment(1_794_917_233_123_456_789);

    #[test]
    fn dates_of_headers() {
        assert_eq!(http(NOON), "Tue, 17 Nov 2026 12:07:13 GMT");
        assert_eq!(parse_http("Tue, 17 Nov 2026 12:07:13 GMT"), Some(Moment(1_794_917_233_000_000_000)));
        assert_eq!(parse_http("yesterday"), None);
        assert_eq!(http(Moment(-5)), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn iso_forms() {
        assert_eq!(iso_ticks(NOON), "2026-11-17T12:07:13.1234567Z");
        assert_eq!(iso_seconds(NOON), "2026-11-17T12:07:13Z");
        let seconds = |text: &str| parse_iso(text).map(|moment| moment.0 / SECOND);
        assert_eq!(seconds("2026-11-17"), Some(1_794_873_600));
        assert_eq!(seconds("2026-11-17T12:07Z"), Some(1_794_917_220));
        assert_eq!(seconds("2026-11-17T12:07:13Z"), Some(1_794_917_233));
        assert_eq!(seconds("2026-11-17T13:07:13+01:00"), Some(1_794_917_233));
        assert_eq!(parse_iso("2026-11-17T12:07:13.1234567Z"), Some(to_ticks(NOON)));
        for bad in [
            "",
            "2026",
            "2026-02-30",
            "2026-11-17T",
            "2026-11-17T12:07",
            "2026-11-17T12:07:13",
            "2026-11-17Z",
            "2026-11-17T25:00Z",
            "2026-11-17T12:07:13.Z",
            "2026-11-17T12:07:13.1234567890Z",
            "2026-11-17T12:07ZZ",
        ] {
            assert_eq!(parse_iso(bad), None, "{bad}");
        }
        assert_eq!(parse_ticks("2026-11-17T12:07:13Z"), None);
    }

    proptest! {
        #[test]
        fn snapshot_ids_come_back(nanos in 0_i64..=i64::MAX) {
            let ticks = to_ticks(Moment(nanos));
            prop_assert_eq!(parse_ticks(&iso_ticks(ticks)), Some(ticks));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = (parse_iso(&text), parse_ticks(&text), parse_http(&text));
        }

        #[test]
        fn nearly_a_date_is_read_or_refused(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.+-]{0,24}Z?)?") {
            let _ = parse_iso(&text);
        }
    }
}
