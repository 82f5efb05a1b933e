//! Chooses the certificate by the name that the client requests (`--tls-sni-cert-key`).
//!
//! As upstream (`apiserver/pkg/server/dynamiccertificates/named_certificates.go`), exact names win over wildcards, and
//! names of the flag over names in certificates. Names that are IP addresses have no effect: TLS clients send none.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The certificates of the port.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) default: Arc<Current>,
    pub(super) named: Vec<Named>,
}

/// A certificate for some names.
#[derive(Debug)]
pub(super) struct Named {
    /// Names of the flag; empty for those in the certificate.
    pub(super) names: Vec<String>,
    pub(super) current: Arc<Current>,
}

/// The certificate presented to the next client.
#[derive(Debug)]
pub(super) struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    pub(super) fn new(first: CertifiedKey) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(first))))
    }

    pub(super) fn replace(&self, next: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    pub(super) fn get(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.for_name(hello.server_name()))
    }
}

impl Certificates {
    fn for_name(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let Some(name) = name.filter(|_| !self.named.is_empty()) else { return self.default.get() };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}")).unwrap_or_default();
        let named = self.named.iter().map(|named| (named, named.names.is_empty()));
        let best = named.filter_map(|(named, is_extracted)| {
            let current = named.current.get();
            let names = if is_extracted { names_of(&current) } else { named.names.clone() };
            let has = |wanted: &str| names.iter().any(|name| name.eq_ignore_ascii_case(wanted));
            let is_wildcard = !has(&name);
            (!is_wildcard || has(&wildcard)).then_some(((is_wildcard, is_extracted), current))
        });
        // Among equally good certificates, the one of the first flag wins.
        best.min_by_key(|(rank, _)| *rank).map_or_else(|| self.default.get(), |(_, current)| current)
    }
}

/// Returns the DNS names of a certificate; without any, its CommonName.
fn names_of(certificate: &CertifiedKey) -> Vec<String> {
    let parsed = certificate.cert.first().and_then(|der| X509Certificate::from_der(der).ok());
    let Some((_, parsed)) = parsed else { return Vec::new() };
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let general = alternatives.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    let dns = general.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    let names: Vec<String> = dns.collect();
    if !names.is_empty() {
        return names;
    }
    parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

    fn certificate(names: &[&str]) -> CertifiedKey {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let pair = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(vec![pair.cert.der().clone()], key, &provider).unwrap()
    }

    #[test]
    fn exact_names_win_over_wildcards_and_flags_over_certificates() {
        let named = |names: &[&str], inside: &[&str]| Named {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            current: Current::new(certificate(inside)),
        };
        let certificates = Certificates {
            default: Current::new(certificate(&["default"])),
            named: vec![
                named(&["*.example.com"], &["unused"]),
                named(&[], &["a.example.com", "b.example.com"]),
                named(&["b.example.com"], &["other"]),
            ],
        };
        let chosen = |name: Option<&str>| {
            let chosen = certificates.for_name(name);
            certificates.named.iter().position(|named| Arc::ptr_eq(&named.current.get(), &chosen))
        };
        assert_eq!(chosen(Some("c.example.com")), Some(0));
        assert_eq!(chosen(Some("A.example.com.")), Some(1));
        assert_eq!(chosen(Some("b.example.com")), Some(2));
        assert_eq!(chosen(Some("unused")), None);
        assert_eq!(chosen(Some("x.c.example.com")), None);
        assert_eq!(chosen(None), None);
    }
}
