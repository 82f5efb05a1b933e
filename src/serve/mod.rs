//! The HTTPS server: health for everyone, metrics and debug pages for clients that the API server authorizes.
//!
//! [`Server`] accepts and bounds connections, [`Routes`] answers requests, [`Gate`] authenticates and
//! authorizes clients, [`Checks`] reports health. There is no plain HTTP port. The server holds no scheduler
//! state: each page asks for its content when it is requested.

mod access;
mod certificate;
mod clients;
mod connection;
mod connections;
mod extension;
mod gate;
mod health;
mod listen;
mod lookup;
mod negotiate;
mod pages;
mod pods;
mod review;
mod review_cache;
mod routes;
mod sni;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::telemetry::metrics::{CertificateMetrics, Metrics, ServingMetrics};
use rustls::ServerConfig;
use supercargo_apiserver::Throttle;
use supercargo_config::flags::Values;
use tokio::net::TcpListener;
use tokio::sync::watch;

use certificate::Refresher;
use connections::Connections;

pub use certificate::{Certificate, NamedCertificate, pod_ip};
pub use clients::Clients;
pub use extension::{Asked, Extension, ExtensionAnswer, Reserved};
pub use gate::{
    Access, Decision, Gate, Lifetimes, Refusal, Resource, ResourceAccess, ReviewError, Reviewer, Token, User,
};
pub use health::{Check, Checks};
pub use lookup::Lookup;
pub use pages::Pages;
pub use pods::PodSources;
pub use review::KubeReviewer;
pub use routes::Routes;
pub use tls::TlsOptions;

/// Pause after a failed `accept`, which usually means that the process has no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Connections accepted before already accepted ones get to run. Without it, a burst could evict connections
/// whose bytes are still unread. A small part of [`Limits::connections`].
const ACCEPT_BURST: u64 = 16;

/// Configuration of the server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Address to listen on; port 0 picks a free one, see [`Server::local_addr`].
    pub address: SocketAddr,
    /// The serving certificate.
    pub certificate: Certificate,
    /// Certificates for clients that request certain names.
    pub named: Vec<NamedCertificate>,
    /// Authorities of client certificates.
    pub clients: Arc<Clients>,
    /// TLS settings.
    pub tls: TlsOptions,
    /// Whether other processes may listen on the same address and port (SO_REUSEPORT).
    pub share_port: bool,
    /// Interval at which certificate files are reread. Rotation often renames folders, so contents are
    /// compared instead of watching files.
    pub certificate_poll: Duration,
    /// Resource limits for clients.
    pub limits: Limits,
    /// Metrics of certificate reloads.
    pub certificates: CertificateMetrics,
    /// Metrics of connections closed to make room.
    pub serving: ServingMetrics,
}

impl ServeOptions {
    /// Returns options with default limits.
    pub fn new(address: SocketAddr, certificate: Certificate, metrics: &Metrics) -> Self {
        let certificate_poll = Duration::from_secs(10);
        let (certificates, serving) = (metrics.certificates(), metrics.serving());
        Self {
            address,
            certificate,
            named: Vec::new(),
            clients: Arc::default(),
            tls: TlsOptions::default(),
            share_port: false,
            certificate_poll,
            limits: Limits::default(),
            certificates,
            serving,
        }
    }
}

impl ServeOptions {
    /// Applies the flags of TLS, client certificates, port sharing and HTTP/2.
    ///
    /// # Errors
    /// If a file cannot be used, or the TLS library has none of a flag's values.
    pub fn with_flags(self, values: &Values) -> Result<Self, ServeError> {
        let named = values.sni_certificates().into_iter().map(|pair| NamedCertificate {
            certificate: pair.certificate.into(),
            key: pair.key.into(),
            names: pair.names,
        });
        let streams = match values.int("http2-max-streams-per-connection") {
            // As upstream, zero and less mean the default.
            ..=0 => self.limits.streams,
            streams => u32::try_from(streams).unwrap_or(u32::MAX),
        };
        Ok(Self {
            named: named.collect(),
            clients: Arc::new(Clients::of(values)?),
            tls: TlsOptions::of(values)?,
            share_port: values.is_true("permit-port-sharing"),
            limits: Limits { streams, ..self.limits },
            ..self
        })
    }
}

/// Resource limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open connections that have completed a request, and of those that have not. One more
    /// evicts another of its group, so no client can lock out the kubelet's probes. Two Prometheus servers,
    /// the probes and a few people need about ten. Twice 256 connections take about 20 MiB once each has sent
    /// a ClientHello, and half of the usual 1024 file descriptors.
    pub connections: usize,
    /// Time limit of the TLS handshake.
    pub handshake: Duration,
    /// Time limit for the next complete request head on a connection, idle time included (upstream's
    /// `ReadHeaderTimeout`).
    pub request_head: Duration,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Age at which a connection is closed, after its running requests.
    pub age: Duration,
    /// Time limit for running requests when the server stops or a connection reaches its age limit
    /// (upstream's `ShutdownTimeout`).
    pub drain: Duration,
    /// Minimum interval between equal log lines that clients can cause.
    pub log_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(32),
            streams: 32,
            age: Duration::from_secs(600),
            drain: Duration::from_secs(5),
            log_every: Duration::from_secs(60),
        }
    }
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {source}; choose another with --bind-address and --secure-port")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A certificate or key file cannot be read or parsed.
    #[error("cannot use {} as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): {reason}", path.display())]
    Certificate {
        /// The file in question.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A file with authorities of clients cannot be read or parsed.
    #[error("cannot use {} as --{flag}: {reason}", path.display())]
    Authorities {
        /// The flag without hyphens.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The TLS library has none of a flag's values.
    #[error("the TLS library has none of the values of {flag}: {values}")]
    Lacking {
        /// The flag.
        flag: &'static str,
        /// Its values.
        values: String,
    },
    /// Generating a self-signed certificate failed.
    #[error("cannot generate a self-signed serving certificate: {0}")]
    SelfSigned(String),
}

/// A bound server that does not accept connections yet.
pub struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    refresher: Refresher,
    routes: Arc<Routes>,
    limits: Limits,
    metrics: ServingMetrics,
}

/// A bound port with its certificates, to which [`Server`] adds the routes.
pub struct Port {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    refresher: Refresher,
    limits: Limits,
    metrics: ServingMetrics,
}

impl Port {
    /// Binds the address and loads the certificates, so that both fail at startup.
    ///
    /// # Errors
    /// Returns a [`ServeError`] when the address or a certificate is unusable.
    pub async fn bind(options: ServeOptions) -> Result<Self, ServeError> {
        let ServeOptions { address, certificate, named, clients, tls, share_port, .. } = options;
        let ServeOptions { certificate_poll: poll, limits, certificates: metrics, serving, .. } = options;
        let sources = certificate::Sources { default: certificate, named, clients, tls, poll, metrics };
        let (tls, refresher) = certificate::load(sources).await?;
        let listener = listen::listen(address, share_port).await;
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, tls, refresher, limits, metrics: serving })
    }
}

impl Server {
    /// Binds the address and loads the certificates.
    ///
    /// # Errors
    /// Returns a [`ServeError`] when the address or a certificate is unusable.
    pub async fn bind(options: ServeOptions, routes: Routes) -> Result<Self, ServeError> {
        Ok(Self::new(Port::bind(options).await?, routes))
    }

    /// Returns a server of this port.
    pub fn new(port: Port, routes: Routes) -> Self {
        let Port { listener, tls, refresher, limits, metrics } = port;
        Self { listener, tls, refresher, routes: Arc::new(routes), limits, metrics }
    }

    /// Returns the bound address.
    ///
    /// # Errors
    /// Returns the system's error when the socket has no address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` completes. Then closes the port at once, waits up to [`Limits::drain`] for
    /// running requests, and aborts the rest.
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
        // Fails only if no connection is open.
        let _ = stop.send(true);
        drop(connection);
        if tokio::time::timeout(limits.drain, open.ended()).await.is_err() {
            tracing::warn!(
                connections = open.len(),
                "aborting requests that did not end within the drain time"
            );
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
                    tracing::warn!(%error, withheld, "failed to accept a connection");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
