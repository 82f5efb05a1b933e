//! A control plane whose API server writes down what it was asked, and by whom.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Component, ControlPlane, wait_for};

/// It runs as long as this is kept.
pub(crate) struct Audited {
    pub(crate) plane: ControlPlane,
    folder: TempDir,
}

impl Audited {
    /// Starts one with these components, that writes down what `rule` of an audit policy says, and nothing else.
    pub(crate) async fn start(components: impl IntoIterator<Item = Component>, rule: Value) -> Result<Self> {
        Self::start_with(components, rule, None).await
    }

    /// The same, with one more flag.
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
            .arg(Component::ApiServer, format!("--audit-policy-file={}", policy.display()))
            .arg(Component::ApiServer, format!("--audit-log-path={}", log_of(&folder).display()));
        if let Some((component, flag)) = flag {
            builder = builder.arg(component, flag);
        }
        let plane = builder.start().await?;
        Ok(Self { plane, folder })
    }

    /// What was written down so far, in order. A line that is being written is passed over, and what a request did may be
    /// seen before its line is: see [`Self::once`].
    pub(crate) fn entries(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(log_of(&self.folder))?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// What `look` makes of the entries, asked again until it makes something of them.
    pub(crate) async fn once<T>(&self, what: &str, look: impl Fn(Vec<Value>) -> Result<T>) -> Result<T> {
        wait_for(what, Duration::from_secs(30), || async { look(self.entries()?) }).await
    }
}

fn log_of(folder: &TempDir) -> PathBuf {
    folder.path().join("audit.log")
}
