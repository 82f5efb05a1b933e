//! The flags of kube-scheduler 1.34 to 1.37: name, type, default and effect.
//!
//! Upstream: `cmd/kube-scheduler/app/options/options.go` and the packages it calls.

use super::kind::Kind;
use supercargo_core::model::emulation::EmulatedVersion;

/// What a flag does in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The flag works.
    Works,
    /// The flag has no effect, for this reason.
    None(&'static str),
}

/// A flag of kube-scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name without hyphens.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The default value, as on the command line.
    pub default: &'static str,
    /// The help text; empty if the program declares the flag itself.
    pub help: &'static str,
    /// The effect.
    pub effect: Effect,
}

/// Returns the first version of kube-scheduler with a flag; `None` if all versions have it.
pub(super) fn since(name: &str) -> Option<EmulatedVersion> {
    let line = HELP.lines().find_map(|line| line.split_once(' ').filter(|(flag, _)| *flag == name))?;
    line.1.parse().ok().filter(|since| *since > EmulatedVersion::OLDEST)
}

/// The flags in the help texts of the real kube-schedulers, and the first version with each. Recorded by
/// `tests/fixtures/flags/record.sh`.
const HELP: &str = include_str!("help.txt");

/// Returns the flag of this name.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

/// A flag that the program declares itself.
const fn own(name: &'static str, kind: Kind) -> Flag {
    Flag { name, kind, default: "", help: "", effect: Effect::Works }
}

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag { name, kind, default, help, effect: Effect::Works }
}

const fn no_effect(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
    why: &'static str,
) -> Flag {
    Flag { name, kind, default, help, effect: Effect::None(why) }
}

const BUFFERED: &str = "log lines are not buffered";
const ONE_STREAM: &str = "the log goes to standard error";
const NO_GO: &str = "the program is not written in Go and serves no pprof profiles";
const LANES: &str = "requests are limited by the number in flight, per kind of request";

/// All flags. Flags without help text are declared in `src/args.rs`.
pub const FLAGS: &[Flag] = &[
    own("config", Kind::Text),
    own("write-config-to", Kind::Text),
    own("master", Kind::Text),
    own("bind-address", Kind::Ip),
    own("secure-port", Kind::Int),
    own("tls-cert-file", Kind::Text),
    own("tls-private-key-file", Kind::Text),
    own("authorization-always-allow-paths", Kind::List),
    own("kubeconfig", Kind::Text),
    own("pod-max-in-unschedulable-pods-duration", Kind::Duration),
    own("leader-elect", Kind::Bool),
    own("leader-elect-lease-duration", Kind::Duration),
    own("leader-elect-renew-deadline", Kind::Duration),
    own("leader-elect-retry-period", Kind::Duration),
    own("leader-elect-resource-lock", Kind::Text),
    own("leader-elect-resource-name", Kind::Text),
    own("leader-elect-resource-namespace", Kind::Text),
    own("emulated-version", Kind::List),
    own("feature-gates", Kind::Gates),
    own("logging-format", Kind::Text),
    own("v", Kind::Level),
    // Secure serving.
    flag(
        "cert-dir",
        Kind::Text,
        "",
        "Directory of kube-scheduler.crt and kube-scheduler.key, which are used if they exist and --tls-cert-file is not \
         set. A generated certificate stays in memory.",
    ),
    flag("disable-http2-serving", Kind::Bool, "false", "Serve HTTP/1.1 only."),
    flag(
        "http2-max-streams-per-connection",
        Kind::Int,
        "0",
        "Maximum number of concurrent requests on an HTTP/2 connection; 0 means 32.",
    ),
    flag("permit-address-sharing", Kind::Bool, "false", "Set SO_REUSEADDR on the port. It is always set."),
    flag(
        "permit-port-sharing",
        Kind::Bool,
        "false",
        "Set SO_REUSEPORT on the port, so that several processes can listen on it.",
    ),
    flag(
        "tls-cipher-suites",
        Kind::List,
        "",
        "Cipher suites of TLS 1.2, by Go's names. The suites of TLS 1.3 are always enabled. The TLS library has the \
         ECDHE suites with AES-GCM and ChaCha20-Poly1305; a warning names others.",
    ),
    flag("tls-min-version", Kind::Text, "", "Minimum TLS version: VersionTLS12 (default) or VersionTLS13."),
    flag(
        "tls-curve-preferences",
        Kind::Ints32,
        "",
        "Key exchange groups, by number: 29 (X25519), 23 (P-256), 24 (P-384). A warning names others.",
    ),
    flag(
        "tls-sni-cert-key",
        Kind::CertKeys,
        "",
        "Certificate and key for clients that request certain names, as `CERT,KEY[:NAME,NAME]`. Can be repeated. \
         Without names, those of the certificate apply.",
    ),
    // Authentication.
    flag(
        "authentication-kubeconfig",
        Kind::Text,
        "",
        "Kubeconfig of the API server that reviews tokens. Defaults to the API server that is watched.",
    ),
    flag(
        "authentication-skip-lookup",
        Kind::Bool,
        "false",
        "Do not read client certificate authorities from the cluster.",
    ),
    flag(
        "authentication-token-webhook-cache-ttl",
        Kind::Duration,
        "10s",
        "How long results of token reviews are cached.",
    ),
    flag(
        "authentication-tolerate-lookup-failure",
        Kind::Bool,
        "true",
        "Start if the client certificate authorities cannot be read from the cluster.",
    ),
    flag(
        "client-ca-file",
        Kind::Text,
        "",
        "File with certificate authorities (PEM). A client with a certificate of one of them is authenticated as its \
         CommonName, in the groups of its Organizations.",
    ),
    flag(
        "requestheader-allowed-names",
        Kind::List,
        "",
        "CommonNames of front proxies; empty for every certificate of --requestheader-client-ca-file.",
    ),
    flag(
        "requestheader-client-ca-file",
        Kind::Text,
        "",
        "File with certificate authorities (PEM) of front proxies, whose requests name the user in headers.",
    ),
    flag(
        "requestheader-extra-headers-prefix",
        Kind::List,
        "x-remote-extra-",
        "Prefixes of the headers in which a front proxy names further attributes of the user.",
    ),
    flag(
        "requestheader-group-headers",
        Kind::List,
        "x-remote-group",
        "Headers in which a front proxy names the user's groups.",
    ),
    flag("requestheader-uid-headers", Kind::List, "", "Headers in which a front proxy names the user's UID."),
    flag(
        "requestheader-username-headers",
        Kind::List,
        "x-remote-user",
        "Headers in which a front proxy names the user.",
    ),
    // Authorization.
    flag(
        "authorization-kubeconfig",
        Kind::Text,
        "",
        "Kubeconfig of the API server that reviews access. Defaults to the API server that is watched.",
    ),
    flag(
        "authorization-webhook-cache-authorized-ttl",
        Kind::Duration,
        "10s",
        "How long allowed access is cached.",
    ),
    flag(
        "authorization-webhook-cache-unauthorized-ttl",
        Kind::Duration,
        "10s",
        "How long denied access is cached.",
    ),
    // Deprecated.
    no_effect(
        "contention-profiling",
        Kind::Bool,
        "true",
        "Deprecated: sets enableContentionProfiling, unless --config is set.",
        NO_GO,
    ),
    no_effect(
        "kube-api-burst",
        Kind::Int32,
        "100",
        "Deprecated: sets clientConnection.burst, unless --config is set.",
        LANES,
    ),
    flag(
        "kube-api-content-type",
        Kind::Text,
        "application/vnd.kubernetes.protobuf",
        "Deprecated: sets clientConnection.contentType, unless --config is set.",
    ),
    no_effect(
        "kube-api-qps",
        Kind::Float32,
        "50",
        "Deprecated: sets clientConnection.qps, unless --config is set.",
        LANES,
    ),
    flag(
        "profiling",
        Kind::Bool,
        "true",
        "Deprecated: sets enableProfiling, unless --config is set. If it is false, the pages below /debug are off.",
    ),
    // Versions.
    no_effect(
        "min-compatibility-version",
        Kind::List,
        "",
        "Oldest version of the control plane's other components, as `[kube=]MAJOR.MINOR`.",
        "no default of a feature gate depends on it here",
    ),
    // Metrics.
    flag(
        "allow-metric-labels",
        Kind::Pairs,
        "",
        "Values that a label of a metric may have, as `METRIC,LABEL=VALUE,VALUE`. Others become `unexpected`.",
    ),
    flag(
        "allow-metric-labels-manifest",
        Kind::Text,
        "",
        "YAML file with such label values: `\"METRIC,LABEL\": \"VALUE,VALUE\"`.",
    ),
    flag("disabled-metrics", Kind::List, "", "Names of metrics that are not served."),
    flag(
        "show-hidden-metrics-for-version",
        Kind::Text,
        "",
        "Previous minor version, to serve metrics that are hidden since then.",
    ),
    // Logs.
    no_effect("log-flush-frequency", Kind::Duration, "5s", "Maximum time between log flushes.", BUFFERED),
    no_effect("log-json-info-buffer-size", Kind::Quantity, "0", "Buffer of the JSON log.", BUFFERED),
    no_effect(
        "log-json-split-stream",
        Kind::Bool,
        "false",
        "Write JSON info messages to standard output.",
        ONE_STREAM,
    ),
    no_effect("log-text-info-buffer-size", Kind::Quantity, "0", "Buffer of the text log.", BUFFERED),
    no_effect(
        "log-text-split-stream",
        Kind::Bool,
        "false",
        "Write text info messages to standard output.",
        ONE_STREAM,
    ),
    no_effect(
        "vmodule",
        Kind::Modules,
        "",
        "Log levels by source file, as `PATTERN=LEVEL,...`.",
        "source files differ from kube-scheduler's; use -v or RUST_LOG",
    ),
];

/// Flags of earlier versions of kube-scheduler, which 1.34 and newer refuse, with their replacement.
pub(super) const REMOVED: [(&str, &str); 24] = [
    ("policy-config-file", "use profiles in the file of --config"),
    ("policy-configmap", "use profiles in the file of --config"),
    ("policy-configmap-namespace", "use profiles in the file of --config"),
    ("use-legacy-policy-config", "use profiles in the file of --config"),
    ("algorithm-provider", "use profiles in the file of --config"),
    ("scheduler-name", "use profiles[0].schedulerName in the file of --config"),
    (
        "hard-pod-affinity-symmetric-weight",
        "use the argument hardPodAffinityWeight of InterPodAffinity in the file of --config",
    ),
    ("lock-object-name", "use --leader-elect-resource-name"),
    ("lock-object-namespace", "use --leader-elect-resource-namespace"),
    ("address", "use --bind-address"),
    ("port", "use --secure-port"),
    ("experimental-logging-sanitization", "nothing replaces it"),
    ("logtostderr", "the log always goes to standard error"),
    ("alsologtostderr", "the log always goes to standard error"),
    ("log-dir", "the log always goes to standard error"),
    ("log-file", "the log always goes to standard error"),
    ("log-file-max-size", "the log always goes to standard error"),
    ("log-backtrace-at", "nothing replaces it"),
    ("stderrthreshold", "the log always goes to standard error"),
    ("skip-headers", "nothing replaces it"),
    ("skip-log-headers", "nothing replaces it"),
    ("add-dir-header", "nothing replaces it"),
    ("one-output", "nothing replaces it"),
    ("master-service-namespace", "nothing replaces it"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn flags_are_unique_and_their_defaults_have_their_type() {
        let names: BTreeSet<&str> =
            FLAGS.iter().map(|flag| flag.name).chain(REMOVED.map(|(name, _)| name)).collect();
        assert_eq!(names.len(), FLAGS.len() + REMOVED.len());
        for flag in FLAGS.iter().filter(|flag| !flag.default.is_empty()) {
            assert_eq!(flag.kind.read(flag.default).as_deref(), Ok(flag.default), "{}", flag.name);
        }
    }

    #[test]
    fn table_has_the_flags_of_kube_scheduler() {
        let upstream: BTreeSet<&str> = HELP.lines().filter_map(|line| line.split(' ').next()).collect();
        let ours: BTreeSet<&str> = FLAGS.iter().map(|flag| flag.name).chain(["help", "version"]).collect();
        assert_eq!(ours, upstream);
    }
}
