//! The OpenAPI document, and whether an answer is as it says. Builds with assertions check every answer.

use super::{Answer, Method};
use serde_json::Value;
use std::sync::LazyLock;

/// The document, as `openapi.json` serves it.
pub const DOCUMENT: &str = include_str!("openapi.json");

static PARSED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(DOCUMENT).expect("a test parses the document"));

/// Returns whether the document has a path, with any method.
pub(super) fn has_path(segments: &[&str]) -> bool {
    operations(segments).is_some()
}

/// Returns the methods of a path.
fn operations(segments: &[&str]) -> Option<&'static Value> {
    let matches = |template: &str| {
        let parts: Vec<&str> = template.trim_start_matches('/').split('/').collect();
        parts.len() == segments.len()
            && parts.iter().zip(segments).all(|(part, given)| part == given || part.starts_with('{'))
    };
    let paths = PARSED["paths"].as_object()?;
    paths.iter().find(|(template, _)| matches(template)).map(|(_, operations)| operations)
}

/// Checks an answer against the document: path, method, status, and every field.
///
/// # Errors
/// Fails with the place of the first difference.
pub fn check_answer(method: Method, path: &str, answer: &Answer) -> Result<(), String> {
    let segments: Vec<&str> = path.split('/').collect();
    let method = match method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    };
    let operation = operations(&segments).map(|all| &all[method]).filter(|it| it.is_object());
    let status = answer.status.to_string();
    let responses = operation.map(|operation| &operation["responses"]);
    let exact = responses.and_then(|all| all.get(&status));
    if exact.is_none() && answer.status < 400 {
        return Err(format!("{method} {path}: status {status} is not documented"));
    }
    let response = exact.unwrap_or(&PARSED["components"]["responses"]["Error"]);
    let schema = &response["content"]["application/json"]["schema"];
    if schema.is_null() {
        return if answer.body.is_empty() {
            Ok(())
        } else {
            Err(format!("{method} {path}: expected no body"))
        };
    }
    let body: Value = serde_json::from_str(&answer.body)
        .map_err(|error| format!("{method} {path}: {error}: {}", answer.body))?;
    check(schema, &body, "").map_err(|why| format!("{method} {path}: {why}"))
}

/// Checks a value against a schema of the document.
fn check(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        let named = PARSED.pointer(pointer).ok_or_else(|| format!("{at}: {name} is not in the document"))?;
        return check(named, value, at);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| check(choice, value, at).is_ok()).count();
        return if fitting == 1 {
            Ok(())
        } else {
            Err(format!("{at}: {fitting} of the choices fit {value}"))
        };
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        return Err(format!("{at}: {value} is none of {allowed:?}"));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_type = match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(several) => several.iter().any(|it| it == kind),
        _ => return Err(format!("{at}: the schema has no type")),
    };
    if !is_type {
        return Err(format!("{at}: expected {}, found {value}", schema["type"]));
    }
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(number, item)| check(&schema["items"], item, &format!("{at}[{number}]"))),
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(missing) = required.into_iter().find(|name| !fields.contains_key(*name)) {
                return Err(format!("{at}.{missing} is missing"));
            }
            fields.iter().try_for_each(|(name, field)| {
                let at = format!("{at}.{name}");
                match (schema["properties"].get(name), &schema["additionalProperties"]) {
                    (Some(of), _) => check(of, field, &at),
                    (None, Value::Bool(true)) => Ok(()),
                    (None, of @ Value::Object(_)) => check(of, field, &at),
                    (None, _) => Err(format!("{at} is not documented")),
                }
            })
        }
        _ => Ok(()),
    }
}
