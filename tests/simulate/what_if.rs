//! What-if simulations: hypothetical changes, and comparison of two configurations.

use crate::support::{Files, Ran, list, node, pod};
use serde_json::{Value, json};

fn ask(files: &Files, flags: &[&str]) -> Ran {
    let mut args = vec!["--cluster", "cluster", "-o", "json", "--detail", "none"];
    args.extend(flags);
    files.run(&args, "")
}

fn summary(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    report["summary"].clone()
}

/// A pod with an owner, on a node or pending.
fn owned(name: &str, kind: &str, owner: &str, node: &str, cpu: u32) -> Value {
    let spec = if node.is_empty() { json!({}) } else { json!({ "nodeName": node }) };
    let mut pod = pod(name, cpu, &spec);
    pod["metadata"]["labels"] = json!({ "app": owner });
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": true }]);
    pod
}

fn web(name: &str, node: &str) -> Value {
    owned(name, "ReplicaSet", "web", node, 1)
}

fn files(objects: &[Value]) -> Files {
    Files::with(&list(objects), "")
}

fn refused(files: &Files, flags: &[&str]) -> String {
    ask(files, flags).refused().to_owned()
}

#[test]
fn added_node_runs_daemon_pods_then_pending_pods() {
    let daemon = owned("agent-x", "DaemonSet", "agent", "a", 1);
    let objects =
        [node("a", 2), daemon, owned("busy", "ReplicaSet", "busy", "a", 1), pod("waits", 2, &json!({}))];
    let files = files(&objects);
    let ran = ask(&files, &["--add-nodes", "2:template=a"]);
    // The new nodes have one cpu left beside the agent.
    assert_eq!((ran.placed(), ran.code), (vec![("default/waits".to_owned(), None)], Some(3)));
    let report = summary(&ran);
    assert_eq!((&report["before"]["nodes"], &report["after"]["nodes"]), (&json!(1), &json!(3)));
    assert_eq!((&report["before"]["placed"], &report["after"]["placed"]), (&json!(2), &json!(4)));
    assert_eq!((&report["before"]["pending"], &report["after"]["pending"]), (&json!(1), &json!(1)));
    let objects = [node("a", 2), owned("busy", "ReplicaSet", "busy", "a", 1), pod("waits", 2, &json!({}))];
    let ran = ask(&self::files(&objects), &["--add-nodes", "1:template=a"]);
    assert_eq!(
        (ran.placed(), ran.code),
        (vec![("default/waits".to_owned(), Some("a-new-1".to_owned()))], Some(0))
    );
    assert_eq!(summary(&ran)["after"]["pending"], 0);
}

#[test]
fn removed_node_reschedules_pods_but_not_daemon_pods() {
    let mut mirror = pod("proxy-a", 1, &json!({ "nodeName": "a" }));
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    let mut important = web("important", "a");
    important["spec"]["priority"] = json!(5);
    let daemon = owned("agent-a", "DaemonSet", "agent", "a", 1);
    let objects = [node("a", 9), node("b", 1), web("plain", "a"), important, daemon, mirror];
    let ran = ask(&files(&objects), &["--remove-node", "a"]);
    let placed =
        vec![("default/important".to_owned(), Some("b".to_owned())), ("default/plain".to_owned(), None)];
    assert_eq!((ran.placed(), ran.code), (placed, Some(3)));
    let report = summary(&ran);
    let moved = json!([
        { "pod": "default/important", "from": "a", "to": "b" }, { "pod": "default/plain", "from": "a", "to": null },
    ]);
    assert_eq!((&report["moved"], &report["after"]["placed"]), (&moved, &json!(1)));
}

#[test]
fn scaled_up_workload_adds_copies_of_its_pods() {
    let files = files(&[node("a", 3), web("web-1", "a")]);
    let ran = ask(&files, &["--scale", "rs/web=4"]);
    let on = |name: &str, node: Option<&str>| (format!("default/{name}"), node.map(str::to_owned));
    let expected = vec![on("web-new-2", Some("a")), on("web-new-3", Some("a")), on("web-new-4", None)];
    assert_eq!((ran.placed(), ran.code), (expected, Some(3)));
    let same = ask(&files, &["--scale", "web=1"]);
    assert_eq!((same.placed(), same.code), (vec![], Some(0)));
}

#[test]
fn scaled_up_workload_without_pods_uses_its_template() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 0, "selector": {}, "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod("x", 2, &json!({}))["spec"] } },
    });
    let ran = ask(&files(&[node("a", 3), deployment]), &["--scale", "deploy/web=1"]);
    assert_eq!(ran.placed(), [("default/web-new-1".to_owned(), Some("a".to_owned()))]);
}

#[test]
fn scaled_down_workload_removes_pods_in_controller_order() {
    // Two pods share node a, so one of them is removed: the newer one.
    let mut old = web("old", "a");
    old["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut new = web("new", "a");
    new["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:00Z");
    let objects = [node("a", 2), node("b", 1), old, new, web("alone", "b"), pod("waits", 1, &json!({}))];
    let ran = ask(&files(&objects), &["--scale", "web=2"]);
    assert_eq!(ran.placed(), [("default/waits".to_owned(), Some("a".to_owned()))]);
    // Pending pods are removed first.
    let waits = [node("a", 1), web("there", "a"), web("waits", "")];
    let ran = ask(&files(&waits), &["--scale", "web=1"]);
    assert_eq!((ran.placed(), &summary(&ran)["after"]["placed"]), (vec![], &json!(1)));
    // A StatefulSet removes the highest ordinal.
    let db = |at: u32, node: &str| owned(&format!("db-{at}"), "StatefulSet", "db", node, 1);
    let objects = [node("a", 1), node("b", 1), db(9, "a"), db(10, "b"), pod("waits", 1, &json!({}))];
    let ran = ask(&files(&objects), &["--scale", "sts/db=1"]);
    assert_eq!(ran.placed(), [("default/waits".to_owned(), Some("b".to_owned()))]);
}

#[test]
fn invalid_changes_are_rejected_with_suggestions() {
    let elsewhere = {
        let mut pod = owned("q", "StatefulSet", "queue", "", 1);
        pod["metadata"]["namespace"] = json!("prod");
        pod
    };
    let objects = [
        node("worker-1", 1),
        web("w", "worker-1"),
        owned("s", "StatefulSet", "web", "worker-1", 1),
        elsewhere,
        owned("agent-x", "DaemonSet", "agent", "worker-1", 1),
    ];
    let files = files(&objects);
    let error = |flags: &[&str]| refused(&files, flags);
    assert_eq!(error(&["--remove-node", "worker-2"]), "node worker-2 not found; did you mean worker-1?");
    assert_eq!(
        error(&["--add-nodes", "1:template=woker-1"]),
        "node woker-1 not found; did you mean worker-1?"
    );
    assert_eq!(
        error(&["--scale", "wbe=1"]),
        "workload wbe not found in namespace default; did you mean web?"
    );
    assert_eq!(
        error(&["--scale", "queue=1"]),
        "workload queue not found in namespace default; it exists with -n prod"
    );
    assert_eq!(
        error(&["--scale", "web=1"]),
        "--scale: ReplicaSet and StatefulSet share the name web; add the kind, for example replicaset/web"
    );
    for agent in ["agent=3", "ds/agent=3", "daemonsets/agent=3", "DaemonSet.apps/agent=3"] {
        let error = error(&["--scale", agent]);
        assert!(error.starts_with("--scale agent: a DaemonSet runs one pod per node"), "{error}");
    }
    let nodes_error = error(&["--scale", "nodes/agent=3"]);
    assert!(nodes_error.starts_with("--scale nodes/agent: nodes is not a workload; use "), "{nodes_error}");
    assert_eq!(ask(&files, &["--remove-node", "worker-1", "--remove-node", "worker-1"]).code, Some(2));
    for wrong in [
        &["--add-nodes", "x:template=worker-1"][..],
        &["--add-nodes", "100001:template=worker-1"],
        &["--scale", "web"],
    ] {
        assert_eq!(ask(&files, wrong).code, Some(2), "{wrong:?}");
    }
    // An error: neither pods nor changes are given.
    assert_eq!(ask(&files, &[]).code, Some(2));
    let both = files.run(&["--cluster", "cluster", "--live", "--scale", "web=1"], "");
    assert_eq!(both.code, Some(2));
}

#[test]
fn compared_configurations_are_independent() {
    let objects = [node("a", 4), node("b", 4), web("there", "a")];
    let files = Files::with(&list(&objects), &list(&[pod("p", 1, &json!({})), pod("q", 1, &json!({}))]));
    let strategy = json!({ "scoringStrategy": { "type": "MostAllocated" } });
    let profile = json!({ "pluginConfig": [{ "name": "NodeResourcesFit", "args": strategy }] });
    let config = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile] });
    files.write("packing", &config.to_string());
    let compared = ask(&files, &["--pods", "pods", "--compare-config", "packing"]);
    let packed = ask(&files, &["--pods", "pods", "--config", "packing", "--compare-config", "packing"]);
    assert_eq!(summary(&packed)["elsewhere"], json!([]));
    // The second configuration places the pods as it does when used alone.
    let alone: Vec<_> = packed.placed();
    let report = summary(&compared);
    let elsewhere = report["elsewhere"].as_array().expect("a list");
    assert!(!elsewhere.is_empty(), "{report:#}");
    for it in elsewhere {
        let of = |all: &[(String, Option<String>)]| {
            all.iter().find(|(pod, _)| it["pod"] == *pod.as_str()).cloned().expect("the entry exists").1
        };
        assert_eq!((&json!(of(&compared.placed())), &json!(of(&alone))), (&it["node"], &it["compared"]));
    }
    assert_eq!((&report["after"]["placed"], &report["compared"]["placed"]), (&json!(3), &json!(3)));
    // Without pods and changes both configurations reschedule everything.
    let ran = ask(&files, &["--compare-config", "packing"]);
    assert_eq!((ran.placed().len(), ran.code), (1, Some(0)));
}

#[test]
fn utilization_and_skew_match_manual_calculation() {
    let zoned = |name: &str, zone: &str, cpu: u32| {
        let mut node = node(name, cpu);
        node["metadata"]["labels"]["zone"] = json!(zone);
        node
    };
    let spread = json!([{ "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "web" } } }]);
    let on = |name: &str, node: &str| {
        let mut pod = web(name, node);
        pod["spec"]["topologySpreadConstraints"] = spread.clone();
        pod
    };
    let objects = [zoned("a", "x", 4), zoned("b", "y", 2), on("1", "a"), on("2", "a"), on("3", "b")];
    let ran = ask(&files(&objects), &["--remove-node", "b"]);
    let report = summary(&ran);
    let cpu = |when: &str| report[when]["resources"].as_array().expect("a list")[0].clone();
    // Half of 4 and half of 2.
    let before = json!({
        "resource": "cpu", "requested": 3000, "allocatable": 6000,
        "mean": 0.5, "deviation": 0.0, "lowest": 0.5, "highest": 0.5,
    });
    assert_eq!(cpu("before"), before);
    let after = json!({
        "resource": "cpu", "requested": 3000, "allocatable": 4000,
        "mean": 0.75, "deviation": 0.0, "lowest": 0.75, "highest": 0.75,
    });
    assert_eq!(cpu("after"), after);
    let skew = json!([{
        "namespace": "default", "selector": "app=web", "topologyKey": "zone", "maxSkew": 2, "isRequired": true,
        "before": 1, "after": 0,
    }]);
    assert_eq!(report["skews"], skew);
    // 1 of 4 cpus and 2 of 2: shares 0.25 and 1, each 0.375 from the mean.
    let uneven = [node("a", 4), node("b", 2), web("1", "a"), web("2", "b"), web("3", "b")];
    let report = summary(&ask(&files(&uneven), &["--scale", "web=3"]));
    let cpu = &report["before"]["resources"][0];
    assert_eq!(
        (&cpu["mean"], &cpu["deviation"], &cpu["lowest"], &cpu["highest"]),
        (&json!(0.625), &json!(0.375), &json!(0.25), &json!(1.0))
    );
}

#[test]
fn applied_preemption_is_reverted_before_the_comparison() {
    let important = pod("important", 2, &json!({ "priority": 10 }));
    let files = Files::with(&list(&[node("a", 2), node("b", 1), web("victim", "a")]), &list(&[important]));
    let config =
        json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" });
    files.write("same", &config.to_string());
    let ran = ask(&files, &["--pods", "pods", "--preemption", "apply", "--compare-config", "same"]);
    let report = summary(&ran);
    assert_eq!((&report["after"], ran.code), (&report["compared"], Some(0)), "{report:#}");
    assert_eq!((&report["after"]["placed"], &report["after"]["pending"]), (&json!(1), &json!(1)));
    for (mode, said) in [("apply", "; 1 pod preempted\n"), ("report", "; 1 pod would be preempted\n")] {
        let ran = files
            .run(&["--cluster", "cluster", "--pods", "pods", "--preemption", mode, "--remove-node", "b"], "");
        assert!(ran.stdout.contains(said), "{mode}: {ran:?}");
    }
}

/// `h` takes the room that `holder` is nominated to. The comparison starts with that nomination again, which keeps the
/// less important `x` pending.
#[test]
fn comparison_starts_with_overtaken_nominations() {
    let with = |name: &str, cpu: u32, priority: i32, node: &str| {
        pod(name, cpu, &json!({ "priority": priority, "nodeName": node }))
    };
    let mut holder = with("holder", 2, 5, "");
    holder["status"] = json!({ "nominatedNodeName": "a" });
    let pods = list(&[with("x", 2, 1, ""), with("h", 4, 10, "")]);
    let config =
        json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" });
    let with_cluster = |objects: &[Value]| {
        let files = Files::with(&list(objects), &pods);
        files.write("same", &config.to_string());
        ask(&files, &["--pods", "pods", "--compare-config", "same"])
    };
    let ran = with_cluster(&[node("a", 4), with("v", 2, 1, "a"), holder]);
    assert_eq!(ran.placed(), [("default/x".to_owned(), None), ("default/h".to_owned(), None)]);
    assert_eq!(ran.decisions()[1]["preemption"]["nominatedNode"], "a");
    let told = summary(&ran);
    assert_eq!((&told["elsewhere"], &told["compared"]["placed"]), (&json!([]), &json!(1)), "{told:#}");
    let ran = with_cluster(&[node("a", 4), with("v", 2, 1, "a")]);
    assert_eq!(ran.placed()[0].1.as_deref(), Some("a"), "only the nomination keeps x pending");
}

/// Returns the pod rows of the wide table: each pod with its node.
fn rows(wide: &str) -> Vec<(String, Option<String>)> {
    let rows = wide.lines().skip_while(|line| !line.starts_with("POD ")).skip(1);
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().expect("a pod"), words.next().filter(|node| node != "<none>"))
    };
    rows.take_while(|line| !line.is_empty()).map(row).collect()
}

#[test]
fn every_what_if_output_gives_the_same_placements() {
    let mut objects: Vec<Value> = (0..12).map(|at| node(&format!("n{at}"), 4)).collect();
    objects.extend((0..20).map(|at| web(&format!("web-{at}"), &format!("n{}", at % 5))));
    let files = files(&objects);
    let flags = ["--cluster", "cluster", "--remove-node", "n0", "--scale", "web=40", "--seed", "7"];
    let with = |more: &[&str]| files.run(&[&flags, more].concat(), "");
    let full = with(&["-o", "json", "--detail", "full"]).placed();
    assert_eq!(full.len(), 24);
    for detail in ["brief", "none"] {
        assert_eq!(with(&["-o", "json", "--detail", detail]).placed(), full, "{detail}");
    }
    assert_eq!(rows(&with(&["-o", "wide"]).stdout), full);
    // The table has one row for all pods with the same outcome.
    let table = with(&[]).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "4 pods lost their nodes: all fit elsewhere; 20 of 20 new pods fit");
    let pods = lines[2..].iter().take_while(|line| !line.is_empty()).map(|line| {
        let count = line.split_whitespace().next().expect("a number");
        count.parse::<usize>().expect("a number")
    });
    let pods: Vec<usize> = pods.collect();
    assert_eq!((pods.len(), pods.iter().sum::<usize>()), (2, 24), "{table}");
}

#[test]
fn summary_comes_first_and_counts_unchanged_pending_pods() {
    let mut objects = vec![node("a", 4), node("b", 2)];
    objects.extend((0..3).map(|at| web(&format!("web-{at}"), "a")));
    objects.extend((0..300).map(|at| owned(&format!("huge-{at}"), "ReplicaSet", "huge", "", 64)));
    let ran = files(&objects).run(&["--cluster", "cluster", "--remove-node", "a"], "");
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stdout.starts_with(
            "3 pods lost their nodes: 2 fit elsewhere, 1 no longer fit; 300 pods still pending\n"
        ),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains("huge"), "{}", ran.stdout);
    let wide = files(&objects).run(&["--cluster", "cluster", "--remove-node", "a", "-o", "wide"], "");
    assert_eq!(rows(&wide.stdout).len(), 303);
    let report = summary(&ask(&files(&objects), &["--remove-node", "a"]));
    let outcome = json!({
        "lostNode": { "pods": 3, "placed": 2 }, "new": { "pods": 0, "placed": 0 },
        "pending": { "pods": 300, "placed": 0 }, "victims": 0,
    });
    assert_eq!(report["outcome"], outcome);
}

#[test]
fn two_pods_do_not_share_a_victim() {
    let low = |name: &str, node: &str| {
        let mut pod = web(name, node);
        pod["spec"]["priority"] = json!(0);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
        pod
    };
    let objects = [node("a", 2), node("b", 2), low("v", "a"), low("w", "b")];
    let high = |name: &str| pod(name, 2, &json!({ "priority": 100 }));
    let files = Files::with(&list(&objects), &list(&[high("p"), high("q"), high("r")]));
    for detail in ["full", "brief", "none"] {
        let decisions = files.simulate(&["-o", "json", "--detail", detail]).decisions();
        let victims: Vec<&Value> =
            decisions.iter().filter_map(|it| it["preemption"]["victims"].as_array()).flatten().collect();
        let mut names: Vec<&str> = victims.iter().filter_map(|it| it.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["default/v", "default/w"], "{detail}");
        assert_eq!(decisions[2]["preemption"], Value::Null, "{detail}");
        assert!(decisions.iter().all(|it| it["node"].is_null()), "{detail}");
    }
}
