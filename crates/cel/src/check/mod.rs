//! The type checker: cel-go's rules for the environment of device selectors.

mod assign;
mod declarations;
mod literals;

use assign::Variables;
pub(crate) use declarations::{Arity, Binding, Function, Overload, function};

use crate::Value;
use crate::error::Issue;
use crate::parse::{Entry, Expr, ExprKind, Fold};
use crate::types::{DEVICE, Kind, OPTIONAL, QUANTITY, Type};

/// Maximum number of reported errors, as in cel-go's `common/errors.go`. One mistake can cause many.
const ISSUE_LIMIT: usize = 100;

/// Checks an expression: sets the types and overloads of all its nodes.
pub(crate) fn check(expr: &mut Expr) -> Result<(), Vec<Issue>> {
    let mut checker = Checker { variables: Variables::default(), scopes: Vec::new(), issues: Vec::new() };
    checker.expr(expr);
    if checker.issues.is_empty() {
        checker.finish(expr);
    }
    if checker.variables.exhausted() {
        return Err(vec![Issue::general("the types of the expression are too large")]);
    }
    if checker.issues.is_empty() {
        literals::check(expr, &mut checker.issues);
    }
    if checker.issues.is_empty() { Ok(()) } else { Err(checker.issues) }
}

struct Checker {
    variables: Variables,
    /// Variables of comprehensions, innermost last.
    scopes: Vec<(String, Type)>,
    issues: Vec<Issue>,
}

impl Checker {
    fn report(&mut self, offset: usize, message: impl Into<String>) {
        if self.issues.len() < ISSUE_LIMIT {
            self.issues.push(Issue::at(offset, message));
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        crate::deep(|| self.expr_inner(expr));
    }

    fn expr_inner(&mut self, expr: &mut Expr) {
        let offset = expr.offset;
        if let Some((value, ty)) = self.package_name(expr) {
            expr.kind = ExprKind::Resolved(value);
            expr.ty = ty;
            return;
        }
        expr.ty = match &mut expr.kind {
            ExprKind::Literal(value) => literal_type(value),
            ExprKind::Resolved(_) => expr.ty.clone(),
            ExprKind::Ident(name) => match self.lookup(name) {
                Some(ty) => ty,
                None => {
                    let message = undeclared(name);
                    self.report(offset, message);
                    Type::ERROR
                }
            },
            ExprKind::Select { operand, field, test } => {
                let ty = self.field(offset, operand, field, false);
                if *test { Type::BOOL } else { self.variables.substitute(&ty, false) }
            }
            ExprKind::Call { .. } => return self.call(expr),
            ExprKind::List { elements, optional } => self.list(elements, optional),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Message { name, fields } => {
                for (_, value) in fields {
                    self.expr(value);
                }
                let message = format!("messages cannot be constructed: {name}");
                self.report(offset, message);
                Type::ERROR
            }
            ExprKind::Fold(fold) => self.fold(fold),
        };
    }

    /// Returns the type or constant that a name such as `google.protobuf.Duration` denotes, with its type.
    fn package_name(&self, expr: &Expr) -> Option<(Value, Type)> {
        let name = match &expr.kind {
            ExprKind::Ident(name) => name.clone(),
            ExprKind::Select { .. } => expr.qualified_name()?,
            _ => return None,
        };
        if self.scopes.iter().any(|(known, _)| *known == name) {
            return None;
        }
        if name == "google.protobuf.NullValue.NULL_VALUE" {
            return Some((Value::Int(0), Type::INT));
        }
        let ty = type_named(&name)?;
        Some((Value::Type(ty.name()), Type::type_of(ty)))
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        if let Some((_, ty)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
            return Some(ty.clone());
        }
        (name == "device").then_some(Type(Kind::Object(DEVICE)))
    }

    /// Returns the type of `operand.field`, or of `operand.?field` if `optional`.
    fn field(&mut self, offset: usize, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.expr(operand);
        let operand_type = self.variables.substitute(&operand.ty, false);
        let unwrapped = operand_type.optional_value();
        let target = unwrapped.unwrap_or(&operand_type);
        let result = match &target.0 {
            Kind::Map(entry) => entry.1.clone(),
            Kind::Object(name) => match (*name == DEVICE).then(|| device_field(field)).flatten() {
                Some(ty) => ty,
                None if *name == DEVICE => {
                    self.report(offset, format!("undefined field '{field}'"));
                    Type::ERROR
                }
                None => {
                    self.report(offset, format!("unexpected failed resolution of '{name}'"));
                    Type::ERROR
                }
            },
            Kind::Variable(_) => {
                self.variables.assignable(&Type::DYN, target);
                Type::DYN
            }
            _ => {
                if !target.is_dyn() && !target.is_error() {
                    self.report(
                        offset,
                        format!("type '{}' does not support field selection", target.in_message()),
                    );
                }
                Type::DYN
            }
        };
        if unwrapped.is_some() || optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, expr: &mut Expr) {
        let offset = expr.offset;
        let ExprKind::Call { function: name, target, args } = &mut expr.kind else { return };
        if name == "_?._" {
            expr.ty = self.optional_field(offset, args);
            return;
        }
        for arg in args.iter_mut() {
            self.expr(arg);
        }
        if let Some(prefix) = target.as_ref().and_then(|target| target.qualified_name()) {
            let qualified = format!("{prefix}.{name}");
            if function(&qualified).is_some() {
                *name = qualified;
                *target = None;
            }
        }
        if let Some(target) = target {
            self.expr(target);
        }
        let Some(declared) = function(name) else {
            let message = undeclared(name);
            expr.ty = Type::ERROR;
            self.report(offset, message);
            return;
        };
        let types: Vec<Type> =
            target.iter().map(|t| t.ty.clone()).chain(args.iter().map(|arg| arg.ty.clone())).collect();
        if matches!(declared.name, "_&&_" | "_||_") {
            expr.ty = self.logical(args);
            return;
        }
        let member = target.is_some();
        expr.ty = match self.resolve(declared, member, &types) {
            Some((ty, overloads)) => {
                expr.overloads = overloads;
                ty
            }
            None => {
                let message = self.no_overload(declared.name, member, &types);
                self.report(offset, message);
                Type::ERROR
            }
        };
    }

    fn optional_field(&mut self, offset: usize, args: &mut [Expr]) -> Type {
        let [operand, field] = args else {
            self.report(offset, "unsupported optional field selection");
            return Type::ERROR;
        };
        let ExprKind::Literal(Value::String(name)) = &field.kind else {
            self.report(offset, "unsupported optional field selection");
            return Type::ERROR;
        };
        let name = name.clone();
        field.ty = Type::STRING;
        let ty = self.field(offset, operand, &name, true);
        self.variables.substitute(&ty, false)
    }

    fn logical(&mut self, args: &[Expr]) -> Type {
        let mut result = Type::BOOL;
        for arg in args {
            if !self.variables.assignable(&arg.ty, &Type::BOOL) {
                let found = arg.ty.in_message();
                self.report(arg.offset, format!("expected type 'bool' but found '{found}'"));
                result = Type::ERROR;
            }
        }
        result
    }

    /// Returns the type of a call and its matching overloads, or `None` if no overload matches.
    fn resolve(
        &mut self,
        declared: &'static Function,
        member: bool,
        types: &[Type],
    ) -> Option<(Type, Vec<&'static Overload>)> {
        let mut result: Option<Type> = None;
        let mut overloads = Vec::new();
        for overload in declared.overloads.iter().filter(|overload| overload.method == member) {
            if overload.args.len() != types.len() {
                continue;
            }
            let (args, ty) = if overload.generic {
                self.variables.instantiate(&overload.args, &overload.result)
            } else {
                (overload.args.clone(), overload.result.clone())
            };
            if !self.variables.all_assignable(types, &args) {
                continue;
            }
            overloads.push(overload);
            let ty = self.variables.substitute(&ty, false);
            result = Some(match result {
                None => ty,
                Some(known) if !known.is_dyn() && !self.variables.same(&ty, &known) => Type::DYN,
                Some(known) => known,
            });
        }
        result.map(|ty| (ty, overloads))
    }

    fn no_overload(&mut self, name: &str, member: bool, types: &[Type]) -> String {
        let texts: Vec<_> = types.iter().map(|ty| self.variables.substitute(ty, true).in_message()).collect();
        let signature = match (member, texts.split_first()) {
            (true, Some((target, args))) => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", texts.join(", ")),
        };
        format!("found no matching overload for '{name}' applied to '{signature}'")
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[bool]) -> Type {
        let mut joined: Option<Type> = None;
        for (element, optional) in elements.iter_mut().zip(optional) {
            self.expr(element);
            let ty = if *optional { self.unwrap(element) } else { element.ty.clone() };
            joined = Some(self.join(joined, ty));
        }
        Type::list(joined.unwrap_or_else(|| self.variables.fresh()))
    }

    /// Returns the value type of an optional element or entry. Reports an error if its type is not optional.
    fn unwrap(&mut self, expr: &Expr) -> Type {
        match expr.ty.optional_value() {
            Some(value) => value.clone(),
            None => {
                if !expr.ty.is_dyn() {
                    let found = expr.ty.in_message();
                    self.report(
                        expr.offset,
                        format!("expected type '{OPTIONAL}({found})' but found '{found}'"),
                    );
                }
                expr.ty.clone()
            }
        }
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries {
            self.expr(&mut entry.key);
            keys = Some(self.join(keys, entry.key.ty.clone()));
            self.expr(&mut entry.value);
            let ty = if entry.optional { self.unwrap(&entry.value) } else { entry.value.ty.clone() };
            values = Some(self.join(values, ty));
        }
        let key = keys.unwrap_or_else(|| self.variables.fresh());
        let value = values.unwrap_or_else(|| self.variables.fresh());
        Type::map(key, value)
    }

    /// Merges the type of an element with that of the previous ones. If they differ, the result is dynamic,
    /// and `literals` reports it once all types are known.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.variables.assignable(&previous, &current) => {
                self.variables.most_general(&previous, &current)
            }
            Some(_) => Type::DYN,
        }
    }

    fn mismatch(&mut self, offset: usize, expected: &Type, found: &Type) {
        self.report(
            offset,
            format!("expected type '{}' but found '{}'", expected.in_message(), found.in_message()),
        );
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        self.expr(&mut fold.range);
        self.expr(&mut fold.start);
        let range = self.variables.substitute(&fold.range.ty, false);
        let accumulated = fold.start.ty.clone();
        let two = fold.second.is_some();
        let (first, second) = match &range.0 {
            Kind::List(element) if two => (Type::INT, (**element).clone()),
            Kind::List(element) => ((**element).clone(), Type::ERROR),
            Kind::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Kind::Dyn | Kind::Error | Kind::Variable(_) => {
                self.variables.assignable(&Type::DYN, &range);
                (Type::DYN, Type::DYN)
            }
            _ => {
                let found = range.in_message();
                let message = format!(
                    "expression of type '{found}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.offset, message);
                (Type::ERROR, Type::ERROR)
            }
        };
        let outer = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulated.clone()));
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        self.expr(&mut fold.condition);
        self.expect(&fold.condition, &Type::BOOL);
        self.expr(&mut fold.step);
        self.expect(&fold.step, &accumulated);
        self.scopes.truncate(outer + 1);
        self.expr(&mut fold.result);
        self.scopes.truncate(outer);
        self.variables.substitute(&fold.result.ty, false)
    }

    fn expect(&mut self, expr: &Expr, ty: &Type) {
        if !self.variables.assignable(ty, &expr.ty) {
            self.mismatch(expr.offset, ty, &expr.ty);
        }
    }

    /// Replaces the type variables in the types of all nodes.
    fn finish(&mut self, expr: &mut Expr) {
        crate::deep(|| {
            expr.ty = self.variables.substitute(&expr.ty, true);
            match &mut expr.kind {
                ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Resolved(_) => {}
                ExprKind::Select { operand, .. } => self.finish(operand),
                ExprKind::Call { target, args, .. } => {
                    target.iter_mut().for_each(|target| self.finish(target));
                    args.iter_mut().for_each(|arg| self.finish(arg));
                }
                ExprKind::List { elements, .. } => {
                    elements.iter_mut().for_each(|element| self.finish(element));
                }
                ExprKind::Map(entries) => entries.iter_mut().for_each(|entry| {
                    self.finish(&mut entry.key);
                    self.finish(&mut entry.value);
                }),
                ExprKind::Message { fields, .. } => {
                    fields.iter_mut().for_each(|field| self.finish(&mut field.1));
                }
                ExprKind::Fold(fold) => {
                    let Fold { range, start, condition, step, result, .. } = &mut **fold;
                    [range, start, condition, step, result].into_iter().for_each(|part| self.finish(part));
                }
            }
        });
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn literal_type(value: &Value) -> Type {
    Type(match value {
        Value::Bool(_) => Kind::Bool,
        Value::Bytes(_) => Kind::Bytes,
        Value::Double(_) => Kind::Double,
        Value::Int(_) => Kind::Int,
        Value::String(_) => Kind::String,
        Value::Uint(_) => Kind::Uint,
        _ => Kind::Null,
    })
}

/// Returns the type of a field of `device`.
fn device_field(name: &str) -> Option<Type> {
    let domains = |value| Type::map(Type::STRING, Type::map(Type::STRING, value));
    match name {
        "driver" => Some(Type::STRING),
        "allowMultipleAllocations" => Some(Type::BOOL),
        "attributes" => Some(domains(Type::ANY)),
        "capacity" => Some(domains(Type(Kind::Object(QUANTITY)))),
        _ => None,
    }
}

/// Returns the type that a type name denotes.
fn type_named(name: &str) -> Option<Type> {
    Some(Type(match name {
        "bool" => Kind::Bool,
        "bytes" => Kind::Bytes,
        "double" => Kind::Double,
        "int" => Kind::Int,
        "uint" => Kind::Uint,
        "string" => Kind::String,
        "null_type" => Kind::Null,
        "type" => Kind::Type(None),
        "list" => return Some(Type::list(Type::DYN)),
        "map" => return Some(Type::map(Type::DYN, Type::DYN)),
        "optional_type" => Kind::Opaque(OPTIONAL, None),
        "google.protobuf.Duration" => Kind::Duration,
        "google.protobuf.Timestamp" => Kind::Timestamp,
        "net.IP" => Kind::Opaque("net.IP", None),
        "net.CIDR" => Kind::Opaque("net.CIDR", None),
        _ => return None,
    }))
}
