//! A real HTTP extender in this process, which records requests and replies as the test specifies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Reply to a call.
pub(crate) enum Reply {
    Json(Value),
    Code(u16),
    /// Reply with this once the test calls `go_on`.
    Held(Value),
    /// Post the requested Binding and report success.
    Binds,
}

/// A received call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The path, which ends with the verb.
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl Call {
    /// Returns the pod's name.
    pub(crate) fn pod(&self) -> &str {
        let named = &self.body["Pod"]["metadata"]["name"];
        named.as_str().or_else(|| self.body["PodName"].as_str()).unwrap_or_default()
    }

    /// Returns the nodes' names, sorted.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let items = self.body["Nodes"]["items"].as_array().into_iter().flatten();
        let whole = items.map(|node| &node["metadata"]["name"]);
        let names = self.body["NodeNames"].as_array().into_iter().flatten();
        let mut nodes: Vec<String> =
            whole.chain(names).filter_map(Value::as_str).map(str::to_owned).collect();
        nodes.sort();
        nodes
    }
}

type Conduct = Box<dyn Fn(&Call) -> Reply + Send + Sync>;

/// An extender on loopback. It stops when dropped.
pub(crate) struct Extender {
    pub(crate) port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
    goes_on: watch::Sender<bool>,
}

struct Shared {
    calls: Arc<Mutex<Vec<Call>>>,
    conduct: Conduct,
    goes_on: watch::Receiver<bool>,
    client: Client,
    tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Extender {
    /// Starts one that replies with `conduct`, on the given port or any, and over HTTPS if an acceptor is given.
    pub(crate) async fn start(
        client: &Client,
        port: u16,
        tls: Option<tokio_rustls::TlsAcceptor>,
        conduct: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.context("no port for an extender")?;
        let port = listener.local_addr()?.port();
        let (goes_on, waits) = watch::channel(false);
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let shared = Arc::new(Shared {
            calls: Arc::clone(&calls),
            conduct: Box::new(conduct),
            goes_on: waits,
            client: client.clone(),
            tls,
        });
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let answered = Arc::clone(&shared);
                    let service = service_fn(move |request| answer(request, Arc::clone(&answered)));
                    let http = hyper::server::conn::http1::Builder::new();
                    // Broken connections are covered elsewhere.
                    let _ = match &shared.tls {
                        None => http.serve_connection(TokioIo::new(connection), service).await,
                        Some(tls) => match tls.accept(connection).await {
                            Ok(connection) => http.serve_connection(TokioIo::new(connection), service).await,
                            Err(_) => return,
                        },
                    };
                });
            }
        });
        Ok(Self { port, calls, goes_on })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the calls about a pod so far, in order.
    pub(crate) fn calls_about(&self, pod: &str) -> Vec<Call> {
        self.lock().iter().filter(|call| call.pod() == pod).cloned().collect()
    }

    /// Sends the delayed replies, and delays no more.
    pub(crate) fn go_on(&self) {
        self.goes_on.send_replace(true);
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Full<Bytes>>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let call = Call { path, body: serde_json::from_slice(&body)? };
    shared.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
    let json = match (shared.conduct)(&call) {
        Reply::Json(value) => value,
        Reply::Code(code) => return Ok(Response::builder().status(code).body(Full::default())?),
        Reply::Held(value) => {
            shared.goes_on.clone().wait_for(|goes_on| *goes_on).await?;
            value
        }
        Reply::Binds => match bind(&shared.client, &call.body).await {
            Ok(()) => json!({"Error": ""}),
            Err(error) => json!({"Error": error.to_string()}),
        },
    };
    Ok(Response::new(Full::from(json.to_string())))
}

/// Posts the Binding that `ExtenderBindingArgs` requests.
async fn bind(client: &Client, args: &Value) -> Result<()> {
    let text = |name: &str| args[name].as_str().unwrap_or_default();
    let (namespace, name) = (text("PodNamespace"), text("PodName"));
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": text("PodUID")},
        "target": {"kind": "Node", "name": text("Node")},
    });
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"))
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())?;
    client.request::<Value>(request).await?;
    Ok(())
}
