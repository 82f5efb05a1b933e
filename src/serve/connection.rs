//! Serves one connection: TLS handshake, then HTTP/1.1 or HTTP/2 by ALPN, each step with a time limit.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::clients::PeerCertificates;
use super::connections::{Progress, Stage};
use super::{Limits, Routes};
use supercargo_apiserver::Throttle;

/// Maximum size of a request head, in bytes. Service account tokens take about 1 KiB; upstream's default is
/// Go's 1 MiB.
const HEAD_BYTES: u32 = 64 * 1024;

/// Interval of HTTP/2 keep-alive pings, and the time limit of their response.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// Settings shared by all connections.
#[derive(Clone)]
pub(super) struct Settings {
    tls: Arc<ServerConfig>,
    routes: Arc<Routes>,
    pub(super) limits: Limits,
    /// Becomes `true` when the server stops.
    stopping: watch::Receiver<bool>,
    /// Limits the log lines about ended connections.
    ends: Arc<Throttle>,
}

impl Settings {
    pub(super) fn new(
        tls: Arc<ServerConfig>,
        routes: Arc<Routes>,
        limits: Limits,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self { tls, routes, limits, stopping, ends: Arc::new(Throttle::new(limits.log_every)) }
    }
}

/// Serves until the client disconnects or is too slow, the connection reaches its age limit, or the server
/// stops.
pub(super) async fn serve(settings: Settings, stream: TcpStream, peer: SocketAddr, progress: Arc<Progress>) {
    let Settings { tls, routes, limits, mut stopping, ends } = settings;
    let ended = |error: &dyn std::error::Error, what: &str| {
        if let Some(withheld) = ends.admit() {
            tracing::debug!(%peer, %error, withheld, "{what}");
        }
    };
    // Responses are small and the client waits for each. A failure here only costs latency.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(limits.handshake, shake_hands(stream, tls, &progress));
    let tls = tokio::select! {
        shaken = handshake => match shaken {
            Ok(Ok(tls)) => tls,
            Ok(Err(error)) => return ended(&error, "TLS handshake failed"),
            Err(error) => return ended(&error, "TLS handshake took too long"),
        },
        _ = stopping.wait_for(|stop| *stop) => return,
    };
    progress.reached(Stage::Silent);

    let certificates =
        tls.get_ref().1.peer_certificates().map(|chain| PeerCertificates(chain.to_vec().into()));
    let service = {
        let progress = progress.clone();
        service_fn(move |mut request: Request<Incoming>| {
            let (routes, progress) = (routes.clone(), progress.clone());
            if let Some(certificates) = certificates.clone() {
                request.extensions_mut().insert(certificates);
            }
            async move {
                let running = progress.asked();
                let response = routes.answer(request).await;
                running.answered();
                Ok::<_, Infallible>(response)
            }
        })
    };
    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(tls);
    let outcome = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(HEAD_BYTES)
            .keep_alive_interval(HTTP2_PING)
            .keep_alive_timeout(HTTP2_PING);
        drive(builder.serve_connection(io, service), stopping, limits, &progress).await
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_head)
            .max_header_size(HEAD_BYTES as usize)
            .max_buf_size(HEAD_BYTES as usize);
        drive(builder.serve_connection(io, service), stopping, limits, &progress).await
    };
    if let Err(error) = outcome {
        ended(&error, "connection ended");
    }
}

/// Runs the TLS handshake. Cryptographic work starts only after the complete ClientHello has arrived.
async fn shake_hands(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    progress: &Progress,
) -> io::Result<TlsStream<TcpStream>> {
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    progress.reached(Stage::Handshake);
    hello.into_stream(tls).await
}

/// Runs a connection to its end.
async fn drive<C: GracefulConnection>(
    connection: C,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
    progress: &Progress,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = stopping.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(limits.age) => {}
    }
    // hyper would wait for the first request of an unused connection.
    if !progress.was_used() {
        return Ok(());
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(limits.drain, connection).await.unwrap_or(Ok(()))
}
