//! Static estimate of the maximum cost of an evaluation, for any valid device.
//!
//! The API server rejects selectors by this estimate; evaluations are charged their actual cost. Upstream:
//! cel-go's `checker/cost.go`, with the estimators of Kubernetes and of cel-go's extensions. Lower bounds of
//! costs are not computed: they do not affect the maximum. Lower bounds of sizes do.

mod functions;
mod path;
mod size;

use std::collections::HashMap;
use std::rc::Rc;

use crate::Value;
use crate::parse::{Entry, Expr, ExprKind, Fold};
use crate::types::{Kind, OPTIONAL, Type};
use path::Path;
use size::{ByKind, Container, Entries, Size};

/// Cost units of a list literal, a map literal and a message (cel-go's `common/cost.go`).
const LIST: u64 = 10;
const MAP: u64 = 30;
const MESSAGE: u64 = 40;

/// Returns the estimated cost of a checked expression.
pub(crate) fn estimate(expr: &Expr) -> u64 {
    Estimator::default().cost(expr)
}

/// The identity of a node: its address, which does not change during an estimate.
type Id = *const Expr;

/// A variable of a comprehension.
struct Local<'a> {
    path: Path<'a>,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// An argument or the target of a call.
struct Argument<'a> {
    expr: &'a Expr,
    path: Path<'a>,
    /// The size of the value, if known.
    size: Option<Size>,
}

/// The estimate of a call without its target: its cost, and the size of its result if known.
struct Call {
    cost: u64,
    size: Option<Size>,
}

#[derive(Default)]
struct Estimator<'a> {
    paths: HashMap<Id, Path<'a>>,
    sizes: HashMap<Id, Size>,
    entries: HashMap<Id, Entries>,
    locals: HashMap<&'a str, Vec<Rc<Local<'a>>>>,
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, expr: &'a Expr) -> u64 {
        crate::deep(|| self.cost_inner(expr))
    }

    fn cost_inner(&mut self, expr: &'a Expr) -> u64 {
        match &expr.kind {
            ExprKind::Literal(_) => 0,
            ExprKind::Resolved(_) => 1,
            ExprKind::Ident(name) => {
                let path = self.local(name).map(|local| local.path.clone());
                self.paths.insert(expr, path.unwrap_or_else(|| Path::root(name)));
                1
            }
            ExprKind::Select { operand, test: true, .. } => self.cost(operand),
            ExprKind::Select { operand, field, test: false } => {
                let cost = self.cost(operand);
                let path = self.path(operand).then(field);
                self.paths.insert(expr, path);
                cost.saturating_add(u64::from(matches!(operand.ty.0, Kind::Map(_) | Kind::Object(_))))
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List { elements, .. } => self.list(expr, elements),
            ExprKind::Map(entries) => self.map(expr, entries),
            ExprKind::Message { fields, .. } => {
                let costs = fields.iter().map(|(_, value)| self.cost(value));
                costs.fold(MESSAGE, u64::saturating_add)
            }
            ExprKind::Fold(fold) if is_bind(fold) => self.bind(expr, fold),
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn list(&mut self, expr: &'a Expr, elements: &'a [Expr]) -> u64 {
        let mut size = Size::none_of(elements.len());
        let mut cost = LIST;
        for element in elements {
            cost = cost.saturating_add(self.cost(element));
            size = size.union(self.size_or_unknown(element));
        }
        self.entries.insert(expr, Entries { container: Container::List, key: Size::fixed(1), value: size });
        cost
    }

    fn map(&mut self, expr: &'a Expr, entries: &'a [Entry]) -> u64 {
        let (mut key, mut value) = (Size::none_of(entries.len()), Size::none_of(entries.len()));
        let mut cost = MAP;
        for entry in entries {
            cost = cost.saturating_add(self.cost(&entry.key)).saturating_add(self.cost(&entry.value));
            key = key.union(self.size_or_unknown(&entry.key));
            value = value.union(self.size_or_unknown(&entry.value));
        }
        self.entries.insert(expr, Entries { container: Container::Map, key, value });
        cost
    }

    fn fold(&mut self, expr: &'a Expr, fold: &'a Fold) -> u64 {
        let mut cost = self.cost(&fold.range).saturating_add(self.cost(&fold.start));
        self.push_value(&fold.accumulator, &fold.start);
        match &fold.second {
            Some(second) => {
                self.push_item(&fold.variable, &fold.range, ByKind::Key);
                self.push_item(second, &fold.range, ByKind::Value);
            }
            None => self.push_item(&fold.variable, &fold.range, ByKind::Single),
        }
        let condition = self.cost(&fold.condition);
        let round = self.cost(&fold.step).saturating_add(condition);
        self.pop(&fold.variable);
        fold.second.iter().for_each(|second| self.pop(second));
        cost = cost.saturating_add(self.cost(&fold.result));
        self.pop(&fold.accumulator);
        let rounds = self.size_or_unknown(&fold.range);
        cost = cost.saturating_add(rounds.max.saturating_mul(round));
        match &fold.start.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&fold.start);
                self.set_size(expr, size);
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.set_size(expr, Some(rounds));
                let entries = self.entries_of(&fold.step);
                self.set_entries(expr, entries);
            }
            _ => {}
        }
        cost
    }

    /// Estimates a comprehension that only binds a variable: the cost of the value is charged once.
    fn bind(&mut self, expr: &'a Expr, fold: &'a Fold) -> u64 {
        let cost = self.cost(&fold.range).saturating_add(self.cost(&fold.start));
        self.push_value(&fold.accumulator, &fold.start);
        let cost = cost.saturating_add(self.cost(&fold.result));
        self.pop(&fold.accumulator);
        self.copy_sizes(expr, &fold.result);
        cost
    }

    fn call(&mut self, expr: &'a Expr, function: &'a str, target: Option<&'a Expr>, args: &'a [Expr]) -> u64 {
        if let ("dyn", [value, ..]) = (function, args) {
            let cost = self.cost(value);
            self.copy_sizes(expr, value);
            return cost.saturating_add(1);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            arguments.push(self.argument(arg));
        }
        let overloads: Vec<&'static str> = match function {
            "_&&_" | "_||_" => vec!["logical"],
            "_?._" => vec!["select_optional_field"],
            _ => expr.overloads.iter().map(|overload| overload.id).collect(),
        };
        let target_cost = target.map_or(0, |target| self.cost(target));
        let target = target.map(|target| self.argument(target));
        let (mut most, mut size) = (0, None);
        for overload in overloads {
            let estimate = self.function(expr, function, overload, target.as_ref(), &arguments, &costs);
            most = most.max(estimate.cost);
            size = match (size, estimate.size) {
                (Some(known), Some(new)) => Some(Size::union(known, new)),
                (known, new) => known.or(new),
            };
            let step = match overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), [operand, ..]) = (step, args) {
                size = self.entries_of(operand).map(|entries| entries.value);
                let path = self.path(operand).then(step);
                self.paths.insert(expr, path);
            }
            size = size.or_else(|| self.size(expr));
        }
        self.set_size(expr, size);
        target_cost.saturating_add(most)
    }

    fn argument(&mut self, expr: &'a Expr) -> Argument<'a> {
        let path = self.path(expr);
        let path = if path.is_below_accumulator() { Path::default() } else { path };
        Argument { expr, path, size: self.size(expr) }
    }

    fn local(&self, name: &str) -> Option<Rc<Local<'a>>> {
        self.locals.get(name)?.last().cloned()
    }

    fn push(&mut self, name: &'a str, local: Local<'a>) {
        self.locals.entry(name).or_default().push(Rc::new(local));
    }

    fn pop(&mut self, name: &str) {
        if let Some(locals) = self.locals.get_mut(name) {
            locals.pop();
        }
    }

    /// Adds a variable that stands for the value of an expression.
    fn push_value(&mut self, name: &'a str, value: &'a Expr) {
        let (path, entries) = (self.path(value), self.entries_of(value));
        let size = self.size(value);
        self.push(name, Local { path, size, entries });
    }

    /// Adds a variable that stands for each key or value of a range.
    fn push_item(&mut self, name: &'a str, range: &'a Expr, kind: ByKind) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.container == Container::List,
            None => matches!(range.ty.0, Kind::List(_)),
        };
        let (size, step) = match (kind, is_list) {
            (ByKind::Key, true) => (entries.map(|it| it.key), "@indices"),
            (ByKind::Key | ByKind::Single, false) => (entries.map(|it| it.key), "@keys"),
            (ByKind::Value | ByKind::Single, true) => (entries.map(|it| it.value), "@items"),
            (ByKind::Value, false) => (entries.map(|it| it.value), "@values"),
        };
        let path = self.path(range).then(step);
        self.push(name, Local { path, size, entries: None });
    }

    /// Returns the path from a variable to the value that an expression reads.
    fn path(&self, expr: &'a Expr) -> Path<'a> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&std::ptr::from_ref(expr)).cloned().unwrap_or_default()
    }

    fn size_or_unknown(&mut self, expr: &'a Expr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    /// Returns the size of an expression's value, if anything is known about it.
    fn size(&mut self, expr: &'a Expr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&std::ptr::from_ref(expr)) {
            return Some(*size);
        }
        if let Some(size) = size_of_literal(expr) {
            return Some(Size::fixed(size));
        }
        if let Some(max) = self.path(expr).size_in_device() {
            let size = Size { min: 0, max };
            self.sizes.insert(expr, size);
            return Some(size);
        }
        if is_scalar(&expr.ty) {
            return Some(Size::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn set_size(&mut self, expr: &'a Expr, size: Option<Size>) {
        if let Some(size) = size {
            self.sizes.insert(expr, size);
        }
    }

    fn entries_of(&self, expr: &'a Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&std::ptr::from_ref(expr)) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn set_entries(&mut self, expr: &'a Expr, entries: Option<Entries>) {
        if let Some(entries) = entries {
            self.entries.insert(expr, entries);
        }
    }

    fn copy_sizes(&mut self, to: &'a Expr, from: &'a Expr) {
        let (size, entries) = (self.size(from), self.entries_of(from));
        self.set_size(to, size);
        self.set_entries(to, entries);
    }
}

/// Returns whether a comprehension only binds a variable: its range is empty and its condition is false.
fn is_bind(fold: &Fold) -> bool {
    matches!(&fold.range.kind, ExprKind::List { elements, .. } if elements.is_empty())
        && matches!(fold.condition.kind, ExprKind::Literal(Value::Bool(false)))
}

fn size_of_literal(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        ExprKind::Literal(Value::String(text)) => text.chars().count() as u64,
        ExprKind::Literal(Value::Bytes(bytes)) => bytes.len() as u64,
        ExprKind::Literal(_) => 1,
        ExprKind::List { elements, .. } => elements.len() as u64,
        ExprKind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(ty: &Type) -> bool {
    match &ty.0 {
        Kind::Bool | Kind::Double | Kind::Duration | Kind::Int | Kind::Timestamp | Kind::Uint => true,
        Kind::Opaque(OPTIONAL, Some(value)) => crate::deep(|| is_scalar(value)),
        _ => false,
    }
}
