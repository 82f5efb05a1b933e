//! Where the API server is and who we are to it.

use crate::args::Args;
use crate::config::Settings;
use crate::names::Resolver;
use crate::serve::HANDED_ON;
use anyhow::{Context as _, Result, bail};
use http::header::AUTHORIZATION;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::time::Duration;
use tower::timeout::TimeoutLayer;
use tower::util::{BoxCloneService, BoxCloneSyncService, MapRequestLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

/// How long a connection to the API server may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The connection's settings: the flag's kubeconfig, the file's, the pod's ServiceAccount, or what kubectl would use.
///
/// Token files are read again as they rotate; that is the client library's doing.
///
/// # Errors
/// When none of them can be read, with what was tried.
pub async fn connection(args: &Args, settings: &Settings) -> Result<kube::Config> {
    let path = args.kubeconfig.as_ref().or(settings.kubeconfig.as_ref());
    let mut config = match path {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("the kubeconfig {} is not usable", path.display()))?
        }
        None => kube::Config::infer().await.context(
            "no --kubeconfig is given, this is no pod of a cluster, and there is no default kubeconfig",
        )?,
    };
    if let Some(master) = &args.master {
        config.cluster_url = master.parse().with_context(|| format!("--master {master} is no URL"))?;
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Whether a request may be sent again depends on what it is; a Binding must not be.
    config.default_retry = false;
    Ok(config)
}

/// What carries requests to the API server.
pub type Carrier = BoxCloneService<Request<Body>, Response<Incoming>, BoxError>;

/// A client for these settings. It is kube's own, but for how names are resolved; and every request has a deadline of its
/// own, so that reading and writing need none here.
///
/// # Errors
/// When certificates or credentials cannot be used, or a proxy is asked for.
pub fn builder(config: &kube::Config) -> Result<ClientBuilder<Carrier>> {
    carrier(config, false)
}

/// The same, for requests that the API server is to pass on to a pod: it takes the header with the token away as it does, so that goes a second time
/// under a name that the API server does not look at.
///
/// # Errors
/// As [`builder`].
pub fn builder_that_hands_on(config: &kube::Config) -> Result<ClientBuilder<Carrier>> {
    carrier(config, true)
}

fn hand_on(mut request: Request<Body>) -> Request<Body> {
    let token = request.headers().get(AUTHORIZATION).cloned();
    let is_passed_on = request.uri().path().contains("/proxy/");
    if let Some(token) = token.filter(|_| is_passed_on) {
        // One that was given for this goes before the one for the API server.
        request.headers_mut().entry(HANDED_ON).or_insert(token);
    }
    request
}

/// Connections as Go makes them. What is written leaves at once: otherwise the first request would wait behind the end of the handshake for
/// as long as the server puts off to acknowledge that, 40 ms on Linux.
fn connector() -> HttpConnector<Resolver> {
    let mut http = HttpConnector::new_with_resolver(Resolver::default());
    http.enforce_http(false);
    http.set_nodelay(true);
    http
}

fn carrier(config: &kube::Config, hands_on: bool) -> Result<ClientBuilder<Carrier>> {
    if let Some(proxy) = &config.proxy_url {
        bail!("the API server is to be reached through the proxy {proxy}, which this program does not do");
    }
    let http = connector();
    let mut trusting = config.clone();
    // An image with nothing but the program has no authorities to trust, which is no matter where nobody is to be verified.
    if trusting.accept_invalid_certs || trusting.cluster_url.scheme_str() == Some("http") {
        trusting.root_cert.get_or_insert_default();
    }
    let https = trusting.rustls_https_connector_with_connector(http)?;
    // For name, connection and TLS together.
    let connector =
        ServiceBuilder::new().option_layer(config.connect_timeout.map(TimeoutLayer::new)).service(https);
    let connector = BoxCloneSyncService::new(connector);
    let client = Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .option_layer(hands_on.then(|| MapRequestLayer::new(hand_on)))
        .layer(config.extra_headers_layer()?)
        .map_err(|error: hyper_util::client::legacy::Error| BoxError::from(error))
        .service(client);
    Ok(ClientBuilder::new(service.boxed_clone(), config.default_namespace.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_leaves_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connection = connector().oneshot(format!("https://{address}").parse().unwrap()).await.unwrap();
        assert!(connection.inner().nodelay().unwrap());
    }
}
