//! Sends one request to the API server and classifies the outcome: carried out, refused, never sent, or possibly
//! carried out.
//!
//! Only a response of the API server about the requested object counts (see [`supercargo_apiserver::answer`]). The
//! transport obeys `Retry-After` as upstream's client does (`client-go/rest/with_retry.go`). All other retries belong
//! to the individual effects, so the client's own retries must be disabled.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use tokio::time::Instant;

use crate::lease::{Fence, Passage};
use crate::telemetry::metrics::Metrics;
use supercargo_apiserver::answer::{Classification, Failure, Subject};
use supercargo_apiserver::retry::{jittered, retry_after};

/// Maximum number of tries on `Retry-After`, as in upstream's client.
const TRIES_MAX: u32 = 10;

/// Largest response accepted, in bytes. etcd rejects objects above 1.5 MiB of protobuf, which is a few times
/// as much in JSON.
const ANSWER_MAX: usize = 8 << 20;
/// How much of a non-API response an error message quotes, in bytes
/// (`client-go/rest/request.go#maxUnstructuredResponseTextBytes`).
const QUOTED_MAX: usize = 2_048;

/// `application/json`.
pub(super) const JSON: &str = "application/json";
/// Content type of a patch that merges lists by their merge keys.
pub(super) const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// Content type of a JSON merge patch.
pub(super) const MERGE: &str = "application/merge-patch+json";

/// A request to the API server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// URL path without the query.
    pub(super) path: String,
    /// URL query; omitted from error messages, as upstream does.
    pub(super) query: Option<String>,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
    /// The object of the request; the response must be about it.
    pub(super) subject: Subject,
}

/// Outcome of one try of a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The API server carried it out; holds the response body.
    Done(Bytes),
    /// The API server refused it or failed.
    Status {
        code: u16,
        /// Reason of the Status object.
        reason: String,
        /// Message as upstream's client words it.
        message: String,
        /// Whether the API server has no object of this name.
        is_gone: bool,
    },
    /// The request never reached the API server.
    NotSent(String),
    /// The request never reached the API server, since the connection was refused.
    ConnectionRefused(String),
    /// The deadline passed or the connection broke. The request may have been carried out.
    Lost(String),
    /// The response is not the API server's about this object. The request may have been carried out.
    Foreign(String),
}

/// Outcome of the last try, and of those before it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) answer: Answer,
    /// Whether an earlier try may have been carried out.
    pub(super) earlier_unknown: bool,
}

/// Error of a write that the lease does not cover.
#[derive(Debug)]
pub(super) enum Uncovered {
    /// The write was not sent.
    NotSent(String),
    /// The lease ended before the response came.
    Lost(String),
}

/// Connection to the API server.
#[derive(Clone)]
pub(super) struct Transport {
    client: kube::Client,
    /// Scheme and authority of the API server, for error messages.
    server: String,
    fence: Fence,
    metrics: Arc<Metrics>,
}

impl Transport {
    pub(super) fn new(client: kube::Client, server: &str, fence: Fence, metrics: Arc<Metrics>) -> Self {
        Self { client, server: server.trim_end_matches('/').to_owned(), fence, metrics }
    }

    /// Sends `call`, with `deadline` per try. While the server sends `Retry-After`, waits and retries for up
    /// to `patience`.
    pub(super) async fn send(&self, call: &Call, deadline: Duration, patience: Duration) -> Outcome {
        let give_up = Instant::now() + patience;
        let mut earlier_unknown = false;
        for tried in 1.. {
            let (answer, retry_after) = self.send_once(call, deadline).await;
            let Some(pause) = retry_after.map(|pause| jittered(pause, 0.1)) else {
                return Outcome { answer, earlier_unknown };
            };
            let again = Instant::now() + pause;
            if tried == TRIES_MAX || again > give_up {
                // The server would reject the lane's next request as well, so hold this credit as long as
                // allowed.
                tokio::time::sleep_until(again.min(give_up)).await;
                return Outcome { answer, earlier_unknown };
            }
            earlier_unknown |= matches!(answer, Answer::Status { code: 500.., .. } | Answer::Foreign(_));
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop counts to its limit")
    }

    /// Sends one try. A write is sent only while the lease covers it, for at most the rest of the lease.
    async fn send_once(&self, call: &Call, deadline: Duration) -> (Answer, Option<Duration>) {
        let passage =
            if call.method == Method::GET { Ok(Passage::of_a_question()) } else { self.fence.pass() };
        let passage = match passage {
            Ok(passage) => passage,
            Err(closed) => {
                self.metrics.write_fenced();
                return (Answer::NotSent(self.failed(call, &closed.to_string())), None);
            }
        };
        let limit = passage.left().map_or(deadline, |left| left.min(deadline));
        let query = call.query.as_deref().map(|query| given(query, deadline, limit));
        let uri = match query {
            Some(query) => format!("{}?{query}", call.path),
            None => call.path.clone(),
        };
        let request = Request::builder()
            .method(&call.method)
            .uri(uri)
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, call.content_type)
            .body(Body::from(call.body.clone()));
        let request = match request {
            Ok(request) => request,
            Err(error) => return (Answer::NotSent(self.failed(call, &error.to_string())), None),
        };
        let exchange = passage.cover(Box::pin(self.exchange(call, request)));
        match tokio::time::timeout(limit, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => (Answer::Lost(self.failed(call, "context deadline exceeded")), None),
        }
    }

    /// Runs a write to another server than the API server under the lease. `work` receives its time limit.
    ///
    /// # Errors
    /// Returns [`Uncovered`] if the lease does not admit the write, or expires before it ends.
    pub(super) async fn covered<F: Future>(
        &self,
        deadline: Duration,
        work: impl FnOnce(Duration) -> F,
    ) -> Result<F::Output, Uncovered> {
        let passage = self.fence.pass().map_err(|closed| {
            self.metrics.write_fenced();
            Uncovered::NotSent(closed.to_string())
        })?;
        let limit = passage.left().map_or(deadline, |left| left.min(deadline));
        let done = passage.cover(Box::pin(work(limit))).await;
        done.map_err(|_| Uncovered::Lost("context deadline exceeded".to_owned()))
    }

    async fn exchange(&self, call: &Call, request: Request<Body>) -> (Answer, Option<Duration>) {
        let response = match self.client.send(request).await {
            Ok(response) => response,
            Err(error) => return (self.broken(call, &error), None),
        };
        let (status, retry_after) = (response.status(), retry_after(&response));
        let body = match Limited::new(response.into_body(), ANSWER_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return (self.foreign(call, status, &[], &error.to_string()), retry_after),
        };
        let answer = match call.subject.judge(status, &body) {
            Classification::Done => Answer::Done(body),
            Classification::Foreign(why) => self.foreign(call, status, &body, &why),
            Classification::Failed(Failure { reason, mut message, is_gone }) => {
                if message.is_empty() {
                    message = unexplained(status, call, "");
                }
                Answer::Status { code: status.as_u16(), reason, message, is_gone }
            }
        };
        (answer, retry_after)
    }

    /// Returns the outcome of a response that is not the API server's. HTTP failures keep upstream's wording.
    fn foreign(&self, call: &Call, status: StatusCode, body: &[u8], why: &str) -> Answer {
        tracing::debug!(path = call.path, %status, why, "response is not from the API server");
        Answer::Foreign(if status.is_success() {
            self.failed(
                call,
                &format!("response with status {} is not from the API server: {why}", status.as_u16()),
            )
        } else {
            let quoted = &body[..body.len().min(QUOTED_MAX)];
            unexplained(status, call, &String::from_utf8_lossy(quoted))
        })
    }

    /// Returns the outcome of a request without a response.
    fn broken(&self, call: &Call, error: &kube::Error) -> Answer {
        let not_sent = match error {
            // The credentials could not be read, or the request could not be built.
            kube::Error::Auth(_) | kube::Error::HttpError(_) | kube::Error::BuildRequest(_) => true,
            kube::Error::Service(error) => causes(error.as_ref())
                .filter_map(|cause| cause.downcast_ref::<hyper_util::client::legacy::Error>())
                .any(hyper_util::client::legacy::Error::is_connect),
            _ => false,
        };
        let text = self.failed(call, &self.what_broke(error));
        match io_error(error) {
            Some(std::io::ErrorKind::ConnectionRefused) => Answer::ConnectionRefused(text),
            _ if not_sent => Answer::NotSent(text),
            _ => Answer::Lost(text),
        }
    }

    /// Describes the cause in upstream's words where they are known, otherwise in the client's.
    fn what_broke(&self, error: &kube::Error) -> String {
        match io_error(error) {
            Some(std::io::ErrorKind::ConnectionRefused) => {
                format!("dial tcp {}: connect: connection refused", self.authority())
            }
            Some(std::io::ErrorKind::TimedOut) => format!("dial tcp {}: i/o timeout", self.authority()),
            Some(std::io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
            Some(std::io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
            _ if causes(error)
                .filter_map(<dyn std::error::Error>::downcast_ref::<hyper::Error>)
                .any(hyper::Error::is_incomplete_message) =>
            {
                "EOF".to_owned()
            }
            _ => {
                let texts: Vec<_> = causes(error).map(ToString::to_string).collect();
                texts.last().cloned().unwrap_or_else(|| error.to_string())
            }
        }
    }

    fn authority(&self) -> &str {
        self.server.split_once("://").map_or(&*self.server, |(_, authority)| authority)
    }

    /// Returns an error message in the format of Go's `url.Error`.
    fn failed(&self, call: &Call, why: &str) -> String {
        let method = call.method.as_str();
        let verb = method[..1].to_owned() + &method[1..].to_ascii_lowercase();
        format!("{verb} \"{}{}\": {why}", self.server, call.path)
    }
}

/// Shortens a `timeout=` query to `limit`, so that the server gives up when we do.
fn given(query: &str, deadline: Duration, limit: Duration) -> String {
    if limit < deadline && query.starts_with("timeout=") {
        return format!("timeout={}ms", limit.as_millis().max(1));
    }
    query.to_owned()
}

/// Iterates over an error and its sources, outermost first.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns the kind of the I/O error that broke a request, if there was one.
fn io_error(error: &kube::Error) -> Option<std::io::ErrorKind> {
    causes(error).filter_map(|cause| cause.downcast_ref::<std::io::Error>()).last().map(std::io::Error::kind)
}

/// Returns the message for a response without a Status object
/// (`apimachinery/pkg/api/errors/errors.go#NewGenericServerResponse`).
fn unexplained(status: StatusCode, call: &Call, body: &str) -> String {
    let message = if body.trim().is_empty() { "unknown" } else { body.trim() };
    let text = match status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => message,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if message == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => message,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => &format!("an error on the server ({message:?}) has prevented the request from succeeding"),
        code => {
            &format!("the server responded with the status code {code} but did not return more information")
        }
    };
    let (method, resource) = (call.method.as_str().to_ascii_lowercase(), call.subject.qualified());
    format!("{text} ({method} {resource} {})", call.subject.name)
}
