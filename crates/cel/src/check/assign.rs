//! Assignability of types with type variables, by the rules of cel-go's checker.

use crate::types::{Kind, Type};

/// Maximum number of steps of a check, over all comparisons and substitutions of types. Types of nested maps
/// can grow exponentially with the length of the expression. Ordinary expressions of 10 KiB need about
/// 100,000 steps.
const STEP_LIMIT: u64 = 3_000_000;

/// Type variables, with the types found for them.
#[derive(Default)]
pub(super) struct Variables {
    found: Vec<Option<Type>>,
    /// Changed variables with their former values, to undo a failed attempt.
    trail: Vec<(u32, Option<Type>)>,
    steps: u64,
}

impl Variables {
    pub(super) fn fresh(&mut self) -> Type {
        self.found.push(None);
        Type(Kind::Variable(u32::try_from(self.found.len() - 1).unwrap_or(u32::MAX)))
    }

    /// Returns whether the check exceeded its step limit.
    pub(super) fn exhausted(&self) -> bool {
        self.steps > STEP_LIMIT
    }

    fn step(&mut self) -> bool {
        self.steps += 1;
        !self.exhausted()
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty.0 {
            Kind::Variable(index) => self.found.get(index as usize)?.as_ref(),
            _ => None,
        }
    }

    fn set(&mut self, variable: &Type, ty: Type) {
        if let Kind::Variable(index) = variable.0
            && let Some(slot) = self.found.get_mut(index as usize)
        {
            let former = slot.replace(ty);
            self.trail.push((index, former));
        }
    }

    fn attempt(&mut self, try_it: impl FnOnce(&mut Self) -> bool) -> bool {
        self.trail.clear();
        if try_it(self) {
            return true;
        }
        while let Some((index, former)) = self.trail.pop() {
            if let Some(slot) = self.found.get_mut(index as usize) {
                *slot = former;
            }
        }
        false
    }

    /// Returns whether `from` is assignable to `to`. If so, variables keep the types that this requires;
    /// otherwise they are restored.
    pub(super) fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.attempt(|variables| variables.fits(to, from))
    }

    /// Like [`assignable`](Self::assignable), for several pairs at once.
    pub(super) fn all_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        to.len() == from.len()
            && self.attempt(|variables| to.iter().zip(from).all(|(to, from)| variables.fits(to, from)))
    }

    fn fits(&mut self, first: &Type, second: &Type) -> bool {
        if !self.step() {
            return false;
        }
        crate::deep(|| self.fits_inner(first, second))
    }

    fn fits_inner(&mut self, first: &Type, second: &Type) -> bool {
        if second.is_variable() {
            let (valid, known) = self.substitutes(first, second);
            if valid || known {
                return valid;
            }
        }
        if first.is_variable() {
            return self.substitutes(second, first).0;
        }
        let open = |ty: &Type| ty.is_dyn() || ty.is_error();
        if open(first) || open(second) {
            return true;
        }
        if matches!(first.0, Kind::Null) {
            return nullable(second);
        }
        if matches!(second.0, Kind::Null) {
            return nullable(first);
        }
        match (&first.0, &second.0) {
            (Kind::List(a), Kind::List(b)) => self.fits(a, b),
            (Kind::Map(a), Kind::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Kind::Opaque(a, None), Kind::Opaque(b, None)) => a == b,
            (Kind::Opaque(a, Some(x)), Kind::Opaque(b, Some(y))) => a == b && self.fits(x, y),
            (Kind::Type(_), Kind::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    /// Binds `variable` to `ty` if that is consistent. Returns whether it is, and whether `variable` was
    /// bound before or is `ty` itself.
    fn substitutes(&mut self, ty: &Type, variable: &Type) -> (bool, bool) {
        if ty == variable {
            return (true, true);
        }
        if let Some(known) = self.find(variable).cloned() {
            if self.same(ty, &known) {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let general = self.most_general(ty, &known);
            if self.not_within(variable, &general) {
                self.set(variable, general);
            }
            return (true, true);
        }
        if self.not_within(variable, ty) {
            self.set(variable, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Returns whether two types are structurally equal, without resolving variables.
    pub(super) fn same(&mut self, first: &Type, second: &Type) -> bool {
        if !self.step() {
            return false;
        }
        match (&first.0, &second.0) {
            (Kind::List(a), Kind::List(b)) => self.same(a, b),
            (Kind::Map(a), Kind::Map(b)) => self.same(&a.0, &b.0) && self.same(&a.1, &b.1),
            (Kind::Opaque(a, Some(x)), Kind::Opaque(b, Some(y))) => a == b && self.same(x, y),
            (Kind::Type(Some(a)), Kind::Type(Some(b))) => self.same(a, b),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b) && a == b,
        }
    }

    /// Returns whether `variable` does not occur in `ty`.
    fn not_within(&mut self, variable: &Type, ty: &Type) -> bool {
        if !self.step() || variable == ty {
            return false;
        }
        if ty.is_variable() {
            return match self.find(ty).cloned() {
                Some(known) => self.not_within(variable, &known),
                None => true,
            };
        }
        ty.parameters().into_iter().all(|parameter| self.not_within(variable, parameter))
    }

    /// Returns the more general of two compatible types.
    pub(super) fn most_general(&mut self, first: &Type, second: &Type) -> Type {
        if self.equal_or_less_specific(first, second) { first.clone() } else { second.clone() }
    }

    fn equal_or_less_specific(&mut self, first: &Type, second: &Type) -> bool {
        if !self.step() {
            return true;
        }
        if first.is_dyn() || first.is_variable() {
            return true;
        }
        if second.is_dyn() || second.is_variable() {
            return false;
        }
        match (&first.0, &second.0) {
            (Kind::List(a), Kind::List(b)) => self.equal_or_less_specific(a, b),
            (Kind::Map(a), Kind::Map(b)) => {
                self.equal_or_less_specific(&a.0, &b.0) && self.equal_or_less_specific(&a.1, &b.1)
            }
            (Kind::Opaque(a, Some(x)), Kind::Opaque(b, Some(y))) => {
                a == b && self.equal_or_less_specific(x, y)
            }
            (Kind::Type(_), Kind::Type(_)) => true,
            (a, b) => a == b,
        }
    }

    /// Returns the type with known variables substituted. With `finish`, unknown ones become dynamic.
    pub(super) fn substitute(&mut self, ty: &Type, finish: bool) -> Type {
        if !self.step() {
            return Type::DYN;
        }
        crate::deep(|| self.substitute_inner(ty, finish))
    }

    fn substitute_inner(&mut self, ty: &Type, finish: bool) -> Type {
        if let Some(known) = self.find(ty).cloned() {
            return self.substitute(&known, finish);
        }
        match &ty.0 {
            Kind::Variable(_) | Kind::Parameter(_) if finish => Type::DYN,
            Kind::List(element) => Type::list(self.substitute(element, finish)),
            Kind::Map(entry) => {
                let key = self.substitute(&entry.0, finish);
                Type::map(key, self.substitute(&entry.1, finish))
            }
            Kind::Opaque(name, Some(value)) => {
                Type(Kind::Opaque(name, Some(self.substitute(value, finish).into())))
            }
            Kind::Type(Some(value)) => Type::type_of(self.substitute(value, finish)),
            _ => ty.clone(),
        }
    }

    /// Returns the argument and result types of an overload, with fresh variables for its type parameters.
    pub(super) fn instantiate(&mut self, args: &[Type], result: &Type) -> (Vec<Type>, Type) {
        let mut names: Vec<(&'static str, Type)> = Vec::new();
        let args = args.iter().map(|ty| self.replace(ty, &mut names)).collect();
        let result = self.replace(result, &mut names);
        (args, result)
    }

    fn replace(&mut self, ty: &Type, names: &mut Vec<(&'static str, Type)>) -> Type {
        match &ty.0 {
            Kind::Parameter(name) => {
                if let Some((_, variable)) = names.iter().find(|(known, _)| known == name) {
                    return variable.clone();
                }
                let variable = self.fresh();
                names.push((name, variable.clone()));
                variable
            }
            Kind::List(element) => Type::list(self.replace(element, names)),
            Kind::Map(entry) => {
                let key = self.replace(&entry.0, names);
                Type::map(key, self.replace(&entry.1, names))
            }
            Kind::Opaque(name, Some(value)) => {
                Type(Kind::Opaque(name, Some(self.replace(value, names).into())))
            }
            Kind::Type(Some(value)) => Type::type_of(self.replace(value, names)),
            _ => ty.clone(),
        }
    }
}

/// Returns whether null is assignable to a type.
fn nullable(ty: &Type) -> bool {
    matches!(
        ty.0,
        Kind::Null
            | Kind::Opaque(..)
            | Kind::Object(_)
            | Kind::Any
            | Kind::Duration
            | Kind::Timestamp
            | Kind::Dyn
    )
}
