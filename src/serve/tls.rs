//! The TLS settings of the port: versions, cipher suites and key exchange groups, as far as the TLS library has them.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use supercargo_config::flags::Values;

use super::ServeError;

const TLS13_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];

/// TLS settings of the port.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
    /// Whether clients may choose HTTP/2.
    pub(super) http2: bool,
    /// Values of flags that the TLS library lacks.
    pub lacking: Vec<String>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        let provider = Arc::new(ring::default_provider());
        Self { provider, versions: rustls::ALL_VERSIONS, http2: true, lacking: Vec::new() }
    }
}

impl TlsOptions {
    /// Returns the settings of `--tls-min-version`, `--tls-cipher-suites`, `--tls-curve-preferences` and
    /// `--disable-http2-serving`, whose values are known to Go. As in Go, the suites of TLS 1.3 are always enabled.
    ///
    /// # Errors
    /// If the TLS library has none of the suites or groups.
    pub fn of(values: &Values) -> Result<Self, ServeError> {
        let mut lacking = Vec::new();
        let all = ring::default_provider();
        let named = values.list("tls-cipher-suites");
        let cipher_suites = suites(&all.cipher_suites, &named, &mut lacking)?;
        let kx_groups = groups(&values.ints("tls-curve-preferences"), &mut lacking)?;
        let minimum = values.text("tls-min-version");
        if matches!(minimum, "VersionTLS10" | "VersionTLS11") {
            lacking.push(minimum.to_owned());
        }
        let has_tls12 = cipher_suites.iter().any(|suite| suite.version() == &TLS12);
        let versions =
            if minimum == "VersionTLS13" || !has_tls12 { TLS13_ONLY } else { rustls::ALL_VERSIONS };
        let provider = Arc::new(CryptoProvider { cipher_suites, kx_groups, ..all });
        Ok(Self { provider, versions, http2: !values.is_true("disable-http2-serving"), lacking })
    }
}

/// Returns the named suites, and all of TLS 1.3.
fn suites(
    all: &[SupportedCipherSuite],
    named: &[String],
    lacking: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, ServeError> {
    if named.is_empty() {
        return Ok(all.to_vec());
    }
    let wanted: Vec<Option<&SupportedCipherSuite>> =
        named.iter().map(|name| all.iter().find(|suite| is_named(suite, name))).collect();
    if wanted.iter().all(Option::is_none) {
        return Err(lacks("--tls-cipher-suites", named));
    }
    let missing = named.iter().zip(&wanted).filter(|(_, suite)| suite.is_none());
    lacking.extend(missing.map(|(name, _)| name.clone()));
    let is_kept = |suite: &&SupportedCipherSuite| {
        suite.version() == &TLS13 || wanted.iter().flatten().any(|wanted| wanted.suite() == suite.suite())
    };
    Ok(all.iter().filter(is_kept).copied().collect())
}

/// Whether Go calls the suite by this name.
fn is_named(suite: &SupportedCipherSuite, name: &str) -> bool {
    let ours = suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_");
    // Go's old names of two suites lack the hash.
    ours == name || ours.strip_suffix("_SHA256") == Some(name) && name.ends_with("_POLY1305")
}

/// Returns the groups of these numbers.
fn groups(
    numbers: &[i64],
    lacking: &mut Vec<String>,
) -> Result<Vec<&'static dyn SupportedKxGroup>, ServeError> {
    if numbers.is_empty() {
        return Ok(ring::ALL_KX_GROUPS.to_vec());
    }
    let is_wanted =
        |group: &&&dyn SupportedKxGroup, number: i64| i64::from(u16::from(group.name())) == number;
    let find = |number: i64| ring::ALL_KX_GROUPS.iter().find(|group| is_wanted(group, number));
    let (had, missing): (Vec<i64>, Vec<i64>) = numbers.iter().partition(|number| find(**number).is_some());
    if had.is_empty() {
        let named: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(lacks("--tls-curve-preferences", &named));
    }
    lacking.extend(missing.iter().map(|number| format!("curve {number}")));
    // The library's order is by preference, as in Go.
    let wanted =
        ring::ALL_KX_GROUPS.iter().filter(|group| had.iter().any(|number| is_wanted(group, *number)));
    Ok(wanted.copied().collect())
}

fn lacks(flag: &'static str, values: &[String]) -> ServeError {
    ServeError::Lacking { flag, values: values.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use supercargo_config::flags::CommandLine;

    fn of(flags: &str) -> Result<TlsOptions, String> {
        let flags: Vec<_> = flags.split_whitespace().map(std::ffi::OsString::from).collect();
        TlsOptions::of(&CommandLine::read(&flags, &[]).values).map_err(|error| error.to_string())
    }

    fn suites_of(options: &TlsOptions) -> Vec<&str> {
        let tls12 = options.provider.cipher_suites.iter().filter(|suite| suite.version() == &TLS12);
        tls12.filter_map(|suite| suite.suite().as_str()).collect()
    }

    #[test]
    fn named_suites_are_kept_and_lacking_ones_are_listed() {
        let options =
            of("--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
             TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305")
            .unwrap();
        assert_eq!(options.lacking, ["TLS_RSA_WITH_AES_128_CBC_SHA"]);
        let mut suites = suites_of(&options);
        suites.sort_unstable();
        assert_eq!(
            suites,
            ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
        );
        let tls13 = options.provider.cipher_suites.iter().filter(|suite| suite.version() == &TLS13);
        assert_eq!((tls13.count(), options.versions.len()), (3, 2));
    }

    #[test]
    fn suites_of_tls_1_3_alone_disable_tls_1_2() {
        let options = of("--tls-cipher-suites=TLS_AES_256_GCM_SHA384").unwrap();
        assert_eq!((suites_of(&options), options.versions), (Vec::new(), &[&TLS13][..]));
        let options = of("--tls-min-version=VersionTLS13").unwrap();
        assert_eq!(options.versions, [&TLS13]);
        let options = of("--tls-min-version=VersionTLS10 --disable-http2-serving").unwrap();
        assert_eq!((options.versions.len(), options.http2), (2, false));
        assert_eq!(options.lacking, ["VersionTLS10"]);
    }

    #[test]
    fn flag_is_refused_if_nothing_of_it_remains() {
        let error = of("--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA").unwrap_err();
        assert_eq!(
            error,
            "the TLS library has none of the values of --tls-cipher-suites: TLS_RSA_WITH_AES_128_CBC_SHA"
        );
        let error = of("--tls-curve-preferences=25,4588").unwrap_err();
        assert!(error.ends_with("--tls-curve-preferences: 25, 4588"), "{error}");
    }

    #[test]
    fn groups_keep_the_order_of_preference() {
        let options = of("--tls-curve-preferences=24,4588,29").unwrap();
        let groups: Vec<u16> = options.provider.kx_groups.iter().map(|group| group.name().into()).collect();
        assert_eq!((groups, options.lacking), (vec![29, 24], vec!["curve 4588".to_owned()]));
    }
}
