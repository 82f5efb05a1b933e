//! Configuration files, valid and invalid, compared with the real kube-scheduler.
//!
//! Each `fixtures/config/valid/NAME.yaml` has a `NAME.effective.yaml`, written by the real one with
//! `--write-config-to`. Each `fixtures/config/invalid/NAME.yaml` has a `NAME.answer.txt` with its error.
//! `fixtures/config/ask.sh` creates both, and in `versions` the defaults of each version. It runs
//!
//! ```sh
//! kube-scheduler --config NAME.yaml --write-config-to NAME.effective.yaml --master http://127.0.0.1:1 --secure-port 0
//! ```
//!
//! Supercargo's messages for the invalid files are in `fixtures/config/messages.txt`; `UPDATE_EXPECT=1` rewrites them.

#[path = "config/command_lines.rs"]
mod command_lines;
#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;

use offline::{Ran, assert_matches_file, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use supercargo_config::{ConfigError, Effective, Flags, Problem, Settings};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::intern::Tables;

/// Files whose problem concerns no field, so that the message differs from upstream's.
const IN_OTHER_WORDS: [&str; 15] = [
    "a-list",
    "a-text",
    "args-api-version-a-number",
    "bad-base64",
    "braces-that-are-no-json",
    "client-qps-not-a-number",
    "kind-of-arguments",
    "no-api-version",
    "no-kind",
    "not-yaml",
    "nothing",
    "old-version",
    "tabs",
    "version-of-no-group",
    "version-v1beta2",
];

fn fixtures() -> PathBuf {
    root().join("tests/fixtures/config")
}

/// Returns the files of a folder, without kube-scheduler's answers.
fn files(folder: &str) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(fixtures().join(folder)).expect("the folder is there");
    let files = listed.map(|entry| entry.expect("it can be listed").path());
    let is_question = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".yaml") && !name.ends_with(".effective.yaml")
    };
    let mut files: Vec<_> = files.filter(is_question).collect();
    files.sort();
    files
}

fn name_of(file: &Path) -> &str {
    file.file_stem().and_then(|name| name.to_str()).expect("a name is text")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("it is YAML")
}

/// Collects the differences of two values. Numbers are compared as numbers: 1 equals 1.0.
fn differences(path: &str, expected: &Value, got: &Value, into: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(e), Value::Object(g)) => {
            for key in e.keys().chain(g.keys()).collect::<BTreeSet<_>>() {
                let of =
                    |side: &serde_json::Map<String, Value>| side.get(key).cloned().unwrap_or(Value::Null);
                differences(&format!("{path}.{key}"), &of(e), &of(g), into);
            }
        }
        (Value::Array(e), Value::Array(g)) if e.len() == g.len() => {
            for (at, (e, g)) in e.iter().zip(g).enumerate() {
                differences(&format!("{path}[{at}]"), e, g, into);
            }
        }
        (Value::Number(e), Value::Number(g)) if e.as_f64() == g.as_f64() => {}
        _ if expected != got => into.push(format!("{path}: expected {expected}, got {got}")),
        _ => {}
    }
}

#[test]
fn valid_file_has_the_same_settings_as_in_kube_scheduler() {
    let mut wrong = Vec::new();
    let files = files("valid");
    assert!(files.len() >= 109, "{} files", files.len());
    for file in files {
        match Effective::load(&file, &Flags::default()) {
            Ok(effective) => {
                let expected = yaml(&read(&file.with_extension("effective.yaml")));
                differences(name_of(&file), &expected, &yaml(&effective.to_yaml()), &mut wrong);
            }
            Err(error) => wrong.push(error.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// Fields, plugins and weights of `versions`, which each version's real kube-scheduler wrote.
#[test]
fn default_configuration_is_that_of_the_version() {
    let file = fixtures().join("valid/empty.yaml");
    for version in EmulatedVersion::ALL {
        let flags = Flags { emulated_version: version, ..Flags::default() };
        let effective = Effective::load(&file, &flags).expect("it is valid in every version");
        let expected = yaml(&read(&fixtures().join(format!("versions/{version}.yaml"))));
        let mut wrong = Vec::new();
        differences(version.as_str(), &expected, &yaml(&effective.to_yaml()), &mut wrong);
        assert_eq!(wrong, [""; 0]);
    }
}

#[test]
fn invalid_file_gives_the_same_errors_as_kube_scheduler() {
    let (mut wrong, mut messages) = (Vec::new(), String::new());
    let files = files("invalid");
    assert!(files.len() >= 180, "{} files", files.len());
    for file in files {
        let answer = read(&file.with_extension("answer.txt"));
        match Effective::load(&file, &Flags::default()) {
            Ok(_) => wrong.push(format!("{}: taken, but upstream says {answer}", name_of(&file))),
            Err(ConfigError::Read { source, .. }) => panic!("{}: {source}", file.display()),
            Err(ConfigError::Invalid { problems, .. }) => {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                messages.push_str(&format!("{}\n  {}\n", name_of(&file), lines.join("\n  ")));
                if !IN_OTHER_WORDS.contains(&name_of(&file)) && !agree(&problems, answer.trim()) {
                    wrong.push(format!("{}:\n  {}\n  {answer}", name_of(&file), lines.join("\n  ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert_matches_file("tests/fixtures/config/messages.txt", &messages);
}

/// Returns whether problems match upstream's answer: equal, or in the same fields if upstream's text names Go
/// types.
fn agree(problems: &[Problem], answer: &str) -> bool {
    let shown: Vec<String> = problems.iter().map(|p| format!("{}: {}", p.path, p.text)).collect();
    let all = if let [only] = shown.as_slice() { only.clone() } else { format!("[{}]", shown.join(", ")) };
    let is_reported = |problem: &Problem| {
        let field = problem.path.rsplit('.').next().unwrap_or_default();
        let field = field.split('[').next().unwrap_or_default();
        let says_the_same = answer.contains(&problem.text);
        let names_the_field = answer.contains(field) && !field.is_empty();
        // The name replaces upstream's `{}`.
        says_the_same
            || names_the_field && (is_of_decoding(answer) || problem.text.starts_with("Duplicate value"))
    };
    all == answer || is_validation(answer) == shown_is_validation(&all) && problems.iter().all(is_reported)
}

fn is_of_decoding(answer: &str) -> bool {
    [
        "strict decoding error",
        "decoding .",
        "json: ",
        "no kind",
        "couldn't decode",
        "illegal base64",
        "time: ",
    ]
    .iter()
    .any(|start| answer.starts_with(start))
}

/// Several validation problems must be equal, which was checked before.
fn is_validation(answer: &str) -> bool {
    answer.starts_with('[')
}

fn shown_is_validation(shown: &str) -> bool {
    shown.starts_with('[') && !shown.contains("strict decoding error")
}

fn supercargo(args: &[&str]) -> Ran {
    offline::run(root(), args)
}

#[test]
fn write_config_to_writes_the_file_and_exits() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (file, out) = (fixtures().join("valid/args-of-everything.yaml"), folder.path().join("out.yaml"));
    let (file_text, out_text) = (file.to_string_lossy(), out.to_string_lossy());
    let output =
        supercargo(&["--config", &file_text, "--write-config-to", &out_text, "--emulated-version=1.36"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let mut wrong = Vec::new();
    let expected = yaml(&read(&file.with_extension("effective.yaml")));
    differences("", &expected, &yaml(&read(&out)), &mut wrong);
    assert_eq!(wrong, [""; 0]);
    let checked = supercargo(&["config", "check", &out_text]);
    assert_eq!(checked.code, Some(0), "the written file is valid: {}{}", checked.stdout, checked.stderr);
}

#[test]
fn invalid_extender_address_exits_with_2() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("extenders.yaml");
    for (extender, expected) in [
        ("urlPrefix: nowhere", "couldn't build extenders: "),
        (
            "urlPrefix: https://x, tlsConfig: {caFile: no-such-file}",
            "couldn't build extenders: cannot read no-such-file: No such file or directory",
        ),
        (
            "urlPrefix: https://x, tlsConfig: {caData: bm90aGluZw==}",
            "couldn't build extenders: unable to load root certificates: unable to parse bytes as PEM block",
        ),
        (
            "urlPrefix: https://x, tlsConfig: {insecure: true, caFile: f}",
            "couldn't build extenders: specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            "urlPrefix: https://x, enableHTTPS: true, tlsConfig: {certData: bm90aGluZw==}",
            "couldn't build extenders: client certificate and key must be set together",
        ),
    ] {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [{{{extender}}}]\n"
        );
        std::fs::write(&file, text).expect("the folder can be written to");
        let kubeconfig = folder.path().join("no-kubeconfig");
        let (file, kubeconfig) = (file.to_string_lossy(), kubeconfig.to_string_lossy());
        let output = supercargo(&["--config", &file, "--kubeconfig", &kubeconfig]);
        let error = &output.stderr;
        assert_eq!(output.code, Some(2), "{extender}: {error}");
        assert!(error.contains(&format!("extenders.yaml:3:1: extenders: {expected}")), "{extender}: {error}");
    }
}

#[test]
fn invalid_file_exits_with_2_and_names_the_position() {
    for (file, expected) in [
        (
            "invalid/parallelism.yaml",
            "parallelism.yaml:3:1: parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        ("invalid/unknown-plugin.yaml", "unknown-plugin.yaml:4:32: profiles[0].plugins.filter.enabled[0]: "),
        ("invalid/no-such-file.yaml", "cannot read"),
    ] {
        let path = fixtures().join(file);
        let output = supercargo(&["--config", &path.to_string_lossy()]);
        let error = &output.stderr;
        assert_eq!(output.code, Some(2), "{file}: {error}");
        assert!(error.contains(expected), "{file}: {error}");
    }
}

#[test]
fn invalid_flag_or_gate_exits_with_2_and_says_what_to_do() {
    for (args, expected) in [
        (
            &["--scheduler-name=x"][..],
            "unknown flag: --scheduler-name (removed from kube-scheduler; use profiles[0].schedulerName",
        ),
        (
            &["--lock_object_name", "x"],
            "unknown flag: --lock_object_name (removed from kube-scheduler; use --leader-elect-resource-name)",
        ),
        (&["--feature-gates=Foo=true"], "--feature-gates: unrecognized feature gate: Foo"),
        (
            &["--emulated-version=1.36", "--feature-gates", "kube:StorageCapacityScoring=true"],
            "cannot set feature gate StorageCapacityScoring to true: it changes scheduling",
        ),
    ] {
        let output = supercargo(args);
        let error = &output.stderr;
        assert_eq!(output.code, Some(2), "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn config_check_and_diff_exit_codes_match_their_findings() {
    let path = |file: &str| fixtures().join(file).to_string_lossy().into_owned();
    let (one, same) =
        (path("valid/leader-off-with-nonsense.yaml"), path("valid/leader-off-with-nonsense.yaml"));
    let (other, wrong) = (path("valid/backoff.yaml"), path("invalid/unknown-plugin.yaml"));
    for (args, code, out, err) in [
        (vec!["check", &one], 0, "valid, with profile default-scheduler\n", ""),
        (vec!["check", &wrong], 2, "", "unknown-plugin.yaml: 1 problem\n"),
        (vec!["check", "no-such-file.yaml"], 2, "", "cannot read no-such-file.yaml: "),
        (vec!["diff", &one, &same], 0, "", ""),
        (vec!["diff", &one, &other], 1, "leaderElection.leaderElect: false -> true (needs a restart)\n", ""),
        (vec!["diff", &one, &wrong], 2, "", "unknown-plugin.yaml:4:32: "),
        (vec!["diff", &one], 2, "", "Usage: supercargo config diff <A> <B>"),
    ] {
        let output = supercargo(&[vec!["config"], args.clone()].concat());
        let (stdout, stderr) = (&output.stdout, &output.stderr);
        assert_eq!(output.code, Some(code), "{args:?}: {stdout}{stderr}");
        assert!(stdout.contains(out) && stderr.contains(err), "{args:?}: {stdout}{stderr}");
        assert_eq!((stdout.is_empty(), stderr.is_empty()), (out.is_empty(), err.is_empty()), "{args:?}");
    }
}

/// Returns the plugins at an extension point of the first profile of a valid file.
fn plugins_at(file: &str, point: ExtensionPoint) -> String {
    let flags = Flags::without_election();
    let file = fixtures().join("valid").join(file);
    let effective = Effective::load(&file, &flags).unwrap_or_else(|error| panic!("{error}"));
    let settings = Settings::of(&effective).unwrap_or_else(|error| panic!("{error}"));
    settings.profiles[0].framework(&mut Tables::new()).plugins_at(point).join(" ")
}

/// The list kube-scheduler logs at `-v=2` ("the scheduler starts to work with those plugins").
#[test]
fn plugins_run_in_upstream_order() {
    let after = "NodeUnschedulable NodeName TaintToleration NodeAffinity NodeResourcesFit VolumeRestrictions \
                 NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread DynamicResources NodeDeclaredFeatures";
    for (file, point, expected) in [
        (
            "explicit-first.yaml",
            ExtensionPoint::Filter,
            format!("InterPodAffinity NodePorts {after}").as_str(),
        ),
        (
            "explicit-first.yaml",
            ExtensionPoint::PreFilter,
            "NodePorts NodeAffinity NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone \
             PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures",
        ),
        ("everything-disabled-at-a-point.yaml", ExtensionPoint::Score, "TaintToleration"),
        ("post-filter-disabled.yaml", ExtensionPoint::PostFilter, "DynamicResources"),
        ("points-without-multi-point.yaml", ExtensionPoint::Filter, "NodeName"),
        ("points-without-multi-point.yaml", ExtensionPoint::PreFilter, ""),
        ("multi-point-from-scratch.yaml", ExtensionPoint::Score, "NodeResourcesFit"),
        (
            "score-weights.yaml",
            ExtensionPoint::Score,
            "ImageLocality NodeAffinity TaintToleration NodeResourcesFit VolumeBinding PodTopologySpread \
             InterPodAffinity DynamicResources NodeResourcesBalancedAllocation",
        ),
        (
            "moved-to-the-end.yaml",
            ExtensionPoint::Filter,
            "NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions \
             NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
             NodeDeclaredFeatures NodeName",
        ),
    ] {
        assert_eq!(plugins_at(file, point), expected, "{file} {point:?}");
    }
}

#[test]
fn config_page_shows_the_output_of_its_examples() {
    offline::assert_page_shows_output("docs/config.md", 3);
}
