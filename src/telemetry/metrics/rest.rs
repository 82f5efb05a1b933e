//! Request metrics of the API client: `rest_client_requests_total`, durations and sizes.
//!
//! A tower layer around the client, so watches are counted like writes. As upstream does, watches record no size.
//! The layer counts the bytes of passing frames and buffers no body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapFrame;
use hyper::body::{Body, Frame};
use prometheus::Histogram;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::telemetry::metrics::Metrics;

/// The tower layer, installed with `kube::client::ClientBuilder::with_layer`.
#[derive(Clone, Debug)]
pub struct RestLayer {
    metrics: Arc<Metrics>,
    host: Arc<str>,
}

impl RestLayer {
    /// Counts requests to the API server at this URL; the label `host` is its `address:port`.
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

/// A client service that counts its requests.
#[derive(Clone, Debug)]
pub struct RestService<S> {
    layer: RestLayer,
    inner: S,
}

/// Sums the bytes of a response body and records the total on drop.
struct Size {
    bytes: u64,
    histogram: Option<Histogram>,
}

impl Size {
    fn add(&mut self, frame: &Frame<Bytes>) {
        self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
}

impl Drop for Size {
    fn drop(&mut self) {
        if let Some(histogram) = &self.histogram {
            histogram.observe(self.bytes as f64);
        }
    }
}

/// A response body whose frames are counted.
type Counted<R> = MapFrame<R, Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>>;

fn counted<R: Body<Data = Bytes>>(body: R, histogram: Option<Histogram>) -> Counted<R> {
    let mut size = Size { bytes: 0, histogram };
    body.map_frame(Box::new(move |frame| {
        size.add(&frame);
        frame
    }))
}

/// Reports whether the request is a watch, whose response has no end of its own.
fn is_watch(uri: &http::Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")))
}

impl<S, B, R> Service<Request<B>> for RestService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    B: Body,
    R: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Counted<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let RestLayer { metrics, host } = self.layer.clone();
        let method = request.method().clone();
        let sent = request.body().size_hint().exact();
        let sizes = (!is_watch(request.uri())).then(|| metrics.rest_sizes(method.as_str(), &host));
        let begin = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.rest_request(method.as_str(), code, &host, begin.elapsed());
            let answered = answer.is_ok();
            let (request_size, response_size) = sizes.filter(|_| answered).unzip();
            if let (Some(histogram), Some(sent)) = (request_size, sent) {
                histogram.observe(sent as f64);
            }
            answer.map(|answer| answer.map(|body| counted(body, response_size)))
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use kube::client::ClientBuilder;

    use super::*;
    use crate::telemetry::metrics::Exposition;

    #[tokio::test]
    async fn request_and_response_sizes_are_recorded_except_for_watches() {
        let metrics = Arc::new(Metrics::new());
        let layer = RestLayer::new(metrics.clone(), &"http://10.0.0.1:443".parse().unwrap());
        let answer = |_: Request<Full<Bytes>>| async {
            Ok::<_, std::convert::Infallible>(Response::new(Full::from(Bytes::from_static(&[b'x'; 300]))))
        };
        let mut client = layer.layer(tower::service_fn(answer));
        for uri in ["http://10.0.0.1:443/api", "http://10.0.0.1:443/api?a=b&watch=true"] {
            let request = Request::post(uri).body(Full::from("seven b")).unwrap();
            let answer = client.call(request).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 300);
        }
        let text = Exposition::new(metrics).render().await;
        for (what, bytes) in [("request", 7), ("response", 300)] {
            let labels = "{host=\"10.0.0.1:443\",verb=\"POST\"}";
            for line in [
                format!("rest_client_{what}_size_bytes_sum{labels} {bytes}"),
                format!("rest_client_{what}_size_bytes_count{labels} 1"),
            ] {
                assert!(text.lines().any(|shown| shown == line), "{line} is missing from\n{text}");
            }
        }
    }

    #[tokio::test]
    async fn request_without_response_is_counted_as_error() {
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
