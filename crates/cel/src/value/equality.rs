//! Equality and order of values.

use std::cmp::Ordering;

use super::{List, Map, Value, Work};
use crate::error::{Error, Result};

/// Evaluates `first == second`. Null equals only null.
pub(crate) fn equal(first: &Value, second: &Value, work: &mut Work) -> Result<bool> {
    match (first, second) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Null, _) | (_, Value::Null) => Ok(false),
        _ => equal_to(first, second, work),
    }
}

/// Compares two values with the equality of the first one's type. Kubernetes types return an error for values
/// of other types.
pub(crate) fn equal_to(first: &Value, second: &Value, work: &mut Work) -> Result<bool> {
    Ok(match (first, second) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => numbers(first, second) == Some(Ordering::Equal),
        (Value::String(a), Value::String(b)) => {
            work.add_len(a.len() / 64)?;
            a == b
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            work.add_len(a.len() / 64)?;
            a == b
        }
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a.same_instant(b),
        (Value::List(a), Value::List(b)) => return crate::deep(|| lists(a, b, work)),
        (Value::Map(a), Value::Map(b)) => return crate::deep(|| maps(a, b, work)),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => return crate::deep(|| equal_to(a, b, work)),
            (a, b) => a.is_none() && b.is_none(),
        },
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Quantity(a) | Value::ComputedQuantity(a), Value::Quantity(b)) => {
            a.compare(b) == Ordering::Equal
        }
        (Value::Version(a), Value::Version(b)) => a.precedence(b) == Ordering::Equal,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Url(a), Value::Url(b)) => a.text() == b.text(),
        (Value::Format(a), Value::Format(b)) => a.name == b.name,
        (Value::Broken(error), _) => return Err(error.clone()),
        (
            Value::Quantity(_)
            | Value::ComputedQuantity(_)
            | Value::Version(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Url(_)
            | Value::Format(_),
            _,
        ) => return Err(Error::NO_OVERLOAD),
        _ => false,
    })
}

/// Compares two lists. As in cel-go, an element whose comparison fails does not make them unequal. If no
/// element differs, the error is returned only if the first list is a concatenation.
fn lists(first: &List, second: &List, work: &mut Work) -> Result<bool> {
    if first.len() != second.len() {
        return Ok(false);
    }
    let mut error = None;
    for (a, b) in first.iter().zip(second.iter()) {
        work.add(1)?;
        match equal(a, b, work) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(fatal) if fatal.is_fatal() => return Err(fatal),
            Err(other) => error = error.or(Some(other)),
        }
    }
    match error {
        Some(error) if first.is_joined() => Err(error),
        _ => Ok(true),
    }
}

fn maps(first: &Map, second: &Map, work: &mut Work) -> Result<bool> {
    if first.len() != second.len() {
        return Ok(false);
    }
    for (key, a) in first.iter() {
        work.add(1)?;
        let Some(b) = second.select(&key) else { return Ok(false) };
        match equal(a, b, work) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.is_fatal() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(true)
}

/// Returns the order of two numbers of any types, or `None` if one is NaN.
fn numbers(first: &Value, second: &Value) -> Option<Ordering> {
    match (first, second) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Int(b)) => double_and_int(*a, *b),
        (Value::Int(a), Value::Double(b)) => double_and_int(*b, *a).map(Ordering::reverse),
        (Value::Double(a), Value::Uint(b)) => double_and_uint(*a, *b),
        (Value::Uint(a), Value::Double(b)) => double_and_uint(*b, *a).map(Ordering::reverse),
        _ => None,
    }
}

fn double_and_int(double: f64, int: i64) -> Option<Ordering> {
    if double < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if double > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&(int as f64))
}

fn double_and_uint(double: f64, uint: u64) -> Option<Ordering> {
    if double < 0.0 {
        return Some(Ordering::Less);
    }
    if double > u64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&(uint as f64))
}

/// Returns the order of two values, or an error if they have none.
pub(crate) fn compare(first: &Value, second: &Value) -> Result<Ordering> {
    Ok(match (first, second) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.instant().cmp(&b.instant()),
        (Value::Double(a), _) if a.is_nan() => return Err(Error::fixed("NaN values cannot be ordered")),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => {
            return numbers(first, second).ok_or(Error::fixed("NaN values cannot be ordered"));
        }
        _ => return Err(Error::NO_OVERLOAD),
    })
}
