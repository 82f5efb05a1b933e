//! HTTP requests to local ports, for health checks, metrics and pages. Server certificates are not verified here;
//! clients with a kubeconfig do that.

use std::time::Duration;

use anyhow::{Context, Result};
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;

/// Timeout of a request to a loopback server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// Returns a header, or "" if it is absent.
    pub fn header(&self, name: HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Requests `url`, with a bearer token if given, and returns status and body.
pub async fn get(url: &str, token: Option<&str>) -> Result<(u16, String)> {
    let answer = ask(Method::GET, url, token, None, "").await?;
    Ok((answer.status, answer.body))
}

/// Requests `url` with an `Accept` header.
pub async fn ask(
    method: Method,
    url: &str,
    token: Option<&str>,
    accept: Option<&str>,
    body: &str,
) -> Result<Answer> {
    let uri: http::Uri = url.parse().with_context(|| format!("{url} is not a URL"))?;
    // The client prepends the path of its server's URL to each request's path.
    let mut server = uri.clone().into_parts();
    server.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let mut config = kube::Config::new(http::Uri::from_parts(server)?);
    config.accept_invalid_certs = true;
    config.connect_timeout = Some(PATIENCE);
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    if let Some(accept) = accept {
        request = request.header(ACCEPT, accept);
    }
    let request = request
        .body(Body::from(body.as_bytes().to_vec()))
        .with_context(|| format!("cannot request {url}"))?;
    let answer = async {
        let response = client.send(request).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.into_body().collect_bytes().await?;
        anyhow::Ok(Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
    };
    tokio::time::timeout(PATIENCE, answer)
        .await
        .with_context(|| format!("no response from {url} within {PATIENCE:?}"))?
        .with_context(|| format!("cannot get {url}"))
}
