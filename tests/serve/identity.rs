//! Without authorities of client certificates, only a bearer token identifies a caller.

use super::{Answer, Running};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::AsyncWriteExt as _;

/// A client that would present a certificate, and records whether it was asked for one.
#[derive(Debug, Default)]
pub(crate) struct CertificateRequested(AtomicBool);

impl ResolvesClientCert for CertificateRequested {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn client_certificates_and_front_proxy_headers_identify_no_user() {
    let server = Running::usual().await;
    let asked = Arc::new(CertificateRequested::default());
    let mut stream = server.connect_showing(&[b"http/1.1"], asked.clone()).await;
    let proxy = "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{proxy}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = Answer::read(&mut stream).await;
    assert!(answer.code == 403 && answer.body.contains("system:anonymous"), "{}", answer.body);
    assert!(!asked.0.load(Ordering::Relaxed), "the server must not ask for a certificate");
}
