//! What a file means and what is refused. Whole files against the real kube-scheduler's answers are in `tests/config.rs`.

use super::*;
use std::time::Duration;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
const ALONE: Flags = Flags { leader_elect: Some(false) };

fn parse(rest: &str) -> Result<Settings, String> {
    let effective = Effective::parse(Path::new("f.yaml"), &format!("{HEAD}{rest}"), &ALONE);
    effective.and_then(|effective| Settings::of(&effective)).map_err(|e| e.to_string())
}

#[test]
fn a_profile_without_a_name_is_the_default_scheduler() {
    for text in ["", "profiles: [{}]\n"] {
        let settings = parse(text).expect("a valid file");
        let names: Vec<_> = settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names, ["default-scheduler"]);
        assert_eq!(settings.max_backoff, Duration::from_secs(10));
    }
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let error = parse("podMaxBackoffSeconds: 5\npodInitialBackofSeconds: 3\n").expect_err("misspelt");
    assert_eq!(
        error,
        "f.yaml:4:1: podInitialBackofSeconds: strict decoding error: unknown field \"podInitialBackofSeconds\""
    );
}

#[test]
fn what_this_version_does_not_do_is_refused_by_field() {
    for (rest, field) in [
        ("extenders: [{urlPrefix: x}]\n", "extenders"),
        ("percentageOfNodesToScore: 50\n", "percentageOfNodesToScore"),
        ("profiles: [{percentageOfNodesToScore: 0}]\n", "profiles[0].percentageOfNodesToScore"),
        ("enableProfiling: true\n", "enableProfiling"),
        ("delayCacheUntilActive: true\n", "delayCacheUntilActive"),
    ] {
        let error = parse(rest).expect_err(field);
        assert!(error.starts_with("f.yaml:3:") && error.contains(&format!(": {field}: ")), "{rest}: {error}");
    }
    for rest in ["", "leaderElection: {leaderElect: true}\n"] {
        let effective = Effective::parse(Path::new("f.yaml"), &format!("{HEAD}{rest}"), &Flags::default());
        let error =
            Settings::of(&effective.expect("a valid file")).expect_err("nobody can be elected").to_string();
        assert!(error.contains("leaderElection.leaderElect: leader election is not part"), "{error}");
    }
}

#[test]
fn a_flag_overrides_the_file() {
    assert!(parse("leaderElection: {leaderElect: true}\n").is_ok());
}

#[test]
fn another_version_is_refused() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n";
    let error = Effective::parse(Path::new("f.yaml"), text, &ALONE).expect_err("v1beta3 is gone").to_string();
    assert!(error.starts_with("f.yaml:1:1: apiVersion: no kind") && error.contains("v1beta3"), "{error}");
}

#[test]
fn without_a_file_one_profile_of_our_own_name_runs_the_defaults() {
    let named = parse("profiles: [{schedulerName: supercargo}]\n").expect("a valid file");
    assert_eq!(Settings::default(), named);
}
