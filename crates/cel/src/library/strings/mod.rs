//! CEL functions on strings, such as `contains`, `split` and `format`.
//!
//! Upstream: cel-go's `common/stdlib/standard.go` and `ext/strings.go`.

pub(crate) mod format;

use std::sync::Arc;

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, Work, format_go};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "contains" => |work, args| pair(work, args, |text, part| text.contains(part)),
        "startsWith" => |work, args| pair(work, args, |text, part| text.starts_with(part)),
        "endsWith" => |work, args| pair(work, args, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "lowerAscii" => |work, args| change(work, args, str::to_ascii_lowercase),
        "upperAscii" => |work, args| change(work, args, str::to_ascii_uppercase),
        "trim" => |work, args| change(work, args, |text| text.trim_matches(is_go_space).to_owned()),
        "strings.quote" => |work, args| change(work, args, quote),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => |work, args| match args {
            [Value::String(text), Value::List(list)] => format::format(work, text, list).map(Value::text),
            _ => Err(Error::NO_OVERLOAD),
        },
        _ => return None,
    })
}

/// Returns whether Go treats a character as white space. Rust uses the same Unicode property.
fn is_go_space(character: char) -> bool {
    character.is_whitespace()
}

fn pair(work: &mut Work, args: &[Value], holds: fn(&str, &str) -> bool) -> Result {
    match args {
        [Value::String(text), Value::String(part)] => {
            work.add_len(text.len() / 16)?;
            Ok(Value::Bool(holds(text, part)))
        }
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn change(work: &mut Work, args: &[Value], to: fn(&str) -> String) -> Result {
    match args {
        [Value::String(text)] => {
            work.add_len(text.len())?;
            Ok(Value::text(to(text)))
        }
        _ => Err(Error::NO_OVERLOAD),
    }
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

fn quote(text: &str) -> String {
    format_go::quote_with(text, String::push)
}

fn char_at(work: &mut Work, args: &[Value]) -> Result {
    let [Value::String(text), Value::Int(index)] = args else { return Err(Error::NO_OVERLOAD) };
    work.add_len(text.len())?;
    let position = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
    let length = text.chars().count();
    if position > length {
        return Err(out_of_range(*index));
    }
    Ok(Value::text(text.chars().nth(position).map(String::from).unwrap_or_default()))
}

/// Returns the arguments of `indexOf` and `lastIndexOf`: both strings as characters, and the offset.
fn search(work: &mut Work, args: &[Value]) -> Result<(Vec<char>, Vec<char>, Option<i64>)> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(Error::NO_OVERLOAD),
    };
    work.add_len(text.len() + part.len())?;
    Ok((text.chars().collect(), part.chars().collect(), offset))
}

fn found(work: &mut Work, text: &[char], part: &[char], mut places: impl Iterator<Item = usize>) -> Result {
    for place in &mut places {
        work.add(1)?;
        if text.get(place..).is_some_and(|rest| rest.starts_with(part)) {
            return Ok(Value::Int(place as i64));
        }
        work.add_len(part.len() / 16)?;
    }
    Ok(Value::Int(-1))
}

pub(super) fn index_of(work: &mut Work, args: &[Value]) -> Result {
    let (text, part, offset) = search(work, args)?;
    let offset = offset.unwrap_or_default();
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let start = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if start >= text.len() || part.len() > text.len() {
        return Ok(Value::Int(-1));
    }
    found(work, &text, &part, start..text.len() + 1 - part.len())
}

pub(super) fn last_index_of(work: &mut Work, args: &[Value]) -> Result {
    let (text, part, offset) = search(work, args)?;
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(text.len() as i64)));
    }
    if offset.is_none()
        && part.iter().map(|c| c.len_utf8()).sum::<usize>() > text.iter().map(|c| c.len_utf8()).sum()
    {
        return Ok(Value::Int(-1));
    }
    let offset = offset.unwrap_or(text.len() as i64 - 1);
    let start = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if start >= text.len() || part.len() > text.len() {
        return Ok(Value::Int(-1));
    }
    found(work, &text, &part, (0..=start.min(text.len() - part.len())).rev())
}

fn replace(work: &mut Work, args: &[Value]) -> Result {
    let (text, old, new, count) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)] => {
            (text, old, new, *count)
        }
        _ => return Err(Error::NO_OVERLOAD),
    };
    work.add_len(text.len())?;
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let matches = if old.is_empty() { text.chars().count() + 1 } else { text.matches(&**old).count() };
    work.add_len(matches.min(most).saturating_mul(new.len()))?;
    Ok(Value::text(if count < 0 { text.replace(&**old, new) } else { text.replacen(&**old, new, most) }))
}

fn split(work: &mut Work, args: &[Value]) -> Result {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(Error::NO_OVERLOAD),
    };
    work.add_len(text.len())?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<Value> = match most {
        0 => Vec::new(),
        _ if separator.is_empty() => split_characters(text, most),
        _ => text.splitn(most, &**separator).map(Value::text).collect(),
    };
    work.add_len(parts.len())?;
    Ok(Value::List(List::new(parts)))
}

/// Splits a string into characters. At the limit, the last part contains the rest of the string.
fn split_characters(text: &str, most: usize) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if parts.len() + 1 >= most {
            parts.push(Value::text(rest));
            return parts;
        }
        let (first, behind) = rest.split_at(character.len_utf8());
        parts.push(Value::text(first));
        rest = behind;
    }
    parts
}

fn substring(work: &mut Work, args: &[Value]) -> Result {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Error::NO_OVERLOAD),
    };
    work.add_len(text.len())?;
    let length = text.chars().count() as i64;
    if end.is_some_and(|end| start > end) {
        return Err(Error::new(format!(
            "invalid substring range. start: {start}, end: {}",
            end.unwrap_or_default()
        )));
    }
    for index in [Some(start), end].into_iter().flatten() {
        if !(0..=length).contains(&index) {
            return Err(out_of_range(index));
        }
    }
    let count = end.unwrap_or(length).abs_diff(start) as usize;
    Ok(Value::text(text.chars().skip(start.unsigned_abs() as usize).take(count).collect::<String>()))
}

fn join(work: &mut Work, args: &[Value]) -> Result {
    let empty: Arc<str> = "".into();
    let (list, separator) = match args {
        [Value::List(list)] => (list, &empty),
        [Value::List(list), Value::String(separator)] => (list, separator),
        _ => return Err(Error::NO_OVERLOAD),
    };
    let mut joined = String::new();
    for (index, element) in list.iter().enumerate() {
        let Value::String(text) = element else {
            return Err(Error::new(format!("join: invalid input: {}", format_go::plain(element))));
        };
        work.add_len(1 + separator.len() + text.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::text(joined))
}
