//! A server under test and its client.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use supercargo::serve::{
    Access, Certificate, Check, Checks, Decision, Gate, Limits, ResourceAccess, ReviewError, Reviewer,
    Routes, ServeOptions, Server, Token, User,
};
use supercargo::telemetry::metrics::{Exposition, Metrics};
use supercargo_config::flags::CommandLine;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::identity::CertificateRequested;

/// Fails a test that hangs; not a measured limit.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// A limit short enough to expire during a test.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

/// Reviewer that knows the tokens `good` (prometheus, allowed everything) and `plain` (a user without
/// permissions).
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Reviewer for Fake {
    fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>> {
        self.asked.lock().unwrap().push(format!("who {}", token.secret()));
        let user = |name: &str| Ok(Some(User { name: name.to_owned(), ..User::default() }));
        std::future::ready(match token.secret() {
            "good" => user("prometheus"),
            "plain" => user("<plain>"),
            "broken" => {
                Err(ReviewError::Failed { review: "TokenReview", reason: "10.0.0.1: refused".into() })
            }
            _ => Ok(None),
        })
        .boxed()
    }

    fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>> {
        let Access { user, verb, path } = access;
        self.asked.lock().unwrap().push(format!("may {} {verb} {path}", user.name));
        let decision = if user.name == "prometheus" {
            Decision::Allowed
        } else {
            Decision::Denied { reason: String::new() }
        };
        std::future::ready(Ok(decision)).boxed()
    }

    fn authorize_resource(
        &self,
        access: ResourceAccess,
    ) -> BoxFuture<'static, Result<Decision, ReviewError>> {
        self.asked.lock().unwrap().push(format!("may {} get pods of {}", access.user.name, access.namespace));
        std::future::ready(Ok(Decision::Denied { reason: String::new() })).boxed()
    }
}

/// Options of a server under test.
pub(crate) struct Setup {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Certificate,
    pub(crate) certificate_poll: Duration,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) exposition: Exposition,
    pub(crate) ready: Result<(), String>,
    /// Flags of kube-scheduler.
    pub(crate) flags: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        let metrics = Arc::new(Metrics::new());
        Self {
            address: "127.0.0.1:0".parse().unwrap(),
            certificate: Certificate::self_signed(None),
            certificate_poll: Duration::from_millis(5),
            limits: Limits::default(),
            exposition: Exposition::new(Arc::clone(&metrics)),
            metrics,
            ready: Ok(()),
            flags: Vec::new(),
        }
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Fake,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) server: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(setup: Setup) -> Self {
        let Setup { address, certificate, certificate_poll, limits, metrics, exposition, ready, flags } =
            setup;
        let flags: Vec<_> = flags.into_iter().map(std::ffi::OsString::from).collect();
        let line = CommandLine::read(&flags, &[]);
        assert_eq!(line.problems, [""; 0]);
        let fake = Fake::default();
        let checks = Checks::new().with_ready(Check::new("sched-handler-sync", move || ready.clone()));
        let usual = ServeOptions::new(address, certificate, &metrics);
        let options = ServeOptions { certificate_poll, limits, ..usual };
        let options = options.with_flags(&line.values).unwrap();
        let gate = Gate::new(fake.clone()).with_clients(Arc::clone(&options.clients));
        let routes = Routes::new(Arc::new(checks), exposition, gate);
        let server = Server::bind(options, routes).await.unwrap();
        // For an unspecified address, tests connect by IPv4.
        let port = server.local_addr().unwrap().port();
        let address = if address.ip().is_unspecified() {
            ([127, 0, 0, 1], port).into()
        } else {
            (address.ip(), port).into()
        };
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(server.run(stopped.map(|_| ())));
        Self { address, fake, stop: Some(stop), server }
    }

    pub(crate) async fn usual() -> Self {
        Self::start(Setup::default()).await
    }

    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_as(&[b"http/1.1"]).await
    }

    pub(crate) async fn connect_as(&self, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
        self.connect_showing(alpn, Arc::new(CertificateRequested::default())).await
    }

    pub(crate) async fn connect_showing(
        &self,
        alpn: &[&[u8]],
        certificates: Arc<CertificateRequested>,
    ) -> TlsStream<TcpStream> {
        soon("the handshake", connect(self.address, trusting_with(alpn, certificates))).await.unwrap()
    }

    /// Returns the response to one request on a connection of its own.
    pub(crate) async fn ask(&self, method: &str, path: &str, token: &str) -> Answer {
        let authorization =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Connection: close\r\n\r\n"
        ))
        .await
    }

    /// Returns the response to a raw request on a connection of its own.
    pub(crate) async fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        Answer::read(&mut stream).await
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> (u16, String) {
        let answer = self.ask("GET", path, token).await;
        (answer.code, answer.body)
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub(crate) async fn ended(self) {
        soon("the end of the server", self.server).await.unwrap();
    }
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read(stream: &mut TlsStream<TcpStream>) -> Self {
        let mut text = String::new();
        soon("an answer", stream.read_to_string(&mut text)).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { code, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

/// Returns a client configuration that trusts any server and offers these protocols.
pub(crate) fn trusting(alpn: &[&[u8]]) -> Arc<ClientConfig> {
    trusting_with(alpn, Arc::new(CertificateRequested::default()))
}

/// Like [`trusting`], with client certificates.
pub(crate) fn trusting_with(alpn: &[&[u8]], certificates: Arc<dyn ResolvesClientCert>) -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_client_cert_resolver(certificates);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Connects and completes the TLS handshake.
pub(crate) async fn connect(
    address: SocketAddr,
    config: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(config).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Encodes an HTTP/2 frame: length, type, flags, stream, payload.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Accepts every certificate; the tests check which one is presented.
#[derive(Debug)]
pub(crate) struct AnyCertificate(Arc<CryptoProvider>);

impl AnyCertificate {
    pub(crate) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
