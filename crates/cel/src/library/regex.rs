//! The CEL functions `matches`, `find` and `findAll`.
//!
//! Upstream: cel-go's `common/stdlib/standard.go`, and `apiserver/pkg/cel/library/regex.go`.

use ::regex::{Regex, RegexBuilder};

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, Work};

/// Maximum size of a compiled pattern, and of the cache of its lazy DFA, in bytes. Go allows 128 MiB
/// (`maxSize` in `regexp/syntax/parse.go`), and may accept patterns that are rejected here.
const SIZE_LIMIT: usize = 4 << 20;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "matches" => |work, args| match args {
            [Value::String(text), Value::String(pattern)] => {
                let regex = compile_now(work, pattern)?;
                matches(work, text, &regex)
            }
            _ => Err(Error::NO_OVERLOAD),
        },
        "find" => |work, args| match args {
            [Value::String(text), Value::String(pattern)] => {
                let regex = compile_now(work, pattern).map_err(illegal)?;
                find(work, text, &regex)
            }
            _ => Err(Error::NO_OVERLOAD),
        },
        "findAll" => |work, args| {
            let (text, pattern, limit) = match args {
                [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
                [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
                _ => return Err(Error::NO_OVERLOAD),
            };
            let regex = compile_now(work, pattern).map_err(illegal)?;
            find_all(work, text, &regex, limit)
        },
        _ => return None,
    })
}

fn illegal(error: Error) -> Error {
    if error.is_fatal() { error } else { Error::new(format!("Illegal regex: {error}")) }
}

fn compile_now(work: &mut Work, pattern: &str) -> Result<Regex> {
    // Compiling takes far longer than matching. The work limit allows at most 6,000 compilations in an
    // evaluation.
    work.add_len(2000 + 200 * pattern.len())?;
    compile(pattern)
}

/// Compiles a pattern in RE2 syntax.
pub(crate) fn compile(pattern: &str) -> Result<Regex> {
    let translated = super::regex_syntax::translate(pattern)?;
    RegexBuilder::new(&translated)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .nest_limit(1000)
        .build()
        .map_err(|_| Error::new(format!("error parsing regexp: invalid regular expression: `{pattern}`")))
}

/// Runs a function with its compiled pattern. Ignores the pattern in `args`.
pub(crate) fn call(work: &mut Work, function: &str, regex: &Regex, args: &[Value]) -> Result {
    match (function, args) {
        ("matches", [Value::String(text), _]) => matches(work, text, regex),
        ("find", [Value::String(text), _]) => find(work, text, regex),
        ("findAll", [Value::String(text), _]) => find_all(work, text, regex, -1),
        ("findAll", [Value::String(text), _, Value::Int(limit)]) => find_all(work, text, regex, *limit),
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn matches(work: &mut Work, text: &str, regex: &Regex) -> Result {
    work.add_len(text.len())?;
    Ok(Value::Bool(regex.is_match(text)))
}

fn find(work: &mut Work, text: &str, regex: &Regex) -> Result {
    work.add_len(text.len())?;
    Ok(Value::text(regex.find(text).map_or("", |found| found.as_str())))
}

fn find_all(work: &mut Work, text: &str, regex: &Regex, limit: i64) -> Result {
    work.add_len(text.len())?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(most) {
        // Each search may scan the rest of the text. 16 bytes count as one unit of work.
        work.add_len(1 + (text.len() - part.start()) / 16)?;
        found.push(Value::text(part.as_str()));
    }
    Ok(Value::List(List::new(found)))
}
