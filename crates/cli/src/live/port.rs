//! Requests to the HTTPS port of a running supercargo, directly or through the API server's proxy.
//!
//! The response size is limited; callers evaluate the content.

use crate::live::{LiveArgs, LiveError, REACH, TRUST, candidates, connection, reach, with_causes};
use clap::Args;
use clap_complete::ArgValueCompleter;
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use supercargo_apiserver::client;
use supercargo_apiserver::client::FORWARDED_TOKEN;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Advice for files of credentials.
const READABLE: &str = "give a file that you may read";
/// Advice for a port whose certificate is not trusted. By default, a supercargo signs its own.
const TRUST_PORT: &str = "give the authority that signed the scheduler's certificate with --certificate-authority, or, for a \
                          certificate that it signed itself, give --insecure-skip-tls-verify";
/// Timeout of a whole command.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Maximum size of a response in bytes; no page is as large.
const BYTES_MAX: usize = 64 << 20;

/// The flags of [`PortArgs`], for commands that read a file instead.
pub const PORT_FLAGS: [&str; 4] =
    ["server", "token_file", "certificate_authority", "insecure_skip_tls_verify"];
/// The flags of [`LeaderArgs`], for commands that read a file instead.
pub const LEADER_FLAGS: [&str; 6] = ["kubeconfig", "context", "lease", "lease_namespace", "pod", "port"];

/// URL of the port, and credentials. Commands that also read a file declare conflicts with these flags.
#[derive(Clone, Debug, Default, Args)]
pub struct PortArgs {
    /// URL of the scheduler's port, for example https://127.0.0.1:10259 with `kubectl port-forward`.
    #[arg(long, value_name = "URL", value_parser = server_url)]
    pub server: Option<http::Uri>,

    /// File with a bearer token for the scheduler.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Certificate authority (PEM) that signed the port's certificate.
    #[arg(long, value_name = "FILE", requires = "server", conflicts_with = "insecure_skip_tls_verify")]
    pub certificate_authority: Option<PathBuf>,

    /// Do not verify the port's certificate. The token is sent even to an unknown server.
    #[arg(long, requires = "server")]
    pub insecure_skip_tls_verify: bool,
}

/// Parses a value of `--server`.
fn server_url(text: &str) -> Result<http::Uri, String> {
    let url = text.parse::<http::Uri>().ok();
    let is_whole = |url: &http::Uri| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    };
    if let Some(url) = url.clone().filter(is_whole) {
        return Ok(url);
    }
    let is_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let host = url.as_ref().and_then(http::Uri::authority).filter(|it| !it.host().is_empty());
    let instead = match host {
        _ if is_port => format!("https://127.0.0.1:{text}"),
        Some(host) if host.port().is_some() => format!("https://{host}"),
        Some(host) => format!("https://{host}:10259"),
        None => "a URL such as https://127.0.0.1:10259".to_owned(),
    };
    Err(format!("expected a URL with https:// or http://; write {instead}"))
}

/// How to find the leader if no URL is given. Commands that need the cluster for nothing else declare that its flags
/// conflict with the URL.
#[derive(Clone, Debug, Args)]
pub struct LeaderArgs {
    /// Connection to the cluster.
    #[command(flatten)]
    pub live: LiveArgs,

    /// Name of the scheduler's Lease.
    #[arg(long, value_name = "NAME", default_value = "supercargo", conflicts_with = "server")]
    pub lease: String,

    /// Namespace of the Lease and of the scheduler's pods.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "kube-system",
        conflicts_with = "server",
        add = ArgValueCompleter::new(candidates::namespaces)
    )]
    pub lease_namespace: String,

    /// Name of the scheduler's pod, if the Lease does not lead to it: without leader election, or outside the
    /// cluster.
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    pub pod: Option<String>,

    /// HTTPS port of that pod.
    #[arg(long, value_name = "PORT", default_value_t = 10259, conflicts_with = "server")]
    pub port: u16,
}

/// How requests reach the scheduler's port, and whether they have a token.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// The API server passes them on.
    ByProxy,
    /// They go to the URL, with a token.
    WithToken,
    /// They go to the URL, without a token.
    WithoutToken,
}

impl PortArgs {
    /// Returns how requests to the URL are sent.
    pub fn way(&self) -> Way {
        if self.token_file.is_some() { Way::WithToken } else { Way::WithoutToken }
    }
}

/// Response to a request.
pub struct Page {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// The Date header.
    pub date: Option<String>,
}

impl Page {
    /// Returns the message of an error response: that of a Status object, or the body.
    pub fn message(&self) -> String {
        let status: Option<Value> = serde_json::from_str(&self.body).ok();
        let message = status.as_ref().and_then(|status| status["message"].as_str());
        message.unwrap_or_else(|| self.body.trim()).to_owned()
    }
}

/// Gets a page from the URL.
pub fn get(server: &http::Uri, args: &PortArgs, within: Duration, path: &str) -> Result<Page, LiveError> {
    Connection::to_url(server, args, within)?.get(path)
}

/// A connection to the scheduler's port, for one request or several.
pub struct Connection {
    /// Runs the requests; `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: kube::Client,
    /// Path of the API server's proxy to the port; empty for a URL.
    proxy: String,
    way: Way,
    token: Option<HeaderValue>,
    /// Timeout of one request.
    within: Duration,
    /// The action that failed.
    what: String,
    /// Namespace of the kubeconfig's context; `None` if there is no kubeconfig.
    pub namespace: Option<String>,
}

impl Connection {
    /// Connects to the URL of the port if there is one, or else to the leader through the API server's proxy.
    ///
    /// # Errors
    /// Fails if the settings are invalid, or the leader cannot be found.
    pub fn open(port: &PortArgs, leader: &LeaderArgs) -> Result<Self, LiveError> {
        match &port.server {
            Some(server) => Self::to_url(server, port, leader.live.request_timeout),
            None => Self::to_leader(leader, port.token_file.as_deref()),
        }
    }

    fn to_url(server: &http::Uri, args: &PortArgs, within: Duration) -> Result<Self, LiveError> {
        let mut config = kube::Config::new(server.clone());
        config.default_retry = false;
        config.accept_invalid_certs = args.insecure_skip_tls_verify;
        config.auth_info.token_file = args.token_file.as_ref().map(|file| file.display().to_string());
        if let Some(file) = &args.certificate_authority {
            config.root_cert = Some(certificates(file)?);
        }
        let runtime = runtime()?;
        let client = {
            // The client's queue is a task of the runtime.
            let _entered = runtime.enter();
            client::builder(&config)
                .map_err(|error| LiveError::Settings(format!("{error:#}; check the flags of the port")))?
                .build()
        };
        let what = format!("cannot ask {server}");
        let (proxy, way, token, namespace) = (String::new(), args.way(), None, None);
        Ok(Self { runtime: Some(runtime), client, proxy, way, token, within, what, namespace })
    }

    fn to_leader(args: &LeaderArgs, token_file: Option<&Path>) -> Result<Self, LiveError> {
        let token = token_file.map(token_of).transpose()?;
        let what = "cannot ask the leader".to_owned();
        let runtime = runtime()?;
        let asked = async {
            let config = connection(&args.live).await;
            let config = config.map_err(|error| match error {
                LiveError::Settings(text) => {
                    let text = format!("{text}; or give the URL of the scheduler's port with --server");
                    LiveError::Settings(text)
                }
                other => other,
            })?;
            let builder = client::builder_that_forwards_tokens(&config);
            let client = builder.map_err(|error| LiveError::Settings(format!("{error:#}")))?.build();
            let pod = match &args.pod {
                Some(pod) => pod.clone(),
                None => leader(&client, args).await?,
            };
            Ok((client, pod, config.default_namespace))
        };
        let (client, pod, context) = match run(&runtime, asked, &what) {
            Ok(found) => found,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let proxy =
            format!("/api/v1/namespaces/{}/pods/https:{pod}:{}/proxy", args.lease_namespace, args.port);
        let (way, within, namespace) = (Way::ByProxy, args.live.request_timeout, Some(context));
        Ok(Self { runtime: Some(runtime), client, proxy, way, token, within, what, namespace })
    }

    /// Returns how the requests are sent.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Gets a page of the port.
    ///
    /// # Errors
    /// Fails if nothing answers in time; an answer with an error status is a page.
    pub fn get(&self, path: &str) -> Result<Page, LiveError> {
        let mut request = Request::get(format!("{}{path}", self.proxy));
        if let Some(token) = &self.token {
            request = request.header(FORWARDED_TOKEN, token);
        }
        let (who, trust) = match self.way {
            Way::ByProxy => ("the API server did not answer in", TRUST),
            _ => ("no response within", TRUST_PORT),
        };
        let asked = async {
            let asked = page(&self.client, request, Body::empty());
            let late = |_| LiveError::Cluster(format!("{who} {:?}; {REACH}", self.within));
            let answer = timeout(self.within, asked).await.map_err(late)?;
            answer.map_err(|error| {
                let text = error.into_text();
                let advice = reach(&text, trust);
                LiveError::Cluster(format!("{text}; {advice}"))
            })
        };
        run(self.runtime.as_ref().expect("it is there until the end"), asked, &self.what)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Do not wait for a blocked DNS lookup.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Limits a request to `--request-timeout`.
async fn in_time(
    args: &LeaderArgs,
    asked: impl Future<Output = Result<Page, LiveError>>,
) -> Result<Page, LiveError> {
    let late = || {
        LiveError::Cluster(format!(
            "the API server did not answer in {:?}; {REACH}",
            args.live.request_timeout
        ))
    };
    timeout(args.live.request_timeout, asked).await.map_err(|_| late()).flatten()
}

/// Returns the name of the leader's pod: the host in the lease holder `<host>_<uuid>`.
async fn leader(client: &kube::Client, args: &LeaderArgs) -> Result<String, LiveError> {
    let (namespace, name) = (&args.lease_namespace, &args.lease);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let lease = in_time(args, page(client, Request::get(&path), Body::empty())).await?;
    let help = "; name the scheduler's pod with --pod, or give the URL of its port with --server";
    if lease.status != 200 {
        let message = lease.message();
        return Err(LiveError::Cluster(format!("cannot read the lease {namespace}/{name}: {message}{help}")));
    }
    let lease: Value = serde_json::from_str(&lease.body).map_err(|error| {
        LiveError::Cluster(format!("the lease {namespace}/{name} is not JSON: {error}{help}"))
    })?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let no_holder = || LiveError::Cluster(format!("the lease {namespace}/{name} has no holder{help}"));
    let host = host_of(holder).ok_or_else(no_holder)?;
    let pod = format!("/api/v1/namespaces/{namespace}/pods/{host}");
    match in_time(args, page(client, Request::get(&pod), Body::empty())).await?.status {
        404 => pod_on_host(client, args, host).await,
        // Permission to use the proxy does not imply permission to get the pod.
        _ => Ok(host.to_owned()),
    }
}

/// Returns the scheduler's pod on the host network of a node. Such a pod holds the lease by the node's name.
async fn pod_on_host(client: &kube::Client, args: &LeaderArgs, host: &str) -> Result<String, LiveError> {
    let namespace = &args.lease_namespace;
    let selectors = format!("fieldSelector={}", encoded(&format!("spec.nodeName={host}")));
    let path = format!("/api/v1/namespaces/{namespace}/pods?limit=500&{selectors}");
    let list = in_time(args, page(client, Request::get(&path), Body::empty())).await?;
    let pods: Value = serde_json::from_str(&list.body).unwrap_or_default();
    let pods = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = on_host(pods, host);
    match names.as_slice() {
        [name] => Ok(name.clone()),
        [] => Err(LiveError::Cluster(format!(
            "the lease holder {host} is neither a pod in namespace {namespace} nor a node with a supercargo pod on its host network; name \
             the scheduler's pod with --pod, or give the URL of its port with --server"
        ))),
        _ => Err(LiveError::Cluster(format!(
            "the lease holder {host} is a node with several schedulers on its host network: name one of {} with --pod",
            names.join(", ")
        ))),
    }
}

/// Returns the names of the node's supercargo pods with host network.
fn on_host(pods: &[Value], host: &str) -> Vec<String> {
    let is_one = |pod: &&Value| {
        pod["spec"]["nodeName"] == host
            && pod["spec"]["hostNetwork"] == true
            && pod["metadata"]["labels"]["app.kubernetes.io/name"] == "supercargo"
    };
    let names = pods.iter().filter(is_one).filter_map(|pod| pod["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Returns the host in a lease holder `<host>_<uuid>`, which is the name of its pod.
pub fn host_of(holder: &str) -> Option<&str> {
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    (!host.is_empty() && host.chars().all(is_name)).then_some(host)
}

/// Percent-encodes a query value.
pub fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = text
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    each.collect()
}

/// Sends a request and returns the page.
///
/// # Errors
/// Fails if nothing answers in time.
pub async fn page(
    client: &kube::Client,
    request: http::request::Builder,
    body: Body,
) -> Result<Page, LiveError> {
    let silent = |text: String| LiveError::Cluster(text);
    let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
    let request = request.body(body).map_err(|error| silent(error.to_string()))?;
    let response = client.send(request).await.map_err(|error| silent(with_causes(&error)))?;
    let status = response.status().as_u16();
    let date = response.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
    let body = Limited::new(response.into_body(), BYTES_MAX).collect().await;
    let body = body.map_err(|error| silent(format!("the response is incomplete or too large: {error}")))?;
    Ok(Page { status, body: String::from_utf8_lossy(&body.to_bytes()).into_owned(), date })
}

fn runtime() -> Result<Runtime, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| LiveError::Cluster(format!("cannot start the async runtime: {error}")))
}

fn run<T>(
    runtime: &Runtime,
    asked: impl Future<Output = Result<T, LiveError>>,
    what: &str,
) -> Result<T, LiveError> {
    let answer = runtime.block_on(async { timeout(ANSWER_WITHIN, asked).await });
    let late = || {
        LiveError::Cluster(format!("no response within {ANSWER_WITHIN:?}; check the address and the network"))
    };
    answer.map_err(|_| late()).flatten().map_err(|error| match error {
        LiveError::Cluster(text) => LiveError::Cluster(format!("{what}: {text}")),
        settings @ LiveError::Settings(_) => settings,
    })
}

/// Returns the header that passes a token to the scheduler.
fn token_of(file: &Path) -> Result<HeaderValue, LiveError> {
    let wrong = |text: String| LiveError::Settings(format!("{}: {text}", file.display()));
    let token = std::fs::read_to_string(file)
        .map_err(|error| wrong(format!("cannot be read: {error}; {READABLE}")))?;
    let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
    let mut header = header
        .map_err(|_| wrong("holds no valid token; create one with `kubectl create token`".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, LiveError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let wrong = |text: String| LiveError::Settings(format!("{}: {text}", file.display()));
    let found = CertificateDer::pem_file_iter(file)
        .map_err(|error| wrong(format!("cannot be read: {error}; {READABLE}")))?;
    let found = found.map(|it| it.map(|it| it.to_vec())).collect::<Result<Vec<_>, _>>();
    found.map_err(|error| wrong(format!("holds no valid certificates: {error}; give a file in PEM")))
}

#[cfg(test)]
mod tests {
    //! Values of `--server`, and advice.

    use super::*;

    #[test]
    fn server_is_a_url_or_the_error_says_what_to_write() {
        for (text, url) in [
            ("https://127.0.0.1:10259", "https://127.0.0.1:10259/"),
            ("https://localhost/prefix", "https://localhost/prefix"),
            ("http://[::1]:10259", "http://[::1]:10259/"),
        ] {
            assert_eq!(server_url(text).map(|it| it.to_string()), Ok(url.to_owned()));
        }
        for (text, instead) in [
            ("10259", "write https://127.0.0.1:10259"),
            ("127.0.0.1:10259", "write https://127.0.0.1:10259"),
            ("[::1]:443", "write https://[::1]:443"),
            ("localhost", "write https://localhost:10259"),
            ("scheduler.example", "write https://scheduler.example:10259"),
            ("ftp://host", "write https://host:10259"),
            ("", "write a URL such as https://127.0.0.1:10259"),
            ("/path", "write a URL such as https://127.0.0.1:10259"),
            ("https://", "write a URL such as https://127.0.0.1:10259"),
            ("a b", "write a URL such as https://127.0.0.1:10259"),
        ] {
            let error = server_url(text).expect_err(text);
            assert!(error.ends_with(&format!("; {instead}")), "{text}: {error}");
        }
    }
    #[test]
    fn untrusted_certificate_has_its_own_advice() {
        let untrusted = "client error (Connect): invalid peer certificate: UnknownIssuer";
        assert_eq!(reach(untrusted, TRUST_PORT), TRUST_PORT);
        assert_eq!(reach("tcp connect error: Connection refused", TRUST_PORT), REACH);
    }
}
