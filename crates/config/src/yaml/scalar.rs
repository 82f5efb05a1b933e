//! Resolves plain YAML scalars to strings, numbers, booleans or null.
//!
//! Follows YAML 1.1 like kube-scheduler's decoder: `yes` is true and `010` is eight. Dates stay strings.
//! Upstream: `go.yaml.in/yaml/v2/resolve.go`.

use crate::yaml::document::Value;

/// Returns the value of a plain scalar.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'.' => text.parse().ok().map(Value::Float),
        b'+' | b'-' | b'0'..=b'9' => number(&text.replace('_', "")),
        _ => None,
    };
    number.unwrap_or_else(|| Value::Text(text.to_owned()))
}

fn number(text: &str) -> Option<Value> {
    integer(text).map(Value::Int).or_else(|| {
        // Rust also parses `infinity` and `nan`; allow only digits, sign, point and exponent.
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        text.parse().ok().filter(|_| plain).map(Value::Float)
    })
}

/// Parses a 64-bit integer in base 2, 8, 10 or 16, in Go's literal syntax.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, base).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_resolve_as_upstream() {
        for (text, value) in [
            ("on", Value::Bool(true)),
            ("No", Value::Bool(false)),
            ("~", Value::Null),
            ("16", Value::Int(16)),
            ("-0x10", Value::Int(-16)),
            ("010", Value::Int(8)),
            ("08", Value::Float(8.0)),
            ("1_000", Value::Int(1_000)),
            ("0b101", Value::Int(5)),
            ("18446744073709551615", Value::Int(i128::from(u64::MAX))),
            ("1e3", Value::Float(1_000.0)),
            (".5", Value::Float(0.5)),
            ("1.5", Value::Float(1.5)),
        ] {
            assert_eq!(resolve(text), value, "{text}");
        }
        for text in ["nope", "1.2.3", "-", "10s", "*", "2024-01-01", "0x", "1e", "..", "infinity"] {
            assert_eq!(resolve(text), Value::Text(text.to_owned()), "{text}");
        }
    }
}
