//! Parses numbers, lists and quantities as Go's libraries do. Errors equal theirs.
//!
//! Upstream: `strconv`, `encoding/csv`, `apimachinery/pkg/api/resource`.

/// Parses a boolean (`strconv.ParseBool`).
pub(super) fn bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// Parses an integer of a Go literal (`strconv.ParseInt` with base 0) that fits into this number of bits.
pub(super) fn int(text: &str, bits: u32) -> Result<i64, String> {
    let failed = |why: &str| format!("strconv.ParseInt: parsing {text:?}: {why}");
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (base, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // An underscore stands between digits, or between the prefix and a digit.
    let follows_prefix = digits.len() < lower.len() && digits.starts_with('_');
    let trimmed = if follows_prefix { &digits[1..] } else { digits };
    let is_number = trimmed.split('_').all(|part| !part.is_empty() && part.chars().all(|c| c.is_digit(base)));
    if !is_number {
        return Err(failed("invalid syntax"));
    }
    let plain: String = trimmed.chars().filter(|c| *c != '_').collect();
    let value = i128::from_str_radix(&plain, base).ok().map(|value| if negative { -value } else { value });
    let half = 1_i128 << (bits - 1);
    let value =
        value.filter(|value| (-half..half).contains(value)).and_then(|value| i64::try_from(value).ok());
    value.ok_or_else(|| failed("value out of range"))
}

/// Parses a decimal number of at most 31 bits (`strconv.ParseUint`).
pub(super) fn uint31(text: &str) -> Result<u32, String> {
    let failed = |why: &str| format!("strconv.ParseUint: parsing {text:?}: {why}");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(failed("invalid syntax"));
    }
    let value = text.parse().ok().filter(|value| *value <= i32::MAX.cast_unsigned());
    value.ok_or_else(|| failed("value out of range"))
}

/// Parses a decimal number with 32 bits (`strconv.ParseFloat`). Unlike Go, rejects hexadecimal ones.
pub(super) fn float32(text: &str) -> Result<f32, String> {
    let failed = |why: &str| format!("strconv.ParseFloat: parsing {text:?}: {why}");
    let value: f32 = text.parse().map_err(|_| failed("invalid syntax"))?;
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(failed("value out of range"));
    }
    Ok(value)
}

/// Parses one line of comma-separated values (`encoding/csv`).
pub(super) fn csv(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |at: usize, why: &str| format!("parse error on line 1, column {}: {why}", at + 1);
    let line = text.trim_start_matches(['\r', '\n']);
    let line = line.split('\n').next().unwrap_or_default();
    if line.is_empty() {
        return Err("EOF".to_owned());
    }
    let (mut fields, mut at) = (Vec::new(), 0);
    loop {
        let rest = &line[at..];
        if !rest.starts_with('"') {
            let end = rest.find(',').unwrap_or(rest.len());
            if let Some(quote) = rest[..end].find('"') {
                return Err(failed(at + quote, "bare \" in non-quoted-field"));
            }
            fields.push(rest[..end].to_owned());
            at += end;
        } else {
            at += 1;
            let mut field = String::new();
            loop {
                let Some(end) = line[at..].find('"') else {
                    return Err(failed(line.len(), "extraneous or missing \" in quoted-field"));
                };
                field.push_str(&line[at..at + end]);
                at += end + 1;
                if !line[at..].starts_with('"') {
                    break;
                }
                field.push('"');
                at += 1;
            }
            if !line[at..].is_empty() && !line[at..].starts_with(',') {
                return Err(failed(at, "extraneous or missing \" in quoted-field"));
            }
            fields.push(field);
        }
        if at >= line.len() {
            return Ok(fields);
        }
        at += 1;
    }
}

/// Parses pairs `KEY=VALUE` (pflag's `stringToString`). Several pairs are comma-separated values.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let malformed = |pair: &str| format!("{pair} must be formatted as key=value");
    let pairs = match text.matches('=').count() {
        0 => return Err(malformed(text)),
        1 => vec![text.trim_matches('"').to_owned()],
        _ => csv(text)?,
    };
    let pairs = pairs.iter().map(|pair| {
        let (key, value) = pair.split_once('=').ok_or_else(|| malformed(pair))?;
        Ok((key.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// Checks a quantity, and returns whether it is zero.
pub(super) fn is_zero_quantity(text: &str) -> Result<bool, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    let exponent =
        suffix.strip_prefix(['e', 'E']).map(|digits| digits.strip_prefix(['+', '-']).unwrap_or(digits));
    let is_exponent =
        exponent.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let is_suffix = matches!(
        suffix,
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"
    );
    if !is_number || !is_suffix && !is_exponent {
        let expected =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        return Err(expected.to_owned());
    }
    Ok(number.bytes().all(|byte| !byte.is_ascii_digit() || byte == b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_go_literals() {
        for (text, value) in [
            ("0", 0),
            ("-12", -12),
            ("+7", 7),
            ("0x1F", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("017", 15),
            ("1_000", 1000),
            ("0x_f", 15),
        ] {
            assert_eq!(int(text, 64), Ok(value), "{text}");
        }
        for text in ["", "-", "x", "1.5", "0x", "1__0", "_1", "1_", "08", " 1", "--1", "0x-1"] {
            let expected = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            assert_eq!(int(text, 64), Err(expected));
        }
        assert_eq!(int("-2147483648", 32), Ok(-2_147_483_648));
        assert!(int("2147483648", 32).is_err_and(|error| error.ends_with("value out of range")));
        assert!(int("99999999999999999999999999999999999999999999", 64).is_err());
    }

    #[test]
    fn floats_out_of_range_are_errors_and_infinity_is_not() {
        assert_eq!(float32("1e3"), Ok(1000.0));
        assert_eq!(float32("-Inf"), Ok(f32::NEG_INFINITY));
        assert!(float32("1e99").is_err_and(|error| error.ends_with("value out of range")));
        assert!(float32("fast").is_err_and(|error| error.ends_with("invalid syntax")));
    }

    #[test]
    fn lists_are_comma_separated_values_with_quotes() {
        let list = |text: &str| csv(text).map(|fields| fields.join("|"));
        for (text, fields) in [
            ("a,b", "a|b"),
            ("a,,b", "a||b"),
            ("a,", "a|"),
            (",", "|"),
            ("\"a,b\",c", "a,b|c"),
            ("\"a\"\"b\"", "a\"b"),
            ("\"\"", ""),
        ] {
            assert_eq!(list(text).as_deref(), Ok(fields), "{text}");
        }
        assert_eq!(csv(""), Ok(Vec::new()));
        let quote = |column: u8, why: &str| Err(format!("parse error on line 1, column {column}: {why}"));
        assert_eq!(list("a\"b"), quote(2, "bare \" in non-quoted-field"));
        assert_eq!(list("\"a"), quote(3, "extraneous or missing \" in quoted-field"));
        assert_eq!(list("\"a\"b"), quote(4, "extraneous or missing \" in quoted-field"));
    }

    #[test]
    fn quantities_have_a_number_and_a_known_suffix() {
        for (text, expected) in
            [("0", true), ("0Ki", true), ("512", false), ("1.5Gi", false), ("1e3", false), ("-1M", false)]
        {
            assert_eq!(is_zero_quantity(text), Ok(expected), "{text}");
        }
        for text in ["", "big", "1KiB", "1K", "1.2.3", "e3", "1e"] {
            assert!(is_zero_quantity(text).is_err(), "{text}");
        }
    }
}
