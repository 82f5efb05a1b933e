//! CEL functions on lists and sets.
//!
//! Upstream: cel-go's `ext/lists.go` and `ext/sets.go`, and `apiserver/pkg/cel/library/lists.go`.

use std::cmp::Ordering;

use super::{Implementation, standard};
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, Work, compare, equal_to};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "slice" => slice,
        "flatten" => |work, args| match args {
            [Value::List(list)] => flatten(work, list, 1),
            [Value::List(list), Value::Int(depth)] => flatten(work, list, *depth),
            [other] => Err(Error::new(format!("no such overload: {}.flatten()", runtime_type(other)))),
            [target, depth] => Err(Error::new(format!(
                "no such overload: {}.flatten({})",
                runtime_type(target),
                runtime_type(depth)
            ))),
            _ => Err(Error::NO_OVERLOAD),
        },
        "distinct" => distinct,
        "reverse" => reverse,
        "sort" => |work, args| match args {
            [Value::List(list)] => sort(work, list, list),
            _ => Err(Error::NO_OVERLOAD),
        },
        "@sortByAssociatedKeys" => |work, args| match args {
            [Value::List(list), Value::List(keys)] => sort(work, list, keys),
            _ => Err(Error::NO_OVERLOAD),
        },
        "lists.range" => range,
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |work, args| extreme(work, args, Ordering::Greater, "min called on empty list"),
        "max" => |work, args| extreme(work, args, Ordering::Less, "max called on empty list"),
        "sets.contains" => |work, args| two(args, |list, sub| subset(work, sub, list)),
        "sets.equivalent" => |work, args| two(args, |a, b| Ok(subset(work, b, a)? && subset(work, a, b)?)),
        "sets.intersects" => |work, args| {
            two(args, |a, b| {
                for element in a.iter() {
                    if within(work, element, b)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            })
        },
        _ => return None,
    })
}

/// Returns the type name as printed in `no such overload` errors.
fn runtime_type(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list(dyn)",
        Value::Map(_) => "map(dyn, dyn)",
        other => other.type_name(),
    }
}

fn made(values: Vec<Value>) -> Result {
    Ok(Value::List(List::new(values)))
}

fn slice(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(Error::NO_OVERLOAD);
    };
    let fail = |reason: String| Err(Error::new(format!("cannot slice({start}, {end}), {reason}")));
    if *start < 0 || *end < 0 {
        return fail("negative indexes not supported".into());
    }
    if start > end {
        return fail("start index must be less than or equal to end index".into());
    }
    if list.len() < end.unsigned_abs() {
        return fail(format!("list is length {}", list.len()));
    }
    work.add(end.abs_diff(*start))?;
    made((start.unsigned_abs()..end.unsigned_abs()).filter_map(|index| list.get(index).cloned()).collect())
}

fn flatten(work: &mut Work, list: &List, depth: i64) -> Result {
    if depth < 0 {
        return Err(Error::fixed("level must be non-negative"));
    }
    let mut values = Vec::new();
    flatten_into(work, list, depth, &mut values)?;
    made(values)
}

fn flatten_into(work: &mut Work, list: &List, depth: i64, values: &mut Vec<Value>) -> Result<()> {
    for element in list.iter() {
        work.add(1)?;
        match element {
            Value::List(inner) if depth > 0 => crate::deep(|| flatten_into(work, inner, depth - 1, values))?,
            _ => values.push(element.clone()),
        }
    }
    Ok(())
}

/// Returns whether two elements are equal. A non-fatal comparison error counts as unequal.
fn same(work: &mut Work, first: &Value, second: &Value) -> Result<bool> {
    work.add(1)?;
    match equal_to(first, second, work) {
        Err(error) if error.is_fatal() => Err(error),
        result => Ok(result == Ok(true)),
    }
}

fn distinct(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list)] = args else { return Err(Error::NO_OVERLOAD) };
    let mut unique: Vec<Value> = Vec::new();
    'elements: for element in list.iter() {
        work.add(1)?;
        for other in &unique {
            if same(work, element, other)? {
                continue 'elements;
            }
        }
        unique.push(element.clone());
    }
    made(unique)
}

fn reverse(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list)] = args else { return Err(Error::NO_OVERLOAD) };
    work.add(list.len())?;
    let mut values: Vec<_> = list.iter().cloned().collect();
    values.reverse();
    made(values)
}

fn sort(work: &mut Work, list: &List, keys: &List) -> Result {
    if list.len() != keys.len() {
        let text =
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got";
        return Err(Error::new(format!("{text} {} and {} elements respectively", list.len(), keys.len())));
    }
    let Some(first) = keys.get(0) else { return Ok(Value::List(list.clone())) };
    if !first.supports(COMPARABLE) {
        return Err(Error::fixed("list elements must be comparable"));
    }
    work.add(list.len().saturating_mul(8))?;
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(list.iter()).collect();
    if pairs.len() > 1 && pairs.iter().any(|(key, _)| key.type_name() != first.type_name()) {
        return Err(Error::fixed("list elements must have the same type"));
    }
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    made(pairs.into_iter().map(|(_, value)| value.clone()).collect())
}

/// CEL trait bit: values can be ordered (`ComparerType` in cel-go's `common/types/traits/traits.go`).
const COMPARABLE: u32 = 2;
/// CEL trait bit: values can be added (`AdderType`).
const ADDABLE: u32 = 1;

fn range(work: &mut Work, args: &[Value]) -> Result {
    let [Value::Int(count)] = args else { return Err(Error::NO_OVERLOAD) };
    // The call costs more than one unit for each element. A range above the work limit thus exceeds the cost
    // limit, too.
    work.add(u64::try_from(*count).unwrap_or_default())?;
    made((0..*count).map(Value::Int).collect())
}

fn is_sorted(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list)] = args else { return Err(Error::NO_OVERLOAD) };
    let mut previous: Option<&Value> = None;
    for element in list.iter() {
        work.add(1)?;
        if !element.supports(COMPARABLE) {
            return Err(Error::NO_OVERLOAD);
        }
        if previous.is_some_and(|previous| compare(previous, element) == Ok(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        previous = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list)] = args else { return Err(Error::NO_OVERLOAD) };
    let mut total = match list.get(0) {
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(0),
        _ => Value::Int(0),
    };
    let add = standard::implementation("_+_").ok_or(Error::NO_OVERLOAD)?;
    for element in list.iter() {
        work.add(1)?;
        if !element.supports(ADDABLE) {
            return Err(Error::NO_OVERLOAD);
        }
        total = add(work, &[total, element.clone()])?;
    }
    Ok(total)
}

fn extreme(work: &mut Work, args: &[Value], replaced: Ordering, empty: &'static str) -> Result {
    let [Value::List(list)] = args else { return Err(Error::NO_OVERLOAD) };
    let mut result: Option<&Value> = None;
    for element in list.iter() {
        work.add(1)?;
        if !element.supports(COMPARABLE) {
            return Err(Error::NO_OVERLOAD);
        }
        result = match result {
            Some(best) if compare(best, element) != Ok(replaced) => Some(best),
            _ => Some(element),
        };
    }
    result.cloned().ok_or(Error::fixed(empty))
}

pub(super) fn index_of(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list), item] = args else { return Err(Error::NO_OVERLOAD) };
    for (index, element) in (0..).zip(list.iter()) {
        if same(work, element, item)? {
            return Ok(Value::Int(index));
        }
    }
    Ok(Value::Int(-1))
}

pub(super) fn last_index_of(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list), item] = args else { return Err(Error::NO_OVERLOAD) };
    work.add(list.len())?;
    let elements: Vec<_> = (0..).zip(list.iter()).collect();
    for (index, element) in elements.into_iter().rev() {
        if same(work, element, item)? {
            return Ok(Value::Int(index));
        }
    }
    Ok(Value::Int(-1))
}

fn two(args: &[Value], holds: impl FnOnce(&List, &List) -> Result<bool>) -> Result {
    match args {
        [Value::List(first), Value::List(second)] => holds(first, second).map(Value::Bool),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn within(work: &mut Work, element: &Value, list: &List) -> Result<bool> {
    for other in list.iter() {
        if same(work, element, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn subset(work: &mut Work, part: &List, whole: &List) -> Result<bool> {
    for element in part.iter() {
        if !within(work, element, whole)? {
            return Ok(false);
        }
    }
    Ok(true)
}
