//! Probable mistakes: unknown fields and empty files are warned about, and rejected with `--strict`. Also directories
//! and gzip files as input.

use crate::offline::{Ran, run_with_input};
use crate::support::Files;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

const NODE: &str =
    "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 4, memory: 1Gi, pods: 10}}\n";
const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n";
/// A pod with an unknown field of the container in line 6 and of the spec in line 9.
const MISSPELT: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, resources: {request: {cpu: 1}}}\n  \
                        nodeSelector: {}\n  containrs:\n  - {name: d}\n";
const WARNINGS: [&str; 2] = [
    "pods:6:36: Pod has no field spec.containers[0].resources.request, which is ignored; did you mean requests?",
    "pods:9:5: Pod has no field spec.containrs, which is ignored; did you mean containers?",
];

fn warnings(ran: &Ran) -> Vec<&str> {
    ran.stderr.lines().filter_map(|line| line.strip_prefix("warning: ")).collect()
}

#[test]
fn unknown_fields_are_warned_about_and_rejected_with_strict() {
    let files = Files::with(NODE, MISSPELT);
    let ran = files.simulate(&["-o", "json"]);
    let mut warning_lines = warnings(&ran);
    warning_lines.sort_unstable();
    assert_eq!((warning_lines, ran.code), (WARNINGS.to_vec(), Some(0)), "{ran:?}");
    let refused = files.simulate(&["-o", "json", "--strict"]);
    assert!(WARNINGS.contains(&refused.refused()), "{refused:?}");
    let strict = Files::with(NODE, POD).simulate(&["-o", "json", "--strict"]);
    assert_eq!((strict.code, warnings(&strict).len()), (Some(0), 0), "{strict:?}");
}

#[test]
fn every_command_checks_unknown_fields() {
    let files = Files::with(NODE, POD);
    files.write("bad", &MISSPELT.replace("name: p", "name: q"));
    let test = "apiVersion: supercargo.dev/v1alpha1\nkind: PlacementTest\nmetadata: {name: t}\ncluster: [cluster]\npods: [bad]\n\
                tests:\n- {name: placed, pods: {name: q}, expect: {scheduled: true}}\n";
    files.write("test.yaml", test);
    let commands: [&[&str]; 7] = [
        &["simulate", "--cluster", "cluster", "--pods", "bad"],
        &["simulate", "--cluster", "cluster", "--pods", "bad", "--remove-node", "node/a"],
        &["fit", "--cluster", "cluster", "-f", "bad"],
        &["lint", "bad", "--cluster", "cluster"],
        &["explain", "pod/q", "--cluster", "cluster", "bad"],
        &["report", "--cluster", "cluster", "--pods", "bad", "-f", "page.html"],
        &["test", "test.yaml"],
    ];
    for args in commands {
        let ran = run_with_input(files.path(), args, "");
        assert_eq!(warnings(&ran).len(), 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("did you mean containers?"), "{args:?}: {ran:?}");
        let strict = run_with_input(files.path(), &[args, &["--strict"]].concat(), "");
        assert_eq!(strict.code, Some(2), "{args:?}: {strict:?}");
        assert!(
            strict.stderr.contains("bad:") && strict.stderr.contains("has no field"),
            "{args:?}: {strict:?}"
        );
    }
}

#[test]
fn many_unknown_fields_are_partly_named_and_counted() {
    let many: String = (0..30).map(|at| format!("  field{at}: 1\n")).collect();
    let ran = Files::with(NODE, &format!("{POD}{many}")).simulate(&["-o", "json"]);
    let warning_lines = warnings(&ran);
    assert_eq!(
        (warning_lines.len(), warning_lines.last()),
        (11, Some(&"and 20 more unknown fields")),
        "{ran:?}"
    );
}

#[test]
fn empty_files_are_warned_about_and_rejected_with_strict() {
    for empty in ["", "\n\n", "# nothing\n---\n"] {
        for (cluster, pods, name) in [(NODE, empty, "pods"), (empty, POD, "cluster")] {
            let files = Files::with(cluster, pods);
            let message = format!("{name}: the file is empty; expected objects in YAML or JSON");
            assert_eq!(warnings(&files.simulate(&["-o", "json"])), [message.as_str()], "{empty:?}");
            assert_eq!(files.simulate(&["-o", "json", "--strict"]).refused(), message, "{empty:?}");
        }
    }
    // The output of kubectl for a kind without objects.
    let none = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;
    let ran = run_with_input(
        Files::with(NODE, POD).path(),
        &["simulate", "--cluster", "cluster", "-", "--pods", "pods", "--strict"],
        none,
    );
    assert_eq!((ran.code, warnings(&ran).len()), (Some(0), 0), "{ran:?}");
}

#[test]
fn directories_and_gzip_files_are_read() {
    let files = Files::with(NODE, POD);
    let folder = files.path().join("dump");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("nodes.yaml"), NODE).expect("a file");
    std::fs::write(folder.join("README.md"), "no objects").expect("a file");
    let compressed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("writing to memory succeeds");
        encoder.finish().expect("writing to memory succeeds")
    };
    std::fs::write(files.path().join("pods.yaml.gz"), compressed(POD)).expect("a file");
    let ran = files.run(&["--cluster", "dump", "--pods", "pods.yaml.gz", "-o", "json"], "");
    assert_eq!(ran.placed(), [("default/p".to_owned(), Some("a".to_owned()))], "{ran:?}");
    std::fs::write(files.path().join("bad.gz"), compressed(MISSPELT)).expect("a file");
    let ran = files.run(&["--cluster", "dump", "--pods", "bad.gz", "-o", "json"], "");
    assert!(warnings(&ran).contains(&WARNINGS[1].replace("pods", "bad.gz").as_str()), "{ran:?}");
    std::fs::create_dir(files.path().join("none")).expect("a folder");
    let ran = files.run(&["--cluster", "none", "--pods", "pods"], "");
    assert!(ran.refused().starts_with("none: the directory contains no *.yaml"), "{ran:?}");
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    \
                          metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: i}]}\n";

#[test]
fn kind_under_a_wrong_version_is_warned_about_and_rejected_with_strict() {
    for (version, kind, at, meant) in [
        ("v1", "Deployment", "1:13", "apps/v1"),
        ("apps/v1beta1", "Deployment", "1:13", "apps/v1"),
        ("apps/v1", "deployment", "2:7", "Deployment"),
    ] {
        let text = DEPLOYMENT.replace("apps/v1", version).replace("Deployment", kind);
        let files = Files::with(NODE, &format!("{text}---\n{POD}"));
        let message = format!(
            "pods:{at}: kind {kind} of {version} is not read, so this object is ignored; did you mean {meant}?"
        );
        let ran = files.simulate(&["-o", "json"]);
        assert_eq!((warnings(&ran), ran.code), (vec![message.as_str()], Some(0)), "{ran:?}");
        assert_eq!(files.simulate(&["-o", "json", "--strict"]).refused(), message);
        let lint = run_with_input(files.path(), &["lint", "pods", "--strict"], "");
        assert_eq!((lint.code, lint.refused()), (Some(2), message.as_str()));
    }
    let twice = format!("{DEPLOYMENT}---\n{DEPLOYMENT}").replace("apps/v1", "v1");
    let ran = Files::with(NODE, &format!("{twice}---\n{POD}")).simulate(&["-o", "json"]);
    let message =
        "pods:1:13: kind Deployment of v1 is not read, so 2 objects are ignored; did you mean apps/v1?";
    assert_eq!(warnings(&ran), [message]);
}

#[test]
fn objects_that_scheduling_never_reads_cause_no_warning() {
    let others = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n\
                  apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\n---\n\
                  apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: r}\n---\n";
    let ran = Files::with(NODE, &format!("{others}{POD}")).simulate(&["-o", "json", "--strict"]);
    assert_eq!((ran.code, warnings(&ran).len()), (Some(0), 0), "{ran:?}");
}

#[test]
fn repeated_key_is_an_error_in_json_as_in_yaml() {
    let json = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\n\"spec\":{\"nodeSelector\":{\"disk\":\"ssd\"},\n\
                \"nodeSelector\":{},\"containers\":[{\"name\":\"c\"}]}}";
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  nodeSelector: {disk: ssd}\n  nodeSelector: {}\n  containers: [{name: c}]\n";
    for (text, place) in [(json, "3:14"), (yaml, "6:3")] {
        let message = format!("pods:{place}: expected YAML or JSON: duplicate mapping key: nodeSelector");
        assert_eq!(Files::with(NODE, text).simulate(&["-o", "json"]).refused(), message);
    }
}
