//! Formats values as Go's `fmt` and `strconv` do, since such texts appear in results and errors.

use std::fmt::Write as _;

use super::Value;

/// Formats a string as `%q`, with quotes.
pub(crate) fn quote(text: &str) -> String {
    quote_with(text, |quoted, character| {
        if printable(character) {
            return quoted.push(character);
        }
        let code = u32::from(character);
        let _ = match code {
            0..0x80 => write!(quoted, "\\x{code:02x}"),
            0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
            _ => write!(quoted, "\\U{code:08x}"),
        };
    })
}

/// Quotes a string. `write_other` writes each character that has no single-letter escape.
pub(crate) fn quote_with(text: &str, write_other: impl Fn(&mut String, char)) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            _ => write_other(&mut quoted, character),
        }
    }
    quoted.push('"');
    quoted
}

fn printable(character: char) -> bool {
    if character == ' ' {
        return true;
    }
    if character.is_whitespace() || character.is_control() {
        return false;
    }
    // After a letter, Rust does not escape combining characters.
    let mut text = String::from("a");
    text.push(character);
    !format!("{text:?}").contains('\\') || character == '\''
}

/// Formats a double as `%g` with the shortest digits: `1.5`, `1e+06`.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) { format!("{value}") } else { with_exponent(digits, exponent) }
}

/// Formats a number with Go's exponent, which has a sign and at least two digits: `1.5e+07`.
pub(crate) fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Formats a value as `%v`, for a message.
pub(crate) fn plain(value: &Value) -> String {
    let mut text = String::new();
    write_plain(value, &mut text);
    text
}

/// Length of a message in bytes after which no further value is written. Upstream has no limit.
const MESSAGE_LIMIT: usize = 4096;

fn write_plain(value: &Value, text: &mut String) {
    if text.len() > MESSAGE_LIMIT {
        return;
    }
    let _ = match value {
        Value::Null => write!(text, "0"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Int(value) => write!(text, "{value}"),
        Value::Uint(value) => write!(text, "{value}"),
        Value::Double(value) => write!(text, "{}", double(*value)),
        Value::String(value) => write!(text, "{value}"),
        Value::Bytes(bytes) => {
            let numbers: Vec<_> = bytes.iter().take(MESSAGE_LIMIT).map(u8::to_string).collect();
            write!(text, "[{}]", numbers.join(" "))
        }
        Value::Duration(nanoseconds) => write!(text, "{}", super::time::go_duration(*nanoseconds)),
        Value::Timestamp(timestamp) => write!(text, "{}", timestamp.rfc3339()),
        Value::List(list) => {
            text.push('[');
            for (index, element) in list.iter().enumerate().take(MESSAGE_LIMIT) {
                text.push_str(if index == 0 { "" } else { ", " });
                crate::deep(|| write_plain(element, text));
            }
            write!(text, "]")
        }
        Value::Map(map) => {
            text.push('{');
            for (index, (key, value)) in map.iter().enumerate().take(MESSAGE_LIMIT) {
                text.push_str(if index == 0 { "" } else { ", " });
                write_plain(&key, text);
                text.push_str(": ");
                crate::deep(|| write_plain(value, text));
            }
            write!(text, "}}")
        }
        Value::Optional(None) => write!(text, "optional.none()"),
        Value::Optional(Some(value)) => {
            text.push_str("optional(");
            crate::deep(|| write_plain(value, text));
            write!(text, ")")
        }
        Value::Type(name) => write!(text, "{name}"),
        Value::Quantity(quantity) | Value::ComputedQuantity(quantity) => write!(text, "{quantity}"),
        Value::Version(version) => write!(text, "{version}"),
        Value::Ip(ip) => write!(text, "{ip}"),
        Value::Cidr(cidr) => write!(text, "{cidr}"),
        Value::Url(url) => write!(text, "{}", url.text()),
        Value::Format(format) => write!(text, "{}", format.name),
        Value::Broken(error) => write!(text, "{error}"),
    };
}

/// Returns the Go type of a value in upstream's program, as `%T` prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::List(list) if list.is_joined() => "*types.concatList",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Optional(_) => "*types.Optional",
        Value::Type(_) => "*types.Type",
        Value::Quantity(_) => "cel.Quantity",
        Value::ComputedQuantity(_) => "*cel.Quantity",
        Value::Version(_) => "cel.Semver",
        Value::Ip(_) => "cel.IP",
        Value::Cidr(_) => "cel.CIDR",
        Value::Url(_) => "cel.URL",
        Value::Format(_) => "cel.Format",
        Value::Broken(_) => "*types.Err",
    }
}
