//! TLS settings by the names and numbers of Go's `crypto/tls`.
//!
//! Upstream: `component-base/cli/flag/{ciphersuites,curvepreferences}_flag.go`, `ConfigureServer` of
//! `golang.org/x/net/http2`.

use super::values::Values;

/// Cipher suites that the flag may name. Go has no others.
const SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Suites of which HTTP/2 requires one, unless TLS 1.3 is the minimum.
const FOR_HTTP2: [&str; 2] =
    ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];

/// Numbers of the key exchange groups that Go has: P-256, P-384, P-521, X25519, X25519MLKEM768, and two with ML-KEM
/// that newer versions of Go add (SecP256r1MLKEM768, SecP384r1MLKEM1024).
const CURVES: [i64; 7] = [23, 24, 25, 29, 4588, 4587, 4589];

/// Names of `--tls-min-version`.
const VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// Returns what is wrong with the names and numbers, whatever the TLS library has.
pub(super) fn problems(values: &Values) -> Vec<String> {
    let mut problems = Vec::new();
    let suites = values.list("tls-cipher-suites");
    for suite in suites.iter().filter(|suite| !SUITES.contains(&suite.as_str())) {
        problems.push(format!("--tls-cipher-suites: Cipher suite {suite} not supported or doesn't exist"));
    }
    let minimum = values.text("tls-min-version");
    if !minimum.is_empty() && !VERSIONS.contains(&minimum) {
        problems.push(format!(
            "--tls-min-version: unknown tls version {minimum:?}; expected one of {}",
            VERSIONS.join(", ")
        ));
    }
    let has_http2 = !values.is_true("disable-http2-serving") && minimum != "VersionTLS13";
    if has_http2 && !suites.is_empty() && !suites.iter().any(|suite| FOR_HTTP2.contains(&suite.as_str())) {
        problems.push(format!(
            "--tls-cipher-suites: http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher \
             (need at least one of {}); add one, or set --disable-http2-serving or --tls-min-version=VersionTLS13",
            FOR_HTTP2.join(" or ")
        ));
    }
    let curves = values.ints("tls-curve-preferences");
    for (at, curve) in curves.iter().enumerate() {
        let why = if !(1..=65_535).contains(curve) {
            format!("curve preference {curve} is out of range (must be 1-65535)")
        } else if curves[..at].contains(curve) {
            format!("duplicate curve preference {curve}")
        } else if !CURVES.contains(curve) {
            format!("curve preference {curve} is not supported by the current Go version")
        } else {
            continue;
        };
        problems.push(format!("--tls-curve-preferences: {why}"));
    }
    problems
}
