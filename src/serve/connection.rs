//! One connection: TLS handshake, then HTTP/1.1 or HTTP/2 as the client chose by ALPN, each step with a deadline.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::{Limits, Routes};

/// Bytes of a request's head. Service account tokens are about one kilobyte; upstream's default is Go's 1 MiB.
const HEAD_BYTES: u32 = 64 * 1024;

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 32;

/// How often an HTTP/2 client is asked for a sign of life, and how long it may take to give one.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// What every connection is served with.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) acceptor: TlsAcceptor,
    pub(super) routes: Arc<Routes>,
    pub(super) limits: Limits,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

/// Serves until the client leaves, is too slow, the connection has aged or the server stops.
pub(super) async fn serve(settings: Settings, stream: TcpStream, peer: SocketAddr) {
    let Settings { acceptor, routes, limits, mut stopping } = settings;
    // Answers are small and each is waited for; failing to say so only costs a little time.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(limits.handshake, acceptor.accept(stream));
    let tls = tokio::select! {
        shaken = handshake => match shaken {
            Ok(Ok(tls)) => tls,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%peer, "TLS handshake took too long"),
        },
        _ = stopping.wait_for(|stop| *stop) => return,
    };

    let used = Arc::new(AtomicBool::new(false));
    let service = {
        let used = used.clone();
        service_fn(move |request: Request<Incoming>| {
            used.store(true, Ordering::Relaxed);
            let routes = routes.clone();
            async move { Ok::<_, Infallible>(routes.answer(request).await) }
        })
    };
    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(tls);
    let ended = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD_BYTES)
            .keep_alive_interval(HTTP2_PING)
            .keep_alive_timeout(HTTP2_PING);
        drive(builder.serve_connection(io, service), stopping, limits, &used).await
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_head)
            .max_buf_size(HEAD_BYTES as usize);
        drive(builder.serve_connection(io, service), stopping, limits, &used).await
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

/// Runs a connection to its end. `used` tells whether it ever carried a request.
async fn drive<C: GracefulConnection>(
    connection: C,
    mut stopping: watch::Receiver<bool>,
    limits: Limits,
    used: &AtomicBool,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = stopping.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(limits.age) => {}
    }
    // hyper would wait for the first request of a connection that has had none.
    if !used.load(Ordering::Relaxed) {
        return Ok(());
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(limits.drain, connection).await.unwrap_or(Ok(()))
}
