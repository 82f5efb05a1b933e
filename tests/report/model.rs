//! The data of a report: consistent columns, states, skew, pending pods, and selection of scores.

use crate::cluster;
use crate::offline::assert_matches_file;
use crate::support::{Folder, node, pod, report, root};
use serde_json::{Value, json};

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

#[test]
fn report_of_a_small_cluster_matches_its_snapshot() {
    let ran = report(
        root(),
        &["--cluster", "docs/simulate/cluster.yaml", "-f", "docs/simulate/pods.yaml", "-o", "json"],
    );
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let model: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    let text = format!("{model:#}\n").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert_matches_file("tests/report/shown/model.json", &text);
}

#[test]
fn node_requests_are_the_sum_of_pod_requests() {
    let folder = Folder::of(&cluster::cluster(40, 300));
    folder.write("new", &[cluster::checkout(30)]);
    let model = folder.model(&["-f", "new", "--score-tables", "0", "--explanations", "0"]);
    let pods = &model["pods"];
    assert_eq!(model["states"], json!(["before", "after"]));
    for (state, at) in list(&pods["node"]).iter().enumerate() {
        for (resource, requested) in list(&model["nodes"]["requested"][state]).iter().enumerate() {
            let mut sums = vec![0; list(requested).len()];
            for (pod, node) in list(at).iter().enumerate() {
                let request = pods["request"][pod].as_u64().expect("a number") as usize;
                if let Some(node) = node.as_u64() {
                    sums[node as usize] += model["requests"][request][resource].as_i64().expect("a number");
                }
            }
            assert_eq!(*requested, json!(sums), "state {state}, resource {resource}");
        }
    }
    let placed = |state: usize| list(&pods["node"][state]).iter().filter(|at| at.as_i64() >= Some(0)).count();
    assert_eq!((placed(0), placed(1)), (300, 330));
    assert_eq!(
        model["simulated"],
        json!({ "pods": 30, "placed": 30, "evicted": 0, "nodes": model["simulated"]["nodes"] })
    );
}

#[test]
fn pod_of_a_deployment_is_owned_by_the_deployment() {
    let folder = Folder::of(&cluster::cluster(4, 8));
    let model = folder.model(&[]);
    let kinds: Vec<&Value> = list(&model["owners"]).iter().map(|owner| &owner["kind"]).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| **kind == "Deployment"), "{kinds:?}");
}

#[test]
fn reported_skew_equals_the_schedulers() {
    let constraint = json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "a" } }, "minDomains": 3,
    }] });
    let on = |node: &str| {
        let mut spec = constraint.clone();
        spec["nodeName"] = json!(node);
        spec
    };
    let mut going = pod("going", "1", &on("n1"));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let objects = [
        node("n1", "east"),
        node("n2", "west"),
        pod("p1", "1", &on("n1")),
        pod("p2", "1", &on("n1")),
        pod("p3", "1", &on("n2")),
        going,
    ];
    let model = Folder::of(&objects).model(&[]);
    let spread = &model["spread"][0];
    assert_eq!(
        (&spread["maxSkew"], &spread["isHard"], &spread["pods"]),
        (&json!(1), &json!(true), &json!(4))
    );
    // Two zones are fewer than minDomains, so the minimum is 0. A pod that is being deleted does not count.
    let expected = json!([{ "skew": 2, "domainCount": 2, "domains": [["east", 2], ["west", 1]] }]);
    assert_eq!(spread["states"], expected);
}

#[test]
fn identical_pods_share_one_of_a_limited_number_of_explanations() {
    let folder = Folder::of(&cluster::cluster(20, 10));
    let all = folder.model(&[]);
    let of = |model: &Value, at: usize| {
        (list(&model["pending"][at]["pods"]).len(), model["pending"][at]["explanation"]["verdict"].clone())
    };
    assert_eq!(list(&all["pending"]).len(), 3);
    assert_eq!(of(&all, 0), (3, json!("neverFits")));
    assert_eq!(all["pending"][0]["explanation"]["hints"][0]["didYouMean"], "disk=ssd");
    let one = folder.model(&["--explanations", "1"]);
    assert_eq!((list(&one["pending"]).len(), list(&one["unexplained"]).len()), (1, 2));
}

#[test]
fn scores_cover_one_pod_of_each_owner_first() {
    let folder = Folder::of(&cluster::cluster(20, 100));
    let model = folder.model(&["--score-tables", "8"]);
    let owners: Vec<&Value> = list(&model["decisions"])
        .iter()
        .map(|decision| &model["pods"]["owner"][decision["pod"].as_u64().expect("a number") as usize])
        .collect();
    let mut different = owners.clone();
    different.sort_by_key(|owner| owner.as_i64());
    different.dedup();
    assert_eq!((owners.len(), different.len()), (8, 8), "{owners:?}");
    for decision in list(&model["decisions"]) {
        for row in list(&decision["nodes"]) {
            let sum: i64 = list(&row["normalized"])
                .iter()
                .zip(list(&decision["weights"]))
                .map(|(score, weight)| score.as_i64().expect("a score") * weight.as_i64().expect("a weight"))
                .sum();
            assert_eq!(row["total"], json!(sum));
        }
    }
}

#[test]
fn simulated_decision_is_reported_as_it_was_made() {
    let folder = Folder::of(&[node("n1", "z"), node("n2", "z")]);
    folder.write(
        "new",
        &[pod("first", "3", &json!({})), pod("second", "3", &json!({})), pod("third", "3", &json!({}))],
    );
    let model = folder.model(&["-f", "new"]);
    let fits: Vec<&Value> = list(&model["decisions"]).iter().map(|decision| &decision["fitsOn"]).collect();
    assert_eq!(fits, [&json!(2), &json!(1)], "each winner counts for the next");
    assert!(list(&model["decisions"]).iter().all(|decision| decision["isMade"] == true));
    assert_eq!(model["simulated"], json!({ "pods": 3, "placed": 2, "evicted": 0, "nodes": 2 }));
    assert_eq!(model["pending"][0]["explanation"]["pod"], "default/third");
}

#[test]
fn preempted_pod_is_absent_in_the_after_state() {
    let placed = json!({ "nodeName": "n1", "priority": 0 });
    let folder = Folder::of(&[node("n1", "z"), pod("old", "3", &placed)]);
    folder.write("new", &[pod("vip", "3", &json!({ "priority": 1000 }))]);
    let model = folder.model(&["-f", "new", "--preemption", "apply"]);
    assert_eq!(model["pods"]["name"], json!(["old", "vip"]));
    assert_eq!(model["pods"]["node"], json!([[0, -2], [-2, 0]]));
    assert_eq!(model["simulated"]["evicted"], 1);
    let kept = folder.model(&["-f", "new"]);
    assert_eq!(kept["pods"]["node"], json!([[0, -2], [0, -1]]));
}

#[test]
fn changed_cluster_is_shown_before_and_after() {
    let on = |node: &str| json!({ "nodeName": node });
    let objects = [
        node("n1", "east"),
        node("n2", "west"),
        pod("moves", "3", &on("n1")),
        pod("stays", "3", &on("n2")),
        pod("waits", "3", &json!({})),
    ];
    let folder = Folder::of(&objects);
    let flags = ["--remove-node", "n1", "--add-nodes", "2:template=n2"];
    let model = folder.model(&flags);
    assert_eq!(model["source"], "cluster, with 2 nodes added like n2, without n1");
    assert_eq!(model["nodes"]["name"], json!(["n1", "n2", "n2-new-1", "n2-new-2"]));
    assert_eq!(model["nodes"]["absent"], json!([[2, 3], [0]]));
    assert_eq!(model["nodes"]["requested"][0][0], json!([3_000, 3_000, 0, 0]));
    assert_eq!(model["nodes"]["requested"][1][0], json!([0, 3_000, 3_000, 3_000]));
    let (before, after) = (&model["pods"]["node"][0], &model["pods"]["node"][1]);
    assert_eq!(*before, json!([0, 1, -1]), "moves, stays, waits");
    let mut new: Vec<Option<i64>> = [0, 2].map(|pod: usize| after[pod].as_i64()).to_vec();
    new.sort_unstable();
    assert_eq!((new, &after[1]), (vec![Some(2), Some(3)], &json!(1)));
    assert_eq!(model["simulated"], json!({ "pods": 2, "placed": 2, "evicted": 0, "nodes": 2 }));
    assert!(folder.page(&flags).contains("<b>2 → 3</b>"), "the number of nodes");
}

/// Returns a plan that moves a pod of the default namespace.
fn plan(pod: &str, from: &str, to: &str) -> String {
    let step =
        json!({ "step": 1, "pod": format!("default/{pod}"), "from": from, "to": to, "why": "it <fits>" });
    json!({ "apiVersion": "supercargo.dev/v1alpha1", "kind": "FreeNodesPlan", "moves": [step] }).to_string()
}

#[test]
fn plan_is_shown_with_its_moves_before_and_after() {
    let on = |node: &str| json!({ "nodeName": node });
    let folder =
        Folder::of(&[node("n1", "z"), node("n2", "z"), pod("a", "3", &on("n1")), pod("b", "1", &on("n2"))]);
    std::fs::write(folder.path().join("plan.json"), plan("a", "n1", "n2")).expect("it can be written");
    let model = folder.model(&["--plan", "plan.json"]);
    assert_eq!(model["source"], "cluster, with the moves of plan.json");
    assert_eq!(model["pods"]["node"], json!([[0, 1], [1, 1]]));
    assert_eq!(model["nodes"]["requested"][1][0], json!([0, 4_000]));
    assert_eq!(model["moves"], json!([{ "step": 1, "pod": 0, "from": 0, "to": 1, "why": "it <fits>" }]));
    let page = folder.page(&["--plan", "plan.json"]);
    assert!(page.contains("<title>1 pod from n1 to n2</title>"), "the drawing");
    assert!(page.contains("<td>it &lt;fits&gt;</td>") && page.contains("<a href=\"#moves\">"), "the table");
    assert!(!folder.page(&[]).contains("id=\"moves\""));
}

#[test]
fn plan_that_does_not_match_the_cluster_is_refused_with_its_step() {
    let folder = Folder::of(&[node("n1", "z"), node("n2", "z"), pod("a", "3", &json!({ "nodeName": "n1" }))]);
    for (text, why) in [
        (plan("a", "n2", "n1"), "step 1: the pod default/a is on n1, and not on n2"),
        (plan("b", "n1", "n2"), "step 1: there is no pod default/b"),
        (plan("a", "n1", "n3"), "step 1: there is no node n3"),
        ("{}".to_owned(), "plan.json: missing field `apiVersion`"),
    ] {
        std::fs::write(folder.path().join("plan.json"), text).expect("it can be written");
        let ran = folder.run(&["--plan", "plan.json"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

#[test]
fn equal_clusters_make_equal_reports() {
    let folder = Folder::of(&cluster::cluster(30, 200));
    folder.write("new", &[cluster::checkout(10)]);
    assert_eq!(folder.page(&["-f", "new"]), folder.page(&["-f", "new"]));
}

#[test]
fn groups_of_pending_members_are_explained_once() {
    let member =
        |name: &str, group: &str| pod(name, "3", &json!({ "schedulingGroup": { "podGroupName": group } }));
    let group = |name: &str, min: usize| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": { "name": name, "namespace": "default", "uid": name },
            "spec": { "schedulingPolicy": { "gang": { "minCount": min } } },
        })
    };
    let members = [member("a", "g"), member("b", "g"), member("c", "h")];
    let objects = [&[node("n", "z"), group("g", 2), group("h", 1)], &members[..]].concat();
    let folder = Folder::of(&objects);
    let gates = ["--emulated-version", "1.36", "--feature-gates=GenericWorkload=true,GangScheduling=true"];
    let model = folder.model(&gates);
    let groups: Vec<(&Value, &Value)> =
        list(&model["groups"]).iter().map(|group| (&group["group"], &group["verdict"])).collect();
    assert_eq!(
        groups,
        [(&json!("default/g"), &json!("neverFits")), (&json!("default/h"), &json!("startsNow"))]
    );
    let verdicts: Vec<(&Value, usize)> = list(&model["pending"])
        .iter()
        .map(|waiting| (&waiting["explanation"]["verdict"], list(&waiting["pods"]).len()))
        .collect();
    assert_eq!(verdicts, [(&json!("waitsForGroup"), 2), (&json!("fitsNow"), 1)], "{model:#}");
    let page = folder.page(&gates);
    assert!(page.contains("pod group default/g"), "the page lists the group");
    assert!(page.contains("even in an empty cluster, only 1 member of at least 2 fits"), "the page says why");
    assert_eq!(folder.model(&[])["groups"], Value::Null);
}
