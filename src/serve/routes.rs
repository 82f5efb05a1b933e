//! Routes requests by path, and formats error responses.
//!
//! Upstream ignores the method, and DELETE resets its metrics. Here everything but GET and HEAD is 405,
//! except PUT on `/debug/flags/v`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT,
    WARNING, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full, Limited};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::extension::{self, Asked, Extension, ExtensionAnswer};
use super::gate::{Caller, Gate, Refusal};
use super::health::Checks;
use super::negotiate::is_refused_as_yaml;
use super::pages::{Pages, Zpage};
use super::pods::{self, Outcome};
use crate::telemetry::metrics::{self, Exposition};

const PLAIN: &str = "text/plain; charset=utf-8";
/// The only writable path.
const VERBOSITY: &str = "/debug/flags/v";
/// Maximum size of a request body, in bytes; a verbosity is one or two digits.
const BODY_BYTES: usize = 64;
/// Time limit for a request body to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Request handler for all paths.
pub struct Routes {
    checks: Arc<Checks>,
    exposition: Exposition,
    gate: Gate,
    pages: Pages,
    extension: Option<Box<dyn Extension>>,
}

impl Routes {
    /// Returns routes for health and metrics, with access controlled by `gate`.
    pub fn new(checks: Arc<Checks>, exposition: Exposition, gate: Gate) -> Self {
        Self { checks, exposition, gate, pages: Pages::default(), extension: None }
    }

    /// Adds further pages.
    #[must_use]
    pub fn with_pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Adds pages that take request bodies.
    #[must_use]
    pub fn with_extension(mut self, extension: impl Extension) -> Self {
        self.extension = Some(Box::new(extension));
        self
    }

    pub(super) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Answers one request.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
    {
        if let Err(why) = check_host(&request) {
            let mut response = plain(StatusCode::BAD_REQUEST, format!("400 Bad Request: {why}"));
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
        if let Some(extension) = &self.extension
            && request.uri().path().starts_with(extension.prefix())
        {
            return self.extended(extension.as_ref(), request).await;
        }
        let (is_head, path) = (request.method() == Method::HEAD, request.uri().path());
        let writes = request.method() == Method::PUT && path == VERBOSITY && self.pages.sets_verbosity();
        if !is_head && !writes && request.method() != Method::GET {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if let Some(sources) = self.pages.pods().filter(|_| pods::is_about_pods(path)) {
            let (query, at) = (request.uri().query().unwrap_or_default(), (&self.gate, Instant::now()));
            let response = match sources.answer(at, Caller::from(&request), path, query).await {
                Outcome::Json(json) => text(StatusCode::OK, "application/json", json),
                Outcome::Later => given(PLAIN, None),
                Outcome::Wrong(why) => {
                    status(StatusCode::BAD_REQUEST, "BadRequest", &without_markup(&why), false)
                }
                Outcome::NoSuchPod(why) => {
                    status(StatusCode::NOT_FOUND, "NotFound", &without_markup(&why), false)
                }
                Outcome::Refused(refusal) => refused(&request, &refusal),
            };
            return if is_head { headers_only(response) } else { response };
        }
        let verb = match (is_head, writes) {
            (true, _) => "head",
            (_, true) => "put",
            _ => "get",
        };
        let response = match self.gate.admit(Instant::now(), Caller::from(&request), verb, path).await {
            Ok(()) if writes => self.set_verbosity(request).await,
            Ok(()) => self.content(&request).await,
            Err(refusal) => refused(&request, &refusal),
        };
        if is_head { headers_only(response) } else { response }
    }

    async fn content<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/metrics" => text(StatusCode::OK, metrics::CONTENT_TYPE, self.exposition.render().await),
            "/metrics/slis" => {
                text(StatusCode::OK, metrics::CONTENT_TYPE, metrics::render_slis(&self.checks.tallies()))
            }
            "/metrics/resources" => match self.pages.resources().await {
                Some(resources) => given(metrics::CONTENT_TYPE, resources),
                None => not_found(),
            },
            "/configz" => match self.pages.config().await {
                Some(json) => text(StatusCode::OK, "application/json", json),
                None => not_found(),
            },
            "/statusz" if self.pages.has_status() => zpage(request, self.pages.status(Timestamp::now())),
            "/flagz" if self.pages.has_flags() => zpage(request, self.pages.flags()),
            VERBOSITY if self.pages.sets_verbosity() => {
                plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method")
            }
            path if path.starts_with("/debug/") => match self.pages.debug(path).await {
                Some(page) => given(PLAIN, page),
                None => not_found(),
            },
            path => match self.checks.answer(path, request.uri().query()) {
                Some(health) if health.healthy => plain(StatusCode::OK, health.body),
                Some(health) => plain(StatusCode::INTERNAL_SERVER_ERROR, health.body),
                None => not_found(),
            },
        }
    }

    /// Answers a request for a page of the extension, after the user was authenticated and may access the path.
    async fn extended<B>(&self, extension: &dyn Extension, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
    {
        let (now, caller) = (Instant::now(), Caller::from(&request));
        let verb = request.method().as_str().to_ascii_lowercase();
        let admitted = async {
            let user = self.gate.known_user(now, caller).await?;
            self.gate.admit(now, caller, &verb, request.uri().path()).await?;
            Ok::<_, Refusal>(user)
        };
        let user = match admitted.await {
            Ok(user) => user,
            Err(refusal) => return refused(&request, &refusal),
        };
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let mut asked = Asked {
            user,
            method: request.method().clone(),
            path: request.uri().path()[extension.prefix().len()..].to_owned(),
            body: Bytes::new(),
        };
        let is_post = request.method() == Method::POST;
        let (parts, body) = request.into_parts();
        let reserved = if is_post {
            let Some(length) = length else {
                let text = "a POST request needs a Content-Length";
                return status(StatusCode::LENGTH_REQUIRED, "LengthRequired", text, false);
            };
            let reserved = match extension.reserve(&asked, length) {
                Ok(reserved) => reserved,
                Err(answer) => return extended(answer),
            };
            match extension::read(body, length).await {
                Ok(body) => asked.body = body,
                Err(text) => return status(StatusCode::BAD_REQUEST, "BadRequest", &text, false),
            }
            Some(reserved)
        } else {
            None
        };
        for &resource in extension.needs(&asked) {
            if let Err(refusal) = self.gate.may_list(now, &asked.user, resource).await {
                return refused(&Request::from_parts(parts, ()), &refusal);
            }
        }
        extended(extension.answer(asked, reserved).await)
    }

    async fn set_verbosity<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
    {
        let body =
            tokio::time::timeout(BODY_WITHIN, Limited::new(request.into_body(), BODY_BYTES).collect()).await;
        let Ok(Ok(body)) = body else {
            return plain(StatusCode::BAD_REQUEST, "the request body must be a number\n");
        };
        match self.pages.set_verbosity(&body.to_bytes()) {
            Some(Ok(message)) => plain(StatusCode::OK, message),
            Some(Err(message)) => plain(StatusCode::BAD_REQUEST, message),
            None => not_found(),
        }
    }
}

/// Checks that an HTTP/1.1 request has one valid Host header; otherwise returns the message of Go's server
/// (`net/http.conn.readRequest`). HTTP/1.0 needs none, and HTTP/2 has `:authority`.
fn check_host<B>(request: &Request<B>) -> Result<(), &'static str> {
    if request.version() != Version::HTTP_11 {
        return Ok(());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().ok_or("missing required Host header")?;
    if hosts.next().is_some() {
        return Err("too many Host headers");
    }
    // As `golang.org/x/net/http/httpguts.ValidHostHeader`: checks characters, not structure.
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=[]_~'".contains(byte);
    if host.as_bytes().iter().all(is_host) { Ok(()) } else { Err("malformed Host header") }
}

fn not_found() -> Response<Full<Bytes>> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Responds with the content of a source, or 503 if it is temporarily unavailable.
fn given(content_type: &'static str, body: Option<String>) -> Response<Full<Bytes>> {
    match body {
        Some(body) => text(StatusCode::OK, content_type, body),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable; retry\n"),
    }
}

/// Responds with the answer of an extension.
fn extended(answer: ExtensionAnswer) -> Response<Full<Bytes>> {
    let code = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = text(code, "application/json", answer.body);
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Responds with the page in its negotiated format.
fn zpage<B>(request: &Request<B>, page: Zpage) -> Response<Full<Bytes>> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Upstream's test for interactive clients.
    let person = ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| header(USER_AGENT).starts_with(agent));
    let Some(written) = page.write(header(ACCEPT), person) else {
        let message =
            "only the following media types are accepted: application/json, application/yaml, text/plain";
        if is_refused_as_yaml(header(ACCEPT)) {
            let body = format!(
                "apiVersion: v1\ncode: 406\nkind: Status\nmessage: '{message}'\nmetadata: {{}}\nreason: NotAcceptable\nstatus: Failure\n"
            );
            return text(StatusCode::NOT_ACCEPTABLE, "application/yaml", body);
        }
        return status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, false);
    };
    let mut response = plain(StatusCode::OK, written.body);
    if let Ok(content_type) = HeaderValue::try_from(written.content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    if let Some(warning) = written.warning.and_then(|warning| HeaderValue::try_from(warning).ok()) {
        response.headers_mut().insert(WARNING, warning);
    }
    response
}

fn refused<B>(request: &Request<B>, refusal: &Refusal) -> Response<Full<Bytes>> {
    match refusal {
        Refusal::Unauthorized => status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", false),
        Refusal::Forbidden(message) => {
            status(StatusCode::FORBIDDEN, "Forbidden", &without_markup(message), true)
        }
        // The cause is logged only, since an anonymous client may have triggered it.
        Refusal::Unknown(_) => {
            let uri = request.uri().path_and_query().map_or("", |uri| uri.as_str());
            let why = "the API server could not review the request";
            let body = without_markup(&format!("Internal Server Error: {uri:?}: {why}"));
            plain(StatusCode::INTERNAL_SERVER_ERROR, body + "\n")
        }
    }
}

/// Escapes HTML in refusals, as upstream's `responsewriters.sanitizer`.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a `metav1.Status` with its fields in upstream's order.
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
