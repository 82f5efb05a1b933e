//! A control plane whose API server writes an audit log.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Component, ControlPlane, wait_for};

/// The control plane, which runs until the value is dropped.
pub(crate) struct Audited {
    pub(crate) plane: ControlPlane,
    folder: TempDir,
}

impl Audited {
    /// Starts one with these components, whose audit policy has only `rule`.
    pub(crate) async fn start(components: impl IntoIterator<Item = Component>, rule: Value) -> Result<Self> {
        Self::start_with(components, rule, None).await
    }

    /// Starts one with an additional flag.
    pub(crate) async fn start_with(
        components: impl IntoIterator<Item = Component>,
        rule: Value,
        flag: Option<(Component, &str)>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let policy = folder.path().join("policy.yaml");
        let rules = json!([rule, {"level": "None"}]);
        let text = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
        std::fs::write(&policy, text.to_string())?;
        let mut builder = ControlPlane::builder()
            .with(components)
            .with_groups()
            .arg(Component::ApiServer, format!("--audit-policy-file={}", policy.display()))
            .arg(Component::ApiServer, format!("--audit-log-path={}", log_of(&folder).display()));
        if let Some((component, flag)) = flag {
            builder = builder.arg(component, flag);
        }
        let plane = builder.start().await?;
        Ok(Self { plane, folder })
    }

    /// Returns the audit entries so far, in order. An incomplete line is skipped, and an entry may be written after its
    /// request's effect is visible: see [`Self::once`].
    pub(crate) fn entries(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(log_of(&self.folder))?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Retries `look` on the entries until it succeeds.
    pub(crate) async fn once<T>(&self, what: &str, look: impl Fn(Vec<Value>) -> Result<T>) -> Result<T> {
        wait_for(what, Duration::from_secs(30), || async { look(self.entries()?) }).await
    }
}

fn log_of(folder: &TempDir) -> PathBuf {
    folder.path().join("audit.log")
}
