//! Explains a large cluster completely; memory and output are bounded. Time is not measured.

use crate::support::{Cluster, node, pod};
use serde_json::{Value, json};

#[test]
fn thousand_nodes_are_evaluated_with_a_short_answer() {
    let mut objects: Vec<Value> = (0..1_000)
        .map(|at| node(&format!("n{at:04}"), &json!({ "zone": format!("z{}", at % 3) }), &json!({})))
        .collect();
    objects.extend(
        (0..1_000).map(|at| pod(&format!("q{at}"), "3800m", &json!({ "nodeName": format!("n{at:04}") }))),
    );
    objects.push(pod("p", "1", &json!({})));
    let cluster = Cluster::of(&objects);
    let ran = cluster.ask("p", &[]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stdout.contains("  1000         1000  InsufficientCpu"), "{}", ran.stdout);
    assert!(ran.stdout.lines().count() < 60, "{}", ran.stdout);
}
