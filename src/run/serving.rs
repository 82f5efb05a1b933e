//! Prepares the HTTPS server from the flags, before anything is scheduled: port, certificates, and how clients are
//! authenticated and authorized.

use super::Failure;
use crate::args::{Args, git_version};
use crate::engine::reload::InForce;
use crate::serve::{
    Certificate, Gate, KubeReviewer, Lifetimes, Lookup, Port, Routes, ServeError, ServeOptions, Server,
    pod_ip,
};
use crate::telemetry::metrics::rest::RestLayer;
use crate::telemetry::metrics::{Exposition, Kubernetes, Metrics, Selection};
use anyhow::{Context as _, anyhow};
use kube::config::Kubeconfig;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use supercargo_apiserver::client::Source;
use supercargo_config::flags::gates;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The prepared port, and the gate of its pages.
pub(super) struct Serving {
    /// `None` if the port is 0.
    port: Option<Port>,
    /// Admits clients.
    pub(super) gate: Gate,
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let is_of_a_flag = !matches!(error, ServeError::Listen { .. } | ServeError::Certificate { .. });
        let code = if is_of_a_flag { 2 } else { 1 };
        Self { cause: error.into(), code }
    }
}

impl Serving {
    /// Loads certificates, connects the reviewers and binds the port.
    pub(super) async fn prepare(
        args: &Args,
        client: &kube::Client,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, Failure> {
        let values = &args.upstream;
        let lifetimes = Lifetimes {
            tokens: values.duration("authentication-token-webhook-cache-ttl"),
            allowed: values.duration("authorization-webhook-cache-authorized-ttl"),
            denied: values.duration("authorization-webhook-cache-unauthorized-ttl"),
        };
        if args.secure_port == 0 {
            tracing::info!("--secure-port is 0; health checks and metrics are not served");
            return Ok(Self { port: None, gate: Gate::new(KubeReviewer::new(client.clone())) });
        }
        let options = options(args, metrics)?;
        let tokens = reviewing(args, "authentication-kubeconfig", client, metrics).await?;
        if options.clients.look_up() {
            let lookup = Lookup::new(tokens.clone(), Arc::clone(&options.clients));
            if !values.is_true("authentication-tolerate-lookup-failure") {
                lookup
                    .once()
                    .await
                    .map_err(|why| anyhow!(why).context("--authentication-tolerate-lookup-failure=false"))?;
            }
            tokio::spawn(lookup.run());
        }
        let access = reviewing(args, "authorization-kubeconfig", client, metrics).await?;
        let reviewer = KubeReviewer::new(tokens).with_access_by(access);
        let allowed = match values.is_given("authorization-always-allow-paths") {
            true => values.list("authorization-always-allow-paths"),
            false => args.authorization_always_allow_paths.clone(),
        };
        let gate = Gate::with_lifetimes(reviewer, lifetimes)
            .with_clients(Arc::clone(&options.clients))
            .with_always_allowed(allowed);
        let port = Port::bind(options).await?;
        Ok(Self { port: Some(port), gate })
    }

    /// Starts the server, if there is a port. Returns its shutdown trigger and its task.
    pub(super) fn start(port: Option<Port>, routes: Routes) -> (oneshot::Sender<()>, JoinHandle<()>) {
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            // A dropped sender counts as shutdown.
            let _ = stopped.await;
        };
        let Some(port) = port else { return (stop, tokio::spawn(shutdown)) };
        let server = Server::new(port, routes);
        let address = server.local_addr().ok();
        tracing::info!(?address, "serving health and metrics over HTTPS");
        (stop, tokio::spawn(server.run(shutdown)))
    }

    /// Splits into port and gate.
    pub(super) fn split(self) -> (Option<Port>, Gate) {
        (self.port, self.gate)
    }
}

/// Returns the exposition of `/metrics`, with the metrics and labels that the flags choose.
pub(super) fn exposition(args: &Args, in_force: &InForce, metrics: Arc<Metrics>) -> Exposition {
    let selection = Selection::of(&args.upstream).unwrap_or_else(|error| {
        // The file was valid when the flags were checked.
        tracing::error!(error, "serving all label values");
        Selection::default()
    });
    let (in_force, reported) = (in_force.clone(), args.reported_version.clone());
    let gates = args.upstream.gates().to_vec();
    Exposition::new(metrics).with_selection(selection).with_kubernetes(move || {
        let version = in_force.emulated_version();
        let git_version = git_version(version, reported.as_deref());
        Kubernetes { version, git_version, gates: gates::all(&gates, version) }
    })
}

/// Returns the certificate in the directory of `--cert-dir`, if it and its key exist.
fn in_directory(directory: &str) -> Option<Certificate> {
    if directory.is_empty() {
        return None;
    }
    let [certificate, key] =
        ["crt", "key"].map(|kind| Path::new(directory).join(format!("kube-scheduler.{kind}")));
    if certificate.exists() && key.exists() {
        return Some(Certificate::Files { certificate, key });
    }
    tracing::warn!(
        directory,
        "--cert-dir has no kube-scheduler.crt and kube-scheduler.key; a generated certificate stays in memory"
    );
    None
}

fn options(args: &Args, metrics: &Metrics) -> Result<ServeOptions, Failure> {
    let certificate = match (&args.tls_cert_file, &args.tls_private_key_file) {
        (Some(cert), Some(key)) => {
            if args.upstream.is_given("cert-dir") {
                tracing::warn!("--cert-dir has no effect beside --tls-cert-file");
            }
            Certificate::Files { certificate: cert.clone(), key: key.clone() }
        }
        _ => {
            in_directory(args.upstream.text("cert-dir")).unwrap_or_else(|| Certificate::self_signed(pod_ip()))
        }
    };
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let options = ServeOptions::new(address, certificate, metrics).with_flags(&args.upstream)?;
    let lacking = &options.tls.lacking;
    if !lacking.is_empty() {
        tracing::warn!(?lacking, "the TLS library lacks these values of --tls flags; the others apply");
    }
    Ok(options)
}

/// Returns the client of a flag's kubeconfig; without the flag, the scheduler's own.
async fn reviewing(
    args: &Args,
    flag: &str,
    own: &kube::Client,
    metrics: &Arc<Metrics>,
) -> Result<kube::Client, Failure> {
    let file = Path::new(args.upstream.text(flag));
    if file.as_os_str().is_empty() || args.kubeconfig.as_deref() == Some(file) && args.prefers_kubeconfig() {
        return Ok(own.clone());
    }
    let invalid = |error: anyhow::Error| {
        let cause = error.context(format!("cannot use the kubeconfig {} of --{flag}", file.display()));
        Failure { cause, code: 2 }
    };
    let config = Kubeconfig::read_from(file).map_err(|error| invalid(anyhow!(error)))?;
    let source = Source::new(Some(config), Some(file.to_owned()), None);
    let connection = source.settings().await.map_err(|error| invalid(anyhow!(error)))?;
    let layer = RestLayer::new(Arc::clone(metrics), &connection.cluster_url);
    let builder = source.client(&connection).context("cannot build the API client").map_err(invalid)?;
    Ok(builder.with_layer(&layer).build())
}
