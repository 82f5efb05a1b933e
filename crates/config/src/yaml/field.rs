//! Problems in a configuration: field, position and upstream's message.
//!
//! Upstream: `apimachinery/pkg/util/validation/field/errors.go`.

use crate::yaml::nearest::nearest;
use std::fmt;
use supercargo_objects::convert::syntax::{json, quote};

/// A position in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// A problem of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `profiles[0].plugins.filter`; empty for the whole file.
    pub path: String,
    /// Message.
    pub text: String,
    /// Position of the field, if it is written in the file.
    pub place: Option<Place>,
    /// Closest known name, for an unknown one.
    pub meant: Option<String>,
}

impl Problem {
    /// Returns a problem without a position.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), place: None, meant: None }
    }

    /// Sets the position.
    pub fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Sets the name in `known` that is closest to `word`.
    pub fn meaning<'k>(self, word: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        Self { meant: nearest(word, known).map(str::to_owned), ..self }
    }

    /// A value that violates a rule.
    pub fn invalid(path: impl Into<String>, value: impl Shown, rule: &str) -> Self {
        Self::new(path, format!("Invalid value: {}: {rule}", value.shown()))
    }

    /// A required value that is missing.
    pub fn required(path: impl Into<String>, rule: &str) -> Self {
        let colon = if rule.is_empty() { "" } else { ": " };
        Self::new(path, format!("Required value{colon}{rule}"))
    }

    /// A value that must not be set.
    pub fn forbidden(path: impl Into<String>, rule: &str) -> Self {
        Self::new(path, format!("Forbidden: {rule}"))
    }

    /// A value that occurs twice.
    pub fn duplicate(path: impl Into<String>, value: &str) -> Self {
        Self::new(path, format!("Duplicate value: {}", quote(value)))
    }

    /// A value that is not in the set of supported values.
    pub fn unsupported(path: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let text = format!("Unsupported value: {}: supported values: {}", json(value), quoted.join(", "));
        Self::new(path, text).meaning(value, supported.iter().copied())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)
    }
}

/// A value formatted as in upstream's messages.
pub trait Shown {
    fn shown(self) -> String;
}

impl Shown for &str {
    fn shown(self) -> String {
        quote(self)
    }
}

impl Shown for i32 {
    fn shown(self) -> String {
        self.to_string()
    }
}

impl Shown for i64 {
    fn shown(self) -> String {
        self.to_string()
    }
}

impl Shown for usize {
    fn shown(self) -> String {
        self.to_string()
    }
}

/// A value of another type, as JSON with fields in Go's order.
pub(crate) struct Json(pub(crate) String);

impl Shown for Json {
    fn shown(self) -> String {
        self.0
    }
}

/// Appends a field to a path. Returns the previous length, to restore it.
pub(crate) fn child(path: &mut String, key: &str) -> usize {
    let before = path.len();
    if before > 0 {
        path.push('.');
    }
    path.push_str(key);
    before
}

/// Appends an index to a path. Returns the previous length, to restore it.
pub(crate) fn item(path: &mut String, index: usize) -> usize {
    let before = path.len();
    path.push_str(&format!("[{index}]"));
    before
}
