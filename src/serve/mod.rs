//! The HTTPS server: health for everybody, metrics and pages for those whom the API server lets read them.
//!
//! [`Server`] accepts and bounds connections, [`Routes`] answers requests, [`Gate`] asks who may
//! have an answer, [`Checks`] says how healthy we are. There is no plain HTTP port and no state of
//! the scheduler here: what is shown is asked for when it is shown.

mod answers;
mod certificate;
mod connection;
mod connections;
mod gate;
mod health;
mod listen;
mod negotiate;
mod pages;
mod pods;
mod review;
mod routes;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::{CertificateMetrics, Metrics, ServingMetrics};
use crate::telemetry::Throttle;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;

use certificate::Refresher;
use connections::Connections;

pub use certificate::Certificate;
pub use gate::{Access, Decision, Gate, HANDED_ON, PodAccess, Refusal, ReviewError, Reviewer, Token, User};
pub use health::{Check, Checks};
pub use pages::Pages;
pub use pods::PodSources;
pub use review::KubeReviewer;
pub use routes::Routes;

/// How long to wait after the system refused to accept a connection, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Connections that are accepted before those that were make progress: a burst must not close connections whose bytes nobody has read
/// yet. A small part of [`Limits::connections`].
const ACCEPT_BURST: u64 = 16;

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Address to listen on; port 0 takes a free one, see [`Server::local_addr`].
    pub address: SocketAddr,
    /// What to show to clients.
    pub certificate: Certificate,
    /// How often certificate files are read again. They rotate by renamed folders as often as by
    /// rewritten files, so the contents are compared and nothing is watched.
    pub certificate_poll: Duration,
    /// What clients may take from us.
    pub limits: Limits,
    /// Where changes of the certificate's files are counted.
    pub certificates: CertificateMetrics,
    /// Where connections are counted that are closed to make room.
    pub serving: ServingMetrics,
}

impl ServeOptions {
    /// The usual limits at this address.
    pub fn new(address: SocketAddr, certificate: Certificate, metrics: &Metrics) -> Self {
        let certificate_poll = Duration::from_secs(10);
        let (certificates, serving) = (metrics.certificates(), metrics.serving());
        Self { address, certificate, certificate_poll, limits: Limits::default(), certificates, serving }
    }
}

/// What clients may take from us.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections that have completed a request, and as many that have not. One more closes another of its kind, so that nobody can
    /// keep the kubelet's probes out. Two Prometheus, the probes and a few people need about ten; twice 256 take
    /// about 20 MiB when each has sent a ClientHello, and half of the 1024 descriptors that a process may have as a rule.
    pub connections: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time until a connection's next request has arrived in full, idle time included
    /// (upstream's `ReadHeaderTimeout`).
    pub request_head: Duration,
    /// Age at which a connection is ended, after the requests it has running.
    pub age: Duration,
    /// Time for running requests to end when the server stops or a connection has aged (upstream's
    /// `ShutdownTimeout`).
    pub drain: Duration,
    /// How often a log line is repeated that clients can cause.
    pub log_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(32),
            age: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            log_every: Duration::from_secs(60),
        }
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken or is not ours.
    #[error("cannot listen on {address}: {source}; choose another with --bind-address and --secure-port")]
    Listen {
        /// Address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or key file cannot be read or used.
    #[error("cannot use {} as --tls-cert-file and --tls-private-key-file: {reason}", path.display())]
    Certificate {
        /// The file at fault.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Making a self-signed certificate failed.
    #[error("cannot make a self-signed serving certificate: {0}")]
    SelfSigned(String),
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    refresher: Refresher,
    routes: Arc<Routes>,
    limits: Limits,
    metrics: ServingMetrics,
}

impl Server {
    /// Takes the address and reads the certificate, so that both fail at start and not later.
    pub async fn bind(options: ServeOptions, routes: Routes) -> Result<Self, ServeError> {
        let ServeOptions { address, certificate, certificate_poll, limits, certificates, serving } = options;
        let (tls, refresher) = certificate::load(certificate, certificate_poll, certificates).await?;
        let listener =
            listen::listen(address).await.map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, tls, refresher, routes: Arc::new(routes), limits, metrics: serving })
    }

    /// The address that clients connect to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown`, then closes the port at once, lets running requests end within
    /// [`Limits::drain`], and cuts off the rest.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, tls, refresher, routes, limits, metrics } = self;
        let (stop, stopping) = watch::channel(false);
        let connection = connection::Settings::new(tls, routes.clone(), limits, stopping);
        let mut open = Connections::new(limits.connections, limits.log_every, metrics);
        tokio::select! {
            () = accept(&listener, &connection, &mut open) => {}
            () = refresher.run() => {}
            () = shutdown => {}
        }
        drop(listener);
        routes.checks().drain();
        // Only fails when no connection is left to hear it.
        let _ = stop.send(true);
        drop(connection);
        if tokio::time::timeout(limits.drain, open.ended()).await.is_err() {
            tracing::warn!(connections = open.len(), "cutting off requests that did not end in time");
            open.shutdown().await;
        }
    }
}

async fn accept(listener: &TcpListener, settings: &connection::Settings, open: &mut Connections) {
    let failures = Throttle::new(settings.limits.log_every);
    for count in 1_u64.. {
        if count.is_multiple_of(ACCEPT_BURST) {
            tokio::task::yield_now().await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                open.add(peer, |progress| connection::serve(settings.clone(), stream, peer, progress));
            }
            Err(error) => {
                if let Some(withheld) = failures.admit() {
                    tracing::warn!(%error, withheld, "cannot accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
