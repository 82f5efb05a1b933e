//! kube-scheduler's flags of TLS and client certificates, over real connections.

use super::server::{Answer, Running, Setup, connect, soon, trusting, trusting_with};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns a client with a certificate of this name.
    fn client(&self, name: &str) -> Arc<ClientConfig> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let pair = CertifiedKey::from_der(vec![certificate.der().clone()], key, &ring::default_provider());
        let resolver: Arc<dyn ResolvesClientCert> = Arc::new(SingleCertAndKey::from(pair.unwrap()));
        trusting_with(&[b"http/1.1"], resolver)
    }
}

async fn server(flags: &[String]) -> Running {
    Running::start(Setup { flags: flags.to_vec(), ..Setup::default() }).await
}

/// Requests /metrics with further headers. Returns the status and the body.
async fn metrics(server: &Running, client: Arc<ClientConfig>, headers: &str) -> (u16, String) {
    let mut stream = soon("the handshake", connect(server.address, client)).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = Answer::read(&mut stream).await;
    (answer.code, answer.body)
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn client_certificate_authenticates_and_a_foreign_one_does_not() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let server = server(&[format!("--client-ca-file={}", write(folder.path(), "ca", &authority.pem))]).await;
    assert_eq!(metrics(&server, authority.client("prometheus"), "").await.0, 200);
    let (code, body) = metrics(&server, authority.client("other"), "").await;
    assert!(code == 403 && body.contains("User \\\"other\\\" cannot get path"), "{code}: {body}");
    assert_eq!(metrics(&server, Authority::new().client("prometheus"), "").await.0, 401);
    assert_eq!(metrics(&server, trusting(&[b"http/1.1"]), "").await.0, 403);
    // A token authenticates beside a foreign certificate, as upstream.
    let token = "Authorization: Bearer good\r\n";
    assert_eq!(metrics(&server, Authority::new().client("prometheus"), token).await.0, 200);
    assert_eq!(server.fake.asked.lock().unwrap().iter().filter(|asked| asked.starts_with("who")).count(), 1);
}

#[tokio::test]
async fn front_proxy_names_the_user_in_headers() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let ca = write(folder.path(), "ca", &authority.pem);
    let flags =
        [format!("--requestheader-client-ca-file={ca}"), "--requestheader-allowed-names=front".to_owned()];
    let server = server(&flags).await;
    let header = "X-Remote-User: prometheus\r\n";
    assert_eq!(metrics(&server, authority.client("front"), header).await.0, 200);
    assert_eq!(metrics(&server, authority.client("back"), header).await.0, 401);
    assert_eq!(metrics(&server, trusting(&[b"http/1.1"]), header).await.0, 403);
}

#[tokio::test]
async fn minimum_version_and_suites_restrict_the_handshake() {
    let tls12 = |suite: rustls::SupportedCipherSuite| {
        let provider =
            rustls::crypto::CryptoProvider { cipher_suites: vec![suite], ..ring::default_provider() };
        let mut config = (*trusting(&[b"http/1.1"])).clone();
        let verifier = Arc::new(super::server::AnyCertificate::new(Arc::new(ring::default_provider())));
        config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(config.client_auth_cert_resolver.clone());
        Arc::new(config)
    };
    let aes128 = ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    let aes256 = ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
    let shakes = async |flag: &str, suite| {
        let server = server(&[flag.to_owned()]).await;
        soon("the handshake", connect(server.address, tls12(suite))).await.is_ok()
    };
    assert!(shakes("--tls-min-version=VersionTLS12", aes256).await);
    assert!(!shakes("--tls-min-version=VersionTLS13", aes256).await);
    let only = "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    assert!(shakes(only, aes128).await);
    assert!(!shakes(only, aes256).await);
}

#[tokio::test]
async fn http2_is_not_offered_if_disabled() {
    for (flag, expected) in
        [("--disable-http2-serving", &b"http/1.1"[..]), ("--disable-http2-serving=false", b"h2")]
    {
        let server = server(&[flag.to_owned()]).await;
        let stream = server.connect_as(&[b"h2", b"http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(expected), "{flag}");
    }
}

#[tokio::test]
async fn client_gets_the_certificate_of_the_name_it_requests() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    let certificate = write(folder.path(), "tls.crt", &pair.cert.pem());
    let key = write(folder.path(), "tls.key", &pair.signing_key.serialize_pem());
    for (names, is_named) in [(":localhost", true), ("", false)] {
        let server = server(&[format!("--tls-sni-cert-key={certificate},{key}{names}")]).await;
        let stream = server.connect().await;
        let presented = &stream.get_ref().1.peer_certificates().unwrap()[0];
        assert_eq!(presented == pair.cert.der(), is_named, "{names}");
    }
}
