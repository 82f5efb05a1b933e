//! Client certificates: of users (`--client-ca-file`), and of front proxies that name the user in headers
//! (`--requestheader-*`).
//!
//! As upstream (`apiserver/pkg/authentication/request/{x509,headerrequest}`), the TLS handshake accepts every
//! certificate whose key the client holds; the authority is checked for each request. Authorities of files are reread
//! with the serving certificate. Those that the flags lack come from the cluster, see [`super::lookup`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use http::HeaderMap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use supercargo_config::flags::Values;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::ServeError;
use super::gate::User;

/// Group of every authenticated user.
const AUTHENTICATED: &str = "system:authenticated";

/// The certificates that a client presented, its own first.
#[derive(Clone, Debug)]
pub(super) struct PeerCertificates(pub(super) Arc<[CertificateDer<'static>]>);

/// Authorities of client certificates.
#[derive(Debug, Default)]
pub struct Clients {
    users: Slot<Authorities>,
    proxies: Slot<FrontProxies>,
    /// Whether the cluster supplies what the flags lack.
    looks_up: bool,
}

/// Authorities that may come later.
#[derive(Debug)]
struct Slot<T> {
    /// Whether they are of a flag, which the cluster does not replace.
    is_fixed: bool,
    current: RwLock<Option<Arc<T>>>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::new(None)
    }
}

impl<T> Slot<T> {
    fn new(of_flag: Option<T>) -> Self {
        Self { is_fixed: of_flag.is_some(), current: RwLock::new(of_flag.map(Arc::new)) }
    }

    fn get(&self) -> Option<Arc<T>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, next: Option<T>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next.map(Arc::new);
    }
}

/// Front proxies: their authorities and names, and the headers in which they name the user.
#[derive(Debug)]
struct FrontProxies {
    authorities: Authorities,
    /// CommonNames; empty for all.
    allowed: Vec<String>,
    users: Vec<String>,
    uids: Vec<String>,
    groups: Vec<String>,
    extra_prefixes: Vec<String>,
}

/// A certificate is not of a configured authority, or not of an allowed proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Untrusted;

impl Clients {
    /// Reads the authorities of the flags.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn of(values: &Values) -> Result<Self, ServeError> {
        let authorities = |flag: &'static str| match values.text(flag) {
            "" => Ok(None),
            file => Authorities::read(flag, file.into()).map(Some),
        };
        let trimmed = |flag: &str| values.list(flag).iter().map(|name| name.trim().to_owned()).collect();
        let proxies = authorities("requestheader-client-ca-file")?.map(|authorities| FrontProxies {
            authorities,
            allowed: values.list("requestheader-allowed-names"),
            users: trimmed("requestheader-username-headers"),
            uids: trimmed("requestheader-uid-headers"),
            groups: trimmed("requestheader-group-headers"),
            extra_prefixes: trimmed("requestheader-extra-headers-prefix"),
        });
        let looks_up = !values.text("authentication-kubeconfig").is_empty()
            && !values.is_true("authentication-skip-lookup");
        let (users, proxies) = (Slot::new(authorities("client-ca-file")?), Slot::new(proxies));
        Ok(Self { users, proxies, looks_up })
    }

    /// Whether clients are asked for a certificate.
    pub(super) fn ask(&self) -> bool {
        self.looks_up || self.users.is_fixed || self.proxies.is_fixed
    }

    /// Whether the cluster supplies authorities.
    pub fn look_up(&self) -> bool {
        self.looks_up && !(self.users.is_fixed && self.proxies.is_fixed)
    }

    /// Takes authorities that no flag names from the data of the cluster's ConfigMap.
    ///
    /// # Errors
    /// If something in the data cannot be used; the previous authorities stay then.
    pub(super) fn apply(&self, data: &BTreeMap<String, String>) -> Result<(), String> {
        let authorities = |key: &'static str| match data.get(key).map(String::as_str) {
            None | Some("") => Ok(None),
            Some(pem) => Authorities::of_cluster(key, pem).map(Some),
        };
        let list = |key: &str| -> Result<Vec<String>, String> {
            let Some(json) = data.get(key) else { return Ok(Vec::new()) };
            serde_json::from_str(json).map_err(|error| format!("{key}: {error}"))
        };
        let users = authorities("client-ca-file")?;
        let proxies = match authorities("requestheader-client-ca-file")? {
            Some(authorities) => Some(FrontProxies {
                authorities,
                allowed: list("requestheader-allowed-names")?,
                users: list("requestheader-username-headers")?,
                uids: list("requestheader-uid-headers")?,
                groups: list("requestheader-group-headers")?,
                extra_prefixes: list("requestheader-extra-headers-prefix")?,
            }),
            None => None,
        };
        if !self.users.is_fixed {
            self.users.replace(users);
        }
        if !self.proxies.is_fixed {
            self.proxies.replace(proxies);
        }
        Ok(())
    }

    /// Returns the user of a request with these certificates: the one that a front proxy names, or that of the
    /// certificate; `None` if it names none.
    pub(super) fn user(
        &self,
        headers: &HeaderMap,
        certificates: &PeerCertificates,
        now: UnixTime,
    ) -> Result<Option<User>, Untrusted> {
        let chain = &certificates.0;
        let mut outcome = Ok(None);
        if let Some(proxies) = self.proxies.get() {
            match proxies.user(headers, chain, now) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(untrusted) => outcome = Err(untrusted),
            }
        }
        if let Some(authorities) = self.users.get() {
            match authorities.verify(chain, now).and_then(|()| subject(chain)) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(untrusted) => outcome = Err(untrusted),
            }
        }
        outcome
    }

    /// Rereads the files.
    pub(super) fn refresh(&self) {
        if let Some(authorities) = self.users.get() {
            authorities.refresh();
        }
        if let Some(proxies) = self.proxies.get() {
            proxies.authorities.refresh();
        }
    }
}

impl FrontProxies {
    fn user(
        &self,
        headers: &HeaderMap,
        chain: &[CertificateDer<'static>],
        now: UnixTime,
    ) -> Result<Option<User>, Untrusted> {
        self.authorities.verify(chain, now)?;
        let name = subject(chain)?.map(|user| user.name).unwrap_or_default();
        if !self.allowed.is_empty() && !self.allowed.contains(&name) {
            return Err(Untrusted);
        }
        let all = |names: &[String]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
        };
        let first = |names: &[String]| all(names).into_iter().find(|value| !value.is_empty());
        let Some(name) = first(&self.users) else { return Ok(None) };
        let groups: Vec<String> = all(&self.groups).into_iter().filter(|group| !group.is_empty()).collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in self.extra_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase()) {
            for (header, value) in headers {
                let Some(key) = header.as_str().strip_prefix(&prefix) else { continue };
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                extra.entry(unescaped(key)).or_default().push(value);
            }
        }
        let uid = first(&self.uids).unwrap_or_default();
        Ok(Some(User { name, uid, groups: authenticated(groups), extra }))
    }
}

/// Decodes `%XX` in the key of an attribute; a malformed key stays as it is.
fn unescaped(key: &str) -> String {
    let decoded = || {
        let (mut bytes, mut rest) = (Vec::new(), key.as_bytes());
        while let [first, after @ ..] = rest {
            rest = after;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        }
        String::from_utf8(bytes).ok()
    };
    decoded().unwrap_or_else(|| key.to_owned())
}

fn authenticated(mut groups: Vec<String>) -> Vec<String> {
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    groups
}

/// Returns the user that a certificate names: its CommonName, in the groups of its Organizations.
fn subject(chain: &[CertificateDer<'static>]) -> Result<Option<User>, Untrusted> {
    let first = chain.first().ok_or(Untrusted)?;
    let (_, certificate) = X509Certificate::from_der(first).map_err(|_| Untrusted)?;
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().map(str::to_owned).map_err(|_| Untrusted)
    };
    // As in Go, the last CommonName counts.
    let name = subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default();
    let groups = subject.iter_organization().map(text).collect::<Result<Vec<_>, _>>()?;
    let user = User { name, groups: authenticated(groups), ..User::default() };
    Ok(Some(user).filter(|user| !user.name.is_empty()))
}

/// Authorities of a file or of the cluster.
#[derive(Debug)]
struct Authorities {
    flag: &'static str,
    /// `None` for those of the cluster.
    file: Option<PathBuf>,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    /// The contents at the last check, valid or not.
    seen: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    fn read(flag: &'static str, file: PathBuf) -> Result<Self, ServeError> {
        let unusable = |reason| ServeError::Authorities { flag, path: file.clone(), reason };
        let seen = std::fs::read(&file).map_err(|error| unusable(error.to_string()))?;
        let verifier = verifier(&seen).map_err(unusable)?;
        Ok(Self { flag, current: RwLock::new(Current { seen, verifier }), file: Some(file) })
    }

    fn of_cluster(key: &'static str, pem: &str) -> Result<Self, String> {
        let seen = pem.as_bytes().to_vec();
        let verifier = verifier(&seen).map_err(|error| format!("{key}: {error}"))?;
        Ok(Self { flag: key, current: RwLock::new(Current { seen, verifier }), file: None })
    }

    /// Checks that the first certificate is of these authorities, valid now and for clients.
    fn verify(&self, chain: &[CertificateDer<'static>], now: UnixTime) -> Result<(), Untrusted> {
        let (first, others) = chain.split_first().ok_or(Untrusted)?;
        let verifier = self.current.read().unwrap_or_else(PoisonError::into_inner).verifier.clone();
        verifier.verify_client_cert(first, others, now).map(drop).map_err(|_| Untrusted)
    }

    /// Rereads the file. An unusable one is logged once, and the previous authorities stay.
    fn refresh(&self) {
        let Some(file) = &self.file else { return };
        let Ok(read) = std::fs::read(file) else { return };
        if self.current.read().unwrap_or_else(PoisonError::into_inner).seen == read {
            return;
        }
        let next = verifier(&read);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.seen = read;
        let file = file.display();
        match next {
            Ok(verifier) => {
                current.verifier = verifier;
                tracing::info!(flag = self.flag, %file, "certificate authorities of clients replaced");
            }
            Err(error) => {
                tracing::error!(flag = self.flag, %file, error, "failed to reload the certificate authorities of clients; keeping the previous ones");
            }
        }
    }
}

fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it contains no PEM certificate".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.allow_unauthenticated().build().map_err(|error| error.to_string())
}

/// Asks clients for a certificate, and checks only that they hold its key.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Arc<CryptoProvider>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
