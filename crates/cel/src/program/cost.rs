//! The cost of function calls at run time. It equals upstream's cost exactly, including rounding.
//!
//! Upstream: cel-go's `interpreter/runtimecost.go` and the cost trackers of its extensions; Kubernetes'
//! `apiserver/pkg/cel/library/cost.go`.

use crate::Value;
use crate::error::{Error, Result};

/// Cost units for each traversed character or byte of a string (`StringTraversalCostFactor` in cel-go's
/// `common/cost.go`).
const TRAVERSAL: f64 = 0.1;
/// Cost units for each character of a pattern (`RegexStringLengthCostFactor`).
const PATTERN: f64 = 0.25;
/// Cost units of a list literal (`ListCreateBaseCost`) and of a map literal (`MapCreateBaseCost`).
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;

/// The formula for the cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    One,
    /// A traversal of the first argument.
    First,
    /// A traversal of the first argument, where an optional has size 1.
    FirstPlain,
    /// Two traversals of the first argument.
    FirstTwice,
    /// Two traversals of the result.
    ResultTwice,
    /// A traversal of the shorter argument.
    Shorter,
    /// A traversal of both arguments.
    Both,
    /// The length of the list, the second argument.
    InList,
    /// The traversal of the string times the length of the pattern. With `optionals`, the size of an optional
    /// is that of its value.
    Pattern {
        optionals: bool,
    },
    Contains,
    /// A traversal of the first argument with all nested values.
    Deep,
    ContainsIp {
        text: bool,
    },
    ContainsCidr {
        text: bool,
    },
    Validate,
    /// A new list with the length of the result.
    NewList,
    Flatten,
    /// Comparisons of each element of an argument with each other element.
    Pairs {
        arg: usize,
    },
    /// Comparisons of each element of one list with each element of the other, this many times.
    Sets(u8),
    /// An authorization check. The environment declares it, but device selectors have no authorizer.
    Check,
    /// Parsing a field or label selector, which is the second argument.
    Selector,
}

impl Rule {
    pub(super) fn of(function: &str, overload: Option<&str>) -> Self {
        let id = overload.unwrap_or_default();
        match id {
            "list_slice" | "lists_range" | "list_reverse" => return Self::NewList,
            "list_flatten" | "list_flatten_int" => return Self::Flatten,
            "list_distinct" => return Self::Pairs { arg: 0 },
            "list_sets_contains_list" | "list_sets_intersects_list" => return Self::Sets(1),
            "list_sets_equivalent_list" => return Self::Sets(2),
            _ if id.ends_with("_sortByAssociatedKeys") => return Self::Pairs { arg: 1 },
            _ if function == "sort" && id.ends_with("_sort") => return Self::Pairs { arg: 0 },
            _ => {}
        }
        match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Self::Deep,
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => Self::FirstPlain,
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Self::FirstPlain
            }
            "ip" => {
                if id == "cidr_ip" {
                    Self::One
                } else {
                    Self::FirstPlain
                }
            }
            "replace" | "split" | "ip.isCanonical" => Self::FirstTwice,
            "check" => Self::Check,
            "fieldSelector" | "labelSelector" => Self::Selector,
            "join" => Self::ResultTwice,
            "find" | "findAll" => Self::Pattern { optionals: false },
            "containsIP" => Self::ContainsIp { text: id == "cidr_contains_ip_string" },
            "containsCIDR" => Self::ContainsCidr { text: id == "cidr_contains_cidr_string" },
            "validate" => Self::Validate,
            "sign" | "asInteger" | "isInteger" | "asApproximateFloat" | "isGreaterThan" | "isLessThan"
            | "compareTo" | "add" | "sub" => Self::One,
            _ => Self::of_overload(id),
        }
    }

    fn of_overload(id: &str) -> Self {
        match id {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Self::First,
            "in_list" => Self::InList,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes" => Self::Shorter,
            "add_string" | "add_bytes" => Self::Both,
            "matches_string" => Self::Pattern { optionals: true },
            "contains_string" => Self::Contains,
            _ => Self::One,
        }
    }

    /// Returns the cost of a call. An argument that is an error has size 1.
    pub(super) fn cost(self, args: &[Value], result: &Result) -> Result<u64> {
        let arg = |index: usize| args.get(index).unwrap_or(&Value::Null);
        Ok(match self {
            Self::One => 1,
            Self::Check => 350_000,
            Self::Selector => {
                let size = plain_size(arg(1));
                // Upstream assumes a requirement for every two characters. Each allocates a struct (40) and a
                // list.
                let requirements = ceil(size as f64 * 0.5).saturating_mul(LIST + 40);
                LIST.saturating_add(traversal(size)).saturating_add(requirements)
            }
            Self::First => traversal(size(arg(0))),
            Self::FirstPlain => traversal(plain_size(arg(0))),
            Self::FirstTwice => ceil(plain_size(arg(0)) as f64 * 2.0 * TRAVERSAL),
            Self::ResultTwice => ceil(result.as_ref().map_or(1, plain_size) as f64 * 2.0 * TRAVERSAL),
            Self::Shorter => shorter(arg(0), arg(1)),
            Self::Both => traversal(size(arg(0)).saturating_add(size(arg(1)))),
            Self::InList => size(arg(1)),
            Self::Pattern { optionals } => {
                let size = if optionals { size } else { plain_size };
                ceil((1.0 + size(arg(0)) as f64) * TRAVERSAL)
                    .saturating_mul(ceil(size(arg(1)) as f64 * PATTERN))
            }
            Self::Contains => traversal(size(arg(0))).saturating_mul(traversal(size(arg(1)))),
            Self::Deep => return deep(arg(0), &mut 0),
            Self::ContainsIp { text } => {
                let cidr = plain_size(arg(0));
                traversal(cidr + cidr) + if text { traversal(plain_size(arg(1))) } else { 0 }
            }
            Self::ContainsCidr { text } => {
                let cidr = plain_size(arg(0));
                let both = traversal(cidr + cidr) + traversal(cidr) + 1;
                both + if text { traversal(plain_size(arg(1))) } else { 0 }
            }
            Self::Validate => match arg(0) {
                Value::Format(format) => ceil((1.0 + plain_size(arg(1)) as f64) * TRAVERSAL)
                    .saturating_mul(ceil(format.size as f64 * PATTERN)),
                _ => 1,
            },
            Self::NewList => new_list(1.0, result.as_ref().map_or(1, plain_size)),
            Self::Flatten => flatten(args)?,
            Self::Pairs { arg: index } => pairs(arg(index))?,
            Self::Sets(factor) => {
                let comparisons = plain_size(arg(0)).wrapping_mul(plain_size(arg(1)));
                1_u64.wrapping_add(whole(comparisons as f64 * f64::from(factor)))
            }
        })
    }
}

/// Returns the cost of `==` or `!=`.
pub(super) fn equality(first: &Value, second: &Value, negated: bool) -> u64 {
    let constant = matches!(
        first,
        Value::Quantity(_)
            | Value::ComputedQuantity(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Version(_)
    );
    if constant && !negated { 1 } else { shorter(first, second) }
}

fn shorter(first: &Value, second: &Value) -> u64 {
    traversal(size(first).min(size(second)))
}

fn size(value: &Value) -> u64 {
    match value {
        Value::Optional(Some(inner)) => size(inner),
        _ => plain_size(value),
    }
}

fn plain_size(value: &Value) -> u64 {
    value.size().unwrap_or(1)
}

fn ceil(value: f64) -> u64 {
    whole(value.ceil())
}

fn traversal(size: u64) -> u64 {
    ceil(size as f64 * TRAVERSAL)
}

/// Converts a double to an unsigned integer as Go does: negative numbers wrap.
fn whole(value: f64) -> u64 {
    if value < 0.0 { (value as i64).cast_unsigned() } else { value as u64 }
}

fn new_list(factor: f64, size: u64) -> u64 {
    whole(size as f64 * factor).wrapping_add(1 + LIST)
}

fn flatten(args: &[Value]) -> Result<u64> {
    let depth = match args.get(1) {
        None => 1.0,
        Some(Value::Int(depth)) => *depth as f64,
        Some(other) => return Err(not_a(other, "types.Int, not")),
    };
    Ok(new_list(depth, args.first().map_or(1, plain_size)))
}

/// Returns the error for an argument of an unexpected type: upstream's cost function panics, which ends the
/// evaluation.
fn not_a(value: &Value, what: &str) -> Error {
    let kind = crate::value::format_go::type_name(value);
    if what == "list" {
        return Error::fatal(format!(
            "internal error: interface conversion: {kind} is not traits.Lister: missing method Add"
        ));
    }
    Error::fatal(format!("internal error: interface conversion: ref.Val is {kind}, not types.Int"))
}

fn pairs(value: &Value) -> Result<u64> {
    let Value::List(list) = value else { return Err(not_a(value, "list")) };
    let factor = match list.get(0) {
        Some(Value::String(_) | Value::Bytes(_)) => 2.0 + TRAVERSAL,
        _ => 2.0,
    };
    Ok(new_list(factor, list.len().wrapping_mul(list.len())))
}

/// Maximum number of values that a traversal visits. More values that cost 1 each exceed the cost limit
/// anyway. Strings of fewer than 10 bytes cost nothing, and upstream has no limit for them.
const DEEP_LIMIT: u64 = 10_000_000;

/// Returns the cost of visiting a value with all nested values.
fn deep(value: &Value, visited: &mut u64) -> Result<u64> {
    *visited += 1;
    if *visited > DEEP_LIMIT {
        return Err(Error::LIMIT);
    }
    let floor = |length: usize| whole(length as f64 * TRAVERSAL);
    Ok(match value {
        Value::String(text) => floor(text.len()),
        Value::Bytes(bytes) => floor(bytes.len()),
        Value::List(list) => {
            let mut cost = 0_u64;
            for element in list.iter() {
                cost = cost.saturating_add(crate::deep(|| deep(element, visited))?);
            }
            cost
        }
        Value::Map(map) => {
            let mut cost = 0_u64;
            for (key, element) in map.iter() {
                cost = cost.saturating_add(deep(&key, visited)?);
                cost = cost.saturating_add(crate::deep(|| deep(element, visited))?);
            }
            cost
        }
        _ => 1,
    })
}
