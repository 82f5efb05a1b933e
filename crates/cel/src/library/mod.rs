//! The functions of the CEL environment, with one module for each library.

pub(crate) mod formats;
mod lists;
mod net;
mod optional;
mod quantity;
pub(crate) mod regex;
mod regex_syntax;
mod semver;
mod standard;
pub(crate) mod strings;
pub(crate) mod time;
mod url;

use crate::Value;
use crate::error::Result;
use crate::value::Work;

/// The implementation of a function. The target of a method is the first argument. Returns `no such overload`
/// if the types of the arguments match no overload.
pub(crate) type Implementation = fn(&mut Work, &[Value]) -> Result;

/// Returns the implementation of a function by its name.
pub(crate) fn implementation(name: &str) -> Option<Implementation> {
    standard::implementation(name)
        .or_else(|| strings::implementation(name))
        .or_else(|| lists::implementation(name))
        .or_else(|| optional::implementation(name))
        .or_else(|| time::implementation(name))
        .or_else(|| regex::implementation(name))
        .or_else(|| quantity::implementation(name))
        .or_else(|| semver::implementation(name))
        .or_else(|| net::implementation(name))
        .or_else(|| url::implementation(name))
        .or_else(|| formats::implementation(name))
        .or_else(|| shared(name))
}

/// Returns the implementation of a function that several libraries have.
fn shared(name: &str) -> Option<Implementation> {
    Some(match name {
        "indexOf" => |work, args| match args {
            [Value::List(_), ..] => lists::index_of(work, args),
            _ => strings::index_of(work, args),
        },
        "lastIndexOf" => |work, args| match args {
            [Value::List(_), ..] => lists::last_index_of(work, args),
            _ => strings::last_index_of(work, args),
        },
        "isGreaterThan" => |_, args| order(args).map(|order| Value::Bool(order.is_gt())),
        "isLessThan" => |_, args| order(args).map(|order| Value::Bool(order.is_lt())),
        "compareTo" => |_, args| order(args).map(|order| Value::Int(order as i64)),
        _ => return None,
    })
}

fn order(args: &[Value]) -> Result<std::cmp::Ordering> {
    match args {
        [
            Value::Quantity(a) | Value::ComputedQuantity(a),
            Value::Quantity(b) | Value::ComputedQuantity(b),
        ] => Ok(a.compare(b)),
        [Value::Version(a), Value::Version(b)] => Ok(a.precedence(b)),
        _ => Err(crate::Error::NO_OVERLOAD),
    }
}
