//! The effective configuration for display: the values at startup, updated by reloads. Secrets are redacted.

use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use supercargo_config::Effective;
use supercargo_config::redacted::{CHANGED_BY_RELOAD, shown};
use supercargo_core::model::emulation::EmulatedVersion;

/// The effective configuration, shared between the reloader and its readers.
#[derive(Clone, Debug)]
pub struct InForce(Arc<Mutex<(Value, EmulatedVersion)>>);

impl InForce {
    /// Creates it from the configuration at startup.
    pub fn new(started: &Effective) -> Self {
        Self(Arc::new(Mutex::new((shown(started), started.emulated_version))))
    }

    /// Applies the reloadable fields of a new configuration.
    pub(super) fn changed(&self, effective: &Effective) {
        let mut next = shown(effective);
        let mut locked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, version) = &mut *locked;
        *version = effective.emulated_version;
        for field in CHANGED_BY_RELOAD {
            now[field] = next[field].take();
        }
        if let Value::Object(fields) = now {
            fields.retain(|_, value| !value.is_null());
        }
    }

    /// Returns the configuration as JSON, without secrets.
    pub fn json(&self) -> Value {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns the version of kube-scheduler that the scheduler behaves as.
    pub fn emulated_version(&self) -> EmulatedVersion {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
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
