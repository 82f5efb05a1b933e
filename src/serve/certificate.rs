//! The serving certificates: the default one, self-signed if none is configured, and those for certain names. Files are
//! reloaded when they change. [`super::sni`] chooses among them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::ServeError;
use super::clients::{AnyCertificate, Clients};
use super::sni::{Certificates, Current, Named};
use super::tls::TlsOptions;
use crate::telemetry::metrics::CertificateMetrics;
use tokio::time::Instant;

/// Validity of a self-signed certificate, and how far it is backdated for clients with slow clocks; both as
/// upstream (`client-go/util/cert.GenerateSelfSignedCertKey`).
const VALID_FOR: Duration = Duration::from_secs(365 * 24 * 3600);
const VALID_BEFORE_NOW: Duration = Duration::from_secs(3600);

/// Returns our pod's IP address from `POD_IP`, which the Deployment sets.
pub fn pod_ip() -> Option<IpAddr> {
    std::env::var("POD_IP").ok().and_then(|ip| ip.parse().ok())
}

/// Source of the serving certificate.
#[derive(Clone, Debug)]
pub enum Certificate {
    /// A self-signed certificate, generated at each start and again before it expires.
    SelfSigned {
        /// Names and addresses it is valid for, besides `localhost`, 127.0.0.1 and ::1.
        names: Vec<String>,
    },
    /// PEM files, reloaded when they change.
    Files {
        /// The certificate, followed by its intermediates.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

impl Certificate {
    /// Returns a self-signed source for this machine's host name and, if known, the pod's IP.
    pub fn self_signed(pod_ip: Option<IpAddr>) -> Self {
        let names = host_name().into_iter().chain(pod_ip.map(|ip| ip.to_string()));
        Self::SelfSigned { names: names.collect() }
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// A certificate for clients that request certain names.
#[derive(Clone, Debug)]
pub struct NamedCertificate {
    /// File of the certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
    /// The names; empty for those in the certificate.
    pub names: Vec<String>,
}

/// Everything that the TLS configuration is made of.
pub(super) struct Sources {
    pub(super) default: Certificate,
    pub(super) named: Vec<NamedCertificate>,
    pub(super) clients: Arc<Clients>,
    pub(super) tls: TlsOptions,
    pub(super) poll: Duration,
    pub(super) metrics: CertificateMetrics,
}

/// Returns the TLS configuration, and the task that keeps its certificates current.
pub(super) async fn load(sources: Sources) -> Result<(Arc<ServerConfig>, Refresher), ServeError> {
    let Sources { default, named, clients, tls, poll, metrics } = sources;
    let provider = tls.provider;
    let (first, renewal) = match default {
        Certificate::SelfSigned { names } => {
            (self_signed(&names, &provider)?, Renewal::Remake { names, made: Instant::now() })
        }
        Certificate::Files { certificate, key } => {
            let (first, files) = PemFiles::read(certificate, key, &provider).await?;
            (first, Renewal::Reread(files))
        }
    };
    let default = Current::new(first);
    let mut certificates = Certificates { default: Arc::clone(&default), named: Vec::new() };
    let mut files = Vec::new();
    for NamedCertificate { certificate, key, names } in named {
        let (first, read) = PemFiles::read(certificate, key, &provider).await?;
        let current = Current::new(first);
        files.push((Arc::clone(&current), read));
        certificates.named.push(Named { names, current });
    }
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(tls.versions)
        .map_err(|error| ServeError::SelfSigned(error.to_string()))?;
    let builder = if clients.ask() {
        builder.with_client_cert_verifier(Arc::new(AnyCertificate(provider.clone())))
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if tls.http2 {
        config.alpn_protocols.insert(0, b"h2".to_vec());
    }
    let refresher = Refresher { default, renewal, named: files, clients, provider, poll, metrics };
    Ok((Arc::new(config), refresher))
}

/// Keeps certificates and client authorities current while it runs.
pub(super) struct Refresher {
    default: Arc<Current>,
    renewal: Renewal,
    named: Vec<(Arc<Current>, PemFiles)>,
    clients: Arc<Clients>,
    provider: Arc<CryptoProvider>,
    poll: Duration,
    metrics: CertificateMetrics,
}

enum Renewal {
    Remake { names: Vec<String>, made: Instant },
    Reread(PemFiles),
}

impl Refresher {
    /// Runs forever.
    pub(super) async fn run(mut self) {
        loop {
            tokio::time::sleep(self.poll).await;
            match &mut self.renewal {
                Renewal::Remake { names, made } if made.elapsed() >= VALID_FOR / 2 => {
                    match self_signed(names, &self.provider) {
                        Ok(next) => {
                            *made = Instant::now();
                            self.default.replace(next);
                        }
                        Err(error) => tracing::error!(%error, "failed to renew the serving certificate"),
                    }
                }
                Renewal::Remake { .. } => {}
                Renewal::Reread(files) => files.refresh(&self.default, &self.provider, &self.metrics).await,
            }
            for (current, files) in &mut self.named {
                files.refresh(current, &self.provider, &self.metrics).await;
            }
            self.clients.refresh();
        }
    }
}

/// A certificate file and its key file, reread periodically.
struct PemFiles {
    certificate: PathBuf,
    key: PathBuf,
    /// The last valid contents.
    good: PemPair,
    /// The contents at the last check, or why they could not be read.
    seen: Result<PemPair, String>,
}

impl PemFiles {
    /// Reads the files for the first time.
    async fn read(
        certificate: PathBuf,
        key: PathBuf,
        provider: &CryptoProvider,
    ) -> Result<(CertifiedKey, Self), ServeError> {
        let pair = PemPair::read(&certificate, &key).await?;
        let first = pair.parse(&certificate, &key, provider)?;
        Ok((first, Self { certificate, key, good: pair.clone(), seen: Ok(pair) }))
    }

    /// Replaces the current certificate if the files have changed and are usable.
    async fn refresh(&mut self, current: &Current, provider: &CryptoProvider, metrics: &CertificateMetrics) {
        let Some(seen) = self.changed(provider).await else { return };
        match seen {
            Ok(Some(next)) => {
                current.replace(next);
                metrics.applied();
                tracing::info!(certificate = %self.certificate.display(), "serving certificate replaced");
            }
            Ok(None) => metrics.read_again(),
            Err(error) => {
                metrics.invalid();
                tracing::error!(%error, "failed to reload the serving certificate; keeping the previous one");
            }
        }
    }

    /// Rereads the files. Returns `None` if they are unchanged, and `Ok(None)` if they are back at the last
    /// valid contents. A changed pair is tried once: while only one of two files has been replaced they do
    /// not match, and the error is repeated only after another change.
    async fn changed(
        &mut self,
        provider: &CryptoProvider,
    ) -> Option<Result<Option<CertifiedKey>, ServeError>> {
        let read = PemPair::read(&self.certificate, &self.key).await;
        let seen = read.as_ref().map(PemPair::clone).map_err(ToString::to_string);
        if seen == self.seen {
            return None;
        }
        self.seen = seen;
        let pair = match read {
            Ok(pair) => pair,
            Err(error) => return Some(Err(error)),
        };
        if pair == self.good {
            return Some(Ok(None));
        }
        let next = pair.parse(&self.certificate, &self.key, provider);
        if next.is_ok() {
            self.good = pair;
        }
        Some(next.map(Some))
    }
}

/// Contents of a certificate file and its key file.
#[derive(Clone, PartialEq, Eq)]
struct PemPair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl PemPair {
    async fn read(certificate: &Path, key: &Path) -> Result<Self, ServeError> {
        Ok(Self { certificate: read(certificate).await?, key: read(key).await? })
    }

    fn parse(
        &self,
        certificate: &Path,
        key: &Path,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, ServeError> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(certificate, &error))?;
        if chain.is_empty() {
            return Err(unusable(certificate, &"it contains no PEM certificate"));
        }
        let private = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| match error {
            pem::Error::NoItemsFound => unusable(key, &"it contains no PEM private key"),
            error => unusable(key, &error),
        })?;
        CertifiedKey::from_der(chain, private, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                unusable(key, &format!("it is not the key of {}", certificate.display()))
            }
            error => unusable(key, &error),
        })
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    tokio::fs::read(path).await.map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, reason: &impl ToString) -> ServeError {
    ServeError::Certificate { path: path.to_owned(), reason: reason.to_string() }
}

fn self_signed(names: &[String], provider: &CryptoProvider) -> Result<CertifiedKey, ServeError> {
    let failed = |error: &dyn ToString| ServeError::SelfSigned(error.to_string());
    let key = KeyPair::generate().map_err(|error| failed(&error))?;
    let certificate =
        self_signed_params(names, SystemTime::now()).self_signed(&key).map_err(|error| failed(&error))?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    CertifiedKey::from_der(vec![certificate.der().clone()], private, provider).map_err(|error| failed(&error))
}

fn self_signed_params(names: &[String], now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let host = names.first().map_or("localhost", String::as_str);
    params.distinguished_name.push(DnType::CommonName, format!("{host}@{}", since_epoch.as_secs()));
    params.not_before = (now - VALID_BEFORE_NOW).into();
    params.not_after = (now + VALID_FOR).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in ["localhost", "127.0.0.1", "::1"].into_iter().chain(names.iter().map(String::as_str)) {
        let san = match name.parse::<IpAddr>() {
            Ok(ip) => SanType::IpAddress(ip),
            Err(_) => match name.try_into() {
                Ok(dns) => SanType::DnsName(dns),
                // A host name that a certificate cannot carry must not prevent serving.
                Err(_) => continue,
            },
        };
        if !params.subject_alt_names.contains(&san) {
            params.subject_alt_names.push(san);
        }
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;

    #[test]
    fn self_signed_certificate_covers_the_names_of_this_machine() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let names = ["kind-worker", "10.1.2.3", "localhost", "schön"].map(String::from);
        let params = self_signed_params(&names, now);
        let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let ip = |ip: &str| SanType::IpAddress(ip.parse().unwrap());
        assert_eq!(
            params.subject_alt_names,
            [dns("localhost"), ip("127.0.0.1"), ip("::1"), dns("kind-worker"), ip("10.1.2.3")]
        );
        assert_eq!(params.not_before, now - Duration::from_secs(3600));
        assert_eq!(params.not_after, now + Duration::from_secs(31_536_000));
        let provider = rustls::crypto::ring::default_provider();
        assert!(self_signed(&names, &provider).is_ok());
    }

    #[tokio::test]
    async fn certificate_error_names_the_invalid_file() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let source = Certificate::Files { certificate: certificate.clone(), key: key.clone() };
        let error = |result: Result<_, ServeError>| result.map(|_| ()).unwrap_err().to_string();

        let of = |default: &Certificate| Sources {
            default: default.clone(),
            named: Vec::new(),
            clients: Arc::default(),
            tls: TlsOptions::default(),
            poll: Duration::ZERO,
            metrics: Metrics::new().certificates(),
        };
        let missing = error(load(of(&source)).await);
        assert!(missing.contains("tls.crt as a serving certificate or its key (--tls-cert-file, --tls-private-key-file, --tls-sni-cert-key): No such file"), "{missing}");

        std::fs::write(&certificate, "nothing").unwrap();
        std::fs::write(&key, "nothing").unwrap();
        let empty = error(load(of(&source)).await);
        assert!(empty.ends_with("it contains no PEM certificate"), "{empty}");

        let pair = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, pair().cert.pem()).unwrap();
        std::fs::write(&key, pair().signing_key.serialize_pem()).unwrap();
        let foreign = error(load(of(&source)).await);
        assert!(foreign.contains("tls.key as a serving certificate or its key"), "{foreign}");
    }

    #[tokio::test]
    async fn changed_files_are_loaded_once_they_match() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let provider = rustls::crypto::ring::default_provider();
        let write = |path: &Path, text: String| std::fs::write(path, text).unwrap();
        let pair = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();

        let (old, new) = (pair(), pair());
        write(&certificate, old.cert.pem());
        write(&key, old.signing_key.serialize_pem());
        let good = PemPair::read(&certificate, &key).await.unwrap();
        let mut files =
            PemFiles { certificate: certificate.clone(), key: key.clone(), seen: Ok(good.clone()), good };
        assert!(files.changed(&provider).await.is_none());

        write(&certificate, new.cert.pem());
        assert!(files.changed(&provider).await.unwrap().is_err(), "key does not match yet");
        assert!(files.changed(&provider).await.is_none(), "reported once");
        std::fs::remove_file(&key).unwrap();
        assert!(files.changed(&provider).await.unwrap().is_err(), "no key");
        assert!(files.changed(&provider).await.is_none(), "reported once");

        write(&key, new.signing_key.serialize_pem());
        let taken = files.changed(&provider).await.unwrap().unwrap().unwrap();
        assert_eq!(taken.cert[0], *new.cert.der());

        write(&key, "no key".to_owned());
        assert!(files.changed(&provider).await.unwrap().is_err());
        write(&key, new.signing_key.serialize_pem());
        assert!(files.changed(&provider).await.unwrap().unwrap().is_none(), "equals the current certificate");
    }
}
