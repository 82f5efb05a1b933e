//! Flags of kube-scheduler as they are written on a command line: its spelling, and a word about those that are not taken.
//!
//! Reads no values; those of the flags there are belong to `crate::args`.

pub mod gates;

use std::ffi::OsString;

/// What stands in place of a flag that kube-scheduler has, or had, and this program has not.
const NOT_TAKEN: [(&str, &str); 61] = [
    // Deprecated: with --config, upstream passes over them without a word.
    ("kube-api-qps", "deprecated; use clientConnection.qps in the file of --config"),
    ("kube-api-burst", "deprecated; use clientConnection.burst in the file of --config"),
    ("kube-api-content-type", "deprecated; use clientConnection.contentType in the file of --config"),
    ("profiling", "deprecated; use enableProfiling in the file of --config"),
    ("contention-profiling", "deprecated; use enableContentionProfiling in the file of --config"),
    // Gone from kube-scheduler, and still in old manifests.
    ("policy-config-file", "gone from kube-scheduler; use profiles in the file of --config"),
    ("policy-configmap", "gone from kube-scheduler; use profiles in the file of --config"),
    ("policy-configmap-namespace", "gone from kube-scheduler; use profiles in the file of --config"),
    ("use-legacy-policy-config", "gone from kube-scheduler; use profiles in the file of --config"),
    ("algorithm-provider", "gone from kube-scheduler; use profiles in the file of --config"),
    ("scheduler-name", "gone from kube-scheduler; use profiles[0].schedulerName in the file of --config"),
    (
        "hard-pod-affinity-symmetric-weight",
        "gone from kube-scheduler; use the argument hardPodAffinityWeight of InterPodAffinity in the file of --config",
    ),
    ("lock-object-name", "gone from kube-scheduler; use leaderElection.resourceName in the file of --config"),
    (
        "lock-object-namespace",
        "gone from kube-scheduler; use leaderElection.resourceNamespace in the file of --config",
    ),
    ("address", "gone from kube-scheduler; use --bind-address"),
    ("port", "gone from kube-scheduler; use --secure-port"),
    ("experimental-logging-sanitization", "gone from kube-scheduler; nothing replaces it"),
    ("logtostderr", "gone from kube-scheduler; the log always goes to standard error"),
    ("alsologtostderr", "gone from kube-scheduler; the log always goes to standard error"),
    ("log-dir", "gone from kube-scheduler; the log always goes to standard error"),
    ("log-file", "gone from kube-scheduler; the log always goes to standard error"),
    ("stderrthreshold", "gone from kube-scheduler; the log always goes to standard error"),
    // Of kube-scheduler 1.36, without a counterpart here.
    ("emulated-version", "it decides as kube-scheduler 1.36 does and emulates no other version"),
    ("min-compatibility-version", "it decides as kube-scheduler 1.36 does and emulates no other version"),
    (
        "cert-dir",
        "a generated certificate is kept in memory only; use --tls-cert-file and --tls-private-key-file",
    ),
    ("tls-sni-cert-key", "one certificate serves all names; use --tls-cert-file and --tls-private-key-file"),
    (
        "tls-cipher-suites",
        "the suites are those of TLS 1.2 and 1.3 that are held to be safe, and cannot be chosen",
    ),
    ("tls-min-version", "it is TLS 1.2, and cannot be chosen"),
    ("tls-curve-preferences", "the curves cannot be chosen"),
    ("disable-http2-serving", "it cannot be chosen"),
    ("http2-max-streams-per-connection", "it cannot be chosen"),
    ("permit-address-sharing", "the port is not shared"),
    ("permit-port-sharing", "the port is not shared"),
    ("authentication-kubeconfig", "callers are reviewed by the API server that is watched"),
    ("authorization-kubeconfig", "callers are reviewed by the API server that is watched"),
    ("authentication-skip-lookup", "the config map of the API server's certificates is never read"),
    (
        "authentication-tolerate-lookup-failure",
        "the config map of the API server's certificates is never read",
    ),
    ("authentication-token-webhook-cache-ttl", "answers are kept for ten seconds"),
    ("authorization-webhook-cache-authorized-ttl", "answers are kept for ten seconds"),
    ("authorization-webhook-cache-unauthorized-ttl", "answers are kept for ten seconds"),
    ("client-ca-file", "callers show tokens, and no certificates"),
    ("requestheader-allowed-names", "callers show tokens, and no headers of a proxy"),
    ("requestheader-client-ca-file", "callers show tokens, and no headers of a proxy"),
    ("requestheader-username-headers", "callers show tokens, and no headers of a proxy"),
    ("requestheader-group-headers", "callers show tokens, and no headers of a proxy"),
    ("requestheader-extra-headers-prefix", "callers show tokens, and no headers of a proxy"),
    ("requestheader-uid-headers", "callers show tokens, and no headers of a proxy"),
    ("allow-metric-labels", "the values of labels are bounded as they are"),
    ("allow-metric-labels-manifest", "the values of labels are bounded as they are"),
    ("disabled-metrics", "all metrics are served"),
    ("show-hidden-metrics-for-version", "no metric is hidden"),
    ("log-flush-frequency", "the log is never held back"),
    ("log-json-info-buffer-size", "the log is never held back"),
    ("log-text-info-buffer-size", "the log is never held back"),
    ("log-json-split-stream", "the log always goes to standard error"),
    ("log-text-split-stream", "the log always goes to standard error"),
    ("vmodule", "use -v"),
    ("skip-headers", "gone from kube-scheduler; nothing replaces it"),
    ("skip-log-headers", "gone from kube-scheduler; nothing replaces it"),
    ("add-dir-header", "gone from kube-scheduler; nothing replaces it"),
    ("one-output", "gone from kube-scheduler; nothing replaces it"),
];

/// The command line as it is to be read: `_` in names of flags is `-`, as upstream has it.
///
/// # Errors
/// With what to say of the first flag that kube-scheduler knows and this program does not take.
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
            // A command comes first, and has flags of its own.
            is_command = read.len() == 1 && !text.starts_with('-');
            read.push(argument);
            continue;
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        if let Some((_, word)) = NOT_TAKEN.iter().find(|(other, _)| *other == name) {
            return Err(format!("--{name} is not taken: {word}"));
        }
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        read.push(format!("--{name}{value}").into());
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;

    fn line(words: &str) -> Result<String, String> {
        let read = read(words.split(' ').map(OsString::from))?;
        Ok(read.join(" ".as_ref()).into_string().expect("it was text"))
    }

    #[test]
    fn an_underscore_in_the_name_of_a_flag_is_a_hyphen_and_one_in_a_value_is_not() {
        assert_eq!(
            line("s --secure_port=0 --config a_b -v 2"),
            Ok("s --secure-port=0 --config a_b -v 2".to_owned())
        );
        assert_eq!(line("s simulate --cluster_x port"), Ok("s simulate --cluster_x port".to_owned()));
    }

    #[test]
    fn a_flag_of_kube_scheduler_that_is_not_taken_says_what_to_use() {
        for (words, told) in [
            ("s --kube-api-qps=3", "--kube-api-qps is not taken: deprecated; use clientConnection.qps"),
            ("s --config x --profiling", "--profiling is not taken: deprecated; use enableProfiling"),
            (
                "s --policy_config_file p",
                "--policy-config-file is not taken: gone from kube-scheduler; use profiles",
            ),
            ("s --port 0", "--port is not taken: gone from kube-scheduler; use --secure-port"),
        ] {
            let error = line(words).expect_err(words);
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn no_flag_is_both_taken_and_not_and_none_stands_twice() {
        let taken: BTreeSet<String> = Args::command()
            .get_arguments()
            .filter_map(|argument| argument.get_long().map(str::to_owned))
            .collect();
        let refused: BTreeSet<&str> = NOT_TAKEN.iter().map(|(name, _)| *name).collect();
        assert_eq!(refused.len(), NOT_TAKEN.len());
        let both: Vec<_> = refused.iter().filter(|name| taken.contains(**name)).collect();
        assert!(both.is_empty(), "{both:?}");
    }
}
