//! The functions of the CEL environment. Names, signatures and the order of overloads come from the table
//! `declarations.txt`, which `tests/upstream/cel` generates from the real environment.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::types::{Kind, OPTIONAL, Type};

static TABLE: &str = include_str!("declarations.txt");

/// A function with all its overloads.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) binding: Binding,
}

/// How a function is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Each overload has its own implementation, guarded by its argument types.
    Own,
    /// All overloads share one implementation, which requires traits of its first argument.
    Shared { arity: Arity, traits: u32 },
}

/// Number of arguments of an implementation. A variadic one (`Any`) stops at the first argument that is an
/// error. The others evaluate all arguments first. The cost depends on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    One,
    Two,
    Any,
}

/// A signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) method: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// `None` if the overload uses the function's shared implementation.
    pub(crate) arity: Option<Arity>,
    /// Whether the signature has type parameters.
    pub(crate) generic: bool,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    let mut current: Option<Function> = None;
    for line in TABLE.lines() {
        let columns: Vec<&'static str> = line.split('\t').collect();
        match columns[..] {
            ["", style, id, args, result, arity] => {
                if let Some(function) = &mut current {
                    let overload = Overload::read(style, id, args, result, arity);
                    function.overloads.push(overload);
                }
            }
            [name, binding] => {
                let next = Function { name, overloads: Vec::new(), binding: read_binding(binding) };
                if let Some(function) = current.replace(next) {
                    functions.insert(function.name, function);
                }
            }
            _ => {}
        }
    }
    if let Some(function) = current {
        functions.insert(function.name, function);
    }
    functions
});

/// Returns a function by its name.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

impl Overload {
    fn read(style: &str, id: &'static str, args: &'static str, result: &'static str, arity: &str) -> Self {
        let args: Vec<_> = args.split("; ").filter(|text| !text.is_empty()).map(read_type).collect();
        let result = read_type(result);
        let generic = args.iter().chain([&result]).any(has_parameter);
        Self { id, method: style == "m", args, result, arity: read_arity(arity), generic }
    }
}

fn read_binding(text: &str) -> Binding {
    match text.split_once(' ') {
        Some((arity, traits)) => Binding::Shared {
            arity: read_arity(arity).unwrap_or(Arity::Any),
            traits: traits.parse().unwrap_or_default(),
        },
        None => Binding::Own,
    }
}

fn read_arity(text: &str) -> Option<Arity> {
    match text.trim_end_matches('!') {
        "1" => Some(Arity::One),
        "2" => Some(Arity::Two),
        "*" => Some(Arity::Any),
        _ => None,
    }
}

fn has_parameter(ty: &Type) -> bool {
    matches!(ty.0, Kind::Parameter(_)) || ty.parameters().into_iter().any(has_parameter)
}

fn read_type(text: &'static str) -> Type {
    if let Some(name) = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return Type(Kind::Parameter(name));
    }
    if let Some((name, rest)) = text.split_once('(') {
        let inner = rest.strip_suffix(')').unwrap_or(rest);
        return match name {
            "list" => Type::list(read_type(inner)),
            "map" => {
                let (key, value) = inner.split_once(", ").unwrap_or((inner, "dyn"));
                Type::map(read_type(key), read_type(value))
            }
            "type" => Type::type_of(read_type(inner)),
            _ => Type(Kind::Opaque(OPTIONAL, Some(Arc::new(read_type(inner))))),
        };
    }
    Type(match text {
        "bool" => Kind::Bool,
        "bytes" => Kind::Bytes,
        "double" => Kind::Double,
        "dyn" => Kind::Dyn,
        "google.protobuf.Duration" => Kind::Duration,
        "google.protobuf.Timestamp" => Kind::Timestamp,
        "int" => Kind::Int,
        "string" => Kind::String,
        "uint" => Kind::Uint,
        "net.IP" | "net.CIDR" => Kind::Opaque(text, None),
        _ => Kind::Object(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_read_completely() {
        let lines = TABLE.lines().filter(|line| line.starts_with('\t')).count();
        assert_eq!(FUNCTIONS.values().map(|function| function.overloads.len()).sum::<usize>(), lines);
        let index =
            function("_[_]").map(|function| function.overloads.iter().map(|o| o.id).collect::<Vec<_>>());
        assert_eq!(
            index,
            Some(vec!["index_list", "index_map", "optional_list_index_int", "optional_map_index_value"])
        );
        assert_eq!(
            function("sort").map(|function| function.binding),
            Some(Binding::Shared { arity: Arity::One, traits: 8293 })
        );
    }
}
