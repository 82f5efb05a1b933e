//! Counts what the API client asks and is answered: `rest_client_requests_total` and its durations.
//!
//! A layer around the client, so that watches are counted as writes are. Looks at no body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::metrics::Metrics;

/// To be put around the client by `kube::client::ClientBuilder::with_layer`.
#[derive(Clone, Debug)]
pub struct RestLayer {
    metrics: Arc<Metrics>,
    host: Arc<str>,
}

impl RestLayer {
    /// Counts requests to the API server at this URL; `host` of the series is its `address:port`.
    pub fn new(metrics: Arc<Metrics>, cluster_url: &http::Uri) -> Self {
        Self { metrics, host: cluster_url.authority().map_or("", |host| host.as_str()).into() }
    }
}

impl<S> Layer<S> for RestLayer {
    type Service = RestService<S>;

    fn layer(&self, inner: S) -> RestService<S> {
        RestService { layer: self.clone(), inner }
    }
}

/// A client whose requests are counted.
#[derive(Clone, Debug)]
pub struct RestService<S> {
    layer: RestLayer,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for RestService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let RestLayer { metrics, host } = self.layer.clone();
        let method = request.method().clone();
        let begin = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.rest_request(method.as_str(), code, &host, begin.elapsed());
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use kube::client::ClientBuilder;

    use super::*;
    use crate::metrics::Exposition;

    #[tokio::test]
    async fn a_request_without_an_answer_is_counted_as_an_error() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let metrics = Arc::new(Metrics::new());
        let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
        config.default_retry = false;
        let layer = RestLayer::new(metrics.clone(), &config.cluster_url);
        let client = ClientBuilder::try_from(config).unwrap().with_layer(&layer).build();
        assert!(Api::<Namespace>::all(client).get("default").await.is_err());
        let text = Exposition::new(metrics).render().await;
        let requests =
            format!("rest_client_requests_total{{code=\"<error>\",host=\"{address}\",method=\"GET\"}} 1\n");
        let durations =
            format!("rest_client_request_duration_seconds_count{{host=\"{address}\",verb=\"GET\"}} 1\n");
        assert!(text.contains(&requests) && text.contains(&durations), "{text}");
    }
}
