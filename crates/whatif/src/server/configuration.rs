//! Configurations of forks: reads the text of one from a request, and limits what the engine builds from it. It does
//! not check the fields, which `crate::cluster` does.

use super::answer::Problem;
use super::limits::Limits;
use serde_json::value::RawValue;
use supercargo_config::yaml::{Document, Value};

/// The field of the request. It names the configuration in messages.
pub(super) const FIELD: &str = "config";

/// Returns the text of a KubeSchedulerConfiguration, which is given as an object or as a string with YAML or JSON.
/// The text of an object is as it was sent, so that positions in messages are those of the sender.
///
/// # Errors
/// Fails if it is neither, or exceeds a limit.
pub(super) fn text(given: &RawValue, limits: Limits) -> Result<String, Problem> {
    let invalid = |text: String| Problem::Invalid(format!("{FIELD}: {text}"));
    let sent = given.get();
    let text = match sent.as_bytes().first() {
        Some(b'{') => sent.to_owned(),
        Some(b'"') => serde_json::from_str(sent).map_err(|error| invalid(error.to_string()))?,
        _ => String::new(),
    };
    if text.trim().is_empty() {
        let expected = "expected a KubeSchedulerConfiguration, as an object or as a string with YAML or JSON";
        return Err(invalid(expected.to_owned()));
    }
    let Limits { config_bytes, profiles: profiles_max, .. } = limits;
    let too_large = || {
        let text = format!(
            "{FIELD}: a configuration may have {config_bytes} bytes with its aliases expanded; make it smaller"
        );
        Problem::TooLarge(text)
    };
    if text.len() > config_bytes {
        return Err(too_large());
    }
    // The library refuses a text that is not YAML, with the position.
    let Ok(document) = Document::read(&text) else { return Ok(text) };
    if !has_at_most(&document, config_bytes) {
        return Err(too_large());
    }
    let profiles = match document.get(document.root(), "profiles").map(|node| &node.value) {
        Some(Value::List(profiles)) => profiles.len(),
        _ => 0,
    };
    if profiles > profiles_max {
        return Err(invalid(format!("profiles: expected at most {profiles_max}, found {profiles}")));
    }
    Ok(text)
}

/// Returns whether a document has at most so many bytes in keys and values, with its aliases expanded. A few aliases of
/// aliases can stand for more than fits into memory, so the count ends at the limit.
fn has_at_most(document: &Document, bytes_max: usize) -> bool {
    let (mut bytes, mut waiting) = (0, vec![document.root()]);
    while let Some(id) = waiting.pop() {
        // An empty value counts, too: it takes memory, and there may be any number of them.
        bytes += 1;
        match &document.node(id).value {
            Value::Text(text) => bytes += text.len(),
            Value::List(items) => waiting.extend(items),
            Value::Map(entries) => {
                bytes += entries.iter().map(|entry| entry.key.len()).sum::<usize>();
                waiting.extend(entries.iter().map(|entry| entry.value));
            }
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        }
        if bytes > bytes_max {
            return false;
        }
    }
    true
}
