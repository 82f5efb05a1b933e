//! Validity of the certificates between a kubeconfig and its API server: serving certificate, trusted
//! authorities, client certificate. Reports dates and checks nothing.
//!
//! Opens a separate TLS connection without sending a request. Normal certificate verification would fail on
//! an expired certificate without reporting its dates.

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::config::AuthInfo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use supercargo_apiserver::names::Resolver;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::Service as _;

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`.
    pub from: Timestamp,
    /// `notAfter`.
    pub until: Timestamp,
}

/// Validity of a certificate, or why it is unknown; `None` if there is no certificate.
pub type ValidityResult = Result<Option<Validity>, String>;

/// Certificates between a kubeconfig and its API server.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Serving certificate of the API server.
    pub serving: ValidityResult,
    /// Client certificate of the kubeconfig's user.
    pub client: ValidityResult,
    /// Certificate authority of the kubeconfig; of several, the one that expires last.
    pub authority: ValidityResult,
}

/// Reads all certificates. The connection may take `within`.
pub async fn found(config: &kube::Config, within: Duration) -> Certificates {
    let late = || Err(format!("no connection within {within:?}"));
    let authority = config.root_cert.as_deref().unwrap_or_default();
    Certificates {
        serving: timeout(within, serving(config)).await.unwrap_or_else(|_| late()),
        client: client(&config.auth_info),
        authority: longest(authority.iter().map(|der| validity(der))),
    }
}

/// Returns the validity of the authority that expires last: any of them is sufficient.
fn longest(each: impl Iterator<Item = Result<Validity, String>>) -> ValidityResult {
    let each = each.collect::<Result<Vec<_>, _>>()?;
    Ok(each.into_iter().max_by_key(|it| it.until))
}

fn client(of: &AuthInfo) -> ValidityResult {
    let pem = match (&of.client_certificate_data, &of.client_certificate) {
        (Some(data), _) => {
            let data: Result<ByteString, _> = serde_json::from_value(data.as_str().into());
            data.map_err(|error| format!("client-certificate-data is not valid base64: {error}"))?.0
        }
        (None, Some(file)) => {
            std::fs::read(file).map_err(|error| format!("cannot read the certificate {file}: {error}"))?
        }
        (None, None) => return Ok(None),
    };
    // The first certificate is the user's; the others are intermediates.
    match CertificateDer::pem_slice_iter(&pem).next() {
        Some(Ok(der)) => validity(&der).map(Some),
        Some(Err(error)) => Err(format!("the client certificate is not valid PEM: {error}")),
        None => Err("the client certificate data holds no certificate".to_owned()),
    }
}

async fn serving(config: &kube::Config) -> ValidityResult {
    let server = &config.cluster_url;
    if server.scheme_str() != Some("https") {
        return Ok(None);
    }
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let name = config.tls_server_name.clone().unwrap_or_else(|| host.to_owned());
    let name =
        ServerName::try_from(name).map_err(|error| format!("{server} has no valid host name: {error}"))?;
    let mut connector = HttpConnector::new_with_resolver(Resolver::default());
    connector.enforce_http(false);
    let silent = |error: &dyn std::error::Error| format!("{server}: {}", crate::live::with_causes(error));
    let stream: TokioIo<TcpStream> = connector.call(server.clone()).await.map_err(|error| silent(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let looks = Arc::new(RecordingVerifier { shown: Mutex::new(None), provider: Arc::clone(&provider) });
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.map_err(|error| silent(&error))?.dangerous();
    let tls = tls.with_custom_certificate_verifier(Arc::clone(&looks) as Arc<_>).with_no_client_auth();
    let shaken = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, stream.into_inner()).await;
    let shown = looks.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
    // A server that requires a client certificate fails the handshake, but only after it has sent its own.
    match (shown, shaken) {
        (Some(der), _) => validity(&der).map(Some),
        (None, Err(error)) => Err(silent(&error)),
        (None, Ok(_)) => Err(format!("{server} sent no certificate")),
    }
}

/// A verifier that accepts every certificate and stores it. Nothing is sent over its connection.
#[derive(Debug)]
struct RecordingVerifier {
    shown: Mutex<Option<CertificateDer<'static>>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = end_entity.clone().into_owned();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Reads the validity period of a certificate, without verifying the certificate.
fn validity(der: &[u8]) -> Result<Validity, String> {
    let unread = |error: &dyn std::fmt::Display| format!("not an X.509 certificate: {error}");
    let (_, certificate) = x509_parser::parse_x509_certificate(der).map_err(|error| unread(&error))?;
    let time = |seconds: i64| Timestamp::from_second(seconds).map_err(|error| unread(&error));
    let said = certificate.validity();
    Ok(Validity { from: time(said.not_before.timestamp())?, until: time(said.not_after.timestamp())? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn der(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("it is a name");
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().expect("there is chance");
        params.self_signed(&key).expect("it can be signed").der().to_vec()
    }

    fn good(from: &str, until: &str) -> Validity {
        let time = |text: &str| format!("{text}T00:00:00Z").parse().expect("it is a time");
        Validity { from: time(from), until: time(until) }
    }

    #[test]
    fn validity_is_read_before_and_after_2050() {
        assert_eq!(validity(&der((1999, 12, 31), (2031, 1, 2))), Ok(good("1999-12-31", "2031-01-02")));
        assert_eq!(validity(&der((2049, 1, 1), (2150, 3, 4))), Ok(good("2049-01-01", "2150-03-04")));
    }

    #[test]
    fn invalid_and_truncated_certificates_are_errors() {
        let whole = der((2020, 1, 1), (2021, 1, 1));
        for length in 0..whole.len() {
            assert!(validity(&whole[..length]).is_err(), "{length} bytes of {}", whole.len());
        }
        for bytes in [&b"not DER"[..], &[0x30, 0x85, 1, 1, 1, 1, 1], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]] {
            assert!(validity(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn authority_with_the_latest_expiry_counts() {
        let old = good("2010-01-01", "2020-01-01");
        let new = good("2019-01-01", "2030-01-01");
        assert_eq!(longest([Ok(old), Ok(new)].into_iter()), Ok(Some(new)));
        assert_eq!(longest([].into_iter()), Ok(None));
        assert!(longest([Ok(old), Err("no".to_owned())].into_iter()).is_err());
    }

    #[test]
    fn client_certificate_is_read_from_kubeconfig_and_file() {
        let key = KeyPair::generate().expect("there is chance");
        let mut params = CertificateParams::new(["ann".to_owned()]).expect("it is a name");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        let pem = params.self_signed(&key).expect("it can be signed").pem();
        let data = serde_json::to_value(ByteString(pem.clone().into_bytes())).expect("it is text");
        let data = data.as_str().expect("it is text").to_owned();
        let expected = Ok(Some(good("2020-01-01", "2021-01-01")));
        let of = |data: Option<String>, file: Option<String>| {
            client(&AuthInfo {
                client_certificate_data: data,
                client_certificate: file,
                ..AuthInfo::default()
            })
        };
        assert_eq!(of(Some(data), None), expected);
        let folder = tempfile::tempdir().expect("a folder can be made");
        let file = folder.path().join("client.crt");
        std::fs::write(&file, pem).expect("it can be written");
        assert_eq!(of(None, Some(file.display().to_string())), expected);
        assert_eq!(of(None, None), Ok(None));
        for (data, message) in [("%", "not valid base64"), ("bm8=", "holds no certificate")] {
            let error = of(Some(data.to_owned()), None).expect_err("it is none");
            assert!(error.contains(message), "{error}");
        }
        assert!(of(None, Some("absent".to_owned())).expect_err("it is none").contains("cannot read"));
    }
}
