//! Whole outputs compared with stored files.

use crate::offline::{assert_matches_file, assert_page_shows_output, page};
use crate::support::{Cluster, node, plain_node, pod, root, run};
use serde_json::json;

/// Compares with `explain/shown/NAME`, or rewrites it.
pub(crate) fn assert_output(name: &str, output: &str) {
    assert_matches_file(&format!("tests/explain/shown/{name}"), output);
}

/// A cluster that produces most kinds of output.
fn cluster() -> Cluster {
    let tainted = json!({ "taints": [{ "key": "gpu", "value": "a100", "effect": "NoSchedule" }] });
    let objects = [
        plain_node("a"),
        node("b", &json!({ "disk": "ssd" }), &json!({})),
        node("c", &json!({ "disk": "ssd" }), &tainted),
        node("d", &json!({ "disk": "ssd" }), &json!({ "unschedulable": true })),
        pod("busy", "3500m", &json!({ "nodeName": "b" })),
        pod("p", "1", &json!({ "nodeSelector": { "disk": "ssd" } })),
        pod("placed", "1", &json!({ "nodeName": "a" })),
    ];
    Cluster::of(&objects)
}

#[test]
fn pending_pod_output_matches_in_every_format() {
    let cluster = cluster();
    for form in ["table", "wide", "json", "yaml"] {
        let ran = cluster.ask("p", &["-o", form]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(3), ""), "{form}");
        assert_output(&format!("waits.{form}.txt"), &ran.stdout);
    }
}

#[test]
fn placed_pod_scores_match_in_every_format() {
    let cluster = cluster();
    for form in ["table", "wide", "json", "yaml"] {
        let ran = cluster.ask("placed", &["--scores", "-o", form]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{form}");
        assert_output(&format!("placed.{form}.txt"), &ran.stdout);
    }
}

#[test]
fn score_table_sums_are_correct_without_the_pod_itself() {
    let (answer, _) = cluster().answer("placed", &["--scores"]);
    let nodes = answer["scores"]["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 1 + usize::from(answer["fitsOn"] == 2), "{answer:#}");
    for node in nodes {
        let plugins = node["plugins"].as_array().expect("a list");
        let mut total = 0;
        for of in plugins {
            let number = |field: &str| of[field].as_i64().expect("a number");
            assert_eq!(number("weighted"), number("normalized") * number("weight"));
            total += number("weighted");
        }
        assert_eq!(node["total"], total);
    }
    let raw = |plugin: &str| {
        let plugins = nodes[0]["plugins"].as_array().expect("a list");
        plugins.iter().find(|of| of["plugin"] == plugin).expect("the plugin scores")["raw"].clone()
    };
    // On an empty node with 4 cpus and 8Gi: one cpu, and 200Mi by default, leave (75 + 97) / 2.
    assert_eq!(nodes[0]["node"], "a");
    assert_eq!(raw("NodeResourcesFit"), 86);
}

#[test]
fn documented_examples_match_the_output_of_explain_and_lint() {
    assert_page_shows_output("README.md", 2);
    assert_page_shows_output("docs/devices.md", 2);
    assert_page_shows_output("docs/explain.md", 4);
    assert_page_shows_output("docs/what-if.md", 3);
    assert_page_shows_output("docs/plan.md", 5);
    assert_page_shows_output("docs/record.md", 2);
    assert_page_shows_output("docs/lint.md", 1);
    assert_page_shows_output("docs/queue.md", 5);
    assert_page_shows_output("docs/groups.md", 1);
}

#[test]
fn every_code_is_documented() {
    let page = page("docs/explain.md");
    for code in supercargo_whatif::explain::ReasonCode::ALL {
        assert!(page.contains(&format!("| `{code:?}` |")), "{code:?} is not explained");
    }
    for code in supercargo_whatif::explain::CHANGE_CODES {
        assert!(page.contains(&format!("| `{code}` |")), "{code} is not explained");
    }
}

#[test]
fn lint_output_matches_in_every_format() {
    for form in ["table", "wide", "json", "yaml"] {
        let files = ["docs/lint/cluster.yaml", "docs/lint/workloads.yaml"];
        let ran = run(root(), &["lint", "--cluster", files[0], files[1], "-o", form]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(3), ""), "{form}");
        assert_output(&format!("lint.{form}.txt"), &ran.stdout);
    }
}
