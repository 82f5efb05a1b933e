//! CEL operators and type conversions, `size`, `includes` and `cel.@mapInsert`. The evaluator handles `==`,
//! `!=`, `&&` and `||`.
//!
//! Upstream: cel-go's `common/stdlib/standard.go` and `ext/comprehensions.go`; for `includes`,
//! `dynamic-resource-allocation/cel/compile.go`.

use std::cmp::Ordering;

use super::{Implementation, time};
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{Timestamp, Work, compare, equal_to, format_go};

const INT_OVERFLOW: Error = Error::fixed("integer overflow");
const UINT_OVERFLOW: Error = Error::fixed("unsigned integer overflow");
const DIVISION: Error = Error::fixed("division by zero");
const MODULUS: Error = Error::fixed("modulus by zero");

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "_<_" => |_, args| ordered(args, Ordering::is_lt),
        "_<=_" => |_, args| ordered(args, Ordering::is_le),
        "_>_" => |_, args| ordered(args, Ordering::is_gt),
        "_>=_" => |_, args| ordered(args, Ordering::is_ge),
        "!_" => |_, args| match args {
            [Value::Bool(value)] => Ok(Value::Bool(!value)),
            _ => Err(Error::NO_OVERLOAD),
        },
        "-_" => negate,
        "@in" => contains,
        "@not_strictly_false" => |_, args| Ok(Value::Bool(!matches!(args, [Value::Bool(false)]))),
        "size" => |_, args| {
            let size = args.first().and_then(Value::size).ok_or(Error::NO_OVERLOAD)?;
            Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
        },
        "type" => {
            |_, args| args.first().map(|value| Value::Type(value.type_name())).ok_or(Error::NO_OVERLOAD)
        }
        "dyn" => |_, args| args.first().cloned().ok_or(Error::NO_OVERLOAD),
        "bool" => |_, args| convert(args, "bool"),
        "bytes" => |_, args| convert(args, "bytes"),
        "double" => |_, args| convert(args, "double"),
        "duration" => |_, args| convert(args, "google.protobuf.Duration"),
        "int" => |_, args| convert(args, "int"),
        "string" => |_, args| convert(args, "string"),
        "timestamp" => |_, args| convert(args, "google.protobuf.Timestamp"),
        "uint" => |_, args| convert(args, "uint"),
        "cel.@mapInsert" => insert,
        "includes" => includes,
        _ => return None,
    })
}

fn add(work: &mut Work, args: &[Value]) -> Result {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_add(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => a.checked_add(*b).map(Value::Uint).ok_or(UINT_OVERFLOW),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => {
            work.add_len(a.len() + b.len())?;
            Ok(Value::text([&**a, &**b].concat()))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            work.add_len(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        [Value::List(a), Value::List(b)] => Ok(Value::List(a.clone().join(b.clone()))),
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_add(*b).map(Value::Duration).ok_or(INT_OVERFLOW)
        }
        [Value::Timestamp(time), Value::Duration(duration)]
        | [Value::Duration(duration), Value::Timestamp(time)] => time.plus(*duration).map(Value::Timestamp),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn subtract(_: &mut Work, args: &[Value]) -> Result {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_sub(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => a.checked_sub(*b).map(Value::Uint).ok_or(UINT_OVERFLOW),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_sub(*b).map(Value::Duration).ok_or(INT_OVERFLOW)
        }
        [Value::Timestamp(time), Value::Duration(duration)] => {
            let negated = duration.checked_neg().ok_or(INT_OVERFLOW)?;
            time.plus(negated).map(Value::Timestamp)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => a.minus(b).map(Value::Duration),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn multiply(_: &mut Work, args: &[Value]) -> Result {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_mul(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => a.checked_mul(*b).map(Value::Uint).ok_or(UINT_OVERFLOW),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn divide(_: &mut Work, args: &[Value]) -> Result {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(DIVISION),
        [Value::Int(a), Value::Int(b)] => a.checked_div(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a / b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn modulo(_: &mut Work, args: &[Value]) -> Result {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(MODULUS),
        [Value::Int(a), Value::Int(b)] => a.checked_rem(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a % b)),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn negate(_: &mut Work, args: &[Value]) -> Result {
    match args {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(value)] => value.checked_neg().map(Value::Duration).ok_or(INT_OVERFLOW),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn ordered(args: &[Value], holds: fn(Ordering) -> bool) -> Result {
    match args {
        [a, b] => compare(a, b).map(|order| Value::Bool(holds(order))),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn contains(work: &mut Work, args: &[Value]) -> Result {
    match args {
        [element, Value::List(list)] => {
            for other in list.iter() {
                work.add(1)?;
                match equal_to(element, other, work) {
                    Ok(true) => return Ok(Value::Bool(true)),
                    Err(error) if error.is_fatal() => return Err(error),
                    _ => {}
                }
            }
            Ok(Value::Bool(false))
        }
        [key, Value::Map(map)] => map.contains(key).map(Value::Bool),
        _ => Err(Error::NO_OVERLOAD),
    }
}

/// Inserts an entry, or all entries of another map, into a map.
fn insert(work: &mut Work, args: &[Value]) -> Result {
    let exists =
        |key: &Value| Error::new(format!("insert failed: key {} already exists", format_go::plain(key)));
    match args {
        [Value::Map(map), key, value] => {
            if map.contains(key)? {
                return Err(exists(key));
            }
            work.add_len(map.len())?;
            let mut map = map.clone();
            map.set(key, value.clone())?;
            Ok(Value::Map(map))
        }
        [Value::Map(map), Value::Map(update)] => {
            work.add_len(map.len() + update.len())?;
            let mut map = map.clone();
            for (key, value) in update.iter() {
                if map.contains(&key)? {
                    return Err(exists(&key));
                }
                map.set(&key, value.clone())?;
            }
            Ok(Value::Map(map))
        }
        _ => Err(Error::NO_OVERLOAD),
    }
}

/// Maximum number of list elements that `includes` reads (`ResourceSliceMaxAttributeValuesPerDevice` in
/// `k8s.io/api/resource/v1/types.go`).
const INCLUDES_LIMIT: u64 = 48;

fn includes(work: &mut Work, args: &[Value]) -> Result {
    let [target, arg] = args else { return Err(Error::NO_OVERLOAD) };
    let mut same = |value: &Value| match equal_to(value, arg, work) {
        Err(error) if error.is_fatal() => Err(error),
        result => Ok(result == Ok(true)),
    };
    let Value::List(list) = target else { return same(target).map(Value::Bool) };
    for (index, element) in (0..).zip(list.iter()) {
        if index >= INCLUDES_LIMIT {
            let text =
                format!("'includes' function cannot be applied to lists longer than {INCLUDES_LIMIT} values");
            return Err(Error::new(text));
        }
        if same(element)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// Converts a value to a type, as in `int(x)`.
fn convert(args: &[Value], to: &'static str) -> Result {
    let [value] = args else { return Err(Error::NO_OVERLOAD) };
    if value.type_name() == to {
        return Ok(value.clone());
    }
    let failed = || Error::new(format!("type conversion error from '{}' to '{to}'", value.type_name()));
    match (to, value) {
        ("string", _) => text_of(value).transpose()?.map(Value::text).ok_or_else(failed),
        ("int", _) => to_int(value).unwrap_or_else(|| Err(failed())),
        ("uint", _) => to_uint(value).unwrap_or_else(|| Err(failed())),
        ("double", Value::Int(value)) => Ok(Value::Double(*value as f64)),
        ("double", Value::Uint(value)) => Ok(Value::Double(*value as f64)),
        ("double", Value::String(text)) => parse_double(text).map(Value::Double).ok_or_else(failed),
        ("bool", Value::String(text)) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed()),
        },
        ("bytes", Value::String(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        ("google.protobuf.Duration", Value::String(text)) => {
            time::parse_duration(text).map(Value::Duration).ok_or_else(failed)
        }
        ("google.protobuf.Timestamp", Value::String(text)) => match time::parse_timestamp(text) {
            Ok(timestamp) => Ok(Value::Timestamp(timestamp)),
            Err(Some(error)) => Err(error),
            Err(None) => Err(failed()),
        },
        ("google.protobuf.Timestamp", Value::Int(seconds)) => {
            Timestamp::new(*seconds, 0, 0).map(Value::Timestamp)
        }
        _ => Err(failed()),
    }
}

/// Returns the string that a value converts to, or `None` if there is no conversion.
pub(super) fn text_of(value: &Value) -> Option<Result<String>> {
    Some(Ok(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => format_go::double(*value),
        Value::Duration(nanoseconds) => time::duration_text(*nanoseconds),
        Value::Timestamp(timestamp) => timestamp.rfc3339(),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Some(Err(Error::fixed("invalid UTF-8 in bytes, cannot convert to string"))),
        },
        _ => return None,
    }))
}

fn to_int(value: &Value) -> Option<Result> {
    Some(match value {
        Value::Uint(value) => i64::try_from(*value).map_err(|_| INT_OVERFLOW),
        Value::Double(value) => {
            let inside = *value > i64::MIN as f64 && *value < i64::MAX as f64;
            if inside { Ok(*value as i64) } else { Err(INT_OVERFLOW) }
        }
        Value::Duration(nanoseconds) => Ok(*nanoseconds),
        Value::Timestamp(timestamp) => Ok(timestamp.seconds()),
        Value::String(text) => Ok(text.parse().ok()?),
        _ => return None,
    })
    .map(|result| result.map(Value::Int))
}

fn to_uint(value: &Value) -> Option<Result> {
    Some(match value {
        Value::Int(value) => u64::try_from(*value).map_err(|_| UINT_OVERFLOW),
        Value::Double(value) => {
            let inside = *value >= 0.0 && *value < 18_446_744_073_709_551_616.0;
            if inside { Ok(*value as u64) } else { Err(UINT_OVERFLOW) }
        }
        Value::String(text) if !text.starts_with('+') => Ok(text.parse().ok()?),
        _ => return None,
    })
    .map(|result| result.map(Value::Uint))
}

/// Parses a double as Go does, but rejects hexadecimal notation.
fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    if value.is_nan() {
        return (text.eq_ignore_ascii_case("nan")).then_some(f64::from_bits(0x7ff8_0000_0000_0001));
    }
    let names_infinity = unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity");
    // A number that is too large is an error, not infinity.
    (!value.is_infinite() || names_infinity).then_some(value)
}
