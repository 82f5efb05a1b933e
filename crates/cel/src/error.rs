//! Errors of compilation and evaluation.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// An error of compilation.
///
/// `Display` prints the text of the Kubernetes compiler: `compilation failed: ERROR: <input>:1:8: …`, then
/// the source line and a line with a caret. Several errors follow each other. The message after the position
/// may differ from upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{prefix}{text}")]
pub struct CompileError {
    prefix: &'static str,
    text: String,
    line: usize,
    column: usize,
    message: String,
}

impl CompileError {
    /// Returns the line of the first error, counted from 1, or 0 if the error has no position.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column of the first error in characters, counted from 1, or 0 if the error has no
    /// position.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Returns the message of the first error, without its position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Creates an error about the whole expression, such as a result of the wrong type.
    pub(crate) fn general(message: String) -> Self {
        Self { prefix: "", text: message.clone(), line: 0, column: 0, message }
    }

    /// Creates an error in the preparation of the program, such as an invalid regular expression.
    pub(crate) fn instantiation(message: String) -> Self {
        Self { prefix: "program instantiation failed: ", text: message.clone(), line: 0, column: 0, message }
    }

    /// Creates an error from issues, in the order in which they were reported.
    pub(crate) fn issues(source: &str, issues: &[Issue]) -> Self {
        let mut text = String::new();
        let mut first = (0, 0, String::new());
        for (number, issue) in issues.iter().enumerate() {
            let place = match issue.place {
                Place::Byte(offset) => position(source, offset),
                Place::LineColumn(line, column) => (line, column),
                Place::None => (0, 0),
            };
            if number == 0 {
                first = (place.0, place.1, issue.message.clone());
            } else {
                text.push('\n');
            }
            describe(source, place, &issue.message, &mut text);
        }
        Self { prefix: "compilation failed: ", text, line: first.0, column: first.1, message: first.2 }
    }
}

/// An error and its position in the source.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) place: Place,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Offset in bytes from the start of the source.
    Byte(usize),
    /// Line and column, both counted from 1.
    LineColumn(usize, usize),
    None,
}

impl Issue {
    pub(crate) fn at(offset: usize, message: impl Into<String>) -> Self {
        Self { place: Place::Byte(offset), message: message.into() }
    }

    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self { place: Place::None, message: message.into() }
    }
}

/// Returns the line and the column in characters of a byte of the source, both counted from 1.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &source[..offset];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, source[start..offset].chars().count() + 1)
}

fn describe(source: &str, (line, column): (usize, usize), message: &str, text: &mut String) {
    use fmt::Write as _;
    if line == 0 {
        let _ = write!(text, "ERROR: <input>:-1:0: {message}");
        return;
    }
    let snippet = source.split('\n').nth(line - 1).unwrap_or_default();
    let dots = ".".repeat(column.saturating_sub(1));
    let _ = write!(text, "ERROR: <input>:{line}:{column}: {message}\n | {snippet}\n | {dots}^");
}

/// An error of evaluation. Cheap to clone.
///
/// `Display` prints upstream's text, without a prefix: `no such key: model`, `division by zero`.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    text: Text,
    fatal: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Text {
    Static(&'static str),
    Owned(Arc<str>),
}

impl Error {
    pub(crate) const fn fixed(text: &'static str) -> Self {
        Self { text: Text::Static(text), fatal: false }
    }

    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = match text.into() {
            Cow::Borrowed(text) => Text::Static(text),
            Cow::Owned(text) => Text::Owned(text.into()),
        };
        Self { text, fatal: false }
    }

    pub(crate) const NO_OVERLOAD: Self = Self::fixed("no such overload");
    /// The error for exceeding the cost limit, or the limit of work that has no cost. No operator absorbs it.
    pub(crate) const LIMIT: Self =
        Self { text: Text::Static("operation cancelled: actual cost limit exceeded"), fatal: true };

    /// Creates an error that ends the whole evaluation: neither `||` nor a macro absorbs it.
    pub(crate) fn fatal(text: impl Into<Cow<'static, str>>) -> Self {
        Self { fatal: true, ..Self::new(text) }
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// Returns the text of the error.
    pub fn text(&self) -> &str {
        match &self.text {
            Text::Static(text) => text,
            Text::Owned(text) => text,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?})", self.text())
    }
}

impl std::error::Error for Error {}

/// The result of an evaluation step.
pub(crate) type Result<T = crate::Value> = std::result::Result<T, Error>;
