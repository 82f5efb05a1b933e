//! The manifests on a real API server that enforces the restricted pod security standard in kube-system: base and
//! overlays are admitted without warnings, and a privileged pod is rejected.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::harness::binaries::target_dir;
use crate::harness::objects::create_namespace;
use crate::world::installed;

fn path(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

/// The Deployment's pod is created under the standard, too, which `deployment_of_the_manifests_gets_its_pods`
/// checks.
#[tokio::test]
async fn base_and_overlays_comply_with_restricted_pod_standard() -> Result<()> {
    let admin = installed().await?.admin();
    let level = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}";
    assert_eq!(admin.kubectl(&["get", "namespace", "kube-system", "-o", level]).await?, "restricted");
    for folder in [
        "base",
        "overlays/single",
        "overlays/high-availability",
        "overlays/replace-default",
        "overlays/shadow",
    ] {
        let folder = path(&format!("manifests/{folder}"));
        let dry = ["apply", "-k", &folder, "--dry-run=server", "--validate=strict", "--warnings-as-errors"];
        let said = admin.kubectl(&dry).await?;
        ensure!(said.contains("deployment.apps/supercargo"), "{said}");
    }
    let privileged = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "not-restricted", "namespace": "kube-system"},
        "spec": {"containers": [{"name": "main", "image": "example.com/a", "securityContext": {"privileged": true}}]}}"#;
    let dry = ["apply", "-f", "-", "--dry-run=server"];
    let refused = admin.kubectl_with_input(&dry, privileged).await.err().context("such a pod is rejected")?;
    ensure!(format!("{refused:#}").contains("violates PodSecurity \"restricted"), "{refused:#}");
    Ok(())
}

/// A CRD of the Prometheus operator, just enough for an API server to admit its objects.
fn operator_kind(kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }}}],
        },
    })
}

#[tokio::test]
async fn chart_and_network_policy_comply_with_restricted_pod_standard() -> Result<()> {
    let admin = installed().await?.admin();
    for (kind, plural) in [("ServiceMonitor", "servicemonitors"), ("PrometheusRule", "prometheusrules")] {
        admin.apply(&operator_kind(kind, plural).to_string()).await?;
        let definition = format!("customresourcedefinition/{plural}.monitoring.coreos.com");
        admin.kubectl(&["wait", &definition, "--for=condition=Established", "--timeout=30s"]).await?;
    }
    let helm = target_dir().join("packaging/bin/helm");
    ensure!(helm.is_file(), "helm is not built; run `make packaging` first");
    let on = ["networkPolicy", "serviceMonitor", "prometheusRule", "dashboards"]
        .map(|part| format!("--set={part}.enabled=true"));
    let chart = path("manifests/chart/supercargo");
    let rendered = Command::new(helm)
        .args(["template", "supercargo", &chart, "--namespace=kube-system", "--kube-version=1.36.3"])
        .args(on)
        .output()?;
    ensure!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let text = String::from_utf8(rendered.stdout)?;
    let dry = ["apply", "-f", "-", "--dry-run=server", "--validate=strict", "--warnings-as-errors"];
    let said = admin.kubectl_with_input(&dry, &text).await?;
    for object in [
        "deployment.apps/supercargo",
        "networkpolicy.networking.k8s.io/supercargo",
        "servicemonitor.monitoring.coreos.com/supercargo",
        "prometheusrule.monitoring.coreos.com/supercargo",
        "poddisruptionbudget.policy/supercargo",
        "clusterrolebinding.rbac.authorization.k8s.io/supercargo-metrics-reader",
    ] {
        ensure!(said.contains(object), "{object} is missing: {said}");
    }
    ensure!(said.matches("configmap/").count() == 2, "configuration and dashboard: {said}");
    let policy = path("manifests/components/network-policy/network-policy.yaml");
    admin
        .kubectl(&["apply", "-f", &policy, "--dry-run=server", "--validate=strict", "--warnings-as-errors"])
        .await?;
    Ok(())
}

/// A static pod mounts host files, which the restricted standard forbids. So its fields are validated in another
/// namespace.
#[tokio::test]
async fn static_pod_has_only_valid_fields() -> Result<()> {
    let plane = installed().await?;
    let namespace = create_namespace(&plane.client().await?, "static").await?;
    let text = std::fs::read_to_string(path("manifests/static-pod.yaml"))?;
    let pod = text.replace("namespace: kube-system", &format!("namespace: {namespace}"));
    let dry = ["apply", "-f", "-", "--dry-run=server", "--validate=strict", "--warnings-as-errors"];
    let said = plane.admin().kubectl_with_input(&dry, &pod).await?;
    ensure!(said.contains("pod/supercargo created"), "{said}");
    Ok(())
}
