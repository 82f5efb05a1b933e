//! One GET request to a port of this machine, for health checks and metrics. It does not check who answers: that is for
//! clients with a kubeconfig.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::client::Body;

/// A server on loopback that takes longer than this is as good as away.
const PATIENCE: Duration = Duration::from_secs(10);

/// The status and body at `url`, asked for with a bearer token if one is given.
pub(crate) async fn get(url: &str, token: Option<&str>) -> Result<(u16, String)> {
    let uri: http::Uri = url.parse().with_context(|| format!("{url} is not a URL"))?;
    // The client puts the path of its server's URL before that of each request.
    let mut server = uri.clone().into_parts();
    server.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let mut config = kube::Config::new(http::Uri::from_parts(server)?);
    config.accept_invalid_certs = true;
    config.connect_timeout = Some(PATIENCE);
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let mut request = http::Request::get(uri.path_and_query().map_or("/", |path| path.as_str()));
    if let Some(token) = token {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).with_context(|| format!("cannot ask {url}"))?;
    let answer = async {
        let response = client.send(request).await?;
        let status = response.status().as_u16();
        anyhow::Ok((status, response.into_body().collect_bytes().await?))
    };
    let (status, body) = tokio::time::timeout(PATIENCE, answer)
        .await
        .with_context(|| format!("no answer from {url} within {PATIENCE:?}"))?
        .with_context(|| format!("cannot get {url}"))?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
