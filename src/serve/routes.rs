//! Which path has which answer, and how refusals look.
//!
//! Upstream ignores the method, and empties the metrics on DELETE; here everything but GET and HEAD is 405.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;
use tokio::time::Instant;

use super::gate::{Gate, Refusal};
use super::health::Checks;
use crate::metrics::{self, Exposition};

const PLAIN: &str = "text/plain; charset=utf-8";

/// Everything that is served.
pub struct Routes {
    checks: Arc<Checks>,
    exposition: Exposition,
    gate: Gate,
}

impl Routes {
    /// Health from `checks`, metrics from `exposition`, to whom `gate` lets pass.
    pub fn new(checks: Arc<Checks>, exposition: Exposition, gate: Gate) -> Self {
        Self { checks, exposition, gate }
    }

    pub(super) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// The answer to a request; its body is not looked at.
    pub(super) async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let is_head = request.method() == Method::HEAD;
        if !is_head && request.method() != Method::GET {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let path = request.uri().path();
        let verb = if is_head { "head" } else { "get" };
        let response = match self.gate.admit(Instant::now(), request.headers(), verb, path).await {
            Ok(()) => self.content(path, request.uri().query()).await,
            Err(refusal) => refused(request, &refusal),
        };
        if is_head { headers_only(response) } else { response }
    }

    async fn content(&self, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
        match path {
            "/metrics" => text(StatusCode::OK, metrics::CONTENT_TYPE, self.exposition.render().await),
            "/metrics/slis" => {
                text(StatusCode::OK, metrics::CONTENT_TYPE, metrics::render_slis(&self.checks.tallies()))
            }
            _ => match self.checks.answer(path, query) {
                Some(health) if health.healthy => plain(StatusCode::OK, health.body),
                Some(health) => plain(StatusCode::INTERNAL_SERVER_ERROR, health.body),
                None => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
            },
        }
    }
}

fn refused<B>(request: &Request<B>, refusal: &Refusal) -> Response<Full<Bytes>> {
    match refusal {
        Refusal::Unauthorized => status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", false),
        Refusal::Forbidden(message) => {
            status(StatusCode::FORBIDDEN, "Forbidden", &without_markup(message), true)
        }
        // Why is in our log: a stranger may have caused this.
        Refusal::Unknown(_) => {
            let uri = request.uri().path_and_query().map_or("", |uri| uri.as_str());
            let why = "the API server could not be asked for a review";
            let body = without_markup(&format!("Internal Server Error: {uri:?}: {why}"));
            plain(StatusCode::INTERNAL_SERVER_ERROR, body + "\n")
        }
    }
}

/// Upstream's refusals cannot be taken for HTML (`responsewriters.sanitizer`).
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A `metav1.Status`, with its fields in upstream's order.
fn status(code: StatusCode, reason: &str, message: &str, details: bool) -> Response<Full<Bytes>> {
    let details = if details { r#""details":{},"# } else { "" };
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{},"reason":{},{details}"code":{}}}"#,
        json!(message),
        json!(reason),
        code.as_u16(),
    );
    text(code, "application/json", body + "\n")
}

fn plain(code: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    text(code, PLAIN, body)
}

fn text(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn headers_only(response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    use hyper::body::Body as _;
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Full::default())
}
