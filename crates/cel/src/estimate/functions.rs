//! The estimated cost of calls, without the cost of their targets.
//!
//! Upstream: cel-go's `checker/cost.go#functionCost`, `ext/lists.go` and `ext/sets.go`; Kubernetes'
//! `apiserver/pkg/cel/library/cost.go#EstimateCallCost`, and `draCostEstimator` in
//! `dynamic-resource-allocation/cel/compile.go`.

use super::size::{Size, scaled};
use super::{Argument, Call, Estimator};
use crate::Value;
use crate::parse::{Expr, ExprKind};
use crate::types::{Kind, Type};

/// Cost units for each traversed character or byte of a string (`StringTraversalCostFactor` in cel-go's
/// `common/cost.go`).
const TRAVERSAL: f64 = 0.1;
/// Cost units for each character of a pattern (`RegexStringLengthCostFactor`).
const PATTERN: f64 = 0.25;
/// Cost units of a call that allocates a list: 1 for the call and 10 for the list (`ListCreateBaseCost`).
const NEW_LIST: u64 = 11;
/// Maximum number of list elements that `includes` reads (`ResourceSliceMaxAttributeValuesPerDevice` in
/// `k8s.io/api/resource/v1/types.go`).
const INCLUDES: u64 = 48;
/// Cost units of an authorization check. Upstream chose the figure so that an expression can make at most
/// two.
const CHECK: u64 = 350_000;
/// The longest pattern (`MaxNameFormatRegexSize`) and the longest name (`MaxFormatSize`) of a named format,
/// in `apiserver/pkg/cel/limits.go`.
const FORMAT_PATTERN: f64 = 128.0;
const FORMAT: u64 = 64;

impl<'a> Estimator<'a> {
    /// Estimates a call of one overload.
    pub(super) fn function(
        &mut self,
        expr: &'a Expr,
        function: &str,
        overload: &str,
        target: Option<&Argument<'a>>,
        args: &[Argument<'a>],
        costs: &[u64],
    ) -> Call {
        let sum = costs.iter().copied().fold(0, u64::saturating_add);
        let estimate =
            of_extension(overload, target, args).or_else(|| of_library(function, overload, target, args));
        if let Some(Call { cost, size }) = estimate {
            return Call { cost: cost.saturating_add(sum), size };
        }
        if let Some(call) = self.of_language(expr, overload, args, costs) {
            return call;
        }
        let Call { cost, size } = standard(overload, target, args).unwrap_or(Call { cost: 1, size: None });
        Call { cost: cost.saturating_add(sum), size }
    }

    /// Estimates logical operators, conditionals and additions, which combine the costs and sizes of their
    /// operands.
    fn of_language(
        &mut self,
        expr: &'a Expr,
        overload: &str,
        args: &[Argument<'a>],
        costs: &[u64],
    ) -> Option<Call> {
        match (overload, args, costs) {
            ("logical", _, [left, right, ..]) => Some(Call { cost: left.saturating_add(*right), size: None }),
            ("conditional", [_, yes, no, ..], [condition, if_yes, if_no, ..]) => {
                let size = known(yes).union(known(no));
                self.unite_entries(expr, yes, no);
                let cost = condition.saturating_add(*if_yes.max(if_no));
                Some(Call { cost, size: Some(size) })
            }
            ("add_string" | "add_bytes" | "add_list", [left, right], [first, second]) => {
                let size = known(left).plus(known(right));
                self.unite_entries(expr, left, right);
                // Concatenation does not copy lists.
                let own = if overload == "add_list" { 1 } else { size.cost(TRAVERSAL) };
                let cost = own.saturating_add(first.saturating_add(*second));
                Some(Call { cost, size: Some(size) })
            }
            _ => None,
        }
    }

    fn unite_entries(&mut self, expr: &'a Expr, one: &Argument<'a>, other: &Argument<'a>) {
        let entries = self.entries_of(one.expr).zip(self.entries_of(other.expr));
        let entries = entries.map(|(one, other)| one.union(other));
        self.set_entries(expr, entries);
    }
}

/// Returns the size that follows from the expression.
fn known(argument: &Argument<'_>) -> Size {
    argument.size.unwrap_or(Size::UNKNOWN)
}

/// Like [`known`], but falls back to the maximum size that the device declares.
fn size(argument: &Argument<'_>) -> Size {
    let declared = || argument.path.size_in_device().map(|max| Size { min: 0, max });
    argument.size.or_else(declared).unwrap_or(Size::UNKNOWN)
}

/// Estimates the functions of cel-go's extensions for lists and sets.
fn of_extension(overload: &str, target: Option<&Argument<'_>>, args: &[Argument<'_>]) -> Option<Call> {
    let new_list =
        |size: Size, factor: f64| Call { cost: size.cost(factor).saturating_add(NEW_LIST), size: Some(size) };
    let pairs = |argument: &Argument<'_>, factor: f64| {
        let size = size(argument);
        new_list(size.times(size), factor)
    };
    let is_text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
    let sort_factor = if is_text { 2.0 + TRAVERSAL } else { 2.0 };
    Some(match (overload, target, args) {
        ("list_slice", Some(list), [start, end]) => {
            let end = literal(end, size(list).max);
            new_list(Size::fixed(end.wrapping_sub(literal(start, 0))), 1.0)
        }
        ("lists_range", None, [count]) => new_list(Size::fixed(literal(count, u64::MAX)), 1.0),
        ("list_reverse", Some(list), []) => new_list(size(list), 1.0),
        ("list_flatten" | "list_flatten_int", Some(list), [] | [_]) => {
            let depth = args.first().map_or(1, |depth| literal(depth, u64::MAX));
            new_list(size(list), depth as f64)
        }
        ("list_distinct", Some(list), []) => pairs(list, 2.0),
        (_, Some(list), []) if overload.starts_with("list_") && overload.ends_with("_sort") => {
            pairs(list, sort_factor)
        }
        (_, Some(_), [keys]) if overload.ends_with("_sortByAssociatedKeys") => pairs(keys, sort_factor),
        (
            "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list",
            _,
            [one, other],
        ) => {
            let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            Call { cost: size(one).times(size(other)).cost(factor).saturating_add(1), size: None }
        }
        _ => return None,
    })
}

/// Returns the value of an integer literal, 0 if it is negative, or `otherwise` for other expressions.
fn literal(argument: &Argument<'_>, otherwise: u64) -> u64 {
    match argument.expr.kind {
        ExprKind::Literal(Value::Int(value)) => u64::try_from(value).unwrap_or(0),
        _ => otherwise,
    }
}

/// Estimates the functions of the Kubernetes libraries.
// long because: one arm per group of functions, in upstream's order
fn of_library(
    function: &str,
    overload: &str,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Call> {
    let fixed = |cost| Some(Call { cost, size: None });
    let traversal = |argument: &Argument<'_>, times: f64| fixed(size(argument).cost(times * TRAVERSAL));
    match (function, target, args) {
        ("includes", Some(_), _) if overload == "dra_includes_dyn_dyn" => fixed(INCLUDES),
        ("check", ..) => fixed(CHECK),
        ("fieldSelector" | "labelSelector", _, [text]) => {
            let size = size(text);
            let requirements = scaled(scaled(size.max, 0.5), 50.0);
            fixed(10_u64.saturating_add(size.cost(TRAVERSAL)).saturating_add(requirements))
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
            fixed(comparison_of_elements(target))
        }
        ("url" | "jsonpatch.escapeKey", _, [text]) => {
            let size = size(text);
            Some(Call { cost: size.cost(TRAVERSAL), size: Some(size) })
        }
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            let size = size(text);
            Some(Call { cost: size.cost(TRAVERSAL), size: Some(size) })
        }
        ("replace", Some(text), [old, new, ..]) => {
            let text = size(text);
            let size = replaced(text, size(old), size(new));
            Some(Call { cost: text.cost(2.0 * TRAVERSAL), size: Some(size) })
        }
        ("split", Some(text), _) => {
            let text = size(text);
            let max = match args.get(1).map(|limit| &limit.expr.kind) {
                Some(ExprKind::Literal(Value::Int(limit))) => limit.cast_unsigned(),
                _ => text.max,
            };
            Some(Call { cost: text.cost(2.0 * TRAVERSAL), size: Some(Size { min: 0, max }) })
        }
        ("join", Some(list), _) => {
            let size = joined(list, args.first());
            Some(Call { cost: size.cost(TRAVERSAL), size: Some(size) })
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            let text = size(text);
            let cost = matching(text, size(pattern));
            Some(Call { cost, size: Some(Size { min: 0, max: text.max }) })
        }
        ("ip", ..) if overload == "cidr_ip" => fixed(1),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
            [text, ..],
        ) => traversal(text, 1.0),
        ("ip.isCanonical", _, [text, ..]) => traversal(text, 2.0),
        ("containsIP" | "containsCIDR", _, [other, ..]) => {
            // Two addresses of up to 16 bytes are compared: 32 · 0.1, rounded up. For a network, add masking
            // (16 · 0.1, rounded up) and comparing the prefix lengths (1).
            let own = if function == "containsIP" { 4 } else { 4 + 2 + 1 };
            let is_text = overload.ends_with("_string");
            fixed(if is_text { size(other).cost(TRAVERSAL).saturating_add(own) } else { own })
        }
        ("validate", _, [text, ..]) => fixed(scaled(size(text).cost(TRAVERSAL), FORMAT_PATTERN * PATTERN)),
        (
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery",
            ..,
        ) => fixed(1),
        ("_==_", _, [left, right]) if left.expr.ty.name() == right.expr.ty.name() => {
            equality(&left.expr.ty, right)
        }
        _ => None,
    }
}

/// Estimates comparing each element of a list, or traversing a string.
fn comparison_of_elements(target: &Argument<'_>) -> u64 {
    let Some(element) = element_type(target) else { return size(target).cost(TRAVERSAL) };
    let mut each = 1_u64;
    if matches!(element.0, Kind::String | Kind::Bytes) {
        each = each.saturating_add(size_of_elements(target).cost(TRAVERSAL));
    }
    size(target).max.saturating_mul(each)
}

/// Returns the first type parameter: the type of a list's elements, or of a map's keys.
fn element_type<'t>(argument: &Argument<'t>) -> Option<&'t Type> {
    argument.expr.ty.parameters().first().copied()
}

/// Returns the size of each element of a list.
fn size_of_elements(list: &Argument<'_>) -> Size {
    let declared = list.path.then("@items").size_in_device();
    declared.map_or(Size::UNKNOWN, |max| Size { min: 0, max })
}

fn joined(list: &Argument<'_>, separator: Option<&Argument<'_>>) -> Size {
    let count = size(list);
    let mut joined = Size::fixed(0);
    if element_type(list).is_some() {
        joined = count.times(size_of_elements(list));
    }
    if let Some(separator) = separator {
        let gaps = Size { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        joined = joined.plus(size(separator).times(gaps));
    }
    joined
}

/// Returns the size of a string in which `old` was replaced by `new`.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let (mut count, mut kept) = (Size::fixed(0), Size::fixed(0));
    let quotient = |one: u64, other: u64| (one as f64 / other as f64).ceil() as u64;
    if old.min == 0 {
        // The empty string matches before and after each character.
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if new.max <= old.min {
        kept.max = text.max;
    } else {
        count.max = quotient(text.max, old.min);
    }
    if old.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if old.max <= new.min {
        kept.min = text.min;
    } else {
        count.min = quotient(text.min, old.max);
    }
    count.times(new).plus(kept)
}

/// Returns the cost of searching a string for a pattern.
fn matching(text: Size, pattern: Size) -> u64 {
    text.plus(Size::fixed(1)).cost(TRAVERSAL).saturating_mul(pattern.cost(PATTERN))
}

/// Estimates comparing two values of the same Kubernetes type. These types have no parameters.
fn equality(ty: &Type, right: &Argument<'_>) -> Option<Call> {
    let cost = match ty.0 {
        Kind::Opaque("net.IP" | "net.CIDR", _)
        | Kind::Object("kubernetes.Quantity" | "kubernetes.Semver") => 1,
        Kind::Object("kubernetes.NamedFormat") => scaled(FORMAT, TRAVERSAL),
        Kind::Object("kubernetes.URL") => right.size.unwrap_or(Size::fixed(1)).cost(TRAVERSAL),
        _ => return None,
    };
    Some(Call { cost, size: None })
}

/// Estimates the standard functions whose cost depends on sizes.
fn standard(overload: &str, target: Option<&Argument<'_>>, args: &[Argument<'_>]) -> Option<Call> {
    let call = |cost, size| Some(Call { cost, size });
    match (overload, target, args) {
        ("string_format", Some(text), _) => call(known(text).cost(TRAVERSAL), None),
        ("string_to_bytes" | "bytes_to_string" | "strings_quote", _, [value]) => {
            let Size { min, max } = known(value);
            // A character has up to 4 bytes. Quoting escapes at most every character, and adds two quotes.
            let size = match overload {
                "string_to_bytes" => Size { min, max: max.wrapping_mul(4) },
                "bytes_to_string" => Size { min: min / 4, max },
                _ => Size { min: min.wrapping_add(2), max: max.wrapping_mul(2).wrapping_add(2) },
            };
            call(scaled(max, TRAVERSAL), Some(size))
        }
        ("starts_with_string" | "ends_with_string", _, [affix]) => call(known(affix).cost(TRAVERSAL), None),
        ("in_list", _, [_, list]) => call(known(list).cost(1.0), None),
        ("matches_string", Some(text), [pattern]) => call(matching(known(text), known(pattern)), None),
        ("contains_string", Some(text), [part]) => {
            call(known(text).cost(TRAVERSAL).saturating_mul(known(part).cost(TRAVERSAL)), None)
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [left, right, ..],
        ) => call(scaled(known(left).max.min(known(right).max), TRAVERSAL), None),
        _ => None,
    }
}
