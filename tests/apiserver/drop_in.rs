//! In kube-scheduler's place: under its name, with the arguments that distributions write, as system:kube-scheduler.
//!
//! The rights of this identity are those that the API server itself creates. Paths are those of the test's files.

use std::os::unix::fs::symlink;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::doctor::{check, doctor_with};
use crate::harness::objects::{create_namespace, pod, wait_for_default_account, wait_until_bound};
use crate::harness::ports::Port;
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, KwokNode, Program, supercargo, wait_for};

/// Arguments by distribution; `CONF` is the kubeconfig, `CERT` and `KEY` a serving certificate, `CA` the cluster's
/// authorities, `PORT` a free port.
const MANIFESTS: [(&str, &str); 4] = [
    (
        "kubeadm",
        "--authentication-kubeconfig=CONF --authorization-kubeconfig=CONF --bind-address=127.0.0.1 --kubeconfig=CONF \
         --leader-elect=true --secure-port=PORT",
    ),
    (
        "kops",
        "--authentication-kubeconfig=CONF --authorization-kubeconfig=CONF --kubeconfig=CONF --leader-elect=true \
         --tls-cert-file=CERT --tls-private-key-file=KEY --v=2 --bind-address=127.0.0.1 --secure-port=PORT",
    ),
    (
        "RKE2",
        "--permit-port-sharing=true --authentication-kubeconfig=CONF --authorization-kubeconfig=CONF \
         --bind-address=127.0.0.1 --kubeconfig=CONF --profiling=false --secure-port=PORT --tls-cert-file=CERT \
         --tls-private-key-file=KEY --tls-min-version=VersionTLS12 \
         --tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "Cluster API",
        "--authentication-kubeconfig=CONF --authorization-kubeconfig=CONF --bind-address=127.0.0.1 --kubeconfig=CONF \
         --leader-elect=true --client-ca-file=CA --authentication-tolerate-lookup-failure=false --secure-port=PORT",
    ),
];

#[tokio::test]
async fn manifests_of_distributions_work_with_only_the_program_replaced() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    let client = plane.client().await?;
    KwokNode::new("node").create(&client).await?;
    let namespace = create_namespace(&client, "drop-in").await?;
    wait_for_default_account(&client, &namespace).await?;
    let (identity, scraper) =
        (plane.user("system:kube-scheduler", None)?, plane.user("scraper", Some("system:masters"))?);
    let link = plane.folder().join("kube-scheduler");
    symlink(supercargo::binary()?, &link)?;
    let (cert, key) = plane.serving_pair();
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    for (number, (distribution, line)) in MANIFESTS.iter().enumerate() {
        let reserved = Port::reserve()?;
        let port = reserved.number();
        let args = line.split_whitespace().map(|arg| {
            arg.replace("CONF", &identity.kubeconfig().display().to_string())
                .replace("=CERT", &format!("={}", cert.display()))
                .replace("=KEY", &format!("={}", key.display()))
                .replace("=CA", &format!("={}", plane.ca().display()))
                .replace("PORT", &port.to_string())
        });
        let mut process = plane.launch(&Program::new(format!("drop-in{number}"), &link).args(args))?;
        let name = format!("web{number}");
        pods.create(&PostParams::default(), &pod(&name, "default-scheduler", &json!({}))?).await?;
        let placed = wait_until_bound(&client, &namespace, &name).await;
        placed.with_context(|| format!("{distribution}: {}", process.log_tail(20)))?;
        let leases = Api::<Lease>::namespaced(client.clone(), "kube-system");
        let lease = leases.get("kube-scheduler").await.context(*distribution)?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(!holder.is_empty(), "{distribution}: the Lease has no holder");
        // The API server's own roles suffice in this version: doctor agrees, asked as this identity.
        let (_, report) = doctor_with(&identity, &["--identity", "system:kube-scheduler"]).await?;
        for id in ["Credentials", "ServiceAccount", "Rights", "Leader"] {
            let (status, text) = check(&report, id)?;
            ensure!(status == "ok", "{distribution}: {id}: {status}: {text}");
        }
        // A client certificate of the cluster authenticates; its authority is in the cluster, or in the flag's file.
        let mut config = scraper.config().await?;
        config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
        config.accept_invalid_certs = true;
        config.root_cert = None;
        let metrics = Client::try_from(config)?;
        let text = wait_for("a scrape by client certificate", PATIENCE, || async {
            Ok(metrics.request_text(Request::get("/metrics").body(Vec::new())?).await?)
        })
        .await
        .with_context(|| format!("{distribution}: {}", process.log_tail(20)))?;
        for series in ["kubernetes_build_info{", "kubernetes_feature_enabled{", "registered_metrics_total{"] {
            ensure!(text.contains(&format!("\n{series}")), "{distribution}: no {series}");
        }
        // It releases the Lease for the next.
        process.stop(Duration::from_secs(30))?;
    }
    Ok(())
}
