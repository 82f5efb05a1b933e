//! Tests of settings and unsupported fields. `tests/config.rs` compares whole files with the real
//! kube-scheduler.

use super::*;
use crate::LeaseTerms;
use std::time::Duration;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn parse(rest: &str) -> Result<Settings, String> {
    parse_with(rest, &Flags::without_election())
}

fn parse_with(rest: &str, flags: &Flags) -> Result<Settings, String> {
    let effective = Effective::parse(Path::new("f.yaml"), &format!("{HEAD}{rest}"), flags);
    effective.and_then(|effective| Settings::of(&effective)).map_err(|e| e.to_string())
}

#[test]
fn unnamed_profile_is_default_scheduler() {
    for text in ["", "profiles: [{}]\n"] {
        let settings = parse(text).expect("a valid file");
        let names: Vec<_> = settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names, ["default-scheduler"]);
        assert_eq!(settings.max_backoff, Duration::from_secs(10));
    }
}

#[test]
fn unknown_field_is_reported_with_its_line() {
    let error = parse("podMaxBackoffSeconds: 5\npodInitialBackofSeconds: 3\n").expect_err("misspelt");
    assert_eq!(
        error,
        "f.yaml:4:1: podInitialBackofSeconds: strict decoding error: unknown field \"podInitialBackofSeconds\""
    );
}

#[test]
fn unsupported_field_is_rejected_by_name() {
    let error = parse("delayCacheUntilActive: true\n").expect_err("unsupported");
    assert!(error.starts_with("f.yaml:3:") && error.contains(": delayCacheUntilActive: "), "{error}");
}

#[test]
fn binding_timeout_of_devices_takes_effect() {
    let text = "profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 90s}}]}]\n";
    for (text, seconds) in [("", 600), (text, 90)] {
        let settings = parse(text).expect("a valid file");
        let plan = settings.profiles[0].plan(&mut supercargo_core::model::intern::Tables::new());
        assert_eq!(plan.args.dynamic_resources.binding_timeout, Duration::from_secs(seconds));
    }
}

#[test]
fn file_defaults_to_kube_schedulers_lease() {
    let seconds = Duration::from_secs;
    let terms =
        LeaseTerms { lease_duration: seconds(15), renew_deadline: seconds(10), retry_period: seconds(2) };
    let lease = |namespace: &str, name: &str, terms| {
        Some(ElectionSettings { namespace: namespace.to_owned(), name: name.to_owned(), terms })
    };
    let elected = parse_with("", &Flags::default()).expect("a valid file").election;
    assert_eq!(elected, lease("kube-system", "kube-scheduler", terms));
    assert_eq!(Settings::default().election, lease("kube-system", "supercargo", terms));
    let flags = Flags {
        lease_duration: Some(GoDuration::seconds(30)),
        resource_namespace: Some("there".to_owned()),
        ..Flags::default()
    };
    let rest =
        "leaderElection: {resourceName: mine, leaseDuration: 20s}\nprofiles: [{schedulerName: mine}]\n";
    let elected = parse_with(rest, &flags).expect("a valid file").election;
    assert_eq!(elected, lease("there", "mine", LeaseTerms { lease_duration: seconds(30), ..terms }));
}

#[test]
fn second_default_scheduler_is_rejected_unless_allowed() {
    let rest = "leaderElection: {resourceName: mine}\nprofiles: [{schedulerName: a}, {schedulerName: default-scheduler}]\n";
    let error = parse_with(rest, &Flags::default()).expect_err("kube-scheduler may run beside it");
    assert!(error.starts_with("f.yaml:4:") && error.contains(": profiles[1].schedulerName: "), "{error}");
    assert!(
        error.contains("kube-system/mine") && error.contains("--allow-second-default-scheduler"),
        "{error}"
    );
    let allowed = Flags { allow_second_default_scheduler: true, ..Flags::default() };
    assert!(parse_with(rest, &allowed).is_ok());
    assert!(parse(rest).is_ok(), "without a lease there is no other lease");
}

#[test]
fn unsafe_lease_durations_are_rejected() {
    for (times, field) in [
        ("{renewDeadline: 2400ms}", "renewDeadline"),
        ("{leaseDuration: 999ms, renewDeadline: 500ms, retryPeriod: 100ms}", "leaseDuration"),
    ] {
        let error = parse_with(&format!("leaderElection: {times}\n"), &Flags::default()).expect_err(field);
        assert!(
            error.starts_with("f.yaml:3:") && error.contains(&format!("leaderElection.{field}: ")),
            "{error}"
        );
    }
}

#[test]
fn node_sampling_needs_an_explicit_percentage() {
    let percentages = |rest: &str| {
        let settings = parse(rest).expect("a valid file");
        settings.profiles.iter().map(|profile| profile.percentage_of_nodes_to_score()).collect::<Vec<_>>()
    };
    assert_eq!(percentages(""), [None]);
    assert_eq!(percentages("percentageOfNodesToScore: null\n"), [None]);
    assert_eq!(percentages("percentageOfNodesToScore: 0\n"), [Some(0)]);
    let profiles = "profiles:\n- {schedulerName: a}\n- {schedulerName: b, percentageOfNodesToScore: 0}\n";
    assert_eq!(percentages(profiles), [None, Some(0)]);
    assert_eq!(percentages(&format!("percentageOfNodesToScore: 30\n{profiles}")), [Some(30), Some(0)]);
}

#[test]
fn flag_overrides_the_file() {
    assert!(parse("leaderElection: {leaderElect: true}\n").is_ok());
}

#[test]
fn other_api_version_is_rejected() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n";
    let error = Effective::parse(Path::new("f.yaml"), text, &Flags::default())
        .expect_err("v1beta3 is gone")
        .to_string();
    assert!(error.starts_with("f.yaml:1:1: apiVersion: no kind") && error.contains("v1beta3"), "{error}");
}

#[test]
fn default_settings_have_one_supercargo_profile() {
    let named = parse("profiles: [{schedulerName: supercargo}]\n").expect("a valid file");
    assert_eq!(Settings { election: None, ..Settings::default() }, named);
}
