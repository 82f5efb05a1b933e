//! Rotation of client credentials and certificate authorities: files that are replaced, and credential
//! plugins.
//!
//! Upstream: `client-go/transport/cert_rotation.go` and `ca_rotation.go`, `plugin/pkg/client/auth/exec`. As
//! there, a kubeconfig's own text is read once. Upstream closes all connections on a change. Here, requests
//! in flight finish (a watch ends within a minute), and the next request uses the new credentials.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::Notify;
use tower::{BoxError, Service, ServiceExt as _};

use super::{CONNECT_TIMEOUT, Carrier, Limited, carrier, inferred, of_kubeconfig, user_agent};
use crate::Throttle;

/// Interval at which files are checked. Upstream reads them at each handshake, and otherwise every five
/// minutes.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Minimum interval between two loads of credentials, whatever the server responds, since a plugin starts a
/// process.
const LOAD_EVERY: Duration = Duration::from_secs(10);
/// Log interval of a repeated failure.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Source of the connection settings.
#[derive(Clone)]
pub struct Source {
    /// The kubeconfig; `None` to use the default kubeconfig or the pod's service account.
    file: Option<Kubeconfig>,
    path: Option<PathBuf>,
    master: Option<Uri>,
}

impl Source {
    /// Returns the source: this kubeconfig, read from `path` if it came from a file, and this URL of the API server.
    pub fn new(file: Option<Kubeconfig>, path: Option<PathBuf>, master: Option<Uri>) -> Self {
        Self { file, path, master }
    }

    /// Returns the current settings; reads files.
    ///
    /// # Errors
    /// Returns an error when the settings are invalid.
    pub async fn settings(&self) -> Result<kube::Config> {
        let mut config = match (&self.file, &self.path) {
            (Some(file), path) => {
                let path = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
                let settings = of_kubeconfig(file.clone(), &KubeConfigOptions::default()).await;
                settings.with_context(|| format!("cannot use the kubeconfig {path}"))?
            }
            (None, _) => match (inferred().await, &self.master) {
                (Ok(config), _) => config,
                // As in kube-scheduler, the URL alone is enough for a server without authentication.
                (Err(_), Some(master)) => kube::Config::new(master.clone()),
                (Err(error), None) => {
                    let found =
                        "found no --kubeconfig, no default kubeconfig, and no service account of a pod";
                    return Err(error).context(found);
                }
            },
        };
        if let Some(master) = &self.master {
            config.cluster_url = master.clone();
        }
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The caller decides about retries; a binding must not be repeated.
        config.default_retry = false;
        Ok(config)
    }

    /// Returns a client that follows changes of the credentials. `config` holds the current settings.
    ///
    /// # Errors
    /// As [`super::builder`].
    pub fn client(self, config: &kube::Config) -> Result<ClientBuilder<Rotating>> {
        let rotating = Rotating::new(carrier(config, false)?);
        let (current, rejected) = (Arc::downgrade(&rotating.current), Arc::clone(&rotating.rejected));
        let known = Known::of(self.files(config), config);
        tokio::spawn(self.follow(known, current, rejected));
        Ok(ClientBuilder::new(rotating, config.default_namespace.clone()))
    }

    /// Returns the files the settings were read from.
    pub(super) fn files(&self, config: &kube::Config) -> Vec<PathBuf> {
        let auth = &config.auth_info;
        let mut files: Vec<PathBuf> = [&auth.client_certificate, &auth.client_key, &auth.token_file]
            .into_iter()
            .flatten()
            .map(PathBuf::from)
            .collect();
        files.extend(config.root_cert_file.clone());
        let clusters =
            self.file.iter().flat_map(|file| &file.clusters).filter_map(|named| named.cluster.as_ref());
        files
            .extend(clusters.filter_map(|cluster| cluster.certificate_authority.as_ref()).map(PathBuf::from));
        files
    }

    async fn follow(self, mut known: Known, current: Weak<Mutex<Carrier>>, rejected: Arc<Notify>) {
        let failures = Throttle::new(LOG_INTERVAL);
        loop {
            let was_rejected = tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => false,
                () = rejected.notified() => true,
            };
            let Some(current) = current.upgrade() else { return };
            if self.reload(&mut known, &current, was_rejected, &failures).await {
                tokio::time::sleep(LOAD_EVERY).await;
            }
        }
    }

    /// Reloads the credentials if they may have changed; returns whether it tried. Keeps the previous ones if
    /// the new ones are unusable, such as a certificate without its key.
    pub(super) async fn reload(
        &self,
        known: &mut Known,
        current: &Mutex<Carrier>,
        was_rejected: bool,
        failures: &Throttle,
    ) -> bool {
        let seen = known.stamp_now().await;
        if seen == known.stamp && !(was_rejected && known.has_plugin) {
            return false;
        }
        match self.load(&known.server).await {
            Ok(carrier) => {
                *current.lock().unwrap_or_else(PoisonError::into_inner) = carrier;
                known.stamp = seen;
                failures.reset();
                tracing::info!(was_rejected, "reloaded client credentials and certificate authorities");
            }
            Err(error) => {
                if let Some(withheld) = failures.admit() {
                    let error = format!("{error:#}");
                    tracing::warn!(
                        error,
                        withheld,
                        "failed to reload client credentials; keeping the previous ones"
                    );
                }
            }
        }
        true
    }

    async fn load(&self, server: &Uri) -> Result<Carrier> {
        let config = self.settings().await?;
        // A default kubeconfig may have switched clusters; this process stays with its own.
        if config.cluster_url != *server {
            bail!("the new settings name another API server, {}", config.cluster_url);
        }
        let has_authorities = config.root_cert.as_ref().is_none_or(|authorities| !authorities.is_empty());
        ensure!(has_authorities, "the certificate authority file contains no certificate");
        // A credential plugin blocks until its process ends.
        tokio::task::spawn_blocking(move || carrier(&config, false)).await?
    }
}

/// Origin of the current credentials.
pub(super) struct Known {
    server: Uri,
    files: Vec<PathBuf>,
    stamp: u64,
    /// Whether a plugin supplies the credentials.
    has_plugin: bool,
}

impl Known {
    pub(super) fn of(files: Vec<PathBuf>, config: &kube::Config) -> Self {
        let stamp = stamp(&files);
        let has_plugin = config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some();
        Self { server: config.cluster_url.clone(), files, stamp, has_plugin }
    }

    async fn stamp_now(&self) -> u64 {
        let files = self.files.clone();
        tokio::task::spawn_blocking(move || stamp(&files)).await.unwrap_or(self.stamp)
    }
}

/// Returns a hash of the files' contents. Modification times do not help: a Secret volume swaps symbolic
/// links.
fn stamp(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

/// Sends the scheduler's requests with the current credentials, and signals when the server rejects them.
#[derive(Clone)]
pub struct Rotating {
    pub(super) current: Arc<Mutex<Carrier>>,
    pub(super) rejected: Arc<Notify>,
    agent: HeaderValue,
}

impl Rotating {
    pub(super) fn new(carrier: Carrier) -> Self {
        Self {
            current: Arc::new(Mutex::new(carrier)),
            rejected: Arc::default(),
            agent: user_agent("scheduler"),
        }
    }
}

impl Service<Request<Body>> for Rotating {
    type Response = Response<Limited>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Limited>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let carrier = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.agent.clone());
        let rejected = Arc::clone(&self.rejected);
        Box::pin(async move {
            let answer = carrier.oneshot(request).await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                rejected.notify_one();
            }
            Ok(answer)
        })
    }
}
