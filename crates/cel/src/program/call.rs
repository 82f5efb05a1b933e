//! Plans and evaluates function calls.

use regex::Regex;

use super::attribute::{Root, Slot};
use super::cost::Rule;
use super::evaluate::Evaluator;
use super::plan::Node;
use crate::Value;
use crate::check::{self, Arity, Binding, Function, Overload};
use crate::error::{Error, Result};
use crate::library::{self, Implementation, regex as patterns};
use crate::types::{Kind, Type};
use crate::value::{RECEIVER, format_go};

#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: &'static Function,
    overload: Option<&'static Overload>,
    pub(super) args: Vec<Node>,
    arity: Arity,
    implementation: Implementation,
    /// The compiled pattern of `matches`, `find` or `findAll`, if it is constant.
    regex: Option<Regex>,
    rule: Rule,
    /// The level of the comprehension to whose accumulator the call adds.
    adds_to: Option<usize>,
}

impl Call {
    pub(super) fn plan(name: &str, overload: Option<&'static Overload>, args: Vec<Node>) -> Result<Self> {
        let function = check::function(name).ok_or(Error::NO_OVERLOAD)?;
        let implementation = library::implementation(name).unwrap_or(|_, _| Err(Error::NO_OVERLOAD));
        let regex = match (name, args.get(1)) {
            ("matches" | "find" | "findAll", Some(Node::Const(Value::String(pattern)))) => {
                Some(patterns::compile(pattern)?)
            }
            _ => None,
        };
        let own = overload.and_then(|overload| overload.arity);
        let arity = match (regex.is_some(), function.binding) {
            (true, _) => Arity::Any,
            (_, Binding::Shared { arity, .. }) => arity,
            (_, Binding::Own) => own.unwrap_or(Arity::Any),
        };
        let rule = Rule::of(name, overload.map(|overload| overload.id));
        let adds_to = match (name, args.first()) {
            ("_+_" | "cel.@mapInsert", Some(Node::Attribute(attribute)))
                if attribute.qualifiers.is_empty() =>
            {
                match attribute.root {
                    Root::Slot(Slot::Accumulator(level)) => Some(level),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(Self { function, overload, args, arity, implementation, regex, rule, adds_to })
    }

    /// Returns whether the implementation receives arguments that are errors.
    fn takes_errors(&self) -> bool {
        self.function.name == "@not_strictly_false"
    }
}

impl<'p> Evaluator<'p> {
    pub(super) fn call(&mut self, call: &'p Call) -> Result {
        let mut buffer: [Value; 2] = [Value::Null, Value::Null];
        let mut long = Vec::new();
        let mut failed = None;
        let in_place = call.args.len() <= 2;
        for (index, arg) in call.args.iter().enumerate() {
            let value = match self.eval(arg) {
                Ok(value) => value,
                Err(error) if error.is_fatal() => return Err(error),
                // A variadic call has a cost only if all arguments were evaluated.
                Err(error) if call.arity == Arity::Any && index + 1 < call.args.len() => return Err(error),
                Err(error) => {
                    failed = failed.or_else(|| Some(error.clone()));
                    Value::Broken(error)
                }
            };
            if in_place {
                buffer[index] = value;
            } else {
                long.push(value);
            }
        }
        let args = if in_place { &mut buffer[..call.args.len()] } else { &mut long[..] };
        self.apply(call, args, failed)
    }

    fn apply(&mut self, call: &'p Call, args: &mut [Value], failed: Option<Error>) -> Result {
        if failed.is_some() && call.arity == Arity::Any && !call.takes_errors() {
            // The last argument failed: all were evaluated, so the call has a cost.
            let result = Err(failed.unwrap_or(Error::NO_OVERLOAD));
            self.charge(call.rule.cost(args, &result)?)?;
            return result;
        }
        let result = match failed {
            Some(error) if !call.takes_errors() => Err(error),
            _ => self.invoke(call, args),
        };
        if let Err(error) = &result
            && error.is_fatal()
        {
            return result;
        }
        self.charge(call.rule.cost(args, &result)?)?;
        result
    }

    fn invoke(&mut self, call: &'p Call, args: &mut [Value]) -> Result {
        if let Some(regex) = &call.regex {
            return patterns::call(&mut self.work, call.function.name, regex, args);
        }
        if let Some(level) = call.adds_to
            && let Some(result) = self.add_in_place(level, args)
        {
            return result;
        }
        if let Binding::Shared { traits, .. } = call.function.binding {
            let Some(first) = args.first() else { return (call.implementation)(&mut self.work, args) };
            if !first.supports(traits) {
                return Err(if first.supports(RECEIVER) {
                    Error::NO_OVERLOAD
                } else {
                    Error::new(format!("no such overload: {}", call.function.name))
                });
            }
            return (call.implementation)(&mut self.work, args);
        }
        if !accepts(call, args) {
            return Err(no_overload(call.function.name, args));
        }
        (call.implementation)(&mut self.work, args)
    }

    /// Adds to an accumulator that started empty, in place as upstream does.
    fn add_in_place(&mut self, level: usize, args: &mut [Value]) -> Option<Result> {
        let frame = self.frames.get_mut(level).filter(|frame| frame.grows)?;
        match args {
            [own @ Value::List(_), Value::List(added)] => {
                *own = Value::Null;
                let Some(Ok(Value::List(list))) = &mut frame.accumulator else { return None };
                if let Err(error) = self.work.add(added.len()) {
                    return Some(Err(error));
                }
                list.extend(added);
                let grown = list.clone();
                *own = Value::List(grown.clone());
                Some(Ok(Value::List(grown)))
            }
            [own @ Value::Map(_), key, value] => {
                *own = Value::Null;
                let Some(Ok(Value::Map(map))) = &mut frame.accumulator else { return None };
                if let Err(error) = self.work.add(1) {
                    return Some(Err(error));
                }
                let result = match map.contains(key) {
                    Ok(true) => Err(Error::new(format!(
                        "insert failed: key {} already exists",
                        format_go::plain(key)
                    ))),
                    Ok(false) => map.set(key, value.clone()),
                    Err(error) => Err(error),
                };
                let grown = map.clone();
                *own = Value::Map(grown.clone());
                Some(result.map(|()| Value::Map(grown)))
            }
            _ => None,
        }
    }
}

/// Returns whether the types of the arguments match the overload, or any overload if the checker did not
/// choose one.
fn accepts(call: &Call, args: &[Value]) -> bool {
    // These functions check their arguments themselves.
    if matches!(call.function.name, "flatten" | "contains" | "startsWith" | "endsWith") {
        return true;
    }
    if call.takes_errors() && matches!(args, [Value::Broken(_)]) {
        return true;
    }
    let fits = |overload: &Overload| {
        overload.arity.is_some()
            && overload.args.len() == args.len()
            && overload.args.iter().zip(args).all(|(ty, arg)| fits(ty, arg))
    };
    match call.overload {
        Some(overload) => fits(overload),
        None => call.function.overloads.iter().any(fits),
    }
}

/// Returns whether a value matches an argument type. Of a list or map, only the first element is checked.
fn fits(ty: &Type, value: &Value) -> bool {
    match (&ty.0, value) {
        (Kind::Dyn | Kind::Any | Kind::Parameter(_) | Kind::Variable(_), _) => true,
        (Kind::List(element), Value::List(list)) => list.get(0).is_none_or(|first| fits(element, first)),
        (Kind::Map(entry), Value::Map(map)) => {
            map.iter().next().is_none_or(|(key, value)| fits(&entry.0, &key) && fits(&entry.1, value))
        }
        _ => ty.name() == value.type_name(),
    }
}

fn no_overload(name: &str, args: &[Value]) -> Error {
    let types: Vec<_> = args.iter().map(Value::type_name).collect();
    Error::new(format!("no such overload: {name}({})", types.join(", ")))
}
