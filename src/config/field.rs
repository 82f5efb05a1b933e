//! Problems of a configuration: which field, where in the text, and what is wrong, in upstream's words.
//!
//! Upstream: `apimachinery/pkg/util/validation/field/errors.go`.

use super::nearest::nearest;
use crate::convert::syntax::{json, quote};
use std::fmt;

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, as `profiles[0].plugins.filter`; empty where it is none in particular.
    pub path: String,
    /// What is wrong.
    pub text: String,
    /// Where the field stands, if it is written.
    pub place: Option<Place>,
    /// What was probably meant by a name that is none.
    pub meant: Option<String>,
}

impl Problem {
    /// A problem whose place is not known yet.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), place: None, meant: None }
    }

    /// The same, at a place.
    pub(super) fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// The same, saying which of `known` was probably meant by `word`.
    pub(crate) fn meaning<'k>(self, word: &str, known: impl IntoIterator<Item = &'k str>) -> Self {
        Self { meant: nearest(word, known).map(str::to_owned), ..self }
    }

    /// A value that breaks a rule.
    pub(super) fn invalid(path: impl Into<String>, value: impl Shown, rule: &str) -> Self {
        Self::new(path, format!("Invalid value: {}: {rule}", value.shown()))
    }

    /// A value that must be given.
    pub(super) fn required(path: impl Into<String>, rule: &str) -> Self {
        let colon = if rule.is_empty() { "" } else { ": " };
        Self::new(path, format!("Required value{colon}{rule}"))
    }

    /// A value that must not be given.
    pub(super) fn forbidden(path: impl Into<String>, rule: &str) -> Self {
        Self::new(path, format!("Forbidden: {rule}"))
    }

    /// A value that was given before.
    pub(super) fn duplicate(path: impl Into<String>, value: &str) -> Self {
        Self::new(path, format!("Duplicate value: {}", quote(value)))
    }

    /// A value that is none of those there are.
    pub(super) fn unsupported(path: impl Into<String>, value: &str, supported: &[&str]) -> Self {
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

/// A value as upstream shows it in a problem.
pub(super) trait Shown {
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

/// Anything else, as JSON in Go's order of fields.
pub(super) struct Json(pub(super) String);

impl Shown for Json {
    fn shown(self) -> String {
        self.0
    }
}

/// Lengthens a path by a field; its length before.
pub(super) fn child(path: &mut String, key: &str) -> usize {
    let before = path.len();
    if before > 0 {
        path.push('.');
    }
    path.push_str(key);
    before
}

/// Lengthens a path by an index; its length before.
pub(super) fn item(path: &mut String, index: usize) -> usize {
    let before = path.len();
    path.push_str(&format!("[{index}]"));
    before
}
