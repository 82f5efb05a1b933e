//! Durations in Go's format, such as `1h15m30.918s`. Upstream: `time.ParseDuration`, `time.Duration.String`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A duration in nanoseconds; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

impl GoDuration {
    /// Returns a duration of whole seconds.
    pub const fn seconds(n: i64) -> Self {
        Self(n * SECOND as i64)
    }

    /// Parses a duration.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("time: invalid duration {text:?}");
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if unsigned == "0" {
            return Ok(Self(0));
        }
        if unsigned.is_empty() {
            return Err(invalid());
        }
        let (mut rest, mut total) = (unsigned, 0u64);
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, tail) = rest.split_at(end);
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            if !number.bytes().any(|b| b.is_ascii_digit()) {
                return Err(invalid());
            }
            if unit.is_empty() {
                return Err(format!("time: missing unit in duration {text:?}"));
            }
            let unit =
                unit_of(unit).ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
            total = amount(number, unit).and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
            rest = tail;
        }
        match (negative, i64::try_from(total)) {
            (true, _) if total <= 1 << 63 => Ok(Self((total as i64).wrapping_neg())),
            (false, Ok(total)) => Ok(Self(total)),
            _ => Err(invalid()),
        }
    }
}

/// Parses a duration of a flag, such as `300ms`, `1.5h` or `2m30s`. It is never negative.
///
/// # Errors
/// Returns a message that quotes the text if it is not a duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; expected a form such as 30s, 5m or 1h30m");
    let GoDuration(nanoseconds) = GoDuration::parse(text).map_err(|_| wrong())?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| wrong())
}

fn unit_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// Multiplies a decimal number by a unit. Fractions of a nanosecond are truncated.
fn amount(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = fraction.chars().take(18).collect();
    let part = match digits.parse::<u128>() {
        Ok(value) => value * u128::from(unit) / 10u128.pow(u32::try_from(digits.len()).ok()?),
        Err(_) => 0,
    };
    whole.checked_mul(unit)?.checked_add(u64::try_from(part).ok()?).filter(|&total| total <= 1 << 63)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match total {
            0 => return f.write_str("0s"),
            1..MICROSECOND => return write!(f, "{total}ns"),
            MICROSECOND..MILLISECOND => return write!(f, "{}µs", decimal(total, MICROSECOND)),
            MILLISECOND..SECOND => return write!(f, "{}ms", decimal(total, MILLISECOND)),
            _ => {}
        }
        if total >= HOUR {
            write!(f, "{}h", total / HOUR)?;
        }
        if total >= MINUTE {
            write!(f, "{}m", total % HOUR / MINUTE)?;
        }
        write!(f, "{}s", decimal(total % MINUTE, SECOND))
    }
}

/// Formats `amount / unit` with the necessary decimals.
fn decimal(amount: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", amount % unit);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}", amount / unit)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_format_as_in_go() {
        for (text, nanoseconds, written) in [
            ("15s", 15 * SECOND as i64, "15s"),
            ("600s", 600 * SECOND as i64, "10m0s"),
            ("1h", 3600 * SECOND as i64, "1h0m0s"),
            ("1.5h", 5400 * SECOND as i64, "1h30m0s"),
            ("-1m", -60 * SECOND as i64, "-1m0s"),
            ("0", 0, "0s"),
            ("+.5s", 500_000_000, "500ms"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("1us", 1_000, "1µs"),
            ("7ns", 7, "7ns"),
            ("1m0.25s", 60_250_000_000, "1m0.25s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(nanoseconds)), "{text}");
            assert_eq!(GoDuration(nanoseconds).to_string(), written, "{text}");
        }
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("10", "time: missing unit in duration \"10\""),
            ("10x", "time: unknown unit \"x\" in duration \"10x\""),
            (".s", "time: invalid duration \".s\""),
            ("1 s", "time: unknown unit \" s\" in duration \"1 s\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
        ] {
            assert_eq!(GoDuration::parse(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn duration_of_a_flag_is_parsed_in_go_format_and_never_negative() {
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "m", "5 m", "-1s", "1d", "1e99h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
