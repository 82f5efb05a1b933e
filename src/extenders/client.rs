//! The client of one extender: requests, responses, and errors in upstream's wording.
//!
//! Upstream: `pkg/scheduler/extender.go` and Go's `net/http`.

use crate::extenders::connection::Connection;
use crate::extenders::wire;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
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
    connection: Connection,
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
        let connection = Connection::new(extender)?;
        let verbs = Verbs {
            filter: extender.filter_verb.clone(),
            prioritize: extender.prioritize_verb.clone(),
            preempt: extender.preempt_verb.clone(),
            bind: extender.bind_verb.clone(),
        };
        let nanos = u64::try_from(extender.http_timeout.0).unwrap_or_default();
        let timeout = Duration::from_nanos(nanos);
        Ok(Self { connection, url, verbs, timeout, caches_nodes: extender.node_cache_capable })
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
        let sent = async { self.connection.client().await.send(request).await };
        let response = match tokio::time::timeout_at(by, sent).await {
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

/// A client with the id the engine knows it by.
pub(super) type Known = (supercargo_core::model::extender::ExtenderId, Arc<Client>);
