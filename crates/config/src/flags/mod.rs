//! Normalizes flag names on the command line as kube-scheduler does, and explains unsupported flags of
//! kube-scheduler.
//!
//! Does not read values: `src/args.rs` parses the supported flags.

pub mod gates;
mod version;

pub use version::parse_emulated_version;

use std::ffi::OsString;

/// Flags that kube-scheduler has or had and this program does not support, with their replacement or the
/// reason.
const NOT_TAKEN: [(&str, &str); 60] = [
    // Deprecated: upstream ignores them silently when --config is set.
    ("kube-api-qps", "deprecated; use clientConnection.qps in the file of --config"),
    ("kube-api-burst", "deprecated; use clientConnection.burst in the file of --config"),
    ("kube-api-content-type", "deprecated; use clientConnection.contentType in the file of --config"),
    ("profiling", "deprecated; use enableProfiling in the file of --config"),
    ("contention-profiling", "deprecated; use enableContentionProfiling in the file of --config"),
    // Removed from kube-scheduler, but still found in old manifests.
    ("policy-config-file", "removed from kube-scheduler; use profiles in the file of --config"),
    ("policy-configmap", "removed from kube-scheduler; use profiles in the file of --config"),
    ("policy-configmap-namespace", "removed from kube-scheduler; use profiles in the file of --config"),
    ("use-legacy-policy-config", "removed from kube-scheduler; use profiles in the file of --config"),
    ("algorithm-provider", "removed from kube-scheduler; use profiles in the file of --config"),
    ("scheduler-name", "removed from kube-scheduler; use profiles[0].schedulerName in the file of --config"),
    (
        "hard-pod-affinity-symmetric-weight",
        "removed from kube-scheduler; use the argument hardPodAffinityWeight of InterPodAffinity in the file of --config",
    ),
    (
        "lock-object-name",
        "removed from kube-scheduler; use leaderElection.resourceName in the file of --config",
    ),
    (
        "lock-object-namespace",
        "removed from kube-scheduler; use leaderElection.resourceNamespace in the file of --config",
    ),
    ("address", "removed from kube-scheduler; use --bind-address"),
    ("port", "removed from kube-scheduler; use --secure-port"),
    ("experimental-logging-sanitization", "removed from kube-scheduler; nothing replaces it"),
    ("logtostderr", "removed from kube-scheduler; the log always goes to standard error"),
    ("alsologtostderr", "removed from kube-scheduler; the log always goes to standard error"),
    ("log-dir", "removed from kube-scheduler; the log always goes to standard error"),
    ("log-file", "removed from kube-scheduler; the log always goes to standard error"),
    ("stderrthreshold", "removed from kube-scheduler; the log always goes to standard error"),
    // Flags of kube-scheduler 1.36 without a counterpart.
    ("min-compatibility-version", "feature gates have the defaults of --emulated-version"),
    (
        "cert-dir",
        "a generated certificate is kept in memory only; use --tls-cert-file and --tls-private-key-file",
    ),
    ("tls-sni-cert-key", "one certificate serves all names; use --tls-cert-file and --tls-private-key-file"),
    ("tls-cipher-suites", "the safe cipher suites of TLS 1.2 and 1.3 are used and cannot be configured"),
    ("tls-min-version", "the minimum is TLS 1.2 and cannot be configured"),
    ("tls-curve-preferences", "the curves cannot be configured"),
    ("disable-http2-serving", "it cannot be configured"),
    ("http2-max-streams-per-connection", "it cannot be configured"),
    ("permit-address-sharing", "the port is not shared"),
    ("permit-port-sharing", "the port is not shared"),
    ("authentication-kubeconfig", "the watched API server reviews callers"),
    ("authorization-kubeconfig", "the watched API server reviews callers"),
    ("authentication-skip-lookup", "the ConfigMap with the API server's certificates is not read"),
    (
        "authentication-tolerate-lookup-failure",
        "the ConfigMap with the API server's certificates is not read",
    ),
    ("authentication-token-webhook-cache-ttl", "reviews are cached for ten seconds"),
    ("authorization-webhook-cache-authorized-ttl", "reviews are cached for ten seconds"),
    ("authorization-webhook-cache-unauthorized-ttl", "reviews are cached for ten seconds"),
    ("client-ca-file", "callers authenticate with tokens, not with certificates"),
    ("requestheader-allowed-names", "callers authenticate with tokens, not with proxy headers"),
    ("requestheader-client-ca-file", "callers authenticate with tokens, not with proxy headers"),
    ("requestheader-username-headers", "callers authenticate with tokens, not with proxy headers"),
    ("requestheader-group-headers", "callers authenticate with tokens, not with proxy headers"),
    ("requestheader-extra-headers-prefix", "callers authenticate with tokens, not with proxy headers"),
    ("requestheader-uid-headers", "callers authenticate with tokens, not with proxy headers"),
    ("allow-metric-labels", "label values are bounded already"),
    ("allow-metric-labels-manifest", "label values are bounded already"),
    ("disabled-metrics", "all metrics are served"),
    ("show-hidden-metrics-for-version", "no metric is hidden"),
    ("log-flush-frequency", "log lines are not buffered"),
    ("log-json-info-buffer-size", "log lines are not buffered"),
    ("log-text-info-buffer-size", "log lines are not buffered"),
    ("log-json-split-stream", "the log always goes to standard error"),
    ("log-text-split-stream", "the log always goes to standard error"),
    ("vmodule", "use -v"),
    ("skip-headers", "removed from kube-scheduler; nothing replaces it"),
    ("skip-log-headers", "removed from kube-scheduler; nothing replaces it"),
    ("add-dir-header", "removed from kube-scheduler; nothing replaces it"),
    ("one-output", "removed from kube-scheduler; nothing replaces it"),
];

/// Returns the command line with `_` replaced by `-` in flag names, as upstream does.
///
/// # Errors
/// Returns a message for the first flag that kube-scheduler knows and this program does not support.
pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let mut read: Vec<OsString> = Vec::new();
    let mut arguments = line.into_iter();
    read.extend(arguments.next());
    let mut is_command = false;
    for argument in arguments {
        let Some(text) = argument.to_str().filter(|_| !is_command) else {
            read.push(argument);
            continue;
        };
        let Some(flag) = text.strip_prefix("--") else {
            // A command must be the first argument. Its own flags are left unchanged.
            is_command = read.len() == 1 && !text.starts_with('-');
            read.push(argument);
            continue;
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        if let Some((_, word)) = NOT_TAKEN.iter().find(|(other, _)| *other == name) {
            return Err(format!("--{name} is not supported: {word}"));
        }
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        read.push(format!("--{name}{value}").into());
    }
    Ok(read)
}

/// Returns the names of the flags of kube-scheduler that this program rejects.
pub fn unsupported() -> impl Iterator<Item = &'static str> {
    NOT_TAKEN.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn line(words: &str) -> Result<String, String> {
        let read = read(words.split(' ').map(OsString::from))?;
        Ok(read.join(" ".as_ref()).into_string().expect("it was text"))
    }

    #[test]
    fn underscores_become_hyphens_in_flag_names_only() {
        assert_eq!(
            line("s --secure_port=0 --config a_b -v 2"),
            Ok("s --secure-port=0 --config a_b -v 2".to_owned())
        );
        assert_eq!(line("s simulate --cluster_x port"), Ok("s simulate --cluster_x port".to_owned()));
    }

    #[test]
    fn unsupported_kube_scheduler_flag_names_its_replacement() {
        for (words, expected) in [
            ("s --kube-api-qps=3", "--kube-api-qps is not supported: deprecated; use clientConnection.qps"),
            ("s --config x --profiling", "--profiling is not supported: deprecated; use enableProfiling"),
            (
                "s --policy_config_file p",
                "--policy-config-file is not supported: removed from kube-scheduler; use profiles",
            ),
            ("s --port 0", "--port is not supported: removed from kube-scheduler; use --secure-port"),
        ] {
            let error = line(words).expect_err(words);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn unsupported_flags_are_unique() {
        let unsupported: BTreeSet<&str> = unsupported().collect();
        assert_eq!(unsupported.len(), NOT_TAKEN.len());
    }
}
