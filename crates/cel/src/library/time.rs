//! CEL functions on durations and timestamps, such as `getFullYear` and `getHours`.
//!
//! Upstream: cel-go's `common/types/timestamp.go` and `common/types/duration.go`.

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::Timestamp;
use crate::value::time::{Civil, Unit, in_units};

pub(crate) use crate::value::time::parse_duration;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "getFullYear" => |_, args| part(args, |civil| civil.year),
        "getMonth" => |_, args| part(args, |civil| i64::from(civil.month) - 1),
        "getDayOfYear" => |_, args| part(args, |civil| civil.day_of_year),
        "getDate" => |_, args| part(args, |civil| i64::from(civil.day)),
        "getDayOfMonth" => |_, args| part(args, |civil| i64::from(civil.day) - 1),
        "getDayOfWeek" => |_, args| part(args, |civil| civil.weekday),
        "getHours" => |_, args| part_or_unit(args, |civil| civil.hour.into(), Unit::Hour),
        "getMinutes" => |_, args| part_or_unit(args, |civil| civil.minute.into(), Unit::Minute),
        "getSeconds" => |_, args| part_or_unit(args, |civil| civil.second.into(), Unit::Second),
        "getMilliseconds" => |_, args| match args {
            [Value::Duration(nanoseconds)] => Ok(Value::Int(nanoseconds / 1_000_000)),
            [Value::Timestamp(timestamp), zone @ ..] => {
                offset(timestamp, zone)?;
                Ok(Value::Int(i64::from(timestamp.nanoseconds() / 1_000_000)))
            }
            _ => Err(Error::NO_OVERLOAD),
        },
        _ => return None,
    })
}

fn part(args: &[Value], get: fn(Civil) -> i64) -> Result {
    match args {
        [Value::Timestamp(timestamp), zone @ ..] => {
            Ok(Value::Int(get(timestamp.civil(offset(timestamp, zone)?))))
        }
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn part_or_unit(args: &[Value], get: fn(Civil) -> i64, unit: Unit) -> Result {
    match args {
        [Value::Duration(nanoseconds)] => Ok(Value::Int(in_units(*nanoseconds, unit) as i64)),
        _ => part(args, get),
    }
}

/// Returns the UTC offset of a zone in seconds, positive to the east. The zone is UTC if absent, an offset
/// such as `-03:30`, or a name such as `Europe/Paris`.
fn offset(timestamp: &Timestamp, zone: &[Value]) -> Result<i64> {
    let zone = match zone {
        [] => return Ok(0),
        [Value::String(zone)] => zone,
        _ => return Err(Error::NO_OVERLOAD),
    };
    let Some((hours, minutes)) = zone.split_once(':') else { return named(timestamp, zone) };
    let (hours, minutes) = (integer(hours)?, integer(minutes)?);
    let total = hours.wrapping_mul(60);
    let total = if zone.starts_with('-') { total.wrapping_sub(minutes) } else { total.wrapping_add(minutes) };
    // Offsets are clamped to about 3,000 years. Larger ones have no meaning, and overflow upstream.
    Ok(total.wrapping_mul(60).clamp(-100_000_000_000, 100_000_000_000))
}

fn integer(text: &str) -> Result<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| {
        let reason = if valid { "value out of range" } else { "invalid syntax" };
        Error::new(format!("strconv.Atoi: parsing {}: {reason}", crate::value::format_go::quote(text)))
    })
}

fn named(timestamp: &Timestamp, name: &str) -> Result<i64> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) || name.contains('\\') {
        return Err(Error::fixed("time: invalid location name"));
    }
    let unknown = || Error::new(format!("unknown time zone {name}"));
    let zone = jiff::tz::TimeZone::get(name).map_err(|_| unknown())?;
    if zone.iana_name() != Some(name) {
        return Err(unknown());
    }
    let seconds =
        timestamp.seconds().clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    let instant = jiff::Timestamp::from_second(seconds).map_err(|_| unknown())?;
    Ok(zone.to_offset(instant).seconds().into())
}

/// Parses an RFC 3339 timestamp. The error is `None` if the text is not a timestamp at all.
pub(crate) fn parse_timestamp(text: &str) -> std::result::Result<Timestamp, Option<Error>> {
    crate::value::time::parse_timestamp(text).map_err(Some)?.ok_or(None)
}

pub(crate) fn timestamp_of_seconds(seconds: i64) -> Result<Timestamp> {
    Timestamp::new(seconds, 0, 0)
}

/// Formats a duration in seconds, such as `1.5s`.
pub(crate) fn duration_text(nanoseconds: i64) -> String {
    format!("{}s", in_units(nanoseconds, Unit::Second))
}
