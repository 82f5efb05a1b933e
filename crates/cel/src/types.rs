//! CEL types, as the checker uses them.

use std::fmt;
use std::sync::Arc;

/// The type of an expression.
///
/// `Display` prints it as CEL does: `bool`, `list(int)`, `map(string, dyn)`, `optional_type(string)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A dynamic type, checked at run time.
    Dyn,
    /// The type of a device attribute: like [`Kind::Dyn`], but a macro cannot iterate over it.
    Any,
    Bool,
    Bytes,
    Double,
    Duration,
    /// The type of an expression with an error that was reported.
    Error,
    Int,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Null,
    /// An opaque type, such as `net.IP` or `optional_type`, with its parameter if it has one.
    Opaque(&'static str, Option<Arc<Type>>),
    /// An object type, such as `kubernetes.Quantity`.
    Object(&'static str),
    String,
    Timestamp,
    /// The type of types.
    Type(Option<Arc<Type>>),
    /// A type parameter of a declaration.
    Parameter(&'static str),
    /// A type variable, which the checker resolves.
    Variable(u32),
    Uint,
}

pub(crate) const OPTIONAL: &str = "optional_type";
pub(crate) const DEVICE: &str = "kubernetes.DRADevice";
pub(crate) const QUANTITY: &str = "kubernetes.Quantity";

impl Type {
    pub(crate) const DYN: Self = Self(Kind::Dyn);
    pub(crate) const ANY: Self = Self(Kind::Any);
    pub(crate) const BOOL: Self = Self(Kind::Bool);
    pub(crate) const INT: Self = Self(Kind::Int);
    pub(crate) const STRING: Self = Self(Kind::String);
    pub(crate) const ERROR: Self = Self(Kind::Error);

    pub(crate) fn list(element: Self) -> Self {
        Self(Kind::List(Arc::new(element)))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self(Kind::Map(Arc::new((key, value))))
    }

    pub(crate) fn optional(value: Self) -> Self {
        Self(Kind::Opaque(OPTIONAL, Some(Arc::new(value))))
    }

    pub(crate) fn type_of(value: Self) -> Self {
        Self(Kind::Type(Some(Arc::new(value))))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        // In these checks, cel-go treats `Any` like `Dyn`.
        matches!(self.0, Kind::Dyn | Kind::Any)
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self.0, Kind::Error)
    }

    pub(crate) fn is_variable(&self) -> bool {
        matches!(self.0, Kind::Variable(_) | Kind::Parameter(_))
    }

    /// Returns the value type of an optional.
    pub(crate) fn optional_value(&self) -> Option<&Self> {
        match &self.0 {
            Kind::Opaque(OPTIONAL, Some(value)) => Some(value),
            _ => None,
        }
    }

    /// Returns the name of the type at run time.
    pub(crate) fn name(&self) -> &'static str {
        match &self.0 {
            Kind::Dyn => "dyn",
            Kind::Any => "google.protobuf.Any",
            Kind::Bool => "bool",
            Kind::Bytes => "bytes",
            Kind::Double => "double",
            Kind::Duration => "google.protobuf.Duration",
            Kind::Error => "error",
            Kind::Int => "int",
            Kind::List(_) => "list",
            Kind::Map(_) => "map",
            Kind::Null => "null_type",
            Kind::Opaque(name, _) | Kind::Object(name) | Kind::Parameter(name) => name,
            Kind::String => "string",
            Kind::Timestamp => "google.protobuf.Timestamp",
            Kind::Type(_) => "type",
            Kind::Variable(_) => "_var",
            Kind::Uint => "uint",
        }
    }

    pub(crate) fn parameters(&self) -> Vec<&Self> {
        match &self.0 {
            Kind::List(element) => vec![element],
            Kind::Map(entry) => vec![&entry.0, &entry.1],
            Kind::Opaque(_, Some(value)) | Kind::Type(Some(value)) => vec![value],
            _ => Vec::new(),
        }
    }

    /// Returns the type as the checker's error messages print it.
    pub(crate) fn in_message(&self) -> String {
        let mut text = String::new();
        let name = |ty: &Self| match &ty.0 {
            Kind::Any => "any",
            Kind::Duration => "duration",
            Kind::Error => "!error!",
            Kind::Null => "null",
            Kind::Timestamp => "timestamp",
            _ => ty.name(),
        };
        self.write(&mut text, &mut { NAMES_LIMIT }, &name);
        text
    }

    /// Writes the type with its parameters.
    fn write(&self, text: &mut String, names: &mut usize, name: &dyn Fn(&Self) -> &'static str) {
        if *names == 0 {
            text.push_str("...");
            return;
        }
        *names -= 1;
        text.push_str(name(self));
        let parameters = self.parameters();
        for (index, parameter) in parameters.iter().enumerate() {
            text.push_str(if index == 0 { "(" } else { ", " });
            crate::deep(|| parameter.write(text, names, name));
        }
        if !parameters.is_empty() {
            text.push(')');
        }
    }
}

/// Maximum number of names in the text of a type: types can grow exponentially with the length of the
/// expression.
const NAMES_LIMIT: usize = 1_000;

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text, &mut { NAMES_LIMIT }, &Self::name);
        f.write_str(&text)
    }
}
