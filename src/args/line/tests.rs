//! Tests of whole command lines. `tests/config/command_lines.rs` compares many with kube-scheduler's verdicts.

use super::*;

fn read(line: &str) -> Result<Args, Refusal> {
    Args::try_read(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
}

fn accepted(line: &str) -> Args {
    read(line).unwrap_or_else(|refusal| panic!("{line}: {refusal:?}"))
}

fn problems(line: &str) -> Vec<String> {
    match read(line) {
        Err(Refusal::Problems(problems)) => problems,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn flag_values_are_the_given_or_default_ones() {
    let args = accepted(
        "supercargo --secure-port=0 --feature-gates=MemoryQoS=true --feature-gates CSIVolumeHealth=false -v4",
    );
    let value = |flag: &str| args.values.get(flag).map(String::as_str);
    assert_eq!(value("secure-port"), Some("0"));
    assert_eq!(value("feature-gates"), Some("MemoryQoS=true,CSIVolumeHealth=false"));
    assert_eq!(value("v"), Some("4"));
    assert_eq!(value("pod-max-in-unschedulable-pods-duration"), Some("5m"));
    assert_eq!(value("allow-second-default-scheduler"), Some("false"));
    assert_eq!(value("requestheader-username-headers"), Some("x-remote-user"));
    assert_eq!(value("config"), Some(""));
    assert_eq!(value("help"), None);
}

#[test]
fn values_reach_the_configuration() {
    let args = accepted(
        "/usr/bin/kube-scheduler --kube-api-qps 7.5 --kube_api_burst=0x10 --profiling=F --leader-elect-renew-deadline=8s \
         --kubeconfig=here --kube-api-content-type=application/json",
    );
    let flags = args.flags();
    assert!(flags.as_kube_scheduler);
    assert_eq!((flags.deprecated.qps, flags.deprecated.burst), (Some(7.5), Some(16)));
    assert_eq!((flags.deprecated.profiling, flags.deprecated.contention_profiling), (Some(false), None));
    assert_eq!(flags.deprecated.kubeconfig.as_deref(), Some("here"));
    assert_eq!(flags.deprecated.content_type.as_deref(), Some("application/json"));
    assert_eq!(flags.renew_deadline, Some(supercargo_config::GoDuration::seconds(8)));
    let without = accepted("supercargo").flags();
    assert!(
        !without.as_kube_scheduler && without.deprecated == supercargo_config::DeprecatedFlags::default()
    );
}

#[test]
fn all_problems_are_reported_together() {
    let problems = problems(
        "supercargo --foo --secure-port=70000 --verify-decisions=many --tls-min-version=TLS1 --feature-gates=Foo=true now",
    );
    for (problem, part) in problems.iter().zip([
        "unknown flag: --foo",
        "\"supercargo\" does not take any arguments, got [\"now\"]",
        "invalid value 'many' for '--verify-decisions <N>'",
        "--feature-gates: unrecognized feature gate: Foo",
        "--secure-port 70000 must be between",
        "--tls-min-version: unknown tls version \"TLS1\"",
    ]) {
        assert!(problem.starts_with(part), "{problem}: {part}");
    }
    assert_eq!(problems.len(), 6, "{problems:?}");
}

#[test]
fn only_supercargo_has_commands() {
    assert!(accepted("supercargo lint").command.is_some());
    assert_eq!(
        problems("kube-scheduler lint"),
        ["\"kube-scheduler\" does not take any arguments, got [\"lint\"]"]
    );
}

#[test]
fn help_of_kubectl_plugin_shows_kubectl_usage() {
    for (line, usage) in [
        ("/usr/bin/supercargo queue --help", "Usage: supercargo queue"),
        ("/opt/bin/kubectl-supercargo queue --help", "Usage: kubectl supercargo queue"),
        ("kubectl-sc queue --help", "Usage: kubectl sc queue"),
        ("/usr/local/bin/kube-scheduler --help", "Usage: kube-scheduler"),
    ] {
        let Err(Refusal::Answer(help)) = read(line) else { panic!("{line}") };
        assert!(help.to_string().contains(usage), "{line}: {help}");
    }
}

#[test]
fn version_names_the_emulated_kube_scheduler() {
    let version = |line: &str| match read(line) {
        Err(Refusal::Version(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(version("supercargo --version"), format!("supercargo {VERSION}\n"));
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(
        version("kube-scheduler --emulated-version=1.35 --version"),
        format!("Kubernetes v1.35.0+supercargo-{own}\n")
    );
    let raw = version("kube-scheduler --version=v1.36.3-acme --emulated-version=1.36 --version=raw");
    assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"36\", GitVersion:\"v1.36.3-acme\""), "{raw}");
}

#[test]
fn every_flag_of_kube_scheduler_is_declared() {
    let command = Args::command();
    let declared: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
    let missing: Vec<&str> =
        FLAGS.iter().map(|flag| flag.name).filter(|name| !declared.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn unrepresentable_values_keep_their_meaning() {
    let args = accepted(
        "supercargo --v=1000 --pod-max-in-unschedulable-pods-duration=-5m --bind-address= --kubeconfig= --config=",
    );
    assert_eq!((args.verbosity, args.pod_max_in_unschedulable_pods_duration.as_nanos()), (255, 0));
    assert_eq!(
        (args.kubeconfig, args.config, args.bind_address.to_string()),
        (None, None, "0.0.0.0".to_owned())
    );
}
