//! Exports spans to an OpenTelemetry collector: OTLP over HTTP with protobuf, in batches.
//!
//! Rejected spans are lost, counted and logged once. They are not retried, because newer spans matter more. Request
//! headers come from `OTEL_EXPORTER_OTLP_HEADERS`, as in every OpenTelemetry exporter.

use crate::telemetry::metrics::{Metrics, TraceSpans};
use crate::telemetry::traces::{Span, Value};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use supercargo_core::model::time::Time;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum number of spans per request.
const BATCH_MAX: usize = 512;
/// How long a partial batch waits for more spans.
const LINGER: Duration = Duration::from_secs(1);
/// Timeout of one request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a collector's response, in bytes.
const ANSWER_MAX: usize = 64 << 10;
/// Path of the traces service below the endpoint.
const PATH: &str = "/v1/traces";

/// The span exporter task.
pub(super) struct Exporter {
    exporter: SpanExporter,
    endpoint: String,
    scope: InstrumentationScope,
    spans: TraceSpans,
    last_error: LastError,
}

impl Exporter {
    /// Creates an exporter to the collector at this URL. Spans carry `host` as their resource's `host.name`.
    pub(super) fn new(endpoint: &str, host: &str, metrics: &Metrics) -> Result<Self, String> {
        let uri: http::Uri = endpoint.parse().map_err(|error| format!("{endpoint:?}: {error}"))?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(format!("{endpoint:?} is not an http or https URL"));
        }
        let last_error = LastError::default();
        let carrier = Carrier::new(&uri, last_error.clone()).map_err(|error| format!("{error:#}"))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(carrier)
            .with_endpoint(format!("{}{PATH}", endpoint.trim_end_matches('/')))
            // A retry delay would block a runtime thread that watches need.
            .with_retry_policy(RetryPolicy::disabled())
            .build();
        let mut exporter = exporter.map_err(|error| error.to_string())?;
        let version = env!("CARGO_PKG_VERSION");
        let about = [("service.version", version.to_owned()), ("host.name", host.to_owned())];
        let resource = Resource::builder_empty()
            .with_service_name("supercargo")
            .with_attributes(about.map(|(key, value)| KeyValue::new(key, value)));
        exporter.set_resource(&resource.build());
        let scope = InstrumentationScope::builder("supercargo").with_version(version).build();
        Ok(Self { exporter, endpoint: endpoint.to_owned(), scope, spans: metrics.trace_spans(), last_error })
    }

    /// Exports spans until all senders are gone.
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Span>) {
        let (mut batch, mut is_taken) = (Vec::with_capacity(BATCH_MAX), true);
        while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let until = Instant::now() + LINGER;
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                match timeout_at(until, queue.recv_many(&mut batch, room)).await {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => break,
                }
            }
            let count = batch.len();
            let sent = self.exporter.export(batch.drain(..).map(|span| self.data(span)).collect()).await;
            match &sent {
                Ok(()) => self.spans.sent(count),
                Err(_) => self.spans.failed(count),
            }
            if sent.is_ok() != is_taken {
                is_taken = sent.is_ok();
                self.report(
                    sent.err().map(|error| self.last_error.take().unwrap_or_else(|| error.to_string())),
                );
            }
        }
    }

    fn report(&self, error: Option<String>) {
        let endpoint = &self.endpoint;
        match error {
            Some(error) => {
                tracing::warn!(endpoint, error, "cannot export spans to the collector; they are lost");
            }
            None => tracing::info!(endpoint, "exporting spans to the collector works again"),
        }
    }

    fn data(&self, span: Span) -> SpanData {
        let trace = TraceId::from_bytes(span.trace.to_be_bytes());
        let id = SpanId::from_bytes(span.id.to_be_bytes());
        let attribute = |(key, value)| match value {
            Value::Text(text) => KeyValue::new(key, text),
            Value::Number(number) => KeyValue::new(key, number),
        };
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: span.parent.map_or(SpanId::INVALID, |id| SpanId::from_bytes(id.to_be_bytes())),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: span.name.into(),
            start_time: wall(span.began),
            end_time: wall(span.ended),
            attributes: span.attributes.into_iter().map(attribute).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

fn wall(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(time.as_nanos())
}

/// The error of the last request, which the exporter does not expose.
#[derive(Clone, Debug, Default)]
struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    fn set(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// HTTP client of the exporter, with the same name resolution and TLS settings as all other clients.
struct Carrier {
    client: kube::Client,
    last_error: LastError,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carrier(..)")
    }
}

impl Carrier {
    fn new(uri: &http::Uri, last_error: LastError) -> anyhow::Result<Self> {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let mut config = kube::Config::new(http::Uri::from_parts(parts)?);
        // Connecting is covered by the request timeout.
        config.connect_timeout = None;
        config.default_retry = false;
        Ok(Self { client: supercargo_apiserver::client::builder(&config)?.build(), last_error })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (mut parts, body) = request.into_parts();
        // The client prepends the origin to the path.
        if let Some(path) = parts.uri.path_and_query() {
            parts.uri = path.as_str().parse()?;
        }
        let response = self.client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

/// The future's type, as `async_trait` generates it.
type Sent<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Carrier {
    fn send_bytes<'me, 'sent>(&'me self, request: Request<Bytes>) -> Sent<'sent>
    where
        'me: 'sent,
        Self: 'sent,
    {
        Box::pin(async move {
            let sent = timeout(REQUEST_TIMEOUT, self.send(request)).await;
            let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {REQUEST_TIMEOUT:?}").into()));
            sent.inspect_err(|error| {
                let causes =
                    std::iter::successors(Some(&**error as &dyn std::error::Error), |&error| error.source());
                self.last_error.set(causes.last().map(ToString::to_string).unwrap_or_default());
            })
        })
    }
}
