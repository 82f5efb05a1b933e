//! Configurations as JSON for display and recordings, without secrets.

use crate::Effective;
use serde_json::Value;

/// Replaces secrets. It is valid base64, because upstream's clients decode some of these fields.
const REDACTED: &str = "REDACTED";

/// Fields that a reload applies; all others keep their values from startup.
pub const CHANGED_BY_RELOAD: [&str; 5] =
    ["profiles", "extenders", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds"];

/// Returns the fields that affect decisions as JSON, without secrets.
pub fn decisive(effective: &Effective) -> Value {
    let mut json = shown(effective);
    if let Value::Object(fields) = &mut json {
        let kept = |field: &str| CHANGED_BY_RELOAD.contains(&field) || matches!(field, "apiVersion" | "kind");
        fields.retain(|field, value| kept(field) && !value.is_null());
        if !effective.says_percentage_of_nodes_to_score() {
            fields.remove("percentageOfNodesToScore");
        }
    }
    json
}

/// Returns a configuration as JSON, without secrets.
pub fn shown(effective: &Effective) -> Value {
    let mut json = effective.to_json();
    for extender in json.get_mut("extenders").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(url) = extender["urlPrefix"].as_str() {
            extender["urlPrefix"] = without_password(url).into();
        }
        if let Some(key) = extender.get_mut("tlsConfig").and_then(|tls| tls.get_mut("keyData")) {
            *key = REDACTED.into();
        }
    }
    json
}

/// Returns a URL with its user and password redacted.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        Some(at) => format!("{scheme}://{REDACTED}{}", &rest[at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_loses_only_its_credentials() {
        assert_eq!(without_password("https://a.example:1/x@y"), "https://a.example:1/x@y");
        assert_eq!(without_password("https://u@a.example"), "https://REDACTED@a.example");
        assert_eq!(without_password("https://u:p@q@a.example/?x"), "https://REDACTED@a.example/?x");
        assert_eq!(without_password("nothing"), "nothing");
    }
}
