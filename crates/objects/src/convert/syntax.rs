//! Validates label keys and values with upstream's error messages, and quotes texts as Go does.
//!
//! Upstream: `apimachinery/pkg/api/validate/content`, `apimachinery/pkg/util/validation/field`.

use std::fmt::Write;
use supercargo_core::model::emulation::VersionRules;

const MAX_NAME: usize = 63;
const MAX_SUBDOMAIN: usize = 253;
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
     (e.g. 'MyName',  or 'my.name',  or '123-abc', ";
const SUBDOMAIN_ERROR: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
     and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE_ERROR: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
     end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the errors of a label key; none if it is valid (upstream `IsLabelKey`).
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {NAME_RULE}regex used for validation is '{KEY}') with an optional DNS subdomain prefix \
                 and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            prefix_errors(prefix, &mut errors);
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME {
        errors.push(format!("name part must be no more than {MAX_NAME} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE}regex used for validation is '{KEY}')"));
    }
    errors
}

/// Returns the errors of a label key or value in the words of a version.
pub(super) fn as_version(errors: Vec<String>, rules: VersionRules) -> Vec<String> {
    if rules.describes_label_keys {
        return errors;
    }
    let older = |error: String| match error.strip_prefix("a valid label key ") {
        Some(rest) => format!("a qualified name {rest}"),
        None => error.replace(" bytes", " characters"),
    };
    errors.into_iter().map(older).collect()
}

fn prefix_errors(prefix: &str, errors: &mut Vec<String>) {
    if prefix.is_empty() {
        errors.push("prefix part must be non-empty".to_owned());
        return;
    }
    if prefix.len() > MAX_SUBDOMAIN {
        errors.push(format!("prefix part must be no more than {MAX_SUBDOMAIN} bytes"));
    }
    if !prefix.split('.').all(is_dns_label) {
        errors.push(format!("prefix part {SUBDOMAIN_ERROR}"));
    }
}

/// Returns the errors of a label value; none if it is valid (upstream `IsLabelValue`).
pub(super) fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > MAX_NAME {
        errors.push(format!("must be no more than {MAX_NAME} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE_ERROR.to_owned());
    }
    errors
}

fn is_name(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_dns_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(plain)) && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// Quotes a text like Go's `%q`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            ' '..='~' => quoted.push(c),
            c => quote_beyond_ascii(&mut quoted, c),
        }
    }
    quoted.push('"');
    quoted
}

fn quote_beyond_ascii(quoted: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a string cannot fail.
    let _ = match code {
        0..=0x7f => write!(quoted, "\\x{code:02x}"),
        0x80.. if c.escape_debug().len() == 1 && !c.is_whitespace() => write!(quoted, "{c}"),
        0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
        0x1_0000.. => write!(quoted, "\\U{code:08x}"),
    };
}

/// Encodes a text like Go's `json.Marshal`.
pub fn json(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Encodes a list of texts like Go's `json.Marshal`; an absent list is `null`.
pub(super) fn json_list(texts: Option<&[String]>) -> String {
    let Some(texts) = texts else { return "null".to_owned() };
    let texts: Vec<String> = texts.iter().map(|text| json(text)).collect();
    format!("[{}]", texts.join(","))
}

/// Joins distinct errors into one text (upstream's `Aggregate`), in brackets unless there is only one.
pub fn aggregate(errors: &[String]) -> Box<str> {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct[..] {
        [one] => one.into(),
        _ => format!("[{}]", distinct.join(", ")).into(),
    }
}
