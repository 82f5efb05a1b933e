//! Checks of literals that require the types of all nodes. Upstream: cel-go's `cel/validator.go`.

use crate::Value;
use crate::error::Issue;
use crate::library::{regex, strings::format, time};
use crate::parse::{Expr, ExprKind};
use crate::types::Type;

/// Reports lists and maps with elements of different types, and literal arguments that a function never
/// accepts.
pub(super) fn check(expr: &Expr, issues: &mut Vec<Issue>) {
    visit(expr, false, issues);
}

fn visit(expr: &Expr, in_format: bool, issues: &mut Vec<Issue>) {
    let mut in_format = in_format;
    match &expr.kind {
        ExprKind::List { elements, optional } if !in_format => {
            let types = elements
                .iter()
                .zip(optional)
                .map(|(element, optional)| (element.offset, value_type(element, *optional)));
            same(types, issues);
        }
        ExprKind::Map(entries) if !in_format => {
            same(entries.iter().map(|entry| (entry.key.offset, &entry.key.ty)), issues);
            same(
                entries.iter().map(|entry| (entry.value.offset, value_type(&entry.value, entry.optional))),
                issues,
            );
        }
        ExprKind::Call { function, target, args } => {
            call(expr, function, target.as_deref(), args, issues);
            in_format |= function == "format";
        }
        _ => {}
    }
    crate::deep(|| expr.children().into_iter().for_each(|child| visit(child, in_format, issues)));
}

fn value_type(expr: &Expr, optional: bool) -> &Type {
    if optional { expr.ty.optional_value().unwrap_or(&expr.ty) } else { &expr.ty }
}

/// Reports the first type that differs from the first one.
fn same<'e>(mut types: impl Iterator<Item = (usize, &'e Type)>, issues: &mut Vec<Issue>) {
    let Some((_, expected)) = types.next() else { return };
    if let Some((offset, found)) = types.find(|(_, ty)| *ty != expected) {
        issues.push(Issue::at(
            offset,
            format!("expected type '{}' but found '{}'", expected.in_message(), found.in_message()),
        ));
    }
}

fn call(expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr], issues: &mut Vec<Issue>) {
    let Some(first) = args.first() else { return };
    let ExprKind::Literal(value) = &first.kind else {
        if let ("format", Some(target), ExprKind::List { elements, .. }) = (function, target, &first.kind)
            && let ExprKind::Literal(Value::String(text)) = &target.kind
            && let Err(message) = format::check(text, elements)
        {
            issues.push(Issue::at(expr.offset, message));
        }
        return;
    };
    let invalid = match (function, value) {
        ("duration", Value::String(text)) => time::parse_duration(text).is_none(),
        ("timestamp", Value::String(text)) => time::parse_timestamp(text).is_err(),
        ("timestamp", Value::Int(seconds)) => time::timestamp_of_seconds(*seconds).is_err(),
        ("matches", Value::String(pattern)) => regex::compile(pattern).is_err(),
        _ => false,
    };
    if invalid {
        issues.push(Issue::at(first.offset, format!("invalid {function} argument")));
    }
}
