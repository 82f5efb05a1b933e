//! Timestamps and durations, parsed and formatted as in Go.

use crate::error::{Error, Result};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// 0001-01-01T00:00:00Z in seconds since 1970 (`minUnixTime` in cel-go's `common/types/timestamp.go`).
const MIN_SECONDS: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z in seconds since 1970 (`maxUnixTime`).
const MAX_SECONDS: i64 = 253_402_300_799;

const OVERFLOW: Error = Error::fixed("timestamp overflow");
const INT_OVERFLOW: Error = Error::fixed("integer overflow");

/// A timestamp between the years 1 and 9999, with the UTC offset of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
    /// UTC offset in seconds, positive to the east.
    offset: i32,
}

/// A date and a time of day.
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// Counted from 1.
    pub(crate) month: u8,
    /// Counted from 1.
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    /// Counted from 0.
    pub(crate) day_of_year: i64,
    /// Counted from 0, which is Sunday.
    pub(crate) weekday: i64,
}

impl Timestamp {
    pub(crate) fn new(seconds: i64, nanoseconds: u32, offset: i32) -> Result<Self> {
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            return Err(OVERFLOW);
        }
        Ok(Self { seconds, nanoseconds, offset })
    }

    /// Returns the seconds since 1970.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds within the second.
    pub fn nanoseconds(&self) -> u32 {
        self.nanoseconds
    }

    pub(crate) fn instant(&self) -> (i64, u32) {
        (self.seconds, self.nanoseconds)
    }

    pub(crate) fn same_instant(&self, other: &Self) -> bool {
        self.instant() == other.instant()
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.instant() == (MIN_SECONDS, 0)
    }

    /// Returns the date and time of day at a UTC offset in seconds.
    pub(crate) fn civil(&self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        let part = |value: i64| u8::try_from(value).unwrap_or_default();
        Civil {
            year,
            month,
            day,
            hour: part(second / 3600),
            minute: part(second / 60 % 60),
            second: part(second % 60),
            day_of_year: days - days_of(year, 1, 1),
            weekday: (days + 4).rem_euclid(7),
        }
    }

    pub(crate) fn plus(&self, duration: i64) -> Result<Self> {
        let nanoseconds = i64::from(self.nanoseconds) + duration % SECOND;
        let seconds = self.seconds + duration / SECOND + nanoseconds.div_euclid(SECOND);
        Self::new(seconds, u32::try_from(nanoseconds.rem_euclid(SECOND)).unwrap_or_default(), self.offset)
    }

    pub(crate) fn minus(&self, other: &Self) -> Result<i64> {
        let nanoseconds = i64::from(self.nanoseconds) - i64::from(other.nanoseconds);
        let seconds = (self.seconds - other.seconds).checked_mul(SECOND);
        seconds.and_then(|seconds| seconds.checked_add(nanoseconds)).ok_or(INT_OVERFLOW)
    }

    /// Formats the time as RFC 3339, with as many fractional digits as it needs.
    pub(crate) fn rfc3339(&self) -> String {
        let civil = self.civil(self.offset.into());
        let mut text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
        );
        if self.nanoseconds != 0 {
            let digits = format!("{:09}", self.nanoseconds);
            text.push('.');
            text.push_str(digits.trim_end_matches('0'));
        }
        if self.offset == 0 {
            text.push('Z');
        } else {
            let minutes = self.offset.unsigned_abs() / 60;
            let sign = if self.offset < 0 { '-' } else { '+' };
            text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        }
        text
    }
}

/// Returns the day number of a date, counted from 1970-01-01.
fn days_of(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns the year, month and day of a day number.
fn date_of(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u8::try_from(month).unwrap_or_default(), u8::try_from(day).unwrap_or_default())
}

/// Parses an RFC 3339 timestamp as Go does. Returns `None` if it does not parse, and an error if it is out of
/// range.
pub(crate) fn parse_timestamp(text: &str) -> Result<Option<Timestamp>> {
    let Some((seconds, nanoseconds, offset)) = parse_rfc3339(text.as_bytes()) else { return Ok(None) };
    Timestamp::new(seconds, nanoseconds, offset).map(Some)
}

fn parse_rfc3339(bytes: &[u8]) -> Option<(i64, u32, i32)> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    };
    let punctuation = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if punctuation.iter().any(|(index, byte)| bytes.get(*index) != Some(byte)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let month = u8::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
    let day = u8::try_from(day).ok().filter(|day| (1..=days_in(year, month)).contains(day))?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut end = 19;
    let mut nanoseconds = 0;
    if matches!(bytes.get(end), Some(b'.' | b',')) {
        let digits = bytes[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        for index in 0..9 {
            let digit = if index < digits { bytes[end + 1 + index] - b'0' } else { 0 };
            nanoseconds = nanoseconds * 10 + u32::from(digit);
        }
        end += 1 + digits;
    }
    let offset = match bytes.get(end)? {
        b'Z' if bytes.len() == end + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == end + 6 && bytes[end + 3] == b':' => {
            let (hours, minutes) = (number(end + 1, end + 3)?, number(end + 4, end + 6)?);
            if hours > 24 || minutes > 60 {
                return None;
            }
            (hours * 60 + minutes) * 60 * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let seconds = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some((seconds, nanoseconds, i32::try_from(offset).ok()?))
}

fn days_in(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses a duration as Go does: `1h30m`, `-1.5s`, `0`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (value, behind) = take_unit(rest)?;
        total = total.checked_add(value).filter(|total| *total <= 1 << 63)?;
        rest = behind;
    }
    if negative {
        return Some((total as i64).wrapping_neg());
    }
    i64::try_from(total).ok()
}

/// Parses the first number with its unit. Returns it in nanoseconds, and the rest of the text.
fn take_unit(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, mut rest) = text.split_at(digits(text));
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = after.split_at(digits(after));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let length = rest.bytes().take_while(|byte| *byte != b'.' && !byte.is_ascii_digit()).count();
    let (unit, rest) = rest.split_at(length);
    let unit: u64 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND.unsigned_abs(),
        "m" => MINUTE.unsigned_abs(),
        "h" => HOUR.unsigned_abs(),
        _ => return None,
    };
    let whole: u64 =
        if whole.is_empty() { 0 } else { whole.parse().ok().filter(|value| *value <= 1 << 63)? };
    let mut value = whole.checked_mul(unit).filter(|value| *value <= 1 << 63)?;
    if !fraction.is_empty() {
        let (mut part, mut scale) = (0_u64, 1_f64);
        for digit in fraction.bytes() {
            // Further digits do not change the result.
            let Some(next) = part.checked_mul(10).and_then(|part| part.checked_add(u64::from(digit - b'0')))
            else {
                break;
            };
            if next > (1 << 63) - 1 {
                break;
            }
            part = next;
            scale *= 10.0;
        }
        value += (part as f64 * (unit as f64 / scale)) as u64;
    }
    (value <= 1 << 63).then_some((value, rest))
}

/// Returns a duration in a unit, with a fraction, as Go's `Duration.Seconds`, `Minutes` and `Hours` do.
pub(crate) fn in_units(nanoseconds: i64, unit: Unit) -> f64 {
    let size = match unit {
        Unit::Second => SECOND,
        Unit::Minute => MINUTE,
        Unit::Hour => HOUR,
    };
    (nanoseconds / size) as f64 + (nanoseconds % size) as f64 / size as f64
}

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
}

/// Formats a duration as Go does: `1h0m1.5s`.
pub(crate) fn go_duration(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let second = SECOND.unsigned_abs();
    if size < second {
        return match size {
            0 => "0s".into(),
            1..1_000 => format!("{sign}{size}ns"),
            1_000..1_000_000 => format!("{sign}{}\u{b5}s", size as f64 / 1e3),
            _ => format!("{sign}{}ms", size as f64 / 1e6),
        };
    }
    let (seconds, rest) = (size / second, size % second);
    let fraction =
        if rest == 0 { String::new() } else { format!(".{rest:09}").trim_end_matches('0').to_owned() };
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = sign.to_owned();
    if hours > 0 {
        text.push_str(&format!("{hours}h"));
    }
    if hours > 0 || minutes > 0 {
        text.push_str(&format!("{minutes}m"));
    }
    text + &format!("{}{fraction}s", seconds % 60)
}
