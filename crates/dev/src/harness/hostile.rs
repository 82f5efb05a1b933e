//! A hostile proxy to the API server. It terminates TLS and simulates faults of networks, load balancers and
//! captive portals. The fault of each request follows from a seed; see [`Fault`]. Initially, the proxy is
//! honest.
//!
//! It uses its own identity at the API server, with the permissions of its client. It records all requests in a
//! [`RequestRecord`].

mod body;
mod fault;
mod request_record;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body_util::{BodyDataStream, BodyExt};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{Access, ControlPlane};
use body::{Body, FROZEN, Watched};
pub use fault::{Draw, Fault, Verb};
pub use request_record::{RequestRecord, WINDOW, What, busiest};

/// The maximum delay of a late request, in milliseconds.
const LATE_MS: usize = 1_500;
/// The maximum delay of a request whose client may have given up, in milliseconds. The scheduler's timeout for
/// writes is ten seconds.
const BELATED_MS: usize = 12_000;
/// The timeout of a watch that is to end after a bookmark. The API server sends a bookmark two seconds before
/// the end (`apiserver/pkg/storage/cacher`).
const ONE_BOOKMARK: &str = "timeoutSeconds=3";
/// Lists that replace other lists.
const OTHERS: [&str; 4] = [
    "/api/v1/services",
    "/api/v1/nodes",
    "/api/v1/replicationcontrollers",
    "/apis/policy/v1/poddisruptionbudgets",
];

/// The proxy. It stops when dropped.
pub struct Hostile {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    far: Client,
    seed: u64,
    /// The time since which it is hostile; `None` while it is honest.
    weather: watch::Sender<Option<Instant>>,
    /// If true, all connections stay open and forward no bytes.
    freezes: watch::Sender<bool>,
    /// The minor version that it reports instead of the API server's.
    minor: watch::Sender<Option<u32>>,
    record: Mutex<RequestRecord>,
}

impl Hostile {
    /// Starts a proxy to a control plane, with the identity `access`.
    pub async fn to(plane: &ControlPlane, access: &Access, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let (certificate, key) = plane.serving_pair();
        let chain = CertificateDer::pem_file_iter(&certificate)?.collect::<Result<Vec<_>, _>>()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key)?)?;
        let tls = TlsAcceptor::from(Arc::new(tls));
        let shared = Arc::new(Shared {
            far: access.client().await?,
            seed,
            weather: watch::Sender::new(None),
            freezes: watch::Sender::new(false),
            minor: watch::Sender::new(None),
            record: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(serve(near, tls.clone(), Arc::clone(&serving)));
            }
        });
        Ok(Self { address, shared, accepting })
    }

    /// Returns its URL, to be used as that of an API server.
    pub fn server(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Makes the proxy hostile. Watches break, so that the next ones have faults.
    pub fn turn_hostile(&self) {
        self.shared.weather.send_replace(Some(Instant::now()));
    }

    /// Makes the proxy honest. Watches and frozen responses break.
    pub fn turn_honest(&self) {
        self.shared.weather.send_replace(None);
    }

    /// Reports a minor version of Kubernetes instead of the API server's.
    pub fn report_minor_version(&self, minor: u32) {
        self.shared.minor.send_replace(Some(minor));
    }

    /// Freezes all connections: they stay open but forward no bytes.
    pub fn freeze(&self) {
        self.shared.freezes.send_replace(true);
    }

    /// Returns the record of requests.
    pub fn record(&self) -> MutexGuard<'_, RequestRecord> {
        self.shared.record()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A request with its complete body.
struct ProxiedRequest {
    head: Parts,
    body: Bytes,
    what: What,
}

impl ProxiedRequest {
    fn uri(&self) -> String {
        self.head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned()
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, RequestRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn injected(&self, fault: Fault, what: &What) {
        self.record().injected(fault, &what.sort);
    }

    /// Draws the fault of a new request.
    fn draw(&self, what: &What) -> (Option<Fault>, Draw) {
        let now = Instant::now();
        let numbers = self.record().came(what, now);
        match *self.weather.borrow() {
            Some(began) => fault::fault_of(self.seed, (&what.sort, what.verb), now - began, numbers),
            None => (None, Draw::of(self.seed, &[])),
        }
    }

    /// Forwards the request with this `uri` to the API server.
    async fn pass_on(&self, asked: &ProxiedRequest, uri: &str) -> Result<Response<kube::client::Body>> {
        let mut passed = Request::builder().method(&asked.head.method).uri(uri);
        for name in [ACCEPT, CONTENT_TYPE, USER_AGENT] {
            if let Some(value) = asked.head.headers.get(&name) {
                passed = passed.header(name, value);
            }
        }
        let answer = self.far.send(passed.body(asked.body.to_vec().into())?).await?;
        if asked.what.sort == "POST pods/binding" && answer.status().is_success() {
            self.record().accepted(&asked.body);
        }
        Ok(answer)
    }

    /// Waits for the end of a freeze, at most until the proxy becomes honest. Returns the error with which the
    /// connection then breaks.
    fn thaw(&self) -> impl Future<Output = Error> + Send + 'static {
        let mut weather = self.weather.subscribe();
        async move {
            // Ends at the timeout or when the mode changes.
            let _ = tokio::time::timeout(FROZEN, weather.changed()).await;
            anyhow!("thawed")
        }
    }

    /// Makes the API server learn that a kind has no changes, because it sends bookmarks with newer versions
    /// only then. A consistent list does that (`apiserver/pkg/storage/cacher/progress`).
    fn bring_a_bookmark(self: &Arc<Self>, path: &str) {
        let (shared, uri) = (Arc::clone(self), format!("{path}?limit=1"));
        tokio::spawn(async move {
            let list = Request::get(uri).body(kube::client::Body::empty())?;
            shared.far.send(list).await?.into_body().collect().await?;
            anyhow::Ok(())
        });
    }

    /// Returns a foreign answer.
    fn foreign(&self, asked: &ProxiedRequest, draw: &mut Draw) -> Result<Response<Body>> {
        let foreign = fault::foreign(draw);
        let mut answer = Response::builder().status(foreign.status).header(CONTENT_TYPE, foreign.media);
        if let Some(seconds) = foreign.retry_after {
            answer = answer.header(RETRY_AFTER, seconds);
            self.record().postponed(&asked.what, Duration::from_secs(seconds));
        }
        Ok(answer.body(body::whole(Bytes::from_static(foreign.body.as_bytes())))?)
    }

    /// Returns the URI of another object or list to request instead.
    fn another(&self, asked: &ProxiedRequest, draw: &mut Draw) -> String {
        let (path, query) = (asked.head.uri.path(), asked.head.uri.query().unwrap_or_default());
        if asked.what.verb == Verb::Get {
            // Another object of the same type, if there is one.
            let sort = &asked.what.sort;
            let record = self.record();
            let of_sort = record.objects.keys().filter(|(of, object)| of == sort && !object.ends_with(path));
            let others: Vec<_> = of_sort.filter_map(|(_, object)| object.strip_prefix("GET ")).collect();
            return if others.is_empty() { path.to_owned() + "-2" } else { draw.pick(&others).to_owned() };
        }
        let others: Vec<_> = OTHERS.into_iter().filter(|other| *other != path).collect();
        // Field selectors of pods do not apply to other kinds.
        let kept: Vec<_> = query.split('&').filter(|part| !part.starts_with("fieldSelector=")).collect();
        format!("{}?{}", draw.pick(&others), kept.join("&"))
    }
}

async fn serve(near: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    let weather = *shared.weather.borrow();
    if let Some(began) = weather {
        let (number, _) = shared
            .record()
            .came(&What { verb: Verb::Get, sort: "connect".to_owned(), object: None }, Instant::now());
        let mut draw = Draw::of(shared.seed, &[b"connect", &number.to_le_bytes()]);
        if draw.percent(4) && began.elapsed() > Duration::ZERO {
            shared.record().injected(Fault::NoHandshake, "connect");
            shared.thaw().await;
            return;
        }
        if draw.percent(50) {
            // Closing it then sends a reset instead of a regular end.
            let _ = socket2::SockRef::from(&near).set_linger(Some(Duration::ZERO));
        }
    }
    let mut freezes = shared.freezes.subscribe();
    let frozen = async move {
        // If the sender is dropped, the proxy ends.
        let _ = freezes.wait_for(|freezes| *freezes).await;
    };
    let mut frozen = std::pin::pin!(frozen);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { answer(request, shared).await }
    });
    let connection = async {
        let near = tls.accept(near).await?;
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), service).await?;
        anyhow::Ok(())
    };
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        () = &mut frozen => {}
        // A broken connection is intended.
        _ = &mut connection => return,
    }
    // Keep the connection open and ignore it.
    std::future::pending::<()>().await;
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let reported = *shared.minor.borrow();
    if let Some(minor) = reported.filter(|_| head.uri.path() == "/version") {
        let version =
            json!({"major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0")});
        let answer = Response::builder().header(CONTENT_TYPE, "application/json");
        return Ok(answer.body(body::whole(Bytes::from(version.to_string())))?);
    }
    let what = What::of(&head.method, &head.uri, &body);
    let asked = ProxiedRequest { head, body, what };
    let (fault, mut draw) = shared.draw(&asked.what);
    if let Some(fault) = fault.filter(|fault| !matches!(fault, Fault::OneBookmark))
        && !(asked.what.verb == Verb::Watch && in_the_middle(fault))
    {
        shared.injected(fault, &asked.what);
    }
    match fault {
        Some(Fault::Late) => {
            tokio::time::sleep(Duration::from_millis(draw.below(LATE_MS) as u64)).await;
            honest(asked, None, draw, &shared).await
        }
        Some(Fault::Belated) => {
            let late = Duration::from_millis(draw.below(BELATED_MS) as u64);
            let passing = Arc::clone(&shared);
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                // The response is dropped.
                let _ = passing.pass_on(&asked, &asked.uri()).await;
            });
            Err(shared.thaw().await)
        }
        Some(Fault::Foreign) => shared.foreign(&asked, &mut draw),
        Some(Fault::Replaced) => {
            shared.pass_on(&asked, &asked.uri()).await?;
            shared.foreign(&asked, &mut draw)
        }
        Some(Fault::FrozenBefore) => {
            if draw.percent(50) {
                shared.pass_on(&asked, &asked.uri()).await?;
            }
            Err(shared.thaw().await)
        }
        Some(Fault::Reset) if asked.what.verb != Verb::Watch => {
            shared.pass_on(&asked, &asked.uri()).await?;
            Err(anyhow!("reset"))
        }
        Some(Fault::StaleBookmark) => stale_bookmark(&asked),
        Some(Fault::Expired) => one_event(&json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
            "message": "too old resource version",
        }})),
        fault => honest(asked, fault, draw, &shared).await,
    }
}

/// Whether a watch has this fault in its stream instead of at its beginning.
fn in_the_middle(fault: Fault) -> bool {
    matches!(fault, Fault::Truncated | Fault::Flipped | Fault::FrozenAfter | Fault::Reset)
}

/// Returns the API server's response, with a fault in its body if any.
async fn honest(
    asked: ProxiedRequest,
    fault: Option<Fault>,
    mut draw: Draw,
    shared: &Arc<Shared>,
) -> Result<Response<Body>> {
    let uri = match fault {
        Some(Fault::Swapped) => shared.another(&asked, &mut draw),
        Some(Fault::OneBookmark) => with_a_short_life(&asked.head.uri),
        _ => asked.uri(),
    };
    let (head, body) = shared.pass_on(&asked, &uri).await?.into_parts();
    if fault == Some(Fault::OneBookmark) {
        shared.bring_a_bookmark(asked.head.uri.path());
    }
    let mut answer = Response::builder().status(head.status);
    for name in [CONTENT_TYPE, RETRY_AFTER] {
        if let Some(value) = head.headers.get(&name) {
            answer = answer.header(name, value);
        }
    }
    let media = head.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let is_protobuf = media.starts_with("application/vnd.kubernetes.protobuf");
    let pieces = BodyDataStream::new(body).map_err(|error| anyhow!("{error}")).boxed();
    let is_stream = asked.head.uri.query().is_some_and(|query| query.contains("watch=true"));
    if is_stream && head.status.is_success() {
        let plan = Watched { fault, draw, is_protobuf, weather: shared.weather.subscribe() };
        let counts = fault.filter(|fault| {
            asked.what.verb == Verb::Watch && (in_the_middle(*fault) || *fault == Fault::OneBookmark)
        });
        let shared = Arc::clone(shared);
        let injected = move || {
            if let Some(fault) = counts {
                shared.injected(fault, &asked.what);
            }
        };
        return Ok(answer.body(body::watched(plan, pieces, injected))?);
    }
    let bytes: Bytes = pieces
        .try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        })
        .await?
        .into();
    if draw.percent(50) {
        // Half of the truncated responses announce their full length.
        answer = answer.header(CONTENT_LENGTH, bytes.len());
    }
    let body = match fault {
        Some(Fault::Truncated) => body::cut(&bytes, &mut draw),
        Some(Fault::FrozenAfter) => body::frozen(&bytes, &mut draw, shared.thaw()),
        Some(Fault::Flipped) => body::whole(body::flipped(&bytes, is_protobuf, &mut draw)),
        _ => body::whole(bytes),
    };
    Ok(answer.body(body)?)
}

/// Returns the URI of the same watch with a short timeout.
fn with_a_short_life(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let query: Vec<_> =
        query.map(|part| if part.starts_with("timeoutSeconds=") { ONE_BOOKMARK } else { part }).collect();
    format!("{}?{}", uri.path(), query.join("&"))
}

/// Returns a watch with one bookmark, which has the watch's initial version.
fn stale_bookmark(asked: &ProxiedRequest) -> Result<Response<Body>> {
    let query = asked.head.uri.query().unwrap_or_default();
    let version = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap_or("0");
    let resource = asked.what.sort.split(' ').nth(1).unwrap_or_default();
    let (api_version, kind) = kind_of(resource).with_context(|| format!("no kind of {resource} is known"))?;
    one_event(&json!({
        "type": "BOOKMARK",
        "object": {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": version}},
    }))
}

/// Returns a watch with one event.
fn one_event(event: &Value) -> Result<Response<Body>> {
    let answer = Response::builder().header(CONTENT_TYPE, "application/json");
    Ok(answer.body(body::whole(format!("{event}\n").into()))?)
}

/// Returns the version and kind of a resource that the scheduler watches.
fn kind_of(resource: &str) -> Option<(&'static str, &'static str)> {
    const KINDS: [(&str, &str, &str); 18] = [
        ("pods", "v1", "Pod"),
        ("nodes", "v1", "Node"),
        ("namespaces", "v1", "Namespace"),
        ("services", "v1", "Service"),
        ("replicationcontrollers", "v1", "ReplicationController"),
        ("persistentvolumes", "v1", "PersistentVolume"),
        ("persistentvolumeclaims", "v1", "PersistentVolumeClaim"),
        ("replicasets", "apps/v1", "ReplicaSet"),
        ("statefulsets", "apps/v1", "StatefulSet"),
        ("poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
        ("storageclasses", "storage.k8s.io/v1", "StorageClass"),
        ("csinodes", "storage.k8s.io/v1", "CSINode"),
        ("csidrivers", "storage.k8s.io/v1", "CSIDriver"),
        ("csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity"),
        ("volumeattachments", "storage.k8s.io/v1", "VolumeAttachment"),
        ("deviceclasses", "resource.k8s.io/v1", "DeviceClass"),
        ("resourceclaims", "resource.k8s.io/v1", "ResourceClaim"),
        ("resourceslices", "resource.k8s.io/v1", "ResourceSlice"),
    ];
    KINDS.into_iter().find(|(name, ..)| *name == resource).map(|(_, version, kind)| (version, kind))
}
