//! CEL functions on optional values, such as `optional.of`, `hasValue` and `first`. Upstream: cel-go's
//! `cel/library.go`.
//!
//! The planner handles `or` and `orValue`, since they evaluate the second operand only if needed.

use std::sync::Arc;

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, Work, format_go};

const NONE: Error = Error::fixed("optional.none() dereference");

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "optional.of" => |_, args| {
            args.first().map(|value| Value::Optional(Some(Arc::new(value.clone())))).ok_or(Error::NO_OVERLOAD)
        },
        "optional.ofNonZeroValue" => |_, args| {
            let value = args.first().ok_or(Error::NO_OVERLOAD)?;
            Ok(Value::Optional((!value.is_zero()).then(|| Arc::new(value.clone()))))
        },
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "value" => |_, args| match args {
            [Value::Optional(value)] => value.as_deref().cloned().ok_or(NONE)?.unbroken(),
            _ => Err(Error::NO_OVERLOAD),
        },
        "hasValue" => |_, args| match args {
            [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
            _ => Err(Error::NO_OVERLOAD),
        },
        "first" => |_, args| end(args, |list| list.get(0)),
        "last" => |_, args| end(args, |list| list.len().checked_sub(1).and_then(|index| list.get(index))),
        "optional.unwrap" | "unwrapOpt" => unwrap,
        _ => return None,
    })
}

fn end(args: &[Value], get: fn(&List) -> Option<&Value>) -> Result {
    match args {
        [Value::List(list)] => Ok(Value::Optional(get(list).cloned().map(Arc::new))),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn unwrap(work: &mut Work, args: &[Value]) -> Result {
    let [Value::List(list)] = args else { return Err(Error::NO_OVERLOAD) };
    let mut values = Vec::new();
    for element in list.iter() {
        work.add(1)?;
        match element {
            Value::Optional(Some(value)) => values.push((**value).clone()),
            Value::Optional(None) => {}
            other => return Err(Error::new(format!("value {} is not optional", format_go::plain(other)))),
        }
    }
    Ok(Value::List(List::new(values)))
}
