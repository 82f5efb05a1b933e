//! CEL functions on quantities, such as `quantity`, `isInteger` and `add`, except for comparisons (in the
//! parent module).
//!
//! Upstream: `apiserver/pkg/cel/library/quantity.go`. `add` and `sub` return a `ComputedQuantity`, because
//! `==` treats upstream's results of these functions differently.

use std::sync::Arc;

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::Quantity;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "quantity" => |_, args| match args {
            [Value::String(text)] => {
                Quantity::parse(text).map(|quantity| Value::Quantity(Arc::new(quantity)))
            }
            _ => Err(Error::NO_OVERLOAD),
        },
        "isQuantity" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
            _ => Err(Error::NO_OVERLOAD),
        },
        "sign" => |_, args| of(args).map(|quantity| Value::Int(quantity.sign())),
        "isInteger" => |_, args| of(args).map(|quantity| Value::Bool(quantity.as_integer().is_some())),
        "asInteger" => |_, args| {
            let integer = of(args)?.as_integer();
            integer.map(Value::Int).ok_or(Error::fixed("cannot convert value to integer"))
        },
        "asApproximateFloat" => |_, args| of(args).map(|quantity| Value::Double(quantity.as_double())),
        "add" => |_, args| sum(args, |other| other),
        "sub" => |_, args| sum(args, |other| other.negated()),
        _ => return None,
    })
}

fn of(args: &[Value]) -> Result<&Quantity> {
    match args {
        [Value::Quantity(quantity) | Value::ComputedQuantity(quantity), ..] => Ok(quantity),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn sum(args: &[Value], change: fn(Quantity) -> Quantity) -> Result {
    let quantity = of(args)?;
    let other = match args.get(1) {
        Some(Value::Int(value)) => Quantity::of_integer(*value),
        _ => of(args.get(1..).unwrap_or_default())?.clone(),
    };
    quantity.plus(&change(other)).map(|sum| Value::ComputedQuantity(Arc::new(sum)))
}
