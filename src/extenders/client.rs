//! The client of one extender: requests, responses, and errors in upstream's wording.
//!
//! Upstream: `pkg/scheduler/extender.go` and Go's `net/http`.

use crate::extenders::wire;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::ByteString;
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::watch::RawObjects;
use supercargo_config::v1;
use supercargo_core::model::effect::{PodRef, Question, Victims};
use supercargo_core::model::event::Kind;
use supercargo_core::model::extender::Answer;
use tokio::time::Instant;

/// Minimum of the response size limit, in bytes. The limit is twice the size of the request if that is
/// larger.
const ANSWER_MAX: usize = 4 << 20;

/// Go's messages for timeouts.
const AWAITING: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
const READING: &str = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";

/// Client of one extender.
pub struct Client {
    client: kube::Client,
    /// `urlPrefix` without a trailing slash.
    url: String,
    verbs: Verbs,
    timeout: Duration,
    caches_nodes: bool,
}

struct Verbs {
    filter: String,
    prioritize: String,
    preempt: String,
    bind: String,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The extender never received the request.
    NotSent(String),
    /// The extender reported an error, or its response is invalid.
    Answered(String),
    /// No complete response.
    Lost(String),
}

impl Failed {
    /// Returns the message, in upstream's wording.
    pub fn into_text(self) -> String {
        match self {
            Self::NotSent(text) | Self::Answered(text) | Self::Lost(text) => text,
        }
    }
}

impl Client {
    /// Returns a client for a configured extender.
    ///
    /// # Errors
    /// Returns an error when the URL or the TLS settings are invalid, in upstream's wording where it has one.
    pub fn new(extender: &v1::Extender) -> Result<Self, String> {
        let url = extender.url_prefix.trim_end_matches('/').to_owned();
        let uri: http::Uri =
            extender.url_prefix.parse().map_err(|error| format!("{:?}: {error}", extender.url_prefix))?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(format!("{:?} is not an http or https URL", extender.url_prefix));
        }
        let mut config = kube::Config::new(origin(&uri)?);
        // The request's time limit includes the connection.
        config.connect_timeout = None;
        config.default_retry = false;
        tls(&mut config, extender)?;
        let client =
            supercargo_apiserver::client::builder(&config).map_err(|error| format!("{error:#}"))?.build();
        let verbs = Verbs {
            filter: extender.filter_verb.clone(),
            prioritize: extender.prioritize_verb.clone(),
            preempt: extender.preempt_verb.clone(),
            bind: extender.bind_verb.clone(),
        };
        let nanos = u64::try_from(extender.http_timeout.0).unwrap_or_default();
        let timeout = Duration::from_nanos(nanos);
        Ok(Self { client, url, verbs, timeout, caches_nodes: extender.node_cache_capable })
    }

    /// Returns the time limit of a call.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends one query about a pod.
    ///
    /// # Errors
    /// Returns [`Failed`] when the extender cannot be asked, fails, or responds with invalid data.
    pub async fn ask(
        &self,
        pod: &PodRef,
        question: &Question,
        objects: &RawObjects,
    ) -> Result<Answer, Failed> {
        let by = Instant::now() + self.timeout;
        let whole = tokio::time::timeout_at(by, self.question(pod, question, objects));
        let (verb, body) = match whole.await {
            Ok(Ok(whole)) => whole,
            Ok(Err(why)) => return Err(Failed::NotSent(why)),
            Err(_) => return Err(Failed::NotSent("timed out waiting for the objects to send".to_owned())),
        };
        let answer = self.send(verb, body, by).await?;
        let read = match question {
            Question::Filter { .. } => wire::filter_result(&answer, self.caches_nodes).map(Answer::Filtered),
            Question::Prioritize { .. } => wire::priorities(&answer).map(Answer::Scored),
            Question::Preempt { .. } => wire::preemption_result(&answer).map(Answer::Candidates),
        };
        read.map_err(Failed::Answered)
    }

    /// Lets the extender bind a pod, within `limit`.
    ///
    /// # Errors
    /// Returns [`Failed`]; after [`Failed::Lost`] and [`Failed::Answered`] the pod may be bound.
    pub async fn bind(&self, pod: &PodRef, node: &str, limit: Duration) -> Result<(), Failed> {
        let args =
            wire::BindingArgs { pod_name: &pod.name, pod_namespace: &pod.namespace, pod_uid: &pod.uid, node };
        let body = serde_json::to_vec(&args).expect("a binding is plain data");
        let answer = self.send(&self.verbs.bind, body, Instant::now() + limit).await?;
        wire::binding_result(&answer).map_err(Failed::Answered)
    }

    /// Returns the verb and the request body of a query.
    async fn question(
        &self,
        pod: &PodRef,
        question: &Question,
        objects: &RawObjects,
    ) -> Result<(&str, Vec<u8>), String> {
        objects.complete(Kind::Pod).await;
        let known =
            |pod: &PodRef| objects.pod(&pod.uid).ok_or_else(|| format!("pods {:?} not found", pod.name));
        let whole = known(pod)?;
        let victims: Vec<Vec<Arc<RawValue>>>;
        let (verb, body) = match question {
            Question::Filter { nodes } => (&self.verbs.filter, self.nodes(&whole, nodes, objects).await),
            Question::Prioritize { nodes } => {
                (&self.verbs.prioritize, self.nodes(&whole, nodes, objects).await)
            }
            Question::Preempt { rooms } => {
                let mut args = wire::PreemptionArgs {
                    pod: &whole,
                    node_name_to_victims: None,
                    node_name_to_meta_victims: None,
                };
                if self.caches_nodes {
                    let meta = |pod| wire::MetaPod { uid: uid_of(pod) };
                    let rooms = rooms.iter().map(|room| {
                        let pods = room.pods.iter().map(meta).collect();
                        (room.node.as_str(), wire::Victims { pods, violations: room.violations })
                    });
                    args.node_name_to_meta_victims = Some(rooms.collect());
                } else {
                    let whole = |room: &Victims| room.pods.iter().map(known).collect::<Result<Vec<_>, _>>();
                    victims = rooms.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
                    let rooms = rooms.iter().zip(&victims).map(|(room, pods)| {
                        let pods = pods.iter().map(|pod| &**pod).collect();
                        (room.node.as_str(), wire::Victims { pods, violations: room.violations })
                    });
                    args.node_name_to_victims = Some(rooms.collect());
                }
                (&self.verbs.preempt, serde_json::to_vec(&args))
            }
        };
        Ok((verb, body.map_err(|error| error.to_string())?))
    }

    async fn nodes(
        &self,
        pod: &RawValue,
        names: &[String],
        objects: &RawObjects,
    ) -> Result<Vec<u8>, serde_json::Error> {
        if self.caches_nodes {
            return serde_json::to_vec(&wire::Args { pod, nodes: None, node_names: Some(names) });
        }
        objects.complete(Kind::Node).await;
        let nodes = objects.nodes(names);
        let items = nodes.iter().map(|node| &**node).collect();
        let nodes = Some(wire::NodeList { metadata: wire::Empty {}, items });
        serde_json::to_vec(&wire::Args { pod, nodes, node_names: None })
    }

    async fn send(&self, verb: &str, body: Vec<u8>, by: Instant) -> Result<Bytes, Failed> {
        let url = format!("{}/{verb}", self.url);
        let post = |why: &str| format!("Post {url:?}: {why}");
        let limit = ANSWER_MAX.max(body.len().saturating_mul(2));
        // The client prepends the origin to the path.
        let path = http::Uri::try_from(&url).ok().and_then(|uri| uri.path_and_query().cloned());
        let request = Request::post(path.map_or_else(|| "/".to_owned(), |path| path.to_string()))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, concat!("supercargo/", env!("CARGO_PKG_VERSION")))
            .body(Body::from(body));
        let request = request.map_err(|error| Failed::NotSent(post(&error.to_string())))?;
        let response = match tokio::time::timeout_at(by, self.client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.broken(&error, post)),
            Err(_) => return Err(Failed::Lost(post(AWAITING))),
        };
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            return Err(Failed::Answered(format!("failed {verb} with extender at URL {url}, code {code}")));
        }
        let body = http_body_util::Limited::new(response.into_body(), limit).collect();
        match tokio::time::timeout_at(by, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                Err(Failed::Answered(format!("the response of {url} exceeds {limit} bytes")))
            }
            Ok(Err(_)) => Err(Failed::Lost("unexpected EOF".to_owned())),
            Err(_) => Err(Failed::Lost(READING.to_owned())),
        }
    }

    fn broken(&self, error: &kube::Error, post: impl Fn(&str) -> String) -> Failed {
        let causes = || {
            let error: &(dyn std::error::Error + 'static) = error;
            std::iter::successors(Some(error), |&error| error.source())
        };
        let mut clients =
            causes().filter_map(|cause| cause.downcast_ref::<hyper_util::client::legacy::Error>());
        let not_sent = clients.any(hyper_util::client::legacy::Error::is_connect);
        let io = causes().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).last();
        let incomplete = causes()
            .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
            .any(hyper::Error::is_incomplete_message);
        let why = match io.map(std::io::Error::kind) {
            Some(std::io::ErrorKind::ConnectionRefused) => {
                format!("dial tcp {}: connect: connection refused", self.address())
            }
            Some(std::io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
            Some(std::io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
            _ if incomplete => "EOF".to_owned(),
            _ => causes().last().map(ToString::to_string).unwrap_or_default(),
        };
        if not_sent { Failed::NotSent(post(&why)) } else { Failed::Lost(post(&why)) }
    }

    /// Returns `<host>:<port>`.
    fn address(&self) -> String {
        let uri: Option<http::Uri> = self.url.parse().ok();
        let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
        let default = if self.url.starts_with("https:") { 443 } else { 80 };
        let port = uri.as_ref().and_then(http::Uri::port_u16).unwrap_or(default);
        format!("{host}:{port}")
    }
}

fn uid_of(pod: &PodRef) -> &str {
    &pod.uid
}

/// Returns the URI with scheme, host and port only.
fn origin(uri: &http::Uri) -> Result<http::Uri, String> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    http::Uri::from_parts(parts).map_err(|error| error.to_string())
}

/// Applies `tlsConfig` and `enableHTTPS` (upstream `makeTransport`, `client-go/rest#TLSConfigFor`).
fn tls(config: &mut kube::Config, extender: &v1::Extender) -> Result<(), String> {
    let none = v1::ExtenderTls::default();
    let tls = extender.tls_config.as_ref().unwrap_or(&none);
    let has_ca = !tls.ca_file.is_empty() || !tls.ca_data.0.is_empty();
    let insecure = tls.insecure || extender.enable_https && !has_ca;
    if has_ca && insecure {
        return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    config.accept_invalid_certs = insecure;
    if has_ca {
        let pem = data(&tls.ca_data, &tls.ca_file)?;
        let certificates = CertificateDer::pem_slice_iter(&pem);
        let certificates =
            certificates.map(|each| each.map(|der| der.to_vec())).collect::<Result<Vec<_>, _>>();
        let certificates =
            certificates.map_err(|error| format!("unable to load root certificates: {error}"))?;
        if certificates.is_empty() {
            return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
        }
        config.root_cert = Some(certificates);
    }
    config.tls_server_name = Some(tls.server_name.clone()).filter(|name| !name.is_empty());
    let (certificate, key) = (data(&tls.cert_data, &tls.cert_file)?, data(&tls.key_data, &tls.key_file)?);
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => {}
        (false, false) => {
            config.auth_info.client_certificate_data = Some(base64(certificate)?);
            config.auth_info.client_key_data = Some(base64(key)?.into());
        }
        (true, false) | (false, true) => {
            return Err(
                "client certificate and key must be set together: certFile or certData, and keyFile or keyData"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Returns the inline data, or else the contents of the file; empty if neither is set.
fn data(data: &ByteString, file: &str) -> Result<Vec<u8>, String> {
    if !data.0.is_empty() || file.is_empty() {
        return Ok(data.0.clone());
    }
    std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))
}

fn base64(bytes: Vec<u8>) -> Result<String, String> {
    let text = serde_json::to_value(ByteString(bytes)).map_err(|error| error.to_string())?;
    text.as_str().map(str::to_owned).ok_or_else(|| "base64 is a string".to_owned())
}

/// A client with the id the engine knows it by.
pub(super) type Known = (supercargo_core::model::extender::ExtenderId, Arc<Client>);
