//! `supercargo drain-check`: pods that cannot be placed elsewhere, and obstacles to a drain.

use crate::support::{Cluster, Ran, node, plain_node, pod, run};
use serde_json::{Value, json};

fn drain(objects: &[Value], node: &str, more: &[&str]) -> Ran {
    let cluster = Cluster::of(objects);
    let mut args = vec!["drain-check", node, "--cluster", "cluster"];
    args.extend(more);
    run(cluster.folder(), &args)
}

fn answer(objects: &[Value]) -> (Value, Option<i32>) {
    let ran = drain(objects, "a", &["-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("supercargo.dev/v1alpha1"), &json!("DrainCheck"))
    );
    (answer, ran.code)
}

fn on_a(name: &str, cpu: &str, priority: i32) -> Value {
    let mut pod = pod(name, cpu, &json!({ "nodeName": "a", "priority": priority }));
    pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }]);
    pod
}

#[test]
fn drained_pods_are_placed_by_priority_or_reported() {
    let objects = [
        plain_node("a"),
        plain_node("b"),
        on_a("large", "3", 0),
        on_a("important", "2", 5),
        on_a("small", "1", 0),
    ];
    let (answer, code) = answer(&objects);
    let went: Vec<(&str, &Value)> = answer["pods"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|pod| (pod["pod"].as_str().expect("a text"), &pod["to"]))
        .collect();
    let b = json!("b");
    assert_eq!(went, [("default/important", &b), ("default/large", &Value::Null), ("default/small", &b)]);
    assert_eq!((&answer["withoutPlace"], code), (&json!(1), Some(3)));
    let reasons = &answer["pods"][1]["reasons"];
    assert_eq!(reasons[0]["code"], "NodeCordoned", "{answer:#}");
    assert_eq!(reasons[1]["text"], "requests 3 cpu; most free: 2 of 4, on b");
}

#[test]
fn node_drains_if_all_its_pods_fit_elsewhere() {
    let objects = [plain_node("a"), plain_node("b"), on_a("p", "1", 0)];
    let ran = drain(&objects, "a", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a: 1 pod to evict, all fit elsewhere\n"));
    let wide = drain(&objects, "a", &["-o", "wide"]);
    assert!(wide.stdout.contains("  default/p would move to b\n"), "{wide:?}");
}

#[test]
fn node_bound_pods_stay_and_unmanaged_pods_are_marked() {
    let mut of_node = on_a("logs", "1", 0);
    of_node["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
    let mut mirror = pod("etcd-a", "1", &json!({ "nodeName": "a" }));
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    let objects =
        [plain_node("a"), plain_node("b"), of_node, mirror, pod("lonely", "1", &json!({ "nodeName": "a" }))];
    let (answer, code) = answer(&objects);
    assert_eq!((answer["pods"].as_array().map(Vec::len), code), (Some(1), Some(4)));
    assert_eq!(answer["pods"][0]["isUnmanaged"], true);
    let stay = answer["stay"].as_object().expect("by name");
    assert_eq!(stay.keys().collect::<Vec<_>>(), ["default/etcd-a", "default/logs"]);
}

#[test]
fn drained_pod_still_needs_its_node_selector() {
    let mut bound = on_a("p", "1", 0);
    bound["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let (answer, code) = answer(&[node("a", &json!({ "disk": "ssd" }), &json!({})), plain_node("b"), bound]);
    assert_eq!((&answer["withoutPlace"], code), (&json!(1), Some(3)));
    let codes: Vec<&Value> =
        answer["pods"][0]["reasons"].as_array().expect("a list").iter().map(|group| &group["code"]).collect();
    assert_eq!(codes, [&json!("NodeCordoned"), &json!("NodeSelectorMismatch")]);
}

#[test]
fn exhausted_disruption_budget_blocks_the_drain() {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "selector": { "matchLabels": { "app": "p" } } }, "status": { "disruptionsAllowed": 0 },
    });
    let (answer, code) = answer(&[plain_node("a"), plain_node("b"), on_a("p", "1", 0), budget]);
    assert_eq!(answer["budgets"], json!([{ "budget": "default/web", "allowed": 0, "pods": 1 }]));
    assert_eq!((&answer["willDrain"], code), (&json!(false), Some(4)));
}

fn budget(name: &str, app: &Value, allowed: i32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "selector": app }, "status": { "disruptionsAllowed": allowed },
    })
}

/// Returns the obstacles: code, number of pods, and the flag that accepts each.
fn obstacles(objects: &[Value], flags: &[&str]) -> (Vec<(String, usize, String)>, Option<i32>) {
    let ran = drain(objects, "a", &[&["-o", "json"], flags].concat());
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let each = answer["obstacles"].as_array().expect("a list").iter();
    let each = each
        .map(|it| (text(&it["code"]), it["pods"].as_array().map_or(0, Vec::len), text(&it["acceptedBy"])));
    (each.collect(), ran.code)
}

#[test]
fn obstacles_name_the_kubectl_flag_that_accepts_them() {
    let mut scratch = on_a("scratch", "1", 0);
    scratch["spec"]["volumes"] = json!([{ "name": "tmp", "emptyDir": {} }]);
    let mut of_node = on_a("logs", "1", 0);
    of_node["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
    of_node["spec"]["volumes"] = scratch["spec"]["volumes"].clone();
    let lonely = pod("lonely", "1", &json!({ "nodeName": "a" }));
    let guarded = on_a("guarded", "1", 0);
    let objects = [
        plain_node("a"),
        plain_node("b"),
        scratch,
        of_node,
        lonely,
        guarded,
        budget("none", &json!({ "matchLabels": { "app": "guarded" } }), 0),
    ];
    let flags = ["--force", "--delete-emptydir-data", "--disable-eviction"];
    let of = |code: &str, flag: &str| (code.to_owned(), 1, flag.to_owned());
    let all = [of("Unmanaged", flags[0]), of("EmptyDir", flags[1]), of("DisruptionBudget", flags[2])];
    assert_eq!(obstacles(&objects, &[]), (all.to_vec(), Some(4)));
    for (at, flag) in flags.iter().enumerate() {
        let mut rest = all.to_vec();
        rest.remove(at);
        assert_eq!(obstacles(&objects, &[flag]), (rest, Some(4)), "{flag}");
    }
    assert_eq!(obstacles(&objects, &flags), (vec![], Some(0)));
    let output = drain(&objects, "a", &["--ignore-daemonsets"]).stdout;
    assert!(
        output.starts_with("a: drain blocked: 3 of 3 pods cannot be evicted; all fit elsewhere\n"),
        "{output}"
    );
    assert!(output.contains("default/lonely: no controller would recreate it"), "{output}");
}

#[test]
fn partial_budget_delays_and_two_budgets_block_the_drain() {
    let objects = [plain_node("a"), plain_node("b"), on_a("p", "1", 0), on_a("q", "1", 0)];
    let with = |more: &[Value]| [&objects[..], more].concat();
    // An empty selector protects all pods of its namespace.
    let ran = drain(&with(&[budget("all", &json!({}), 1)]), "a", &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("default/all: 2 of its pods are on these nodes, 1 may be evicted now"),
        "{ran:?}"
    );
    let two =
        with(&[budget("all", &json!({}), 5), budget("p", &json!({ "matchLabels": { "app": "p" } }), 5)]);
    let several = ("SeveralBudgets".to_owned(), 1, "--disable-eviction".to_owned());
    assert_eq!(obstacles(&two, &[]), (vec![several], Some(4)));
}

/// Returns the drain's obstacles and waiting budgets for one unready pod and one ready pod of the same budget.
fn with_budget(
    status: &Value,
    policy: Option<&str>,
    unready: &Value,
) -> (Vec<(String, usize, String)>, Value) {
    let mut limit = budget("all", &json!({}), 0);
    limit["status"] = status.clone();
    limit["metadata"]["generation"] = json!(2);
    limit["spec"]["unhealthyPodEvictionPolicy"] = json!(policy);
    let mut pods = [on_a("well", "1", 0), on_a("ill", "1", 0)];
    pods[0]["status"] = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    pods[1]["status"] = unready.clone();
    let objects = [&[plain_node("a"), plain_node("b"), limit][..], &pods].concat();
    let ran = drain(&objects, "a", &["-o", "json"]);
    (obstacles(&objects, &[]).0, ran.json("DrainCheck")["budgets"].clone())
}

#[test]
fn unready_pods_are_judged_as_by_the_eviction_api() {
    let status = |allowed: i32, healthy: i32, desired: i32, observed: i32| {
        json!({ "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
            "observedGeneration": observed })
    };
    let running =
        |ready: &str| json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] });
    let (unready, starting) = (running("False"), json!({ "phase": "Pending" }));
    let blocked = |pods| vec![("DisruptionBudget".to_owned(), pods, "--disable-eviction".to_owned())];
    let short =
        |allowed: i32, pods: usize| json!([{ "budget": "default/all", "allowed": allowed, "pods": pods }]);
    // Healthy pods, desired ones, policy, the second pod; how many of both pods the budget blocks.
    let cases = [
        (status(0, 1, 2, 2), None, &unready, 2),
        (status(0, 1, 2, 2), Some("IfHealthyBudget"), &unready, 2),
        (status(0, 1, 2, 2), Some("AlwaysAllow"), &unready, 1),
        (status(0, 2, 2, 2), None, &unready, 1),
        (status(0, 2, 2, 2), Some("IfHealthyBudget"), &unready, 1),
        (status(0, 0, 0, 2), None, &unready, 2),
        (status(0, 1, 2, 2), None, &starting, 1),
        // The disruption controller has not seen the current spec.
        (status(5, 9, 2, 1), None, &unready, 1),
        (status(5, 1, 2, 1), None, &unready, 2),
    ];
    for (status, policy, ill, pods) in cases {
        assert_eq!(
            with_budget(&status, policy, ill),
            (blocked(pods), short(0, pods)),
            "{status} {policy:?} {ill}"
        );
    }
    let waits = with_budget(&status(1, 1, 2, 2), None, &unready);
    assert_eq!(waits, (vec![], short(1, 2)), "an unready pod uses up a disruption, too");
    assert_eq!(with_budget(&status(1, 3, 2, 2), None, &unready), (vec![], json!([])));
}

#[test]
fn several_budgets_block_running_pods_only() {
    let mut objects =
        vec![plain_node("a"), plain_node("b"), budget("one", &json!({}), 0), budget("two", &json!({}), 5)];
    for (name, phase) in [("runs", "Running"), ("starts", "Pending")] {
        let mut pod = on_a(name, "1", 0);
        pod["status"] = json!({ "phase": phase });
        objects.push(pod);
    }
    let several = ("SeveralBudgets".to_owned(), 1, "--disable-eviction".to_owned());
    assert_eq!(obstacles(&objects, &[]), (vec![several], Some(4)));
}

#[test]
fn nodes_drained_together_take_no_pods_of_each_other() {
    let on = |name: &str, node: &str| {
        let mut pod = on_a(name, "3", 0);
        pod["spec"]["nodeName"] = json!(node);
        pod
    };
    let old = |name: &str| node(name, &json!({ "pool": "old" }), &json!({}));
    let objects =
        [old("a"), old("b"), plain_node("c"), on("p", "a"), on("q", "b"), budget("all", &json!({}), 1)];
    let cluster = Cluster::of(&objects);
    for nodes in [&["a", "b"][..], &["-l", "pool=old"]] {
        let args = [&["drain-check", "--cluster", "cluster", "-o", "json"], nodes].concat();
        let ran = run(cluster.folder(), &args);
        let answer = ran.json("DrainCheck");
        assert_eq!((&answer["nodes"], ran.code), (&json!(["a", "b"]), Some(3)), "{nodes:?}");
        let to: Vec<&Value> =
            answer["pods"].as_array().expect("a list").iter().map(|pod| &pod["to"]).collect();
        assert_eq!(to, [&json!("c"), &Value::Null]);
        assert_eq!(answer["budgets"], json!([{ "budget": "default/all", "allowed": 1, "pods": 2 }]));
    }
    let none = run(cluster.folder(), &["drain-check", "--cluster", "cluster", "-l", "pool=gone"]);
    assert_eq!(none.refused(), "--selector: matches none of 3 nodes; check it with `kubectl get nodes -l`");
}

#[test]
fn unknown_node_is_reported_with_the_closest_name() {
    let ran = drain(&[plain_node("worker-1")], "worker-2", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(ran.stderr, "error: node worker-2 not found; did you mean worker-1?\n");
    assert_eq!(
        drain(&[plain_node("a")], "zzzz", &[]).stderr,
        "error: node zzzz not found; the cluster has 1 node: check the name and the cluster\n"
    );
}
