//! The effective configuration for display: the values at startup, updated by reloads. Secrets are redacted.

use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use supercargo_config::Effective;

/// Replaces secrets. It is valid base64, because upstream's clients decode some of these fields.
const REDACTED: &str = "REDACTED";

/// Fields that a reload applies; all others keep their values from startup.
const TAKEN_OVER: [&str; 5] =
    ["profiles", "extenders", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds"];

/// The effective configuration, shared between the reloader and its readers.
#[derive(Clone, Debug)]
pub struct InForce(Arc<Mutex<Value>>);

impl InForce {
    /// Creates it from the configuration at startup.
    pub fn new(started: &Effective) -> Self {
        Self(Arc::new(Mutex::new(shown(started))))
    }

    /// Applies the reloadable fields of a new configuration.
    pub(super) fn changed(&self, effective: &Effective) {
        let mut next = shown(effective);
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for field in TAKEN_OVER {
            now[field] = next[field].take();
        }
        if let Value::Object(fields) = &mut *now {
            fields.retain(|_, value| !value.is_null());
        }
    }

    /// Returns the configuration as JSON, without secrets.
    pub fn json(&self) -> Value {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the fields that affect decisions as JSON, without secrets.
pub(crate) fn decisive(effective: &Effective) -> Value {
    let mut json = shown(effective);
    if let Value::Object(fields) = &mut json {
        let kept = |field: &str| TAKEN_OVER.contains(&field) || matches!(field, "apiVersion" | "kind");
        fields.retain(|field, value| kept(field) && !value.is_null());
        if !effective.says_percentage_of_nodes_to_score() {
            fields.remove("percentageOfNodesToScore");
        }
    }
    json
}

/// Returns a configuration as JSON, without secrets.
fn shown(effective: &Effective) -> Value {
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
    use std::path::Path;
    use supercargo_config::Flags;

    fn effective(text: &str) -> Effective {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        Effective::parse(Path::new("test.yaml"), &format!("{head}{text}"), &Flags::default()).unwrap()
    }

    #[test]
    fn displayed_configuration_has_no_secrets() {
        let file = effective(
            "extenders:\n- urlPrefix: https://user:pass@extender.example/base\n  filterVerb: filter\n  weight: 1\n  enableHTTPS: true\n  \
             tlsConfig: {certData: Y2VydA==, keyData: c2VjcmV0}\n",
        );
        let json = InForce::new(&file).json();
        let text = json.to_string();
        assert!(!text.contains("pass") && !text.contains("c2VjcmV0"), "{text}");
        assert_eq!(json["extenders"][0]["urlPrefix"], "https://REDACTED@extender.example/base");
        assert_eq!(json["extenders"][0]["tlsConfig"]["keyData"], "REDACTED");
        assert_eq!(json["extenders"][0]["tlsConfig"]["certData"], "Y2VydA==");
    }

    #[test]
    fn url_loses_only_its_credentials() {
        assert_eq!(without_password("https://a.example:1/x@y"), "https://a.example:1/x@y");
        assert_eq!(without_password("https://u@a.example"), "https://REDACTED@a.example");
        assert_eq!(without_password("https://u:p@q@a.example/?x"), "https://REDACTED@a.example/?x");
        assert_eq!(without_password("nothing"), "nothing");
    }

    #[test]
    fn reload_applies_only_fields_that_need_no_restart() {
        let in_force = InForce::new(&effective("podMaxBackoffSeconds: 20\n"));
        in_force.changed(&effective(
            "podMaxBackoffSeconds: 30\nparallelism: 3\nprofiles:\n- schedulerName: other\n",
        ));
        let json = in_force.json();
        assert_eq!(json["podMaxBackoffSeconds"], 30);
        assert_eq!(json["profiles"][0]["schedulerName"], "other");
        assert_eq!(json["parallelism"], 16, "parallelism needs a restart");
        assert_eq!(json["kind"], "KubeSchedulerConfiguration");
    }
}
