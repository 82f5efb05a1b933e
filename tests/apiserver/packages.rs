//! The manifests on a real API server that enforces the restricted pod standard in kube-system: base and overlay are taken with nothing to
//! complain about, and what is not restricted is refused.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::support::binaries::target_dir;
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
    let refused = admin.kubectl_with_input(&dry, privileged).await.err().context("such a pod is refused")?;
    ensure!(format!("{refused:#}").contains("violates PodSecurity \"restricted"), "{refused:#}");
    Ok(())
}

/// The kinds of the Prometheus operator, as far as an API server has to know them to take such objects.
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
async fn the_chart_with_all_its_parts_and_the_network_policy_are_taken_under_the_restricted_pod_standard()
-> Result<()> {
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
        ensure!(said.contains(object), "{object} is not there: {said}");
    }
    ensure!(said.matches("configmap/").count() == 2, "configuration and dashboard: {said}");
    let policy = path("manifests/components/network-policy/network-policy.yaml");
    admin
        .kubectl(&["apply", "-f", &policy, "--dry-run=server", "--validate=strict", "--warnings-as-errors"])
        .await?;
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
