//! CEL's `format` library: named string formats, as in `format.dns1123Label().validate(x)`.
//!
//! Upstream: `apiserver/pkg/cel/library/format.go`.

use std::sync::Arc;

use super::{Implementation, time};
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, Url, Work};

/// A named format: its validator, and the size from which the cost is computed.
#[derive(Debug)]
pub struct Format {
    /// The name, such as `DNS1123Label`.
    pub(crate) name: &'static str,
    /// The name in expressions, such as `dns1123Label`.
    function: &'static str,
    /// Regex length from which the cost is computed (`MaxRegexSize` upstream).
    pub(crate) size: u64,
    problems: fn(&str) -> Vec<String>,
}

macro_rules! formats {
    ($($function:literal $name:literal $size:literal $problems:expr;)*) => {
        static FORMATS: &[Format] = &[$(Format { name: $name, function: $function, size: $size, problems: $problems }),*];
        /// Returns the implementation of a function such as `format.dns1123Label()`.
        fn constant(name: &str) -> Option<Implementation> {
            match name {
                $(concat!("format.", $function) => Some(|_, _| named($function).ok_or(Error::NO_OVERLOAD)),)*
                _ => None,
            }
        }
    };
}

formats! {
    "dns1123Label" "DNS1123Label" 30 |text| dns1123_label(text);
    "dns1123Subdomain" "DNS1123Subdomain" 60 |text| dns1123_subdomain(text);
    "dns1035Label" "DNS1035Label" 30 |text| dns1035_label(text);
    "qualifiedName" "QualifiedName" 60 qualified_name;
    "dns1123LabelPrefix" "DNS1123LabelPrefix" 30 |text| dns1123_label(&masked(text));
    "dns1123SubdomainPrefix" "DNS1123SubdomainPrefix" 60 |text| dns1123_subdomain(&masked(text));
    "dns1035LabelPrefix" "DNS1035LabelPrefix" 30 |text| dns1035_label(&masked(text));
    "labelValue" "LabelValue" 40 label_value;
    "uri" "URI" 1103 |text| Url::check(text).err().into_iter().collect();
    "uuid" "uuid" 70 |text| one(uuid(text), "does not match the UUID format");
    "byte" "byte" 84 |text| one(base64(text), "invalid base64");
    "date" "date" 71 |text| one(date(text), "invalid date");
    "datetime" "datetime" 71 |text| one(datetime(text), "invalid datetime");
}

impl Format {
    /// Returns the name of the format, such as `DNS1123Label`.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "format.named" => |_, args| match args {
            [Value::String(name)] => Ok(Value::Optional(named(name).map(Arc::new))),
            _ => Err(Error::NO_OVERLOAD),
        },
        "validate" => validate,
        _ => return constant(name),
    })
}

fn named(name: &str) -> Option<Value> {
    FORMATS.iter().find(|format| format.function == name).map(Value::Format)
}

fn validate(work: &mut Work, args: &[Value]) -> Result {
    let [Value::Format(format), Value::String(text)] = args else { return Err(Error::NO_OVERLOAD) };
    work.add_len(text.len())?;
    let problems = (format.problems)(text);
    if problems.is_empty() {
        return Ok(Value::Optional(None));
    }
    let list = List::new(problems.into_iter().map(Value::text).collect());
    Ok(Value::Optional(Some(Arc::new(Value::List(list)))))
}

fn one(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

/// Replaces a trailing dash and the byte before it by `a`, as upstream's `maskTrailingDash` does
/// (`apimachinery/pkg/api/validation/generic.go`), so that a prefix may end with a dash.
fn masked(text: &str) -> String {
    match text.strip_suffix('-').and_then(|rest| rest.as_bytes().split_last()) {
        Some((_, rest)) => String::from_utf8_lossy(rest).into_owned() + "a",
        None => text.to_owned(),
    }
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Like [`too_long`], in the wording of upstream's newer checks.
fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(inner) && text.bytes().next_back().is_some_and(inner);
    ends && text.bytes().all(|byte| inner(byte) || byte == b'-')
}

fn dns1123_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) {
        problems.push(if is_subdomain(text) { "must not contain dots".into() } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric \
             character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".into()
        });
    }
    problems
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253));
    }
    if !is_subdomain(text) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    problems
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an \
             alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .into(),
        );
    }
    problems
}

/// Returns whether the text has only characters of a label name, and is alphanumeric at both ends.
fn is_name(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    ends(text.bytes().next())
        && ends(text.bytes().next_back())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
    (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                let bytes = |problem: String| problem.replace("253 characters", "253 bytes");
                problems.extend(
                    dns1123_subdomain(prefix)
                        .into_iter()
                        .map(|problem| format!("prefix part {}", bytes(problem))),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    problems
}

fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_name(text) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .into(),
        );
    }
    problems
}

/// Returns whether the text is a UUID: 8, 4, 4, 4 and 12 hexadecimal digits, with optional dashes between the
/// groups.
fn uuid(text: &str) -> bool {
    let mut rest = text;
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, behind)) = rest.split_at_checked(length) else { return false };
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

fn base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

fn date(text: &str) -> bool {
    text.len() == 10 && time::parse_timestamp(&format!("{text}T00:00:00Z")).is_ok_or_out_of_range()
}

fn datetime(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    time::parse_timestamp(&upper).is_ok_or_out_of_range()
}

trait Outcome {
    /// Returns whether the text parses as a time, even if it is out of CEL's range.
    fn is_ok_or_out_of_range(&self) -> bool;
}

impl<T> Outcome for std::result::Result<T, Option<Error>> {
    fn is_ok_or_out_of_range(&self) -> bool {
        !matches!(self, Err(None))
    }
}
