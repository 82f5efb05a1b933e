//! `supercargo test`: expectations that hold and fail, errors in test files with their position, and all
//! output formats.
//!
//! Expected outputs are in `placement/shown` and docs/placement-test.md; `UPDATE_EXPECT=1` rewrites them.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;

use offline::{Folder, Ran, assert_matches_file, assert_page_shows_output, list, root};
use serde_json::{Value, json};
use std::path::Path;

fn run(folder: &Path, args: &[&str]) -> Ran {
    offline::run(folder, &[&["test"], args].concat())
}

fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "zone": zone } },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
    })
}

/// A pod labelled with the first letter of its name, on a node or pending.
fn pod(name: &str, node: Option<&str>, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": &name[..1] } },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] },
    })
}

/// Three nodes in two zones: two pods `w` in one zone, one in the other, and a pending pod that is too large.
fn folder(head: &str, tests: &Value) -> Folder {
    let cluster = [
        node("a", "x"),
        node("b", "x"),
        node("c", "y"),
        pod("w1", Some("a"), "1"),
        pod("w2", Some("b"), "1"),
        pod("w3", Some("c"), "1"),
    ];
    let folder = Folder::with(&list(&cluster));
    folder.write("pods", &pod("large", None, "9").to_string());
    let text = format!(
        "apiVersion: supercargo.dev/v1alpha1\nkind: PlacementTest\ncluster: [cluster]\npods: [pods]\n{head}tests: {tests}\n"
    );
    // YAML requires escapes for these characters.
    folder.write("test.yaml", &text.replace('\u{fffe}', "\\ufffe"));
    folder
}

/// Returns the failures of an expectation about these pods, with changes.
fn failures_with(head: &str, pods: &Value, expect: &Value) -> Vec<String> {
    let folder = folder(head, &json!([{ "name": "it", "pods": pods, "expect": expect }]));
    let ran = run(folder.path(), &["test.yaml", "-o", "json"]);
    let report = ran.json("PlacementTestReport");
    let failures = report["files"][0]["tests"][0]["failures"].as_array().expect("a list");
    let all: Vec<String> = failures.iter().map(|it| it.as_str().expect("a text").to_owned()).collect();
    assert_eq!(ran.code, Some(if all.is_empty() { 0 } else { 3 }));
    assert_eq!(
        (&report["passed"], &report["failed"]),
        (&json!(usize::from(all.is_empty())), &json!(usize::from(!all.is_empty())))
    );
    all
}

fn failures(pods: &Value, expect: &Value) -> Vec<String> {
    failures_with("", pods, expect)
}

fn web() -> Value {
    json!({ "labels": { "app": "w" } })
}

const NONE: [&str; 0] = [];

#[test]
fn placed_count_is_compared() {
    assert_eq!(failures(&web(), &json!({ "count": 3 })), NONE);
    assert_eq!(failures(&web(), &json!({ "count": 2 })), ["expected 2 pods, found 3"]);
    assert_eq!(failures(&json!({ "name": "absent" }), &json!({ "count": 0 })), NONE);
    let no_match = "no pod matches, so nothing can be checked";
    assert_eq!(failures(&json!({ "name": "absent" }), &json!({ "scheduled": false })), [no_match]);
    assert_eq!(
        failures(&json!({ "namespace": "other", "name": "w1" }), &json!({ "scheduled": true })),
        [no_match]
    );
}

#[test]
fn pods_are_expected_to_be_placed_or_pending() {
    let all = json!({ "namespace": "default" });
    assert_eq!(failures(&web(), &json!({ "scheduled": true })), NONE);
    let because = "InsufficientCpu (requests 9 cpu; even when empty, the largest of these nodes has only 4)";
    let one = format!(
        "expected all 4 pods to be placed, 1 is pending: default/large; reasons of the first: {because}"
    );
    assert_eq!(failures(&all, &json!({ "scheduled": true })), [one]);
    assert_eq!(failures(&all, &json!({ "scheduledAtLeast": 3 })), NONE);
    let short = format!(
        "expected at least 4 of 4 pods to be placed, 1 is pending: default/large; reasons of the first: {because}"
    );
    assert_eq!(failures(&all, &json!({ "scheduledAtLeast": 4 })), [short]);
    assert_eq!(failures(&json!({ "name": "large" }), &json!({ "scheduled": false })), NONE);
    let none = "expected none of 1 pod to be placed, found 1: default/w1 on a";
    assert_eq!(failures(&json!({ "name": "w1" }), &json!({ "scheduled": false })), [none]);
}

#[test]
fn pods_are_expected_on_or_off_nodes() {
    let on = |choice: Value| failures(&web(), &json!({ "onNodes": choice }));
    let not_on = |choice: Value| failures(&web(), &json!({ "notOnNodes": choice }));
    assert_eq!(on(json!({ "names": ["a", "b", "c"] })), NONE);
    assert_eq!(
        on(json!({ "labels": { "zone": "x" } })),
        ["1 is not on the nodes with zone=x: default/w3 on c"]
    );
    assert_eq!(on(json!({ "names": ["a", "c"], "labels": { "zone": "y" } })).len(), 1);
    assert_eq!(not_on(json!({ "names": ["b"] })), ["1 is on the nodes b: default/w2 on b"]);
    assert_eq!(
        failures(&json!({ "name": "w1" }), &json!({ "notOnNodes": { "labels": { "zone": "y" } } })),
        NONE
    );
    // An expectation that applies to no node fails.
    assert_eq!(
        not_on(json!({ "labels": { "zone": "z" } })),
        ["no node matches the nodes with zone=z, so placement cannot be checked"]
    );
}

#[test]
fn spread_over_domains_is_compared() {
    let spread = |of: Value| failures(&web(), &json!({ "spread": of }));
    assert_eq!(spread(json!({ "topologyKey": "zone", "maxSkew": 1, "atLeast": 1 })), NONE);
    let failures = spread(json!({ "topologyKey": "zone", "maxSkew": 0, "atLeast": 2 }));
    let expected = [
        "expected a skew of at most 0 over zone, found 1: 2 in x, 1 in y",
        "expected at least 2 pods in each zone: y has 1",
    ];
    assert_eq!(failures, expected);
    assert_eq!(
        spread(json!({ "topologyKey": "zone", "maxSkew": 0, "nodes": { "names": ["a", "c"] } })),
        NONE
    );
    assert_eq!(
        spread(json!({ "topologyKey": "rack", "maxSkew": 0 })),
        ["none of the selected nodes has the label rack"]
    );
}

#[test]
fn pending_reason_is_compared() {
    let waits = |code: &str| failures(&json!({ "name": "large" }), &json!({ "pendingFor": code }));
    assert_eq!(waits("InsufficientCpu"), NONE);
    assert_eq!(
        waits("UntoleratedTaint"),
        ["1 pod is pending for a reason other than UntoleratedTaint (InsufficientCpu): default/large"]
    );
    let placed = failures(&web(), &json!({ "pendingFor": "InsufficientCpu" }));
    assert_eq!(placed, ["expected pods pending for InsufficientCpu, but all are placed"]);
}

#[test]
fn node_expectation_fails_for_pending_pods() {
    let unknown = "none of 1 pod has a node, so placement cannot be checked";
    for expect in [
        json!({ "onNodes": { "names": ["a"] } }),
        json!({ "notOnNodes": { "names": ["a"] } }),
        json!({ "spread": { "topologyKey": "zone", "maxSkew": 1 } }),
    ] {
        assert_eq!(failures(&json!({ "name": "large" }), &expect), [unknown], "{expect}");
    }
}

#[test]
fn changes_apply_before_pods_are_placed() {
    let gone = "changes: {removeNodes: [b, c]}\n";
    let expect =
        json!({ "scheduled": true, "onNodes": { "names": ["a"] }, "notOnNodes": { "names": ["b"] } });
    assert_eq!(failures_with(gone, &web(), &expect), NONE);
    let grown = "changes: {addNodes: ['2:template=c']}\n";
    let expect = json!({ "spread": { "topologyKey": "kubernetes.io/hostname", "atLeast": 1 } });
    let failures = failures_with(grown, &web(), &expect);
    assert_eq!(
        failures,
        ["expected at least 1 pod in each kubernetes.io/hostname: c-new-1 has 0, c-new-2 has 0"]
    );
}

#[test]
fn workload_is_not_scaled_by_its_file_and_the_changes_at_once() {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web" },
        "spec": { "selector": { "matchLabels": { "app": "w" } }, "template": {
            "metadata": { "labels": { "app": "w" } }, "spec": pod("w", None, "1")["spec"],
        } },
    });
    let tests = json!([{ "name": "it", "pods": web(), "expect": { "scheduled": true } }]);
    let folder = folder("changes: {scale: [web=2]}\n", &tests);
    folder.write("pods", &set.to_string());
    let ran = run(folder.path(), &["test.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("ReplicaSet default/web is among the pods to place"), "{}", ran.stderr);
}

/// Returns the error output for an invalid test file.
fn wrong(text: &str) -> String {
    let folder = folder("", &json!([]));
    folder.write("t", text);
    let ran = run(folder.path(), &["t"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    ran.stderr
}

const HEAD: &str = "apiVersion: supercargo.dev/v1alpha1\nkind: PlacementTest\ncluster: [cluster]\n";

#[test]
fn problems_in_a_test_file_are_shown_with_their_line() {
    let message =
        wrong(&format!("{HEAD}tests:\n- name: it\n  pods: {{name: w1}}\n  expect: {{schedulled: true}}\n"));
    let expected = "\
t:7:12: tests[0].expect.schedulled: strict decoding error: unknown field \"tests[0].expect.schedulled\"
  |
7 |   expect: {schedulled: true}
  |            ^ did you mean \"scheduled\"?
t: 1 problem
";
    assert_eq!(message, expected);
    let message = wrong(&format!(
        "{HEAD}preemption: aply\ntests:\n- pods: {{name: w1}}\n  expect: {{pendingFor: InsuficientCpu}}\n"
    ));
    for part in [
        "t:4:1: preemption: expected report, apply or off, found \"aply\"\n",
        "^ did you mean \"apply\"?\n",
        "t:6:3: tests[0]: expected a name\n",
        "t:7:12: tests[0].expect.pendingFor: \"InsuficientCpu\" is not one of the reasons in docs/explain.md\n",
        "^ did you mean \"InsufficientCpu\"?\n",
        "t: 3 problems\n",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    let message = wrong(&format!(
        "{HEAD}tests:\n- name: it\n  pods: {{name: w1}}\n  expect: {{notOnNodes: {{names: [aa]}}}}\n"
    ));
    assert!(message.contains("tests[0].expect.notOnNodes.names[0]: node aa not found\n"), "{message}");
}

#[test]
fn test_without_expectations_is_an_error() {
    for (rest, part) in [
        ("", "tests: expected 1 to 10000 tests, found 0"),
        ("tests: [{name: it, pods: {name: a}}]\n", "tests[0].expect: expected at least one of count, "),
        (
            "tests: [{name: it, expect: {count: 1}}]\n",
            "tests[0].pods: expected at least one of namespace, name, workload or labels",
        ),
        (
            "tests: [{name: it, pods: {name: a}, expect: {count: -1}}]\n",
            "tests[0].expect.count: must not be negative",
        ),
        (
            "tests: [{name: it, pods: {name: a}, expect: {onNodes: {}}}]\n",
            "tests[0].expect.onNodes: expected names or labels",
        ),
        (
            "tests: [{name: it, pods: {name: a}, expect: {spread: {maxSkew: 1}}}]\n",
            "tests[0].expect.spread: expected a topologyKey",
        ),
        (
            "tests: [{name: it, pods: {name: a}, expect: {spread: {topologyKey: z}}}]\n",
            "tests[0].expect.spread: expected maxSkew or atLeast",
        ),
        ("tests: 3\n", "tests: expected a list, found the number 3"),
        (
            "changes: {scale: [web]}\ntests: []\n",
            "changes.scale[0]: expected [KIND/]NAME=N, for example web=5",
        ),
        ("changes: {addNodes: [two]}\ntests: []\n", "changes.addNodes[0]: expected N:template=NODE"),
    ] {
        let error = wrong(&format!("{HEAD}{rest}"));
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn missing_test_files_are_reported() {
    assert!(
        wrong("kind: PlacementTests\n")
            .contains("kind: expected \"PlacementTest\", found \"PlacementTests\"")
    );
    assert!(wrong("[").starts_with("t:"));
    assert!(wrong(&format!("{HEAD}tests: [&a [*a]]\n")).contains("t:4:"), "an alias inside itself");
    let deep = format!("{HEAD}tests: {}", "[".repeat(100_000));
    assert!(wrong(&deep).starts_with("t:"));
    // A small file with 40 million names after expansion of its aliases.
    let names = format!("x: &n [{}]\n", ["a"; 20_000].join(","));
    let case = "{name: it, pods: {name: a}, expect: {onNodes: {names: *n}}}";
    let bomb = format!(
        "{HEAD}seed: 0\nmetadata: {{{}}}\ntests: [&c {case}, {}]\n",
        names.trim_end(),
        ["*c"; 2_000].join(",")
    );
    let message = wrong(&bomb);
    assert!(message.starts_with("t: the file has more than 2000000 nodes"), "{message}");
    let folder = folder("", &json!([{ "name": "it", "pods": { "name": "a" }, "expect": { "count": 1 } }]));
    let missing = run(folder.path(), &["absent"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.starts_with("error: absent: "), "{}", missing.stderr);
    std::fs::remove_file(folder.path().join("cluster")).expect("it is there");
    let missing = run(folder.path(), &["test.yaml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("error: cluster: cannot be read: "), "{}", missing.stderr);
    assert_eq!(run(folder.path(), &[]).code, Some(2));
}

#[test]
fn junit_report_is_well_formed_for_any_names() {
    let evil = "<it> & \"that\" 'so' \u{1}\u{202e} \u{fffe} ]]>";
    let case =
        |expect: Value| json!({ "name": evil, "pods": { "labels": { "app": "w" } }, "expect": expect });
    let tests = json!([
        case(json!({ "count": 3 })),
        case(json!({ "count": 2, "spread": { "topologyKey": "<&>", "maxSkew": 1 } }))
    ]);
    let folder = folder("", &tests);
    let ran = run(folder.path(), &["test.yaml", "-o", "junit"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let document =
        roxmltree::Document::parse(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout));
    let suites = document.root_element();
    assert_eq!(
        (suites.tag_name().name(), suites.attribute("tests"), suites.attribute("failures")),
        ("testsuites", Some("2"), Some("1"))
    );
    let cases: Vec<_> = document.descendants().filter(|it| it.has_tag_name("testcase")).collect();
    assert_eq!(cases.len(), 2);
    assert!(cases[0].attribute("name").is_some_and(|name| name.starts_with("<it> & \"that\" 'so' ")));
    let failure = cases[1].children().find(|it| it.has_tag_name("failure")).expect("it failed");
    assert_eq!(failure.attribute("message"), Some("expected 2 pods, found 3"));
    assert_eq!(
        failure.text(),
        Some("expected 2 pods, found 3; none of the selected nodes has the label <&>")
    );
    assert!(!cases[0].children().any(|it| it.has_tag_name("failure")));
}

#[test]
fn every_output_format_matches_its_snapshot() {
    for form in ["table", "json", "junit"] {
        let ran = run(root(), &["docs/placement-test/shop.yaml", "-o", form]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(3), ""), "{form}");
        assert_matches_file(&format!("tests/placement/shown/{form}.txt"), &ran.stdout);
    }
}

#[test]
fn placement_test_documentation_shows_real_output() {
    assert_page_shows_output("docs/placement-test.md", 1);
}
