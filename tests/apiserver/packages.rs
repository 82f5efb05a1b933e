//! The manifests on a real API server that enforces the restricted pod standard in kube-system: base and overlay are taken with nothing to
//! complain about, and what is not restricted is refused.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::support::objects::create_namespace;
use crate::world::installed;

fn path(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

/// The pod of the Deployment is made under the standard, too: `the_deployment_of_the_manifests_gets_its_pod` waits for it.
#[tokio::test]
async fn base_and_overlay_are_taken_under_the_restricted_pod_standard() -> Result<()> {
    let admin = installed().await?.admin();
    let level = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}";
    assert_eq!(admin.kubectl(&["get", "namespace", "kube-system", "-o", level]).await?, "restricted");
    for folder in ["base", "overlays/single", "overlays/high-availability", "overlays/replace-default"] {
        let folder = path(&format!("manifests/{folder}"));
        let dry = ["apply", "-k", &folder, "--dry-run=server", "--validate=strict", "--warnings-as-errors"];
        let said = admin.kubectl(&dry).await?;
        ensure!(said.contains("deployment.apps/supercargo"), "{said}");
    }
    let privileged = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "not-restricted", "namespace": "kube-system"},
        "spec": {"containers": [{"name": "main", "image": "example.com/a", "securityContext": {"privileged": true}}]}}"#;
    let dry = ["apply", "-f", "-", "--dry-run=server"];
    let refused = admin.kubectl_with_input(&dry, privileged).await.err().context("such a pod is refused")?;
    ensure!(format!("{refused:#}").contains("violates PodSecurity \"restricted"), "{refused:#}");
    Ok(())
}

/// A static pod is of its node, and reads the node's files: no namespace that enforces the standard takes its like. Its fields are checked.
#[tokio::test]
async fn the_static_pod_is_a_pod_in_every_field() -> Result<()> {
    let plane = installed().await?;
    let namespace = create_namespace(&plane.client().await?, "static").await?;
    let text = std::fs::read_to_string(path("manifests/static-pod.yaml"))?;
    let pod = text.replace("namespace: kube-system", &format!("namespace: {namespace}"));
    let dry = ["apply", "-f", "-", "--dry-run=server", "--validate=strict", "--warnings-as-errors"];
    let said = plane.admin().kubectl_with_input(&dry, &pod).await?;
    ensure!(said.contains("pod/supercargo created"), "{said}");
    Ok(())
}
