//! An API server with an expired certificate: clients fail, and `doctor` reports the reason.

use crate::support::{plain_node, run};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};
use serde_json::{Value, json};
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;

/// Serves a certificate with this validity for the duration of the test; returns the URL and the certificate.
fn server(from: i32, until: i32) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("the name is an address");
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().expect("the key is generated");
    let certificate = params.self_signed(&key).expect("the certificate is signed");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("TLS versions are supported").with_no_client_auth();
    let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config =
        config.with_single_cert(vec![certificate.der().clone()], der).expect("key and certificate match");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("https://{}", listener.local_addr().expect("the listener has an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let mut tls = ServerConnection::new(config).expect("the connection is configured");
                // The client closes the connection when it has seen the certificate.
                let _ = Stream::new(&mut tls, &mut stream).read(&mut [0; 1]);
            });
        }
    });
    (url, certificate.pem())
}

/// Runs `doctor` against it; `is_known` says whether the kubeconfig trusts the certificate.
fn asked(from: i32, until: i32, is_known: bool) -> crate::support::Ran {
    let (server, mut certificate) = server(from, until);
    if !is_known {
        certificate = self::server(from, until).1;
    }
    let cluster = crate::support::Cluster::of(&[plain_node("a")]);
    cluster.write("ca.crt", &certificate);
    let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server, "certificate-authority": "ca.crt" } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }] });
    cluster.write("kubeconfig", &config.to_string());
    let args = ["doctor", "--kubeconfig", "kubeconfig", "--request-timeout", "5s", "-o", "json"];
    run(cluster.folder(), &args)
}

#[test]
fn doctor_reports_an_expired_api_server_certificate() {
    let ran = asked(2020, 2021, true);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(ran.code, Some(3), "{report:#}");
    let checks = report["checks"].as_array().expect("the report has checks");
    let problems = checks.iter().filter(|check| check["status"] == "problem");
    let problems: Vec<_> = problems.map(|check| check["text"].as_str().unwrap_or_default()).collect();
    assert_eq!(
        problems,
        [
            "the API server's certificate has expired: it was valid until 2021-01-01T00:00:00Z",
            "the certificate authority of the kubeconfig has expired: it was valid until 2021-01-01T00:00:00Z"
        ]
    );
}

#[test]
fn doctor_reports_a_future_certificate_and_fails_on_an_unknown_one() {
    let early = asked(2100, 2101, true);
    assert!(early.stdout.contains("it is valid from 2100-01-01T00:00:00Z"), "{early:?}");
    assert_eq!(early.code, Some(3));
    let unknown = asked(2020, 2101, false);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""), "{unknown:?}");
    assert!(unknown.stderr.contains("does not answer"), "{}", unknown.stderr);
}
