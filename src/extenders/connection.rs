//! The connection to one extender: URL, TLS, and client certificates that are replaced on disk.
//!
//! Upstream: `pkg/scheduler/extender.go#makeTransport`, `client-go/rest#TLSConfigFor`, and for replaced files
//! `client-go/transport/cert_rotation.go`. As there, certificates in the configuration itself do not change.

use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use supercargo_apiserver::Throttle;
use supercargo_config::v1;
use tokio::time::Instant;

/// Minimum time between two checks of the files, as for the API server's credentials.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Log interval of files that stay unusable.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The connection to an extender.
pub(super) struct Connection {
    extender: Arc<v1::Extender>,
    /// The client, and what it was built from.
    current: Mutex<Current>,
    failures: Throttle,
}

struct Current {
    client: kube::Client,
    /// Hash of the files' contents when they were last read.
    stamp: u64,
    looked: Instant,
}

impl Connection {
    /// Builds the client of a configured extender.
    ///
    /// # Errors
    /// If the URL or the TLS settings are invalid, in upstream's wording where it has one.
    pub(super) fn new(extender: &v1::Extender) -> Result<Self, String> {
        // The files are read after their stamp, so that a change in between is noticed.
        let stamp = stamp(extender);
        let current = Current { client: built(extender)?, stamp, looked: Instant::now() };
        let extender = Arc::new(extender.clone());
        Ok(Self { extender, current: Mutex::new(current), failures: Throttle::new(LOG_INTERVAL) })
    }

    /// Returns the client. If the files of the TLS settings have changed, it uses the new ones, or still the previous
    /// ones if the new ones are unusable, such as a certificate without its key.
    pub(super) async fn client(&self) -> kube::Client {
        if files(&self.extender).next().is_none() {
            return self.with(|current| current.client.clone());
        }
        let (is_due, stamp_before) = self.with(|current| {
            let is_due = current.looked.elapsed() >= LOOK_EVERY;
            if is_due {
                current.looked = Instant::now();
            }
            (is_due, current.stamp)
        });
        if is_due {
            let extender = Arc::clone(&self.extender);
            // The file system may be remote and slow.
            let changed = tokio::task::spawn_blocking(move || {
                let stamp = stamp(&extender);
                (stamp != stamp_before).then(|| (stamp, built(&extender)))
            });
            if let Ok(Some((stamp, client))) = changed.await {
                self.replace(stamp, client);
            }
        }
        self.with(|current| current.client.clone())
    }

    fn replace(&self, stamp: u64, client: Result<kube::Client, String>) {
        let extender = &self.extender.url_prefix;
        match client {
            Ok(client) => {
                self.with(|current| (current.client, current.stamp) = (client, stamp));
                self.failures.reset();
                tracing::info!(extender, "reloaded the certificates of an extender");
            }
            // The stamp stays, so that they are read again.
            Err(error) => {
                if let Some(withheld) = self.failures.admit() {
                    tracing::warn!(
                        extender,
                        error,
                        withheld,
                        "failed to reload the certificates of an extender; keeping the previous ones"
                    );
                }
            }
        }
    }

    fn with<T>(&self, action: impl FnOnce(&mut Current) -> T) -> T {
        action(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the files of an extender's TLS settings that are in use: inline data takes precedence.
fn files(extender: &v1::Extender) -> impl Iterator<Item = &String> {
    extender.tls_config.iter().flat_map(|tls| {
        let pairs =
            [(&tls.ca_data, &tls.ca_file), (&tls.cert_data, &tls.cert_file), (&tls.key_data, &tls.key_file)];
        pairs.into_iter().filter(|(data, file)| data.0.is_empty() && !file.is_empty()).map(|(_, file)| file)
    })
}

/// Returns a hash of the files' contents. Modification times do not help: a Secret volume swaps symbolic links.
fn stamp(extender: &v1::Extender) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files(extender) {
        std::fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

fn built(extender: &v1::Extender) -> Result<kube::Client, String> {
    let uri: http::Uri =
        extender.url_prefix.parse().map_err(|error| format!("{:?}: {error}", extender.url_prefix))?;
    if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("{:?} is not an http or https URL", extender.url_prefix));
    }
    let mut config = kube::Config::new(origin(&uri)?);
    // The request's time limit includes the connection.
    config.connect_timeout = None;
    config.default_retry = false;
    tls(&mut config, extender)?;
    let builder = supercargo_apiserver::client::builder(&config).map_err(|error| format!("{error:#}"))?;
    Ok(builder.build())
}

/// Returns the URI with scheme, host and port only.
fn origin(uri: &http::Uri) -> Result<http::Uri, String> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    http::Uri::from_parts(parts).map_err(|error| error.to_string())
}

/// Applies `tlsConfig` and `enableHTTPS` (upstream `makeTransport`, `client-go/rest#TLSConfigFor`).
fn tls(config: &mut kube::Config, extender: &v1::Extender) -> Result<(), String> {
    let none = v1::ExtenderTls::default();
    let tls = extender.tls_config.as_ref().unwrap_or(&none);
    let has_ca = !tls.ca_file.is_empty() || !tls.ca_data.0.is_empty();
    let insecure = tls.insecure || extender.enable_https && !has_ca;
    if has_ca && insecure {
        return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    config.accept_invalid_certs = insecure;
    if has_ca {
        let pem = data(&tls.ca_data, &tls.ca_file)?;
        let certificates = CertificateDer::pem_slice_iter(&pem);
        let certificates =
            certificates.map(|each| each.map(|der| der.to_vec())).collect::<Result<Vec<_>, _>>();
        let certificates =
            certificates.map_err(|error| format!("unable to load root certificates: {error}"))?;
        if certificates.is_empty() {
            return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
        }
        config.root_cert = Some(certificates);
    }
    config.tls_server_name = Some(tls.server_name.clone()).filter(|name| !name.is_empty());
    let (certificate, key) = (data(&tls.cert_data, &tls.cert_file)?, data(&tls.key_data, &tls.key_file)?);
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => {}
        (false, false) => {
            config.auth_info.client_certificate_data = Some(base64(certificate)?);
            config.auth_info.client_key_data = Some(base64(key)?.into());
        }
        (true, false) | (false, true) => {
            return Err(
                "client certificate and key must be set together: certFile or certData, and keyFile or keyData"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Returns the inline data, or else the contents of the file; empty if neither is set.
fn data(data: &ByteString, file: &str) -> Result<Vec<u8>, String> {
    if !data.0.is_empty() || file.is_empty() {
        return Ok(data.0.clone());
    }
    std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))
}

fn base64(bytes: Vec<u8>) -> Result<String, String> {
    let text = serde_json::to_value(ByteString(bytes)).map_err(|error| error.to_string())?;
    text.as_str().map(str::to_owned).ok_or_else(|| "base64 is a string".to_owned())
}
