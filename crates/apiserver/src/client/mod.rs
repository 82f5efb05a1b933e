//! Connects to the API server, extenders and collectors: addresses, credentials, TLS and proxies.

mod bodies;
mod proxy;
mod rotate;
mod token;

use crate::names::Resolver;
use anyhow::{Context as _, Result, anyhow, ensure};
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use proxy::{Proxy, Scheme, Variables};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;
use token::TokenFile;
use tokio::net::TcpStream;
use tower::timeout::TimeoutLayer;
use tower::util::{BoxCloneService, BoxCloneSyncService, MapRequestLayer};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

pub use bodies::{Limited, TooLarge};
pub use rotate::Source;

/// Time limit for establishing a connection to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Placeholder for "no proxy-url" in a kubeconfig. Without it, kube reads the environment and ignores
/// NO_PROXY.
const NO_PROXY_URL: &str = "http://none.invalid";

/// Header with the caller's token in a request that the API server forwards: the API server does not forward the
/// `Authorization` header.
pub const FORWARDED_TOKEN: HeaderName = HeaderName::from_static("x-supercargo-authorization");

/// The commit of the build.
static COMMIT: OnceLock<String> = OnceLock::new();

/// Sets the commit that the User-Agent names; without it, the User-Agent says `unknown`. Call it before the first
/// request. Only the first call counts.
pub fn set_commit(commit: &str) {
    let _ = COMMIT.set(commit.to_owned());
}

/// The User-Agent, in the format of `client-go/rest/config.go#buildUserAgent`.
static AGENT: LazyLock<String> = LazyLock::new(|| {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (version, os) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    let commit = COMMIT.get().and_then(|commit| commit.get(..7));
    let commit =
        commit.filter(|commit| commit.bytes().all(|byte| byte.is_ascii_hexdigit())).unwrap_or("unknown");
    format!("supercargo/v{version} ({os}/{arch}) kubernetes/{commit}")
});

/// Returns the User-Agent of a part of the scheduler, whose name comes last (client-go
/// `rest/config.go#AddUserAgent`).
pub fn user_agent(part: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("{}/{part}", *AGENT)).expect("it is ASCII")
}

/// Returns the connection settings of a kubeconfig context. Only the kubeconfig's own proxy is set; the
/// environment's is read when the client is built.
///
/// # Errors
/// Returns an error when the context, or a file it names, is unusable.
pub async fn of_kubeconfig(
    mut file: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<kube::Config, kube::config::KubeconfigError> {
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.proxy_url.get_or_insert_default();
        if cluster.proxy_url.as_deref() == Some("") {
            cluster.proxy_url = Some(NO_PROXY_URL.to_owned());
        }
    }
    let mut config = kube::Config::from_custom_kubeconfig(file, options).await?;
    let is_none = |url: &Uri| url.host() == Some("none.invalid");
    config.proxy_url = config.proxy_url.filter(|url| !is_none(url));
    if let Some(cluster) = config.auth_info.exec.as_mut().and_then(|exec| exec.cluster.as_mut()) {
        cluster.proxy_url = cluster.proxy_url.take().filter(|url| url != NO_PROXY_URL);
    }
    Ok(config)
}

/// Returns the settings of the default kubeconfig, or of the pod's service account.
///
/// # Errors
/// Returns an error that says what was tried when neither exists.
pub async fn inferred() -> Result<kube::Config> {
    let found = match Kubeconfig::read() {
        Ok(file) => of_kubeconfig(file, &KubeConfigOptions::default()).await,
        Err(error) => Err(error),
    };
    let why = match found {
        Ok(config) => return Ok(config),
        Err(why) => why,
    };
    kube::Config::incluster()
        .with_context(|| format!("no usable kubeconfig ({why}), and no service account of a pod"))
}

/// The service that sends requests to the API server.
pub type Carrier = BoxCloneService<Request<Body>, Response<Limited>, BoxError>;

/// Returns a client builder for these settings. It differs from kube's own client in name resolution, proxies
/// and response size limits. It sets no read or write timeout: every request has its own time limit.
///
/// # Errors
/// Returns an error when certificates, credentials or the proxy are unusable.
pub fn builder(config: &kube::Config) -> Result<ClientBuilder<Carrier>> {
    Ok(ClientBuilder::new(carrier(config, false)?, config.default_namespace.clone()))
}

/// Like [`builder`], for requests that the API server forwards to a pod. The API server strips the token's
/// header, so the token is sent a second time, in a header the API server ignores.
///
/// # Errors
/// As [`builder`].
pub fn builder_that_forwards_tokens(config: &kube::Config) -> Result<ClientBuilder<Carrier>> {
    Ok(ClientBuilder::new(carrier(config, true)?, config.default_namespace.clone()))
}

fn forward_token(mut request: Request<Body>) -> Request<Body> {
    let token = request.headers().get(AUTHORIZATION).cloned();
    let is_passed_on = request.uri().path().contains("/proxy/");
    if let Some(token) = token.filter(|_| is_passed_on) {
        // A token set for this purpose takes precedence over the API server's.
        request.headers_mut().entry(FORWARDED_TOKEN).or_insert(token);
    }
    request
}

fn introduce(mut request: Request<Body>) -> Request<Body> {
    request
        .headers_mut()
        .entry(USER_AGENT)
        .or_insert_with(|| HeaderValue::from_str(&AGENT).expect("it is ASCII"));
    request
}

/// Returns a connector that connects like Go's client, with TCP_NODELAY. Otherwise the first request would
/// wait behind the end of the handshake until the server acknowledges it, 40 ms on Linux.
fn connector() -> HttpConnector<Resolver> {
    let mut http = HttpConnector::new_with_resolver(Resolver::default());
    http.enforce_http(false);
    http.set_nodelay(true);
    http
}

/// A connection to the server or its proxy, before TLS with the server.
type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;
type Wires = BoxCloneSyncService<Uri, Wire, BoxError>;

/// Returns the connector to the server, direct or through a proxy.
fn wires(proxy: Option<Proxy>, tls: &Tls) -> Wires {
    let http = connector();
    let plain = http.clone().map_response(Wire::Http);
    let Some(Proxy { url, scheme, authorization, login }) = proxy else {
        return BoxCloneSyncService::new(plain.map_err(BoxError::from));
    };
    if scheme == Scheme::Socks5 {
        let socks = SocksV5::new(url, http);
        let socks = match login {
            Some((user, password)) => socks.with_auth(user, password),
            None => socks,
        };
        return BoxCloneSyncService::new(socks.map_response(Wire::Http).map_err(BoxError::from));
    }
    // Plain-text API servers are reached through a tunnel, too.
    let tunnel = Tunnel::new(url, tls.over(http));
    let tunnel = match authorization {
        Some(authorization) => tunnel.with_auth(authorization),
        None => tunnel,
    };
    BoxCloneSyncService::new(tunnel.map_err(BoxError::from))
}

/// Trusted certificate authorities, and the client certificate.
struct Tls {
    config: rustls::ClientConfig,
    /// Name in the server's certificate, if it differs from the URL's host.
    server_name: Option<String>,
}

impl Tls {
    fn of(config: &kube::Config) -> Result<Self> {
        let mut trusting = config.clone();
        // A container image with only the binary has no system certificate authorities; none are needed
        // without verification.
        if trusting.accept_invalid_certs || trusting.cluster_url.scheme_str() == Some("http") {
            trusting.root_cert.get_or_insert_default();
        }
        let tls = trusting.rustls_client_config()?;
        let tls = Self { config: tls, server_name: config.tls_server_name.clone() };
        tls.name()?;
        Ok(tls)
    }

    fn name(&self) -> Result<Option<rustls::pki_types::ServerName<'static>>> {
        let name = self.server_name.clone().map(TryInto::try_into).transpose();
        name.context("tls-server-name is not a valid server name")
    }

    /// Adds TLS to a connector, for https URLs.
    fn over<C>(&self, connector: C) -> HttpsConnector<C> {
        let builder = HttpsConnectorBuilder::new().with_tls_config(self.config.clone()).https_or_http();
        let builder = match self.name() {
            Ok(Some(name)) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
            _ => builder,
        };
        builder.enable_http1().wrap_connector(connector)
    }
}

/// The token file of these settings, if requests are to carry its token. It takes precedence over `token` (client-go
/// `transport/round_trippers.go#NewBearerAuthWithRefreshRoundTripper`), unlike in kube.
fn token_file(config: &kube::Config) -> Result<Option<TokenFile>> {
    let auth = &config.auth_info;
    let has_other = auth.auth_provider.is_some() || auth.username.is_some() && auth.password.is_some();
    match auth.token_file.as_deref().filter(|_| !has_other).map(TokenFile::open).transpose() {
        Err(_) if auth.token.is_some() => Ok(None),
        file => file,
    }
}

/// Returns the error of credentials; that of a credential plugin names its command.
fn credentials_error(config: &kube::Config, error: kube::Error) -> anyhow::Error {
    let kube::Error::Auth(AuthError::AuthExecStart(why)) = error else { return error.into() };
    let exec = config.auth_info.exec.as_ref();
    let command = exec.and_then(|exec| exec.command.as_deref()).unwrap_or_default();
    let hint = exec.and_then(|exec| exec.install_hint.as_deref()).map(str::trim);
    let hint = hint.filter(|hint| !hint.is_empty()).map(|hint| format!(" ({hint})"));
    anyhow!(
        "cannot run the kubeconfig's credential plugin {command:?}: {why}; install it{}, or correct the command in the kubeconfig",
        hint.unwrap_or_default()
    )
}

fn carrier(config: &kube::Config, forwards_tokens: bool) -> Result<Carrier> {
    // kube panics without them.
    let url = &config.cluster_url;
    ensure!(
        url.scheme().is_some() && url.authority().is_some(),
        "{url} is not the URL of a server; a URL has a scheme and a host, for example https://127.0.0.1:6443"
    );
    let proxy = match &config.proxy_url {
        Some(url) => Some(url.clone()),
        None => Variables::of_process().proxy_for(&config.cluster_url)?,
    };
    let proxy = proxy.as_ref().map(Proxy::of).transpose()?;
    if let Some(proxy) = &proxy {
        tracing::debug!(proxy = %proxy.url, server = %config.cluster_url, "connecting through a proxy");
    }
    let tls = Tls::of(config)?;
    let https = tls.over(wires(proxy, &tls));
    // The timeout covers name resolution, connection and TLS handshake.
    let connector =
        ServiceBuilder::new().option_layer(config.connect_timeout.map(TimeoutLayer::new)).service(https);
    let connector = BoxCloneSyncService::new(connector);
    let client = Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let limited = tower::service_fn(move |request: Request<Body>| {
        let (client, is_stream) = (client.clone(), bodies::is_stream(&request));
        async move { client.request(request).await.map(|answer| bodies::limited(answer, is_stream)) }
    });
    let token = token_file(config)?.map(Arc::new);
    // kube's layer would send the file's text as it is.
    let auth = if token.is_some() {
        None
    } else {
        config.auth_layer().map_err(|error| credentials_error(config, error))?
    };
    let authorize = token.map(|token| {
        MapRequestLayer::new(move |mut request: Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, token.header());
            request
        })
    });
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .option_layer(authorize)
        .option_layer(forwards_tokens.then(|| MapRequestLayer::new(forward_token)))
        .layer(config.extra_headers_layer()?)
        .layer(MapRequestLayer::new(introduce))
        .map_err(|error: hyper_util::client::legacy::Error| BoxError::from(error))
        .service(limited);
    Ok(service.boxed_clone())
}

#[cfg(test)]
mod tests;
